/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/capture.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/fork.h"
#include "base/high_fd.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/memfd.h"
#include "base/rights.h"
#include "base/same_user.h"
#include "base/tuned.h"

#define RING_MEMORY (CAPTURE_PAGE + CAPTURE_RING)
#define ROUND(x)    (((x) + 15) & ~(uint64_t)15)

static struct lock capture_lock = LOCK_RANKED(CAPTURE); /* guards all of this */
static struct capture_header *ring GUARDED_BY(capture_lock);
static int collector GUARDED_BY(capture_lock) = -1; /* the connection, which ends with the process; -1: none */
static int doorbell GUARDED_BY(capture_lock) = -1;
static uint64_t written GUARDED_BY(capture_lock);

static char *ring_byte(uint64_t n) REQUIRES(capture_lock)
{
	return (char *)ring + CAPTURE_PAGE + (n & (CAPTURE_RING - 1));
}

/* True if the ring has room. The collector sets `read` and may be broken: a used size above the ring's counts as no
 * room. */
static bool ring_has(uint64_t bytes) REQUIRES(capture_lock)
{
	/* acquire pairs with the collector's release: it no longer reads there */
	uint64_t used = written - atomic_load_explicit(&ring->read, memory_order_acquire);

	return used <= CAPTURE_RING && bytes <= CAPTURE_RING - used;
}

static struct capture_record *put_head(enum capture_kind kind, uint64_t bytes) REQUIRES(capture_lock)
{
	struct capture_record *r = (struct capture_record *)ring_byte(written);

	*r = (struct capture_record){.bytes = (uint32_t)bytes, .kind = kind, .time = clock_wall()};
	return r;
}

/* Returns a record with the lock held, which capture_commit() drops; or NULL. */
void *capture_begin(enum capture_kind kind, uint64_t bytes) NO_LOCK_ANALYSIS
{
	uint64_t rest;

	bytes = ROUND(bytes);
	lock_take(&capture_lock);
	rest = CAPTURE_RING - (written & (CAPTURE_RING - 1));
	if (ring && bytes < CAPTURE_RING / 4 && ring_has(bytes + (bytes > rest ? rest : 0))) {
		if (bytes > rest) {
			put_head(CAPTURE_FILL, rest);
			written += rest;
		}
		return put_head(kind, bytes);
	}
	if (ring)
		atomic_fetch_add_explicit(&ring->dropped, kind != CAPTURE_EVENT, memory_order_relaxed);
	lock_drop(&capture_lock);
	return NULL;
}

void capture_commit(struct capture_record *record, uint64_t bytes) NO_LOCK_ANALYSIS
{
	uint64_t one = 1;

	bytes = ROUND(bytes);
	record->bytes = (uint32_t)bytes; /* not read again, as the collector may change it */
	written += bytes;
	atomic_store_explicit(&ring->written, written, memory_order_seq_cst); /* before `sleeps` is read */
	if (atomic_load_explicit(&ring->sleeps, memory_order_seq_cst) &&
	    atomic_exchange_explicit(&ring->sleeps, 0, memory_order_relaxed))
		(void)!write(doorbell, &one, sizeof(one)); /* fails only if it is readable already */
	lock_drop(&capture_lock);
}

uint32_t capture_payload(void)
{
	uint32_t most = 0;

	lock_take(&capture_lock);
	if (ring)
		most = atomic_load_explicit(&ring->payload, memory_order_relaxed);
	lock_drop(&capture_lock);
	return most;
}

void capture_event(uint32_t point, const uint64_t arg[6])
{
	struct capture_event *e = capture_begin(CAPTURE_EVENT, sizeof(*e));

	if (!e)
		return;
	e->point = point;
	memcpy(e->arg, arg, sizeof(e->arg));
	capture_commit(&e->record, sizeof(*e));
}

static void close_all(void) REQUIRES(capture_lock)
{
	if (ring)
		munmap(ring, RING_MEMORY);
	if (collector >= 0)
		close(collector);
	if (doorbell >= 0)
		close(doorbell);
	ring = NULL;
	collector = doorbell = -1;
}

void capture_end(void)
{
	hook_set(HOOK_CAPTURE, false);
	lock_take(&capture_lock);
	close_all();
	lock_drop(&capture_lock);
}

static void capture_before_fork(void) ACQUIRE(capture_lock)
{
	lock_take(&capture_lock);
}

static void capture_after_fork(void) RELEASE(capture_lock)
{
	lock_drop(&capture_lock);
}

/* Drops the parent's ring. A child that opens a device connects anew. */
static void capture_in_child(void) RELEASE(capture_lock)
{
	hook_set(HOOK_CAPTURE, false);
	close_all();
	lock_drop(&capture_lock);
}

static void watch_forks(void)
{
	static const struct fork_handlers handlers = {capture_before_fork, capture_after_fork, capture_in_child};

	fork_watch(FORK_CAPTURE, &handlers);
}

static int call_collector(const char *name, bool waits)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd, err = 0;

	if (strlen(name) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	fd = high_fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | (waits ? 0 : SOCK_NONBLOCK), 0));
	if (fd < 0)
		return -errno;
	memcpy(address.sun_path + 1, name, strlen(name));
	if (connect(fd, (struct sockaddr *)&address,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))))
		err = -errno;
	else if (!same_user_peer(fd, NULL))
		err = -EACCES;
	if (err)
		close(fd);
	return err ?: fd;
}

static int send_hello(int to, int memory, int bell)
{
	struct capture_hello hello = {.magic = CAPTURE_MAGIC, .pid = (uint32_t)getpid(), .bytes = RING_MEMORY};
	const int fds[] = {memory, bell};

	pthread_getname_np(pthread_self(), hello.program, sizeof(hello.program));
	return rights_send(to, &hello, sizeof(hello), fds, ARRAY_SIZE(fds));
}

/* Waits for the byte that tells that the collector has set `payload`. */
static int await_answer(int from)
{
	char byte;
	ssize_t n;

	do
		n = recv(from, &byte, 1, 0);
	while (n < 0 && errno == EINTR);
	return n == 1 ? 0 : n ? -errno : -ECONNRESET;
}

static int make_ring(int *memory) REQUIRES(capture_lock)
{
	*memory = memfd_of_size("uroce-capture", 0, RING_MEMORY);
	if (*memory < 0)
		return *memory;
	ring = mmap(NULL, RING_MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, *memory, 0);
	if (ring == MAP_FAILED) {
		ring = NULL;
		close(*memory);
		return -ENOMEM;
	}
	*ring = (struct capture_header){.magic = CAPTURE_MAGIC, .bytes = CAPTURE_RING, .payload = UINT32_MAX};
	written = 0;
	return 0;
}

static bool is_captured(void)
{
	bool is;

	lock_take(&capture_lock);
	is = ring;
	lock_drop(&capture_lock);
	return is;
}

/* Makes a ring for the connection `fd`, which it takes. */
static int capture_begin_ring(int fd) REQUIRES(capture_lock)
{
	int memory = -1, err;

	if (ring) {
		close(fd);
		return -EBUSY;
	}
	collector = fd;
	doorbell = high_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	err = doorbell < 0 ? -errno : make_ring(&memory) ?: send_hello(collector, memory, doorbell);
	if (memory >= 0)
		close(memory); /* the mapping keeps it */
	if (err)
		close_all();
	return err;
}

/* Waits without the lock, which the helper thread may want. */
int capture_connect(const char *name, bool waits)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int fd, err;

	pthread_once(&once, watch_forks);
	if (is_captured())
		return -EBUSY;
	fd = call_collector(name, waits);
	if (fd < 0)
		return fd;
	lock_take(&capture_lock);
	err = capture_begin_ring(fd);
	lock_drop(&capture_lock);
	if (!err && waits && (err = await_answer(fd)))
		capture_end();
	if (!err)
		hook_set(HOOK_CAPTURE, true);
	return err;
}

void capture_start(void)
{
	const char *name = config_string(CONFIG_PCAP);
	int err = name && !hook_is_on(HOOK_CAPTURE) ? capture_connect(name, true) : 0;

	if (err && err != -EBUSY)
		log_error("no capture: UROCE_PCAP=%s: %s (`uroce run --pcap FILE PROGRAM` sets it)", name,
			  err == -ECONNREFUSED ? "its collector has ended" : strerror(-err));
}
