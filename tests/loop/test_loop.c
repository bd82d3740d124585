// SPDX-License-Identifier: BSD-2-Clause
// The loop: attaching to addresses, which thread receives, fork. Each test runs by both links: pair.h. Threads that
// wait: test_wait.c.
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "host/introduction.h"
#include "loop/helper.h"
#include "loop/loop.h"
#include "port/gsi.h"
#include "port/local.h"
#include "port/local_link.h"
#include "port/local_peer.h"
#include "port/ports.h"
#include "port/receive.h"
#include "port/run.h"
#include "progress/life.h"
#include "progress/poll.h"
#include "progress/wait.h"
#include "loop/pair.h"
#include "object/cq_poll.h"

#ifdef __SANITIZE_THREAD__
#define THREAD_SANITIZER true
#elif defined(__has_feature)
#define THREAD_SANITIZER __has_feature(thread_sanitizer)
#else
#define THREAD_SANITIZER false
#endif

static void a_poll_moves_packets(void **state)
{
	struct pair p;

	pair_open(&p);
	for (int i = 0; i < 1000; i++)
		pair_round_trip(&p);
	for (int i = 0; i < 2; i++)
		assert_int_equal(p.qp[i]->req.lossless, local_is_wanted());
	pair_close(&p);
}

/* Were the first to go by packets, those behind it would have to as well, for as long as it is never quiet. */
static void the_first_write_is_done_at_once(void **state)
{
	const struct local_peer *n;
	struct pair p;
	bool direct;

	pair_open(&p);
	n = p.qp[0]->path.local_peer;
	direct = n && n->reach;
	if (!direct)
		printf("# no memory can be reached here\n");
	strcpy(p.bytes[0], "written");
	pair_post_write(&p, 0);
	if (direct)
		assert_string_equal(p.bytes[1], "written");
	assert_int_equal(pair_poll_for(&p, 0).wr_id, 300);
	assert_string_equal(p.bytes[1], "written");
	assert_int_equal(p.qp[0]->req.high.v, direct ? 9 : 10);
	pair_close(&p);
}

/* Blocks in read(2), not in loop_wait(). An event may come later than the completion that it is for has been polled. */
static void sleep_for(struct pair *p, int i)
{
	uint64_t count;
	struct cqe e;

	cq_request(&p->cq[i], false);
	while (!cq_poll(&p->cq[i], 1, &e))
		assert_int_equal(read(pair_event, &count, sizeof(count)), sizeof(count));
	assert_int_equal(e.status, IBV_WC_SUCCESS);
}

static void the_helper_moves_them_if_nobody_polls(void **state)
{
	struct pair p;

	pair_open(&p);
	for (int i = 0; i < 100; i++) {
		pair_post_receive(&p, 1);
		pair_post_send(&p, 0, "wake up");
		sleep_for(&p, 1);
		sleep_for(&p, 0);
	}
	pair_close(&p);
}

static void a_wait_moves_packets(void **state)
{
	struct pair p;
	struct cqe e;
	uint64_t count;

	pair_open(&p);
	for (int i = 0; i < 100; i++) {
		cq_request(&p.cq[1], false);
		pair_post_receive(&p, 1);
		pair_post_send(&p, 0, "wake up");
		assert_int_equal(loop_wait(pair_event), 0);
		assert_int_equal(read(pair_event, &count, sizeof(count)), sizeof(count));
		assert_int_equal(cq_poll(&p.cq[1], 1, &e), 1);
		assert_int_equal(pair_poll_for(&p, 0).wr_id, 200);
	}
	pair_close(&p);
}

static _Atomic uint32_t capacity;

static uint32_t capacity_of_test(struct link *link)
{
	return capacity;
}

/* A send buffer that has no room: the post returns, and what was posted leaves when there is some. */
static void what_a_full_socket_refuses_leaves_later(void **state)
{
	struct link_ops ops_of_test;
	struct link *link;
	struct pair p;
	struct cqe e;

	if (local_is_wanted())
		return; /* by udp only */
	pair_open(&p);
	pair_round_trip(&p);
	link = p.qp[0]->path.port->link;
	ops_of_test = *link->ops;
	ops_of_test.capacity = capacity_of_test;
	lock_take(&p.qp[0]->path.port->loop->receive); /* its helper receives */
	link->ops = &ops_of_test;
	lock_drop(&p.qp[0]->path.port->loop->receive);
	for (uint32_t i = 0; i < 100; i++) {
		capacity = 0;
		pair_post_receive(&p, 1);
		pair_post_send(&p, 0, "later");
		for (int n = 0; n < 10; n++) {
			loop_progress();
			assert_int_equal(cq_poll(&p.cq[1], 1, &e), 0);
		}
		assert_int_equal(p.qp[0]->req.next.v, p.qp[0]->req.una.v);
		capacity = 10000;
		if (i % 2) { /* the helper sees to it, or who polls does */
			sleep_for(&p, 1);
			sleep_for(&p, 0);
		} else {
			assert_int_equal(pair_poll_for(&p, 1).wr_id, 100);
			assert_int_equal(pair_poll_for(&p, 0).wr_id, 200);
		}
		assert_string_equal(p.bytes[1], "later");
	}
	pair_close(&p);
}

/* In a process of its own: calls that slot, and waits for the end of the call. */
static void call_in_vain(uint16_t slot, int begin, int ring, int doorbell)
{
	const struct greeting g = {.magic = GREETING_MAGIC, .bytes = sizeof(g), .slot = slot == 77 ? 78 : 77};
	int fd[GREETING_FDS] = {ring, -1, -1, -1, doorbell};
	struct pollfd p = {.events = POLLRDHUP};
	char byte;

	if (read(begin, &byte, 1) != 1)
		_exit(1);
	p.fd = introduction_call(slot, &g, fd, NULL);
	_exit(p.fd < 0 || poll(&p, 1, 20000) == 1 ? 0 : 2);
}

/* A write there could block, or raise SIGPIPE. */
static void a_doorbell_that_is_no_eventfd_is_refused(void **state)
{
	struct pair p;
	int begin[2], status, pipes[2];
	pid_t pid;

	if (!local_is_wanted())
		return;
	for (int flags = 0; flags < 2; flags++) {
		pair_open(&p);
		assert_int_equal(pipe(begin), 0);
		assert_int_equal(pipe2(pipes, O_NONBLOCK), 0);
		pid = fork();
		if (pid == 0)
			call_in_vain(qpn_slot(p.qp[0]->base.qp_num), begin[0], ring_memory(LOCAL_RING),
				     flags ? eventfd(0, 0) : pipes[1]);
		assert_int_equal(write(begin[1], "", 1), 1);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		pair_close(&p);
		for (int i = 0; i < 2; i++) {
			close(begin[i]);
			close(pipes[i]);
		}
	}
}

/* Who has called believes that the two have met. */
static void a_caller_for_whom_there_is_no_descriptor_is_told(void **state)
{
	struct rlimit limit, none;
	struct pair p;
	int begin[2], status;
	pid_t pid;

	if (!local_is_wanted())
		return;
	pair_open(&p);
	assert_int_equal(pipe(begin), 0);
	pid = fork();
	if (pid == 0)
		call_in_vain(qpn_slot(p.qp[0]->base.qp_num), begin[0], ring_memory(LOCAL_RING),
			     eventfd(0, EFD_NONBLOCK));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){0, limit.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(write(begin[1], "", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(status, 0);
	close(begin[0]);
	close(begin[1]);
	pair_close(&p);
}

/* QPs of a process that got no ring use UDP for good; so no QP of ours expects another lane. */
static void a_process_without_a_ring_gets_none_later(void **state)
{
	struct path path = {.sgid = pair_gid("127.0.0.1"), .dgid = pair_gid("127.0.0.1")};
	struct pair p;
	int begin[2], status;
	uint16_t own, slot;
	pid_t pid;

	if (!local_is_wanted())
		return;
	pair_open(&p);
	own = qpn_slot(p.qp[0]->base.qp_num);
	slot = own == 77 ? 78 : 77;
	assert_int_equal(pipe(begin), 0);
	pid = fork();
	if (pid == 0)
		call_in_vain(own, begin[0], memfd_create("no ring", MFD_CLOEXEC), eventfd(0, EFD_NONBLOCK));
	assert_int_equal(write(begin[1], "", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(loop_attach(&path), 0);
	loop_introduce(&path, (uint32_t)slot << SLOT_SHIFT | 5);
	assert_null(path.local_peer);
	loop_detach(&path);
	close(begin[0]);
	close(begin[1]);
	pair_close(&p);
}

static void a_port_in_use_is_explained(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(ROCE_PORT)};
	int s = socket(AF_INET, SOCK_DGRAM, 0), err[2], old = dup(2);
	struct path path = {.sgid = pair_gid("127.0.0.9")};
	struct hca *hca = loop_get(&pair_ops);
	char text[1024] = "";

	at.sin_addr.s_addr = inet_addr("127.0.0.9");
	assert_int_equal(bind(s, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(pipe(err), 0);
	dup2(err[1], 2);
	assert_int_equal(loop_attach(&path), -EADDRINUSE);
	dup2(old, 2);
	assert_true(read(err[0], text, sizeof(text) - 1) > 0);
	assert_non_null(strstr(text, "4791"));
	assert_non_null(strstr(text, "127.0.0.9"));
	assert_non_null(strstr(text, "rdma link delete"));
	assert_int_equal(strchr(text, '\n') - text, strlen(text) - 1);
	close(s);
	assert_int_equal(loop_attach(&path), 0);
	loop_detach(&path);
	loop_put(hca);
}

static void addresses_are_shared_by_their_users(void **state)
{
	struct path one = {.sgid = pair_gid("127.0.0.1")}, two = one, other = {.sgid = pair_gid("127.0.0.2")};
	struct hca *hca = loop_get(&pair_ops);

	assert_ptr_equal(loop_get(&pair_ops), hca);
	assert_int_equal(loop_attach(&one), 0);
	assert_int_equal(loop_attach(&two), 0);
	assert_int_equal(loop_attach(&other), 0);
	assert_ptr_equal(one.port, two.port);
	assert_ptr_not_equal(one.port, other.port);
	loop_detach(&one);
	loop_detach(&other);
	loop_detach(&two);
	loop_put(hca);
	loop_put(hca);
}

/* A child of a process with AddressSanitizer hangs in its first allocation or thread if another thread was just in one
 * of the sanitizer's locks; gcc 12's has no handlers for fork(). */
static void await_rest_of_others(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *e;

	assert_non_null(tasks);
	while ((e = readdir(tasks))) {
		char path[300], text[256], state = 0;

		while (atoi(e->d_name) > 0 && atoi(e->d_name) != gettid() && state != 'S') {
			FILE *f;

			snprintf(path, sizeof(path), "/proc/self/task/%s/stat", e->d_name);
			f = fopen(path, "r");
			state = f && fgets(text, sizeof(text), f) ? strrchr(text, ')')[2] : 'S'; /* or it has ended */
			if (f)
				fclose(f);
			sched_yield();
		}
	}
	closedir(tasks);
}

static uint32_t yields_of_ours(void)
{
	const struct loop *l = atomic_load(&loop_current);

	return atomic_load(&((struct loop *)l)->offers);
}

/* Its sched_yield() is ours: library/yield.c. */
static void a_program_that_yields_by_itself_gets_no_yields(void **state)
{
	struct pair p;
	uint32_t before;

	pair_open(&p);
	for (before = yields_of_ours(); yields_of_ours() - before < 2;)
		loop_progress();
	before = yields_of_ours();
	for (int polls = 0; polls < 20000; polls++) {
		sched_yield();
		loop_progress();
	}
	assert_int_equal(yields_of_ours(), before);
	while (yields_of_ours() == before) /* it yields no more */
		loop_progress();
	pair_close(&p);
}

static void a_child_is_inert_and_may_begin_anew(void **state)
{
	struct pair p;
	int status;
	pid_t pid;

	if (THREAD_SANITIZER) {
		print_message("# skipped: ThreadSanitizer lets no child of a process with threads start one\n");
		return;
	}
	pair_open(&p);
	await_rest_of_others();
	pid = fork();
	if (pid == 0) {
		struct path path = {.sgid = pair_gid("127.0.0.1")};
		struct hca *hca;

		alarm(60);
		if (loop_progress() || loop_attach(&path) != -ENODEV)
			_exit(1);
		loop_detach(&p.qp[0]->path);
		hca = loop_get(&pair_ops);
		if (!hca || hca == p.hca || hca->slot == p.hca->slot || loop_attach(&path))
			_exit(2);
		loop_put(p.hca); /* its parent's: nothing happens */
		loop_detach(&path);
		loop_put(hca);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	for (int i = 0; i < 100; i++)
		pair_round_trip(&p);
	pair_close(&p);
}

static int watched;

static void handle(void *arg)
{
	uint64_t count;

	assert_int_equal(read(watched, &count, sizeof(count)), sizeof(count));
	assert_int_equal(write(*(int *)arg, &count, sizeof(count)), sizeof(count));
}

static void descriptors_can_be_watched(void **state)
{
	struct hca *hca = loop_get(&pair_ops);
	int answer = eventfd(0, 0);
	uint64_t count = 1;

	watched = eventfd(0, 0);
	assert_int_equal(loop_watch(watched, handle, &answer), 0);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(write(watched, &count, sizeof(count)), sizeof(count));
		assert_int_equal(read(answer, &count, sizeof(count)), sizeof(count));
	}
	loop_unwatch(watched);
	assert_int_equal(write(watched, &count, sizeof(count)), sizeof(count));
	assert_int_equal(poll(&(struct pollfd){.fd = answer, .events = POLLIN}, 1, 20), 0);
	close(answer);
	close(watched);
	loop_put(hca);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_poll_moves_packets),
		cmocka_unit_test(the_first_write_is_done_at_once),
		cmocka_unit_test(the_helper_moves_them_if_nobody_polls),
		cmocka_unit_test(a_wait_moves_packets),
		cmocka_unit_test(what_a_full_socket_refuses_leaves_later),
		cmocka_unit_test(a_caller_for_whom_there_is_no_descriptor_is_told),
		cmocka_unit_test(a_doorbell_that_is_no_eventfd_is_refused),
		cmocka_unit_test(a_process_without_a_ring_gets_none_later),
		cmocka_unit_test(a_port_in_use_is_explained),
		cmocka_unit_test(addresses_are_shared_by_their_users),
		cmocka_unit_test(a_program_that_yields_by_itself_gets_no_yields),
		cmocka_unit_test(a_child_is_inert_and_may_begin_anew),
		cmocka_unit_test(descriptors_can_be_watched),
	};

	return pair_run_tests(tests, ARRAY_SIZE(tests));
}
