/* SPDX-License-Identifier: BSD-2-Clause */
/* Any file as a trace that its process still writes, or cuts: `uroce trace` and `uroce explain` read it. The file ends
 * where the word "CHANGES." begins; each change behind it comes before one of the reads. Seeds: corpus/live, made by
 * live-seeds.py. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memfd.h"
#include "require.h"
#include "tools/trace/join.h"
#include "tools/trace/records.h"
#include "tools/trace/waits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
ssize_t __real_pread64(int fd, void *to, size_t size, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t size, off_t at);

/* In the input, followed by `length` bytes. */
struct change {
	uint8_t reads;	/* that come before it */
	uint8_t length; /* 0: the file ends at `at` */
	uint8_t at[4];	/* little endian */
};

static int file = -1;
static const uint8_t *next, *end; /* changes */

static bool change(void)
{
	struct change c;
	uint32_t at;

	if ((size_t)(end - next) < sizeof(c))
		return false;
	memcpy(&c, next, sizeof(c));
	if (c.length > end - next - (ptrdiff_t)sizeof(c))
		return false;
	next += sizeof(c);
	at = c.at[0] | c.at[1] << 8 | (uint32_t)(c.at[2] & 3) << 16;
	require(c.length ? pwrite(file, next, c.length, at) == c.length : !ftruncate(file, at));
	next += c.length;
	return true;
}

ssize_t __wrap_pread64(int fd, void *to, size_t size, off_t at)
{
	static uint32_t reads;

	if (next < end && ++reads > *next) {
		reads = 0;
		if (!change())
			next = end;
	}
	return __real_pread64(fd, to, size, at);
}

static void read_records(char *name)
{
	struct records r;
	struct joined j;

	if (records_load(&r, &name, 1))
		return;
	require(strlen(r.sources->host) < sizeof(r.sources->host) && strlen(r.sources->boot) < sizeof(r.sources->boot));
	for (uint32_t i = 0; i < r.count; i++)
		require(r.all[i].point < TRACE_POINTS && (!i || r.all[i].time >= r.all[i - 1].time));
	join(&j, &r);
	join_free(&j);
	records_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *changes = memmem(data, size, "CHANGES.", 8);
	size_t length = changes ? (size_t)(changes - data) : size;
	struct waits w;
	char name[64];

	for (int i = 0; i < 2; i++) {
		file = memfd_new("trace", MFD_CLOEXEC);
		require(file >= 0 && write(file, data, length) == (ssize_t)length);
		next = changes ? changes + 8 : NULL;
		end = changes ? data + size : NULL;
		snprintf(name, sizeof(name), "/proc/self/fd/%d", file);
		if (i)
			(void)waits_load(name, &w);
		else
			read_records(name);
		if (i)
			waits_free(&w);
		close(file);
	}
	next = end = NULL;
	return 0;
}
