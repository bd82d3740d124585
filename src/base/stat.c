/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/stat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/cause.h"
#include "base/clock.h"
#include "base/hooks.h"
#include "base/memfd.h"

static stat_source *stat_sources[4];
static size_t stat_source_count;

void stat_register(stat_source *source)
{
	assert(stat_source_count < ARRAY_SIZE(stat_sources));
	stat_sources[stat_source_count++] = source;
}

static bool sheet_grow(struct stat_sheet *s, size_t bytes)
{
	size_t size = max_of(2 * s->size, s->used + bytes + 4096);
	char *more;

	if (s->used + bytes <= s->size)
		return true;
	more = realloc(s->bytes, size);
	if (!more) {
		s->err = -ENOMEM;
		return false;
	}
	s->bytes = more;
	s->size = size;
	return true;
}

void stat_put(struct stat_sheet *s, enum stat_kind kind, const void *row, size_t bytes)
{
	struct stat_record r = {kind, (uint32_t)(sizeof(r) + bytes)};

	if (s->err || !sheet_grow(s, r.bytes))
		return;
	memcpy(s->bytes + s->used, &r, sizeof(r));
	memcpy(s->bytes + s->used + sizeof(r), row, bytes);
	s->used += r.bytes;
}

static void put_causes(struct stat_sheet *s)
{
	for (const struct cause_row *row = cause_next(NULL); row; row = cause_next(row)) {
		struct stat_cause c = {.code = row->code, .times = cause_times(row->code)};

		if (c.times)
			stat_put(s, STAT_CAUSE, &c, sizeof(c));
	}
}

static int sheet_to_file(const struct stat_sheet *s)
{
	int fd = memfd_of_size("uroce-stat", 0, s->used), err;

	if (fd < 0)
		return fd;
	err = memfd_fill(fd, s->bytes, s->used);
	if (err)
		close(fd);
	return err ?: fd;
}

int stat_take(const char *only)
{
	struct stat_head head = {.magic = STAT_MAGIC,
				 .pid = (uint32_t)getpid(),
				 .time = clock_now(),
				 .counts_bytes = hook_is_on(HOOK_COUNT)};
	struct stat_sheet s = {.used = sizeof(head), .only_devices = !strcmp(only, "devices")};
	int fd;

	if (!sheet_grow(&s, 0))
		return s.err;
	for (size_t i = 0; i < stat_source_count; i++)
		stat_sources[i](&s);
	if (!s.only_devices)
		put_causes(&s);
	memcpy(head.program, program_invocation_short_name,
	       strnlen(program_invocation_short_name, sizeof(head.program) - 1));
	head.bytes = s.used;
	memcpy(s.bytes, &head, sizeof(head));
	fd = s.err ?: sheet_to_file(&s);
	free(s.bytes);
	return fd;
}
