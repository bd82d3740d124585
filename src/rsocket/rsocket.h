/* SPDX-License-Identifier: BSD-2-Clause */
/* An rsocket: a socket whose data go by RDMA, protocol and calls as rdma-core's (rsocket(7)). Its descriptor only gives
 * it a number: nothing is read from or written to that.
 *
 * References: one of the table (table.h), one of each call under way, and those of lists that say so. The last
 * rsocket_put() calls `destroy`. `lock` guards every field unless its comment says otherwise; cm.lock, qp->lock and
 * locks below may be taken inside. Functions of this folder return 0 (or a size) or -errno. */
#ifndef UROCE_RSOCKET_H
#define UROCE_RSOCKET_H

#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/lock.h"
#include "object/cq.h"
#include "rsocket/wire.h"
#include "device/front.h"

enum rsocket_state {
	RS_NEW,
	RS_BOUND,
	RS_LISTENING,
	RS_RESOLVING,
	RS_CONNECTING,
	RS_ACCEPTING, /* REP sent, RTU not received yet */
	RS_CONNECTED,
	RS_PLAIN, /* the connection failed, and the descriptor is an ordinary socket now: rsocket_try_connect() */
	RS_OVER,  /* the connection, or the attempt, has ended; `error`: why, 0 if in good order */
};

enum {
	RS_TARGETS = 2,	       /* buffers of the peer that this side knows at once */
	RS_GRANTS = 4,	       /* credit messages under way at once */
	RS_CONTROLS = 8,       /* control messages under way, credits among them: DISCONNECT always has a place */
	RS_LOW_WATER = 2048,   /* bytes; least half of a ring, and the room in which stream_can_send() */
	RS_LAZY_RECEIVES = 16, /* receives posted in one call; so many more exist than the peer may use */
};

/* The rings and credits of a connection. */
struct stream {
	struct ibv_cq *cq;
	struct ibv_mr *mr; /* one region: targets, iomaps, receive ring, send ring */

	/* sending */
	struct rs_sge *targets;		  /* written by the peer */
	struct rs_sge window[RS_TARGETS]; /* targets received, in this host's byte order */
	uint32_t target, next_target;	  /* index in `window` that is written to; that the peer fills next */
	uint8_t *tx;
	uint32_t tx_size, tx_head, tx_used;
	uint32_t slots;		     /* work requests that may be posted */
	uint32_t quiet, quiet_bytes; /* slots and ring bytes of messages after the last signaled one */
	uint16_t sent, granted;	     /* messages sent; message number up to which the peer permits */
	uint32_t controls;	     /* control messages under way */
	bool swap;		     /* the peer has the other byte order */

	/* receiving */
	uint8_t *rx;
	uint32_t rx_size, rx_head, rx_ready;
	uint32_t rx_free;	 /* bytes read since the last half was published */
	uint32_t rx_publish;	 /* half that is published next: 0 or 1 */
	uint32_t owed;		 /* receives to post */
	uint16_t received, told; /* messages received; the same when credits were last granted */
	struct rs_sge remote;	 /* the peer's list of targets */
	uint32_t remote_next;	 /* entry of `remote` that is written next */

	/* direct placement */
	struct rs_iomap *iomaps; /* written by the peer as it maps */
	uint32_t remote_iomaps;	 /* entries of the peer's list, behind its targets */
	struct list maps, maps_pending;

	uint32_t target_size; /* bytes of the last target received */
	uint32_t rx_wanted;   /* bytes that a MSG_PEEK with MSG_WAITALL waits for */
};

/* A callback for when the readiness of an rsocket may have changed: waiter.h. */
struct waiter {
	struct list link;
	void (*wake)(struct waiter *w); /* takes only locks below RANK_RSOCKET_WAIT */
};

struct datagram; /* dest.h */

struct rsocket {
	_Atomic uint32_t refs;
	int fd;
	int domain, type;		     /* AF_INET or AF_INET6; SOCK_STREAM or SOCK_DGRAM */
	bool beneath;			     /* the descriptor is an ordinary socket that is polled as well. Constant */
	void (*destroy)(struct rsocket *rs); /* frees what its fields own. Constant */

	_Atomic uint32_t handles; /* descriptors of this rsocket in the table */
	struct list epolls;	  /* items of epoll.c, guarded by its items_lock */
	bool falls_back;	  /* if the connection fails, the descriptor is connected instead */

	struct lock wait_lock;
	struct list waiters GUARDED_BY(&wait_lock); /* waiter.h */

	struct lock lock;
	_Atomic uint32_t state; /* enum rsocket_state: read without the lock as a hint */
	_Atomic bool nonblocking;
	int error GUARDED_BY(&lock); /* errno that SO_ERROR tells, once */
	bool peer_shut GUARDED_BY(&lock), read_shut GUARDED_BY(&lock), write_shut GUARDED_BY(&lock);
	bool broken GUARDED_BY(&lock);		 /* ended, and not in good order */
	bool given GUARDED_BY(&lock);		 /* only a bridge may receive: rsocket_give() */
	struct rdma_cm_id *id GUARDED_BY(&lock); /* NULL: none yet */
	struct stream stream GUARDED_BY(&lock);
	struct datagram *datagram GUARDED_BY(&lock);
	struct sockaddr_storage peer GUARDED_BY(&lock); /* of rsocket_try_connect() */

	struct list accepted GUARDED_BY(&lock);	    /* of a listener: connections not yet accepted, with references */
	struct list queue;			    /* link in a listener's `accepted` */
	struct rsocket *listener GUARDED_BY(&lock); /* until connected; has a reference */

	/* options */
	uint32_t sq_size GUARDED_BY(&lock), rq_size GUARDED_BY(&lock), inline_size GUARDED_BY(&lock),
		iomap_size GUARDED_BY(&lock), tx_bytes GUARDED_BY(&lock), rx_bytes GUARDED_BY(&lock);
	int tos GUARDED_BY(&lock), nodelay GUARDED_BY(&lock), keepalive GUARDED_BY(&lock), keep_idle GUARDED_BY(&lock),
		keep_interval GUARDED_BY(&lock), keep_count GUARDED_BY(&lock), reuse GUARDED_BY(&lock),
		v6_only GUARDED_BY(&lock), oob_inline GUARDED_BY(&lock), linger_seconds GUARDED_BY(&lock);
	int send_ms GUARDED_BY(&lock), receive_ms GUARDED_BY(&lock); /* time-outs; 0: none */
	bool lingers GUARDED_BY(&lock);
	void *route GUARDED_BY(&lock); /* RDMA_ROUTE */
	size_t route_bytes GUARDED_BY(&lock);

	struct list timed; /* link of timeout.c, guarded by its lock as are the next two */
	uint64_t due;	   /* clock_now() of the next keepalive, or of the end of the connection attempt */
	uint64_t period;   /* ns between keepalives; 0: of a connection attempt */

	struct list closing;		/* link of closing.c, guarded by its lock */
	struct waiter closer;		/* in `waiters` while closing */
	uint32_t una GUARDED_BY(&lock); /* oldest PSN without an ACK when closing.c last looked */
};

static inline enum rsocket_state rsocket_state(struct rsocket *rs)
{
	return atomic_load_explicit(&rs->state, memory_order_relaxed);
}

static inline void rsocket_set_state(struct rsocket *rs, enum rsocket_state state)
{
	atomic_store_explicit(&rs->state, state, memory_order_relaxed);
}

/* Relaxed: a call beside one that changes it may see either value. */
static inline bool rsocket_is_nonblocking(const struct rsocket *rs)
{
	return atomic_load_explicit(&rs->nonblocking, memory_order_relaxed);
}

/* Whether a call with these flags may sleep. */
static inline bool rsocket_waits(const struct rsocket *rs, int flags)
{
	return !(flags & MSG_DONTWAIT) && !rsocket_is_nonblocking(rs);
}

static inline bool is_datagram(const struct rsocket *rs)
{
	return rs->type == SOCK_DGRAM;
}

#endif
