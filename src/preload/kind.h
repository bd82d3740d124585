/* SPDX-License-Identifier: BSD-2-Clause */
/* liburoce-rsocket.so: the C library's calls on TCP sockets, so that connections of an unmodified program go by RDMA if
 * the peer has rsockets too, and else by TCP.
 *
 * Each descriptor stays an ordinary socket: it is bound, listens, and is connected if the connection by RDMA fails. A
 * table has the kind of each; calls on a PLAIN one go to the C library at once. Any thread may call. */
#ifndef UROCE_PRELOAD_KIND_H
#define UROCE_PRELOAD_KIND_H

#include <dlfcn.h>
#include <errno.h>
#include <rdma/rsocket.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/base.h"
#include "base/lock.h"
#include "rsocket/attach.h"

#define PUBLIC __attribute__((visibility("default")))

/* liburoce.so.1's functions. NULL: it is not loaded, and all descriptors are PLAIN. */
#pragma weak uroce_rsocket_attach
#define OPS uroce_rsocket_attach

/* The next library's function of that name, looked up at the first use. */
#define NEXT(name)                                                                   \
	({                                                                           \
		static _Atomic(void *) next_;                                        \
		void *found_ = atomic_load_explicit(&next_, memory_order_relaxed);   \
		if (unlikely(!found_)) {                                             \
			found_ = dlsym(RTLD_NEXT, #name);                            \
			atomic_store_explicit(&next_, found_, memory_order_relaxed); \
		}                                                                    \
		(typeof(&name))found_;                                               \
	})

enum kind {
	PLAIN,	   /* of the C library only */
	FRESH,	   /* a new TCP socket */
	ALTERED,   /* a new TCP socket with options set */
	EPOLL,	   /* an epoll instance */
	NESTED,	   /* an epoll instance that is polled itself */
	INHERITED, /* the parent's, connected by RDMA: inherit.h */
	PENDING,   /* The socket listens; the rsocket will when a thread waits for connections. So a process that leaves
		      this to its children does not take the address from them. */
	LISTENING, /* socket and rsocket listen */
	CONNECTING, /* the rsocket is connecting; becomes RDMA or PLAIN */
	RDMA,	    /* connected by RDMA */
};

/* Kind of each descriptor. Relaxed: a call beside one that changes the kind sees the old one or the new one. */
extern _Atomic uint8_t kinds[1 << 16];

/* Depth of calls of liburoce.so.1, whose calls of the C library are not interposed. */
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

/* Held while a bridge takes descriptors of an RDMA connection, while such a descriptor is closed, and around a fork. */
extern struct lock move_lock;

#define INSIDE(call)                               \
	({                                         \
		__auto_type r_ = (inside++, call); \
		inside--;                          \
		r_;                                \
	})

/* Settles a CONNECTING descriptor: RDMA if it is connected, PLAIN if the library has fallen back to TCP. False:
 * PLAIN. */
bool kind_settle(int fd);

#endif
