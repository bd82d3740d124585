/* SPDX-License-Identifier: BSD-2-Clause */
/* AddressSanitizer in the program, by its interface for memory not managed by malloc(3); or valgrind's memcheck, by
 * its client requests. */
#include "check/asan.h"

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdio.h>
#ifdef HAVE_MEMCHECK
#include <valgrind/memcheck.h>
#endif

#include "base/hooks.h"
#include "base/plural.h"
#include "check/finding.h"
#include "check/objects.h"
#include "check/queues.h"
#include "check/request.h"
#include "check/scope.h"

#ifdef __SANITIZE_ADDRESS__
#define UNDER_ASAN true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN true
#endif
#endif
#ifndef UNDER_ASAN
#define UNDER_ASAN false
#endif

static struct {
	void (*poison)(const volatile void *at, size_t size);
	void (*unpoison)(const volatile void *at, size_t size);
	void *(*first_poisoned)(void *at, size_t size);
	int (*mark)(const volatile void *at, size_t size); /* memcheck only, as `unmark` */
	void (*unmark)(int mark);
	void (*on_report)(void (*callback)(const char *text));
	void *(*report_address)(void);
	int (*report_is_write)(void);
} asan;
static bool is_there; /* constant after asan_start() */

bool asan_is_there(void)
{
	return is_there;
}

bool asan_is_memcheck(void)
{
	return asan.mark;
}

/* ---- from post to poll ---- */

void asan_take(struct request *r)
{
	for (int i = 0; r->is_taken && i < r->sges; i++)
		asan.poison((const void *)(uintptr_t)r->sge[i].addr, r->sge[i].length);
	if (r->is_taken && asan.mark && !r->mark)
		r->mark = 1 + asan.mark((const void *)(uintptr_t)r->sge[0].addr, r->sge[0].length);
}

void asan_give(struct request *r)
{
	for (int i = 0; r->is_taken && i < r->sges; i++)
		asan.unpoison((const void *)(uintptr_t)r->sge[i].addr, r->sge[i].length);
	if (r->mark)
		asan.unmark(r->mark - 1);
	r->mark = 0;
}

static bool asan_shares(const struct list *requests, const struct request *r) REQUIRES(objects_lock)
{
	list_each_safe (l, (struct list *)requests) {
		const struct request *other = container_of(l, struct request, link);

		if (other != r && requests_overlap(other, r))
			return true;
	}
	return false;
}

void asan_begin(const struct queues *q, struct request *r)
{
	if (!r->is_ours || !r->brings || r->is_taken || (r->begun && !r->is_placed))
		return;
	r->is_taken = !asan_shares(&q->sends, r) && !asan_shares(&q->receives, r);
	asan_take(r);
}

static void give_for_good(const struct list *requests, const struct request *r) REQUIRES(objects_lock)
{
	list_each_safe (l, (struct list *)requests) {
		struct request *other = container_of(l, struct request, link);

		if (other == r || !other->is_taken || !requests_overlap(other, r))
			continue;
		asan_give(other);
		other->is_taken = false;
	}
}

void asan_need(const struct request *r)
{
	const char *taken = NULL;

	if (!r->is_ours)
		return;
	for (int i = 0; i < r->sges && !taken; i++)
		taken = asan.first_poisoned((void *)(uintptr_t)r->sge[i].addr, r->sge[i].length);
	for (const struct object *o = taken ? objects_next(NULL) : NULL; o; o = objects_next(o))
		if (o->queues) {
			give_for_good(&o->queues->sends, r);
			give_for_good(&o->queues->receives, r);
		}
}

/* ---- what is posted and is not there ---- */

static bool has_address(const struct request *r, uint64_t address)
{
	for (int i = 0; i < r->sges; i++)
		if (address - r->sge[i].addr < r->sge[i].length)
			return true;
	return false;
}

static const struct request *find_in(const struct list *requests, uint64_t address) REQUIRES(objects_lock)
{
	list_each_safe (l, (struct list *)requests) {
		const struct request *r = container_of(l, struct request, link);

		if (r->is_taken && has_address(r, address))
			return r;
	}
	return NULL;
}

static bool find_taken(uint64_t address, struct request *found) REQUIRES(objects_lock)
{
	const struct request *r = NULL;

	for (const struct object *o = objects_next(NULL); o && !r; o = objects_next(o))
		if (o->queues)
			r = find_in(&o->queues->receives, address) ?: find_in(&o->queues->sends, address);
	if (r)
		*found = *r;
	return r;
}

/* The first byte that is freed, or outside of its object; NULL: all are valid, or taken for other requests. */
static const char *not_there(const struct ibv_sge *sge)
{
	const char *at = asan.first_poisoned((void *)(uintptr_t)sge->addr, sge->length);
	struct request other;
	bool taken;

	if (!at)
		return NULL;
	lock_take(&objects_lock);
	taken = find_taken((uintptr_t)at, &other);
	lock_drop(&objects_lock);
	return taken ? NULL : at;
}

static void report_outside(const struct request *r, const struct ibv_sge *sge, const char *at)
{
	struct finding f = {.class = CHECK_BUFFERS,
			    .name = "outside-object",
			    .remedy = "post memory that is allocated, and no more than was allocated",
			    .at = {{"posted", r->posted}}};

	snprintf(f.text, sizeof(f.text),
		 "of the %u byte%s at 0x%" PRIx64 " of a %s (wr_id 0x%" PRIx64 "), those from 0x%" PRIx64
		 " are freed, or beyond the end of their object",
		 sge->length, plural(sge->length), sge->addr, r->is_send ? "request" : "receive", r->wr_id,
		 (uint64_t)(uintptr_t)at);
	finding_report(&f);
}

void asan_look(struct request *r)
{
	r->is_ours = is_there && (r->has_digest || r->blocks);
	for (int i = 0; r->is_ours && i < r->sges; i++) {
		const char *at = r->sge[i].length ? not_there(&r->sge[i]) : NULL;

		if (at)
			report_outside(r, &r->sge[i], at);
	}
}

/* ---- a report of AddressSanitizer ---- */

/* Adds the reason to a report of AddressSanitizer, which has named the address and the function. The program is
 * about to end. The lock may be held, if the adapter was stopped. */
static void asan_report(const char *text)
{
	uint64_t address = (uintptr_t)asan.report_address();
	struct finding f = {.class = CHECK_BUFFERS,
			    .name = "touched-in-flight",
			    .remedy = "do not use the memory between the post and the poll of the completion",
			    .at = {{"posted", NULL}}};
	struct request r;
	bool found;

	(void)text;
	if (!hook_is_on(HOOK_CHECK) || !lock_try(&objects_lock))
		return;
	found = find_taken(address, &r);
	lock_drop(&objects_lock);
	if (!found)
		return;
	snprintf(f.text, sizeof(f.text),
		 "the %u byte%s at 0x%" PRIx64 " of a posted %s (wr_id 0x%" PRIx64
		 ") were %s before its completion was polled: what AddressSanitizer calls use-after-poison",
		 r.sge[0].length, plural(r.sge[0].length), r.sge[0].addr, r.is_send ? "READ or atomic" : "receive",
		 r.wr_id, asan.report_is_write() ? "written to" : "read");
	f.at[0].stack = r.posted;
	finding_report(&f);
}

/* ---- memcheck ---- */

#ifdef HAVE_MEMCHECK
static void memcheck_poison(const volatile void *at, size_t size)
{
	(void)VALGRIND_MAKE_MEM_NOACCESS(at, size);
}

static void memcheck_unpoison(const volatile void *at, size_t size)
{
	(void)VALGRIND_MAKE_MEM_DEFINED(at, size);
}

/* Checked byte by byte, since the client request for a range would also report it. */
static void *memcheck_first_poisoned(void *at, size_t size)
{
	char *next = at, bits[64];
	size_t step = sizeof(bits);

	for (size_t left = size; left; next += step, left -= step) {
		step = min_of(left, step);
		if (VALGRIND_GET_VBITS(next, bits, step) != 3)
			continue;
		while (VALGRIND_GET_VBITS(next, bits, 1) != 3)
			next++;
		return next;
	}
	return NULL;
}

/* Names the memory and the place of the post in memcheck's reports. */
static int memcheck_mark(const volatile void *at, size_t size)
{
	return (int)VALGRIND_CREATE_BLOCK(at, size, "buffer in flight (uroce check)");
}

static void memcheck_unmark(int mark)
{
	(void)VALGRIND_DISCARD(mark);
}

static bool memcheck_is_there(void)
{
	char bits, byte = 0;

	if (VALGRIND_GET_VBITS(&byte, &bits, 1) != 1)
		return false;
	asan.poison = memcheck_poison;
	asan.unpoison = memcheck_unpoison;
	asan.first_poisoned = memcheck_first_poisoned;
	asan.mark = memcheck_mark;
	asan.unmark = memcheck_unmark;
	return true;
}
#else
static bool memcheck_is_there(void)
{
	return false;
}
#endif

void asan_start(void)
{
	static const struct {
		void **to;
		const char *name;
	} symbols[] = {
		{(void **)&asan.poison, "__asan_poison_memory_region"},
		{(void **)&asan.unpoison, "__asan_unpoison_memory_region"},
		{(void **)&asan.first_poisoned, "__asan_region_is_poisoned"},
		{(void **)&asan.on_report, "__asan_set_error_report_callback"},
		{(void **)&asan.report_address, "__asan_get_report_address"},
		{(void **)&asan.report_is_write, "__asan_get_report_access_type"},
	};

	is_there = !UNDER_ASAN; /* under both, AddressSanitizer would stop at the adapter's own digests */
	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++)
		is_there &= (*symbols[i].to = dlsym(RTLD_DEFAULT, symbols[i].name)) != NULL;
	if (is_there)
		asan.on_report(asan_report);
	else
		is_there = memcheck_is_there();
}
