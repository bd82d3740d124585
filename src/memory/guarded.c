/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/guarded.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "memory/copy.h"

#ifndef MADV_POPULATE_READ /* glibc 2.34 */
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

/* Raw system calls: sanitizers would check and touch the memory first. */
static bool guarded_copy(long number, const void *here, const void *there, size_t length)
{
	struct iovec local = {(void *)here, length}, remote = {(void *)there, length};

	return length == 0 || syscall(number, getpid(), &local, 1ul, &remote, 1ul, 0ul) == (long)length;
}

bool guarded_read(void *to, const char *from, size_t length)
{
	return guarded_copy(SYS_process_vm_readv, to, from, length);
}

bool guarded_write(char *to, const void *from, size_t length)
{
	size_t body = length - copy_tail(to, length);

	if (!guarded_copy(SYS_process_vm_writev, from, to, body))
		return false;
	/* release: see copy_in_order() */
	atomic_thread_fence(memory_order_release);
	return guarded_copy(SYS_process_vm_writev, (const char *)from + body, to + body, length - body);
}

/* An OR with 0 is a write that changes nothing, and FUTEX_WAKE_OP makes the kernel do it. It may wake a thread that
 * sleeps on this word; futexes allow spurious wake-ups. */
bool guarded_touch(char *at)
{
	static _Atomic uint32_t nobody;
	long op = FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_LT, 0);

	return syscall(SYS_futex, &nobody, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0ul, 0ul, at, op) >= 0;
}

static bool touch_pages(char *at, size_t length, bool write)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *end = at + length, byte;

	for (at -= (uintptr_t)at & (page - 1); at < end; at += page)
		if (write ? !guarded_touch(at) : !guarded_read(&byte, at, 1))
			return false;
	return true;
}

bool guarded_populate(char *at, size_t length, bool write)
{
	size_t before = (uintptr_t)at & ((size_t)sysconf(_SC_PAGESIZE) - 1);

	if (length == 0 || madvise(at - before, length + before, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0)
		return true;
	return errno == EINVAL && touch_pages(at, length, write); /* Linux < 5.14 */
}

static bool available;

static void guarded_probe(void)
{
	uint64_t from = 1, to = 0;

	available = guarded_read(&to, (char *)&from, sizeof(to)) && guarded_write((char *)&to, &from, sizeof(to)) &&
		    guarded_touch((char *)&to);
}

bool guarded_available(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, guarded_probe);
	return available;
}
