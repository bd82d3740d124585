/* SPDX-License-Identifier: BSD-2-Clause */
/* Listeners to packets, completions and one-sided operations: one word for all, so that together they cost one
 * predicted branch while there is none. A listener has one bit. The code behind the branch asks for its bit. Any
 * thread. */
#ifndef UROCE_HOOKS_H
#define UROCE_HOOKS_H

#include <stdatomic.h>

#include "base/base.h"
#include "base/tsan.h"

/* A new listener adds its bit here and asks for it where the word was not zero. */
enum hook {
	HOOK_TRACE = 1 << 0,
	HOOK_FAULT = 1 << 1,
	HOOK_CAPTURE = 1 << 2,
	HOOK_CHECK = 1 << 3,
	HOOK_COUNT = 1 << 4,	 /* bytes are counted for each QP */
	HOOK_MIGRATION = 1 << 5, /* a QP has, or had, an alternate path armed: engine/migration.c */
	HOOK_PORT_DOWN = 1 << 6,
	HOOK_CHILD = 1 << 8, /* this is a child of a process that is checked: check/regions.c */
	HOOK_GPU = 1 << 7,   /* copies to memory of a GPU are under way: memory/gpu.h */
};

extern uint32_t hooks __attribute__((visibility("hidden")));

/* A plain load, which compilers compare in place; an atomic one would cost each of these branches an instruction and a
 * register. An aligned word is not torn. A listener that was added a moment ago may miss what happens meanwhile. */
static inline bool hooks_any(void)
{
#ifdef UNDER_TSAN
	return __atomic_load_n(&hooks, __ATOMIC_RELAXED);
#else
	return unlikely(hooks);
#endif
}

static inline bool hook_is_on(uint32_t hook)
{
	return __atomic_load_n(&hooks, __ATOMIC_RELAXED) & hook;
}

/* hook_is_on() for a reader of what the listener has made before hook_set(). */
static inline bool hook_is_on_acquire(enum hook hook)
{
	return __atomic_load_n(&hooks, __ATOMIC_ACQUIRE) & hook;
}

static inline void hook_set(enum hook hook, bool on)
{
	if (on)
		__atomic_fetch_or(&hooks, hook, __ATOMIC_RELEASE); /* pairs with hook_is_on_acquire() */
	else
		__atomic_fetch_and(&hooks, ~(uint32_t)hook, __ATOMIC_RELAXED);
}

/* Called by _exit(2), which calls no handlers of exit(3): in any context, also in a child of vfork(2). NULL: none. */
extern _Atomic(void (*)(void)) hook_exit __attribute__((visibility("hidden")));

#endif
