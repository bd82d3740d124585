/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of services: the process that has a service id at an address. It lies in the memory that the processes of
 * one user share (steering.h). A process that changes it holds that memory's lock; any process may read it at any time.
 * The entry of a dead process does not count, and another process may overwrite it. */
#ifndef UROCE_HOST_SERVICES_H
#define UROCE_HOST_SERVICES_H

#include <stdatomic.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* Claims a service id (host byte order) at an address; all zeros: at every address, of both families;
 * ::ffff:0.0.0.0: at every IPv4 address; gsi_any_ipv6: at every IPv6 address. Claiming the same (address, id) again
 * changes the kind: a process that has it several times must count its own claims. 0, or -EADDRINUSE (another claim
 * excludes it, of this process or another; -EADDRNOTAVAIL, if one of the addresses is a wildcard), -ENOSPC
 * (GSI_SERVICES are claimed), -ENODEV (no context is open), or the reason why the table cannot be had (-EACCES,
 * -ENOMEM, -EAGAIN: its lock is held by a process that was stopped). May block for as long as another process changes
 * the table: do not call it from gsi_ops. */
#define GSI_SERVICES 32768

enum gsi_claim {
	GSI_BOUND,   /* excludes other claims */
	GSI_SHARED,  /* allows other GSI_SHARED claims (RDMA_OPTION_ID_REUSEADDR) */
	GSI_LISTENS, /* excludes other claims, and gsi_owner() finds it */
};

extern const union ibv_gid gsi_any_ipv6; /* a multicast address: no host has it */

/* An entry; all zeros: never used. Atomic, as readers hold no lock: they compare `owner` before and after they read the
 * rest. */
struct service {
	_Atomic uint32_t owner; /* enum owner_bits; 0: free, with used ones possibly after it */
	_Atomic uint64_t id;
	_Atomic uint64_t address[2]; /* as in a GID */
};

struct services {
	_Atomic uint32_t used; /* entries of the part in use. Relaxed: changed with the lock held */
	struct service entry[GSI_SERVICES];
};

/* gsi_claim(): 0, -EADDRINUSE, -EADDRNOTAVAIL or -ENOSPC. `is_alive`: tells whether the process of a slot lives.
 * services_release(): undoes it. */
int services_claim(struct services *s, uint16_t slot, const union ibv_gid *address, uint64_t id, enum gsi_claim kind,
		   bool (*is_alive)(uint16_t slot));
void services_release(struct services *s, uint16_t slot, const union ibv_gid *address, uint64_t id);
/* Removes the entries of an earlier process in this slot. */
void services_forget(struct services *s, uint16_t slot);
/* The slots of the processes that listen for anything at the address, at most `max`. Returns how many. Reads the whole
 * table, 0.1 ms. */
uint32_t services_listeners(struct services *s, const union ibv_gid *to, uint16_t *slots, uint32_t max);
/* gsi_owner(). Needs no lock. */
uint16_t services_owner(struct services *s, const union ibv_gid *to, uint64_t id, bool (*is_alive)(uint16_t slot));

#endif
