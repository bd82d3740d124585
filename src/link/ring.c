/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/ring.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memfd.h"

#define WORDS_BYTES 65536 /* a page, whatever its size */
#define SIZE_LEAST  65536u
#define SIZE_MOST   (1u << 30)
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

static_assert(sizeof(struct ring_words) <= WORDS_BYTES, "the words have their page");

static bool size_is_good(uint64_t size)
{
	return size >= SIZE_LEAST && size <= SIZE_MOST && (size & (size - 1)) == 0;
}

static bool set_key(int fd)
{
	uint64_t key;

	if (getrandom(&key, sizeof(key), 0) != sizeof(key))
		return false;
	key |= 1; /* so that fresh memory has no mark */
	return pwrite(fd, &key, sizeof(key), offsetof(struct ring_words, key)) == sizeof(key);
}

int ring_memory(uint32_t size)
{
	int fd, err;

	if (!size_is_good(size))
		return -EINVAL;
	fd = memfd_of_size("uroce-ring", 0, WORDS_BYTES + (uint64_t)size);
	if (fd < 0)
		return fd;
	if (set_key(fd))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

int ring_map(struct ring *r, int memory)
{
	struct stat st;
	uint64_t size;
	char *at;

	if (fstat(memory, &st) || st.st_size < WORDS_BYTES)
		return -EINVAL;
	size = (uint64_t)st.st_size - WORDS_BYTES;
	/* who could make it smaller could make us stumble over it */
	if (!size_is_good(size) || !memfd_is_fixed(memory, WORDS_BYTES + size))
		return -EINVAL;
	/* reserved as a whole, then filled: words, data, data again */
	at = mmap(NULL, WORDS_BYTES + 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return -errno;
	if (mmap(at, WORDS_BYTES + size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, 0) == MAP_FAILED ||
	    mmap(at + WORDS_BYTES + size, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, WORDS_BYTES) ==
		    MAP_FAILED) {
		int err = -errno;

		munmap(at, WORDS_BYTES + 2 * size);
		return err;
	}
	madvise(at, WORDS_BYTES + 2 * size, MADV_DONTFORK);
	*r = (struct ring){.words = (struct ring_words *)at,
			   .data = at + WORDS_BYTES,
			   .size = (uint32_t)size,
			   .key = ((struct ring_words *)at)->key,
			   .tsan_key = tsan_key(st.st_ino)};
	return 0;
}

void ring_ready(struct ring *r)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), from = (r->at + page - 1) & ~(page - 1);
	uint64_t more = min_of(max_of(from, page), (uint64_t)r->size / 8), end = min_of(from + more, (uint64_t)r->size);

	if (from >= end || madvise(r->data + from, end - from, MADV_POPULATE_WRITE))
		end = UINT64_MAX; /* all of it is, or it has to be one by one (before Linux 5.14) */
	r->ready = end;
}

void ring_unmap(struct ring *r)
{
	if (r->words)
		munmap(r->words, WORDS_BYTES + 2 * (size_t)r->size);
	*r = (struct ring){0};
}

void ring_retire(struct ring *r)
{
	char *at = (char *)r->words;

	if (!at)
		return;
	munmap(at + WORDS_BYTES, 2 * (size_t)r->size);
	/* zeros in place of the words; if there is no memory for that, they stay, and with them the ring's, until
	 * ring_unmap() */
	(void)mmap(at, WORDS_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
	r->data = NULL;
	r->size = 0;
}
