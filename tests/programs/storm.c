/* SPDX-License-Identifier: BSD-2-Clause */
/* storm PROCESSES CONNECTIONS [LOST [DEATHS]]: so many processes, with a few connections each at a time, open and close
 * so many in all to this one, over loopback. Each has a queue pair at both ends. Prints "storm: N connections" when all
 * have come and gone, and nothing is left: descriptors as before, and no event but those that are due. LOST: of 100
 * messages of connection management so many are lost. DEATHS: the server is killed so often, and another one takes its
 * port; what it had begun is begun anew. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(x)	 ((x) ? (void)0 : fail(__LINE__, #x))
#define AT_ONCE	 4
#define PER_PEER 10
#define ROCE	 4791

static void fail(int line, const char *what)
{
	fprintf(stderr, "storm, process %d, line %d: %s: %s\n", getpid(), line, what, strerror(errno));
	exit(1);
}

static struct rdma_event_channel *channel;
static int lost, deaths;

/* The sockets that the library has opened here lose MADs from now on: what comes for QP 1 is one. */
static void lose(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 8 + 5), /* behind the UDP header: the top two bytes of the QPN */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)(SKF_AD_OFF + SKF_AD_RANDOM)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (unsigned)(4294967295u / 100 * lost), 1, 0),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, 65535),
	};
	struct sock_fprog filter = {sizeof(code) / sizeof(code[0]), code};

	for (int fd = 0; lost && fd < 1024; fd++) {
		struct sockaddr_in a;
		socklen_t size = sizeof(a);

		if (!getsockname(fd, (struct sockaddr *)&a, &size) && a.sin_family == AF_INET &&
		    a.sin_port == htons(ROCE))
			MUST(!setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)));
	}
}

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

/* One more has ended as it should; or, with a server that dies, has to be begun again. */
static int end(struct rdma_cm_id *id, bool well, const struct sockaddr_in *to)
{
	destroy(id);
	if (!well)
		begin(to);
	return well;
}

static int follow(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status, const struct sockaddr_in *to)
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
		lose();
		return 0;
	case RDMA_CM_EVENT_ESTABLISHED:
		id->context = id;
		MUST(!rdma_disconnect(id));
		return 0;
	case RDMA_CM_EVENT_DISCONNECTED:
		return end(id, id->context, to);
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		if (deaths)
			return end(id, false, to);
		/* fall through */
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
		ended += follow(id, type, status, to);
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

static struct rdma_cm_id *listen_at(struct sockaddr_in *a)
{
	struct rdma_cm_id *listener;

	MUST((channel = rdma_create_event_channel()));
	MUST(!rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP));
	MUST(!rdma_bind_addr(listener, (struct sockaddr *)a));
	MUST(!rdma_listen(listener, 0));
	a->sin_port = rdma_get_src_port(listener);
	lose();
	return listener;
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
		} else if (type == RDMA_CM_EVENT_REJECTED && deaths) { /* asked for twice, of two servers */
			destroy(id);
		} else if (type != RDMA_CM_EVENT_ESTABLISHED) {
			fprintf(stderr, "storm, the server: %s, status %d\n", rdma_event_str(type), status);
			exit(1);
		}
	}
}

/* In this process. Some descriptors are kept for each peer process, until it has been seen to end; none for each
 * connection. */
static void stay(struct sockaddr_in *a, const int start[2], int processes, int count)
{
	struct rdma_cm_id *listener = listen_at(a);
	int before = descriptors();

	for (int i = 0; i < processes; i++)
		MUST(write(start[1], a, sizeof(*a)) == sizeof(*a));
	serve(count);
	for (int i = 0, status; i < processes; i++)
		MUST(wait(&status) > 0 && !status);
	if (descriptors() > before + PER_PEER * processes) {
		fprintf(stderr, "storm: %d descriptors, %d before\n", descriptors(), before);
		exit(1);
	}
	MUST(!rdma_destroy_id(listener));
	rdma_destroy_event_channel(channel);
}

static pid_t start_server(struct sockaddr_in *a, int count)
{
	int ready[2];
	pid_t pid;

	MUST(!pipe(ready));
	pid = fork();
	if (pid == 0) {
		listen_at(a);
		MUST(write(ready[1], a, sizeof(*a)) == sizeof(*a));
		serve(count);
		raise(SIGKILL);
	}
	MUST(pid > 0 && read(ready[0], a, sizeof(*a)) == sizeof(*a));
	close(ready[0]);
	close(ready[1]);
	return pid;
}

/* One server after another, each killed in the midst of what it does, soon enough that all are before the clients have
 * ended; the last one stays until then. */
static void die_often(struct sockaddr_in *a, const int start[2], int processes, int count)
{
	int before_death = count / (4 * deaths), died = 0;
	pid_t server = start_server(a, before_death);

	for (int i = 0; i < processes; i++)
		MUST(write(start[1], a, sizeof(*a)) == sizeof(*a));
	for (int clients = processes, status; clients;) {
		pid_t pid = wait(&status);

		if (pid == server) {
			MUST(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
			server = start_server(a, ++died < deaths ? before_death : INT32_MAX);
		} else {
			MUST(pid > 0 && !status);
			clients--;
		}
	}
	MUST(died == deaths);
	kill(server, SIGKILL);
	MUST(wait(NULL) == server);
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int processes = argc > 2 ? atoi(argv[1]) : 0, count = argc > 2 ? atoi(argv[2]) : 0, start[2];

	if (processes < 1 || count < processes)
		return 2;
	count -= count % processes;
	lost = argc > 3 ? atoi(argv[3]) : 0;
	deaths = argc > 4 ? atoi(argv[4]) : 0;
	MUST(!pipe(start));
	for (int i = 0; i < processes; i++) { /* before there are threads */
		if (fork() == 0) {
			close(start[1]);
			MUST(read(start[0], &a, sizeof(a)) == sizeof(a));
			be_client(&a, count / processes);
		}
	}
	(deaths ? die_often : stay)(&a, start, processes, count);
	printf("storm: %d connections\n", count);
	return 0;
}
