// SPDX-License-Identifier: BSD-2-Clause
#include "fuzz/live_trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memfd.h"
#include "tools/trace/join.h"
#include "tools/trace/records.h"
#include "tools/trace/waits.h"

enum { RECORDS = 8, RING_HEADER = 64 };

void live_trace_read(const uint8_t *bytes, size_t length)
{
	int fd = memfd_new("trace", MFD_CLOEXEC);
	char name[64], *names[] = {name};
	struct records r;
	struct joined j;
	struct waits w;

	if (write(fd, bytes, length) != (ssize_t)length)
		abort();
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	if (!records_load(&r, names, 1)) {
		join(&j, &r);
		join_free(&j);
		records_free(&r);
	}
	(void)waits_load(name, &w);
	waits_free(&w);
	close(fd);
}

void live_trace_fill(uint8_t *to, size_t size)
{
	struct trace_header h = {.magic = TRACE_MAGIC,
				 .header_bytes = (sizeof(h) + sizeof(point_name) + 63) / 64 * 64,
				 .ring_bytes = RING_HEADER + RECORDS * sizeof(struct trace_entry),
				 .ring_header_bytes = RING_HEADER,
				 .ring_records = RECORDS,
				 .record_bytes = sizeof(struct trace_entry),
				 .point_bytes = sizeof(struct trace_point_name),
				 .points = TRACE_POINTS,
				 .rings = UINT32_MAX};
	uint64_t n = 0;

	memcpy(to, &h, sizeof(h));
	memcpy(to + sizeof(h), point_name, sizeof(point_name));
	for (size_t at = h.header_bytes; at + h.ring_bytes <= size; at += h.ring_bytes) {
		struct trace_ring ring = {.written = RECORDS};

		memcpy(to + at, &ring, sizeof(ring));
		for (size_t i = 0; i < RECORDS; i++, n++) {
			struct trace_entry e = {
				.time = n, .point = n % TRACE_POINTS, .arg = {n, n + 1, 0x11, 0, n % 256, n}};

			memcpy(to + at + RING_HEADER + i * sizeof(e), &e, sizeof(e));
		}
	}
}
