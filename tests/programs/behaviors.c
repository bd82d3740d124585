// SPDX-License-Identifier: BSD-2-Clause
/* behaviors PORT ROW [HOST]: a process with a connection to another one does what processes do: it forks, executes,
 * loads, is signalled, its threads are cancelled and end. The connection goes on as if nothing had happened. Without
 * HOST: the other end, which sends back what it gets until the first has ended. A message that begins with 'T' it
 * answers by TCP as well, when its own has been acknowledged. docs/waiting.md has the rows as a table. */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/time.h>

#include "rc.h"

enum { LENGTH = 1000, RECEIVES = 16, SLOT = 1024, ANSWER = RECEIVES * SLOT, SIZE = (RECEIVES + 2) * SLOT };

extern char **environ;
static struct rc rc;
static char *self;

/* ---- the other end ---- */

static bool is_gone(void)
{
	char byte;

	return recv(rc.tcp, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* The thing to answer; false: the first end has ended. */
static bool next_completion(struct ibv_wc *wc)
{
	struct pollfd p[] = {{.fd = rc.channel->fd, .events = POLLIN}, {.fd = rc.tcp, .events = POLLIN}};
	struct ibv_cq *cq;
	void *context;

	while (!ibv_poll_cq(rc.cq, 1, wc)) {
		ZERO(ibv_req_notify_cq(rc.cq, 0));
		if (ibv_poll_cq(rc.cq, 1, wc))
			break;
		MUST(poll(p, 2, -1) > 0);
		if (p[1].revents && is_gone())
			return false;
		if (p[0].revents && !ibv_get_cq_event(rc.channel, &cq, &context))
			ibv_ack_cq_events(cq, 1);
	}
	return true;
}

static int other_end(void)
{
	bool told = false;
	struct ibv_wc wc;

	while (next_completion(&wc)) {
		if (wc.status)
			return !is_gone() && recv(rc.tcp, &(char){0}, 1, 0); /* it has ended, as rows do */
		if (wc.opcode == IBV_WC_SEND) {
			MUST(!told || send(rc.tcp, "T", 1, MSG_NOSIGNAL) == 1);
			told = false;
			continue;
		}
		memcpy(rc.memory + ANSWER, rc.memory + wc.wr_id, LENGTH);
		told = rc.memory[ANSWER] == 'T';
		rc_post_receive(&rc, wc.wr_id, SLOT);
		rc_post(&rc, IBV_WR_SEND, ANSWER, 0, LENGTH);
	}
	return 0;
}

/* ---- this end ---- */

static void ask(uint8_t first)
{
	memset(rc.memory + ANSWER, first, LENGTH);
	rc_post_receive(&rc, 0, SLOT);
	rc_post(&rc, IBV_WR_SEND, ANSWER, 0, LENGTH);
}

/* The request has left, and the same has come back. */
static void take_answer(struct ibv_wc (*next)(struct rc *rc), uint8_t first)
{
	bool sent = false, came = false;

	while (!sent || !came) {
		struct ibv_wc wc = next(&rc);

		MUST(!wc.status);
		sent |= wc.opcode == IBV_WC_SEND;
		came |= wc.opcode == IBV_WC_RECV;
	}
	MUST(rc.memory[0] == first && rc.memory[LENGTH - 1] == first);
}

/* By polling, asleep in a wait of ours, and asleep elsewhere, where the helper thread receives. */
static void works(void)
{
	char byte;

	for (int i = 0; i < 50; i++) {
		ask((uint8_t)(i % 26 + 'a'));
		take_answer(i % 2 ? rc_poll : rc_sleep, (uint8_t)(i % 26 + 'a'));
	}
	for (int i = 0; i < 3; i++) {
		ask('T');
		MUST(recv(rc.tcp, &byte, 1, 0) == 1);
		take_answer(rc_poll, 'T');
	}
}

/* ---- threads ---- */

/* Of a thread: until it sleeps in the kernel. */
static void await_sleep(const _Atomic pid_t *thread)
{
	char path[64], text[256], state = 0;

	while (state != 'S') {
		pid_t id = atomic_load(thread);
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", id);
		f = id ? fopen(path, "r") : NULL;
		if (f && fgets(text, sizeof(text), f))
			state = strrchr(text, ')')[2];
		if (f)
			fclose(f);
		sched_yield();
	}
}

static _Atomic pid_t sleeper;

static void *sleeps_in_cq_event(void *arg)
{
	struct ibv_comp_channel *channel = arg;
	struct ibv_cq *cq;
	void *context;

	atomic_store(&sleeper, gettid());
	MUST(!ibv_get_cq_event(channel, &cq, &context));
	return NULL;
}

static void *sleeps_in_async_event(void *arg)
{
	struct ibv_async_event event;

	atomic_store(&sleeper, gettid());
	MUST(!ibv_get_async_event(arg, &event));
	return NULL;
}

static void *sleeps_in_cm_event(void *arg)
{
	struct rdma_cm_event *event;

	atomic_store(&sleeper, gettid());
	MUST(!rdma_get_cm_event(arg, &event));
	return NULL;
}

static void *sleeps_in_raccept(void *arg)
{
	atomic_store(&sleeper, gettid());
	MUST(raccept((int)(intptr_t)arg, NULL, NULL) >= 0);
	return NULL;
}

static void *sleeps_in_rpoll(void *arg)
{
	struct pollfd p = {.fd = (int)(intptr_t)arg, .events = POLLIN};

	atomic_store(&sleeper, gettid());
	MUST(rpoll(&p, 1, -1) >= 0);
	return NULL;
}

/* Sanitizers do not bear a thread that is cancelled inside of their functions, nor ThreadSanitizer one that waits for
 * the first to end. */
static bool is_sanitized(void)
{
	bool is = dlsym(RTLD_DEFAULT, "__asan_init") || dlsym(RTLD_DEFAULT, "__tsan_init");

	if (is)
		printf("left out: a sanitizer would not bear it\n");
	return is;
}

/* Asleep there, a thread is cancelled, five times over. The connection works meanwhile and afterwards. */
static void cancel(void *(*sleep)(void *arg), void *arg)
{
	pthread_t thread;
	void *result;

	if (is_sanitized())
		return;
	for (int i = 0; i < 5; i++) {
		atomic_store(&sleeper, 0);
		MUST(!pthread_create(&thread, NULL, sleep, arg));
		await_sleep(&sleeper);
		if (i % 2)
			works();
		MUST(!pthread_cancel(thread));
		MUST(!pthread_join(thread, &result));
		MUST(result == PTHREAD_CANCELED);
		works();
	}
}

static void cancel_cq_event(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(rc.context);

	MUST(channel);
	cancel(sleeps_in_cq_event, channel);
	ZERO(ibv_destroy_comp_channel(channel));
}

static void cancel_async_event(void)
{
	cancel(sleeps_in_async_event, rc.context);
}

static void cancel_cm_event(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	MUST(channel);
	cancel(sleeps_in_cm_event, channel);
	rdma_destroy_event_channel(channel);
}

static int listener(void)
{
	struct sockaddr_in any = {.sin_family = AF_INET};
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	MUST(fd >= 0);
	MUST(!rbind(fd, (struct sockaddr *)&any, sizeof(any)));
	MUST(!rlisten(fd, 1));
	return fd;
}

static void cancel_raccept(void)
{
	int fd = listener();

	cancel(sleeps_in_raccept, (void *)(intptr_t)fd);
	MUST(!rclose(fd));
}

static void cancel_rpoll(void)
{
	int fd = listener();

	cancel(sleeps_in_rpoll, (void *)(intptr_t)fd);
	MUST(!rclose(fd));
}

static void *asks(void *arg)
{
	pthread_barrier_wait(arg);
	/* cancelled by now; none of this is a cancellation point */
	for (int i = 0; i < 20; i++) {
		ask('c');
		take_answer(rc_poll, 'c');
	}
	pthread_testcancel();
	return NULL;
}

static void cancel_poster(void)
{
	pthread_barrier_t barrier;
	pthread_t thread;
	void *result;

	if (is_sanitized())
		return;
	MUST(!pthread_barrier_init(&barrier, NULL, 2));
	MUST(!pthread_create(&thread, NULL, asks, &barrier));
	MUST(!pthread_cancel(thread));
	pthread_barrier_wait(&barrier);
	MUST(!pthread_join(thread, &result));
	MUST(result == PTHREAD_CANCELED);
	works();
}

static void *asks_and_ends(void *arg)
{
	(void)arg;
	ask('e');
	return NULL;
}

static void thread_that_posts_and_ends(void)
{
	for (int i = 0; i < 20; i++) {
		pthread_t thread;

		MUST(!pthread_create(&thread, NULL, asks_and_ends, NULL));
		MUST(!pthread_join(thread, NULL));
		take_answer(rc_poll, 'e');
	}
	works();
}

static void *outlives_main(void *arg)
{
	MUST(!pthread_join(*(pthread_t *)arg, NULL));
	works();
	exit(0);
}

static void main_thread_that_ends_first(void)
{
	static pthread_t first;
	pthread_t thread;

	if (is_sanitized())
		return;
	first = pthread_self();
	MUST(!pthread_create(&thread, NULL, outlives_main, &first));
	pthread_exit(NULL);
}

/* ---- fork and exec ---- */

static void posix_spawn_of_a_program(void)
{
	char *argv[] = {"true", NULL};
	pid_t child;

	MUST(!posix_spawnp(&child, "true", NULL, NULL, argv, environ));
	works();
	reap(child, 0);
	works();
}

static void vfork_and_exec(void)
{
	pid_t child = vfork();

	if (!child) {
		execlp("true", "true", NULL);
		_exit(1);
	}
	works();
	reap(child, 0);
	works();
}

static void fork_while_a_thread_sleeps(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(rc.context);
	pthread_t thread;
	pid_t child;

	MUST(channel);
	MUST(!pthread_create(&thread, NULL, sleeps_in_cq_event, channel));
	await_sleep(&sleeper);
	MUST((child = fork()) >= 0);
	if (!child)
		_exit(0);
	works();
	reap(child, 0);
	works();
	exit(0); /* with the thread asleep */
}

static atomic_bool enough;

static void *asks_until_enough(void *arg)
{
	(void)arg;
	while (!atomic_load(&enough)) {
		ask('f');
		take_answer(rc_poll, 'f');
	}
	return NULL;
}

static void fork_while_a_thread_posts(void)
{
	pthread_t thread;

	MUST(!pthread_create(&thread, NULL, asks_until_enough, NULL));
	for (int i = 0; i < 20; i++) {
		pid_t child;

		MUST((child = fork()) >= 0);
		if (!child)
			_exit(0);
		reap(child, 0);
	}
	atomic_store(&enough, true);
	MUST(!pthread_join(thread, NULL));
	works();
}

/* What it has is lost, as another adapter's would be; in its place it connects anew, as the second program. */
static void exec_of_itself(void)
{
	execl(self, self, "0", "again", NULL);
	MUST(!"exec");
}

static int again(void)
{
	struct rc a, b;

	rc_open(&a, NULL, 0, 4096);
	rc_open(&b, &a, 0, 4096);
	rc_connect_pair(&a, &b);
	rc_post(&a, IBV_WR_RDMA_WRITE, 0, 0, 4096);
	rc_expect(rc_poll(&a), IBV_WC_RDMA_WRITE);
	return 0;
}

/* ---- signals ---- */

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
	(void)number;
	signals++;
}

static void stopped_and_continued(void)
{
	pid_t parent = getpid(), child;

	ask('s');
	MUST((child = fork()) >= 0);
	if (!child) {
		char path[64], text[256];

		kill(parent, SIGSTOP);
		snprintf(path, sizeof(path), "/proc/%d/stat", parent);
		for (char state = 0; state != 'T';) {
			FILE *f = fopen(path, "r");

			if (f && fgets(text, sizeof(text), f))
				state = strrchr(text, ')')[2];
			if (f)
				fclose(f);
		}
		kill(parent, SIGCONT);
		_exit(0);
	}
	reap(child, 0);
	take_answer(rc_poll, 's');
	works();
}

/* Every signal of the process is some thread's of the program: the helper thread takes none. */
static void signal_at_any_time(void)
{
	struct itimerval soon = {{0, 500}, {0, 500}}, never = {0};
	struct sigaction a = {.sa_handler = count_signal, .sa_flags = SA_RESTART};

	MUST(!sigaction(SIGALRM, &a, NULL));
	MUST(!setitimer(ITIMER_REAL, &soon, NULL));
	do
		works();
	while (signals < 20);
	MUST(!setitimer(ITIMER_REAL, &never, NULL));
}

/* ---- loading ---- */

static void libraries_come_and_go(void)
{
	for (int i = 0; i < 20; i++) {
		void *verbs = dlopen("libibverbs.so.1", RTLD_NOW),
		     *cm = dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL);
		struct ibv_device **(*list)(int *count) = NULL;
		int count = 0;

		MUST(verbs && cm);
		*(void **)&list = dlsym(verbs, "ibv_get_device_list");
		MUST(list && list(&count) && count);
		MUST(!dlclose(cm) && !dlclose(verbs));
		works();
	}
}

/* ---- the end ---- */

static void exit_with_requests_on_their_way(void)
{
	for (int i = 0; i < 8; i++)
		rc_post(&rc, IBV_WR_SEND, ANSWER, 0, LENGTH);
	exit(0);
}

static void quick_exit_at_once(void)
{
	ask('q');
	quick_exit(0);
}

static void *exits(void *arg)
{
	(void)arg;
	ask('x');
	exit(0);
}

static void exit_by_a_thread(void)
{
	pthread_t thread;

	MUST(!pthread_create(&thread, NULL, exits, NULL));
	for (;;)
		rc_sleep(&rc);
}

static void use_at_exit(void)
{
	works();
	rc_close(&rc);
}

static void verbs_in_an_exit_handler(void)
{
	MUST(!atexit(use_at_exit));
	exit(0);
}

static void exit_with_a_thread_asleep(void)
{
	pthread_t thread;

	MUST(!pthread_create(&thread, NULL, sleeps_in_async_event, rc.context));
	await_sleep(&sleeper);
	works();
	exit(0);
}

static const struct row {
	const char *name;
	void (*run)(void);
} rows[] = {
#define ROW(name)           \
	{                   \
#name, name \
	}
	ROW(cancel_cq_event),
	ROW(cancel_async_event),
	ROW(cancel_cm_event),
	ROW(cancel_raccept),
	ROW(cancel_rpoll),
	ROW(cancel_poster),
	ROW(thread_that_posts_and_ends),
	ROW(main_thread_that_ends_first),
	ROW(posix_spawn_of_a_program),
	ROW(vfork_and_exec),
	ROW(fork_while_a_thread_sleeps),
	ROW(fork_while_a_thread_posts),
	ROW(exec_of_itself),
	ROW(stopped_and_continued),
	ROW(signal_at_any_time),
	ROW(libraries_come_and_go),
	ROW(exit_with_requests_on_their_way),
	ROW(quick_exit_at_once),
	ROW(exit_by_a_thread),
	ROW(verbs_in_an_exit_handler),
	ROW(exit_with_a_thread_asleep),
};

static const struct row *row_of(const char *name)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (!strcmp(rows[i].name, name))
			return &rows[i];
	fprintf(stderr, "no such row: %s\n", name);
	exit(2);
}

int main(int argc, char **argv)
{
	const struct row *row;

	MUST(argc == 3 || argc == 4);
	self = argv[0];
	if (!strcmp(argv[2], "again"))
		return again();
	row = row_of(argv[2]);
	rc_open(&rc, NULL, 0, SIZE);
	for (int i = argc == 3 ? 0 : RECEIVES; i < RECEIVES; i++)
		rc_post_receive(&rc, (size_t)i * SLOT, SLOT);
	rc_meet(&rc, argv[3], argv[1]);
	if (argc == 3)
		return other_end();
	works();
	row->run();
	return 0;
}
