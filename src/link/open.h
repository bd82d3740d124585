/* SPDX-License-Identifier: BSD-2-Clause */
/* Which link serves an address: UROCE_LINK. */
#ifndef UROCE_LINK_OPEN_H
#define UROCE_LINK_OPEN_H

#include "link/link.h"

/* Opens the link that UROCE_LINK names, or the udp link where that cannot be had, which a warning says once. 0 or the
 * error of link_udp_open(). `slot`: the QPs of this process, by the slot of their numbers (base/qpn.h). */
int link_open(const union ibv_gid *gid, uint16_t slot, struct link **link);
/* The process has these slots now: link_open() knows of one. 0 or -errno. */
int link_set_slots(struct link *link, const uint16_t *slots, uint32_t count);

#endif
