// SPDX-License-Identifier: BSD-2-Clause
/* The three programs of bench/flood, which says what they are for:
 *   serve ADDRESS             answers each message of one connection; has a plain UDP socket, too, which a thread
 * reads; refuses all other connections ping ADDRESS              connects; for each number of ms on standard input
 * prints round trips a second send SOURCE SOURCE-PORT TARGET TARGET-PORT RATE    sends the packets on standard input,
 * each after its length (two bytes), so many a second, round and round, until it is killed; without uroce */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MUST(x)	   ((x) ? (void)0 : fail(__LINE__, #x))
#define PLAIN_PORT 9999
#define CM_PORT	   18600
#define SIZE	   64
#define BATCH	   20

static void fail(int line, const char *what)
{
	fprintf(stderr, "flood, line %d: %s: %s\n", line, what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static struct sockaddr_in at(const char *address, int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

	MUST(inet_pton(AF_INET, address, &a.sin_addr) == 1);
	return a;
}

/* ---- the connection ---- */

static struct rdma_event_channel *channel;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static char memory[SIZE];

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr a = {.qp_type = IBV_QPT_RC, .cap = {16, 16, 1, 1, SIZE}};

	MUST(cq = ibv_create_cq(id->verbs, 64, NULL, NULL, 0));
	a.send_cq = a.recv_cq = cq;
	MUST(!rdma_create_qp(id, NULL, &a));
	MUST(mr = ibv_reg_mr(id->pd, memory, SIZE, IBV_ACCESS_LOCAL_WRITE));
}

static void post_receive(struct rdma_cm_id *id)
{
	struct ibv_sge sge = {(uintptr_t)memory, SIZE, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	MUST(!ibv_post_recv(id->qp, &wr, &bad));
}

static void post_send(struct rdma_cm_id *id)
{
	struct ibv_sge sge = {(uintptr_t)memory, SIZE, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	MUST(!ibv_post_send(id->qp, &wr, &bad));
}

/* Waits until as many messages have come. */
static void await_message(void)
{
	struct ibv_wc wc;
	int n;

	do {
		while (!(n = ibv_poll_cq(cq, 1, &wc)))
			;
		MUST(n == 1);
		if (wc.status) {
			fprintf(stderr, "flood: %s\n", ibv_wc_status_str(wc.status));
			exit(1);
		}
	} while (!(wc.opcode & IBV_WC_RECV));
}

static struct rdma_cm_event *await_event(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;

	MUST(!rdma_get_cm_event(channel, &e));
	if (e->event != type) {
		fprintf(stderr, "flood: %s, status %d\n", rdma_event_str(e->event), e->status);
		exit(1);
	}
	return e;
}

/* ---- the server ---- */

static void *read_plain(void *arg)
{
	int fd = *(int *)arg;
	char bytes[2048];

	while (recv(fd, bytes, sizeof(bytes), 0) >= 0)
		;
	return NULL;
}

static void *refuse_others(void *arg)
{
	struct rdma_cm_event *e;

	while (!rdma_get_cm_event(channel, &e)) {
		struct rdma_cm_id *id = e->id;
		bool asks = e->event == RDMA_CM_EVENT_CONNECT_REQUEST;

		rdma_ack_cm_event(e);
		if (asks) {
			rdma_reject(id, NULL, 0);
			rdma_destroy_id(id);
		}
	}
	return arg;
}

static void serve(const char *address)
{
	struct sockaddr_in here = at(address, CM_PORT), plain = at(address, PLAIN_PORT);
	struct rdma_conn_param p = {.rnr_retry_count = 7};
	struct rdma_cm_id *listener, *id;
	struct rdma_cm_event *e;
	static int fd;
	pthread_t thread;

	fd = socket(AF_INET, SOCK_DGRAM, 0);
	MUST(fd >= 0 && !bind(fd, (struct sockaddr *)&plain, sizeof(plain)));
	MUST(!pthread_create(&thread, NULL, read_plain, &fd));
	MUST((channel = rdma_create_event_channel()));
	MUST(!rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP));
	MUST(!rdma_bind_addr(listener, (struct sockaddr *)&here) && !rdma_listen(listener, 0));
	printf("listens\n");
	e = await_event(RDMA_CM_EVENT_CONNECT_REQUEST);
	id = e->id;
	make_qp(id);
	post_receive(id);
	MUST(!rdma_accept(id, &p));
	rdma_ack_cm_event(e);
	rdma_ack_cm_event(await_event(RDMA_CM_EVENT_ESTABLISHED));
	printf("qpn %u\n", id->qp->qp_num);
	MUST(!pthread_create(&thread, NULL, refuse_others, NULL));
	for (;;) {
		await_message();
		post_receive(id);
		post_send(id);
	}
}

/* ---- the client ---- */

static void ping(const char *address)
{
	struct sockaddr_in there = at(address, CM_PORT);
	struct rdma_conn_param p = {.retry_count = 7, .rnr_retry_count = 7};
	struct rdma_cm_id *id;
	int ms;

	MUST((channel = rdma_create_event_channel()));
	MUST(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	MUST(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&there, 2000));
	rdma_ack_cm_event(await_event(RDMA_CM_EVENT_ADDR_RESOLVED));
	MUST(!rdma_resolve_route(id, 2000));
	rdma_ack_cm_event(await_event(RDMA_CM_EVENT_ROUTE_RESOLVED));
	make_qp(id);
	MUST(!rdma_connect(id, &p));
	rdma_ack_cm_event(await_event(RDMA_CM_EVENT_ESTABLISHED));
	printf("connected\n");
	while (scanf("%d", &ms) == 1) {
		uint64_t begin = now_ns(), end = begin + (uint64_t)ms * 1000000, trips = 0, now;

		do {
			post_receive(id);
			post_send(id);
			await_message();
			trips++;
		} while ((now = now_ns()) < end);
		printf("rate %.1f\n", (double)trips * 1e9 / (double)(now - begin));
	}
}

/* ---- the flood ---- */

/* Up to `most` packets; returns their number. */
static unsigned read_packets(struct mmsghdr *m, unsigned most)
{
	unsigned n = 0;
	uint16_t size;

	for (; n < most && fread(&size, sizeof(size), 1, stdin) == 1; n++) {
		struct iovec *iov = calloc(1, sizeof(*iov));

		MUST(iov && (iov->iov_base = malloc(size)) && fread(iov->iov_base, size, 1, stdin) == 1);
		iov->iov_len = size;
		m[n] = (struct mmsghdr){.msg_hdr = {.msg_iov = iov, .msg_iovlen = 1}};
	}
	return n;
}

static void send_flood(char **word)
{
	enum { MOST = 1 << 16 };
	static struct mmsghdr m[MOST + BATCH];
	struct sockaddr_in from = at(word[0], atoi(word[1])), to = at(word[2], atoi(word[3]));
	int fd = socket(AF_INET, SOCK_DGRAM, 0), no_fragments = IP_PMTUDISC_DO, rate = atoi(word[4]);
	unsigned count = read_packets(m, MOST), next = 0;
	uint64_t begin = now_ns(), sent = 0;

	MUST(count >= BATCH && rate > 0);
	/* not connected, and without fragments: then the IP identification is 0, which the ICRC covers */
	MUST(!setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &no_fragments, sizeof(no_fragments)));
	MUST(!bind(fd, (struct sockaddr *)&from, sizeof(from)));
	for (unsigned i = 0; i < count; i++) {
		m[i].msg_hdr.msg_name = &to;
		m[i].msg_hdr.msg_namelen = sizeof(to);
	}
	printf("floods\n");
	for (;;) {
		uint64_t due = begin + sent * 1000000000 / (uint64_t)rate;
		struct timespec t = {(time_t)(due / 1000000000), (long)(due % 1000000000)};
		int n;

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
		n = sendmmsg(fd, m + next, BATCH < count - next ? BATCH : count - next, 0);
		MUST(n > 0 || errno == ECONNREFUSED || errno == ENOBUFS);
		sent += n > 0 ? (uint64_t)n : 1;
		next = (next + (unsigned)(n > 0 ? n : 1)) % count;
	}
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 3 && !strcmp(argv[1], "serve"))
		serve(argv[2]);
	else if (argc == 3 && !strcmp(argv[1], "ping"))
		ping(argv[2]);
	else if (argc == 7 && !strcmp(argv[1], "send"))
		send_flood(argv + 2);
	else
		fprintf(stderr, "usage: see the top of bench/flood.c\n");
	return 1;
}
