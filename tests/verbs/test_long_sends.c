/* SPDX-License-Identifier: BSD-2-Clause */
/* Long SENDs between QPs of one host, whose payload the receiver fetches: they arrive whole, and what a program may do
 * with its memory once it is its own again does not get into what the peer receives. */
#include "verbs/fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

enum { ROOM = 3 << 20, LONG = 256 << 10, EDGE = 4096 };

static unsigned rounds(unsigned n)
{
	const char *quick = getenv("UROCE_QUICK");

	return quick && *quick ? n / 10 + 1 : n;
}

struct buffer {
	char *at;
	struct ibv_mr *mr;
};

static struct buffer make_buffer(struct ibv_pd *pd)
{
	struct buffer b = {mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), NULL};

	assert_ptr_not_equal(b.at, MAP_FAILED);
	assert_non_null(b.mr = ibv_reg_mr(pd, b.at, ROOM, IBV_ACCESS_LOCAL_WRITE));
	return b;
}

static void free_buffer(struct buffer *b)
{
	if (b->mr)
		assert_int_equal(ibv_dereg_mr(b->mr), 0);
	munmap(b->at, ROOM);
}

static struct ibv_sge part(const struct buffer *b, size_t offset, size_t length)
{
	return (struct ibv_sge){(uintptr_t)b->at + offset, (uint32_t)length, b->mr->lkey};
}

static void post_send(struct side *s, uint64_t id, struct ibv_sge *sge, int count)
{
	struct ibv_send_wr wr = {.wr_id = id,
				 .sg_list = sge,
				 .num_sge = count,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .imm_data = (uint32_t)id,
				 .send_flags = IBV_SEND_SIGNALED};

	assert_int_equal(side_send(s, &wr), 0);
}

static void post_receive(struct side *s, uint64_t id, struct ibv_sge *sge, int count)
{
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = sge, .num_sge = count}, *bad = NULL;

	assert_int_equal(ibv_post_recv(s->qp, &wr, &bad), 0);
}

static void fill(char *at, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		at[i] = (char)(i * 7 + i / 256 + seed);
}

/* Of every length around those where something changes, from two places to two places. */
static void they_arrive_whole(void **state)
{
	static const size_t lengths[] = {2,	1023,  1024,  4095,	4096,	 16384,
					 16385, 32767, 65536, LONG + 1, 1 << 20, (2 << 20) + 5};
	struct side *s = *state;
	struct buffer from = make_buffer(s[0].pd), to = make_buffer(s[1].pd);

	connect_sides(s);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		size_t length = lengths[i], cut = length / 3, edge = i % 3 ? EDGE : 13;
		struct ibv_sge out[2] = {part(&from, edge + cut, length - cut), part(&from, edge, cut)};
		struct ibv_sge in[2] = {part(&to, EDGE, length / 2), part(&to, ROOM / 2, length - length / 2)};
		struct ibv_wc wc;

		fill(from.at, edge + length, (unsigned)i);
		memset(to.at, 0, ROOM);
		post_receive(&s[1], i, in, 2);
		post_send(&s[0], i, out, 2);
		wc = next(s[1].cq);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.byte_len, length);
		assert_int_equal(wc.imm_data, i);
		for (size_t n = 0; n < length; n++) {
			size_t at = n < length - cut ? edge + cut + n : edge + n - (length - cut);
			char got = n < length / 2 ? to.at[EDGE + n] : to.at[ROOM / 2 + n - length / 2];

			if (got != from.at[at])
				fail_msg("%zu bytes: byte %zu is another", length, n);
		}
		assert_int_equal(to.at[EDGE - 1] | to.at[EDGE + length / 2] | to.at[ROOM / 2 + length - length / 2], 0);
		assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	}
	free_buffer(&from);
	free_buffer(&to);
}

/* Short and long ones mixed, more than the receiver has receives for at first. */
static void they_come_in_order(void **state)
{
	struct side *s = *state;
	struct buffer from = make_buffer(s[0].pd), to = make_buffer(s[1].pd);
	enum { COUNT = 12 };

	connect_sides(s);
	fill(from.at, ROOM, 1);
	for (uint64_t i = 0; i < COUNT; i++) {
		struct ibv_sge out = part(&from, i * LONG / 2, i % 3 ? LONG : 8);

		post_send(&s[0], i, &out, 1);
	}
	for (uint64_t i = 0; i < COUNT; i++) {
		struct ibv_sge in = part(&to, 0, LONG);
		struct ibv_wc wc;

		post_receive(&s[1], i, &in, 1);
		wc = next(s[1].cq);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.imm_data, i);
		assert_int_equal(wc.byte_len, i % 3 ? LONG : 8);
		assert_memory_equal(to.at, from.at + i * LONG / 2, wc.byte_len);
	}
	for (uint64_t i = 0; i < COUNT; i++)
		assert_int_equal(next(s[0].cq).wr_id, i);
	free_buffer(&from);
	free_buffer(&to);
}

static void too_long_for_the_receive(void **state)
{
	struct side *s = *state;
	struct buffer from = make_buffer(s[0].pd), to = make_buffer(s[1].pd);
	struct ibv_sge out = part(&from, 0, LONG), in = part(&to, 0, LONG - 1);

	connect_sides(s);
	post_receive(&s[1], 1, &in, 1);
	post_send(&s[0], 1, &out, 1);
	assert_int_equal(next(s[1].cq).status, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(next(s[0].cq).status, IBV_WC_REM_INV_REQ_ERR);
	free_buffer(&from);
	free_buffer(&to);
}

/* ---- races: the receiver is in another thread ---- */

struct receiver {
	struct side *side;
	struct buffer to;
	_Atomic bool stop;
	unsigned whole, damaged; /* messages */
};

static void *receive_all(void *arg)
{
	struct receiver *r = arg;
	struct ibv_wc wc;

	while (!atomic_load(&r->stop)) {
		if (ibv_poll_cq(r->side->cq, 1, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
			continue;
		for (size_t i = 0; i < wc.byte_len; i++) {
			if (r->to.at[i] != 'x') {
				r->damaged++;
				break;
			}
		}
		r->whole++;
	}
	return NULL;
}

enum how { DEREGISTERED, FAILED };

/* A message is on its way; then its memory is the program's again, which puts something else there. */
static void take_back(void **state, enum how how)
{
	struct side *s = *state;

	for (unsigned i = 0; i < rounds(200); i++) {
		struct receiver r = {.side = &s[1], .to = make_buffer(s[1].pd)};
		struct buffer from = make_buffer(s[0].pd);
		struct ibv_sge in = part(&r.to, 0, LONG), out = part(&from, 0, LONG);
		struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};
		pthread_t thread;

		memset(from.at, 'x', LONG);
		connect_sides(s);
		post_receive(&s[1], 1, &in, 1);
		assert_int_equal(pthread_create(&thread, NULL, receive_all, &r), 0);
		post_send(&s[0], 1, &out, 1);
		for (volatile unsigned n = 0; n < i * 200; n++)
			;
		if (how == DEREGISTERED) {
			assert_int_equal(ibv_dereg_mr(from.mr), 0);
			from.mr = NULL;
		} else {
			assert_int_equal(
				ibv_modify_qp(s[0].qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, IBV_QP_STATE),
				0);
		}
		if (how == FAILED)
			wc = next(s[0].cq);
		memset(from.at, '-', LONG);
		if (how == DEREGISTERED)
			wc = next(s[0].cq);
		assert_true(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_LOC_PROT_ERR ||
			    wc.status == IBV_WC_WR_FLUSH_ERR);
		atomic_store(&r.stop, true);
		pthread_join(thread, NULL);
		assert_int_equal(r.damaged, 0);
		if (wc.status == IBV_WC_SUCCESS)
			assert_int_equal(r.whole + (unsigned)ibv_poll_cq(s[1].cq, 1, &wc), 1);
		for (int n = 0; n < 2; n++) {
			bring(s[n].qp, s[!n].qp, IBV_QPS_RESET);
			while (ibv_poll_cq(s[n].cq, 1, &wc))
				;
		}
		free_buffer(&from);
		free_buffer(&r.to);
	}
}

static void deregistered_memory_is_not_read(void **state)
{
	take_back(state, DEREGISTERED);
}

static void nor_that_of_a_request_that_has_failed(void **state)
{
	take_back(state, FAILED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_sides, close_sides)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(they_arrive_whole),
		TEST(they_come_in_order),
		TEST(too_long_for_the_receive),
		TEST(deregistered_memory_is_not_read),
		TEST(nor_that_of_a_request_that_has_failed),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, open_context, close_context);
}
