/* SPDX-License-Identifier: BSD-2-Clause */
/* Introduction of two processes of one user on one host. Each listens at a name that contains its slot. A process with
 * a QP to another one calls it, and sends one greeting: its capabilities, and descriptors of memory that it shares. The
 * other process calls back in the same way; when both have been called they have met. The connection stays open: its
 * end tells that the process is gone.
 *
 * To share more, add a GREETING_ flag, a field in `struct greeting` and a descriptor in `enum greeting_fd`. The two
 * processes may be of different releases, so the name changes with the layout (INTRODUCTION_VERSION). */
#ifndef UROCE_HOST_INTRODUCTION_H
#define UROCE_HOST_INTRODUCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define INTRODUCTION_VERSION 7
#define GREETING_MAGIC	     0x75726f6363656f72ull

enum greeting_fd {
	GREETING_RING,	   /* the ring from the caller to the called process */
	GREETING_TABLES,   /* GREETING_HAS_TABLES: table of the caller's memory regions */
	GREETING_ARENA,	   /* memory of those regions that local peers can map; may be missing */
	GREETING_VISITOR,  /* GREETING_HAS_TABLES: words in which local peers say that they access this memory */
	GREETING_DOORBELL, /* a non-blocking eventfd that wakes the caller */
	GREETING_FDS
};

enum greeting_flag {
	GREETING_HAS_TABLES = 1 << 0,
};

struct greeting {
	uint64_t magic;
	uint32_t bytes; /* size of the struct */
	uint32_t slot;	/* slot of the caller */
	uint32_t flags; /* enum greeting_flag */
	uint32_t fds;	/* descriptors that come with it: a bit for each of enum greeting_fd */
	uint64_t probe; /* address, in the caller, of a word with GREETING_MAGIC: tests process_vm_readv(2) */
	uint64_t reserved[11];
};

/* A greeting that was received. */
struct introduction {
	struct greeting greeting;
	int fd[GREETING_FDS]; /* -1: did not come. The receiver closes the others */
	pid_t pid;	      /* the caller, as this process sees it; 0: not visible */
};

/* Listens for calls at this slot's name: a non-blocking descriptor, or -errno. */
int introduction_listen(uint16_t slot);

/* Calls the process of that slot and sends a greeting; fd[i] is -1 for memory that is not shared. Does not wait.
 * Without a greeting (NULL), the connection stays until one of the two processes ends. Returns the connection, or
 * -errno (-ECONNREFUSED: no process listens; -EACCES: the process is another user's). *pid: the other process, 0 if it
 * is not visible here. */
int introduction_call(uint16_t slot, const struct greeting *greeting, const int fd[GREETING_FDS], pid_t *pid);

/* Receives a greeting. 0; -EAGAIN: it has not come yet; -EBADMSG: it is malformed, or the caller is gone. */
int introduction_receive(int connection, struct introduction *in);

/* Checks that the bytes and the descriptors in `fd` (-1: did not come) are a greeting. 0 or -EBADMSG. */
int greeting_check(const void *bytes, size_t size, const int fd[GREETING_FDS]);

void introduction_close(struct introduction *in); /* closes the descriptors that are not -1 */

#endif
