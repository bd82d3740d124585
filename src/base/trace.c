/* SPDX-License-Identifier: BSD-2-Clause */
/* The writing side of a trace: each thread has a ring in the mapped file and is its only writer. */
#include "base/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/capture.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/fork.h"
#include "base/high_fd.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/memfd.h"
#include "base/own_file.h"
#include "base/pending.h"
#include "base/trace_file.h"
#include "base/tuned.h"

#define RING_HEADER   TRACE_PAGE
#define page_align(x) (((x) + TRACE_PAGE - 1) & ~(size_t)(TRACE_PAGE - 1))

static const struct trace_point_name point_names[] = {
#define POINT(name, a, b, c, d, e, f) {#name, {#a, #b, #c, #d, #e, #f}},
#include "base/trace.def"
#undef POINT
};
static_assert(ARRAY_SIZE(point_names) == TRACE_POINTS, "every point has a name");

static struct trace_header *header; /* the mapped file, with rings behind. Not trusted, as others may write to it */
static int trace_fd = -1;
static size_t header_bytes, ring_bytes; /* bytes, as in the header */
static uint32_t ring_mask;
static _Atomic uint64_t started; /* ns: begin of the live trace; records before it are of an earlier one */
static uint32_t rings_most;	 /* number of rings that are mapped */
static pthread_key_t ring_key; /* key whose destructor frees the ring of a thread that ends, for the next new thread */

static struct lock rings_lock = LOCK_RANKED(TRACE_RINGS); /* guards creation and reuse of rings */
static struct trace_ring *spare_rings[TRACE_RINGS_MAX] GUARDED_BY(rings_lock);
static uint32_t spares GUARDED_BY(rings_lock), rings_made GUARDED_BY(rings_lock);

static _Thread_local struct trace_ring *my_ring;
static _Thread_local uint32_t repeats_in_row; /* consecutive records that repeated one of the last few */
static _Thread_local bool ringless;	      /* no ring was available for this thread */

static void release_ring(void *ring)
{
	lock_take(&rings_lock);
	if (spares < TRACE_RINGS_MAX)
		spare_rings[spares++] = ring;
	lock_drop(&rings_lock);
	my_ring = NULL; /* a later destructor may still record: it takes a ring again */
}

static struct trace_ring *new_ring(void) REQUIRES(rings_lock)
{
	size_t start = header_bytes + rings_made * ring_bytes;
	char *ring = (char *)header + start;

	/* allocate the disk space now: a store to a mapped file on a full disk would kill the program */
	if (rings_made == rings_most || posix_fallocate(trace_fd, (off_t)start, (off_t)ring_bytes))
		return NULL;
	for (size_t i = 0; i < ring_bytes; i += TRACE_PAGE) /* no page fault while records are written */
		*(volatile char *)(ring + i) = 0;
	/* release pairs with the reader of the file */
	atomic_store_explicit(&header->rings, ++rings_made, memory_order_release);
	return (struct trace_ring *)ring;
}

static struct trace_ring *take_ring(void)
{
	struct trace_ring *ring;

	lock_take(&rings_lock);
	ring = spares ? spare_rings[--spares] : new_ring();
	lock_drop(&rings_lock);
	if (!ring) {
		ringless = true;
		log_warn("no room for the trace of one more thread (%u threads, or the disk is full)", rings_most);
		return NULL;
	}
	ring->tid = (uint32_t)syscall(SYS_gettid);
	my_ring = ring;
	pthread_setspecific(ring_key, ring);
	return ring;
}

static struct trace_entry *ring_entry(struct trace_ring *ring, uint64_t n)
{
	return (struct trace_entry *)((char *)ring + RING_HEADER) + (n & ring_mask);
}

/* Trace points that tell the same again when a packet is sent again. */
static const bool may_repeat[TRACE_POINTS] = {
	[TRACE_build] = true,	    [TRACE_send] = true,	 [TRACE_receive] = true, [TRACE_drop] = true,
	[TRACE_acknowledge] = true, [TRACE_acknowledged] = true, [TRACE_retry] = true,
};

static bool is_repeat(const struct trace_entry *e, enum trace_point point, const uint64_t arg[TRACE_ARGS])
{
	if (TRACE_POINT(e->point) != point)
		return false;
	for (int i = 0; i < TRACE_ARGS; i++)
		if (e->arg[i] != arg[i] && !(point == TRACE_retry && i == 4)) /* retries left */
			return false;
	return true;
}

/* Counts the record at one of the last few, if it repeats that. So endless retries do not push older records out of the
 * ring. The first rounds are written, to be read. */
static bool fold_repeat(struct trace_ring *ring, uint64_t n, enum trace_point point, const uint64_t arg[TRACE_ARGS])
{
	for (uint64_t back = 1; back <= min_of(n, (uint64_t)REPEAT_WINDOW); back++) {
		struct trace_entry *e = ring_entry(ring, n - back);

		/* relaxed: only the first records of a live trace are near the time */
		if (is_repeat(e, point, arg) && e->time >= atomic_load_explicit(&started, memory_order_relaxed)) {
			if (++repeats_in_row <= REPEATS_WRITTEN)
				return false;
			if (TRACE_REPEATS(e->point) < UINT16_MAX)
				e->point += 1u << 16;
			return true;
		}
	}
	repeats_in_row = 0;
	return false;
}

void trace_record(enum trace_point point, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
	struct trace_ring *ring = my_ring;
	const uint64_t arg[TRACE_ARGS] = {a, b, c, d, e, f};
	struct trace_entry *entry;
	uint64_t n, now;

	if (hook_is_on(HOOK_CAPTURE) && (point == TRACE_post_send || point == TRACE_build))
		capture_event(point, arg);
	if (!hook_is_on(HOOK_TRACE))
		return;
	if (unlikely(!ring)) {
		if (!hook_is_on_acquire(HOOK_TRACE)) /* another thread may just have made the file */
			return;
		ring = ringless ? NULL : take_ring();
		if (!ring) {
			atomic_fetch_add_explicit(&header->lost, 1, memory_order_relaxed);
			return;
		}
	}
	now = clock_now();
	pending_note(point, now, arg);
	n = atomic_load_explicit(&ring->written, memory_order_relaxed); /* only this thread writes `written` */
	if (!may_repeat[point])
		repeats_in_row = 0;
	else if (fold_repeat(ring, n, point, arg))
		return;
	entry = ring_entry(ring, n);
	*entry = (struct trace_entry){now, point, ring->tid, {a, b, c, d, e, f}};
	/* release pairs with the reader of the file: all counted records are complete */
	atomic_store_explicit(&ring->written, n + 1, memory_order_release);
}

/* Records of a ring, rounded up to a power of two. */
static uint32_t records_per_ring(void)
{
	uint64_t wanted = config_number(CONFIG_TRACE_SIZE);
	uint32_t n = 1;

	while (n < wanted)
		n *= 2;
	return n;
}

/* Opens a file that may be overwritten: new, empty, or an old trace. The lock on the file stays as long as the process,
 * and shows other processes that the file is in use. 0; -EBUSY: another process writes to it; or another -errno, and
 * *why. */
static int trace_open_file(const char *name, char why[OWN_FILE_WHY])
{
	uint64_t magic = 0;
	ssize_t n;
	int err;

	trace_fd = own_file_open(name, O_RDWR | O_CREAT, 0600, why);
	if (trace_fd < 0)
		return trace_fd;
	if (flock(trace_fd, LOCK_EX | LOCK_NB)) {
		err = errno == EWOULDBLOCK ? -EBUSY : -errno;
	} else {
		n = pread(trace_fd, &magic, sizeof(magic), 0);
		if (n < 0)
			err = -errno;
		else if (n > 0 && magic != TRACE_MAGIC)
			err = -EEXIST;
		else
			err = ftruncate(trace_fd, 0) ? -errno : 0;
	}
	if (err) {
		snprintf(why, OWN_FILE_WHY, "%s",
			 err == -EEXIST ? "the file exists and is no trace; name another, or remove it"
					: strerror(-err));
		close(trace_fd);
		trace_fd = -1;
	}
	return err;
}

static void trace_read_line(const char *file, char *out, size_t room)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, out, room - 1);

	out[n > 0 ? n : 0] = 0;
	out[strcspn(out, "\n")] = 0;
	if (fd >= 0)
		close(fd);
}

/* Maps the whole file, at its final length; a live trace has that length from the start, and no other process can
 * change or write it. Under a limit of the process (ulimit -v, -f), there are fewer rings. 0 or -errno. */
static int map_file(bool is_live)
{
	int err = -ENOMEM;

	for (rings_most = TRACE_RINGS_MAX; rings_most; rings_most /= 2) {
		size_t bytes = header_bytes + rings_most * ring_bytes;

		if (is_live)
			trace_fd = memfd_of_size("uroce-trace", MFD_ALLOW_SEALING, bytes);
		header = trace_fd < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, trace_fd, 0);
		if (header != MAP_FAILED)
			return is_live ? memfd_end_writes(trace_fd) : 0;
		header = NULL;
		err = trace_fd < 0 ? trace_fd : -errno;
		if (is_live && trace_fd >= 0) {
			close(trace_fd);
			trace_fd = -1;
		}
	}
	return err;
}

static int write_header(bool is_live)
{
	size_t names_end = sizeof(*header) + sizeof(point_names);
	uint32_t records = records_per_ring();
	int err;

	header_bytes = page_align(names_end + pending_bytes(names_end));
	ring_bytes = RING_HEADER + records * sizeof(struct trace_entry);
	ring_mask = records - 1;
	err = map_file(is_live) ?: -posix_fallocate(trace_fd, 0, (off_t)header_bytes);
	if (err)
		return err;
	header->header_bytes = (uint32_t)header_bytes;
	header->ring_header_bytes = RING_HEADER;
	header->ring_records = records;
	header->record_bytes = sizeof(struct trace_entry);
	header->ring_bytes = (uint32_t)ring_bytes;
	header->point_bytes = sizeof(point_names[0]);
	header->points = TRACE_POINTS;
	header->pid = (uint32_t)getpid();
	header->start_mono = clock_now();
	header->start_wall = clock_wall();
	gethostname(header->host, sizeof(header->host) - 1);
	trace_read_line("/proc/sys/kernel/random/boot_id", header->boot, sizeof(header->boot));
	trace_read_line("/proc/self/comm", header->program, sizeof(header->program));
	memcpy(header + 1, point_names, sizeof(point_names));
	pending_init(header, names_end);
	header->magic = TRACE_MAGIC; /* last: a file with the magic has a complete header */
	return 0;
}

static void unmap_file(void)
{
	if (header)
		munmap(header, header_bytes + rings_most * ring_bytes);
	if (trace_fd >= 0)
		close(trace_fd);
	header = NULL;
	trace_fd = -1;
}

/* Stops tracing in a child of fork(), which must not write into its parent's rings. It may be traced live, into a file
 * of its own. */
static void stop_in_child(void)
{
	hook_set(HOOK_TRACE, false);
	my_ring = NULL;
	ringless = false;
	lock_assert_unshared(&rings_lock);
	spares = rings_made = 0;
	unmap_file();
}

/* Prepares what a trace file needs besides itself. 0 or -errno. */
static int trace_prepare(void)
{
	static const struct fork_handlers handlers = {.in_child = stop_in_child};
	static bool is_ready;
	int err = is_ready ? 0 : -pthread_key_create(&ring_key, release_ring);

	if (!err && !is_ready)
		fork_watch(FORK_TRACE, &handlers);
	is_ready |= !err;
	return err;
}

static void base_trace_start(void)
{
	const char *pattern = config_string(CONFIG_TRACE);
	char name[4096], why[OWN_FILE_WHY] = "";
	int err;

	if (!pattern)
		return;
	err = config_file(CONFIG_TRACE, name, sizeof(name)) ? trace_open_file(name, why) : -ENAMETOOLONG;
	if (err == -EBUSY) {
		snprintf(name + strlen(name), 16, ".%d", (int)getpid());
		err = trace_open_file(name, why);
	}
	if (!err)
		err = write_header(false) ?: trace_prepare();
	if (err) {
		unmap_file();
		log_error("no trace: UROCE_TRACE=%s: %s", pattern, *why ? why : strerror(-err));
		return;
	}
	hook_set(HOOK_TRACE, true);
	log_info("tracing to %s", name);
}

void trace_start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, base_trace_start);
}

int trace_live(void)
{
	int err, fd;

	if (hook_is_on(HOOK_TRACE))
		return -EBUSY;
	err = header ? 0 : write_header(true) ?: trace_prepare();
	if (err) {
		unmap_file();
		return err;
	}
	fd = fcntl(trace_fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	pending_clear();
	atomic_store_explicit(&started, clock_now(), memory_order_relaxed);
	header->start_mono = atomic_load_explicit(&started, memory_order_relaxed);
	header->start_wall = clock_wall();
	hook_set(HOOK_TRACE, true);
	return fd;
}

void trace_live_end(void)
{
	hook_set(HOOK_TRACE, false);
}
