/* SPDX-License-Identifier: BSD-2-Clause */
#include "progress/restart.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/base.h"
#include "base/high_fd.h"
#include "base/uncancelled.h"
#include "progress/tuned.h"

#define SIGNALS	    64 /* signals 1..64; a set is one word */
#define DESCRIPTORS 8  /* different signal sets that a program has over time; beyond that, a signal ends the wait */

static uint64_t signal_bit(int sig)
{
	return 1ull << (sig - 1);
}

static uint64_t bits_of(const sigset_t *set)
{
	uint64_t bits = 0;

	for (int sig = 1; sig <= SIGNALS; sig++)
		if (sigismember(set, sig) == 1)
			bits |= signal_bit(sig);
	return bits;
}

/* True if the program has a handler. *restarts: the handler has SA_RESTART. */
static bool handler_of(int sig, bool *restarts)
{
	struct sigaction a;

	if (sigaction(sig, NULL, &a) || a.sa_handler == SIG_DFL || a.sa_handler == SIG_IGN)
		return false;
	*restarts = a.sa_flags & SA_RESTART;
	return true;
}

static uint64_t signals_handled(bool wanted)
{
	uint64_t bits = 0;
	bool restarts;

	for (int sig = 1; sig <= SIGNALS; sig++)
		if (handler_of(sig, &restarts) && restarts == wanted)
			bits |= signal_bit(sig);
	return bits;
}

/* The signals to block: not those that a thread causes itself. */
static uint64_t signals_held(const sigset_t *own)
{
	sigset_t now;

	pthread_sigmask(SIG_BLOCK, NULL, &now);
	return bits_of(&now) & ~bits_of(own);
}

/* ---- descriptors ---- */

/* The signalfds, one for each set of signals. A signalfd shows the signals pending for the thread that reads it, so one
 * serves all threads, and children. */
static struct {
	_Atomic int fd; /* the descriptor + 1; 0: free; -1: one is being made, or none can be had */
	uint64_t bits;
} descriptors[DESCRIPTORS];

static int descriptor_open(uint64_t bits)
{
	sigset_t set;

	sigemptyset(&set);
	for (int sig = 1; sig <= SIGNALS; sig++)
		if (bits & signal_bit(sig))
			sigaddset(&set, sig);
	return high_fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

/* The signalfd of a set of signals; -1: none. */
static int descriptor_of(uint64_t bits)
{
	for (size_t i = 0; i < DESCRIPTORS; i++) {
		/* acquire pairs with the release below */
		int fd = atomic_load_explicit(&descriptors[i].fd, memory_order_acquire), none = 0;

		if (fd > 0 && descriptors[i].bits == bits)
			return fd - 1;
		if (fd || !atomic_compare_exchange_strong_explicit(&descriptors[i].fd, &none, -1, memory_order_relaxed,
								   memory_order_relaxed))
			continue;
		descriptors[i].bits = bits;
		fd = descriptor_open(bits);
		/* release: a thread that finds the descriptor sees its set */
		atomic_store_explicit(&descriptors[i].fd, fd < 0 ? -1 : fd + 1, memory_order_release);
		return fd;
	}
	return -1;
}

/* True if the descriptor is still ours: a program that closes all descriptors closes these too, and the number may be
 * another file's now. */
static bool is_signalfd(int fd)
{
	char path[32], name[32];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	length = readlink(path, name, sizeof(name));
	return length > 0 && memmem(name, (size_t)length, "[signalfd]", strlen("[signalfd]"));
}

static void descriptor_forget(int fd)
{
	for (size_t i = 0; i < DESCRIPTORS; i++) {
		int known = fd + 1;

		atomic_compare_exchange_strong_explicit(&descriptors[i].fd, &known, -1, memory_order_relaxed,
							memory_order_relaxed);
	}
}

/* ---- sleeping ---- */

static _Atomic uint64_t restarting; /* signals whose handlers had SA_RESTART at `asked` */
static _Atomic uint64_t asked;	    /* ns: time of the last look at the handlers */

static uint64_t signals_restarting(uint64_t now)
{
	/* relaxed: hints that may be a little old; the program may change its handlers at any time */
	if (now - atomic_load_explicit(&asked, memory_order_relaxed) > HANDLERS_FRESH) {
		atomic_store_explicit(&restarting, signals_handled(true), memory_order_relaxed);
		atomic_store_explicit(&asked, now, memory_order_relaxed);
	}
	return atomic_load_explicit(&restarting, memory_order_relaxed);
}

void restart_begin(struct restart *r, const sigset_t *own, uint64_t now)
{
	uint64_t bits = signals_restarting(now);

	if (bits)
		bits &= signals_held(own);
	r->mask = *own;
	r->fd = bits ? descriptor_of(bits) : -1;
	r->until = atomic_load_explicit(&asked, memory_order_relaxed) == now ? NEVER : now + HANDLERS_FRESH + 1;
	for (int sig = 1; r->fd >= 0 && sig <= SIGNALS; sig++)
		if (bits & signal_bit(sig))
			sigaddset(&r->mask, sig);
}

int restart_woken(const struct restart *r, const sigset_t *own)
{
	sigset_t pending;

	sigpending(&pending);
	if (bits_of(&pending) & signals_held(own))
		return restart_heed(own);
	if (!is_signalfd(r->fd))
		descriptor_forget(r->fd);
	return 0; /* another thread may have taken it */
}

int restart_heed(const sigset_t *own)
{
	sigset_t pending, mask;
	bool restarts, ends = false;
	uint64_t bits;

	sigpending(&pending);
	bits = bits_of(&pending) & signals_held(own);
	if (!bits)
		return 0;
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	for (int sig = 1; sig <= SIGNALS; sig++) {
		if (!(bits & signal_bit(sig)))
			continue;
		sigdelset(&mask, sig);
		ends |= handler_of(sig, &restarts) && !restarts;
	}
	if (uncancelled_ppoll(NULL, 0, &(struct timespec){0}, &mask) >= 0 || errno != EINTR)
		return 0; /* another thread has taken it, or it has no effect */
	return ends ? -EINTR : 0;
}

int restart_verdict(const sigset_t *own)
{
	atomic_store_explicit(&asked, 0, memory_order_relaxed); /* handlers have changed */
	return signals_handled(false) & signals_held(own) ? -EINTR : 0;
}
