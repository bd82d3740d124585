/* SPDX-License-Identifier: BSD-2-Clause */
/* What a process shows to its local peers (processes of the same user and network namespace) so that they can do
 * WRITEs, READs and atomics on its memory without its help: a table in shared memory of its regions and of its QPs, and
 * the memory that backs regions (shareable.h, export.h). Local peers may read the table, and write only where they say
 * that they are inside: that part is a memfd of its own, mapped in its place, and the kernel lets nobody but the
 * process itself write to the rest.
 *
 * Who visits a process's memory says so first (its cell becomes odd), then looks whether region and QP are open, and
 * says when it is done (even). Who closes a region or a QP clears its word, then waits for all cells that are odd to
 * change: share_settle(). So after that nobody is inside who saw it open. That needs the visitor's store and its look
 * to stay in order, which costs 20 ns: where the kernel has membarrier(2), the closing side makes all visitors'
 * processors do that instead, and a visit is plain loads and stores. A visitor that is killed inside is expelled; one
 * that is stopped is waited for.
 *
 * Any thread may call anything here. After fork, the child's copy does nothing. */
#ifndef UROCE_SHARE_H
#define UROCE_SHARE_H

#include <stdatomic.h>
#include <sys/types.h>

#include "base/base.h"
#include "base/lock.h"
#include "memory/key.h"

enum {
	SHARE_SLOTS = 256,
	SHARE_HAZARDS = 63, /* threads of a process that visit; more go the long way */
	SHARE_QPS = 32768,
	SHARE_REGIONS = (2 << 20) + 1,
	SHARE_FILES = 64,	  /* that are exported; regions in more are reached as other memory is */
	SHARE_MAGIC = 0x75526f04, /* changes with the layout */
};

/* One process's cells at another's: only the visitor writes `hazard`, only the visited `admitted`. */
struct share_visitor {
	_Atomic uint64_t admitted; /* the visitor's `identity`: it may come; 0: nobody may */
	struct {
		_Alignas(CACHE_LINE) _Atomic uint32_t count; /* odd: a thread is inside */
	} hazard[SHARE_HAZARDS];
};
static_assert(sizeof(struct share_visitor) == 4096, "no two visitors write to one page");

/* A QP that can be target of one-sided operations. */
struct share_qp {
	_Alignas(CACHE_LINE) _Atomic uint32_t open; /* SHARE_QP_OPEN and enum ibv_access_flags; 0: closed */
	uint32_t unused;
	uint64_t pd;
	uint64_t pair; /* share_pair() of its two ends */
};
#define SHARE_QP_OPEN (1u << 31)

/* A region. Its bytes are at `address` of its process; of these, `mapped` bytes from `skip` on are in the memory that
 * shareable.h makes or in a file that export.h found, from `offset` on. All but `key` is constant while it is open. */
struct share_region {
	_Alignas(CACHE_LINE) _Atomic uint32_t key; /* 0: closed */
	uint32_t access;			   /* enum ibv_access_flags */
	uint64_t pd;
	uint64_t iova, length;
	uint64_t address;
	uint64_t offset, mapped;
	uint32_t skip;
	uint32_t file; /* 0: the arena; else of share_table.file, counted from 1 */
};
static_assert(sizeof(struct share_region) == CACHE_LINE, "one look, one cache line");

/* A file that is exported. All but `serial` is constant as long as a region in it is open. */
struct share_file {
	_Alignas(CACHE_LINE) _Atomic uint64_t serial; /* of what is in this place, from 1 up; 0: nothing */
	uint64_t device, inode;			      /* as stat(2) has them; of a SysV segment, its number */
	uint64_t bytes;
	int32_t fd;   /* of its process; -1: there is none */
	bool segment; /* of SysV shared memory */
	bool guarded; /* it may get shorter, which is a signal for who has it mapped */
};

struct share_table {
	uint32_t magic, size_of_page;
	uint64_t identity; /* of the process: random, not 0 */
	uint32_t key_mix, key_mask;
	bool barrier; /* share_settle() makes the order: visitors that take part need not */
	uint64_t ipc; /* share_ipc() */
	_Atomic uint64_t
		closed; /* regions and QPs, so far. As long as it stays, so does all that visitors have found open */
	_Atomic uint32_t files_closed; /* so often has a file been given back */
	/* visitors write to what begins here, which is the other memfd, and to no other page, however large pages are
	 */
	char unused[65536 - 64];
	struct share_visitor visitor[SHARE_SLOTS];
	struct share_qp qp[SHARE_QPS];
	struct share_region region[SHARE_REGIONS];
	struct share_file file[SHARE_FILES];
};

static_assert(offsetof(struct share_table, visitor) == 65536 && offsetof(struct share_table, qp) % 65536 == 0, "pages");

struct arena;

struct share {
	struct share_table *table;
	int fd, visitor_fd; /* of the table, and of its part that visitors write to */
	uint8_t slot;
	bool takes_part;			    /* this process's threads are reached by others' membarrier() */
	_Atomic bool inert;			    /* a child's copy. Relaxed: set before the child has threads */
	_Atomic uint64_t settled;		    /* of all that was closed, so much is known to have nobody inside */
	_Atomic uint64_t visitor[SHARE_SLOTS / 64]; /* a bit for each that is admitted */
	struct key_code code;
	struct arena *arena;	       /* NULL: nothing is made shareable */
	void (*on_release)(void *arg); /* set before there are regions */
	void *on_release_arg;

	struct lock lock; /* guards what follows */
	pid_t pid[SHARE_SLOTS] GUARDED_BY(&lock);
	int pidfd[SHARE_SLOTS] GUARDED_BY(&lock); /* -1: none */

	struct lock file_lock;			     /* guards what follows, and the table's files */
	uint64_t file_serial GUARDED_BY(&file_lock); /* the last that was given */
	struct {
		uint32_t regions;	 /* open ones; 0: the place is free */
		struct share_file shown; /* as it stands in the table: what others see is not what we go by */
	} file[SHARE_FILES] GUARDED_BY(&file_lock);
};

/* 0 or -errno. The keys of the regions are made by these numbers (hca.h). */
int share_create(struct share **made, uint8_t slot, uint32_t key_mix, uint32_t key_mask, uint64_t identity);
void share_destroy(struct share *s);
/* In a child after fork: it keeps the memory and nothing else. */
void share_abandon(struct share *s);

/* To be called, without locks, when a file is not exported any more (export.h): so that local peers are told to tidy up
 * (reach.h). Before anything is opened. */
void share_on_release(struct share *s, void (*call)(void *arg), void *arg);

/* What is sent to a local peer. */
enum share_fd {
	SHARE_FD_TABLE,
	SHARE_FD_ARENA, /* may be -1 */
	SHARE_FD_VISITOR,
	SHARE_FDS
};
/* They stay ours. */
void share_fds(const struct share *s, int fd[SHARE_FDS]);

/* The local peer in that slot, of that identity (from its table) and process, may visit. */
void share_admit(struct share *s, uint8_t slot, uint64_t identity, pid_t pid);
/* It is dead, or has closed the device: whatever its cells say, nobody waits for it. */
void share_expel(struct share *s, uint8_t slot, uint64_t identity);

/* A region is open from now on; `r` with all but the key. */
void share_open_region(struct share *s, uint32_t index, uint32_t key, const struct share_region *r);
/* It is again, by another key. */
void share_reopen_region(struct share *s, uint32_t index, uint32_t key);
/* Nobody new gets in. There may be visitors inside: share_settle() waits for them. */
void share_close_region(struct share *s, uint32_t index);
/* A QP of RC can be reached by one-sided operations from the other end of `pair`, with these rights; one that could by
 * others counts as closed. */
void share_open_qp(struct share *s, uint32_t index, unsigned access, uint64_t pd, uint64_t pair);
void share_close_qp(struct share *s, uint32_t index);
/* Whoever is inside of what is closed has left, or died. May take as long as a visit takes; not to be called with locks
 * held that the end of a process needs. Costs nothing to speak of if nothing has been closed since the last time. */
void share_settle(struct share *s);
/* How many have been closed until now; and whether share_settle() has been called since there were so many. */
uint64_t share_closed(const struct share *s);
bool share_has_settled(const struct share *s, uint64_t closed);

/* Which numbers of SysV segments this process knows: those of its IPC namespace. 0: it cannot tell. */
uint64_t share_ipc(void);

/* How local peers get at these bytes of ours. */
enum share_way {
	SHARE_NOT,    /* the key is of no region that they see */
	SHARE_COPIED, /* by process_vm_readv(2) and process_vm_writev(2) */
	SHARE_MAPPED,
};
enum share_way share_way(struct share *s, uint32_t key, uint64_t iova, uint64_t length);

/* An entry of our own, open or closed; NULL: there is none. */
static inline const struct share_region *share_region(const struct share *s, uint32_t index)
{
	return index < SHARE_REGIONS && !atomic_load_explicit(&((struct share *)s)->inert, memory_order_relaxed)
		       ? &s->table->region[index]
		       : NULL;
}

/* Whether these bytes, which are the region's, are in memory that local peers map. */
static inline bool share_is_mapped(const struct share_region *r, uint64_t iova, uint64_t length)
{
	uint64_t at = iova - r->iova;

	return at >= r->skip && length <= r->mapped && at - r->skip <= r->mapped - length;
}

/* What the two ends of a connection have in common: equal if each names the other: the GIDs and QPNs of
 * the one that is visited and of the one that visits. */
uint64_t share_pair(const uint8_t target[16], uint32_t target_qpn, const uint8_t initiator[16], uint32_t initiator_qpn);

#endif
