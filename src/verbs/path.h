/* SPDX-License-Identifier: BSD-2-Clause */
/* From an address vector to where packets go. */
#ifndef UROCE_PATH_H
#define UROCE_PATH_H

#include "object/qp.h"
#include "verbs/device.h"

#define PATH_ANY_SGID 255 /* "-1" in eight bits: choose by the destination's family */

/* 0 or -EINVAL: port, source GID index, destination that this device cannot name. `link` stays NULL. */
int path_resolve(struct device *d, const struct ibv_ah_attr *av, struct path *path);

#endif
