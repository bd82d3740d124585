// SPDX-License-Identifier: BSD-2-Clause
/* A peer may access memory when the program has told it so: by what it posted, or sent through a socket of its own.
 * What a thread did before that comes before the access. The access comes before what a thread does that knows of it:
 * - of a WRITE or an atomic, by a message of the same queue pair, as IBTA has it; by an aligned flag of at most eight
 *   bytes that a later WRITE or an atomic of that queue pair stores and the program loads atomically; of one by a queue
 *   pair of this process, by the completion as well;
 * - of a READ, by any message;
 * - by what may tell anything: the result of a READ or an atomic, an event, a message through a socket of the
 *   program; or as it destroys or changes an object.
 * Accesses of two queue pairs are never reported: other processes may have ordered them. */
#include "check/peers.h"
#include "check/target.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/high_fd.h"
#include "base/tsan.h"
#include "check/objects.h"
#include "memory/guarded.h"
#include "object/early.h"
#include "object/mr.h"
#include "object/qp.h"
#include "wire/packet.h"

#define FIBERS	    256u       /* of each kind; more queue pairs share them, by which a race may be missed */
#define GRANULES    (1u << 18) /* of 8 bytes each; several share an entry, with the same effect */
#define LOW	    3	       /* descriptors that are looked at, from LOW: */
#define DESCRIPTORS 125
#define NO_SYNC	    1 /* __tsan_switch_to_fiber_no_sync */

enum kind { WRITES, READS, KINDS };

struct fiber {
	void *fiber;  /* NULL: not made yet */
	uint32_t qpn; /* 0: unused */
	char key;     /* released after each access */
	char message; /* released when a message has come */
	/* Memory of a one-packet WRITE with immediate, which may find no receive and come again. */
	char *late;
	uint64_t late_length; /* bytes; 0: none */
};

static struct fiber fibers[KINDS * FIBERS]; /* guarded by objects_lock, as what follows */
static uint16_t *last;			    /* number of the fiber that last accessed each granule, plus 1 */
static char told_key, all_key, reads_key;
static int nobodys = -1; /* a socket; ThreadSanitizer takes all sockets for one */

/* Entry points of ThreadSanitizer, whose interceptors replace the C library's functions; src/base/uncancelled.c
 * bypasses them. */
static struct {
	void *(*create)(unsigned flags);
	void (*enter)(void *fiber, unsigned flags);
	void *(*current)(void);
	void (*set_name)(void *fiber, const char *name);
	void (*acquire)(void *key);
	void (*release)(void *key);
	void (*read_range)(void *at, size_t size);
	void (*write_range)(void *at, size_t size);
	uint8_t (*load8)(const volatile uint8_t *at, int order);
	uint16_t (*load16)(const volatile uint16_t *at, int order);
	uint32_t (*load32)(const volatile uint32_t *at, int order);
	uint64_t (*load64)(const volatile uint64_t *at, int order);
	uint8_t (*or8)(volatile uint8_t *at, uint8_t bits, int order);
	uint16_t (*or16)(volatile uint16_t *at, uint16_t bits, int order);
	uint32_t (*or32)(volatile uint32_t *at, uint32_t bits, int order);
	uint64_t (*or64)(volatile uint64_t *at, uint64_t bits, int order);
	ssize_t (*read)(int fd, void *to, size_t size);
	ssize_t (*write)(int fd, const void *from, size_t size);
} tsan;
static bool are_shown; /* constant after peers_start() */
static void *first;    /* fiber that creates the others */

/* ---- fibers ---- */

/* The fiber of the queue pair, or a free place for it. */
static struct fiber *fiber_of(enum kind kind, uint32_t qpn) REQUIRES(objects_lock)
{
	struct fiber *all = &fibers[kind * FIBERS], *f;

	for (uint32_t i = 0; i < FIBERS; i++) {
		f = &all[(qpn + i) % FIBERS];
		if (f->qpn == qpn || !f->qpn)
			return f;
	}
	return &all[qpn % FIBERS];
}

/* The fiber of the queue pair, created if missing. A thread's past comes before a fiber that it creates, so `first`
 * creates it. */
static struct fiber *made_fiber(enum kind kind, uint32_t qpn) REQUIRES(objects_lock)
{
	struct fiber *f = fiber_of(kind, qpn);
	void *before = tsan.current();
	char name[64];

	if (f->fiber)
		return f;
	tsan.enter(first, NO_SYNC);
	f->fiber = tsan.create(0);
	tsan.enter(before, NO_SYNC);
	snprintf(name, sizeof(name), "the peer's %s by QP 0x%x", kind == READS ? "READs" : "WRITEs", qpn);
	tsan.set_name(f->fiber, name);
	f->qpn = qpn;
	return f;
}

/* Start and end of a part in which this thread is the fiber. leave() needs the result of enter(). */
static void *enter(const struct fiber *f)
{
	void *before = tsan.current();

	tsan.enter(f->fiber, NO_SYNC);
	return before;
}

static void leave(void *before)
{
	tsan.enter(before, NO_SYNC);
}

static void make_first(void)
{
	first = tsan.create(0);
}

/* ---- accesses ---- */

/* Orders the fiber behind earlier accesses to the granules. */
static void take_order(const struct fiber *f, uintptr_t at, uint64_t length) REQUIRES(objects_lock)
{
	uint16_t mine = (uint16_t)(f - fibers + 1), before = mine;

	tsan.acquire(&told_key);
	tsan.read(nobodys, NULL, 0);
	for (uintptr_t granule = at / 8; granule <= (at + length - 1) / 8; granule++) {
		uint16_t *other = &last[granule % GRANULES];

		if (*other && *other != mine && *other != before)
			tsan.acquire(&fibers[*other - 1].key);
		before = *other;
		*other = mine;
	}
}

/* True if the program has a socket of its own; uroce's have high numbers. */
static bool program_has_sockets(void) REQUIRES(objects_lock)
{
	static int known = LOW; /* a socket found earlier */
	struct stat st;

	for (int i = LOW - 1; i < LOW + DESCRIPTORS; i++) {
		int fd = i < LOW ? known : i;

		if (fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode)) {
			known = fd;
			return true;
		}
	}
	return false;
}

/* Releases what the fiber has done. A release through a socket reaches all fibers that acquire it, so it is left
 * undone if no socket of the program could carry the news. */
static void give_order(struct fiber *f, enum kind kind) REQUIRES(objects_lock)
{
	tsan.release(&f->key);
	tsan.release(&all_key);
	if (kind == READS)
		tsan.release(&reads_key);
	if (program_has_sockets())
		tsan.write(nobodys, "", 0);
}

/* Function names that appear in reports. A flag, or the word of an atomic, is accessed atomically, as by the
 * program; the value stays. */
static __attribute__((noinline)) void peer_writes(void *at, uint64_t length, bool is_flag)
{
	if (!is_flag)
		tsan.write_range(at, length);
	else if (length == 1)
		tsan.or8(at, 0, __ATOMIC_ACQ_REL);
	else if (length == 2)
		tsan.or16(at, 0, __ATOMIC_ACQ_REL);
	else if (length == 4)
		tsan.or32(at, 0, __ATOMIC_ACQ_REL);
	else
		tsan.or64(at, 0, __ATOMIC_ACQ_REL);
	__asm__ volatile(""); /* no tail call: the frame would be the caller's */
}

static __attribute__((noinline)) void peer_reads(void *at, uint64_t length, bool is_flag)
{
	if (!is_flag)
		tsan.read_range(at, length);
	else if (length == 1)
		tsan.load8(at, __ATOMIC_ACQUIRE);
	else if (length == 2)
		tsan.load16(at, __ATOMIC_ACQUIRE);
	else if (length == 4)
		tsan.load32(at, __ATOMIC_ACQUIRE);
	else
		tsan.load64(at, __ATOMIC_ACQUIRE);
	__asm__ volatile(""); /* no tail call: the frame would be the caller's */
}

/* True if the range is an aligned flag. Unmapped memory is left to the access itself, where ThreadSanitizer lets a
 * fault pass. */
static bool is_flag(uintptr_t at, uint64_t length)
{
	return length <= 8 && !(length & (length - 1)) && !(at % length) && guarded_touch((char *)(at & ~(uintptr_t)7));
}

static void show(struct fiber *f, enum kind kind, char *at, uint64_t length) REQUIRES(objects_lock)
{
	bool is_word = is_flag((uintptr_t)at, length);
	int error = errno;
	void *before = enter(f);

	take_order(f, (uintptr_t)at, length);
	if (kind == READS)
		peer_reads(at, length, is_word);
	else
		peer_writes(at, length, is_word);
	give_order(f, kind);
	leave(before);
	errno = error;
}

static void access_of(const struct qp *qp, const struct packet *p) REQUIRES(objects_lock)
{
	uint32_t flags = opcode_info[p->opcode].flags;
	bool is_atomic = flags & IS_ATOMIC, is_read = flags & IS_READ;
	uint64_t length = is_atomic ? sizeof(uint64_t) : p->dma_length;
	unsigned access = is_atomic ? IBV_ACCESS_REMOTE_ATOMIC
			  : is_read ? IBV_ACCESS_REMOTE_READ
				    : IBV_ACCESS_REMOTE_WRITE;
	struct fiber *f;
	struct mr *mr;
	char *at;

	if (!(flags & (HAS_RETH | HAS_ATOMICETH)))
		return;
	mr = target_of(qp, p, length, access, &at);
	if (!mr)
		return;
	f = made_fiber(is_read ? READS : WRITES, qp->base.qp_num);
	f->late = at;
	f->late_length = (flags & HAS_IMM) && (flags & IS_LAST) ? length : 0;
	if (!f->late_length)
		show(f, is_read ? READS : WRITES, at, length);
	mr_put(mr);
}

/* Number of PSNs that the packet takes. */
static uint32_t span_of(const struct qp *qp, const struct packet *p)
{
	uint32_t mtu = p->mtu ?: qp->mtu;

	return opcode_info[p->opcode].flags & IS_READ && p->dma_length ? (p->dma_length - 1) / mtu + 1 : 1;
}

void peers_arrive(const struct qp *qp, const struct packet *p)
{
	uint32_t flags = opcode_info[p->opcode].flags;

	if (!first || !(flags & IS_REQUEST) || qp->state < IBV_QPS_RTR || qp->state > IBV_QPS_SQE)
		return;
	if (qp->transport == TRANSPORT_UC) {
		access_of(qp, p);
		return;
	}
	if (qp->transport != TRANSPORT_RC || !psn_equal(p->psn, qp->resp.expected))
		return; /* a duplicate, or out of order */
	for (; p; p = early_at(qp->resp.early, psn_add(p->psn, span_of(qp, p))))
		access_of(qp, p);
}

void peers_message(const struct qp *qp)
{
	struct fiber *f = are_shown ? fiber_of(WRITES, qp->base.qp_num) : NULL;
	void *before;

	if (!f || !f->fiber)
		return;
	if (f->late_length)
		show(f, WRITES, f->late, f->late_length);
	f->late_length = 0;
	before = enter(f);
	tsan.release(&f->message);
	leave(before);
}

/* ---- threads of the program ---- */

void peers_told(void)
{
	if (are_shown)
		tsan.release(&told_key);
}

void peers_settle(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (!are_shown)
		return;
	pthread_once(&once, make_first); /* not earlier: a program with threads may not fork as it likes */
	tsan.acquire(&all_key);
	tsan.release(&told_key);
}

void peers_heard(uint32_t qpn)
{
	if (!are_shown)
		return;
	tsan.acquire(&reads_key);
	tsan.acquire(&fiber_of(WRITES, qpn)->message);
}

void peers_done(uint32_t qpn)
{
	if (!are_shown)
		return;
	tsan.acquire(&fiber_of(WRITES, qpn)->key);
	tsan.acquire(&fiber_of(READS, qpn)->key);
}

/* ---- the start ---- */

/* A socket with a high number, made by a call that ThreadSanitizer sees. */
static int make_socket(void)
{
	int low = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), high = high_fd(dup(low));

	if (low < 0 || high < 0 || dup3(low, high, O_CLOEXEC) < 0)
		return -1;
	close(low);
	return high;
}

void peers_start(void)
{
	static const struct {
		void **to;
		const char *name;
	} symbols[] = {
		{(void **)&tsan.create, "__tsan_create_fiber"},
		{(void **)&tsan.enter, "__tsan_switch_to_fiber"},
		{(void **)&tsan.current, "__tsan_get_current_fiber"},
		{(void **)&tsan.set_name, "__tsan_set_fiber_name"},
		{(void **)&tsan.acquire, "__tsan_acquire"},
		{(void **)&tsan.release, "__tsan_release"},
		{(void **)&tsan.read_range, "__tsan_read_range"},
		{(void **)&tsan.write_range, "__tsan_write_range"},
		{(void **)&tsan.load8, "__tsan_atomic8_load"},
		{(void **)&tsan.load16, "__tsan_atomic16_load"},
		{(void **)&tsan.load32, "__tsan_atomic32_load"},
		{(void **)&tsan.load64, "__tsan_atomic64_load"},
		{(void **)&tsan.or8, "__tsan_atomic8_fetch_or"},
		{(void **)&tsan.or16, "__tsan_atomic16_fetch_or"},
		{(void **)&tsan.or32, "__tsan_atomic32_fetch_or"},
		{(void **)&tsan.or64, "__tsan_atomic64_fetch_or"},
		{(void **)&tsan.read, "read"},
		{(void **)&tsan.write, "write"},
	};

	if (!tsan_sees_peers)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++)
		if (!(*symbols[i].to = dlsym(RTLD_DEFAULT, symbols[i].name)))
			return;
	last = calloc(GRANULES, sizeof(*last));
	nobodys = make_socket();
	are_shown = last && nobodys >= 0;
	peers_told();
}
