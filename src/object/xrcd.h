/* SPDX-License-Identifier: BSD-2-Clause */
/* An XRC domain (IBTA annex A14): messages that arrive at its target QPs may use its SRQs, whichever process has
 * opened it for either. Made and freed by verbs/xrcd.c; `users` counts the objects in it. What a domain is stands in
 * its name: those with the same one are the same. */
#ifndef UROCE_XRCD_H
#define UROCE_XRCD_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>

struct hca;

/* Of a file, its device and inode; else a random number, and nobody else finds it. */
struct xrcd_name {
	uint64_t device, inode;
};
#define XRCD_PRIVATE UINT64_MAX /* in place of the device */

struct xrcd {
	struct ibv_xrcd base; /* what the application holds: first */
	struct hca *hca;
	struct xrcd_name name;
	_Atomic uint32_t users;
};

static inline bool xrcd_same(const struct xrcd_name *a, const struct xrcd_name *b)
{
	return a->device == b->device && a->inode == b->inode;
}

#endif
