// SPDX-License-Identifier: BSD-2-Clause
// The loop: attaching to addresses, which thread receives, which sleeps, fork. Each test runs twice: by udp, and by
// the local link (this process with itself).
#include <arpa/inet.h>
#include <dirent.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
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
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "loop/internal.h"
#include "loop/introduction.h"
#include "loop/local_peer.h"
#include "loop/netns.h"

#ifdef __SANITIZE_THREAD__
#define THREAD_SANITIZER true
#elif defined(__has_feature)
#define THREAD_SANITIZER __has_feature(thread_sanitizer)
#else
#define THREAD_SANITIZER false
#endif

static int event = -1; /* eventfd that an armed CQ writes to */

static void cq_event(struct cq *cq)
{
	uint64_t one = 1;

	assert_int_equal(write(event, &one, sizeof(one)), sizeof(one));
}

static void cq_error(struct cq *cq)
{
}

static void qp_event(struct qp *qp, enum ibv_event_type type)
{
}

static const struct hca_ops ops = {cq_event, cq_error, qp_event};

/* Two QPs of this process, connected to each other over the socket. */
struct pair {
	struct hca *hca;
	struct pd pd;
	struct cq cq[2];
	struct qp *qp[2];
	struct mr *mr;
	char bytes[2][64];
};

static union ibv_gid gid(const char *ipv4)
{
	union ibv_gid g = {.raw = {[10] = 0xff, [11] = 0xff}};

	assert_int_equal(inet_pton(AF_INET, ipv4, g.raw + 12), 1);
	return g;
}

static void modify(struct qp *qp, struct ibv_qp_attr attr, int mask)
{
	lock_take(&qp->lock);
	assert_int_equal(engine_modify(qp, &attr, mask | IBV_QP_STATE, clock_now()), 0);
	qp->base.state = qp->state;
	lock_drop(&qp->lock);
}

static void connect_qp(struct qp *qp, uint32_t to)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE},
			   rtr = {.qp_state = IBV_QPS_RTR,
				  .path_mtu = IBV_MTU_1024,
				  .dest_qp_num = to,
				  .rq_psn = 9,
				  .max_dest_rd_atomic = 1,
				  .min_rnr_timer = 1,
				  .ah_attr = {.port_num = 1, .is_global = 1}},
			   rts = {.qp_state = IBV_QPS_RTS,
				  .timeout = 14,
				  .retry_cnt = 7,
				  .rnr_retry = 7,
				  .sq_psn = 9,
				  .max_rd_atomic = 1};

	modify(qp, init, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	lock_take(&qp->lock);
	qp->path.sgid = qp->path.dgid = gid("127.0.0.1");
	lock_drop(&qp->lock);
	assert_int_equal(loop_attach(&qp->path), 0);
	loop_introduce(&qp->path, to);
	modify(qp, rtr,
	       IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		       IBV_QP_MIN_RNR_TIMER);
	modify(qp, rts, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

/* By the local link from the first packet on, if that is to be. */
static void await_local_peer(const struct qp *qp)
{
	const struct local_peer *n = qp->path.local_peer;

	assert_int_equal(!n, !local_is_wanted());
	while (n && local_peer_state(n) != LOCAL_PEER_MET)
		sched_yield();
}

static void open_pair(struct pair *p)
{
	struct ibv_qp_cap cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1};

	memset(p, 0, sizeof(*p));
	event = eventfd(0, EFD_CLOEXEC);
	p->hca = loop_get(&ops);
	assert_non_null(p->hca);
	p->pd.hca = p->hca;
	p->mr = mr_register(&p->pd, p->bytes, sizeof(p->bytes), (uintptr_t)p->bytes,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_non_null(p->mr);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(cq_init(&p->cq[i], p->hca, 32), 0);
		p->qp[i] = qp_create(p->hca, &p->pd, &p->cq[i], &p->cq[i], NULL, IBV_QPT_RC, &cap, true);
		assert_non_null(p->qp[i]);
	}
	for (int i = 0; i < 2; i++)
		connect_qp(p->qp[i], p->qp[!i]->base.qp_num);
	await_local_peer(p->qp[0]);
}

static void close_pair(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		struct path path = p->qp[i]->path;

		qp_destroy(p->qp[i]);
		loop_detach(&path);
		cq_fini(&p->cq[i]);
	}
	mr_deregister(p->mr);
	loop_put(p->hca);
	close(event);
}

static void post_receive(struct pair *p, int i)
{
	struct ibv_sge sge = {(uintptr_t)p->bytes[i], sizeof(p->bytes[i]), p->mr->base.lkey};
	struct ibv_recv_wr wr = {.wr_id = 100, .sg_list = &sge, .num_sge = 1}, *bad;

	lock_take(&p->qp[i]->lock);
	assert_int_equal(engine_post_recv(p->qp[i], &wr, &bad), 0);
	lock_drop(&p->qp[i]->lock);
}

static void post_send(struct pair *p, int i, const char *text)
{
	struct ibv_sge sge = {(uintptr_t)p->bytes[i], strlen(text) + 1, p->mr->base.lkey};
	struct ibv_send_wr wr = {.wr_id = 200, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	strcpy(p->bytes[i], text);
	lock_take(&p->qp[i]->lock);
	assert_int_equal(engine_post_send(p->qp[i], &wr, &bad), 0);
	loop_posted(p->qp[i]);
	lock_drop(&p->qp[i]->lock);
}

/* All that i has, to the other. */
static void post_write(struct pair *p, int i)
{
	struct ibv_sge sge = {(uintptr_t)p->bytes[i], sizeof(p->bytes[i]), p->mr->base.lkey};
	struct ibv_send_wr wr = {.wr_id = 300,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .wr.rdma = {(uintptr_t)p->bytes[!i], p->mr->base.rkey}},
			   *bad;

	lock_take(&p->qp[i]->lock);
	loop_posting(p->qp[i]);
	assert_int_equal(engine_post_send(p->qp[i], &wr, &bad), 0);
	loop_posted(p->qp[i]);
	lock_drop(&p->qp[i]->lock);
}

static struct cqe poll_for(struct pair *p, int i)
{
	struct cqe e;

	while (!cq_poll(&p->cq[i], 1, &e))
		loop_progress();
	assert_int_equal(e.status, IBV_WC_SUCCESS);
	return e;
}

static void round_trip(struct pair *p)
{
	post_receive(p, 1);
	post_send(p, 0, "there");
	assert_int_equal(poll_for(p, 1).wr_id, 100);
	assert_string_equal(p->bytes[1], "there");
	post_receive(p, 0);
	post_send(p, 1, "and back");
	/* an acknowledgement may come before or after what the other end sends */
	assert_int_equal(poll_for(p, 0).wr_id + poll_for(p, 0).wr_id, 300);
	assert_string_equal(p->bytes[0], "and back");
	assert_int_equal(poll_for(p, 1).wr_id, 200);
}

static void a_poll_moves_packets(void **state)
{
	struct pair p;

	open_pair(&p);
	for (int i = 0; i < 1000; i++)
		round_trip(&p);
	for (int i = 0; i < 2; i++)
		assert_int_equal(p.qp[i]->req.lossless, local_is_wanted());
	close_pair(&p);
}

/* Were the first to go by packets, those behind it would have to as well, for as long as it is never quiet. */
static void the_first_write_is_done_at_once(void **state)
{
	const struct local_peer *n;
	struct pair p;
	bool direct;

	open_pair(&p);
	n = p.qp[0]->path.local_peer;
	direct = n && n->reach;
	if (!direct)
		printf("# no memory can be reached here\n");
	strcpy(p.bytes[0], "written");
	post_write(&p, 0);
	if (direct)
		assert_string_equal(p.bytes[1], "written");
	assert_int_equal(poll_for(&p, 0).wr_id, 300);
	assert_string_equal(p.bytes[1], "written");
	assert_int_equal(p.qp[0]->req.high.v, direct ? 9 : 10);
	close_pair(&p);
}

/* Blocks in read(2), not in loop_wait(). An event may come later than the completion that it is for has been polled. */
static void sleep_for(struct pair *p, int i)
{
	uint64_t count;
	struct cqe e;

	cq_request(&p->cq[i], false);
	while (!cq_poll(&p->cq[i], 1, &e))
		assert_int_equal(read(event, &count, sizeof(count)), sizeof(count));
	assert_int_equal(e.status, IBV_WC_SUCCESS);
}

static void the_helper_moves_them_if_nobody_polls(void **state)
{
	struct pair p;

	open_pair(&p);
	for (int i = 0; i < 100; i++) {
		post_receive(&p, 1);
		post_send(&p, 0, "wake up");
		sleep_for(&p, 1);
		sleep_for(&p, 0);
	}
	close_pair(&p);
}

static void a_wait_moves_packets(void **state)
{
	struct pair p;
	struct cqe e;
	uint64_t count;

	open_pair(&p);
	for (int i = 0; i < 100; i++) {
		cq_request(&p.cq[1], false);
		post_receive(&p, 1);
		post_send(&p, 0, "wake up");
		assert_int_equal(loop_wait(event), 0);
		assert_int_equal(read(event, &count, sizeof(count)), sizeof(count));
		assert_int_equal(cq_poll(&p.cq[1], 1, &e), 1);
		assert_int_equal(poll_for(&p, 0).wr_id, 200);
	}
	close_pair(&p);
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
	open_pair(&p);
	round_trip(&p);
	link = p.qp[0]->path.port->link;
	ops_of_test = *link->ops;
	ops_of_test.capacity = capacity_of_test;
	lock_take(&p.qp[0]->path.port->loop->receive); /* its helper receives */
	link->ops = &ops_of_test;
	lock_drop(&p.qp[0]->path.port->loop->receive);
	for (uint32_t i = 0; i < 100; i++) {
		capacity = 0;
		post_receive(&p, 1);
		post_send(&p, 0, "later");
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
			assert_int_equal(poll_for(&p, 1).wr_id, 100);
			assert_int_equal(poll_for(&p, 0).wr_id, 200);
		}
		assert_string_equal(p.bytes[1], "later");
	}
	close_pair(&p);
}

static void *wait_for(void *fd)
{
	assert_int_equal(loop_wait(*(int *)fd), 0);
	return NULL;
}

static void await_sleeper(void)
{
	struct helper *h = &atomic_load(&loop_current)->helper;

	for (uint32_t asleep = 0; !asleep; sched_yield()) {
		lock_take(&h->renew_lock);
		asleep = h->sleepers;
		lock_drop(&h->renew_lock);
	}
}

/* It receives in place of the helper: so it must not sleep through what comes to an address that is new. */
/* In a process of its own: calls that slot, and waits for the end of the call. */
static void call_in_vain(uint8_t slot, int begin, int ring, int doorbell)
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
		open_pair(&p);
		assert_int_equal(pipe(begin), 0);
		assert_int_equal(pipe2(pipes, O_NONBLOCK), 0);
		pid = fork();
		if (pid == 0)
			call_in_vain((uint8_t)(p.qp[0]->base.qp_num >> 16), begin[0], ring_memory(LOCAL_RING),
				     flags ? eventfd(0, 0) : pipes[1]);
		assert_int_equal(write(begin[1], "", 1), 1);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		close_pair(&p);
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
	open_pair(&p);
	assert_int_equal(pipe(begin), 0);
	pid = fork();
	if (pid == 0)
		call_in_vain((uint8_t)(p.qp[0]->base.qp_num >> 16), begin[0], ring_memory(LOCAL_RING),
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
	close_pair(&p);
}

/* QPs of a process that got no ring use UDP for good; so no QP of ours expects another lane. */
static void a_process_without_a_ring_gets_none_later(void **state)
{
	struct path path = {.sgid = gid("127.0.0.1"), .dgid = gid("127.0.0.1")};
	struct pair p;
	int begin[2], status;
	uint8_t own, slot;
	pid_t pid;

	if (!local_is_wanted())
		return;
	open_pair(&p);
	own = p.qp[0]->base.qp_num >> 16;
	slot = own == 77 ? 78 : 77;
	assert_int_equal(pipe(begin), 0);
	pid = fork();
	if (pid == 0)
		call_in_vain(own, begin[0], memfd_create("no ring", MFD_CLOEXEC), eventfd(0, EFD_NONBLOCK));
	assert_int_equal(write(begin[1], "", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(loop_attach(&path), 0);
	loop_introduce(&path, (uint32_t)slot << 16 | 5);
	assert_null(path.local_peer);
	loop_detach(&path);
	close(begin[0]);
	close(begin[1]);
	close_pair(&p);
}

static void a_sleeper_learns_of_new_addresses(void **state)
{
	struct hca *hca = loop_get(&ops);
	int fd = eventfd(0, EFD_CLOEXEC);
	pthread_t thread;
	struct pair p;
	uint64_t count = 1;

	assert_int_equal(pthread_create(&thread, NULL, wait_for, &fd), 0);
	await_sleeper();
	for (int i = 0; i < 2; i++) {
		open_pair(&p);
		await_sleeper();
		cq_request(&p.cq[1], false);
		post_receive(&p, 1);
		post_send(&p, 0, "wake up");
		assert_int_equal(read(event, &count, sizeof(count)), sizeof(count));
		close_pair(&p);
	}
	assert_int_equal(write(fd, &count, sizeof(count)), sizeof(count));
	pthread_join(thread, NULL);
	close(fd);
	loop_put(hca);
}

static void *wait_without_a_context(void *fd)
{
	assert_int_equal(loop_wait_alone(*(int *)fd), 0);
	return NULL;
}

/* rdma_get_cm_event() waits with a channel only: the last context may be closed meanwhile. */
static void a_thread_that_waits_outlives_the_loop(void **state)
{
	struct hca *hca = loop_get(&ops);
	int fd = eventfd(0, EFD_CLOEXEC);
	pthread_t thread;
	struct pair p;
	uint64_t count = 1;

	assert_int_equal(pthread_create(&thread, NULL, wait_without_a_context, &fd), 0);
	await_sleeper();
	loop_put(hca);
	open_pair(&p);
	round_trip(&p);
	close_pair(&p);
	assert_int_equal(write(fd, &count, sizeof(count)), sizeof(count));
	pthread_join(thread, NULL);
	close(fd);
}

static void waiting_heeds_nonblocking(void **state)
{
	struct pair p;

	open_pair(&p);
	assert_int_equal(fcntl(event, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(loop_wait(event), -EAGAIN);
	close_pair(&p);
}

/* What follows `key` at the beginning of a line. */
static unsigned long number_in(const char *path, const char *key)
{
	FILE *f = fopen(path, "r");
	unsigned long n = 0;
	char line[256];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)))
			n = strtoul(line + strlen(key), NULL, 10);
	fclose(f);
	return n;
}

static bool is_helper(const char *task)
{
	char path[300], name[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task);
	f = fopen(path, "r");
	if (!f)
		return false;
	if (!fgets(name, sizeof(name), f))
		name[0] = 0;
	fclose(f);
	return !strcmp(name, "uroce\n");
}

/* Among the threads of this process: sanitizers have some too, which are not ours. False: it has not come to run yet.
 */
static bool find_helper(char *task, size_t size)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *e;
	int helpers = 0;

	assert_non_null(dir);
	while ((e = readdir(dir))) {
		if (!is_helper(e->d_name))
			continue;
		snprintf(task, size, "/proc/self/task/%s", e->d_name);
		helpers++;
	}
	closedir(dir);
	assert_in_range(helpers, 0, 1);
	return helpers;
}

/* How often the thread has slept. */
static unsigned long sleeps_of(const char *task)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/status", task);
	return number_in(path, "voluntary_ctxt_switches:");
}

/* It sleeps until something comes: in epoll_pwait2() without a time, or in epoll_wait() with -1; and its timer is not
 * set. */
static bool is_at_rest(const char *task)
{
	struct helper *h = &atomic_load(&loop_current)->helper;
	unsigned long before = sleeps_of(task), fd = 0, time = 0;
	char path[300];
	FILE *f;
	int got;

	snprintf(path, sizeof(path), "%s/syscall", task);
	f = fopen(path, "r");
	assert_non_null(f);
	got = fscanf(f, "%*d %lx %*x %*x %lx", &fd, &time); /* or "running" */
	fclose(f);
	return got == 2 && (int)fd == h->epoll && (!time || (int)time == -1) && atomic_load(&h->timer_at) == NEVER &&
	       sleeps_of(task) == before;
}

static _Atomic int handled;

static void count_signal(int number)
{
	atomic_fetch_add(&handled, 1);
}

/* The signal comes while the loop polls, before it sleeps. */
static bool is_signalled(void *arg)
{
	int *looks = arg;

	if (++*looks == 2)
		raise(SIGUSR1);
	return false;
}

static void needs_nothing(void *arg)
{
}

static void a_signal_ends_a_wait_that_has_not_come_to_sleep(void **state)
{
	struct sigaction on = {.sa_handler = count_signal}, off;
	int looks = 0, wake = eventfd(0, EFD_NONBLOCK);
	struct loop_wait w = {.done = is_signalled, .arm = needs_nothing, .arg = &looks, .wake = wake};
	struct pair p;
	sigset_t mask;

	open_pair(&p);
	atomic_store(&handled, 0);
	assert_int_equal(sigaction(SIGUSR1, &on, &off), 0);
	w.until = clock_now() + 10 * SEC;
	assert_int_equal(loop_wait_for(&w), -EINTR);
	assert_int_equal(atomic_load(&handled), 1);
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	assert_int_equal(sigismember(&mask, SIGUSR1), 0);
	/* one that nobody heeds ends nothing */
	assert_int_equal(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = SIG_IGN}, NULL), 0);
	looks = 0;
	w.until = clock_now() + 30 * MSEC;
	assert_int_equal(loop_wait_for(&w), 0);
	assert_int_equal(sigaction(SIGUSR1, &off, NULL), 0);
	close_pair(&p);
	close(wake);
}

/* What sched_yield() takes, as if somebody ran meanwhile who computes; or as if so many others polled and gave way. */
static _Thread_local uint64_t slice;
static _Thread_local unsigned int yields, others;

int sched_yield(void)
{
	struct loop *l = atomic_load_explicit(&loop_current, memory_order_relaxed);
	uint64_t end = clock_now() + slice;

	while (slice && clock_now() < end)
		;
	yields++;
	if (others)
		atomic_fetch_add_explicit(&l->offers, others, memory_order_relaxed);
	return syscall(SYS_sched_yield);
}

static void polling_leaves_time_for_work_beside_programs_that_compute(void **state)
{
	uint64_t begin, all, took;
	struct pair p;

	open_pair(&p);
	slice = 2 * MSEC;
	yields = 0;
	begin = clock_now();
	while (yields < 30)
		loop_progress();
	all = clock_now() - begin;
	took = 30 * slice;
	slice = 0;
	assert_true(all - took > took / 10);
	close_pair(&p);
}

/* Returns how often it has polled. */
static unsigned long poll_beside(unsigned int others_poll, uint64_t took)
{
	unsigned long polls = 0;

	slice = took;
	others = others_poll;
	for (yields = 0; yields < 30; polls++)
		loop_progress();
	slice = others = 0;
	return polls;
}

/* A poll that finds nothing yields the processor after a time. That time must not grow with the number of processes
 * that poll: the one that all others wait for is among them. */
static void many_who_poll_do_not_keep_the_processor_from_each_other(void **state)
{
	unsigned long alone;
	struct pair p;

	open_pair(&p);
	poll_beside(0, 0);
	alone = poll_beside(0, 0);
	assert_in_range(poll_beside(1000, 40 * MSEC), 0, 16 * alone);
	close_pair(&p);
}

static void an_idle_connection_wakes_nobody(void **state)
{
	unsigned long before = 0, after = 0;
	char task[280];
	struct pair p;

	open_pair(&p);
	for (int i = 0; i < 100; i++)
		round_trip(&p);
	/* on a loaded machine something may come late and wake it once; not again and again */
	for (int i = 0; i < 3; i++) {
		while (!find_helper(task, sizeof(task)) || !is_at_rest(task))
			sched_yield();
		before = sleeps_of(task);
		sleep(2); /* time is what this measures */
		after = sleeps_of(task);
		if (after == before)
			break;
		printf("# woken: %lu sleeps, then %lu\n", before, after);
	}
	assert_int_equal(after, before);
	close_pair(&p);
}

static void a_port_in_use_is_explained(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(ROCE_PORT)};
	int s = socket(AF_INET, SOCK_DGRAM, 0), err[2], old = dup(2);
	struct path path = {.sgid = gid("127.0.0.9")};
	struct hca *hca = loop_get(&ops);
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
	struct path one = {.sgid = gid("127.0.0.1")}, two = one, other = {.sgid = gid("127.0.0.2")};
	struct hca *hca = loop_get(&ops);

	assert_ptr_equal(loop_get(&ops), hca);
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

static void a_child_is_inert_and_may_begin_anew(void **state)
{
	struct pair p;
	int status;
	pid_t pid;

	if (THREAD_SANITIZER) {
		print_message("# skipped: ThreadSanitizer lets no child of a process with threads start one\n");
		return;
	}
	open_pair(&p);
	await_rest_of_others();
	pid = fork();
	if (pid == 0) {
		struct path path = {.sgid = gid("127.0.0.1")};
		struct hca *hca;

		alarm(60);
		if (loop_progress() || loop_attach(&path) != -ENODEV)
			_exit(1);
		loop_detach(&p.qp[0]->path);
		hca = loop_get(&ops);
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
		round_trip(&p);
	close_pair(&p);
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
	struct hca *hca = loop_get(&ops);
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

static int choose_link(void **state)
{
	return setenv("UROCE_LOCAL", *state, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_poll_moves_packets),
		cmocka_unit_test(the_first_write_is_done_at_once),
		cmocka_unit_test(the_helper_moves_them_if_nobody_polls),
		cmocka_unit_test(a_wait_moves_packets),
		cmocka_unit_test(what_a_full_socket_refuses_leaves_later),
		cmocka_unit_test(a_caller_for_whom_there_is_no_descriptor_is_told),
		cmocka_unit_test(a_doorbell_that_is_no_eventfd_is_refused),
		cmocka_unit_test(a_process_without_a_ring_gets_none_later),
		cmocka_unit_test(a_sleeper_learns_of_new_addresses),
		cmocka_unit_test(a_thread_that_waits_outlives_the_loop),
		cmocka_unit_test(waiting_heeds_nonblocking),
		cmocka_unit_test(a_signal_ends_a_wait_that_has_not_come_to_sleep),
		cmocka_unit_test(polling_leaves_time_for_work_beside_programs_that_compute),
		cmocka_unit_test(many_who_poll_do_not_keep_the_processor_from_each_other),
		cmocka_unit_test(an_idle_connection_wakes_nobody),
		cmocka_unit_test(a_port_in_use_is_explained),
		cmocka_unit_test(addresses_are_shared_by_their_users),
		cmocka_unit_test(a_child_is_inert_and_may_begin_anew),
		cmocka_unit_test(descriptors_can_be_watched),
	};

	enum { TESTS = sizeof(tests) / sizeof(tests[0]) };
	struct CMUnitTest both[2 * TESTS]; /* one group, as there is one plan to a TAP stream */

	for (int i = 0; i < 2 * TESTS; i++) {
		both[i] = tests[i % TESTS];
		both[i].setup_func = choose_link;
		both[i].initial_state = i < TESTS ? "off" : "on";
	}
	netns_enter();
	return cmocka_run_group_tests(both, NULL, NULL);
}
