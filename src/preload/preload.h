/* SPDX-License-Identifier: BSD-2-Clause */
/* liburoce-rsocket.so: the calls of the C library on TCP sockets, so that an unmodified program's connections go by
 * RDMA where the peer does the same, and by TCP where not.
 *
 * Each descriptor keeps being an ordinary socket: it is bound, listens, and is connected if RDMA leads nowhere. What
 * state it is in stands in a table; everything that is none of ours goes to the C library at once. Any thread may call.
 */
#ifndef UROCE_PRELOAD_H
#define UROCE_PRELOAD_H

#include <dlfcn.h>
#include <errno.h>
#include <rdma/rsocket.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/base.h"
#include "base/lock.h"
#include "rsocket/attach.h"

#define PUBLIC __attribute__((visibility("default")))

/* The next library's function of that name; looked for at the first use. Two threads that both find none yet will store
 * the same. */
#define NEXT(name)                                                                                          \
	({                                                                                                  \
		static _Atomic(void *) next_;                                                               \
		void *found_ = atomic_load_explicit(&next_, memory_order_relaxed); /* it is all there is */ \
		if (unlikely(!found_)) {                                                                    \
			found_ = dlsym(RTLD_NEXT, #name);                                                   \
			atomic_store_explicit(&next_, found_, memory_order_relaxed);                        \
		}                                                                                           \
		(typeof(&name))found_;                                                                      \
	})

enum kind {
	PLAIN,	    /* not ours */
	FRESH,	    /* a TCP socket of which nothing is known yet */
	ALTERED,    /* the same, whose options may not be what they are at first */
	EPOLL,	    /* an epoll instance */
	NESTED,	    /* the same, and the instance itself is waited for */
	INHERITED,  /* the parent's, connected by RDMA: inherit.h */
	PENDING,    /* the socket listens; the rsocket will, as soon as somebody waits for connections: a process that
		     * only leaves it to its children does not keep it from them */
	LISTENING,  /* both do */
	CONNECTING, /* by RDMA; it may become PLAIN */
	RDMA,	    /* connected */
};

/* Relaxed: who uses a descriptor in one thread while it changes in another gets the one or the other. */
extern _Atomic uint8_t kinds[1 << 16];

/* While we call liburoce.so.1, whose own calls of the C library are not for us. */
extern _Thread_local int inside;

static inline enum kind kind_of(int fd)
{
	return (unsigned)fd < ARRAY_SIZE(kinds) && !inside
		       ? (enum kind)atomic_load_explicit(&kinds[fd], memory_order_relaxed)
		       : PLAIN;
}

static inline void set_kind(int fd, enum kind kind)
{
	if ((unsigned)fd < ARRAY_SIZE(kinds))
		atomic_store_explicit(&kinds[fd], kind, memory_order_relaxed);
}

/* Held while the descriptors of a connection by RDMA become a bridge's, when one such is let go, and around a fork. */
extern struct lock move_lock;

#define INSIDE(call)                               \
	({                                         \
		__auto_type r_ = (inside++, call); \
		inside--;                          \
		r_;                                \
	})

/* bridge.c */
/* Behind a call on an rsocket that has failed: that the descriptor is another thing meanwhile, and the call is to be
 * made again. */
bool bridge_moved(int fd);

/* socket.c */
/* Whether its bytes go by RDMA. Sees to what may have changed. */
bool is_rdma(int fd);
/* A pending listener listens. */
void wake_listener(int fd);

/* poll.c */
/* The descriptor has to do with RDMA from now on: the epoll instances that it is in learn that. */
void epoll_move(int fd);
/* It is closed, or TCP's alone. */
void epoll_forget(int fd);
/* In a child. */
void epoll_forget_all(void);
/* The descriptor is given up, or given to something else. */
void let_go(int fd);

#endif
