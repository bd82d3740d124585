/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/bridge.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/high_fd.h"
#include "base/list.h"
#include "base/thread.h"
#include "preload/kind.h"
#include "preload/tuned.h"

/* Range of rsocket numbers. */
enum {
	FIRST = RSOCKET_NUMBERS,
	LAST = (1 << 20) - 1,
};

static struct lock lock = LOCK_RANKED(PRELOAD_BRIDGE); /* guards all below; held around a fork */
static struct list bridges GUARDED_BY(lock) = {&bridges, &bridges};
static int next_number GUARDED_BY(lock) = FIRST;
/* Held while a bridge closes its rsocket, and once the process ends, so that no rsocket is half closed then. Not held
 * around a fork: closing takes locks that are. */
static struct lock end_lock = LOCK_RANKED(PRELOAD_END);

struct bridge {
	struct list link;
	int number; /* number of the rsocket */
	int fd;	    /* this end of the pair */
	_Atomic uint32_t threads;
	_Atomic uint32_t carried; /* count of pieces sent. Relaxed: for bridge_end() */
	_Atomic bool carries;	  /* a piece is being sent. Relaxed: for bridge_end() */
};

static void bridge_leave(struct bridge *b)
{
	/* acquire and release: the last thread frees what both used */
	if (atomic_fetch_sub_explicit(&b->threads, 1, memory_order_acq_rel) != 1)
		return;
	lock_take(&lock);
	list_remove(&b->link);
	lock_drop(&lock);
	lock_take(&end_lock);
	OPS.detach(b->number);
	lock_drop(&end_lock);
	NEXT(close)(b->fd);
	free(b);
}

static bool bridge_put(struct bridge *b, const char *at, ssize_t left, bool by_rdma)
{
	while (left > 0) {
		ssize_t n = by_rdma ? rsend(b->number, at, (size_t)left, 0)
				    : NEXT(send)(b->fd, at, (size_t)left, MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			return false;
		at += n > 0 ? n : 0;
		left -= n > 0 ? n : 0;
	}
	return true;
}

static void *carry_in(void *arg)
{
	struct bridge *b = arg;
	char bytes[CARRY_BYTES];
	ssize_t n;

	inside = 1;
	while ((n = rrecv(b->number, bytes, sizeof(bytes), 0)) > 0 && bridge_put(b, bytes, n, false))
		;
	NEXT(shutdown)(b->fd, SHUT_WR);
	bridge_leave(b);
	return NULL;
}

static void *carry_out(void *arg)
{
	struct bridge *b = arg;
	char bytes[CARRY_BYTES];
	ssize_t n;

	inside = 1;
	/* MSG_PEEK first, so that bridge_end() finds bytes in the socket or `carries` set */
	while ((n = NEXT(recv)(b->fd, bytes, 1, MSG_PEEK)) > 0) {
		atomic_store_explicit(&b->carries, true, memory_order_relaxed);
		n = NEXT(recv)(b->fd, bytes, sizeof(bytes), 0);
		if (n <= 0 || !bridge_put(b, bytes, n, true))
			break;
		atomic_store_explicit(&b->carries, false, memory_order_relaxed);
		atomic_fetch_add_explicit(&b->carried, 1, memory_order_relaxed);
	}
	atomic_store_explicit(&b->carries, false, memory_order_relaxed);
	rshutdown(b->number, SHUT_WR);
	bridge_leave(b);
	return NULL;
}

/* Whether the bytes that the program wrote are sent. */
static bool bridge_is_done(struct bridge *b)
{
	int waiting = 0;

	return !NEXT(ioctl)(b->fd, FIONREAD, &waiting) && !waiting &&
	       !atomic_load_explicit(&b->carries, memory_order_relaxed);
}

/* Waits until all bridges are done, or none sends anything for BRIDGE_PATIENCE. */
static void finish_all(void) REQUIRES(lock)
{
	uint32_t carried = 0;

	for (int ms = 0; ms < BRIDGE_PATIENCE; ms++) {
		uint32_t now = 0;
		bool done = true;

		list_each (l, &bridges) {
			struct bridge *b = container_of(l, struct bridge, link);

			done &= bridge_is_done(b);
			now += atomic_load_explicit(&b->carried, memory_order_relaxed);
		}
		if (done)
			return;
		if (now != carried)
			ms = 0;
		carried = now;
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
}

/* Ends the bridges of a process that ends. Flushes FILEs first, which the C library would do later. */
static void bridge_end(void) ACQUIRE(end_lock)
{
	lock_take(&lock);
	if (!list_empty(&bridges))
		fflush(NULL);
	finish_all();
	lock_drop(&lock);
	lock_take(&end_lock);
}

/* Registers bridge_end(): handlers of atexit() run before destructors, one of which ends connections. */
static void watch_the_end(void)
{
	atexit(bridge_end);
}

/* The name to which the bridge's end is bound: the connection's addresses, for the process that has the other end, also
 * if it executes another program. */
struct name {
	sa_family_t family;
	char prefix[14];
	union {
		struct sockaddr any;
		struct sockaddr_in ipv4;
		struct sockaddr_in6 ipv6;
	} self, peer;
};
static const char prefix[14] = "\0uroce/bridge";

static void set_name(const struct bridge *b)
{
	struct name name = {.family = AF_UNIX};
	socklen_t self = sizeof(name.self), peer = sizeof(name.peer);

	memcpy(name.prefix, prefix, sizeof(prefix));
	if (!rgetsockname(b->number, &name.self.any, &self) && !rgetpeername(b->number, &name.peer.any, &peer))
		NEXT(bind)(b->fd, (struct sockaddr *)&name, sizeof(name)); /* on failure the end has no name */
}

static bool bridge_get_name(int fd, struct name *name)
{
	socklen_t size = sizeof(*name);

	return !NEXT(getpeername)(fd, (struct sockaddr *)name, &size) && size == sizeof(*name) &&
	       !memcmp(name->prefix, prefix, sizeof(prefix));
}

bool bridge_is(int fd)
{
	return bridge_get_name(fd, &(struct name){0});
}

bool bridge_name(int fd, bool peer, struct sockaddr *to, socklen_t *room)
{
	struct name name;
	const struct sockaddr *from = peer ? &name.peer.any : &name.self.any;
	socklen_t size;

	if (!bridge_get_name(fd, &name))
		return false;
	size = from->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	memcpy(to, from, size < *room ? size : *room);
	*room = size;
	return true;
}

static int build(int number)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct bridge *b = calloc(1, sizeof(*b));
	int pair[2] = {-1, -1}, err = -ENOMEM;

	if (!b || NEXT(socketpair)(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		goto err;
	pthread_once(&once, watch_the_end);
	b->number = number;
	b->fd = high_fd(pair[1]);
	atomic_init(&b->threads, 2);
	list_init(&b->link);
	set_name(b);
	rfcntl(number, F_SETFL, 0);
	lock_take(&lock);
	list_append(&bridges, &b->link);
	lock_drop(&lock);
	err = thread_start(carry_in, b);
	if (err)
		goto err_list;
	if (thread_start(carry_out, b)) { /* as if the program had closed the descriptor */
		NEXT(shutdown)(b->fd, SHUT_RD);
		bridge_leave(b);
	}
	return pair[0];

err_list:
	lock_take(&lock);
	list_remove(&b->link);
	lock_drop(&lock);
	NEXT(close)(b->fd);
	NEXT(close)(pair[0]);
err:
	free(b);
	return err;
}

void bridge_become(int fd, int by)
{
	int flags = NEXT(fcntl)(fd, F_GETFL), fdflags = NEXT(fcntl)(fd, F_GETFD);

	NEXT(fcntl)(by, F_SETFL, flags & O_NONBLOCK);
	NEXT(dup3)(by, fd, fdflags & FD_CLOEXEC ? O_CLOEXEC : 0);
	NEXT(close)(by);
	set_kind(fd, PLAIN);
}

/* Turns all descriptors of the connection in this process into the bridge's. */
static void move_all(int number, int by) REQUIRES(move_lock)
{
	for (int fd = 0; fd < (int)ARRAY_SIZE(kinds); fd++) {
		if (atomic_load_explicit(&kinds[fd], memory_order_relaxed) != RDMA || !OPS.is_same(fd, number))
			continue;
		bridge_become(fd, NEXT(fcntl)(by, F_DUPFD_CLOEXEC, 0));
		OPS.hand_back(fd);
	}
}

int bridge_build(int number)
{
	int by;

	lock_take(&move_lock);
	OPS.give(number, true);
	by = build(number);
	if (by < 0)
		OPS.give(number, false);
	else if (OPS.give(number, true) > 1)
		move_all(number, by);
	lock_drop(&move_lock);
	return by;
}

bool bridge_moved(int fd)
{
	if (likely(errno != ESTALE && errno != EBADF))
		return false;
	lock_take(&move_lock); /* waits for move_all() */
	lock_drop(&move_lock);
	return errno == ESTALE || (kind_of(fd) == PLAIN && NEXT(fcntl)(fd, F_GETFD) >= 0);
}

int bridge_keep(int fd)
{
	int number, err;

	lock_take(&lock);
	do {
		number = next_number;
		next_number = next_number == LAST ? FIRST : next_number + 1;
		err = OPS.share(fd, number);
	} while (err == -EBUSY);
	lock_drop(&lock);
	return err ? err : number;
}

void bridge(int fd)
{
	int number, by;

	inside++;
	number = bridge_keep(fd);
	by = number < 0 ? number : bridge_build(number);
	if (by >= 0)
		NEXT(close)(by);
	else if (number >= 0)
		OPS.detach(number);
	inside--;
}

/* ---- forks ---- */

void bridges_before_fork(void) ACQUIRE(lock)
{
	lock_take(&lock);
}

void bridges_after_fork(void) RELEASE(lock)
{
	lock_drop(&lock);
}

/* The child has no bridge threads, but keeps the program's ends of the pairs. */
void bridges_in_child(void) RELEASE(lock)
{
	struct list *l;

	end_lock = (struct lock)LOCK_RANKED(PRELOAD_END);
	while ((l = list_pop(&bridges))) {
		struct bridge *b = container_of(l, struct bridge, link);

		NEXT(close)(b->fd);
		free(b);
	}
	lock_drop(&lock);
}
