/* SPDX-License-Identifier: BSD-2-Clause */
/* The lock of the registry: a name that one process at a time can bind, and that the kernel drops when the process
 * dies. If another user has bound the name, a file takes its place. While the two change places, two processes may have
 * one each. So the registry, which only processes of this user have, is always locked too. */
#ifndef UROCE_HOST_REGISTRY_LOCK_H
#define UROCE_HOST_REGISTRY_LOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "host/tuned.h"

/* Patience of a thread that waits for a lock. With many waiting processes, each waits longer from time to time, at
 * random, and does not give up while the lock changes hands. */
struct patience {
	uint64_t patience, began, give_up;
	uint64_t look; /* ns: time of the next look at the holder of the name */
	pid_t holder;  /* holder at the last look; 0: unknown */
};

struct patience patience_of(uint64_t patience);
/* Locks the memory; the kernel drops the lock when the process ends. False: the holder does not release it. */
bool lock_memory(int memory, struct patience *p);
/* Takes the lock, and locks the registry's memory if that is not -1. Returns the lock for registry_unlock(); -EAGAIN:
 * the holder does not release it; or another -errno. `patience`: ns. */
int registry_lock(int memory, uint64_t patience);
void registry_unlock(int lock);

#endif
