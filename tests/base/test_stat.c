/* SPDX-License-Identifier: BSD-2-Clause */
/* The file that a process answers "stat" with: written, and read whatever is in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cause.h"
#include "base/stat.h"
#include "base/stat_read.h"

static void put_rows(struct stat_sheet *s)
{
	for (uint32_t i = 0; i < 1000; i++) {
		struct stat_qp q = {.qpn = i, .device = 1};
		struct stat_cq c = {.handle = i};

		stat_put(s, STAT_QP, &q, sizeof(q));
		stat_put(s, STAT_CQ, &c, sizeof(c));
	}
	stat_put(s, STAT_KINDS, "of later", 8);
}

static void what_is_told_is_read(void **state)
{
	struct stat_process p;
	int fd;

	(void)state;
	stat_register(put_rows);
	fd = stat_take("");
	assert_true(fd >= 0);
	assert_int_equal(stat_read(fd, &p), 0);
	close(fd);
	assert_int_equal(p.head.pid, getpid());
	assert_int_equal(p.rows[STAT_QP].count, 1000);
	assert_int_equal(p.rows[STAT_CQ].count, 1000);
	assert_int_equal(p.rows[STAT_MR].count, 0);
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(((struct stat_qp *)p.rows[STAT_QP].row)[i].qpn, i);
	stat_free(&p);
}

/* Each cause of the table is told, and how often this process has met it; those it has not met are not. */
static void causes_are_told(void **state)
{
	uint64_t met = 0;
	struct stat_process p;
	const struct stat_cause *c;
	size_t n, i = 0;
	int fd;

	(void)state;
	for (const struct cause_row *row = cause_next(NULL); row; row = cause_next(row))
		for (uint64_t times = met++ % 3; times; times--)
			cause_note(row->code, "a test");
	fd = stat_take("");
	assert_int_equal(stat_read(fd, &p), 0);
	close(fd);
	c = stat_causes(&p, &n);
	met = 0;
	for (const struct cause_row *row = cause_next(NULL); row; row = cause_next(row)) {
		uint64_t times = met++ % 3;

		if (!times)
			continue;
		assert_true(i < n);
		assert_int_equal(c[i].code, row->code);
		assert_int_equal(c[i++].times, times);
	}
	assert_int_equal(i, n);
	stat_free(&p);
}

struct file {
	struct stat_head head;
	struct stat_record record;
	uint32_t row[4];
};

static int parsed(const struct file *f, size_t length, struct stat_process *p)
{
	return stat_parse(f, length, p);
}

/* A row of an earlier version is shorter: what it lacks is zero. One of a later version is longer. */
static void rows_of_other_versions_are_read(void **state)
{
	struct file f = {.head = {.magic = STAT_MAGIC, .bytes = sizeof(f)},
			 .record = {STAT_CONTEXT, sizeof(f) - sizeof(f.head)},
			 .row = {1, 2, 3, 4}};
	struct stat_process p;
	const struct stat_context *c;
	const struct stat_qp *q;

	(void)state;
	assert_int_equal(parsed(&f, sizeof(f), &p), 0);
	assert_int_equal(p.rows[STAT_CONTEXT].count, 1);
	c = p.rows[STAT_CONTEXT].row;
	assert_int_equal(c->objects, 2);
	stat_free(&p);
	f.record.kind = STAT_QP;
	assert_int_equal(parsed(&f, sizeof(f), &p), 0);
	q = p.rows[STAT_QP].row;
	assert_int_equal(q->qpn, 2);
	assert_int_equal(q->rtt, 0);
	stat_free(&p);
}

static void files_that_are_none_are_refused(void **state)
{
	const struct file good = {.head = {.magic = STAT_MAGIC, .bytes = sizeof(good)},
				  .record = {STAT_QP, sizeof(good) - sizeof(good.head)}};
	struct file f[5];
	struct stat_process p;

	(void)state;
	for (size_t i = 0; i < 5; i++)
		f[i] = good;
	f[0].head.magic++;
	f[1].head.bytes++;
	f[2].record.bytes++;
	f[3].record.bytes = sizeof(struct stat_record) - 1;
	f[4].record.bytes -= 4; /* what is left is no record */
	for (size_t i = 0; i < 5; i++) {
		assert_true(parsed(&f[i], sizeof(f[i]), &p) < 0);
		stat_free(&p);
	}
	assert_true(parsed(&good, sizeof(good.head) - 1, &p) < 0);
	stat_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_told_is_read),
		cmocka_unit_test(causes_are_told),
		cmocka_unit_test(rows_of_other_versions_are_read),
		cmocka_unit_test(files_that_are_none_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
