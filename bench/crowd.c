// SPDX-License-Identifier: BSD-2-Clause
/* crowd PROCESSES QPS [NAMESPACE]: what many processes of one host cost. As many of them, each with as many RC queue
 * pairs to others at random, or one to each of the others if there are as many; with NAMESPACE the first is in the
 * network namespace NAMESPACE0, the next in NAMESPACE1 and so on (ip-netns(8)), whose devices can reach each other. All
 * exchange messages on all pairs, asleep until one comes; then two of them exchange messages while the others sleep.
 * Prints "name value" lines: s to open all devices, to connect all queue pairs, to destroy them and to close the
 * devices; memory of a process in KiB (its share of what is shared); us for a message in the exchange of all; half a
 * round trip of a SEND of the two in us, the median, and million SENDs a second. Whatever is not as it must be ends it.
 * Plain libibverbs. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plain.h"

enum {
	PROCESSES = 2000,
	QPS = 128,
	SIZE = 64,
	DEPTH = 64,  /* of a queue */
	ROUNDS = 16, /* messages to each peer in the exchange of all */
	PINGS = 20000,
	SENDS = 500000,
};

/* What the processes tell each other. */
struct board {
	pthread_barrier_t barrier;
	struct {
		uint16_t process, qp; /* the other end of each queue pair */
		uint32_t qpn;
	} end[PROCESSES][QPS];
	union ibv_gid gid[PROCESSES];
	double memory[PROCESSES];
};

static struct board *board;
static uint32_t qps, processes, me;
static const char *namespace; /* NULL: all are in this one */

static struct plain plain;
static struct ibv_comp_channel *channel;
static struct ibv_qp *qp[QPS];
static struct message {
	uint32_t from, qp;
	char more[SIZE - 8];
} * memory; /* the receives of each queue pair, then what each sends */

static double now(void)
{
	return (double)now_ns() / 1e9;
}

/* The others do the same. When the last one is here; s. */
static double meet(void)
{
	pthread_barrier_wait(&board->barrier);
	return now();
}

/* ---- messages ---- */

static void receive(uint32_t q, uint32_t n)
{
	struct ibv_sge sge = {.addr = (uintptr_t)&memory[q * DEPTH + n], .length = SIZE, .lkey = plain.mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = q * DEPTH + n, .sg_list = &sge, .num_sge = 1};

	need(!ibv_post_recv(qp[q], &wr, &bad), "ibv_post_recv");
}

static uint32_t arrived, sent;

/* Takes all that has come. */
static void take(void)
{
	struct ibv_wc wc[16];
	int n;

	while ((n = ibv_poll_cq(plain.cq, 16, wc))) {
		need(n > 0, "ibv_poll_cq");
		for (int i = 0; i < n; i++) {
			const struct message *m = &memory[wc[i].wr_id];
			uint32_t q = wc[i].wr_id / DEPTH;

			need(wc[i].status == IBV_WC_SUCCESS, ibv_wc_status_str(wc[i].status));
			if (wc[i].opcode != IBV_WC_RECV) {
				sent++;
				continue;
			}
			need(m->from == board->end[me][q].process && m->qp == board->end[me][q].qp,
			     "the message of another process");
			receive(q, wc[i].wr_id % DEPTH);
			arrived++;
		}
	}
}

static void post(uint32_t q, int flags)
{
	struct message *m = &memory[qps * DEPTH + q];
	struct ibv_sge sge = {.addr = (uintptr_t)m, .length = SIZE, .lkey = plain.mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = flags};

	need(!ibv_post_send(qp[q], &wr, &bad), "ibv_post_send");
}

/* Sleeps until so many messages have come and have been sent. */
static void await(uint32_t messages, uint32_t sends)
{
	struct ibv_cq *cq;
	void *context;

	take();
	while (arrived < messages || sent < sends) {
		need(!ibv_req_notify_cq(plain.cq, 0), "ibv_req_notify_cq");
		take();
		if (arrived >= messages && sent >= sends)
			return; /* the event that may come is taken the next time */
		need(!ibv_get_cq_event(channel, &cq, &context), "ibv_get_cq_event");
		ibv_ack_cq_events(cq, 1);
		take();
	}
}

static void exchange(void)
{
	for (uint32_t n = 1; n <= ROUNDS; n++) {
		for (uint32_t q = 0; q < qps; q++)
			post(q, IBV_SEND_SIGNALED);
		await(n * qps, n * qps);
	}
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void poll_for(uint32_t *count, uint32_t value)
{
	while (*count < value)
		take();
}

/* On the first queue pair of the first process. us */
static double ping_pong(void)
{
	static double sample[PINGS];
	uint32_t q = me ? board->end[0][0].qp : 0, had = arrived;

	for (uint32_t n = 0; n < PINGS; n++) {
		double begin = now();

		if (me)
			poll_for(&arrived, had + n + 1);
		post(q, IBV_SEND_SIGNALED);
		if (!me)
			poll_for(&arrived, had + n + 1);
		sample[n] = (now() - begin) * 1e6 / 2;
	}
	qsort(sample, PINGS, sizeof(*sample), compare);
	return sample[PINGS / 2];
}

/* Million messages a second, half a queue at a time. */
static double send_rate(void)
{
	uint32_t q = me ? board->end[0][0].qp : 0, had = arrived, done = sent;
	double begin = now();

	for (uint32_t n = 1; n <= SENDS / (DEPTH / 2); n++) {
		for (int i = 0; i < DEPTH / 2 && !me; i++)
			post(q, IBV_SEND_SIGNALED);
		if (me) {
			poll_for(&arrived, had + n * (DEPTH / 2));
			post(q, IBV_SEND_SIGNALED);
		} else {
			poll_for(&arrived, had + n);
			poll_for(&sent, done + n * (DEPTH / 2));
		}
	}
	return SENDS / (now() - begin) / 1e6;
}

/* ---- a process ---- */

static void enter_namespace(void)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "/run/netns/%s%u", namespace, me);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	need(fd >= 0 && !setns(fd, CLONE_NEWNET), path);
	close(fd);
}

static void open_device(void)
{
	size_t size = qps * (DEPTH + 1) * sizeof(*memory);

	memory = aligned_alloc(4096, (size + 4095) & ~4095ul);
	need(memory, "aligned_alloc");
	for (uint32_t q = 0; q < qps; q++)
		memory[qps * DEPTH + q] = (struct message){.from = me, .qp = q};
	plain = plain_open((int)(qps * 2 * DEPTH), memory, size);
	board->gid[me] = plain.gid;
	need(!ibv_destroy_cq(plain.cq), "ibv_destroy_cq");
	channel = ibv_create_comp_channel(plain.pd->context);
	need(channel, "ibv_create_comp_channel");
	plain.cq = ibv_create_cq(plain.pd->context, (int)(qps * 2 * DEPTH), NULL, channel, 0);
	need(plain.cq, "ibv_create_cq");
}

static void connect_all(void)
{
	for (uint32_t q = 0; q < qps; q++) {
		qp[q] = plain_qp(&plain, DEPTH, DEPTH);
		board->end[me][q].qpn = qp[q]->qp_num;
	}
	meet();
	for (uint32_t q = 0; q < qps; q++) {
		uint32_t peer = board->end[me][q].process;

		plain_connect_to(qp[q], board->end[peer][board->end[me][q].qp].qpn, board->gid[peer]);
		for (uint32_t n = 0; n < DEPTH; n++)
			receive(q, n);
	}
}

static void close_device(void)
{
	struct ibv_context *context = plain.pd->context;

	need(!ibv_destroy_cq(plain.cq), "ibv_destroy_cq");
	need(!ibv_destroy_comp_channel(channel), "ibv_destroy_comp_channel");
	need(!ibv_dereg_mr(plain.mr), "ibv_dereg_mr");
	need(!ibv_dealloc_pd(plain.pd), "ibv_dealloc_pd");
	need(!ibv_close_device(context), "ibv_close_device");
}

static void say(const char *name, double value)
{
	if (!me)
		printf("%s %.3f\n", name, value);
	fflush(stdout);
}

static void two(void)
{
	bool takes_part = !me || me == board->end[0][0].process;
	double latency = 0, rate = 0;
	cpu_set_t set;

	if (takes_part) {
		CPU_ZERO(&set);
		CPU_SET(me ? 1 : 0, &set);
		sched_setaffinity(0, sizeof(set), &set); /* if there is but one, so be it */
		ping_pong();
		latency = ping_pong();
		rate = send_rate();
		if (!me) /* what is still under way */
			poll_for(&sent, ROUNDS * qps + 2 * PINGS + SENDS / (DEPTH / 2) * (DEPTH / 2));
	}
	say("send", latency);
	say("rate", rate);
}

static void process(void)
{
	double begin, end;

	if (namespace)
		enter_namespace();
	begin = meet();
	open_device();
	say("open", (end = meet()) - begin);
	connect_all();
	begin = end;
	say("connect", (end = meet()) - begin);
	begin = end;
	exchange();
	say("exchange", ((end = meet()) - begin) * 1e6 / (ROUNDS * qps * processes));
	board->memory[me] = memory_in_use();
	meet();
	for (uint32_t i = 1; i < processes; i++)
		board->memory[0] += me ? 0 : board->memory[i];
	say("memory", board->memory[0] / processes);
	two();
	begin = meet();
	for (uint32_t q = 0; q < qps; q++)
		need(!ibv_destroy_qp(qp[q]), "ibv_destroy_qp");
	say("destroy", (end = meet()) - begin);
	close_device();
	say("close", meet() - end);
	exit(0);
}

static void pair(uint32_t a, uint32_t b, uint32_t q)
{
	board->end[a][q].process = (uint16_t)b;
	board->end[b][q].process = (uint16_t)a;
	board->end[a][q].qp = board->end[b][q].qp = (uint16_t)q;
}

/* Of a tournament in which each meets each: the last one stays, and the others go round. */
static void pair_round(uint32_t q)
{
	uint32_t others = processes - 1;

	pair(others, q, q);
	for (uint32_t i = 1; i < processes / 2; i++)
		pair((q + i) % others, (q + others - i) % others, q);
}

static void pair_at_random(uint32_t q)
{
	static uint16_t order[PROCESSES];

	for (uint32_t i = 0; i < processes; i++) {
		uint32_t at = (uint32_t)rand() % (i + 1);

		order[i] = order[at];
		order[at] = (uint16_t)i;
	}
	for (uint32_t i = 0; i < processes; i += 2)
		pair(order[i], order[i + 1], q);
}

/* Each queue pair is of one of `qps` pairings. */
static void make_board(void)
{
	pthread_barrierattr_t shared;

	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	need(board != MAP_FAILED, "mmap");
	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&board->barrier, &shared, processes);
	srand(1);
	for (uint32_t q = 0; q < qps; q++)
		if (qps == processes - 1)
			pair_round(q);
		else
			pair_at_random(q);
}

int main(int argc, char **argv)
{
	int status, failed = 0;

	processes = argc >= 3 && argc <= 4 ? (uint32_t)atoi(argv[1]) : 0;
	qps = argc >= 3 ? (uint32_t)atoi(argv[2]) : 0;
	namespace = argc == 4 ? argv[3] : NULL;
	if (processes < 2 || processes > PROCESSES || processes % 2 || qps < 1 || qps > QPS) {
		fprintf(stderr, "usage: crowd PROCESSES QPS [NAMESPACE]: an even number to %d, and a number to %d\n",
			PROCESSES, QPS);
		return 2;
	}
	make_board();
	start_processes(&me, processes, process);
	/* one that fails leaves the others at the barrier: they end with this process */
	while (!failed && wait(&status) > 0)
		failed = status;
	return failed ? 1 : 0;
}
