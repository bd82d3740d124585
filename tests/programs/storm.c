/* storm PROCESSES CONNECTIONS: so many processes, with a few connections each at a time, open and close so many in all to
 * this one, over loopback. Each has a queue pair at both ends. Prints "storm: N connections" when all have come and gone, and
 * nothing is left: descriptors as before, and no event but those that are due. SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(x) ((x) ? (void)0 : fail(__LINE__, #x))
#define AT_ONCE	 4
#define PER_PEER 10

static void fail(int line, const char *what)
{
	fprintf(stderr, "storm, process %d, line %d: %s: %s\n", getpid(), line, what, strerror(errno));
	exit(1);
}

static struct rdma_event_channel *channel;

static struct ibv_qp_init_attr attributes(void)
{
	return (struct ibv_qp_init_attr){.cap = {2, 2, 1, 1, 0}, .qp_type = IBV_QPT_RC};
}

static void destroy(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	MUST(!rdma_destroy_id(id));
}

/* ---- a client ---- */

static void begin(const struct sockaddr_in *to)
{
	struct rdma_cm_id *id;

	MUST(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	MUST(!rdma_resolve_addr(id, NULL, (struct sockaddr *)to, 5000));
}

static int follow(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status)
{
	struct rdma_conn_param p = {.retry_count = 7, .responder_resources = 1, .initiator_depth = 1};
	struct ibv_qp_init_attr a = attributes();

	switch (type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		MUST(!rdma_resolve_route(id, 5000));
		return 0;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		MUST(!rdma_create_qp(id, NULL, &a));
		MUST(!rdma_connect(id, &p));
		return 0;
	case RDMA_CM_EVENT_ESTABLISHED:
		MUST(!rdma_disconnect(id));
		return 0;
	case RDMA_CM_EVENT_DISCONNECTED:
		destroy(id);
		return 1;
	default:
		fprintf(stderr, "storm, a client: %s, status %d\n", rdma_event_str(type), status);
		exit(1);
	}
}

static void be_client(const struct sockaddr_in *to, int count)
{
	int begun = 0, ended = 0;

	MUST((channel = rdma_create_event_channel()));
	while (ended < count) {
		struct rdma_cm_event *e;
		struct rdma_cm_id *id;
		enum rdma_cm_event_type type;
		int status;

		for (; begun < count && begun - ended < AT_ONCE; begun++)
			begin(to);
		MUST(!rdma_get_cm_event(channel, &e));
		id = e->id;
		type = e->event;
		status = e->status;
		rdma_ack_cm_event(e);
		ended += follow(id, type, status);
	}
	rdma_destroy_event_channel(channel);
	exit(0);
}

/* ---- the server ---- */

static int descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (d && readdir(d))
		n++;
	closedir(d);
	return n;
}

static void accept_it(struct rdma_cm_id *id)
{
	struct rdma_conn_param p = {.responder_resources = 1, .initiator_depth = 1};
	struct ibv_qp_init_attr a = attributes();

	MUST(!rdma_create_qp(id, NULL, &a));
	MUST(!rdma_accept(id, &p));
}

static void serve(int total)
{
	int ended = 0;

	while (ended < total) {
		struct rdma_cm_event *e;
		struct rdma_cm_id *id;
		enum rdma_cm_event_type type;
		int status;

		MUST(!rdma_get_cm_event(channel, &e));
		id = e->id;
		type = e->event;
		status = e->status;
		rdma_ack_cm_event(e);
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			accept_it(id);
		} else if (type == RDMA_CM_EVENT_DISCONNECTED) {
			rdma_disconnect(id);
			destroy(id);
			ended++;
		} else if (type != RDMA_CM_EVENT_ESTABLISHED) {
			fprintf(stderr, "storm, the server: %s, status %d\n", rdma_event_str(type), status);
			exit(1);
		}
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int processes = argc > 2 ? atoi(argv[1]) : 0, count = argc > 2 ? atoi(argv[2]) : 0, before, start[2], bad = 0;
	struct rdma_cm_id *listener;

	if (processes < 1 || count < processes)
		return 2;
	count -= count % processes;
	MUST(!pipe(start));
	for (int i = 0; i < processes; i++) { /* before there are threads */
		if (fork() == 0) {
			close(start[1]);
			MUST(read(start[0], &a, sizeof(a)) == sizeof(a));
			be_client(&a, count / processes);
		}
	}
	MUST((channel = rdma_create_event_channel()));
	MUST(!rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP));
	MUST(!rdma_bind_addr(listener, (struct sockaddr *)&a));
	MUST(!rdma_listen(listener, 0));
	a.sin_port = rdma_get_src_port(listener);
	before = descriptors();
	for (int i = 0; i < processes; i++)
		MUST(write(start[1], &a, sizeof(a)) == sizeof(a));
	serve(count);
	for (int i = 0, status; i < processes; i++) {
		MUST(wait(&status) > 0);
		bad |= status;
	}
	/* some for each peer process, until it has seen all of them end; but none for each connection */
	if (descriptors() > before + PER_PEER * processes) {
		fprintf(stderr, "storm: %d descriptors, %d before\n", descriptors(), before);
		return 1;
	}
	MUST(!rdma_destroy_id(listener));
	rdma_destroy_event_channel(channel);
	if (!bad)
		printf("storm: %d connections\n", count);
	return bad != 0;
}
