/* SPDX-License-Identifier: BSD-2-Clause */
/* Which link serves an address: UROCE_LINK. */
#ifndef UROCE_LINK_OPEN_H
#define UROCE_LINK_OPEN_H

#include "link/link.h"

/* Opens the link that UROCE_LINK names, or the udp link where that cannot be had, which a warning says once. 0 or the
 * error of link_udp_open(). `slot`: the QPs of this process, by the first byte of their numbers. */
int link_open(const union ibv_gid *gid, uint8_t slot, struct link **link);

#endif
