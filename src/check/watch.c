/* SPDX-License-Identifier: BSD-2-Clause */
/* A breakpoint is a perf event for each thread; the kernel writes a record of each access to a ring: registers and the
 * top of the stack. Accesses of uroce itself are among them, and are known by their stack. A function of the C library
 * may read beyond what it was given, in words; so there it counts only if an argument points to the buffer. */
#include "check/watch.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__) && defined(__linux__)
#include <asm/perf_regs.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#define HAS_BREAKPOINTS true
#endif

#include "base/high_fd.h"
#include "base/list.h"
#include "check/asan.h"
#include "check/finding.h"
#include "check/objects.h"
#include "check/queues.h"
#include "check/request.h"
#include "check/scope.h"
#include "check/stack.h"
#include "check/tuned.h"
#include "check/unwind.h"
#include "memory/fault.h"

#ifdef HAS_BREAKPOINTS

/* A processor has four: two for READs and atomics, which are done soon, and two for receives. */
enum { POINTS = 4, POINTS_OF_ONE = 2, WORD = 8, GRH = sizeof(struct ibv_grh) };

/* A breakpoint of one thread. */
struct eye {
	pid_t thread; /* 0: none */
	int fd;
	struct perf_event_mmap_page *ring;
};

struct point {
	uint64_t at;
	bool is_taken;
	struct eye eye[WATCH_THREADS]; /* the first: of the thread that posted */
};

/* As the kernel lays it out: registers by their number. */
struct sample {
	struct perf_event_header header;
	uint64_t ip, abi, si, di, bp, sp, pc, stack_length;
	char stack[WATCH_STACK];
	uint64_t stack_used;
};
#define REGISTERS                                                                                        \
	(1u << PERF_REG_X86_SI | 1u << PERF_REG_X86_DI | 1u << PERF_REG_X86_BP | 1u << PERF_REG_X86_SP | \
	 1u << PERF_REG_X86_IP)

static bool watch_is_on;
static pid_t owner; /* process that has the breakpoints */
static size_t page;
static struct point points[POINTS]; /* guarded by objects_lock, as all below */
static struct request *watched[2];  /* the receive, and the READ or atomic, whose bytes have points; NULL: none */

/* A datagram that was polled, and whose first bytes and first bytes of payload the program may look at. */
static struct {
	uint64_t at, length; /* length 0: none */
	uint32_t first;	     /* bytes at `at` when it was polled */
	const struct stack *posted;
} datagram;

/* The first mistake with a datagram. */
static struct {
	const struct stack *posted, *looked;
	uint64_t at;
} found;
static _Atomic bool is_found; /* and not reported; relaxed: a hint for callers without the lock */

/* ---- a breakpoint ---- */

/* Bytes that a breakpoint can have from `at` on, or that end there. */
static uint32_t span_of(uint64_t at, uint64_t length)
{
	uint32_t span = WORD;

	while (span > 1 && (at % span || span > length))
		span /= 2;
	return span;
}

static void eye_close(struct eye *e)
{
	if (!e->thread)
		return;
	if (e->ring)
		munmap(e->ring, (1 + WATCH_ROOM) * page);
	close(e->fd);
	*e = (struct eye){0};
}

/* False with errno. */
static bool eye_open(struct eye *e, pid_t thread, struct perf_event_attr *attr)
{
	int fd = high_fd((int)syscall(SYS_perf_event_open, attr, thread, -1, -1, PERF_FLAG_FD_CLOEXEC));
	void *ring;

	if (fd < 0)
		return false;
	ring = mmap(NULL, (1 + WATCH_ROOM) * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	*e = (struct eye){thread, fd, ring == MAP_FAILED ? NULL : ring};
	if (!e->ring)
		eye_close(e);
	return e->ring;
}

static void eye_forget(struct eye *e)
{
	atomic_store((_Atomic __u64 *)&e->ring->data_tail, atomic_load((_Atomic __u64 *)&e->ring->data_head));
}

/* Sets the breakpoint of that thread. False with errno. */
static bool eye_set(struct eye *e, pid_t thread, struct perf_event_attr *attr)
{
	if (e->thread != thread || ioctl(e->fd, PERF_EVENT_IOC_MODIFY_ATTRIBUTES, attr)) {
		eye_close(e);
		if (!eye_open(e, thread, attr))
			return false;
	}
	eye_forget(e);
	return true;
}

/* The threads of this process, this one first; others up to WATCH_THREADS in all. Returns their number. */
static uint32_t list_threads(pid_t thread[WATCH_THREADS])
{
	DIR *all = opendir("/proc/self/task");
	struct dirent *e;
	uint32_t n = 1;
	pid_t one;

	thread[0] = gettid();
	while (all && n < WATCH_THREADS && (e = readdir(all))) {
		one = (pid_t)strtol(e->d_name, NULL, 10);
		if (one > 0 && one != thread[0])
			thread[n++] = one;
	}
	if (all)
		closedir(all);
	return n;
}

/* Those of other threads that cannot be set are left out. */
static bool point_set(struct point *p, uint64_t at, uint32_t length)
{
	pid_t thread[WATCH_THREADS];
	uint32_t threads = list_threads(thread);
	struct perf_event_attr attr = {.type = PERF_TYPE_BREAKPOINT,
				       .size = sizeof(attr),
				       .sample_period = 1,
				       .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
				       .sample_regs_user = REGISTERS,
				       .sample_stack_user = WATCH_STACK,
				       .exclude_kernel = true,
				       .exclude_hv = true,
				       .bp_type = HW_BREAKPOINT_RW,
				       .bp_addr = at,
				       .bp_len = length};

	p->at = at;
	p->is_taken = eye_set(&p->eye[0], thread[0], &attr);
	if (!p->is_taken)
		watch_is_on = errno == ENOSPC || errno == EMFILE; /* a debugger has them, for now */
	for (uint32_t i = 1; i < WATCH_THREADS; i++)
		if (i >= threads || !p->is_taken || !eye_set(&p->eye[i], thread[i], &attr))
			eye_close(&p->eye[i]);
	return p->is_taken;
}

static void point_drop(struct point *p)
{
	for (uint32_t i = 0; p->is_taken && i < WATCH_THREADS; i++)
		if (p->eye[i].thread)
			ioctl(p->eye[i].fd, PERF_EVENT_IOC_DISABLE, 0);
	p->is_taken = false;
}

/* ---- accesses ---- */

static void ring_copy(const struct eye *e, uint64_t from, void *to, size_t length)
{
	const char *data = (const char *)e->ring + page;
	size_t room = WATCH_ROOM * page, at = from % room, first = min_of(length, room - at);

	memcpy(to, data + at, first);
	memcpy((char *)to + first, data, length - first);
}

/* Start of the file that has the code; NULL: it was made at run time, or not loaded by the dynamic loader. */
static const void *file_of(const void *frame)
{
	Dl_info info;

	return dladdr(frame, &info) ? info.dli_fbase : NULL;
}

/* True unless uroce made the access, or may have made it: where a library did, such as a sanitizer's, and the copy of
 * the stack does not say for whom. */
static bool is_by_program(const struct sample *s, void *const *frame, uint32_t depth, uint64_t at, uint64_t length)
{
	const void *program = file_of((const void *)getauxval(AT_ENTRY)), *file = file_of(frame[0]);
	bool is_known = file == program;

	for (uint32_t i = 0; i < depth; i++) {
		if (stack_is_ours(frame[i]))
			return false;
		is_known |= file_of(frame[i]) != file;
	}
	return file && is_known && (!stack_is_libc(frame[0]) || s->di - at < length || s->si - at < length);
}

static const struct stack *eye_look(struct eye *e, uint64_t at, uint64_t length)
{
	uint64_t head = atomic_load((_Atomic __u64 *)&e->ring->data_head), tail = e->ring->data_tail;
	const struct stack *first = NULL;
	void *frame[STACK_DEPTH];
	struct sample s;

	for (; tail < head && !first; tail += s.header.size) {
		ring_copy(e, tail, &s, sizeof(s.header));
		if (s.header.type != PERF_RECORD_SAMPLE || s.header.size != sizeof(s))
			continue;
		ring_copy(e, tail, &s, sizeof(s));
		uint32_t depth = unwind_copied(
			&(struct unwind_copy){s.pc, s.sp, s.bp, s.stack, min_of(s.stack_used, sizeof(s.stack))}, frame,
			ARRAY_SIZE(frame));
		if (is_by_program(&s, frame, depth, at, length))
			first = stack_of(frame, depth);
	}
	eye_forget(e);
	return first;
}

/* Stack of an access of the program since the last look, the first of its thread; NULL: none. The buffer is that of
 * `at`. */
static const struct stack *point_look(struct point *p, uint64_t at, uint64_t length)
{
	const struct stack *found_by, *first = NULL;

	for (uint32_t i = 0; i < WATCH_THREADS; i++) {
		found_by = p->eye[i].thread ? eye_look(&p->eye[i], at, length) : NULL;
		first = first ?: found_by;
	}
	return first;
}

/* ---- from post to poll ---- */

static struct point *points_of(const struct request *r)
{
	return &points[r->is_send ? 0 : POINTS_OF_ONE];
}

static bool any_shares(struct list *requests, const struct request *r) REQUIRES(objects_lock)
{
	list_each_safe (l, requests) {
		const struct request *other = container_of(l, struct request, link);

		if (other != r && requests_overlap(other, r))
			return true;
	}
	return false;
}

static bool is_shared(const struct request *r) REQUIRES(objects_lock)
{
	for (const struct object *o = objects_next(NULL); o; o = objects_next(o))
		if (o->queues && (any_shares(&o->queues->sends, r) || any_shares(&o->queues->receives, r)))
			return true;
	return false;
}

static void drop(struct request *r) REQUIRES(objects_lock)
{
	for (int i = 0; i < POINTS_OF_ONE; i++)
		point_drop(&points_of(r)[i]);
	watched[r->is_send] = NULL;
}

void watch_need(const struct request *r)
{
	if (!watch_is_on)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(watched); i++)
		if (watched[i] && requests_overlap(watched[i], r))
			drop(watched[i]);
	for (int i = 0; i < r->sges; i++)
		watch_settle(r->sge[i].addr, r->sge[i].length);
}

void watch_begin(struct request *r)
{
	static _Thread_local uint32_t counts[2];
	const struct ibv_sge *sge = r->sge;
	struct point *p = points_of(r);
	uint32_t span;

	if (!watch_is_on || !r->brings || !r->sges || !sge->length || p[0].is_taken || p[1].is_taken ||
	    (counts[r->is_send]++ >= WATCH_FIRST && counts[r->is_send] % WATCH_THEN) || is_shared(r))
		return;
	span = span_of(sge->addr, sge->length);
	if (!point_set(&p[0], sge->addr, span))
		return;
	watched[r->is_send] = r;
	if (sge->length == span)
		return;
	span = span_of(sge->addr + sge->length, sge->length - span);
	point_set(&p[1], sge->addr + sge->length - span, span);
}

void watch_look(struct request *r)
{
	if (watched[r->is_send] != r)
		return;
	for (int i = 0; i < POINTS_OF_ONE && !r->touched; i++) {
		struct point *p = &points_of(r)[i];

		/* of a receive, what its message fills belongs to the adapter */
		if (p->is_taken && (r->is_send || p->at - r->sge[0].addr < r->length))
			r->touched = point_look(p, r->sge[0].addr, r->sge[0].length);
	}
}

void watch_end(struct request *r)
{
	if (watched[r->is_send] != r)
		return;
	watch_look(r);
	if (r->slot[0]) /* pages.c tells of it */
		r->touched = NULL;
	drop(r);
}

/* ---- datagrams ---- */

/* A program that takes the GRH for the payload looks at the first bytes and never at the payload, as what it finds is
 * wrong. One that wants the GRH looks at the payload, sooner or later. Stores do not count. */
void watch_settle(uint64_t at, uint64_t length)
{
	struct point *p = &points[POINTS_OF_ONE];
	const struct stack *looked, *at_payload;
	uint32_t now;

	if (!datagram.length || at >= datagram.at + datagram.length || datagram.at >= at + length)
		return;
	looked = point_look(&p[0], datagram.at, datagram.length);
	at_payload = point_look(&p[1], datagram.at, datagram.length);
	if (looked && !at_payload && !found.looked &&
	    fault_copy_any((char *)&now, (const void *)(uintptr_t)datagram.at, sizeof(now)) && now == datagram.first) {
		found.looked = looked;
		found.posted = datagram.posted;
		found.at = datagram.at;
		atomic_store_explicit(&is_found, true, memory_order_relaxed);
	}
	point_drop(&p[0]);
	point_drop(&p[1]);
	datagram.length = 0;
}

static void datagram_begin(const struct request *r) REQUIRES(objects_lock)
{
	struct point *p = &points[POINTS_OF_ONE];
	uint64_t at = r->sge[0].addr, length = min_of(r->sge[0].length, r->length);

	if (length <= GRH || p[0].is_taken || p[1].is_taken ||
	    !fault_copy_any((char *)&datagram.first, (const void *)(uintptr_t)at, sizeof(datagram.first)) ||
	    !point_set(&p[0], at, span_of(at, sizeof(datagram.first))))
		return;
	if (!point_set(&p[1], at + GRH, span_of(at + GRH, length - GRH))) {
		point_drop(&p[0]);
		return;
	}
	datagram.at = at;
	datagram.length = length;
	datagram.posted = r->posted;
}

void watch_datagram(const struct request *r)
{
	if (!watch_is_on || !r->sges)
		return;
	lock_take(&objects_lock);
	datagram_begin(r);
	lock_drop(&objects_lock);
}

void watch_tell(void)
{
	struct finding f = {.class = CHECK_BUFFERS,
			    .name = "grh-as-payload",
			    .remedy = "look for the payload behind the 40 bytes of the GRH"};

	if (likely(!atomic_load_explicit(&is_found, memory_order_relaxed)))
		return;
	lock_take(&objects_lock);
	f.at[0].title = "read";
	f.at[0].stack = found.looked;
	f.at[1].title = "posted";
	f.at[1].stack = found.posted;
	snprintf(f.text, sizeof(f.text),
		 "the first bytes of a datagram at 0x%" PRIx64
		 " were read, where the GRH is, and its payload was not, 40 bytes behind them",
		 found.at);
	atomic_store_explicit(&is_found, false, memory_order_relaxed);
	lock_drop(&objects_lock);
	finding_report(&f);
}

void watch_finish(void)
{
	if (getpid() == owner) { /* a copy of the process has no rings */
		lock_take(&objects_lock);
		watch_settle(datagram.at, datagram.length);
		lock_drop(&objects_lock);
	}
	watch_tell();
}

void watch_start(void)
{
	page = (size_t)sysconf(_SC_PAGESIZE);
	owner = getpid();
	watch_is_on = !asan_is_memcheck();
}

void watch_forget(void)
{
	watch_is_on = false;
}

#else

void watch_start(void)
{
}

void watch_forget(void)
{
}

void watch_need(const struct request *r)
{
	(void)r;
}

void watch_begin(struct request *r)
{
	(void)r;
}

void watch_look(struct request *r)
{
	(void)r;
}

void watch_end(struct request *r)
{
	(void)r;
}

void watch_datagram(const struct request *r)
{
	(void)r;
}

void watch_settle(uint64_t at, uint64_t length)
{
	(void)at;
	(void)length;
}

void watch_tell(void)
{
}

void watch_finish(void)
{
}

#endif
