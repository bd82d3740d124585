/* SPDX-License-Identifier: BSD-2-Clause */
/* The registry: memory that the processes of one user and network namespace share. It mirrors the groups of sockets
 * (steering.h), and has the owner of each slot and the listeners for services. It is a memfd, which a new process gets
 * from any process that has it: a crash leaves no file behind. */
#ifndef UROCE_HOST_REGISTRY_H
#define UROCE_HOST_REGISTRY_H

#include <infiniband/verbs.h>
#include <linux/filter.h>
#include <stdatomic.h>

#include "base/base.h"
#include "host/services.h"
#include "host/slot.h"
#include "host/steering_program.h"

struct steering {
	const struct slot *slot;
	int memory;			     /* the registry's memfd; -1: none yet */
	_Atomic int service;		     /* socket that gives new processes the memfd; -1: none */
	_Atomic(struct registry *) registry; /* the mapping; NULL: this process does not have it, and does not steer */
};

#define GROUPS 64 /* addresses that are steered; packets to others may be handed over */

struct member {
	uint64_t inode; /* inode of the socket: tells a dead process from its successor in the slot */
	uint16_t slot;
};

/* Processes on one address. Guarded by registry_lock(), except the generation. */
struct group {
	union ibv_gid gid;
	_Atomic uint32_t generation; /* count of changes. Relaxed: a hint */
	uint32_t count;		     /* number of members; 0: the entry is free */
	uint64_t pruned;	     /* ns: time when dead members were last removed */
	struct member member[SLOTS];
};

/* Listeners for services. Guarded by registry_lock(). A listener without room, or of a dead process, costs a
 * handover. */
struct listeners {
	uint32_t count;
	struct steering_listener listener[STEERING_LISTENERS];
};

struct registry {
	_Atomic uint16_t owner[SLOTS + 1]; /* by slot: first slot of its process; 0: a first slot, or free. Written with
					      the lock; relaxed: see hca_owner() */
	struct group group[GROUPS];
	struct listeners listeners;
	struct services services;
};

/* The number of members. Broken processes of this user may have written anything, at any time: so counts are read once,
 * and limited to the room. */
static inline uint32_t group_count(const struct group *g)
{
	return min_of(*(const volatile uint32_t *)&g->count, (uint32_t)SLOTS);
}

static inline uint32_t listeners_count(const struct listeners *l)
{
	return min_of(*(const volatile uint32_t *)&l->count, STEERING_LISTENERS);
}

static inline struct registry *registry_of(struct steering *s)
{
	return atomic_load_explicit(&s->registry, memory_order_acquire); /* pairs with take_registry() */
}

/* Removes the slot's listeners for a service. */
void listeners_remove(struct listeners *l, uint16_t slot, uint32_t service);

/* Maps the registry, or makes it if no process has it. Under the lock. 0 or -errno. */
int find_registry(struct steering *s);
/* True if a process of this user has the slot and offers the registry there. */
bool registry_is_offered(uint16_t slot);
/* Sends the memfd to a new process, when `service` is readable. */
void steering_serve(struct steering *s);
void steering_init(struct steering *s, const struct slot *slot);
void steering_fini(struct steering *s);

#endif
