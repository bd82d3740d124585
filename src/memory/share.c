/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/share.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/high_fd.h"
#include "base/barrier.h"
#include "base/memfd.h"
#include "base/ptracer.h"
#include "base/yield.h"
#include "memory/shareable.h"
#include "memory/tuned.h"

static int map_own_table(struct share *s)
{
	size_t size = sizeof(*s->table);
	struct share_table *t = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, s->fd, 0);
	int err = 0;

	if (t == MAP_FAILED)
		return -errno;
	if (mmap(t->visitor, SHARE_WRITTEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
		 s->visitor_fd, 0) == MAP_FAILED)
		err = -errno;
	err = err ?: memfd_end_writes(s->fd);
	if (err) {
		munmap(t, size);
		return err;
	}
	madvise(t, size, MADV_DONTFORK); /* a child would close the regions of its parent */
	s->table = t;
	return 0;
}

static int make_table(struct share *s)
{
	int err;

	s->fd = memfd_of_size("uroce-share", MFD_ALLOW_SEALING, sizeof(*s->table));
	if (s->fd < 0)
		return s->fd;
	s->visitor_fd = memfd_of_size("uroce-visitor", 0, SHARE_WRITTEN);
	err = s->visitor_fd < 0 ? s->visitor_fd : map_own_table(s);
	if (!err)
		return 0;
	close(s->fd);
	if (s->visitor_fd >= 0)
		close(s->visitor_fd);
	return err;
}

uint64_t share_ipc(void)
{
	struct stat st;

	return stat("/proc/self/ns/ipc", &st) ? 0 : st.st_ino;
}

/* A kernel that has no robust futexes says nothing: then the end of a connection does, somewhat later. */
static void make_life(pthread_mutex_t *life)
{
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(life, &a);
	pthread_mutexattr_destroy(&a);
}

void share_begin_life(struct share *s)
{
	pthread_mutex_lock(&s->table->life);
}

void share_end_life(struct share *s)
{
	pthread_mutex_unlock(&s->table->life);
}

int share_create(struct share **made, uint16_t slot, uint32_t key_mix, uint32_t key_mask, uint64_t identity)
{
	struct share *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	err = make_table(s);
	if (err) {
		free(s);
		return err;
	}
	lock_assert_unshared(&s->lock);
	lock_set_rank(&s->lock, RANK_SHARE);
	lock_set_rank(&s->file_lock, RANK_SHARE_FILE);
	s->slot = slot;
	s->code = key_code(key_mix, key_mask);
	s->takes_part = barrier_join();
	for (int i = 0; i < SHARE_SLOTS; i++)
		s->pidfd[i] = -1;
	s->table->size_of_page = (uint32_t)sysconf(_SC_PAGESIZE);
	s->table->identity = identity;
	s->table->key_mix = key_mix;
	s->table->key_mask = key_mask;
	s->table->barrier = s->takes_part;
	s->table->ipc = share_ipc();
	make_life(&s->table->life);
	s->table->magic = SHARE_MAGIC;
	s->arena = arena_get();
	ptracer_allow();
	*made = s;
	return 0;
}

static bool is_inert(const struct share *s)
{
	return atomic_load_explicit(&((struct share *)s)->inert, memory_order_relaxed);
}

/* Closes all descriptors. */
static void close_all(struct share *s)
{
	lock_assert_unshared(&s->lock);
	lock_assert_unshared(&s->file_lock);
	close(s->fd);
	close(s->visitor_fd);
	for (uint32_t i = 0; i < SHARE_FILES; i++)
		if (s->file[i].regions && s->file[i].shown.fd >= 0)
			close(s->file[i].shown.fd);
	for (int i = 0; i < SHARE_SLOTS; i++)
		if (s->pidfd[i] >= 0)
			close(s->pidfd[i]);
}

void share_destroy(struct share *s)
{
	if (!s)
		return;
	if (!is_inert(s)) {
		for (unsigned i = 0; i < SHARE_SLOTS; i++)
			share_expel(s, (uint16_t)i, 0);
		share_settle(s);
		munmap(s->table, sizeof(*s->table));
		close_all(s);
	}
	free(s);
}

void share_abandon(struct share *s)
{
	if (!s)
		return;
	atomic_store_explicit(&s->inert, true, memory_order_relaxed);
	/* what the child posts is lost: here */
	(void)mmap(s->table, sizeof(*s->table), PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
	close_all(s);
}

void share_on_release(struct share *s, void (*call)(void *arg), void *arg)
{
	s->on_release = call;
	s->on_release_arg = arg;
}

void share_fds(const struct share *s, int fd[SHARE_FDS])
{
	fd[SHARE_FD_TABLE] = s->fd;
	fd[SHARE_FD_ARENA] = arena_fd(s->arena);
	fd[SHARE_FD_VISITOR] = s->visitor_fd;
}

/* ---- visitors ---- */

static bool is_visitor(struct share *s, unsigned slot)
{
	/* pairs with share_admit() */
	return atomic_load_explicit(&s->visitor[slot / 64], memory_order_seq_cst) >> slot % 64 & 1;
}

void share_admit(struct share *s, uint16_t slot, uint64_t identity, pid_t pid)
{
	struct share_visitor *v = &s->table->visitor[slot];

	if (is_inert(s))
		return;
	lock_take(&s->lock);
	if (s->pidfd[slot] >= 0)
		close(s->pidfd[slot]);
	s->pid[slot] = pid;
	s->pidfd[slot] = pid == getpid() ? -1 : high_fd((int)syscall(SYS_pidfd_open, pid, 0));
	for (int i = 0; i < SHARE_HAZARDS; i++) /* left by an earlier process in this slot */
		if (atomic_load_explicit(&v->hazard[i].count, memory_order_relaxed))
			atomic_store_explicit(&v->hazard[i].count, 0, memory_order_relaxed);
	/* before it can be inside: see share_settle() */
	atomic_fetch_or_explicit(&s->visitor[slot / 64], 1ull << slot % 64, memory_order_seq_cst);
	/* release pairs with reach_enter() */
	atomic_store_explicit(&v->admitted, identity, memory_order_release);
	lock_drop(&s->lock);
}

void share_expel(struct share *s, uint16_t slot, uint64_t identity)
{
	struct share_visitor *v = &s->table->visitor[slot];

	if (is_inert(s))
		return;
	lock_take(&s->lock);
	if (is_visitor(s, slot) &&
	    (!identity || atomic_load_explicit(&v->admitted, memory_order_relaxed) == identity)) {
		atomic_store_explicit(&v->admitted, 0, memory_order_seq_cst);
		atomic_fetch_and_explicit(&s->visitor[slot / 64], ~(1ull << slot % 64), memory_order_seq_cst);
		if (s->pidfd[slot] >= 0)
			close(s->pidfd[slot]); /* await() sees that it is no longer a visitor */
		s->pidfd[slot] = -1;
	}
	lock_drop(&s->lock);
}

/* True if the process that was admitted last in this slot has ended. */
static bool is_dead(struct share *s, uint16_t slot)
{
	struct pollfd p = {.events = POLLIN};
	bool dead;

	lock_take(&s->lock);
	p.fd = s->pidfd[slot];
	/* a zombie's pidfd is readable too */
	dead = p.fd >= 0 ? poll(&p, 1, 0) == 1 : kill(s->pid[slot], 0) && errno == ESRCH;
	lock_drop(&s->lock);
	return dead;
}

/* Waits until the access that this counter shows has ended, or its visitor is expelled or dead. */
static void await(struct share *s, uint16_t slot, _Atomic uint32_t *hazard)
{
	uint32_t inside = atomic_load_explicit(hazard, memory_order_seq_cst);

	/* acquire pairs with reach_leave(): the access is complete */
	for (unsigned n = 1; inside & 1 && atomic_load_explicit(hazard, memory_order_acquire) == inside; n++) {
		if (n % SHARE_YIELDS == 0 && (!is_visitor(s, slot) || is_dead(s, slot)))
			return;
		processor_yield();
	}
}

static bool has_visitors(const struct share *s)
{
	bool any = false;

	for (unsigned i = 0; i < SHARE_SLOTS / 64; i++)
		any |= atomic_load_explicit(&((struct share *)s)->visitor[i], memory_order_seq_cst) != 0;
	return any;
}

uint64_t share_closed(const struct share *s)
{
	/* acquire pairs with shut(): the words of that many are clear */
	return is_inert(s) ? 0 : atomic_load_explicit(&s->table->closed, memory_order_acquire);
}

bool share_has_settled(const struct share *s, uint64_t closed)
{
	/* acquire pairs with share_remember(): accesses that were under way are complete. A visitor that is admitted
	 * later sees the words clear */
	return atomic_load_explicit(&((struct share *)s)->settled, memory_order_acquire) >= closed || !has_visitors(s);
}

static void share_remember(struct share *s, uint64_t closed)
{
	uint64_t settled = atomic_load_explicit(&s->settled, memory_order_relaxed);

	/* release pairs with share_has_settled() */
	while (settled < closed && !atomic_compare_exchange_weak_explicit(&s->settled, &settled, closed,
									  memory_order_release, memory_order_relaxed))
		;
}

/* The first one from that slot on; SHARE_SLOTS: there is none. */
static unsigned next_visitor(struct share *s, unsigned slot)
{
	while (slot < SHARE_SLOTS && !is_visitor(s, slot))
		slot = atomic_load_explicit(&s->visitor[slot / 64], memory_order_seq_cst) >> slot % 64
			       ? slot + 1
			       : (slot | 63) + 1;
	return slot;
}

void share_settle(struct share *s)
{
	uint64_t closed = share_closed(s);

	if (share_has_settled(s, closed))
		return;
	/* pairs with the plain store and load of reach_enter(): the processor of a visitor has done both, or neither */
	if (s->table->barrier)
		barrier_everywhere();
	for (unsigned i = next_visitor(s, 0); i < SHARE_SLOTS; i = next_visitor(s, i + 1))
		for (int n = 0; is_visitor(s, i) && n < SHARE_HAZARDS; n++)
			await(s, (uint16_t)i, &s->table->visitor[i].hazard[n].count);
	share_remember(s, closed);
}

bool share_is_quiet(struct share *s, uint16_t slot)
{
	bool quiet = true;

	if (is_inert(s) || !is_visitor(s, slot))
		return true;
	if (s->table->barrier) /* as in share_settle() */
		barrier_everywhere();
	for (int n = 0; n < SHARE_HAZARDS; n++) /* as in await() */
		quiet &= !(atomic_load_explicit(&s->table->visitor[slot].hazard[n].count, memory_order_seq_cst) & 1);
	return quiet || is_dead(s, slot);
}

/* ---- regions and QPs ---- */

void share_open_region(struct share *s, uint32_t index, uint32_t key, const struct share_region *r)
{
	struct share_region *to;

	if (is_inert(s) || index >= SHARE_REGIONS)
		return;
	to = &s->table->region[index];
	to->access = r->access;
	to->pd = r->pd;
	to->iova = r->iova;
	to->length = r->length;
	to->address = r->address;
	to->offset = r->offset;
	to->mapped = r->mapped;
	to->skip = r->skip;
	to->file = r->file;
	/* release pairs with reach_enter(): a visitor that sees the key sees the other fields */
	atomic_store_explicit(&to->key, key, memory_order_release);
}

void share_reopen_region(struct share *s, uint32_t index, uint32_t key)
{
	if (!is_inert(s) && index < SHARE_REGIONS)
		atomic_store_explicit(&s->table->region[index].key, key, memory_order_release); /* as above */
}

static void shut(struct share *s, _Atomic uint32_t *word)
{
	/* sequentially consistent, with reach_enter() where there is no barrier: either the visitor sees these two, or
	 * share_settle() sees the odd counter. The second also pairs with share_closed() */
	if (atomic_exchange_explicit(word, 0, memory_order_seq_cst))
		atomic_fetch_add_explicit(&s->table->closed, 1, memory_order_seq_cst);
}

void share_close_region(struct share *s, uint32_t index)
{
	if (!is_inert(s) && index < SHARE_REGIONS)
		shut(s, &s->table->region[index].key);
}

void share_open_qp(struct share *s, uint32_t index, unsigned access, uint64_t pd, uint64_t pair)
{
	unsigned open = SHARE_QP_OPEN | access;
	struct share_qp *qp;
	bool moves;

	if (is_inert(s) || index >= SHARE_QPS)
		return;
	qp = &s->table->qp[index];
	/* relaxed: only this process writes them */
	moves = qp->pd != pd || atomic_load_explicit(&qp->pair, memory_order_relaxed) != pair;
	if (moves || atomic_load_explicit(&qp->open, memory_order_relaxed) != open)
		shut(s, &qp->open);
	if (moves) { /* else somebody may be reading them */
		qp->pd = pd;
		atomic_store_explicit(&qp->pair, pair, memory_order_relaxed);
	}
	/* release pairs with reach_enter() */
	atomic_store_explicit(&qp->open, open, memory_order_release);
}

void share_close_qp(struct share *s, uint32_t index)
{
	if (!is_inert(s) && index < SHARE_QPS)
		shut(s, &s->table->qp[index].open);
}

struct share_qp *share_qp_entry(struct share *s, uint32_t index, struct share_receive **ring)
{
	if (is_inert(s) || index >= SHARE_QPS)
		return NULL;
	*ring = s->table->receive[index];
	return &s->table->qp[index];
}

struct share_queue *share_queue_entry(struct share *s, uint32_t index)
{
	return is_inert(s) || index >= SHARE_QUEUES ? NULL : &s->table->queue[index];
}

void share_renew_qp(struct share *s)
{
	/* as shut() */
	if (!is_inert(s))
		atomic_fetch_add_explicit(&s->table->closed, 1, memory_order_seq_cst);
}

enum share_way share_way(struct share *s, uint32_t key, uint64_t iova, uint64_t length)
{
	const struct share_region *r = share_region(s, key_index(&s->code, key));

	/* acquire pairs with share_open_region() */
	if (!r || !key || atomic_load_explicit(&((struct share_region *)r)->key, memory_order_acquire) != key)
		return SHARE_NOT;
	if (r->file & SHARE_OF_GPU)
		return SHARE_ON_GPU;
	return share_is_mapped(r, iova, length) ? SHARE_MAPPED : SHARE_COPIED;
}

uint64_t share_pair(const uint8_t target[16], uint32_t target_qpn, const uint8_t initiator[16], uint32_t initiator_qpn)
{
	uint64_t word[5] = {[4] = (uint64_t)target_qpn << 32 | initiator_qpn}, mixed = 0;

	memcpy(word, target, 16);
	memcpy(word + 2, initiator, 16);
	for (int i = 0; i < 5; i++) {
		mixed = (mixed ^ word[i]) * 0x9e3779b97f4a7c15u;
		mixed ^= mixed >> 32;
	}
	return mixed;
}
