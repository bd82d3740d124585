/* SPDX-License-Identifier: BSD-2-Clause */
/* What trace points write is there for a reader: after the process has ended, whatever ended it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "tools/trace/records.h"
#include "tools/trace/waits.h"

static char directory[] = "uroce-test-trace-XXXXXX";
static char name[64];

#define SAVED 8192 /* bytes of a file: its header */
static char saved[SAVED];

static int make_directory(void **state)
{
	return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
	return rmdir(directory);
}

static int fresh_name(void **state)
{
	snprintf(name, sizeof(name), "%s/trace", directory);
	setenv("UROCE_TRACE", name, 1);
	unsetenv("UROCE_TRACE_SIZE");
	return 0;
}

static int remove_file(void **state)
{
	unlink(name);
	return 0;
}

/* Runs `body` in a process of its own, as tracing starts once in each; its exit status. */
static int in_process(void (*body)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		body();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return status;
}

static void load(struct records *r, const char *file)
{
	char *names[] = {(char *)file};

	assert_null(records_load(r, names, 1));
}

static void record_three(void)
{
	trace_start();
	trace(post_send, 1, 2, 3, 4, 5, 6);
	trace(poll, 7, 8, 9, 10, 0, 0);
	trace(connect, 11, 12, 13, 14, 15, 0);
}

static void records_are_found_with_their_arguments(void **state)
{
	struct records r;

	assert_int_equal(in_process(record_three), 0);
	load(&r, name);
	assert_int_equal(r.count, 3);
	assert_int_equal(r.all[0].point, TRACE_post_send);
	for (int i = 0; i < TRACE_ARGS; i++)
		assert_int_equal(r.all[0].arg[i], i + 1);
	assert_int_equal(r.all[1].point, TRACE_poll);
	assert_int_equal(r.all[2].arg[4], 15);
	assert_true(r.all[0].time <= r.all[1].time && r.all[1].time <= r.all[2].time);
	assert_true(r.all[0].time >= r.sources[0].start_mono);
	assert_true(r.sources[0].start_wall > 1600000000 * SEC);
	records_free(&r);
}

static void record_and_be_killed(void)
{
	record_three();
	raise(SIGKILL);
}

static void records_survive_a_kill(void **state)
{
	struct records r;
	int status = in_process(record_and_be_killed);

	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	load(&r, name);
	assert_int_equal(r.count, 3);
	records_free(&r);
}

static void record_without_a_name(void)
{
	unsetenv("UROCE_TRACE");
	record_three();
	if (hook_is_on(HOOK_TRACE))
		_exit(1);
}

static void nothing_is_recorded_unless_asked(void **state)
{
	assert_int_equal(in_process(record_without_a_name), 0);
	assert_int_equal(access(name, F_OK), -1);
}

static void record_300(void)
{
	trace_start();
	for (uint64_t i = 0; i < 300; i++)
		trace(poll, i, 0, 0, 0, 0, 0);
}

static void the_newest_records_replace_the_oldest(void **state)
{
	struct records r;

	setenv("UROCE_TRACE_SIZE", "128", 1);
	assert_int_equal(in_process(record_300), 0);
	load(&r, name);
	assert_int_equal(r.count, 128);
	assert_int_equal(r.sources[0].overwritten, 172);
	for (uint32_t i = 0; i < r.count; i++)
		assert_int_equal(r.all[i].arg[0], 172 + i);
	records_free(&r);
}

static void *record_one(void *arg)
{
	trace(poll, (uintptr_t)arg, 0, 0, 0, 0, 0);
	return NULL;
}

static void record_in_600_threads(void)
{
	pthread_t thread;

	trace_start();
	for (uintptr_t i = 0; i < 600; i++) {
		pthread_create(&thread, NULL, record_one, (void *)i);
		pthread_join(thread, NULL);
	}
}

static void a_thread_takes_the_ring_of_one_that_ended(void **state)
{
	struct records r;

	setenv("UROCE_TRACE_SIZE", "1k", 1);
	assert_int_equal(in_process(record_in_600_threads), 0);
	load(&r, name);
	assert_int_equal(r.count, 600);
	assert_int_equal(r.sources[0].lost, 0);
	records_free(&r);
}

static pthread_barrier_t all_here;

static void *record_together(void *arg)
{
	for (uint64_t i = 0; i < 1000; i++)
		trace(poll, (uintptr_t)arg, i, 0, 0, 0, 0);
	pthread_barrier_wait(&all_here);
	return NULL;
}

static void record_in_8_threads(void)
{
	pthread_t thread[8];

	trace_start();
	pthread_barrier_init(&all_here, NULL, 8);
	for (uintptr_t i = 0; i < 8; i++)
		pthread_create(&thread[i], NULL, record_together, (void *)i);
	for (int i = 0; i < 8; i++)
		pthread_join(thread[i], NULL);
}

static void threads_do_not_disturb_each_other(void **state)
{
	uint64_t next[8] = {0};
	struct records r;

	assert_int_equal(in_process(record_in_8_threads), 0);
	load(&r, name);
	assert_int_equal(r.count, 8000);
	for (uint32_t i = 0; i < r.count; i++) /* in order of time: also in order within each thread */
		assert_int_equal(r.all[i].arg[1], next[r.all[i].arg[0]]++);
	records_free(&r);
}

static void fork_after_start(void)
{
	int status;

	record_three();
	if (fork() == 0) {
		trace(poll, 99, 0, 0, 0, 0, 0);
		trace_start();
		trace(poll, 99, 0, 0, 0, 0, 0);
		_exit(hook_is_on(HOOK_TRACE));
	}
	wait(&status);
	trace(poll, 1, 0, 0, 0, 0, 0);
	_exit(status != 0);
}

static void a_forked_child_records_nothing(void **state)
{
	struct records r;

	assert_int_equal(in_process(fork_after_start), 0);
	load(&r, name);
	assert_int_equal(r.count, 4);
	for (uint32_t i = 0; i < r.count; i++)
		assert_int_not_equal(r.all[i].arg[0], 99);
	records_free(&r);
}

static void start_while_another_records(void)
{
	int ready[2], go[2];
	char byte;
	pid_t other;

	if (pipe(ready) || pipe(go))
		_exit(1);
	other = fork();
	if (other == 0) {
		record_three();
		_exit(write(ready[1], "", 1) != 1 || read(go[0], &byte, 1) != 1);
	}
	if (read(ready[0], &byte, 1) != 1)
		_exit(1);
	record_three();
	_exit(write(go[1], "", 1) != 1 || waitpid(other, NULL, 0) != other);
}

static void a_file_in_use_is_not_taken_away(void **state)
{
	char other[96];
	struct records r;
	pid_t pid = fork();
	int status;

	if (pid == 0)
		start_while_another_records();
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	snprintf(other, sizeof(other), "%s.%d", name, (int)pid);
	load(&r, name);
	assert_int_equal(r.count, 3);
	assert_int_not_equal(r.sources[0].pid, pid);
	records_free(&r);
	load(&r, other);
	assert_int_equal(r.count, 3);
	assert_int_equal(r.sources[0].pid, pid);
	records_free(&r);
	unlink(other);
}

static void an_old_trace_is_replaced(void **state)
{
	struct records r;

	assert_int_equal(in_process(record_300), 0);
	assert_int_equal(in_process(record_three), 0);
	load(&r, name);
	assert_int_equal(r.count, 3);
	records_free(&r);
}

static void close_stderr_and_record(void)
{
	fclose(stderr);
	close(STDERR_FILENO);
	record_three();
	_exit(hook_is_on(HOOK_TRACE));
}

static void a_file_that_is_no_trace_is_left_alone(void **state)
{
	FILE *file = fopen(name, "w");
	char line[32];

	assert_non_null(file);
	fputs("not a trace\n", file);
	fclose(file);
	assert_int_equal(in_process(close_stderr_and_record), 0);
	file = fopen(name, "r");
	assert_non_null(fgets(line, sizeof(line), file));
	fclose(file);
	assert_string_equal(line, "not a trace\n");
}

static void the_process_id_stands_where_percent_p_stood(void **state)
{
	char file[96];
	struct records r;
	int status;
	pid_t pid;

	snprintf(file, sizeof(file), "%s/trace-%%p", directory);
	setenv("UROCE_TRACE", file, 1);
	pid = fork();
	if (pid == 0) {
		record_three();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	snprintf(file, sizeof(file), "%s/trace-%d", directory, (int)pid);
	load(&r, file);
	assert_int_equal(r.count, 3);
	records_free(&r);
	unlink(file);
}

static void damaged_files_are_refused_or_read_in_part(void **state)
{
	char *names[] = {name};
	struct records r;
	FILE *file;
	long size;

	assert_int_equal(in_process(record_300), 0);
	file = fopen(name, "r+");
	fseek(file, 0, SEEK_END);
	size = ftell(file);
	assert_int_equal(ftruncate(fileno(file), size - 1), 0); /* the only ring is not whole */
	load(&r, name);
	assert_int_equal(r.count, 0);
	records_free(&r);
	for (int byte = 8; byte < 40; byte++) { /* any of the sizes in the header */
		rewind(file);
		fseek(file, byte, SEEK_SET);
		fputc(0xff, file);
		fflush(file);
		if (records_load(&r, names, 1) == NULL)
			records_free(&r);
	}
	fclose(file);
	assert_non_null(records_load(&r, names, 1));
}

static void in_a_thread(void *(*body)(void *))
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, body, NULL) || pthread_join(thread, NULL))
		_exit(1);
}

/* What others can write into the file is not believed by the process that records. */
static void record_in_a_changed_file(void)
{
	struct trace_header *h;
	int fd;

	record_three();
	fd = open(name, O_RDWR | O_CLOEXEC);
	h = mmap(NULL, TRACE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (h == MAP_FAILED)
		_exit(1);
	for (uint32_t bytes = TRACE_PAGE; bytes; bytes *= 16) {
		h->ring_bytes = bytes;
		h->header_bytes = bytes;
		pthread_barrier_init(&all_here, NULL, 1);
		in_a_thread(record_together);
		h->rings = bytes;
		h->ring_records = bytes;
		h->ring_header_bytes = bytes;
	}
}

static void nobody_else_changes_where_records_go(void **state)
{
	assert_int_equal(in_process(record_in_a_changed_file), 0);
}

static void record_live_and_be_cut(void)
{
	char path[32], *names[] = {path};
	struct records r;
	int fd = trace_live(), again;
	void *at;

	pthread_barrier_init(&all_here, NULL, 1);
	in_a_thread(record_together);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	at = mmap(NULL, TRACE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0);
	if (fd < 0 || again < 0 || !ftruncate(again, 0) || !ftruncate(again, 1ll << 40) || at != MAP_FAILED ||
	    pwrite(again, "x", 1, 0) >= 0 || !fallocate(again, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096))
		_exit(1);
	pthread_barrier_init(&all_here, NULL, 3);
	for (int i = 0; i < 2; i++) { /* in a ring that is there, and in a new one */
		pthread_t thread;

		pthread_create(&thread, NULL, record_together, NULL);
		pthread_detach(thread);
	}
	pthread_barrier_wait(&all_here);
	trace_live_end();
	_exit(records_load(&r, names, 1) || r.count < 2000);
}

static void a_live_trace_cannot_be_cut_or_written_by_its_reader(void **state)
{
	assert_int_equal(in_process(record_live_and_be_cut), 0);
}

static void record_live_with_little_memory(void)
{
	char *names[] = {(char[32]){""}};
	struct rlimit limit = {16 << 20, 16 << 20};
	struct records r;
	int fd;

	signal(SIGXFSZ, SIG_DFL);
	if (setrlimit(RLIMIT_FSIZE, &limit))
		_exit(1);
	fd = trace_live();
	for (int i = 0; i < 8; i++) /* as many rings as there is room for */
		in_a_thread(record_one);
	trace(poll, 1, 0, 0, 0, 0, 0);
	snprintf(names[0], 32, "/proc/self/fd/%d", fd);
	_exit(fd < 0 || records_load(&r, names, 1) || r.count != 9);
}

static void a_live_trace_is_as_large_as_files_may_be(void **state)
{
	assert_int_equal(in_process(record_live_with_little_memory), 0);
}

/* A process that cuts its own trace, again and again, while it is read. */
static void cut_and_grow(void)
{
	int fd = open(name, O_RDWR | O_CLOEXEC);
	struct stat st;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fstat(fd, &st);
	for (;;)
		if (ftruncate(fd, 8) || ftruncate(fd, st.st_size) || pwrite(fd, saved, SAVED, 0) < 0)
			_exit(1);
}

static void a_file_that_is_cut_meanwhile_is_read_all_the_same(void **state)
{
	char *names[] = {name};
	uint32_t whole = 0;
	struct records r;
	struct waits w;
	pid_t pid;
	int fd;

	assert_int_equal(in_process(record_300), 0);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	assert_true(pread(fd, saved, SAVED, 0) == SAVED);
	close(fd);
	pid = fork();
	if (pid == 0)
		cut_and_grow();
	while (whole < 100) { /* the header was whole, whatever came after it */
		if (!records_load(&r, names, 1)) {
			records_free(&r);
			whole++;
		}
		if (!waits_load(name, &w))
			waits_free(&w);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void record_a_hang(void)
{
	trace_start();
	trace(connect, 7, 8, 0, 0, 1024, 0);
	trace(post_send, 7, 0, 0xabc, 2, 100, 0);
	trace(post_send, 7, 1, 0xabd, 2, 100, 0);
	trace(pickup, 7, 0, 50, 1, 2, 0);
	trace(build, 7, 8, 50, 4, 100, 0);
	for (uint64_t i = 0; i < 100; i++) { /* refused for want of a receive, and sent again */
		trace(acknowledged, 7, 50, 0x2c, 0, 17, 0);
		trace(retry, 7, 0, 50, 4, 7, 0);
		trace(build, 7, 8, 50, 4, 100, 0);
		trace(send, 8, 50, 4, 100, 200, 0);
	}
	for (uint64_t i = 0; i < 300; i++) { /* others go on */
		trace(post_send, 9, i, i, 2, 100, 0);
		trace(complete, 9, i, i, 0, 2, 100);
	}
	trace(post_send, 10, 1, 1, 2, 100, 0);
	trace(qp_state, 10, 3, 0, 0, 0, 0);
	raise(SIGKILL);
}

static void what_is_pending_is_never_overwritten(void **state)
{
	struct waits w;
	const struct pending_qp *q = NULL;

	setenv("UROCE_TRACE_SIZE", "64", 1);
	in_process(record_a_hang);
	assert_null(waits_load(name, &w));
	assert_int_equal(w.requests, 2); /* none of those that completed, or whose queue pair is in RESET */
	assert_int_equal(w.request[0].wr_id, 0xabc);
	assert_int_equal(w.request[0].packets, 1);
	assert_int_equal(w.request[0].built, 101);
	assert_int_equal(w.request[0].retries[4], 100);
	assert_int_equal(w.request[1].wr_id, 0xabd);
	assert_int_equal(w.request[1].built, 0);
	assert_int_equal(w.qps, 2);
	for (size_t i = 0; i < w.qps; i++)
		q = w.qp[i].qpn == 7 ? &w.qp[i] : q;
	assert_non_null(q);
	assert_int_equal(q->dest_qpn, 8);
	assert_int_equal(q->answer_syndrome, 0x2c);
	assert_int_equal(q->answers, 100);
	assert_false(w.runs);
	waits_free(&w);
}

static void repeats_are_counted_and_not_written_again(void **state)
{
	uint32_t seen[TRACE_POINTS] = {0}, repeats[TRACE_POINTS] = {0};
	struct records r;

	setenv("UROCE_TRACE_SIZE", "1k", 1);
	in_process(record_a_hang);
	load(&r, name);
	for (uint32_t i = 0; i < r.count; i++) {
		seen[r.all[i].point]++;
		repeats[r.all[i].point] += r.all[i].repeats;
	}
	for (int point = TRACE_send; point <= TRACE_retry; point++)
		if (seen[point])
			assert_int_equal(seen[point] + repeats[point], 100);
	assert_in_range(seen[TRACE_retry], 2, 10); /* the first rounds can be read */
	assert_int_equal(seen[TRACE_build] + repeats[TRACE_build], 101);
	assert_int_equal(seen[TRACE_complete], 300);
	records_free(&r);
}

static void damaged_tables_are_refused_or_read_in_part(void **state)
{
	struct waits w;
	FILE *file;
	long at = sizeof(struct trace_header) + TRACE_POINTS * sizeof(struct trace_point_name);

	in_process(record_a_hang);
	for (int byte = 0; byte < (int)sizeof(struct trace_pending); byte++) {
		file = fopen(name, "r+");
		fseek(file, (at + 63) / 64 * 64 + byte, SEEK_SET);
		fputc(0xff, file);
		fclose(file);
		waits_load(name, &w);
		waits_free(&w);
	}
	assert_non_null(waits_load(name, &w));
	waits_free(&w);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh_name, remove_file)
	const struct CMUnitTest tests[] = {
		TEST(records_are_found_with_their_arguments),
		TEST(records_survive_a_kill),
		TEST(nothing_is_recorded_unless_asked),
		TEST(the_newest_records_replace_the_oldest),
		TEST(a_thread_takes_the_ring_of_one_that_ended),
		TEST(threads_do_not_disturb_each_other),
		TEST(a_forked_child_records_nothing),
		TEST(a_file_in_use_is_not_taken_away),
		TEST(an_old_trace_is_replaced),
		TEST(a_file_that_is_no_trace_is_left_alone),
		TEST(the_process_id_stands_where_percent_p_stood),
		TEST(damaged_files_are_refused_or_read_in_part),
		TEST(nobody_else_changes_where_records_go),
		TEST(a_live_trace_cannot_be_cut_or_written_by_its_reader),
		TEST(a_live_trace_is_as_large_as_files_may_be),
		TEST(a_file_that_is_cut_meanwhile_is_read_all_the_same),
		TEST(what_is_pending_is_never_overwritten),
		TEST(repeats_are_counted_and_not_written_again),
		TEST(damaged_tables_are_refused_or_read_in_part),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
