/* SPDX-License-Identifier: BSD-2-Clause */
/* What a process shows to its local peers (processes of the same user and network namespace), so that they can do
 * WRITEs, READs and atomics on its memory without its help: a table in shared memory of its regions and its QPs, and
 * the memory that backs regions (shareable.h, export.h). Local peers can read the table, and can write only their
 * hazard counters: these are a memfd of their own, mapped in its place; the kernel lets only the process itself write
 * to the rest.
 *
 * A visitor is a local peer that accesses the memory. Before an access it makes its hazard counter odd, then checks
 * that region and QP are open; after the access it makes the counter even. A process that closes a region or a QP
 * clears its word, then waits until every odd counter has changed: share_settle(). After that, no visitor that saw it
 * open is inside. This needs the visitor's store and its check to stay in order, which costs 20 ns. Where the kernel
 * has membarrier(2), the closing side provides the order instead, and an access takes only plain loads and stores. A
 * visitor that is killed during an access is expelled; one that is stopped is waited for.
 *
 * Any thread may call anything here. After fork, the child's copy does nothing. */
#ifndef UROCE_SHARE_H
#define UROCE_SHARE_H

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/base.h"
#include "base/lock.h"
#include "base/qpn.h"
#include "memory/key.h"

enum {
	SHARE_SLOTS = SLOT_LAST + 1,
	SHARE_HAZARDS = 63, /* threads of a process with a hazard counter; other threads use the queue */
	SHARE_QPS = 65536,
	SHARE_REGIONS = (2 << 20) + 1,
	SHARE_QUEUES = 1024,	  /* SRQs that offer receives; to others messages come as packets */
	SHARE_RECEIVES = 128,	  /* receives that a QP or an SRQ shows at a time */
	SHARE_FILES = 64,	  /* exported files; regions in more files are reached as other memory is */
	SHARE_MAGIC = 0x75526f0c, /* changes with the layout */
};

/* The hazard counters of one process in the table of another: only the visitor writes `hazard`, only the owner of the
 * table writes `admitted`. */
struct share_visitor {
	_Atomic uint64_t admitted; /* `identity` of the visitor that is admitted; 0: none */
	struct {
		_Alignas(CACHE_LINE) _Atomic uint32_t count; /* odd: a thread is inside an access */
	} hazard[SHARE_HAZARDS];
};
static_assert(sizeof(struct share_visitor) == 4096, "no two visitors write to one page");

/* A QP that can be the target of one-sided operations. */
struct share_qp {
	_Alignas(CACHE_LINE) _Atomic uint32_t open; /* SHARE_QP_OPEN and enum ibv_access_flags; 0: closed */
	uint32_t life;				    /* RESETs so far: the counts below begin anew with each */
	uint64_t pd;
	_Atomic uint64_t pair; /* share_pair() of the two QPs. Relaxed: `open` publishes it */
	/* Its receives, in share_table.receive: object/receives.h. Positions before this are shown; and the position of
	 * the next one that a message uses up. */
	_Atomic uint32_t receives, taken;
	_Atomic uint32_t queue; /* index of its SRQ in share_table.queue, from 1; 0: it has receives of its own */
	/* Messages delivered to it since RESET, as of the last one whose record carried its bytes: all are stored. */
	_Atomic uint32_t stored;
};
static_assert(sizeof(struct share_qp) == CACHE_LINE, "one look, one cache line");

/* A receive of one SGE. All are zero if it has none, or several. */
struct share_receive {
	uint64_t address;
	uint32_t length, key;
};
#define SHARE_QP_OPEN (1u << 31)

/* An SRQ that offers receives (object/offers.h), in share_table.receive behind those of the QPs. */
struct share_queue {
	_Alignas(CACHE_LINE) _Atomic uint32_t offered; /* positions before this are offered, or were */
	uint64_t pd;				       /* of its receives. Constant while a QP of it is open */
};

/* Who has claimed the receives of an SRQ: claims.h. Any local peer can write there. */
struct share_claims {
	_Alignas(CACHE_LINE) _Atomic uint32_t next; /* position from which to look for one. A hint */
	_Alignas(CACHE_LINE) _Atomic uint64_t word[SHARE_RECEIVES];
};

static inline uint64_t share_qp_pair(const struct share_qp *qp)
{
	return atomic_load_explicit(&((struct share_qp *)qp)->pair, memory_order_relaxed);
}

/* A region. It is at `address` of its process; `mapped` bytes of it, from `skip` on, are in the arena of shareable.h or
 * in a file of export.h, from `offset` on. All but `key` is constant while it is open. */
struct share_region {
	_Alignas(CACHE_LINE) _Atomic uint32_t key; /* 0: closed */
	uint32_t access;			   /* enum ibv_access_flags */
	uint64_t pd;
	uint64_t iova, length;
	uint64_t address;
	uint64_t offset, mapped;
	uint32_t skip;
	uint32_t file; /* 0: the arena; else index in share_table.file, from 1, and SHARE_OF_GPU */
};
#define SHARE_OF_GPU (1u << 31) /* the file is an allocation of a GPU */
static_assert(sizeof(struct share_region) == CACHE_LINE, "one look, one cache line");

/* An exported file, or what is as good as one. All but `serial` is constant while a region in it is open. */
struct share_file {
	_Alignas(CACHE_LINE) _Atomic uint64_t serial; /* of the file in this entry, from 1; 0: none */
	uint64_t device, inode;			      /* as in stat(2); see enum share_kind */
	uint64_t bytes;
	int32_t fd;   /* descriptor in its process; -1: none */
	uint8_t kind; /* enum share_kind; a local peer may write any byte */
	char handle[64];
};
enum share_kind {
	SHARE_FILE,
	SHARE_SEGMENT, /* SysV shared memory: inode is its number */
	SHARE_GPU,     /* device is the address of the allocation, inode its serial number: gpu_export() */
};

struct share_table {
	uint32_t magic, size_of_page;
	uint64_t identity; /* random number of the process, not 0 */
	uint32_t key_mix, key_mask;
	uint8_t barrier;	 /* share_settle() provides the order for visitors that have called barrier_join() */
	uint64_t ipc;		 /* share_ipc() */
	_Atomic uint64_t closed; /* number of regions and QPs closed so far. While it is unchanged, all that visitors
				    found open is open */
	_Atomic uint32_t files_closed; /* number of files closed so far */
	/* A robust mutex, which a thread of the process holds as long as the process lives. When it ends, however it
	 * does, the kernel says so here before it tells anybody else: share_has_died(). */
	_Alignas(CACHE_LINE) pthread_mutex_t life;
	/* Visitors write only to the following two arrays, which are the other memfd. They have pages of their own for
	 * every page size. */
	char unused[65536 - CACHE_LINE - sizeof(pthread_mutex_t)];
	struct share_visitor visitor[SHARE_SLOTS];
	struct share_claims claims[SHARE_QUEUES];
	struct share_qp qp[SHARE_QPS];
	struct share_queue queue[SHARE_QUEUES];
	struct share_region region[SHARE_REGIONS];
	struct share_file file[SHARE_FILES];
	struct share_receive receive[SHARE_QPS + SHARE_QUEUES][SHARE_RECEIVES];
};
#define SHARE_WRITTEN (offsetof(struct share_table, qp) - offsetof(struct share_table, visitor))

static_assert(offsetof(struct share_table, visitor) == 65536 && offsetof(struct share_table, claims) % 65536 == 0 &&
		      offsetof(struct share_table, qp) % 65536 == 0,
	      "pages");

/* True once the process has ended; false if no thread has called share_begin_life(). */
static inline bool share_has_died(const struct share_table *t)
{
	/* the first word of a mutex of glibc is the futex. Relaxed: who has been told of the end sees it */
	return __atomic_load_n((const uint32_t *)&t->life, __ATOMIC_RELAXED) & FUTEX_OWNER_DIED;
}

struct arena;

struct share {
	struct share_table *table;
	int fd, visitor_fd; /* of the table, and of the part that visitors write to */
	uint16_t slot;
	bool takes_part;	  /* threads of this process take part in membarrier() of others */
	_Atomic bool inert;	  /* the copy of a child of fork(). Relaxed: set before the child has threads */
	_Atomic uint64_t settled; /* value of table->closed for which all accesses are known to be over */
	_Atomic uint64_t visitor[SHARE_SLOTS / 64]; /* one bit for each admitted visitor */
	struct key_code code;
	struct arena *arena;	       /* NULL: no memory is made shareable */
	void (*on_release)(void *arg); /* set before the first region is opened */
	void *on_release_arg;

	struct lock lock; /* guards the fields below */
	pid_t pid[SHARE_SLOTS] GUARDED_BY(&lock);
	int pidfd[SHARE_SLOTS] GUARDED_BY(&lock); /* -1: none */

	struct lock file_lock;			     /* guards the fields below, and table->file */
	uint64_t file_serial GUARDED_BY(&file_lock); /* last serial number of a file */
	struct {
		uint32_t regions;	 /* open regions in the file; 0: the entry is free */
		struct share_file shown; /* private copy of the table entry: the shared one is not trusted */
	} file[SHARE_FILES] GUARDED_BY(&file_lock);
};

/* 0 or -errno. `key_mix` and `key_mask` make the keys of the regions (hca.h). */
int share_create(struct share **made, uint16_t slot, uint32_t key_mix, uint32_t key_mask, uint64_t identity);
void share_destroy(struct share *s);
/* In a child after fork: closes the descriptors; only the struct stays. */
void share_abandon(struct share *s);

/* Of the thread whose end is that of the process, but for share_end_life(), which it calls if it ends before. */
void share_begin_life(struct share *s);
void share_end_life(struct share *s);

/* Sets the function that is called, without locks, when a file is no longer exported (export.h), so that local peers
 * can be told to unmap it (reach.h). Set it before anything is opened. */
void share_on_release(struct share *s, void (*call)(void *arg), void *arg);

/* The descriptors that are sent to a local peer. */
enum share_fd {
	SHARE_FD_TABLE,
	SHARE_FD_ARENA, /* may be -1 */
	SHARE_FD_VISITOR,
	SHARE_FDS
};
/* The share still owns the descriptors. */
void share_fds(const struct share *s, int fd[SHARE_FDS]);

/* Admits the local peer in that slot, with that identity (from its table) and process id. */
void share_admit(struct share *s, uint16_t slot, uint64_t identity, pid_t pid);
/* Expels it, since it is dead or has closed the device: its hazard counters are ignored from now on. */
void share_expel(struct share *s, uint16_t slot, uint64_t identity);

/* Opens a region; `r` has all but the key. */
void share_open_region(struct share *s, uint32_t index, uint32_t key, const struct share_region *r);
/* Opens it again with another key. */
void share_reopen_region(struct share *s, uint32_t index, uint32_t key);
/* Closes a region to new accesses. Accesses that have begun continue: share_settle() waits for them. */
void share_close_region(struct share *s, uint32_t index);
/* Opens an RC QP for one-sided operations of the other end of `pair`, with these rights. If it was open with other
 * values, that counts as a close. */
void share_open_qp(struct share *s, uint32_t index, unsigned access, uint64_t pd, uint64_t pair);
void share_close_qp(struct share *s, uint32_t index);
/* The entry of a QP, and the ring of its receives. NULL: there is none. */
struct share_qp *share_qp_entry(struct share *s, uint32_t index, struct share_receive **ring);
/* The entry of an SRQ. NULL: there is none. */
struct share_queue *share_queue_entry(struct share *s, uint32_t index);
/* Local peers look again at what QPs show before they rely on it. */
void share_renew_qp(struct share *s);
/* Waits until all accesses to closed regions and QPs have ended, or their visitors have died. May take as long as an
 * access takes: do not call it with locks held that the end of a process needs. Cheap if nothing has been closed since
 * the last call. */
void share_settle(struct share *s);
/* True if no thread of the process in that slot is inside an access that began before what was closed before. Does not
 * wait. */
bool share_is_quiet(struct share *s, uint16_t slot);
/* share_closed(): number of regions and QPs closed so far. share_has_settled(): true if share_settle() is done for that
 * number. */
uint64_t share_closed(const struct share *s);
bool share_has_settled(const struct share *s, uint64_t closed);

/* The IPC namespace of this process, in which SysV segment numbers are valid. 0: unknown. */
uint64_t share_ipc(void);

/* How local peers reach bytes of this process. */
enum share_way {
	SHARE_NOT,    /* they see no region with the key */
	SHARE_COPIED, /* by process_vm_readv(2) and process_vm_writev(2) */
	SHARE_MAPPED,
	SHARE_ON_GPU, /* by the GPU's driver */
};
enum share_way share_way(struct share *s, uint32_t key, uint64_t iova, uint64_t length);

/* An entry of the table of this process, open or closed; NULL: there is none. */
static inline const struct share_region *share_region(const struct share *s, uint32_t index)
{
	return index < SHARE_REGIONS && !atomic_load_explicit(&((struct share *)s)->inert, memory_order_relaxed)
		       ? &s->table->region[index]
		       : NULL;
}

/* True if these bytes of the region are in memory that local peers map. */
static inline bool share_is_mapped(const struct share_region *r, uint64_t iova, uint64_t length)
{
	uint64_t at = iova - r->iova;

	return at >= r->skip && length <= r->mapped && at - r->skip <= r->mapped - length;
}

/* A hash of the GIDs and QPNs of the target and the initiator. Both ends of a connection compute the same value if each
 * names the other. */
uint64_t share_pair(const uint8_t target[16], uint32_t target_qpn, const uint8_t initiator[16], uint32_t initiator_qpn);

#endif
