// SPDX-License-Identifier: BSD-2-Clause
/* ends WAY server|client ADDRESS [SOURCE]: two connected processes, of which one ends in some way once the other has
 * sent it a message. WAY "stays" is the other one: it is told by RDMA_CM_EVENT_DISCONNECTED, and gets its receives back
 * flushed after its own rdma_disconnect(). Or a server with WAY "pending" is killed while it has the request of a
 * client with WAY "asks", which is told by RDMA_CM_EVENT_REJECTED. */
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MUST(x) ((x) ? (void)0 : fail(__LINE__, #x))

enum { RECEIVES = 4, SIZE = 16 };

static void fail(int line, const char *what)
{
	fprintf(stderr, "ends, process %d, line %d: %s: %s\n", getpid(), line, what, strerror(errno));
	exit(1);
}

/* ---- the ways ---- */

static volatile sig_atomic_t children_ended;

static void count_child(int signal)
{
	(void)signal;
	children_ended++;
}

static void by_exit(void)
{
	exit(0);
}

static void by_underscore_exit(void)
{
	_exit(0);
}

static void by_quick_exit(void)
{
	quick_exit(0);
}

static void by_interrupt(void)
{
	raise(SIGINT);
}

static void by_sigterm(void)
{
	raise(SIGTERM);
}

static void by_sigsegv(void)
{
	raise(SIGSEGV);
}

static void by_sigkill(void)
{
	raise(SIGKILL);
}

/* In its place a program runs that lives on: it ends with the test, which kills it. */
static void by_exec(void)
{
	execlp("sleep", "sleep", "1000", NULL);
	fail(__LINE__, "execlp");
}

/* A child lives on, which has copies of all descriptors that are not closed by uroce. */
static void by_sigkill_with_child(void)
{
	int ends[2];
	pid_t pid;
	char byte;

	MUST(!pipe(ends));
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		close(ends[0]);
		MUST(write(ends[1], "", 1) == 1);
		execlp("sleep", "sleep", "20", NULL);
		_exit(1);
	}
	MUST(read(ends[0], &byte, 1) == 1);
	raise(SIGKILL);
}

/* What uroce has started is nobody's child. */
static void by_waiting_in_vain(void)
{
	int status;

	MUST(wait(&status) == -1 && errno == ECHILD);
	MUST(waitpid(-1, &status, __WALL) == -1 && errno == ECHILD);
	MUST(waitpid(-1, &status, __WCLONE) == -1 && errno == ECHILD);
	MUST(waitpid(0, &status, 0) == -1 && errno == ECHILD);
	MUST(children_ended == 0);
	_exit(0);
}

/* It has gone on reading standard input, to be killed from outside. */
static void by_others(void)
{
	for (;;)
		pause();
}

static const struct {
	const char *name;
	void (*end)(void);
} ways[] = {
	{"exit", by_exit},
	{"_exit", by_underscore_exit},
	{"quick_exit", by_quick_exit},
	{"SIGINT", by_interrupt},
	{"SIGTERM", by_sigterm},
	{"abort", abort},
	{"SIGSEGV", by_sigsegv},
	{"SIGKILL", by_sigkill},
	{"execve", by_exec},
	{"SIGKILL-with-child", by_sigkill_with_child},
	{"waiting-in-vain", by_waiting_in_vain},
	{"others", by_others},
};

/* ---- connections ---- */

static struct rdma_event_channel *channel;
static char memory[SIZE];
static struct ibv_mr *mr;

static struct rdma_cm_id *await_status(enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *e;
	struct rdma_cm_id *id;

	MUST(!rdma_get_cm_event(channel, &e));
	if (e->event != type || e->status != status) {
		fprintf(stderr, "%s (%d) instead of %s\n", rdma_event_str(e->event), e->status, rdma_event_str(type));
		exit(1);
	}
	id = e->id;
	MUST(!rdma_ack_cm_event(e));
	return id;
}

static struct rdma_cm_id *await(enum rdma_cm_event_type type)
{
	return await_status(type, 0);
}

static void prepare(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {.cap = {4, RECEIVES, 1, 1, 0}, .sq_sig_all = 1, .qp_type = IBV_QPT_RC};

	MUST(!rdma_create_qp(id, NULL, &attr));
	mr = rdma_reg_msgs(id, memory, SIZE);
	MUST(mr);
	for (int i = 0; i < RECEIVES; i++)
		MUST(!rdma_post_recv(id, NULL, memory, SIZE, mr));
}

static struct sockaddr_storage address_of(const char *host, const char *port)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM}, *info;
	struct sockaddr_storage a = {0};

	MUST(!getaddrinfo(host, port, &hints, &info));
	memcpy(&a, info->ai_addr, info->ai_addrlen);
	freeaddrinfo(info);
	return a;
}

static struct rdma_cm_id *serve(const char *host, bool answers)
{
	struct sockaddr_storage a = address_of(host, "7471");
	struct rdma_conn_param p = {.rnr_retry_count = 7};
	struct rdma_cm_id *listener, *id;

	MUST(!rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP));
	MUST(!rdma_bind_addr(listener, (struct sockaddr *)&a));
	MUST(!rdma_listen(listener, 1));
	printf("listening\n");
	id = await(RDMA_CM_EVENT_CONNECT_REQUEST);
	if (!answers) {
		usleep(200000); /* the request has been repeated, so the client knows that it has come */
		raise(SIGKILL);
	}
	prepare(id);
	MUST(!rdma_accept(id, &p));
	MUST(await(RDMA_CM_EVENT_ESTABLISHED) == id);
	return id;
}

static struct rdma_cm_id *connect_to(const char *host, const char *source, bool hopes)
{
	struct sockaddr_storage to = address_of(host, "7471"), from;
	struct rdma_conn_param p = {.rnr_retry_count = 7, .retry_count = 7};
	struct rdma_cm_id *id;

	if (source)
		from = address_of(source, "0");
	MUST(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	MUST(!rdma_resolve_addr(id, source ? (struct sockaddr *)&from : NULL, (struct sockaddr *)&to, 60000));
	await(RDMA_CM_EVENT_ADDR_RESOLVED);
	MUST(!rdma_resolve_route(id, 60000));
	await(RDMA_CM_EVENT_ROUTE_RESOLVED);
	prepare(id);
	MUST(!rdma_connect(id, &p));
	if (!hopes) {
		await_status(RDMA_CM_EVENT_REJECTED,
			     28); /* IB_CM_REJ_CONSUMER_DEFINED: Linux core/cm.c: cm_destroy_id() */
		printf("told\n");
		exit(0);
	}
	await(RDMA_CM_EVENT_ESTABLISHED);
	return id;
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void stay(struct rdma_cm_id *id)
{
	struct ibv_wc wc;
	int flushed = 0;

	MUST(!rdma_post_send(id, NULL, memory, SIZE, mr, 0));
	MUST(await(RDMA_CM_EVENT_DISCONNECTED) == id);
	printf("told at %" PRIu64 "\n", now());
	MUST(!rdma_disconnect(id));
	for (; flushed < RECEIVES; flushed++)
		MUST(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_WR_FLUSH_ERR);
	exit(0);
}

int main(int argc, char **argv)
{
	struct rdma_cm_id *id;
	struct ibv_wc wc;

	MUST(argc >= 4);
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGCHLD, count_child);
	channel = rdma_create_event_channel();
	MUST(channel);
	id = !strcmp(argv[2], "server") ? serve(argv[3], strcmp(argv[1], "pending"))
					: connect_to(argv[3], argv[4], strcmp(argv[1], "asks"));
	printf("connected\n");
	if (!strcmp(argv[1], "stays"))
		stay(id);
	MUST(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	printf("ends at %" PRIu64 "\n", now());
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
		if (!strcmp(ways[i].name, argv[1]))
			ways[i].end();
	fail(__LINE__, argv[1]);
}
