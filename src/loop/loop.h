/* SPDX-License-Identifier: BSD-2-Clause */
/* The event loop, one per process: connects the engine to the links, and decides which thread runs a QP, receives
 * and waits. Contexts count as its users; the last loop_put() frees it. It has no protocol rules. No layer above it
 * calls a link, or the engine's run and receive functions. Any thread may call any function here, unless its
 * comment says otherwise. */
#ifndef UROCE_LOOP_H
#define UROCE_LOOP_H

#include <poll.h>
#include <signal.h>

#include "object/hca.h"
#include "object/qp.h"

/* The adapter of this process. The first call makes it: it claims a slot among the processes of this network
 * namespace. Each open context holds one reference. NULL and errno: EUSERS (all slots are taken), ENOMEM, or
 * the error of socket(2). It starts no thread and binds no port yet. */
struct hca *loop_get(const struct hca_ops *ops);
void loop_put(struct hca *hca);
/* Whether this process has an adapter now. A hint. */
bool loop_exists(void);

/* Fills path->port for path->sgid: binds UDP port 4791 of that address if this is the first QP to use it, and
 * starts the helper thread. 0 or -errno: EADDRINUSE (another user or the kernel's rxe holds the port; a message
 * that says so and names the remedy has been logged), EADDRNOTAVAIL, ENOMEM ... loop_detach() undoes it. */
int loop_attach(struct path *path);
void loop_detach(struct path *path);

/* The peer's QP number is known: sets path->local_peer if the peer is a local peer, a process of this user on this
 * host. loop_detach() undoes it. The path is attached, and not in use yet. */
void loop_introduce(struct path *path, uint32_t dest_qpn);

/* There is room for one more QP and SRQ, if there can be: claims a further slot when the numbers of those that this
 * process has are used up (loop/slot.h). Call it before one is created. 0; -EUSERS: other processes have all such
 * slots (which has been logged); or why the table of slots cannot be had: -EAGAIN, -EACCES ... */
int loop_make_room(struct hca *hca);
/* hca_owner() knows the slots of other processes from now on, if it can be. */
void loop_learn_slots(struct hca *hca);

/* loop_join(): the QP gets a copy of each packet to a multicast group on an interface; loop_leave(): no longer.
 * IPv4 groups are ::ffff:a.b.c.d. 0 or -errno: EEXIST (the QP is in the group already), EINVAL (it is not), ENOMEM
 * (no memory, or a limit of hca.h), or an error of the kernel. */
int loop_join(uint32_t qpn, const union ibv_gid *group, int netif);
int loop_leave(uint32_t qpn, const union ibv_gid *group, int netif);
void loop_leave_all(uint32_t qpn);

/* ibv_post_send(): by the post table (post.c), or through the queue. Returns the same as engine_post_send(). */
int loop_post_send(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad) EXCLUDES(qp->lock);
/* The same for `count` requests, of which none is posted if there is no room for all. NULL: only looks whether there
 * is. */
int loop_post_batch(struct qp *qp, struct ibv_send_wr *wr, uint32_t count) EXCLUDES(qp->lock);

/* Before engine_post_send(): changes the QP over to its local peer if it can, so that even the first one-sided
 * operation completes at once. With one one-sided operation in flight, the next ones could not. */
void loop_posting(struct qp *qp) REQUIRES(qp->lock);

/* After engine_post_send(): sends now if the connection is idle or enough is queued. Otherwise the requests leave
 * with the next post or poll, or when an expected ACK arrives. */
void loop_posted(struct qp *qp) REQUIRES(qp->lock);

/* After engine_modify(), engine_fail() and all others: runs the engine until nothing is left to send, sends, and
 * sets the timer. */
void loop_run(struct qp *qp) REQUIRES(qp->lock);

/* One poll of an empty CQ: sends what waits, receives what has come, serves timers that are due. Never blocks;
 * returns at once if another thread has rx ownership. True: something was received or sent. */
bool loop_progress(void);
/* The same for a thread that polls a CQ and can take completions at once. */
bool loop_progress_for(struct cq_poller *poller);

/* The thread has slept, or is about to: its next poll is the first, so it gives no time to others yet. */
void loop_awake(void);

/* The same for a thread that does other work between its calls. It never yields. What waits to be sent usually
 * leaves with what the thread sends next, and only now and then here. */
bool loop_look_around(void);

/* Receives all that has come until now, for any QP. Waits for a thread that has rx ownership. The caller holds only
 * locks that come before rx ownership in ARCHITECTURE.md. */
void loop_catch_up(void);

/* Blocks until `fd` is readable; makes progress meanwhile, in place of the helper thread. On more than one
 * processor it spins a little first. 0, -EINTR (a signal came whose handler has no SA_RESTART), or -EAGAIN (fd is
 * O_NONBLOCK and was not readable). */
int loop_wait(int fd);
/* The same for a thread that may have no open context, or whose contexts another thread may close meanwhile. */
int loop_wait_alone(int fd);
/* Whether the program has made it O_NONBLOCK. */
bool loop_is_nonblocking(int fd);

/* A wait for an event that is not a descriptor. `done` checks whether the event has come; it is called often. `arm`
 * makes sure that `wake`, an eventfd, is written when the event comes; it is called before a sleep, unless it was
 * called since the last such write. */
struct loop_wait {
	bool (*done)(void *arg);
	void (*arm)(void *arg);
	void *arg;
	int wake;
	struct pollfd *fds; /* these end the wait as well; their revents are set if they do */
	uint32_t count;
	uint64_t until;		 /* ns: CLOCK_MONOTONIC, or NEVER */
	const sigset_t *signals; /* the thread's mask before loop_hold_signals(); NULL: that was not called */
	bool restarts;		 /* handlers with SA_RESTART do not end the wait, as they do not end a read(2) */
};

/* Blocks signals from the first check until the sleep, except those that a thread causes itself. A signal must end
 * a wait as it would end a system call, even if it comes during the checks before the sleep; else the program would
 * sleep although its handler told it to stop. The mask before goes to *signals; the caller restores it after the
 * wait. */
void loop_hold_signals(sigset_t *signals);

/* As loop_wait(). 1: done() was true, or a descriptor is ready; 0: `until` has passed; -EINTR, -ENOMEM. */
int loop_wait_for(const struct loop_wait *w);

/* Logs why a thread cannot be started: an error of pthread_create(3). The application sees only that ibv_modify_qp(),
 * for example, fails, which does not name the cause. */
void loop_say_no_thread(int error);

/* The helper thread calls handler(arg) whenever fd is readable, until loop_unwatch() returns. 0 or -errno. */
int loop_watch(int fd, void (*handler)(void *arg), void *arg);
void loop_unwatch(int fd);
/* Called by a handler that can do nothing yet while its descriptor stays readable: the helper pauses before it
 * calls the handler again. */
void loop_not_yet(void);

#endif
