// SPDX-License-Identifier: BSD-2-Clause
/* What single calls cost: an ordinary verbs program, built with -libverbs, that connects two queue pairs of
 * its own to each other.
 *
 * verbs cost: prints "name ns" lines: post_send of a request that may wait for more (the connection is busy), post_send
 * to an idle connection (which sends at once), poll_cq of an empty CQ while nothing is under way, and poll_cq per
 * completion found. verbs idle: connects, moves one message, prints "idle", and sleeps until its input ends. verbs
 * open: prints how long it takes, in ns, to open the first device with a PD, a CQ and a region, and then to create and
 * connect two queue pairs. */
#include <string.h>
#include <unistd.h>

#include "plain.h"

enum {
	DEPTH = 1024,
	BURST = 32, /* requests posted one by one behind one that is on its way */
	ROUNDS = 2000,
	SIZE = 64,
};

static struct plain plain;
static struct ibv_qp *qp[2];
static char memory[2 * SIZE];

static void connect_both(void)
{
	for (int i = 0; i < 2; i++)
		qp[i] = plain_qp(&plain, DEPTH, 1);
	for (int i = 0; i < 2; i++)
		plain_connect(&plain, qp[i], qp[!i]->qp_num);
}

static void set_up(void)
{
	plain = plain_open(2 * DEPTH, memory, sizeof(memory));
	connect_both();
}

static void post(bool signaled)
{
	struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = SIZE, .lkey = plain.mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_RDMA_WRITE,
				       .send_flags = signaled ? IBV_SEND_SIGNALED : 0,
				       .wr.rdma = {.remote_addr = (uintptr_t)memory + SIZE, .rkey = plain.mr->rkey}};

	need(!ibv_post_send(qp[0], &wr, &bad), "ibv_post_send");
}

static void complete(int count)
{
	struct ibv_wc wc[BURST];

	while (count > 0) {
		int n = ibv_poll_cq(plain.cq, count < BURST ? count : BURST, wc); /* no more than were asked for */

		need(n >= 0, "ibv_poll_cq");
		for (int i = 0; i < n; i++)
			need(wc[i].status == IBV_WC_SUCCESS, ibv_wc_status_str(wc[i].status));
		count -= n;
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void report(const char *name, uint64_t *sample, double divisor)
{
	qsort(sample, ROUNDS, sizeof(*sample), compare);
	printf("%s %.1f\n", name, (double)sample[ROUNDS / 2] / divisor);
}

static void cost(void)
{
	static uint64_t first[ROUNDS], more[ROUNDS], found[ROUNDS], empty[ROUNDS], clock_reads[ROUNDS];
	struct ibv_wc wc[BURST];

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t t[6];

		t[0] = now_ns();
		post(true);
		t[1] = now_ns();
		for (int i = 0; i < BURST; i++)
			post(i == BURST - 1);
		t[2] = now_ns();
		complete(2);
		/* One acknowledgement completes the whole train: once the first has come, the others lie
		 * there. */
		for (int i = 0; i < BURST; i++)
			post(true);
		complete(1);
		t[3] = now_ns();
		int n = ibv_poll_cq(plain.cq, BURST, wc);
		t[4] = now_ns();
		complete(BURST - 1 - n);
		t[5] = now_ns();
		clock_reads[round] = now_ns() - t[5];
		first[round] = t[1] - t[0];
		more[round] = t[2] - t[1];
		found[round] = n > 0 ? (t[4] - t[3]) * 100 / (uint64_t)n : 0;
		uint64_t begin = now_ns();
		for (int i = 0; i < BURST; i++)
			ibv_poll_cq(plain.cq, 1, wc);
		empty[round] = now_ns() - begin;
	}
	report("post_send,idle", first, 1);
	report("post_send,busy", more, BURST);
	report("poll_cq,empty", empty, BURST);
	report("poll_cq,found", found, 100);
	report("clock", clock_reads, 1);
}

static void idle(void)
{
	char end;

	post(true);
	complete(1);
	puts("idle");
	fflush(stdout);
	while (read(STDIN_FILENO, &end, 1) > 0)
		;
}

static void opening(void)
{
	uint64_t begin = now_ns(), opened;

	plain = plain_open(2 * DEPTH, memory, sizeof(memory));
	opened = now_ns();
	connect_both();
	printf("open %llu\nconnect %llu\n", (unsigned long long)(opened - begin),
	       (unsigned long long)(now_ns() - opened));
}

int main(int argc, char **argv)
{
	const char *what = argc == 2 ? argv[1] : "";
	bool is_idle = strcmp(what, "idle") == 0;

	if (strcmp(what, "open") == 0) {
		opening();
		return 0;
	}
	if (!is_idle && strcmp(what, "cost") != 0) {
		fprintf(stderr, "usage: verbs cost | idle | open\n");
		return 2;
	}
	set_up();
	(is_idle ? idle : cost)();
	return 0;
}
