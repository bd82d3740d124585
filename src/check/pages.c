/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages in flight. A fault may come inside malloc(3), so the handler only notes the stack; the next call of verbs
 * reports it. */
#include "check/pages.h"

#include <execinfo.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/config.h"
#include "base/plural.h"
#include "check/asan.h"
#include "check/finding.h"
#include "check/objects.h"
#include "check/request.h"
#include "check/scope.h"
#include "check/stack.h"
#include "check/tuned.h"
#include "memory/fault.h"
#include "memory/maps.h"
#include "object/mr.h"

#define OURS_NEAR 3u /* max distance in frames of the function of uroce that made an access */
#define HANDLER	  8u /* max frames of the handler itself */

enum pages_mode { PAGES_OFF, PAGES_WRITES, PAGES_TOUCHES };
enum slot_state { SLOT_FREE, SLOT_PAUSED, SLOT_GUARDED, SLOT_LIFTED };

/* The whole pages of an SGE. */
struct slot {
	enum slot_state state;
	int rights;
	uint64_t start, end;
	bool is_written; /* the program has written to the pages */
	/* SGE of the request */
	struct ibv_sge sge;
	uint64_t wr_id;
	const struct stack *posted;
	bool is_send, brings;
};

/* An access of the program to memory in flight. */
struct note {
	struct slot slot;
	const char *how;
	void *frame[STACK_DEPTH];
	uint32_t depth;
};

static enum pages_mode mode; /* constant after pages_start() */
static uint64_t page;
/* Guards all below; signals are blocked while it is held. */
static struct lock pages_lock = LOCK_RANKED(CHECK_PAGES);
static struct slot slots[PAGE_SLOTS];
static uint32_t slots_used; /* one past the highest slot ever used */
static struct note notes[PAGE_NOTES];
static _Atomic uint32_t noted, told;
static struct {
	uint64_t start, end;
} verified[PAGES_KNOWN]; /* memory that is known to be readable and writable; guarded by objects_lock */

bool pages_are_taken(void)
{
	return mode != PAGES_OFF;
}

/* Blocks signals, as a handler of the program for another signal might touch the pages. SIGSEGV is unblocked and
 * stays so: a fault of a thread that blocks it ends the program. */
static void pages_enter(sigset_t *old) ACQUIRE(pages_lock)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, old);
	lock_take(&pages_lock);
}

static void pages_leave(sigset_t *old) RELEASE(pages_lock)
{
	lock_drop(&pages_lock);
	sigdelset(old, SIGSEGV);
	pthread_sigmask(SIG_SETMASK, old, NULL);
}

static bool slot_protect(struct slot *s, int rights) REQUIRES(pages_lock)
{
	return !mprotect((void *)(uintptr_t)s->start, s->end - s->start, rights);
}

static void slot_lift(struct slot *s, enum slot_state to) REQUIRES(pages_lock)
{
	if (s->state == SLOT_GUARDED)
		slot_protect(s, PROT_READ | PROT_WRITE);
	s->state = to;
}

/* ---- what may be protected ---- */

static bool is_plain_region(const struct object *o, uint32_t lkey, uint64_t start, uint64_t end)
{
	const struct mr *mr = o->object;

	return o->kind == CHECK_MR && mr->base.lkey == lkey && !mr_is_indirect(mr) &&
	       mr->iova == (uintptr_t)mr->memory && start >= mr->iova && end - mr->iova <= mr->length;
}

static bool is_mapped_plainly(uint64_t start, uint64_t end)
{
	struct mapping m = {0};
	struct maps maps;
	bool fine = true;

	if (maps_open(&maps))
		return false;
	for (; fine && start < end; start = m.end)
		fine = !maps_find(&maps, start, &m) && m.start <= start && m.readable && m.writable && !m.special;
	maps_close(&maps);
	return fine;
}

/* True if the rights of the pages are known, so that they can be restored. */
static bool is_verified(const struct ibv_sge *sge, uint64_t start, uint64_t end) REQUIRES(objects_lock)
{
	uint32_t i = (uint32_t)(start / page % PAGES_KNOWN);
	const struct object *o;

	if (verified[i].start == start && verified[i].end == end)
		return true;
	for (o = objects_next(NULL); o; o = objects_next(o))
		if (is_plain_region(o, sge->lkey, start, end))
			break;
	if (!o || !is_mapped_plainly(start, end))
		return false;
	verified[i].start = start;
	verified[i].end = end;
	return true;
}

static struct slot *find_overlap(uint64_t start, uint64_t end) REQUIRES(pages_lock)
{
	for (uint32_t i = 0; i < slots_used; i++)
		if (slots[i].state != SLOT_FREE && slots[i].start < end && start < slots[i].end)
			return &slots[i];
	return NULL;
}

static struct slot *slot_take(void) REQUIRES(pages_lock)
{
	for (uint32_t i = 0; i < PAGE_SLOTS; i++)
		if (slots[i].state == SLOT_FREE) {
			slots_used = max_of(slots_used, i + 1);
			return &slots[i];
		}
	return NULL;
}

/* ---- from post to poll ---- */

/* Slot number plus 1; 0 if not protected. */
static uint16_t protect(const struct request *r, const struct ibv_sge *sge, uint64_t start, uint64_t end)
{
	struct slot *s = NULL;
	sigset_t signals;

	pages_enter(&signals);
	if (!find_overlap(start, end))
		s = slot_take();
	if (s) {
		*s = (struct slot){.state = SLOT_GUARDED,
				   .rights = r->brings && mode == PAGES_TOUCHES ? PROT_NONE : PROT_READ,
				   .start = start,
				   .end = end,
				   .sge = *sge,
				   .wr_id = r->wr_id,
				   .posted = r->posted,
				   .is_send = r->is_send,
				   .brings = r->brings};
		if (!slot_protect(s, s->rights)) {
			s->state = SLOT_FREE;
			s = NULL;
		}
	}
	pages_leave(&signals);
	return s ? (uint16_t)(s - slots + 1) : 0;
}

void pages_begin(struct request *r)
{
	if (mode == PAGES_OFF || asan_is_there() || (r->begun && !r->is_placed))
		return;
	for (int i = 0; i < r->sges; i++) {
		uint64_t end = (r->sge[i].addr + r->sge[i].length) & ~(page - 1);
		uint64_t start = (r->sge[i].addr + page - 1) & ~(page - 1);

		if (start >= end || r->slot[i] || !is_verified(&r->sge[i], start, end))
			continue;
		fault_arm();
		r->slot[i] = protect(r, &r->sge[i], start, end);
	}
}

static void each_slot(const struct request *r, void (*with)(struct slot *s))
{
	sigset_t signals;

	for (int i = 0; i < r->sges; i++) {
		if (!r->slot[i])
			continue;
		pages_enter(&signals);
		with(&slots[r->slot[i] - 1]);
		pages_leave(&signals);
	}
}

static void slot_pause(struct slot *s) REQUIRES(pages_lock)
{
	if (s->state == SLOT_GUARDED)
		slot_lift(s, SLOT_PAUSED);
}

static void slot_resume(struct slot *s) REQUIRES(pages_lock)
{
	if (s->state == SLOT_PAUSED)
		s->state = slot_protect(s, s->rights) ? SLOT_GUARDED : SLOT_LIFTED;
}

void pages_pause(const struct request *r)
{
	each_slot(r, slot_pause);
}

void pages_resume(const struct request *r)
{
	each_slot(r, slot_resume);
}

bool pages_end(struct request *r)
{
	bool is_written = false;
	sigset_t signals;

	for (int i = 0; i < r->sges; i++) {
		struct slot *s = r->slot[i] ? &slots[r->slot[i] - 1] : NULL;

		if (!s)
			continue;
		pages_enter(&signals);
		is_written |= s->is_written;
		slot_lift(s, SLOT_FREE);
		pages_leave(&signals);
		r->slot[i] = 0;
	}
	return is_written;
}

void pages_lift(uint64_t at, uint64_t length)
{
	struct slot *s;
	sigset_t signals;

	if (mode == PAGES_OFF)
		return;
	lock_take(&objects_lock);
	memset(verified, 0, sizeof(verified));
	lock_drop(&objects_lock);
	pages_enter(&signals);
	for (s = slots; s < slots + slots_used; s++)
		if (s->state != SLOT_FREE && (s->start < at ? at < s->end : s->start - at < length))
			slot_lift(s, SLOT_LIFTED);
	pages_leave(&signals);
}

/* No lock: another thread of the parent may have held it. */
NO_LOCK_ANALYSIS void pages_forget(void)
{
	for (uint32_t i = 0; i < slots_used; i++)
		slot_lift(&slots[i], SLOT_FREE);
	mode = PAGES_OFF;
}

/* ---- a fault ---- */

static void *fault_place(const ucontext_t *context)
{
#if defined(__x86_64__)
	return (void *)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return (void *)context->uc_mcontext.pc;
#else
	(void)context;
	return NULL;
#endif
}

enum { WRITE_FAULT = 2 }; /* bit of the error code of a page fault */

static bool fault_is_write(const struct slot *s, const ucontext_t *context)
{
#ifdef __x86_64__
	(void)s;
	return context->uc_mcontext.gregs[REG_ERR] & WRITE_FAULT;
#else
	(void)context;
	return s->rights & PROT_READ;
#endif
}

static const char *how_touched(const struct slot *s, const ucontext_t *context)
{
#ifdef __x86_64__
	(void)s;
	return context->uc_mcontext.gregs[REG_ERR] & WRITE_FAULT ? "written to" : "read";
#else
	(void)context;
	return s->rights & PROT_READ ? "written to" : "touched";
#endif
}

/* Stack of the access, without places in uroce and what they call. The first frame is no return address, so it is
 * moved behind its instruction. */
static uint32_t frames_of(const ucontext_t *context, void *to[STACK_DEPTH])
{
	void *frame[STACK_DEPTH + HANDLER], *place = fault_place(context);
	int count = backtrace(frame, ARRAY_SIZE(frame)), from = 0;
	uint32_t depth = 0;

	while (from < count && frame[from] != place)
		from++;
	for (; from < count && depth < STACK_DEPTH; from++, depth++) {
		if (depth < OURS_NEAR && stack_is_ours(frame[from]))
			return 0;
		to[depth] = (char *)frame[from] + !depth;
	}
	return depth;
}

/* True if another thread has restored the rights since. */
static bool is_accessible(uint64_t at)
{
	struct mapping m;
	struct maps maps;
	bool fine;

	if (!slots_used || maps_open(&maps))
		return false;
	fine = !maps_find(&maps, at, &m) && m.start <= at && m.readable && m.writable;
	maps_close(&maps);
	return fine;
}

static void note(struct slot *s, const ucontext_t *context, void *const frame[], uint32_t depth) REQUIRES(pages_lock)
{
	uint32_t n = atomic_load_explicit(&noted, memory_order_relaxed);
	struct note *new = &notes[n % PAGE_NOTES];

	s->is_written |= fault_is_write(s, context);
	if (n - atomic_load_explicit(&told, memory_order_relaxed) == PAGE_NOTES)
		return;
	new->slot = *s;
	new->how = how_touched(s, context);
	new->depth = depth;
	memcpy(new->frame, frame, depth * sizeof(*frame));
	atomic_store_explicit(&noted, n + 1, memory_order_release); /* pairs with pages_tell() */
}

/* True if the instruction can be repeated. */
static bool pages_fault(const siginfo_t *info, const void *arg)
{
	uint64_t at = (uintptr_t)info->si_addr;
	const ucontext_t *context = arg;
	void *frame[STACK_DEPTH];
	uint32_t depth;
	struct slot *s;
	sigset_t signals;
	bool was_guarded;

	if (info->si_signo != SIGSEGV || info->si_code != SEGV_ACCERR)
		return false;
	depth = frames_of(context, frame);
	pages_enter(&signals);
	s = find_overlap(at, at + 1);
	was_guarded = s && s->state == SLOT_GUARDED;
	if (was_guarded) {
		slot_lift(s, SLOT_LIFTED);
		if (depth)
			note(s, context, frame, depth);
	}
	pages_leave(&signals);
	return was_guarded || is_accessible(at);
}

/* ---- reports ---- */

static void report_touch(const struct note *note)
{
	struct finding f = {.class = CHECK_BUFFERS,
			    .name = "touched-in-flight",
			    .remedy = "do not use the memory between the post and the poll of the completion",
			    .at = {{note->how, stack_of(note->frame, note->depth)}, {"posted", note->slot.posted}}};
	const struct slot *s = &note->slot;

	if (s->brings) {
		snprintf(f.text, sizeof(f.text),
			 "the %u byte%s at 0x%" PRIx64 " of a posted %s (wr_id 0x%" PRIx64
			 ") were %s before its completion was polled",
			 s->sge.length, plural(s->sge.length), s->sge.addr, s->is_send ? "READ or atomic" : "receive",
			 s->wr_id, note->how);
	} else {
		snprintf(f.text, sizeof(f.text),
			 "the %u byte%s at 0x%" PRIx64 " that a request sends (wr_id 0x%" PRIx64
			 ") were %s before its completion was polled",
			 s->sge.length, plural(s->sge.length), s->sge.addr, s->wr_id, note->how);
		f.remedy = "write to the buffer only when the completion has been polled; or send it inline";
	}
	finding_report(&f);
}

static bool next_note(struct note *to)
{
	sigset_t signals;
	uint32_t n;
	bool any;

	pages_enter(&signals);
	n = atomic_load_explicit(&told, memory_order_relaxed);
	any = n != atomic_load_explicit(&noted, memory_order_relaxed);
	if (any) {
		*to = notes[n % PAGE_NOTES];
		atomic_store_explicit(&told, n + 1, memory_order_relaxed);
	}
	pages_leave(&signals);
	return any;
}

void pages_tell(void)
{
	struct note n;

	/* acquire: pairs with note(); the next call sees what a stale value misses */
	if (likely(atomic_load_explicit(&noted, memory_order_acquire) ==
		   atomic_load_explicit(&told, memory_order_relaxed)))
		return;
	while (next_note(&n))
		report_touch(&n);
}

void pages_start(void)
{
	mode = (enum pages_mode)config_enum(CONFIG_CHECK_PAGES);
	page = (uint64_t)sysconf(_SC_PAGESIZE);
	if (mode != PAGES_OFF)
		fault_repeats = pages_fault;
}
