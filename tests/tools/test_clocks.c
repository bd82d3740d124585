/* SPDX-License-Identifier: BSD-2-Clause */
/* Files of two hosts, whose clocks have nothing in common; files of another version. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/trace/records.h"

#define RECORDS 64

/* A whole trace file with one ring. */
struct file {
	union {
		struct {
			struct trace_header header;
			struct trace_point_name points[TRACE_POINTS];
		};
		char page[2 * TRACE_PAGE];
	};
	union {
		struct trace_ring ring;
		char ring_page[TRACE_PAGE];
	};
	struct trace_entry entries[RECORDS];
};

static char name[2][40];

static struct file *new_file(const char *boot, uint64_t wall)
{
	struct file *f = calloc(1, sizeof(*f));

	f->header = (struct trace_header){.magic = TRACE_MAGIC,
					  .header_bytes = sizeof(f->page),
					  .ring_header_bytes = TRACE_PAGE,
					  .ring_records = RECORDS,
					  .record_bytes = sizeof(struct trace_entry),
					  .ring_bytes = TRACE_PAGE + RECORDS * sizeof(struct trace_entry),
					  .point_bytes = sizeof(struct trace_point_name),
					  .points = TRACE_POINTS,
					  .start_wall = wall,
					  .rings = 1};
	snprintf(f->header.boot, sizeof(f->header.boot), "%s", boot);
	memcpy(f->points, point_name, sizeof(f->points));
	return f;
}

static void add(struct file *f, uint64_t time, enum trace_point point, uint64_t a, uint64_t b, uint64_t c)
{
	f->entries[f->ring.written++] = (struct trace_entry){time, point, 1, {a, b, c}};
}

static void write_file(struct file *f, int i)
{
	FILE *out;
	int fd;

	snprintf(name[i], sizeof(name[i]), "uroce-test-clocks-XXXXXX");
	fd = mkstemp(name[i]);
	assert_int_not_equal(fd, -1);
	out = fdopen(fd, "w");
	assert_int_equal(fwrite(f, sizeof(*f), 1, out), 1);
	fclose(out);
	free(f);
}

static const char *load_both(struct records *r)
{
	char *names[] = {name[0], name[1]};
	const char *error = records_load(r, names, 2);

	unlink(name[0]);
	unlink(name[1]);
	return error;
}

/* Host 1's clock is a million ns ahead. Packets take 50 ns or more there, 70 or more back. */
#define AHEAD 1000000

static void packets_both_ways_set_the_clock(void **state)
{
	struct file *f = new_file("one", 0), *g = new_file("another", 0);
	struct records r;

	for (uint64_t i = 0; i < 10; i++) {
		uint64_t t = 1000 + 1000 * i;

		add(f, t, TRACE_send, 2, i, 4);
		add(g, t + 50 + 13 * i + AHEAD, TRACE_receive, 2, i, 4);
		add(g, t + 300 + AHEAD, TRACE_send, 1, i, 17);
		add(f, t + 300 + 70 + 7 * i, TRACE_receive, 1, i, 17);
	}
	write_file(f, 0);
	write_file(g, 1);
	assert_null(load_both(&r));
	assert_int_equal(r.sources[1].clock, CLOCK_ESTIMATED);
	assert_int_equal(r.sources[1].offset, -AHEAD + 10); /* half the difference of the two ways */
	assert_int_equal(r.sources[1].fastest, 60);
	for (uint32_t i = 0; i < r.count; i++) { /* the order of events is right again */
		static const enum trace_point order[] = {TRACE_send, TRACE_receive, TRACE_send, TRACE_receive};

		assert_int_equal(r.all[i].point, order[i % 4]);
		assert_int_equal(r.all[i].arg[1], i / 4);
	}
	records_free(&r);
}

static void packets_one_way_are_taken_to_need_no_time(void **state)
{
	struct file *f = new_file("one", 0), *g = new_file("another", 0);
	struct records r;

	add(f, 1000, TRACE_send, 2, 1, 4);
	add(g, 1050 + AHEAD, TRACE_receive, 2, 1, 4);
	write_file(f, 0);
	write_file(g, 1);
	assert_null(load_both(&r));
	assert_int_equal(r.sources[1].clock, CLOCK_ONE_WAY);
	assert_int_equal(r.sources[1].offset, -AHEAD - 50);
	records_free(&r);
}

static void packets_sent_twice_tell_nothing(void **state)
{
	struct file *f = new_file("one", 5000), *g = new_file("another", 7000);
	struct records r;

	add(f, 1000, TRACE_send, 2, 1, 4);
	add(f, 2000, TRACE_send, 2, 1, 4);
	add(g, 2050, TRACE_receive, 2, 1, 4);
	add(g, 2080, TRACE_receive, 2, 1, 4);
	write_file(f, 0);
	write_file(g, 1);
	assert_null(load_both(&r));
	assert_int_equal(r.sources[1].clock, CLOCK_WALL);
	assert_int_equal(r.sources[1].offset, 2000);
	records_free(&r);
}

static void one_boot_has_one_clock(void **state)
{
	struct file *f = new_file("one", 0), *g = new_file("one", 5000);
	struct records r;

	write_file(f, 0);
	write_file(g, 1);
	assert_null(load_both(&r));
	assert_int_equal(r.sources[1].clock, CLOCK_SHARED);
	assert_int_equal(r.sources[1].offset, 0);
	records_free(&r);
}

static void another_version_is_read_by_the_names(void **state)
{
	struct file *f = new_file("one", 0), *g = new_file("one", 0);
	struct records r;

	/* there, "send" had another number, its arguments another order; and there was a point unknown here */
	f->points[0] = (struct trace_point_name){"send", {"opcode", "psn", "new", "dest_qpn", "_", "_"}};
	f->points[1] = (struct trace_point_name){"teleport", {"where", "_", "_", "_", "_", "_"}};
	f->header.points = 2;
	f->entries[0] = (struct trace_entry){10, 0, 1, {4, 77, 99, 2, 0, 0}};
	f->entries[1] = (struct trace_entry){20, 1, 1, {1, 2, 3, 4, 5, 6}};
	f->entries[2] = (struct trace_entry){30, 9, 1, {1, 2, 3, 4, 5, 6}}; /* nonsense */
	f->ring.written = 3;
	write_file(f, 0);
	write_file(g, 1);
	assert_null(load_both(&r));
	assert_int_equal(r.count, 1);
	assert_int_equal(r.all[0].point, TRACE_send);
	assert_int_equal(r.all[0].arg[0], 2);
	assert_int_equal(r.all[0].arg[1], 77);
	assert_int_equal(r.all[0].arg[2], 4);
	assert_int_equal(r.all[0].arg[3], 0);
	records_free(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_both_ways_set_the_clock),
		cmocka_unit_test(packets_one_way_are_taken_to_need_no_time),
		cmocka_unit_test(packets_sent_twice_tell_nothing),
		cmocka_unit_test(one_boot_has_one_clock),
		cmocka_unit_test(another_version_is_read_by_the_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
