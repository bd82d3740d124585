/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests of `uroce` commands to a process that runs: "stat [devices]", "pcap NAME", "trace", "fault list". The helper
 * thread listens at an abstract SOCK_SEQPACKET socket, uroce/control/PID/RANDOM, and serves processes of the same user
 * only. The random part keeps other users from binding the name first; commands find it in /proc/PID/net/unix.
 *
 * One request is one message, and so is its answer: "ok ..." or "error ...", what went wrong and what to do. What a
 * request has switched on stays on until its connection ends. */
#ifndef UROCE_LOOP_CONTROL_H
#define UROCE_LOOP_CONTROL_H

#include <stdbool.h>
#include <stddef.h>

/* Version of these requests, as "version" answers. */
#define CONTROL_VERSION	    1
#define CONTROL_MESSAGE	    4096 /* bytes of a request or an answer at most */
#define CONTROL_CONNECTIONS 8

/* A request that this process understands: one row of control_verbs[] in control.c. */
struct control_verb {
	const char *name;
	/* `argument`: what follows the name and a space. Writes what follows "ok " or "error " to `answer`, which is
	 * empty before. A descriptor that it puts into *give goes with the answer, and is closed here. 0 or -errno.
	 * Called by the helper thread, without locks. */
	int (*begin)(const char *argument, char *answer, size_t room, int *give);
	void (*end)(void); /* called when the connection that began it has ended; NULL: nothing to do */
};

/* All fields belong to the helper thread, except in open and close. */
struct control {
	bool is_open;
	int listener;
	struct control_connection {
		int fd; /* valid if `used` */
		bool used;
		const struct control_verb *verb; /* the request that is under way and has an end; else NULL */
	} connection[CONTROL_CONNECTIONS];
};

/* Listens. 0, or -errno and nothing is open: the process runs without. control_close(): ends every connection. */
int control_open(struct control *c);
void control_close(struct control *c);

/* Closes the descriptors without ending requests, in a child of fork(). */
void control_abandon(struct control *c);

/* Accepts, when the listener is readable. Returns the descriptor to be watched; -EAGAIN: no more; another -errno: one
 * was closed. */
int control_accept(struct control *c);
/* Handles a connection that is readable or has ended. */
void control_serve(struct control *c, int fd);

#endif
