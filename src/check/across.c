/* SPDX-License-Identifier: BSD-2-Clause */
/* The table is a memfd, which a new process gets from any process that has it. A process owns the place in the table
 * whose byte of the file it has locked: the kernel drops that lock when the process dies, and tells others that it
 * is held. So the table needs no locks, and the place of a dead process is not looked at. Times are those of
 * CLOCK_MONOTONIC, which is the same for all processes. Local peers write to memory without a packet, so a writer
 * raises the other's clock. Accesses stay in the table when they are done. A race may be missed if the table is read
 * while it is written, which does no harm. */
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
#include "base/plural.h"
#include "check/finding.h"
#include "check/objects.h"
#include "check/outside.h"
#include "check/request.h"
#include "check/scope.h"
#include "check/tuned.h"

#define TABLE_NAME "uroce-accesses-2" /* the number is the layout's version */
#define PROCESSES  64u
#define ACCESSES   64u /* max of a process; of more, the oldest are forgotten */
#define FOUND	   16u /* findings that wait for a report */

/* Owner of an access in one word: process, queue pair, whether the access writes and whether it is an atomic. */
#define WHO_WRITES	 (1u << 24)
#define WHO_IS_ATOMIC	 (1u << 25)
#define WHO_QPN(who)	 ((uint32_t)(who)&0xffffff)
#define WHO_PROCESS(who) ((uint32_t)((who) >> 32 & 0x7fffffff))
#define RACED		 (1ull << 63)

/* A broken process of this user may write anything here at any time, so no index or address is taken from the table.
 * An access may be replaced while it is read: its state is written first and last, and read first and last. */
struct access {
	_Atomic uint64_t region, start, end;
	_Atomic uint64_t since; /* ns: time of the post */
	_Atomic uint64_t done;	/* ns: time of the poll of its completion; 0: not polled */
	_Atomic uint64_t who;
};

struct process {
	_Alignas(64) _Atomic uint64_t newest; /* ns: no earlier than the last post */
	_Atomic uint64_t regions;	      /* regions of accesses: a bit of each, by region_bit() */
	_Atomic uint64_t owner;		      /* number of the process */
	/* Its vector clock. Of each process, ns: what that posted until then may be known to be done. */
	_Alignas(64) _Atomic uint64_t knows[PROCESSES];
	/* State of each access: 0, its ticket, or RACED and the owner of the access that races with it. */
	_Alignas(64) _Atomic uint64_t state[ACCESSES];
	struct access access[ACCESSES];
};

struct table {
	_Atomic uint32_t used; /* places from here on have never been taken */
	struct process process[PROCESSES];
	/* Clocks that the last message of one process to another has taken along, for the poll of that message. */
	_Atomic uint64_t sent[PROCESSES][PROCESSES][PROCESSES];
};

/* An access of this process, at the same index as in the table. */
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

static int (*_Atomic across_lock_file)(void); /* relaxed: all callers store the same value */
static struct table *table;		      /* NULL: no table, or races are not looked for; constant once set */
static int memory = -1;			      /* the table's memfd */
static uint32_t place;			      /* place of this process in the table */
static uint64_t self;			      /* owner of its accesses, without the queue pair */
static uint64_t tickets;		      /* last ticket given; guarded by objects_lock, as all below */
static struct mine mine[ACCESSES];
static uint64_t now; /* ns: time of the request that is being posted */
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

/* One process at a time finds or creates the table. Without a lock file of this user, the lock is the network
 * namespace's file. Another user may hold that one too; then two processes may have a table each. */
static int find_table(void)
{
	int lock = atomic_load_explicit(&across_lock_file, memory_order_relaxed)(), fd;

	if (lock < 0)
		lock = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (lock >= 0)
		own_file_lock(lock, TABLE_WAIT);
	fd = high_fd(memfd_of_any(TABLE_NAME, sizeof(struct table)));
	if (fd < 0)
		fd = memfd_of_size(TABLE_NAME, 0, sizeof(struct table));
	if (lock >= 0) {
		flock(lock, LOCK_UN); /* a child may have inherited it */
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
	put(&t->process[place].owner, UINT64_MAX);
	for (uint32_t i = 0; i < PROCESSES; i++)
		put(&t->process[place].knows[i], clock_now());
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

/* ---- what processes know ---- */

static uint32_t places_used(void)
{
	return min_of(atomic_load(&table->used), PROCESSES);
}

static void raise_to(_Atomic uint64_t *word, uint64_t value)
{
	uint64_t before = get(word);

	while (before < value && !atomic_compare_exchange_weak(word, &before, value))
		;
}

void across_heard(void)
{
	uint64_t time = clock_now();

	for (uint32_t i = 0; table && i < PROCESSES; i++)
		put(&table->process[place].knows[i], time);
}

/* True if that place has the process, which is alive. */
static bool is_at(uint32_t at, uint32_t owner)
{
	static uint64_t seen[PROCESSES]; /* ns: when it was alive */

	if (at == place || get(&table->process[at].owner) != owner)
		return false;
	if (seen[at] + ALIVE_FOR < clock_now() && is_alive(at))
		seen[at] = clock_now();
	return seen[at] + ALIVE_FOR >= clock_now();
}

void across_heard_from(uint32_t owner)
{
	bool is_known = false;

	for (uint32_t at = 0; table && at < places_used(); at++) {
		if (!is_at(at, owner))
			continue;
		is_known = true;
		for (uint32_t i = 0; i < places_used(); i++)
			raise_to(&table->process[place].knows[i], get(&table->sent[at][place][i]));
	}
	if (!is_known)
		across_heard();
}

/* Time until which this process's accesses are known to be done by a message of the queue pair. What was posted to it
 * is in order with the message, what was posted to others is not. */
static uint64_t done_until(uint32_t qpn)
{
	const struct process *p = &table->process[place];
	uint64_t until = clock_now();

	for (uint32_t i = 0; i < ACCESSES; i++)
		if (mine[i].ticket && !get(&p->access[i].done) && WHO_QPN(mine[i].who) != qpn)
			until = min_of(until, get(&p->access[i].since) - 1);
	return until;
}

void across_sends(uint32_t owner, uint32_t qpn, bool writes)
{
	uint64_t told[PROCESSES], time = clock_now();
	bool is_known = false, is_open;

	if (!table)
		return;
	is_open = outside_is_open(); /* then this process may know anything */
	for (uint32_t i = 0; i < places_used(); i++)
		told[i] = is_open && i != place ? time : get(&table->process[place].knows[i]);
	told[place] = max_of(told[place], done_until(qpn));
	for (uint32_t at = 0; at < places_used(); at++) {
		_Atomic uint64_t *to = writes ? table->process[at].knows : table->sent[place][at];

		if (!is_at(at, owner))
			continue;
		is_known = true;
		for (uint32_t i = 0; i < places_used(); i++)
			raise_to(&to[i], told[i]);
	}
	for (uint32_t at = 0; !is_known && at < places_used(); at++) /* it may tell any */
		raise_to(&table->process[at].knows[place], time);
}

void across_own(uint32_t owner)
{
	if (table)
		put(&table->process[place].owner, owner);
}

/* ---- accesses ---- */

static void note_found(const struct mine *m, uint64_t other)
{
	uint32_t count = atomic_load_explicit(&found_count, memory_order_relaxed);

	if (count == FOUND) /* most of these are at the same places */
		return;
	found[count] = (struct found){*m, other};
	atomic_store_explicit(&found_count, count + 1, memory_order_relaxed);
}

/* The other process has to change the state as well: both processes report the race, or none does. */
static void access_end(struct mine *m)
{
	uint64_t state = atomic_exchange(&table->process[place].state[m - mine], 0);

	if (state & RACED)
		note_found(m, state);
	m->ticket = 0;
}

static uint64_t region_of(const struct request_target *t)
{
	return (t->place ^ t->rkey) * 0x9e3779b97f4a7c15u;
}

static uint64_t region_bit(uint64_t region)
{
	return 1ull << (region >> 58);
}

/* Stores `value` in a word that other processes read, only if it differs. */
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
	mine[i] = (struct mine){ticket, r->posted, *t,
				self | (t->writes ? WHO_WRITES : 0) | (t->is_atomic ? WHO_IS_ATOMIC : 0) | r->qpn};
	r->ticket = ticket;
	r->accesses++;
	change(&a->region, region);
	put(&a->start, t->at);
	put(&a->end, t->at + t->length);
	put(&a->since, now);
	put(&a->done, 0);
	put(&a->who, mine[i].who);
	change(&p->regions, get(&p->regions) | region_bit(region));
	if (get(&p->newest) < now)
		put(&p->newest, now + NEWEST_AHEAD);
	/* full barrier: if two processes post at once, at least one sees the other's access */
	atomic_exchange(&p->state[i], ticket);
}

static bool conflict(uint64_t a, uint64_t b)
{
	if ((a | b) & WHO_IS_ATOMIC) /* adapters order atomics with each other */
		return (a ^ b) & WHO_IS_ATOMIC && a & b & WHO_WRITES;
	return (a | b) & WHO_WRITES;
}

/* True if this process cannot know that an access of process `p` is done. While its completion was not polled, what `p`
 * knows may have come here by other means; then, whatever came by other means may have told of it. */
static bool is_unknown(const struct process *p, const struct access *a, uint64_t who)
{
	uint32_t at = (uint32_t)(p - table->process);
	_Atomic uint64_t *knows = &table->process[place].knows[at];
	uint64_t since = get(&a->since), done = get(&a->done);

	if (since <= get(knows))
		return false;
	if (!done)
		return since > get(&p->knows[at]);
	if (outside_heard() < done && !outside_shares((pid_t)WHO_PROCESS(who)))
		return true;
	raise_to(knows, since);
	return false;
}

/* The owner of the access, if it races with mine; else 0. */
static uint64_t access_races(struct process *p, uint32_t i, const struct mine *m)
{
	const struct access *a = &p->access[i];
	uint64_t state = get(&p->state[i]), who = get(&a->who);

	if (!state || get(&a->region) != region_of(&m->target) || get(&a->start) >= m->target.at + m->target.length ||
	    get(&a->end) <= m->target.at || !conflict(who, m->who) || !is_unknown(p, a, who))
		return 0;
	/* still the same access */
	if (state & RACED)
		return get(&p->state[i]) == state ? who : 0;
	return atomic_compare_exchange_strong(&p->state[i], &state, RACED | m->who) ? who : 0;
}

/* True if an access of process `p` races with the request. */
static bool process_races(struct process *p, const struct request *r)
{
	uint32_t at = (uint32_t)(p - table->process);
	uint64_t who = 0;

	if (get(&p->newest) <= get(&table->process[place].knows[at]))
		return false;
	for (uint64_t n = 0; n < r->accesses && !who; n++) {
		const struct mine *m = &mine[(r->ticket - n) % ACCESSES];

		if (!(get(&p->regions) & region_bit(region_of(&m->target))))
			continue;
		for (uint32_t i = 0; i < ACCESSES && !who; i++)
			if (get(&p->state[i]))
				who = access_races(p, i, m);
		if (who && is_alive(at))
			note_found(m, who);
	}
	return who;
}

void across_post(struct request *r, const struct request_target *t, int count)
{
	if (!table)
		return;
	now = clock_now();
	for (int i = 0; i < count; i++)
		if (t[i].place && t[i].length)
			publish(r, &t[i]);
	for (uint32_t i = 0; i < places_used() && r->accesses; i++)
		if (i != place && process_races(&table->process[i], r))
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

void across_done(struct request *r)
{
	for (uint64_t i = 0; i < r->accesses; i++) {
		struct mine *m = &mine[(r->ticket - i) % ACCESSES];

		if (m->ticket != r->ticket - i)
			continue;
		put(&table->process[place].access[m - mine].done, clock_now());
		if (get(&table->process[place].state[m - mine]) & RACED)
			access_end(m);
	}
	r->accesses = 0;
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
		 "a request of QP 0x%x %s %" PRIu64 " byte%s from 0x%" PRIx64 " on of the region 0x%x, and one of QP "
		 "0x%x of process %u %s some of them: the second was posted before anything told that the first was "
		 "done",
		 WHO_QPN(m->who), does(m->who), m->target.length, plural(m->target.length), m->target.at,
		 m->target.rkey, WHO_QPN(race->other), WHO_PROCESS(race->other), does(race->other));
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
