/* SPDX-License-Identifier: BSD-2-Clause */
/* An XRC domain (IBTA annex A14): messages that arrive at its target QPs may use its SRQs, also if different processes
 * have opened it for the QP and the SRQ. verbs/xrcd.c creates and frees it; `users` counts the objects in it. Two
 * domains with the same name are the same. */
#ifndef UROCE_XRCD_H
#define UROCE_XRCD_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>

struct hca;

/* The device and inode of a file; without a file, a random number, so the domain is private. */
struct xrcd_name {
	uint64_t device, inode;
};
#define XRCD_PRIVATE UINT64_MAX /* the device of a private domain */

struct xrcd {
	struct ibv_xrcd base; /* the application's object: first */
	struct hca *hca;
	struct xrcd_name name;
	_Atomic uint32_t users;
};

static inline bool xrcd_same(const struct xrcd_name *a, const struct xrcd_name *b)
{
	return a->device == b->device && a->inode == b->inode;
}

#endif
