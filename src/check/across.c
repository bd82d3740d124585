/* SPDX-License-Identifier: BSD-2-Clause */
/* The table is a memfd, which a new process gets from any process that has it. A process has the place in it whose byte
 * of the file it has locked: the kernel drops that lock when the process dies, and tells others that it is held. So
 * nothing in the table is locked, and what a dead process has left there is not looked at.
 *
 * What may tell this process that an access is done has come after the access was posted. So times decide: those of
 * CLOCK_MONOTONIC, which is the same for all processes. Local peers write to memory without a packet, so they leave the
 * time of that in the table. A race that is missed, as the table is read while it is written, is no harm. */
#include "check/across.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/high_fd.h"
#include "base/log.h"
#include "base/memfd.h"
#include "base/own_file.h"
#include "check/finding.h"
#include "check/objects.h"
#include "check/request.h"
#include "check/scope.h"

#define TABLE_NAME "uroce-accesses-1" /* the number is the layout's version */
#define PROCESSES  64u
#define ACCESSES   64u	 /* of a process; of more, the oldest are forgotten */
#define OWNERS	   4096u /* what has told them is known by this many numbers of processes */
#define FOUND	   16u	 /* findings that wait to be told */
/* What changes with each post is written ahead of time, so that it is not written each time: others read it. */
#define NEWEST_AHEAD (10 * USEC)
#define TOLD_AHEAD   (100 * USEC)
#define PATIENCE     (2 * SEC) /* for the process that finds or makes the table */

/* The owner of an access in one word: process, queue pair, and whether it writes. */
#define WHO_WRITES	 (1u << 24)
#define WHO_QPN(who)	 ((uint32_t)(who)&0xffffff)
#define WHO_PROCESS(who) ((uint32_t)((who) >> 32 & 0x7fffffff))
#define RACED		 (1ull << 63)

/* Broken processes of this user may have written anything here, and may go on: no index or address is taken from it. An
 * access may be replaced while it is read: its state is written first and last, and read first and last. */
struct access {
	_Atomic uint64_t region, start, end;
	_Atomic uint64_t since; /* ns: it was posted */
	_Atomic uint64_t who;
};

struct process {
	_Alignas(64) _Atomic uint64_t newest; /* ns: not before the last post; 0: nothing is outstanding */
	_Atomic uint64_t regions;	      /* of what is outstanding: a bit of each, by region_bit() */
	_Atomic uint64_t heard;		      /* ns: the last time */
	_Atomic uint64_t owner;		      /* the number of the process */
	/* of each access. 0: none; its ticket; or, if another one races with it, RACED and who that is */
	_Alignas(64) _Atomic uint64_t state[ACCESSES];
	struct access access[ACCESSES];
};

struct table {
	_Atomic uint32_t used; /* places behind these have never been taken */
	struct process process[PROCESSES];
	_Atomic uint64_t told[OWNERS]; /* ns: not before the last WRITE or atomic to memory of that process */
};

/* An access of this process: that of its place in the table. */
struct mine {
	uint64_t ticket; /* 0: none */
	const struct stack *posted;
	struct request_target target;
	uint64_t who;
};

struct found {
	struct mine mine;
	uint64_t other;
};

static int (*_Atomic across_lock_file)(void); /* relaxed: it is always the same */
static struct table *table; /* NULL: there is none, or races are not looked for. Does not change any more */
static int memory = -1;	    /* the table's memfd */
static uint32_t place;	    /* place of this process in the table */
static uint64_t self;	    /* owner of its accesses, without the queue pair */
static uint64_t tickets;    /* the last one; guarded by objects_lock, as all below */
static struct mine mine[ACCESSES];
static uint32_t outstanding;
static uint64_t now; /* ns: when the request that is being posted was */
static struct found found[FOUND];
static _Atomic uint32_t found_count; /* relaxed: a hint for callers without the lock */

static uint64_t get(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_acquire); /* pairs with put() of another process */
}

static void put(_Atomic uint64_t *word, uint64_t value)
{
	atomic_store_explicit(word, value, memory_order_release); /* pairs with get() */
}

/* ---- the table ---- */

static struct flock place_lock(uint32_t at)
{
	return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
}

static bool is_alive(uint32_t at)
{
	struct flock lock = place_lock(at);

	return !fcntl(memory, F_GETLK, &lock) && lock.l_type != F_UNLCK;
}

/* One process at a time looks for the table, and makes it. Without a file of this user's, the lock is that of the
 * network namespace's file, which another user may hold as well: then two processes may have a table each. */
static int find_table(void)
{
	int lock = atomic_load_explicit(&across_lock_file, memory_order_relaxed)(), fd;

	if (lock < 0)
		lock = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (lock >= 0)
		own_file_lock(lock, PATIENCE);
	fd = high_fd(memfd_of_any(TABLE_NAME, sizeof(struct table)));
	if (fd < 0)
		fd = memfd_of_size(TABLE_NAME, 0, sizeof(struct table));
	if (lock >= 0) {
		flock(lock, LOCK_UN); /* a child may have it as well */
		close(lock);
	}
	return fd;
}

static bool take_place(struct table *t)
{
	uint32_t used;

	for (place = 0; place < PROCESSES; place++) {
		struct flock lock = place_lock(place);

		if (!fcntl(memory, F_SETLK, &lock))
			break;
	}
	if (place == PROCESSES)
		return false;
	put(&t->process[place].newest, 0);
	put(&t->process[place].heard, clock_now());
	for (uint32_t i = 0; i < ACCESSES; i++)
		put(&t->process[place].state[i], 0);
	used = atomic_load(&t->used);
	while (used <= place && !atomic_compare_exchange_weak(&t->used, &used, place + 1))
		;
	return true;
}

static void start(void)
{
	void *t;

	memory = find_table();
	t = memory < 0 ? MAP_FAILED : mmap(NULL, sizeof(struct table), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	if (t == MAP_FAILED || !take_place(t)) {
		log_info("races with requests of other processes are not looked for: %s",
			 t == MAP_FAILED ? "there is no shared memory" : "there are too many processes");
		return;
	}
	lock_take(&objects_lock);
	tickets = self = (uint64_t)getpid() << 32;
	table = t;
	lock_drop(&objects_lock);
}

void across_start(int (*lock_file)(void))
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	atomic_store_explicit(&across_lock_file, lock_file, memory_order_relaxed);
	pthread_once(&once, start);
}

/* ---- what this process knows ---- */

void across_heard(void)
{
	if (table)
		put(&table->process[place].heard, clock_now());
}

/* Until when it may know of all accesses that they are done. */
static uint64_t known_by(const struct process *p)
{
	return max_of(get(&p->heard), get(&table->told[get(&p->owner) % OWNERS]));
}

void across_told(uint32_t owner)
{
	_Atomic uint64_t *told;
	uint64_t before;

	if (!table)
		return;
	told = &table->told[owner % OWNERS];
	before = get(told);
	while (before < now && !atomic_compare_exchange_weak(told, &before, now + TOLD_AHEAD))
		;
}

/* ---- accesses ---- */

static void note_found(const struct mine *m, uint64_t other)
{
	uint32_t count = atomic_load_explicit(&found_count, memory_order_relaxed);

	if (count == FOUND) /* most will be of the same places */
		return;
	found[count] = (struct found){*m, other};
	atomic_store_explicit(&found_count, count + 1, memory_order_relaxed);
}

static void access_end(struct mine *m)
{
	struct process *p = &table->process[place];
	/* both processes report the race, or none does: the other one has to change the state as well */
	uint64_t state = atomic_exchange(&p->state[m - mine], 0);

	if (state & RACED)
		note_found(m, state);
	m->ticket = 0;
	if (!--outstanding)
		put(&p->newest, 0);
}

static uint64_t region_of(const struct request_target *t)
{
	return (t->place ^ t->rkey) * 0x9e3779b97f4a7c15u;
}

static uint64_t region_bit(uint64_t region)
{
	return 1ull << (region >> 58);
}

/* Changes a word that other processes read only if it differs. */
static void change(_Atomic uint64_t *word, uint64_t value)
{
	if (get(word) != value)
		put(word, value);
}

static void publish(struct request *r, const struct request_target *t)
{
	struct process *p = &table->process[place];
	uint64_t ticket = ++tickets, i = ticket % ACCESSES, region = region_of(t);
	struct access *a = &p->access[i];

	if (mine[i].ticket)
		access_end(&mine[i]);
	mine[i] = (struct mine){ticket, r->posted, *t, self | (t->writes ? WHO_WRITES : 0) | r->qpn};
	r->ticket = ticket;
	r->accesses++;
	change(&a->region, region);
	put(&a->start, t->at);
	put(&a->end, t->at + t->length);
	put(&a->since, now);
	put(&a->who, mine[i].who);
	change(&p->regions, (outstanding ? get(&p->regions) : 0) | region_bit(region));
	if (get(&p->newest) < now)
		put(&p->newest, now + NEWEST_AHEAD);
	/* a full barrier: of two processes that post at once, one at least sees the other's access */
	atomic_exchange(&p->state[i], ticket);
	outstanding++;
}

/* The owner of the access, if it races with mine; else 0. */
static uint64_t access_races(struct process *p, uint32_t i, const struct mine *m, uint64_t known)
{
	const struct access *a = &p->access[i];
	uint64_t state = get(&p->state[i]), who = get(&a->who);

	if (!state || get(&a->since) <= known || !((who | m->who) & WHO_WRITES) ||
	    get(&a->region) != region_of(&m->target) || get(&a->start) >= m->target.at + m->target.length ||
	    get(&a->end) <= m->target.at)
		return 0;
	/* the access is still the same one, and outstanding */
	if (state & RACED)
		return get(&p->state[i]) == state ? who : 0;
	return atomic_compare_exchange_strong(&p->state[i], &state, RACED | m->who) ? who : 0;
}

/* What its process knows it may have told this one by other means. */
static bool process_races(struct process *p, const struct request *r, uint64_t known)
{
	uint64_t who = 0;

	known = max_of(known, known_by(p));
	if (get(&p->newest) <= known)
		return false;
	for (uint64_t n = 0; n < r->accesses && !who; n++) {
		const struct mine *m = &mine[(r->ticket - n) % ACCESSES];

		if (!(get(&p->regions) & region_bit(region_of(&m->target))))
			continue;
		for (uint32_t i = 0; i < ACCESSES && !who; i++)
			if (get(&p->state[i]))
				who = access_races(p, i, m, known);
		if (who && is_alive((uint32_t)(p - table->process)))
			note_found(m, who);
	}
	return who;
}

void across_post(struct request *r, const struct request_target *t, int count, uint32_t owner)
{
	uint64_t known;

	if (!table)
		return;
	now = clock_now();
	change(&table->process[place].owner, owner);
	for (int i = 0; i < count; i++)
		if (t[i].place && t[i].length)
			publish(r, &t[i]);
	known = known_by(&table->process[place]);
	for (uint32_t i = 0, used = min_of(atomic_load(&table->used), PROCESSES); i < used && r->accesses; i++)
		if (i != place && process_races(&table->process[i], r, known))
			return;
}

void across_end(const struct request *r)
{
	for (uint64_t i = 0; i < r->accesses; i++) {
		struct mine *m = &mine[(r->ticket - i) % ACCESSES];

		if (m->ticket == r->ticket - i)
			access_end(m);
	}
}

/* ---- findings ---- */

static const char *does(uint64_t who)
{
	return who & WHO_WRITES ? "writes" : "reads";
}

static void report(const struct found *race)
{
	const struct mine *m = &race->mine;
	struct finding f = {.class = CHECK_RACES,
			    .name = "race",
			    .remedy =
				    "poll the completion of the first, and tell the other process by a message, before "
				    "the second is posted",
			    .at = {{"posted", m->posted}}};

	snprintf(f.text, sizeof(f.text),
		 "a request of QP 0x%x %s %" PRIu64 " bytes from 0x%" PRIx64 " on of the region 0x%x, and one of QP "
		 "0x%x of process %u %s some of them: when the second was posted, nothing had told that the first was "
		 "done",
		 WHO_QPN(m->who), does(m->who), m->target.length, m->target.at, m->target.rkey, WHO_QPN(race->other),
		 WHO_PROCESS(race->other), does(race->other));
	finding_report(&f);
}

void across_tell(void)
{
	struct found all[FOUND];
	uint32_t count;

	if (likely(!atomic_load_explicit(&found_count, memory_order_relaxed)))
		return;
	lock_take(&objects_lock);
	count = atomic_exchange_explicit(&found_count, 0, memory_order_relaxed);
	memcpy(all, found, count * sizeof(*all));
	lock_drop(&objects_lock);
	for (uint32_t i = 0; i < count; i++)
		report(&all[i]);
}

void across_finish(void)
{
	lock_take(&objects_lock);
	for (uint32_t i = 0; i < ACCESSES; i++)
		if (mine[i].ticket)
			access_end(&mine[i]);
	lock_drop(&objects_lock);
	across_tell();
}
