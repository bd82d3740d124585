/* SPDX-License-Identifier: BSD-2-Clause */
/* A local peer as this process sees it (share.h): its table, its memory that was made shareable, and its other memory
 * by process_vm_readv(2) and process_vm_writev(2). One per local peer; created when two processes introduce themselves
 * to each other. Any thread may call anything except reach_close(), which must be the last call. */
#ifndef UROCE_REACH_H
#define UROCE_REACH_H

#include <sys/uio.h>

#include "memory/share.h"

struct reach;

/* For tests: act as if process_vm were forbidden. */
extern bool reach_no_process_vm;
/* For tests: act as if no memory were mapped here, that of this process neither. */
extern bool reach_maps_nothing;

/* Takes ownership of the descriptors, also on failure. Admits the local peer to our memory. 0 or -errno. -EPROTO:
 * another version, invalid contents, or memory whose size may change.
 *
 * The local peer may be broken, and write anything to its table at any time: each entry is copied before it is read,
 * and checked against what is mapped here. */
int reach_open(struct reach **made, struct share *own, const int fd[SHARE_FDS], uint16_t slot, pid_t pid);
/* Reaches this process itself, for QPs that are connected to each other. */
int reach_self(struct reach **made, struct share *own);
void reach_close(struct reach *r);
/* In a child after fork: closes the descriptors. */
void reach_abandon(struct reach *r);

/* The local peer has ended: no access to it begins any more, and nothing here waits for its accesses. */
void reach_dead(struct reach *r);

/* Unmaps what the local peer no longer exports. Any thread calls it from time to time. */
void reach_tidy(struct reach *r);

/* True if memory that is not mapped can be reached by process_vm. */
bool reach_has_process_vm(const struct reach *r);

/* A piece of memory of a local peer, during an access. Of `at`, `guarded` and `gpu`, the first that is not NULL
 * applies; else process_vm at `address`. */
struct reach_span {
	char *at;		/* mapped here, to be used in a fault_try() */
	char *guarded;		/* mapped here, but the file may shrink: only the kernel copies */
	struct gpu_memory *gpu; /* memory of a GPU, at `address` here: reach_copy_gpu() */
	uint64_t address;	/* its address in the local peer */
};

/* What a QP knows of the receives of the QP that it is connected to. */
struct reach_receives {
	uint64_t closed;  /* as in struct reach_pair */
	uint32_t life;	  /* share_qp.life */
	uint32_t row;	  /* of share_table.receive */
	uint32_t next;	  /* position of the receive for the next message */
	uint32_t posted;  /* positions before this are shown */
	uint32_t psns;	  /* messages that were delivered there: PSNs, as a packet each */
	bool is_known;	  /* `life`, `row` and `next` are valid */
	bool unstored;	  /* bytes that records have carried are not known to be stored ... */
	uint32_t carried; /* ... until share_qp.stored is this */
	/* The region of the last receive: [va, va + length) may be written to. It is mapped at `at`, or, if its key is
	 * `carried_key`, not here. The other key is 0. */
	uint32_t carried_key;
	uint32_t key;
	uint64_t va, length;
	char *at;
};

/* The initiator of an access: a local QP and the QP that it is connected to. All after `pair` is zero at first. Guarded
 * by the caller. */
struct reach_pair {
	uint64_t pair; /* share_pair() */
	uint32_t qp;   /* index of the remote QP */
	/* Result of the last access, valid until the local peer closes something: [va, va + length) of the region is
	 * mapped at `at`, and may be accessed with these rights. Length 0: no result. */
	unsigned access;
	uint32_t key;
	uint64_t closed; /* share_table.closed at that time */
	uint64_t va, length;
	char *at;
	struct reach_receives receives;
};

/* Changes to another pair, or another way to the same; what is known of the receives stays, as the remote QP is the
 * same. */
static inline void reach_anew(struct reach_pair *pair, struct reach_pair to)
{
	to.receives = pair->receives;
	to.receives.posted = to.receives.next;
	to.receives.closed = UINT64_MAX;
	*pair = to;
}

/* Begins an access to [va, va + length): the region that the key names, the QP and the local peer are open for it, and
 * stay open until reach_leave(). False: they are not open, or cannot be reached from here; then the queue sends packets
 * and gets the reason. One access at a time per thread. It must not block, as the local peer may wait for its end.
 * `access`: enum ibv_access_flags. */
bool reach_enter(struct reach *r, struct reach_pair *pair, uint32_t rkey, uint64_t va, uint64_t length, unsigned access,
		 struct reach_span *span);
/* Where the result of the last access has these bytes, from reach_resume() to reach_leave(). NULL: it does not. */
static inline char *reach_place(const struct reach_pair *pair, uint32_t rkey, uint64_t va, uint64_t length,
				unsigned access)
{
	uint64_t at = va - pair->va; /* an address before it is one far behind it */

	if (unlikely(pair->key != rkey || access & ~pair->access || length > pair->length ||
		     at > pair->length - length))
		return NULL;
	return pair->at + at;
}
bool reach_resume(struct reach *r, const struct reach_pair *pair);
/* reach_enter() with less work, for an access inside the result of the last one. Returns the address here. NULL: call
 * reach_enter(). */
static inline char *reach_again(struct reach *r, const struct reach_pair *pair, uint32_t rkey, uint64_t va,
				uint64_t length, unsigned access)
{
	char *at = reach_place(pair, rkey, va, length, access);

	return likely(at && reach_resume(r, pair)) ? at : NULL;
}
void reach_leave(struct reach *r);

/* Begins the delivery of a message of that many bytes: the remote QP is open and has a receive for it, whose memory is
 * here: to be used in a fault_try(), until reach_leave(). Before that the message's record stands in the ring. Nothing
 * that the QP has sent otherwise is outstanding. NULL: there is no such receive, or it cannot be reached from here. */
char *reach_deliver(struct reach *r, struct reach_pair *pair, uint64_t length);
/* The same for a receive whose memory is not mapped here: the record carries the bytes. False as NULL, and if it is
 * mapped. */
bool reach_carry(struct reach *r, struct reach_pair *pair, uint64_t length);
#define REACH_CARRY_MOST 16384u /* bytes: UCX's longest eager message is half of it; "contended" */
/* Ends it, as the message is not delivered: the receive is there for others again. */
void reach_undeliver(struct reach *r, struct reach_pair *pair);
/* The same for the next message, in the same access. NULL: call reach_deliver(), after reach_leave(). */
char *reach_deliver_more(struct reach *r, struct reach_pair *pair, uint64_t length);

bool reach_looks_stored(const struct reach *r, const struct reach_pair *pair);
/* True if all that was delivered to the remote QP is in its memory: what is done there now comes after it. */
static inline bool reach_has_stored(const struct reach *r, const struct reach_pair *pair)
{
	return likely(!pair->receives.unstored) || reach_looks_stored(r, pair);
}

/* Copy between local memory and a span, during an access. False: nothing or only a part was copied (process_vm:
 * unmapped in the local peer). The last word written is stored last. */
bool reach_write(struct reach *r, const struct reach_span *span, const struct iovec *from, unsigned count,
		 uint64_t length);
bool reach_read(struct reach *r, const struct reach_span *span, const struct iovec *to, unsigned count,
		uint64_t length);

/* The same for a span or own memory of GPUs: own[i] is of gpu[i], NULL: not of one. Not to be called in a fault_try().
 * When it returns the bytes are there. */
bool reach_copy_gpu(struct reach *r, const struct reach_span *span, const struct iovec *own,
		    struct gpu_memory *const *gpu, unsigned count, bool is_write);

/* True if the remote QP is open for another QP than that of the pair, or at other addresses. False also if the remote
 * QP is not open yet. */
bool reach_contradicts(const struct reach *r, const struct reach_pair *pair);

/* True if the QP is still open, so what has been read is what the QP allowed to be read. */
bool reach_is_open(const struct reach *r, const struct reach_pair *pair);

/* For delivery.c. */
/* Fills in the span. False: out of reach. */
bool reach_locate(struct reach *r, const struct share_region *region, uint64_t va, uint64_t length,
		  struct reach_span *span);
/* Stores the result for reach_place(), if the mapping is permanent: the arena, or memory of this process. */
void reach_remember(struct reach *r, struct reach_pair *pair, const struct share_region *region, uint32_t rkey,
		    uint64_t closed);

#endif
