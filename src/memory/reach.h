/* SPDX-License-Identifier: BSD-2-Clause */
/* What a process sees of a local peer (share.h): its table, its made shareable memory, and its other memory by
 * process_vm_readv(2) and process_vm_writev(2). One per local peer; made when two processes introduce themselves to
 * each other. Any thread may call anything but reach_close(), which comes when nobody else does. */
#ifndef UROCE_REACH_H
#define UROCE_REACH_H

#include <sys/uio.h>

#include "memory/share.h"

struct reach;

/* For tests: does as where process_vm is forbidden. */
extern bool reach_no_process_vm;

/* Takes the descriptors over, in any case. The local peer is admitted to our memory. 0 or -errno: -EPROTO: another
 * version, nonsense, or memory whose size may change.
 *
 * The local peer may be broken, and write anything to its table at any time: each entry is copied before it is looked
 * at, and what it says is checked against what is mapped here. */
int reach_open(struct reach **made, struct share *own, const int fd[SHARE_FDS], uint8_t slot, pid_t pid);
/* The process itself, for QPs that are connected to its own. */
int reach_self(struct reach **made, struct share *own);
void reach_close(struct reach *r);
/* In a child after fork: closes descriptors. */
void reach_abandon(struct reach *r);

/* The local peer has ended: nobody goes there any more, nor waits for it here. */
void reach_dead(struct reach *r);

/* Lets go of what the local peer has stopped to lend: to be called now and then, by any thread. */
void reach_tidy(struct reach *r);

/* How its memory is reached that is not mapped. */
bool reach_has_process_vm(const struct reach *r);

/* A piece of a local peer's memory during a visit. */
struct reach_span {
	char *at;	  /* mapped here, to be used in a fault_try(); NULL: only by the kernel, in ... */
	char *guarded;	  /* ... a mapping that may get shorter; NULL: by process_vm, ... */
	uint64_t address; /* ... where it is there */
};

/* Who asks: a QP of ours and the one it is connected to. All zeros behind `pair` at first. Guarded by the caller. */
struct reach_pair {
	uint64_t pair; /* share_pair() */
	uint32_t qp;   /* its index */
	/* Where its last visit led, which is so as long as the local peer closes nothing: [va, va + length) of the
	 * region is mapped from `at` on, and may be entered with these rights. 0 bytes: nothing is known. */
	unsigned access;
	uint32_t key;
	uint64_t closed; /* of share_table */
	uint64_t va, length;
	char *at;
};

/* Begins a visit of [va, va + length): the region that the key names, the QP and the local peer are open for it, and
 * stay so until reach_leave(). False: they are not, or cannot be reached from here, and the usual way will tell why.
 * One visit at a time per thread; it does not block, as the local peer may be waiting for its end. Access: of enum
 * ibv_access_flags. */
bool reach_enter(struct reach *r, struct reach_pair *pair, uint32_t rkey, uint64_t va, uint64_t length, unsigned access,
		 struct reach_span *span);
/* The same where the last visit was, with less work: where it is, mapped here. NULL: ask reach_enter(). */
char *reach_again(struct reach *r, const struct reach_pair *pair, uint32_t rkey, uint64_t va, uint64_t length,
		  unsigned access);
void reach_leave(struct reach *r);

/* Copies between our memory and a span, within a visit. False: not, or not all (process_vm: unmapped there). The last
 * word of what is written is stored last. */
bool reach_write(struct reach *r, const struct reach_span *span, const struct iovec *from, unsigned count,
		 uint64_t length);
bool reach_read(struct reach *r, const struct reach_span *span, const struct iovec *to, unsigned count,
		uint64_t length);

/* Whether the QP was open until now, so that what it asked us to read was what we have read. */
bool reach_is_open(const struct reach *r, const struct reach_pair *pair);

#endif
