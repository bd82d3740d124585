// SPDX-License-Identifier: BSD-2-Clause
/* cut ROUNDS [SEED]: in each round a victim and one that stays move 64 MiB between them, in one copy that one of them
 * makes: of a direct WRITE or READ, or to fetch a SEND. When the first quarter of it has come, the victim is killed: in
 * the middle of its copy if it makes it, or while the other copies out of its memory or into it. Memory is such that
 * local peers map it, or (as it may shrink) reach it by process_vm. There are as many rounds as it takes to cut copies
 * of each kind. The one that stays closes the connection in order, whatever has become of it, goes on with a third
 * process, and is left with no descriptor and no memory of the dead. */
#define _GNU_SOURCE
#include "survivor.h"

enum {
	SIZE = 64 << 20,
	QUARTER = SIZE / 4,
};

static const struct kind {
	const char *name;
	enum ibv_wr_opcode opcode;
	bool by_victim;
	bool into_victim;
	bool copied_by_victim;
} kinds[] = {
	{"the victim WRITEs", IBV_WR_RDMA_WRITE, true, false, true},
	{"the victim READs", IBV_WR_RDMA_READ, true, true, true},
	{"the victim SENDs", IBV_WR_SEND, true, false, false},
	{"the victim is written to", IBV_WR_RDMA_WRITE, false, true, false},
	{"the victim is read", IBV_WR_RDMA_READ, false, false, false},
	{"the victim is sent to", IBV_WR_SEND, false, true, true},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* What all see. */
static struct shared {
	uint32_t kind;
	bool seals; /* of the memory of this round: it cannot shrink */
	uint32_t round;
	volatile uint32_t over; /* in that round the request is complete, however */
	int cut[KINDS];
} * shared;
static struct {
	uint8_t *victim, *survivor;
} memory[2]; /* that can shrink, that cannot */

static uint8_t *new_memory(bool seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	uint8_t *at;

	MUST(fd >= 0 && !ftruncate(fd, SIZE) && (!seals || !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK)));
	at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	MUST(at != MAP_FAILED);
	return at; /* the descriptor stays, so that the memory is found */
}

static uint8_t *source(void)
{
	return kinds[shared->kind].into_victim ? memory[shared->seals].survivor : memory[shared->seals].victim;
}

static volatile uint8_t *destination(void)
{
	return kinds[shared->kind].into_victim ? memory[shared->seals].victim : memory[shared->seals].survivor;
}

/* An end whose region is that memory. */
static void open_end(struct rc *rc, const struct rc *base, uint8_t *at)
{
	enum {
		ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};

	rc_open(rc, base, 0, 64);
	/* 0.2 s in all: a victim that waits for a processor is not dead. With 1, 40 ms were not enough. */
	rc->timeout = 11;
	rc->retry_cnt = 7;
	ZERO(ibv_dereg_mr(rc->mr));
	free(rc->memory);
	rc->memory = NULL;
	MUST(rc->mr = ibv_reg_mr(rc->pd, at, SIZE, ALL));
	rc->me.address = (uintptr_t)at;
	rc->me.rkey = rc->mr->rkey;
}

/* Its status may be any: it is in time to succeed, or not; by UDP it fails where the other end waits for a processor
 * longer than it is retried. */
static void request(struct rc *rc)
{
	uint32_t round = shared->round;

	rc_post(rc, kinds[shared->kind].opcode, 0, 0, SIZE);
	rc_poll(rc);
	shared->over = round;
}

static void victim(int meets)
{
	int fd = call(VICTIM);
	const struct kind *k = &kinds[shared->kind];
	char byte;
	struct rc rc;

	open_end(&rc, NULL, memory[shared->seals].victim);
	for (int i = 0; i < 64; i++)
		rc_post_receive(&rc, 0, 64);
	MUST(meet(&rc, fd));
	for (int i = 0; i < 64; i++)
		MUST(rc_poll(&rc).status == IBV_WC_SUCCESS);
	if (!k->by_victim && k->opcode == IBV_WR_SEND)
		rc_post_receive(&rc, 0, SIZE);
	MUST(send(fd, "", 1, MSG_NOSIGNAL) == 1 && recv(fd, &byte, 1, 0) == 1);
	MUST(write(meets, "", 1) == 1);
	if (k->by_victim)
		request(&rc);
	for (;;)
		rc_poll(&rc);
}

/* ---- the one that stays ---- */

static void wait_for_end(struct rc *rc)
{
	char byte;

	while (recv(rc->tcp, &byte, 1, 0) > 0)
		;
}

static void episode(struct rc *base, int fd)
{
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	const struct kind *k = &kinds[shared->kind];
	bool receives = k->by_victim && k->opcode == IBV_WR_SEND;
	char byte;
	struct rc rc;

	open_end(&rc, base, memory[shared->seals].survivor);
	MUST(meet(&rc, fd));
	for (int i = 0; i < 64; i++) {
		rc_post(&rc, IBV_WR_SEND, 0, 0, 64);
		MUST(rc_poll(&rc).status == IBV_WC_SUCCESS);
	}
	if (receives)
		rc_post_receive(&rc, 0, SIZE);
	MUST(recv(fd, &byte, 1, 0) == 1 && send(fd, "", 1, MSG_NOSIGNAL) == 1);
	if (!k->by_victim)
		request(&rc);
	if (receives)
		ping(base); /* polls are not needed to fetch */
	wait_for_end(&rc);
	ZERO(ibv_modify_qp(rc.qp, &error, IBV_QP_STATE));
	if (receives)
		rc_poll(&rc);
	rc_close(&rc);
}

static void survivor(int listener, int expected)
{
	survive(listener, expected, 4096, episode);
	exit(0);
}

/* ---- the one that kills ---- */

static void one_round(void)
{
	const struct kind *k = &kinds[shared->kind];
	uint8_t mark = (uint8_t)(1 + dice(255));
	int meets;
	pid_t pid;
	char byte;

	shared->round++;
	memset(source(), mark, SIZE);
	memset((void *)destination(), 0, SIZE);
	pid = start(victim, &meets);
	MUST(read(meets, &byte, 1) == 1);
	while (destination()[QUARTER] != mark && shared->over != shared->round)
		;
	end(pid);
	close(meets);
	if (k->copied_by_victim && destination()[SIZE - 1] != mark && shared->over != shared->round)
		shared->cut[shared->kind]++;
}

static bool are_all_cut(void)
{
	for (size_t i = 0; i < KINDS; i++)
		if (kinds[i].copied_by_victim && !shared->cut[i])
			return false;
	return true;
}

int main(int argc, char **argv)
{
	struct party party;
	int rounds;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(shared != MAP_FAILED);
	for (int i = 0; i < 2; i++) {
		memory[i].victim = new_memory(i);
		memory[i].survivor = new_memory(i);
	}
	rounds = gather(&party, argc, argv, survivor);
	for (int i = 0; i < rounds || !are_all_cut(); i++) {
		shared->kind = (uint32_t)i % KINDS;
		shared->seals = i / KINDS % 2;
		one_round();
	}
	for (size_t i = 0; i < KINDS; i++)
		if (kinds[i].copied_by_victim)
			printf("%s: cut %d times\n", kinds[i].name, shared->cut[i]);
	disperse(&party);
	return 0;
}
