/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/trace/records.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/map.h"

const struct trace_point_name point_name[TRACE_POINTS] = {
#define POINT(name, a, b, c, d, e, f) {#name, {#a, #b, #c, #d, #e, #f}},
#include "base/trace.def"
#undef POINT
};

#define POINTS_MOST 64
#define AT_A_TIME   256u /* records copied at once */

static char message[512];

static const char *cannot(const char *name, const char *why)
{
	snprintf(message, sizeof(message), "%s: %s", name, why);
	return message;
}

/* A file, with its points' numbers here. Its process may write to or cut it at any time, so it is not mapped, and
 * each part is copied before use. */
struct image {
	int fd;
	size_t bytes;
	struct trace_header header;
	struct {
		uint16_t point; /* TRACE_POINTS: unknown */
		uint8_t arg[TRACE_ARGS];
	} meaning[POINTS_MOST];
};

void trace_file_read(int fd, void *to, size_t bytes, uint64_t at)
{
	ssize_t n = pread(fd, to, bytes, (off_t)at);

	memset((char *)to + max_of(n, (ssize_t)0), 0, bytes - (size_t)max_of(n, (ssize_t)0));
}

static bool header_is_sound(const struct trace_header *h, size_t bytes)
{
	return bytes >= sizeof(*h) && h->magic == TRACE_MAGIC && h->record_bytes == sizeof(struct trace_entry) &&
	       h->point_bytes == sizeof(struct trace_point_name) && h->points <= POINTS_MOST &&
	       h->header_bytes >= sizeof(*h) + h->points * sizeof(struct trace_point_name) &&
	       h->header_bytes <= bytes && h->header_bytes % 64 == 0 && h->ring_records &&
	       (h->ring_records & (h->ring_records - 1)) == 0 && h->ring_header_bytes >= sizeof(struct trace_ring) &&
	       h->ring_header_bytes % 64 == 0 &&
	       h->ring_bytes == h->ring_header_bytes + (uint64_t)h->ring_records * h->record_bytes;
}

/* Maps points and arguments by name, as another version's file may have others. */
static void learn_names(struct image *image)
{
	struct trace_point_name theirs[POINTS_MOST];

	trace_file_read(image->fd, theirs, image->header.points * sizeof(*theirs), sizeof(image->header));
	for (uint32_t i = 0; i < image->header.points; i++) {
		uint16_t p = 0;

		while (p < TRACE_POINTS && strncmp(theirs[i].name, point_name[p].name, TRACE_NAME))
			p++;
		image->meaning[i].point = p;
		for (int a = 0; p < TRACE_POINTS && a < TRACE_ARGS; a++) {
			uint8_t from = 0;

			while (from < TRACE_ARGS && strncmp(theirs[i].arg[from], point_name[p].arg[a], TRACE_NAME))
				from++;
			image->meaning[i].arg[a] = from; /* TRACE_ARGS: missing */
		}
	}
}

static const char *open_image(struct image *image, const char *name)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return cannot(name, strerror(errno));
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || (size_t)st.st_size < sizeof(struct trace_header)) {
		close(fd);
		return cannot(name, "is not a trace (UROCE_TRACE=FILE and `uroce run -t FILE` make them)");
	}
	image->fd = fd;
	image->bytes = (size_t)st.st_size;
	trace_file_read(fd, &image->header, sizeof(image->header), 0);
	if (!header_is_sound(&image->header, image->bytes)) {
		close(fd);
		return cannot(name, "is not a trace, or is of a version that this uroce cannot read");
	}
	learn_names(image);
	return NULL;
}

static void take_record(struct records *r, const struct image *image, const struct trace_entry *e, uint16_t file)
{
	uint32_t point = TRACE_POINT(e->point);
	struct record *to;

	if (e->time < image->header.start_mono) /* from an earlier live trace */
		return;
	if (point >= image->header.points || image->meaning[point].point >= TRACE_POINTS)
		return;
	r->all = room_for(r->all, r->count, sizeof(*r->all));
	to = &r->all[r->count++];
	*to = (struct record){.time = e->time,
			      .file = file,
			      .point = image->meaning[point].point,
			      .tid = e->tid,
			      .repeats = TRACE_REPEATS(e->point)};
	for (int a = 0; a < TRACE_ARGS; a++) {
		uint8_t from = image->meaning[point].arg[a];

		to->arg[a] = from < TRACE_ARGS ? e->arg[from] : 0;
	}
}

static uint64_t written_to(const struct image *image, uint64_t ring)
{
	uint64_t written;

	trace_file_read(image->fd, &written, sizeof(written), ring + offsetof(struct trace_ring, written));
	atomic_thread_fence(memory_order_acquire); /* pairs with trace_record() */
	return written;
}

/* Reads a ring. The program may still be writing: records overwritten meanwhile are dropped. */
static void read_ring(struct records *r, const struct image *image, uint64_t at, uint16_t file)
{
	struct trace_entry entry[AT_A_TIME];
	uint32_t size = image->header.ring_records, begin = r->count, some, stale;
	uint64_t end = written_to(image, at), n, start = end > size ? end - size : 0;

	for (n = start; n < end; n += some) {
		uint64_t from = n & (size - 1);

		some = (uint32_t)min_of(min_of(end - n, size - from), (uint64_t)AT_A_TIME);
		trace_file_read(image->fd, entry, some * sizeof(*entry),
				at + image->header.ring_header_bytes + from * sizeof(*entry));
		for (uint32_t i = 0; i < some; i++)
			take_record(r, image, &entry[i], file);
	}
	atomic_thread_fence(memory_order_acquire); /* `written` is read again only after the copies */
	n = written_to(image, at);
	stale = n > size && n - size + 1 > start && n != end ? (uint32_t)min_of(n - size + 1 - start, end - start) : 0;
	stale = stale < r->count - begin ? stale : r->count - begin;
	if (stale)
		memmove(&r->all[begin], &r->all[begin + stale], (r->count - begin - stale) * sizeof(*r->all));
	r->count -= stale;
	r->sources[file].overwritten += start + stale;
}

static const char *load_one(struct records *r, const char *name, uint16_t file)
{
	struct source *s = &r->sources[file];
	struct image image = {0};
	const struct trace_header *h;
	const char *error = open_image(&image, name);
	uint32_t rings, begin = r->count;

	if (error)
		return error;
	h = &image.header;
	s->name = name;
	s->pid = h->pid;
	s->start_mono = h->start_mono;
	s->start_wall = h->start_wall;
	s->lost = h->lost;
	snprintf(s->host, sizeof(s->host), "%.*s", (int)sizeof(h->host) - 1, h->host);
	snprintf(s->boot, sizeof(s->boot), "%.*s", (int)sizeof(h->boot) - 1, h->boot);
	snprintf(s->program, sizeof(s->program), "%.*s", (int)sizeof(h->program) - 1, h->program);
	rings = h->rings;
	for (uint32_t i = 0; i < rings; i++) {
		uint64_t at = h->header_bytes + (uint64_t)i * h->ring_bytes;

		if (at + h->ring_bytes > image.bytes)
			break;
		read_ring(r, &image, at, file);
	}
	s->records = r->count - begin;
	close(image.fd);
	return NULL;
}

/* Clocks of different machines. For each packet that was sent once and received once, "received - sent" is the
 * transit time plus the difference of the clocks. The fastest packets of both directions are taken to have equal
 * transit times. */

static uint64_t records_packet_key(uint16_t file, const struct record *e)
{
	/* send and receive have the same first arguments: dest_qpn, psn, opcode */
	return (uint64_t)file << 56 | (e->arg[0] & 0xffffff) << 32 | (e->arg[1] & 0xffffff) << 8 | (e->arg[2] & 0xff);
}

/* Maps packets to the index of the only record of that kind; MAP_NONE - 1 if there are several. */
static void index_packets(const struct records *r, enum trace_point point, struct map *map)
{
	for (uint32_t i = 0; i < r->count; i++) {
		uint64_t key = records_packet_key(r->all[i].file, &r->all[i]);

		if (r->all[i].point == point)
			map_put(map, key, map_get(map, key) == MAP_NONE ? i : MAP_NONE - 1);
	}
}

/* Smallest "received at `to` - sent at `from`", by their own clocks. False if no packet was seen at both. */
static bool least_delay(const struct records *r, const struct map *receives, uint16_t from, uint16_t to, int64_t *least)
{
	bool found = false;

	for (uint32_t i = 0; i < r->count; i++) {
		const struct record *e = &r->all[i];
		uint32_t other;
		int64_t delay;

		if (e->point != TRACE_send || e->file != from)
			continue;
		other = map_get(receives, records_packet_key(to, e));
		if (other >= MAP_NONE - 1)
			continue;
		delay = (int64_t)(r->all[other].time - e->time);
		if (!found || delay < *least)
			*least = delay;
		found = true;
	}
	return found;
}

static bool set_clock(struct records *r, const struct map *receives, uint16_t known, uint16_t file)
{
	struct source *s = &r->sources[file], *k = &r->sources[known];
	int64_t there = 0, back = 0;
	bool has_there, has_back;

	if (*s->boot && !strcmp(s->boot, k->boot)) {
		s->clock = CLOCK_SHARED;
		s->offset = k->offset;
		return true;
	}
	has_there = least_delay(r, receives, known, file, &there);
	has_back = least_delay(r, receives, file, known, &back);
	if (!has_there && !has_back)
		return false;
	s->clock = has_there && has_back ? CLOCK_ESTIMATED : CLOCK_ONE_WAY;
	/* there = transit + (their clock - known clock), back = transit - (their clock - known clock) */
	s->offset = k->offset - (s->clock == CLOCK_ESTIMATED ? (there - back) / 2 : has_there ? there : -back);
	s->fastest = s->clock == CLOCK_ESTIMATED && there + back > 0 ? (uint64_t)(there + back) / 2 : 0;
	return true;
}

static void set_clocks(struct records *r)
{
	struct map receives = {0};
	bool *known = grow(NULL, r->files, sizeof(*known)), progress = true;

	index_packets(r, TRACE_receive, &receives);
	for (uint32_t i = 0; i < r->files; i++)
		known[i] = i == 0;
	while (progress) {
		progress = false;
		for (uint32_t i = 0; i < r->files; i++)
			for (uint32_t k = 0; k < r->files && !known[i]; k++)
				if (known[k] && set_clock(r, &receives, (uint16_t)k, (uint16_t)i))
					known[i] = progress = true;
	}
	for (uint32_t i = 0; i < r->files; i++) {
		struct source *s = &r->sources[i];

		if (known[i])
			continue;
		s->clock = CLOCK_WALL;
		s->offset = (int64_t)(s->start_wall - s->start_mono) -
			    (int64_t)(r->sources[0].start_wall - r->sources[0].start_mono);
	}
	free(known);
	map_free(&receives);
}

static int by_time(const void *a, const void *b)
{
	const struct record *x = a, *y = b;

	return x->time < y->time ? -1 : x->time > y->time;
}

const char *records_load(struct records *r, char **names, uint32_t count)
{
	*r = (struct records){.files = count};
	if (count > 255)
		return "more than 255 files";
	r->sources = grow(NULL, count, sizeof(*r->sources));
	memset(r->sources, 0, count * sizeof(*r->sources));
	for (uint32_t i = 0; i < count; i++) {
		const char *error = load_one(r, names[i], (uint16_t)i);

		if (error) {
			records_free(r);
			return error;
		}
	}
	set_clocks(r);
	for (uint32_t i = 0; i < r->count; i++)
		r->all[i].time += (uint64_t)r->sources[r->all[i].file].offset;
	/* merge sort, in glibc: records of equal time keep the order in which one thread wrote them */
	if (r->count)
		qsort(r->all, r->count, sizeof(*r->all), by_time);
	return NULL;
}

void records_free(struct records *r)
{
	free(r->sources);
	free(r->all);
	*r = (struct records){0};
}
