/* SPDX-License-Identifier: BSD-2-Clause */
/* An rsocket: a socket whose data go by RDMA, protocol and calls as rdma-core's (rsocket(7)). It has a real descriptor,
 * which is a number and no more: nothing is ever read from or written to it.
 *
 * The table (table.c) has one reference, each call under way has one, and so has the service thread where it is
 * concerned (service.c). The last rsocket_put() frees it. `lock` guards every field but where something else is said;
 * who holds it may take cm.lock, qp->lock and what is below. Inner functions return 0 (or a size) or -errno. */
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
	RS_ACCEPTING, /* answered, and not yet told that the answer came */
	RS_CONNECTED,
	RS_PLAIN, /* it could not be connected, and has become an ordinary socket: rsocket_try_connect() */
	RS_OVER,  /* it was connected, or tried to: `error` says why it is no more, if that was not in good order */
};

/* Who wants to know when something happens to an rsocket: its readiness may have changed. Guarded by wait_lock. */
struct waiter {
	struct list link;
	void (*wake)(struct waiter *w); /* takes leaf locks only */
};

enum {
	RS_TARGETS = 2,	 /* buffers of the peer's that we may know of at once */
	RS_GRANTS = 4,	 /* messages that grant something, that may be on their way at once */
	RS_CONTROLS = 8, /* messages of our own kind, those among them: the end can always be told */
	RS_LOW_WATER = 2048,
	RS_LAZY_RECEIVES = 16, /* are posted anew together: so many more than the peer may use */
};

/* What the bytes of a stream go through. */
struct stream {
	struct ibv_cq *cq;
	struct ibv_mr *mr; /* of all that follows: the memory begins with the targets */

	/* sending */
	struct rs_sge *targets;		  /* written by the peer */
	struct rs_sge window[RS_TARGETS]; /* what we have taken from there, in our byte order */
	uint32_t target, next_target;	  /* which of them is written to; which is to come next */
	uint8_t *tx;
	uint32_t tx_size, tx_head, tx_used;
	uint32_t slots; /* work requests that may be posted */
	uint32_t quiet,
		quiet_bytes;	/* of messages since the last that a completion tells of: slots, bytes of the ring */
	uint16_t sent, granted; /* messages; what the peer allows to be sent */
	uint32_t controls;	/* under way */
	bool swap;		/* the peer's byte order is the other one */

	/* receiving */
	uint8_t *rx;
	uint32_t rx_size, rx_head, rx_ready;
	uint32_t rx_free;	 /* bytes read since, that the peer does not know of */
	uint32_t rx_publish;	 /* which half comes next */
	uint32_t owed;		 /* receives, to be posted */
	uint16_t received, told; /* messages; how many there were when we last granted some */
	struct rs_sge remote;	 /* the peer's list of targets */
	uint32_t remote_next;

	/* direct placement */
	struct rs_iomap *iomaps; /* behind the targets: written by the peer, as it maps */
	uint32_t remote_iomaps;	 /* entries of the peer's list, behind its targets */
	struct list maps, maps_pending;

	uint32_t target_size; /* of the last target that came */
	uint32_t rx_wanted;   /* by one who waits for so many bytes */
};

struct datagram;

struct rsocket {
	_Atomic uint32_t refs;
	int fd;
	int domain, type; /* AF_INET or AF_INET6; SOCK_STREAM or SOCK_DGRAM */
	bool beneath;	  /* the descriptor is an ordinary socket, and it matters too: constant */

	_Atomic uint32_t handles; /* descriptors that it goes by */
	struct list epolls;	  /* epoll.c */
	bool falls_back;	  /* to the descriptor, if it cannot be connected */

	struct lock wait_lock; /* a leaf */
	struct list waiters GUARDED_BY(&wait_lock);

	struct lock lock;
	_Atomic uint32_t state; /* enum rsocket_state: read without the lock as a hint */
	_Atomic bool nonblocking;
	_Atomic bool told;	     /* `notify` has been called since arming: a hint */
	int error GUARDED_BY(&lock); /* errno; what SO_ERROR tells, once */
	bool peer_shut GUARDED_BY(&lock), read_shut GUARDED_BY(&lock), write_shut GUARDED_BY(&lock);
	bool broken GUARDED_BY(&lock);		 /* it did not end in good order */
	bool given GUARDED_BY(&lock);		 /* to a bridge: only that may receive. rsocket_give() */
	struct rdma_cm_id *id GUARDED_BY(&lock); /* NULL: none yet */
	struct stream stream GUARDED_BY(&lock);
	struct datagram *datagram GUARDED_BY(&lock);
	struct sockaddr_storage peer GUARDED_BY(&lock); /* to connect to */

	/* a listener's */
	struct list accepted GUARDED_BY(&lock); /* through `queue`: connected, and not yet fetched */
	struct list queue;
	struct rsocket *listener GUARDED_BY(&lock); /* of one that waits there; has a reference */
	uint32_t backlog GUARDED_BY(&lock);

	/* options */
	uint32_t sq_size GUARDED_BY(&lock), rq_size GUARDED_BY(&lock), inline_size GUARDED_BY(&lock),
		iomap_size GUARDED_BY(&lock), tx_bytes GUARDED_BY(&lock), rx_bytes GUARDED_BY(&lock);
	int tos GUARDED_BY(&lock), nodelay GUARDED_BY(&lock), keepalive GUARDED_BY(&lock), keep_idle GUARDED_BY(&lock),
		keep_interval GUARDED_BY(&lock), keep_count GUARDED_BY(&lock), reuse GUARDED_BY(&lock),
		v6_only GUARDED_BY(&lock), oob_inline GUARDED_BY(&lock), linger_seconds GUARDED_BY(&lock);
	int send_ms GUARDED_BY(&lock), receive_ms GUARDED_BY(&lock); /* the last: time-outs, 0 none */
	bool lingers GUARDED_BY(&lock);
	void *route GUARDED_BY(&lock); /* RDMA_ROUTE */
	size_t route_bytes GUARDED_BY(&lock);

	/* service.c */
	struct list keeping, closing;
	struct waiter closer;
	uint64_t keep_at, keep_every; /* guarded by list_lock: when it is due, and again after so many ns; 0: once */
	/* the PSN of the oldest packet that had not arrived, when that was last looked at */
	uint32_t una GUARDED_BY(&lock);
};

/* ---- table.c ---- */
/* NULL: no memory. One reference. `fd` becomes its own. */
struct rsocket *rsocket_make(int fd, int domain, int type);
/* Under its descriptor: 0 or -errno. The table has a reference then. */
int rsocket_install(struct rsocket *rs);
/* Under another one, too. */
int rsocket_install_at(struct rsocket *rs, int fd);
/* NULL: that descriptor is none. */
struct rsocket *rsocket_get(int fd);
void rsocket_ref(struct rsocket *rs);
/* For the service, that may meet one whose last reference has just gone. False: so it is. */
bool rsocket_try_ref(struct rsocket *rs);
void rsocket_put(struct rsocket *rs);
/* Takes it out of the table. NULL: it is not there, or still goes by another descriptor. The caller has the table's
 * reference now. */
struct rsocket *rsocket_remove(int fd);
void rsocket_each(void (*use)(struct rsocket *rs));

/* ---- wait.c ---- */
void rsocket_wait_add(struct rsocket *rs, struct waiter *w);
void rsocket_wait_remove(struct rsocket *rs, struct waiter *w);
/* Something has changed. */
void rsocket_wake(struct rsocket *rs);
/* From now on, rsocket_wake() is called for the next completion. */
void rsocket_arm(struct rsocket *rs);
/* The calling thread's eventfd to sleep on; -errno. */
int sleeper_fd(void);
/* A waiter that writes an eventfd, once after each time that it has said that it will sleep. */
struct sleeper {
	struct waiter waiter;
	int fd;
	bool sleeps; /* guarded by wait_lock */
};
void sleeper_init(struct sleeper *s, int fd);
void sleeper_sleeps(struct rsocket *rs, struct sleeper *s);
/* Until test(rs), called with the lock held; releases the lock while it waits. 0, -EAGAIN: `until` has come, -EINTR. A
 * cancellation point: the caller has one reference, which is given back then, and nothing else to undo. */
int rsocket_await(struct rsocket *rs, bool (*test)(struct rsocket *rs), uint64_t until) REQUIRES(rs->lock);
/* The same, but no cancellation point: for shutdown(2) and close(2). */
int rsocket_await_firmly(struct rsocket *rs, bool (*test)(struct rsocket *rs), uint64_t until) REQUIRES(rs->lock);
uint64_t rsocket_until(int ms); /* 0: never */
/* loop_progress() for a thread that will come again, and may let go of the lock meanwhile: who waits for it gets it. */
void rsocket_progress(struct rsocket *rs) REQUIRES(rs->lock);

/* ---- endpoint.c: QP, CQ and memory of a stream ---- */
int endpoint_create(struct rsocket *rs) REQUIRES(rs->lock);
void endpoint_destroy(struct rsocket *rs);
void endpoint_offer(struct rsocket *rs, struct rs_connect *to) REQUIRES(rs->lock);
/* What the peer said. 0 or -EPROTO. */
int endpoint_take(struct rsocket *rs, const void *data, size_t length) REQUIRES(rs->lock);

/* ---- flow.c: completions and credits ---- */
/* Takes what has completed, and grants credits. */
void stream_process(struct rsocket *rs) REQUIRES(rs->lock);
void stream_fail(struct rsocket *rs, int error) REQUIRES(rs->lock);
bool stream_can_send(struct rsocket *rs);
/* So much that a program that writes some KiB then, as it may to TCP, will not have to wait. Who
 * has read all that came has granted as much. */
bool stream_has_room(struct rsocket *rs);
bool stream_is_drained(struct rsocket *rs) REQUIRES(rs->lock);
/* What the peer is told when it is closed. */
enum rs_control stream_last_word(const struct rsocket *rs) REQUIRES(rs->lock);
/* -EAGAIN: too many are on their way. */
int stream_control(struct rsocket *rs, enum rs_control what) REQUIRES(rs->lock);
/* A message of our own kind: counts as one of RS_CONTROLS. 0 or -errno. */
int stream_post_control(struct rsocket *rs, struct ibv_sge *sge, int sges, enum ibv_wr_opcode opcode, uint32_t imm,
			unsigned flags, uint64_t address, uint32_t key) REQUIRES(rs->lock);
/* One of data: takes a slot, and has `bytes` in the send ring. */
int stream_post_data(struct rsocket *rs, struct ibv_sge *sge, int sges, enum ibv_wr_opcode opcode, uint32_t imm,
		     uint32_t bytes, unsigned flags, uint64_t address, uint32_t key) REQUIRES(rs->lock);
/* One of many packets: a WRITE, and a word that tells of it. With immediate data of its own, its first packet and its
 * last would be of other sizes than the rest, and a train is of one size: it would leave in three. Takes two slots. */
int stream_post_much(struct rsocket *rs, struct ibv_sge *sge, int sges, uint32_t bytes, uint64_t address, uint32_t key)
	REQUIRES(rs->lock);
int stream_post_receives(struct rsocket *rs, uint32_t count) REQUIRES(rs->lock);

/* ---- stream.c ---- */
/* Among the flags of a call: it is a bridge's. Not one of the C library's. */
#define RS_BRIDGES 0x800000
ssize_t stream_send(struct rsocket *rs, const struct iovec *iov, int count, int flags) REQUIRES(rs->lock);
ssize_t stream_receive(struct rsocket *rs, const struct iovec *iov, int count, int flags) REQUIRES(rs->lock);
int stream_shutdown(struct rsocket *rs, int how) REQUIRES(rs->lock);
/* As poll(2) has them. */
short stream_events(struct rsocket *rs) REQUIRES(rs->lock);
/* A place for `length` bytes in the send ring, and `data` copied there: entries of sge filled. */
int stream_stage(struct rsocket *rs, const void *data, uint32_t length, struct ibv_sge sge[2]);

/* ---- iomap.c ---- */
int iomap_publish(struct rsocket *rs, int flags) REQUIRES(rs->lock);
void iomap_forget(struct rsocket *rs);

/* ---- connect.c ---- */
int rsocket_bind(struct rsocket *rs, const struct sockaddr *address, socklen_t length) REQUIRES(rs->lock);
int rsocket_listen(struct rsocket *rs, int backlog) REQUIRES(rs->lock);
/* 0, -EINPROGRESS or what went wrong. */
int rsocket_connect(struct rsocket *rs, const struct sockaddr *address, socklen_t length) REQUIRES(rs->lock);
/* The next connection of a listener, with a reference; NULL: none. */
struct rsocket *rsocket_next(struct rsocket *rs) REQUIRES(rs->lock);
/* Ends it; the table has it no more. */
void rsocket_close(struct rsocket *rs);

/* ---- peers.c: which hosts know nothing of RDMA, for those that would rather go another way ---- */
/* It has not answered, not long ago, and never has. */
bool peer_is_silent(const struct sockaddr *address);
void peer_was_silent(const struct sockaddr *address);
void peer_has_answered(const struct sockaddr *address);

/* ---- service.c ---- */
/* Where all rsockets' events of connection management come; NULL and errno. */
struct rdma_event_channel *service_channel(void);
/* The connection attempt is given up if it lasts longer. */
void service_limit(struct rsocket *rs, uint64_t until) REQUIRES(rs->lock);
/* What has come there is seen to now. */
void service_run(void);
/* A thread that calls service_run() often, from service_attend() to service_leave(). Before it sleeps it says so and
 * runs once more; then its eventfd is written when something comes. */
struct attendant {
	struct list link;
	int fd;
	bool sleeps;
};
void service_attend(struct attendant *a, int fd);
void service_attendant_sleeps(struct attendant *a);
void service_leave(struct attendant *a);
/* Parts from the id and its QP, so that nothing more is told about it. */
void service_forget(struct rsocket *rs);
/* Puts it when all that was sent has arrived. */
void service_close(struct rsocket *rs);
/* It is connected from now on. */
void service_connected(struct rsocket *rs) REQUIRES(rs->lock);
/* What its options say of that has changed, or it ends. */
void service_keep_alive(struct rsocket *rs) REQUIRES(rs->lock);

/* ---- datagram.c ---- */
int datagram_open(struct rsocket *rs) REQUIRES(rs->lock);
void datagram_close(struct rsocket *rs);
void datagram_free(struct rsocket *rs);

/* ---- epoll.c ---- */
/* Takes it out of all instances. */
void rsocket_epoll_forget(struct rsocket *rs);
/* In all instances that it is in by that descriptor, that is an ordinary one now. */
void rsocket_epoll_hand_back(struct rsocket *rs, int fd);

/* ---- poll.c ---- */
/* As poll(2), rsockets and ordinary descriptors; `until`: ns or NEVER. -ESTALE: one is given to a bridge. */
int rsocket_poll(struct pollfd *fds, nfds_t count, uint64_t until);
/* What is true of it now, of `wanted` and of POLLERR and POLLHUP. */
short rsocket_events(struct rsocket *rs, short wanted);

static inline enum rsocket_state rsocket_state(struct rsocket *rs)
{
	return atomic_load_explicit(&rs->state, memory_order_relaxed);
}

static inline void rsocket_set_state(struct rsocket *rs, enum rsocket_state state)
{
	atomic_store_explicit(&rs->state, state, memory_order_relaxed);
}

static inline bool is_datagram(const struct rsocket *rs)
{
	return rs->type == SOCK_DGRAM;
}

#endif
