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

/* Of these requests; "version" tells it. */
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
	void (*end)(void); /* the connection that began it has ended; NULL: nothing to do */
};

/* All of this belongs to the helper thread, but for open and close. */
struct control {
	bool is_open;
	int listener;
	struct control_connection {
		int fd; /* meaningful if `used` */
		bool used;
		const struct control_verb *verb; /* what it has begun, and has an end; else NULL */
	} connection[CONTROL_CONNECTIONS];
};

/* Listens. -errno: nothing is open; the process runs without. */
int control_open(struct control *c);
void control_close(struct control *c);

/* In a child after fork: closes the descriptors, and ends nothing. */
void control_abandon(struct control *c);

/* The listener is readable: accepts. The descriptor to be watched; -EAGAIN: no more; another -errno: one was closed. */
int control_accept(struct control *c);
/* A connection is readable, or has ended. */
void control_serve(struct control *c, int fd);

#endif
