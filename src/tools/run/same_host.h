/* SPDX-License-Identifier: BSD-2-Clause */
/* What programs of one user on this host will use among each other, and why: found out by trying. */
#ifndef UROCE_TOOLS_RUN_SAME_HOST_H
#define UROCE_TOOLS_RUN_SAME_HOST_H

#include <infiniband/verbs.h>
#include <stdbool.h>

/* From the fastest to the slowest. */
enum same_host_way {
	SAME_HOST_DIRECT,     /* each maps the memory that the other registers */
	SAME_HOST_PROCESS_VM, /* process_vm_readv(2) and process_vm_writev(2) between them */
	SAME_HOST_RINGS,      /* copies, by way of rings in shared memory */
	SAME_HOST_UDP,
	SAME_HOST_NONE, /* of an address: the programs of this user cannot use it */
};

struct same_host {
	enum same_host_way way;
	bool process_vm;
	char why_slower[128];	     /* why not the way that is faster; empty: it is the fastest */
	char why_no_process_vm[128]; /* empty if there is */
};

/* Whether a process may bind an abstract AF_UNIX name here: 0 or -errno. */
int same_host_try_name(void);

void same_host_look(struct same_host *h);

const char *same_host_word(enum same_host_way way); /* one word */
const char *same_host_says(enum same_host_way way); /* what programs do, in a line */

/* The one line more that there is to say of it, into a buffer that the next call uses again; "": there is none. */
const char *same_host_why(const struct same_host *h);

/* The holder of UDP port 4791 of an address, as /proc/net tells it. */
struct holder {
	int sockets; /* of programs */
	unsigned uid;
	bool kernel;
	pid_t stranger; /* a program of this user that has it and does not use uroce; 0: none is known */
	char program[32];
};
struct holder holder_of(const union ibv_gid *address);

#endif
