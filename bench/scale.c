// SPDX-License-Identifier: BSD-2-Clause
/* scale QPS PROCESSES: what many connections cost. As many processes, each connected to each other by as many
 * RC queue pairs; the first two exchange messages, on all pairs that they share in turn, while the others
 * sleep. Prints "name value" lines: the first process's memory per queue pair in KiB (its share of what is
 * shared), half a round trip of a SEND and the time of a WRITE until its completion is polled in us, medians,
 * million SENDs a second, and us to create and connect a queue pair, its receives posted, and to destroy it. Plain
 * libibverbs. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plain.h"

enum {
	SIZE = 64,
	WINDOW = 256,	 /* messages under way, on all pairs together: half of it is acknowledged by one message
			  */
	LEAST_DEPTH = 8, /* of a queue */
	PINGS = 1 << 16,
	SENDS = 1 << 20,
	PROCESSES = 64,
};

/* What the processes tell each other. */
struct board {
	pthread_barrier_t barrier;
	struct {
		uint64_t address;
		uint32_t rkey;
	} memory[PROCESSES];
	uint32_t qpn[]; /* of each process, to each other, of each pair */
};

static struct board *board;
static uint32_t qps, processes, me, depth;

static struct plain plain;
static struct ibv_qp **qp; /* to each process, of each pair */
static _Alignas(4096) char memory[4096];

static double now(void)
{
	return (double)now_ns() / 1e3;
}

static uint32_t *qpn_of(uint32_t process, uint32_t other, uint32_t i)
{
	return &board->qpn[(process * processes + other) * qps + i];
}

static void receive(struct ibv_qp *q)
{
	struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = SIZE, .lkey = plain.mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = (uintptr_t)q, .sg_list = &sge, .num_sge = 1};

	need(!ibv_post_recv(q, &wr, &bad), "ibv_post_recv");
}

static uint32_t arrived[IBV_WC_RECV + 1]; /* completions that nobody has waited for yet, by what was done */

/* One completion, whose receive, if it was one, is posted again. */
static void complete(void)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(plain.cq, 1, &wc)))
		;
	need(n == 1, "ibv_poll_cq");
	need(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
	if (wc.opcode == IBV_WC_RECV)
		receive((struct ibv_qp *)(uintptr_t)wc.wr_id);
	arrived[wc.opcode]++;
}

static void wait_for(enum ibv_wc_opcode opcode)
{
	while (!arrived[opcode])
		complete();
	arrived[opcode]--;
}

/* That a message was answered does not say that it was acknowledged: until then it has its place in the queue. */
static void post(struct ibv_qp *q, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)memory, .length = opcode == IBV_WR_SEND ? SIZE : 8, .lkey = plain.mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = opcode,
				       .send_flags = IBV_SEND_SIGNALED,
				       .wr.rdma = {board->memory[!me].address + SIZE, board->memory[!me].rkey}};
	int error;

	while ((error = ibv_post_send(q, &wr, &bad)) == ENOMEM)
		complete();
	errno = error;
	need(!error, "ibv_post_send");
}

/* ---- setting up ---- */

static void open_device(void)
{
	plain = plain_open(8 * WINDOW, memory, sizeof(memory));
	board->memory[me].address = (uintptr_t)memory;
	board->memory[me].rkey = plain.mr->rkey;
}

/* us for each queue pair, the wait for the others included. */
static double connect_all(void)
{
	double begin = now();

	qp = calloc(processes * qps, sizeof(struct ibv_qp *));
	need(qp, "calloc");
	for (uint32_t p = 0; p < processes; p++)
		for (uint32_t i = 0; p != me && i < qps; i++) {
			struct ibv_qp *q = qp[p * qps + i] = plain_qp(&plain, depth, depth);

			*qpn_of(me, p, i) = q->qp_num;
		}
	pthread_barrier_wait(&board->barrier);
	for (uint32_t p = 0; p < processes; p++)
		for (uint32_t i = 0; p != me && i < qps; i++) {
			struct ibv_qp *q = qp[p * qps + i];

			plain_connect(&plain, q, *qpn_of(p, me, i));
			for (uint32_t n = 0; n < depth; n++)
				receive(q);
		}
	pthread_barrier_wait(&board->barrier);
	return (now() - begin) / ((processes - 1) * qps);
}

static double destroy_all(void)
{
	double begin = now();

	for (uint32_t i = 0; i < processes * qps; i++)
		if (qp[i])
			need(!ibv_destroy_qp(qp[i]), "ibv_destroy_qp");
	return (now() - begin) / ((processes - 1) * qps);
}

/* ---- measuring ---- */

static struct ibv_qp *turn_of(uint32_t n)
{
	return qp[!me * qps + n % qps];
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *sample, uint32_t count)
{
	qsort(sample, count, sizeof(*sample), compare);
	return sample[count / 2];
}

/* Both ends answer each other's message, on pair after pair from `first` on; us for half a round trip, the
 * median. */
static double ping_pong(uint32_t first, uint32_t pairs, uint32_t count)
{
	static double sample[PINGS];

	for (uint32_t n = 0; n < count; n++) {
		struct ibv_qp *q = turn_of(first + n % pairs);
		double begin = now();

		if (me)
			wait_for(IBV_WC_RECV);
		post(q, IBV_WR_SEND);
		if (!me)
			wait_for(IBV_WC_RECV);
		sample[n] = (now() - begin) / 2;
	}
	return median(sample, count);
}

static double write_latency(void)
{
	static double sample[PINGS];

	for (uint32_t n = 0; n < PINGS; n++) {
		double begin = now();

		post(turn_of(n), IBV_WR_RDMA_WRITE);
		wait_for(IBV_WC_RDMA_WRITE);
		sample[n] = now() - begin;
	}
	return median(sample, PINGS);
}

/* Million messages a second. The receiver answers every half window. */
static double send_rate(void)
{
	double begin = now();

	for (uint32_t n = 1; n <= SENDS; n++) {
		if (me)
			wait_for(IBV_WC_RECV);
		else
			post(turn_of(n), IBV_WR_SEND);
		if (n % (WINDOW / 2))
			continue;
		if (me)
			post(turn_of(n), IBV_WR_SEND);
		else if (n > WINDOW / 2)
			wait_for(IBV_WC_RECV);
	}
	if (!me)
		wait_for(IBV_WC_RECV);
	return SENDS / (now() - begin);
}

static void measure(double before)
{
	double in_turn, one;

	ping_pong(0, qps, qps); /* so that all have found the fastest way */
	ping_pong(0, 1, 1000);
	one = ping_pong(0, 1, PINGS);
	in_turn = ping_pong(0, qps, PINGS);
	double rate = send_rate();
	if (me)
		return;
	printf("memory %.1f\n", (memory_in_use() - before) / ((processes - 1) * qps));
	printf("send_one %.3f\nsend %.3f\nwrite %.3f\nrate %.2f\n", one, in_turn, write_latency(), rate);
}

static void pin(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(me % 2, &set);
	sched_setaffinity(0, sizeof(set), &set); /* if there is but one, so be it */
}

static void process(void)
{
	double before, connected, destroyed;

	pin();
	open_device();
	before = memory_in_use();
	connected = connect_all();
	if (me < 2)
		measure(before);
	pthread_barrier_wait(&board->barrier);
	destroyed = destroy_all();
	if (!me)
		printf("connect %.2f\ndestroy %.2f\n", connected, destroyed);
	exit(0);
}

static void make_board(void)
{
	pthread_barrierattr_t shared;

	board = mmap(NULL, sizeof(*board) + sizeof(uint32_t) * processes * processes * qps, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	need(board != MAP_FAILED, "mmap");
	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&board->barrier, &shared, processes);
}

int main(int argc, char **argv)
{
	int status, failed = 0;

	qps = argc == 3 ? (uint32_t)atoi(argv[1]) : 0;
	processes = argc == 3 ? (uint32_t)atoi(argv[2]) : 0;
	if (qps < 1 || processes < 2 || processes > PROCESSES) {
		fprintf(stderr, "usage: scale QPS PROCESSES\n");
		return 2;
	}
	depth = 4 * WINDOW / qps;
	if (depth < LEAST_DEPTH)
		depth = LEAST_DEPTH;
	make_board();
	start_processes(&me, processes, process);
	while (wait(&status) > 0)
		failed |= status;
	return failed ? 1 : 0;
}
