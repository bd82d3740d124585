/* SPDX-License-Identifier: BSD-2-Clause */
/* Conversion of an address vector to a path. */
#ifndef UROCE_DEVICE_PATH_H
#define UROCE_DEVICE_PATH_H

#include "object/qp.h"

struct device;

/* Resolves an address vector. 0, -ENODATA: the entry of the source GID is empty, or -EINVAL: bad port or GID
 * index, or a destination that this device cannot address. `link` stays NULL. */
int path_resolve(struct device *d, const struct ibv_ah_attr *av, struct path *path);

#endif
