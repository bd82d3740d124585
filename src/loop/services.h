/* SPDX-License-Identifier: BSD-2-Clause */
/* Which process has which service id at which address: a table in the memory that the processes of one user
 * share (steering.h). Who changes it holds that memory's lock; anybody may read it at any time. An entry of a
 * process that has died is as good as none, and goes when somebody else wants its place. */
#ifndef UROCE_SERVICES_H
#define UROCE_SERVICES_H

#include <stdatomic.h>

#include "loop/gsi.h"

/* All zeros: never used. Atomic, as readers hold no lock: they look at `owner` before and after the rest. */
struct service {
	_Atomic uint32_t owner; /* enum owner_bits: 0 of an entry that others may follow in the row */
	_Atomic uint64_t id;
	_Atomic uint64_t address[2]; /* as it stands in a GID */
};

struct services {
	_Atomic uint32_t used; /* entries that stand in a row; relaxed: who has the lock changes it */
	struct service entry[GSI_SERVICES];
};

/* See gsi_claim(): 0, -EADDRINUSE or -ENOSPC. `is_alive` says whether a slot's process lives. */
int services_claim(struct services *s, uint8_t slot, const union ibv_gid *address, uint64_t id, enum gsi_claim kind,
		   bool (*is_alive)(uint8_t slot));
void services_release(struct services *s, uint8_t slot, const union ibv_gid *address, uint64_t id);
/* What an earlier process in this slot has left. */
void services_forget(struct services *s, uint8_t slot);
/* See gsi_owner(). Needs no lock. */
uint8_t services_owner(struct services *s, const union ibv_gid *to, uint64_t id, bool (*is_alive)(uint8_t slot));

#endif
