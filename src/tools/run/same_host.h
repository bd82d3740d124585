/* SPDX-License-Identifier: BSD-2-Clause */
/* The way in which programs of one user on this host will exchange data, and the reason, found out by trying. */
#ifndef UROCE_TOOLS_RUN_SAME_HOST_H
#define UROCE_TOOLS_RUN_SAME_HOST_H

#include <infiniband/verbs.h>
#include <stdbool.h>

/* Ways, from the fastest to the slowest. */
enum same_host_way {
	SAME_HOST_DIRECT,     /* each maps the memory that the other registers */
	SAME_HOST_PROCESS_VM, /* process_vm_readv(2) and process_vm_writev(2) between them */
	SAME_HOST_RINGS,      /* copies through rings in shared memory */
	SAME_HOST_UDP,
	SAME_HOST_NONE, /* of an address: this user's programs cannot use it */
};

struct same_host {
	enum same_host_way way;
	bool process_vm;
	char why_slower[128];	     /* reason against the next faster way; empty: fastest */
	char why_no_process_vm[128]; /* reason, or empty if available */
};

/* Tests if a process may bind an abstract AF_UNIX name here. 0 or -errno. */
int same_host_try_name(void);

void same_host_look(struct same_host *h);

const char *same_host_word(enum same_host_way way); /* one word */
const char *same_host_says(enum same_host_way way); /* description, one line */

/* One more line of explanation, in a buffer that the next call overwrites; "" if none. */
const char *same_host_why(const struct same_host *h);

/* Holder of UDP port 4791 of an address, from /proc/net. */
struct holder {
	int sockets; /* sockets of programs */
	unsigned uid;
	bool kernel;
	pid_t stranger; /* program of this user that holds the port and does not use uroce; 0: none known */
	char program[32];
};
struct holder holder_of(const union ibv_gid *address);

#endif
