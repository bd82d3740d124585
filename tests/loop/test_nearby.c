/* SPDX-License-Identifier: BSD-2-Clause */
/* Two processes of one host, by shared memory: what one sends arrives at the other, whole and in order, even if
 * that is slow; and only at QPs that are connected to the sender. */
#include "verbs/fixture.h"

#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

enum {
	TOGETHER = 15, /* messages, of ... */
	PIECE = 2048,  /* ... bytes */
	ROUNDS = 10,
	LONGEST = 32 << 10, /* bytes of a message */
	OUT = MEMORY / 2,   /* offset of what is sent; below it is what is received */
};

static int to_child[2], to_parent[2];

static char byte_of(uint32_t message, uint32_t at)
{
	return (char)(message * 31 + at * 7 + (at >> 8));
}

static void tell(int fd, uint32_t number)
{
	assert_int_equal(write(fd, &number, sizeof(number)), sizeof(number));
}

static uint32_t told(int fd)
{
	uint32_t number = 0;

	assert_int_equal(read(fd, &number, sizeof(number)), sizeof(number));
	return number;
}

static void post(struct side *s, uint32_t length)
{
	struct ibv_sge sge = piece(s, 0, length);
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(s->qp, &wr, &bad), 0);
}

static void expect_message(struct side *s, uint32_t message, uint32_t length)
{
	struct ibv_wc wc = next(s->cq);

	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.imm_data, message);
	assert_int_equal(wc.byte_len, length);
	for (uint32_t i = 0; i < length; i++)
		assert_int_equal(s->memory[i], byte_of(message, i));
}

static void send_message(struct side *s, uint32_t message, uint32_t length)
{
	struct ibv_sge sge = piece(s, OUT, length);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .send_flags = IBV_SEND_SIGNALED,
				 .imm_data = message};

	for (uint32_t i = 0; i < length; i++)
		s->memory[OUT + i] = byte_of(message, i);
	assert_int_equal(side_send(s, &wr), 0);
	assert_int_equal(next(s->cq).status, IBV_WC_SUCCESS);
}

/* Lengths around what fits into a record, a packet, and a ring. */
static const uint32_t lengths[] = {0, 1, 7, 8, 60, 64, 65, 255, 256, 1024, 4095, 4096, 4097, 8192, LONGEST};

enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]) };

static void connect_to(struct side *s, uint32_t qpn)
{
	struct ibv_qp peer = {.qp_num = qpn};

	bring(s->qp, &peer, IBV_QPS_RTS);
}

/* What the child does, in the order of the tests. */
static int be_the_other_process(void)
{
	void *state = NULL;
	struct side *s;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(to_child[1]);
	if (told(to_child[0]) != 1)
		return 1;
	open_context(&state);
	open_sides(&state);
	s = state;
	post(s, LONGEST);
	tell(to_parent[1], s->qp->qp_num);
	connect_to(s, told(to_child[0]));
	tell(to_parent[1], 0);
	for (uint32_t i = 0; i < LENGTHS; i++) { /* each message comes, and goes back */
		expect_message(s, i, lengths[i]);
		post(s, LONGEST);
		send_message(s, i, lengths[i]);
	}
	for (uint32_t i = 0; i < ROUNDS * TOGETHER; i++) {
		if (i % TOGETHER == 0)
			told(to_child[0]);
		expect_message(s, i, PIECE);
		post(s, LONGEST);
	}
	/* the second QP is connected to a QP that is not connected to it */
	connect_to(&s[1], told(to_child[0]));
	send_message(s, 1, 8); /* the QP that is: all there was before has been taken */
	{
		struct ibv_sge sge = piece(&s[1], OUT, 8);
		struct ibv_send_wr wr = {
			.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = 666};

		if (side_send(&s[1], &wr))
			return 2;
	}
	send_message(s, 2, 8);
	told(to_child[0]);
	_exit(0); /* as killed: nothing is said to anybody */
}

static int open_two(void **state)
{
	struct side *s;

	open_sides(state);
	s = *state;
	tell(to_child[1], 1);
	connect_to(s, told(to_parent[0]));
	post(s, LONGEST);
	tell(to_child[1], s->qp->qp_num);
	told(to_parent[0]);
	return 0;
}

static void messages_of_any_length_come_whole_and_go_back(void **state)
{
	struct side *s = *state;

	for (uint32_t i = 0; i < LENGTHS; i++) {
		send_message(s, i, lengths[i]);
		expect_message(s, i, lengths[i]);
		post(s, LONGEST);
	}
}

/* The child sleeps while they are posted, and has one receive. */
static void a_slow_receiver_loses_nothing(void **state)
{
	struct side *s = *state;

	for (uint32_t round = 0; round < ROUNDS; round++) {
		for (uint32_t i = 0; i < TOGETHER; i++) {
			struct ibv_sge sge = piece(s, OUT + i * PIECE, PIECE);
			struct ibv_send_wr wr = {.sg_list = &sge,
						 .num_sge = 1,
						 .opcode = IBV_WR_SEND_WITH_IMM,
						 .send_flags = IBV_SEND_SIGNALED,
						 .imm_data = round * TOGETHER + i};

			for (uint32_t k = 0; k < PIECE; k++)
				s->memory[OUT + i * PIECE + k] = byte_of(wr.imm_data, k);
			assert_int_equal(side_send(s, &wr), 0);
		}
		tell(to_child[1], 0);
		for (uint32_t i = 0; i < TOGETHER; i++)
			assert_int_equal(next(s->cq).status, IBV_WC_SUCCESS);
	}
}

static void a_queue_pair_takes_nothing_from_a_stranger(void **state)
{
	struct side *s = *state;

	connect_to(&s[1], s[1].qp->qp_num); /* to itself */
	side_receive(&s[1], 9);
	tell(to_child[1], s[1].qp->qp_num);
	for (uint32_t i = 1; i <= 2; i++) {
		expect_message(s, i, 8);
		post(s, LONGEST);
	}
	assert_int_equal(ibv_poll_cq(s[1].cq, 1, &(struct ibv_wc){0}), 0);
}

static void who_sends_to_a_process_that_is_gone_is_told(void **state)
{
	struct side *s = *state;
	struct ibv_sge sge = piece(s, OUT, 8);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	int status;

	tell(to_child[1], 0);
	assert_int_not_equal(wait(&status), -1);
	assert_int_equal(status, 0);
	assert_int_equal(side_send(s, &wr), 0);
	assert_int_equal(next(s->cq).status, IBV_WC_RETRY_EXC_ERR);
}

static void *sides;

static int open_all(void **state)
{
	return open_context(state) || open_two(&sides);
}

static int close_all(void **state)
{
	return close_sides(&sides) || close_context(state);
}

static int give_sides(void **state)
{
	*state = sides;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(messages_of_any_length_come_whole_and_go_back, give_sides),
		cmocka_unit_test_setup(a_slow_receiver_loses_nothing, give_sides),
		cmocka_unit_test_setup(a_queue_pair_takes_nothing_from_a_stranger, give_sides),
		cmocka_unit_test_setup(who_sends_to_a_process_that_is_gone_is_told, give_sides),
	};

	if (!enter_namespace()) {
		printf("1..0 # SKIP no network namespace\n");
		return 77;
	}
	if (pipe(to_child) || pipe(to_parent))
		return 1;
	if (fork() == 0)
		return be_the_other_process();
	close(to_parent[1]);
	return cmocka_run_group_tests(tests, open_all, close_all);
}
