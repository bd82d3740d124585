// SPDX-License-Identifier: BSD-2-Clause
/* check_across: one of several processes that access each other's memory, each step when it is told to. It writes the
 * QPN, rkey and address of each of its ends, then reads commands, a line each, and answers each with a line:
 *
 *     connect END QPN
 *     receive END
 *     write|read|send|add END ADDRESS RKEY     to or from 64 bytes there; not polled
 *     poll END                                 waits for one completion
 *     pause MILLISECONDS
 *
 * At the end of its input it gives back all. */
#include "pair.h"

#include <inttypes.h>
#include <unistd.h>

enum { ENDS = 3, LENGTH = 64, MESSAGES = 1024 };

static const struct {
	const char *name;
	enum ibv_wr_opcode opcode;
} posts[] = {
	{"write", IBV_WR_RDMA_WRITE},
	{"read", IBV_WR_RDMA_READ},
	{"send", IBV_WR_SEND},
	{"add", IBV_WR_ATOMIC_FETCH_AND_ADD},
};

static void post_to(struct end *e, enum ibv_wr_opcode opcode, uintptr_t address, uint32_t rkey)
{
	struct ibv_mr mr = {.rkey = rkey};
	const struct end to = {.memory = (char *)address, .mr = &mr};

	post(e, opcode, piece(e, 0, opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : LENGTH), &to, IBV_SEND_SIGNALED);
}

static void connect_to(struct pair *p, struct end *e, uint32_t qpn)
{
	struct ibv_qp qp = {.qp_num = qpn};

	end_connect(p, e, &(const struct end){.qp = &qp});
}

static void obey(struct pair *p, struct end *ends, const char *line)
{
	uint64_t number = 0;
	uint32_t rkey = 0;
	char word[16];
	unsigned at;

	MUST(sscanf(line, "%15s %u %" SCNu64 " %" SCNu32, word, &at, &number, &rkey) >= 2);
	if (!strcmp(word, "pause")) {
		usleep(at * 1000);
		return;
	}
	MUST(at < ENDS);
	if (!strcmp(word, "connect"))
		connect_to(p, &ends[at], (uint32_t)number);
	if (!strcmp(word, "receive"))
		receive(&ends[at], piece(&ends[at], MESSAGES, LENGTH));
	if (!strcmp(word, "poll"))
		MUST(await(&ends[at]).status == IBV_WC_SUCCESS);
	for (size_t i = 0; i < sizeof(posts) / sizeof(*posts); i++)
		if (!strcmp(word, posts[i].name))
			post_to(&ends[at], posts[i].opcode, number, rkey);
}

int main(void)
{
	const struct want want = {.cqe = 4 * DEPTH, .depth = DEPTH};
	struct end ends[ENDS];
	struct pair p;
	char line[80];

	context_open(&p);
	p.type = IBV_QPT_RC;
	for (int i = 0; i < ENDS; i++) {
		end_open(&p, &ends[i], &want);
		printf("%u %u %" PRIuPTR " ", ends[i].qp->qp_num, ends[i].mr->rkey, (uintptr_t)ends[i].memory);
	}
	printf("\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		obey(&p, ends, line);
		printf("done\n");
		fflush(stdout);
	}
	for (int i = 0; i < ENDS; i++)
		end_close(&ends[i]);
	context_close(&p);
	return 0;
}
