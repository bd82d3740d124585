/* SPDX-License-Identifier: BSD-2-Clause */
/* Where engine meets link: who runs a QP, who receives, who waits, which thread does it. One per process.
 * No protocol rule lives here, and nothing above it calls a link or the engine's run and receive functions.
 * Any thread may call anything here unless it says otherwise. */
#ifndef UROCE_LOOP_H
#define UROCE_LOOP_H

#include <poll.h>
#include <signal.h>

#include "object/hca.h"
#include "object/qp.h"

/* The adapter of this process, made at the first call: claims a slot among the processes of this network
 * namespace. Each context that is open holds one reference. NULL and errno: EMFILE (255 processes are here
 * already), ENOMEM, or what socket(2) said. No thread runs and no port is bound yet. */
struct hca *loop_get(const struct hca_ops *ops);
void loop_put(struct hca *hca);

/* Fills path->port for path->sgid: binds UDP port 4791 of that address if this is the first QP to use it, and
 * starts the helper thread. 0 or -errno: EADDRINUSE (another user or the kernel's rxe holds the port; a message
 * that says so and names the remedy has been logged), EADDRNOTAVAIL, ENOMEM ... loop_detach() undoes it. */
int loop_attach(struct path *path);
void loop_detach(struct path *path);

/* The peer's number is known: fills path->local peer if it is a process of ours on this host. loop_detach() undoes it.
 * The path is attached, and not in use yet. */
void loop_introduce(struct path *path, uint32_t dest_qpn);

/* The QP gets a copy of what comes to a multicast group on an interface, or no more. IPv4 groups as ::ffff:a.b.c.d. 0
 * or -errno: EEXIST (it is in it already), EINVAL (it is not), ENOMEM (that, or a limit of hca.h), or what the kernel
 * says. */
int loop_join(uint32_t qpn, const union ibv_gid *group, int netif);
int loop_leave(uint32_t qpn, const union ibv_gid *group, int netif);
void loop_leave_all(uint32_t qpn);

/* ibv_post_send(): by the post table (post.c), or through the queue. As engine_post_send(). */
int loop_post_send(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad) EXCLUDES(qp->lock);

/* Before engine_post_send(): a QP that could change over to its local peer does, so that even the first one-sided
 * operation is done there and then; with one of them under way, those behind it could not be. */
void loop_posting(struct qp *qp) REQUIRES(qp->lock);

/* After engine_post_send(): sends now if the connection is idle or enough has been gathered, else leaves it to
 * the next post, poll, or to the acknowledgement that is on its way. */
void loop_posted(struct qp *qp) REQUIRES(qp->lock);

/* After engine_modify(), engine_fail() and all else: runs the engine until it has nothing to send, sends, and
 * sets the timer. */
void loop_run(struct qp *qp) REQUIRES(qp->lock);

/* What a poll that finds its CQ empty does: sends what waits, receives what has come, serves timers that are due.
 * Never blocks; returns at once if another thread is at it. True: something was received or sent. */
bool loop_progress(void);
/* The same for one that polls a CQ, to whom completions may be given at once. */
bool loop_progress_for(struct cq_poller *poller);

/* The same for a thread that has been at work and has more: it never lets others run, and leaves what waits to be sent
 * to travel with what it sends next, but for now and then. */
bool loop_look_around(void);

/* Receives what has come until now, whatever it is for; waits for another thread that is at it. With no lock but those
 * that stand above rx ownership in ARCHITECTURE.md. */
void loop_catch_up(void);

/* Blocks until `fd` is readable, making progress meanwhile in place of the helper thread; spins a little first
 * unless there is only one processor. 0, or -EINTR when a signal came whose handler
 * has no SA_RESTART, or -EAGAIN: fd is O_NONBLOCK and was not
 * readable. */
int loop_wait(int fd);

/* Waits for something that is not a descriptor. `done` looks whether it has come, and is called often; `arm` sees to it
 * that `wake`, an eventfd, is written when it comes, and is called before a sleep unless it has been since the last
 * such write. */
struct loop_wait {
	bool (*done)(void *arg);
	void (*arm)(void *arg);
	void *arg;
	int wake;
	struct pollfd *fds; /* these end the wait as well; their revents are set when it ends so */
	uint32_t count;
	uint64_t until;		 /* ns: CLOCK_MONOTONIC, or NEVER */
	const sigset_t *signals; /* the thread's mask but for loop_hold_signals(); NULL: that has not been called */
	bool restarts;		 /* handlers with SA_RESTART do not end it, as they do not end a read(2) */
};

/* A signal ends a wait, as it would end a system call: also one that comes while we look about before, or the program
 * would sleep although its handler told it to stop. So signals are held up, but for those that a thread causes itself,
 * from when it begins to look until it sleeps. The mask before goes to *signals; to be set again when the wait is over.
 */
void loop_hold_signals(sigset_t *signals);

/* As loop_wait(). 1: done() said so, or a descriptor is ready; 0: it is late; -EINTR, -ENOMEM. */
int loop_wait_for(const struct loop_wait *w);

/* The helper thread calls handler(arg) whenever fd is readable, until loop_unwatch() returns. 0 or -errno. */
int loop_watch(int fd, void (*handler)(void *arg), void *arg);
void loop_unwatch(int fd);
/* For a handler that can do nothing yet, though its descriptor stays readable: the helper pauses before it looks again.
 */
void loop_not_yet(void);

#endif
