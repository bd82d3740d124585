// SPDX-License-Identifier: BSD-2-Clause
/* Two processes that sleep between messages: half a round trip of 64 bytes.
 *
 *   asleep WAY [ROUNDS]
 *
 * Ways of an event loop that waits for a completion channel's descriptor: poll, select, epoll, edge (EPOLLET,
 * O_NONBLOCK); get: in ibv_get_cq_event(). Yardsticks, in poll(): eventfd, tcp (over loopback). The ends run on CPUs 0
 * and 1. Prints the median and the 99th percentile in us. */
#include <arpa/inet.h>
#include <sched.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <signal.h>
#include <unistd.h>

#include "plain.h"

enum { SIZE = 64, SIGNALED = 16, DEPTH = 64, WARM = 10 /* percent */ };

static int rounds = 5000, fd_in = -1, fd_out = -1, epfd = -1, talk;

/* ---- the ways to sleep ---- */

static void sleep_poll(void)
{
	struct pollfd p = {.fd = fd_in, .events = POLLIN};

	need(poll(&p, 1, -1) == 1, "poll");
}

static void sleep_select(void)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd_in, &set);
	need(select(fd_in + 1, &set, NULL, NULL, NULL) == 1, "select");
}

static void sleep_epoll(void)
{
	struct epoll_event e;

	need(epoll_wait(epfd, &e, 1, -1) == 1, "epoll_wait");
}

static void sleep_not(void)
{
}

static const struct way {
	const char *name;
	void (*sleep)(void);
	uint32_t epoll; /* events; 0: no epoll instance */
} ways[] = {{"poll", sleep_poll, 0},
	    {"select", sleep_select, 0},
	    {"epoll", sleep_epoll, EPOLLIN},
	    {"edge", sleep_epoll, EPOLLIN | EPOLLET},
	    {"get", sleep_not, 0}};
static const struct way *chosen = &ways[0];

/* ---- the yardsticks ---- */

static char buffer[SIZE];

static void plain_send(size_t size)
{
	memset(buffer, 1, sizeof(buffer)); /* an eventfd counts it */
	need(write(fd_out, buffer, size) == (ssize_t)size, "write");
}

static void eventfd_pass(bool send)
{
	if (send)
		plain_send(sizeof(uint64_t));
	else
		need((sleep_poll(), read(fd_in, buffer, sizeof(buffer))) == sizeof(uint64_t), "read");
}

static void tcp_pass(bool send)
{
	if (send)
		plain_send(SIZE);
	else
		need((sleep_poll(), read(fd_in, buffer, SIZE)) == SIZE, "read");
}

/* ---- verbs ---- */

static struct plain plain;
static struct ibv_comp_channel *channel;
static struct ibv_cq *receive_cq;
static struct ibv_qp *qp;

static void post_receive(void)
{
	struct ibv_sge sge = {.addr = (uintptr_t)buffer, .length = SIZE, .lkey = plain.mr->lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

	need(!ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
}

static void verbs_send(void)
{
	static int sent;
	bool signaled = ++sent % SIGNALED == 0;
	struct ibv_sge sge = {.addr = (uintptr_t)buffer, .length = SIZE, .lkey = plain.mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_INLINE | (signaled ? IBV_SEND_SIGNALED : 0)};
	struct ibv_wc wc;

	ibv_poll_cq(plain.cq, 1, &wc);
	need(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
}

static void verbs_receive(void)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	for (;;) {
		chosen->sleep();
		if (ibv_get_cq_event(channel, &cq, &context))
			continue; /* O_NONBLOCK */
		ibv_ack_cq_events(cq, 1);
		need(!ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
		if (ibv_poll_cq(cq, 1, &wc) == 1)
			break;
	}
	need(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
	post_receive();
}

static void verbs_pass(bool send)
{
	if (send)
		verbs_send();
	else
		verbs_receive();
}

static void verbs_open(void)
{
	uint32_t other = 0;
	struct epoll_event e;

	plain = plain_open(DEPTH, buffer, sizeof(buffer));
	channel = ibv_create_comp_channel(plain.pd->context);
	need(channel, "ibv_create_comp_channel");
	receive_cq = ibv_create_cq(plain.pd->context, DEPTH, NULL, channel, 0);
	struct ibv_qp_init_attr init = {.send_cq = plain.cq,
					.recv_cq = receive_cq,
					.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = DEPTH,
						.max_recv_wr = 4,
						.max_send_sge = 1,
						.max_recv_sge = 1,
						.max_inline_data = SIZE}};
	qp = ibv_create_qp(plain.pd, &init);
	need(receive_cq && qp, "ibv_create_qp");
	fd_in = channel->fd;
	if (chosen->epoll & EPOLLET)
		need(!fcntl(fd_in, F_SETFL, O_NONBLOCK), "fcntl");
	if (chosen->epoll) {
		epfd = epoll_create1(EPOLL_CLOEXEC);
		e = (struct epoll_event){.events = chosen->epoll};
		need(!epoll_ctl(epfd, EPOLL_CTL_ADD, fd_in, &e), "epoll_ctl");
	}
	need(write(talk, &qp->qp_num, 4) == 4 && read(talk, &other, 4) == 4, "QPN");
	plain_connect(&plain, qp, other);
	post_receive();
	need(!ibv_req_notify_cq(receive_cq, 0), "ibv_req_notify_cq");
	need(write(talk, &other, 4) == 4 && read(talk, &other, 4) == 4, "ready");
}

/* ---- the ping-pong ---- */

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void play(bool first, void (*pass)(bool send))
{
	uint64_t *sample = calloc((size_t)rounds, sizeof(*sample)), begin;
	int warm = rounds * WARM / 100;

	for (int i = 0; i < rounds; i++) {
		begin = now_ns();
		pass(first);
		pass(!first);
		sample[i] = now_ns() - begin;
	}
	if (!first)
		return;
	qsort(sample + warm, (size_t)(rounds - warm), sizeof(*sample), compare);
	printf("%.2f %.2f\n", (double)sample[warm + (rounds - warm) / 2] / 2000,
	       (double)sample[warm + (rounds - warm) * 99 / 100] / 2000);
}

static void stay(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set); /* one processor only: then it stays where it is */
}

static void tcp_pair(int fd[2])
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	need(!bind(listener, (void *)&at, length) && !listen(listener, 1) &&
		     !getsockname(listener, (void *)&at, &length),
	     "listen");
	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	need(!connect(fd[0], (void *)&at, length), "connect");
	fd[1] = accept(listener, NULL, NULL);
	for (int i = 0; i < 2; i++)
		setsockopt(fd[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

int main(int argc, char **argv)
{
	void (*pass)(bool) = verbs_pass;
	int sockets[2], fd[2] = {-1, -1}, side;

	const char *way = argc > 1 ? argv[1] : "poll";

	rounds = argc > 2 ? atoi(argv[2]) : rounds;
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!strcmp(ways[i].name, way))
			chosen = &ways[i];
	if (!strcmp(way, "eventfd")) {
		pass = eventfd_pass;
		fd[0] = eventfd(0, 0);
		fd[1] = eventfd(0, 0);
	} else if (!strcmp(way, "tcp")) {
		pass = tcp_pass;
		tcp_pair(fd);
	}
	need(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
	side = fork() == 0;
	if (side)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	stay(side);
	talk = sockets[side];
	fd_in = fd[side];
	fd_out = pass == eventfd_pass ? fd[!side] : fd[side];
	if (pass == verbs_pass)
		verbs_open();
	play(!side, pass);
	need(write(talk, "", 1) == 1 && read(talk, buffer, 1) == 1, "end");
	return 0;
}
