/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_modify_qp: every transition of every transport with every attribute (IBTA 11.2.5.2, table 91;
 * ibv_modify_qp(3)). */
#include <errno.h>
#include <string.h>

#include "fixture.h"

/* The table of the specification, written from ibv_modify_qp(3): columns are attributes, R required, O
 * optional. */
enum need {
	_, /* refused */
	O,
	R,
	I, /* accepted, and of no effect: XRC */
};

static const int bits[] = {
	IBV_QP_CUR_STATE,
	IBV_QP_EN_SQD_ASYNC_NOTIFY,
	IBV_QP_ACCESS_FLAGS,
	IBV_QP_PKEY_INDEX,
	IBV_QP_PORT,
	IBV_QP_QKEY,
	IBV_QP_AV,
	IBV_QP_PATH_MTU,
	IBV_QP_TIMEOUT,
	IBV_QP_RETRY_CNT,
	IBV_QP_RNR_RETRY,
	IBV_QP_RQ_PSN,
	IBV_QP_MAX_QP_RD_ATOMIC,
	IBV_QP_ALT_PATH,
	IBV_QP_MIN_RNR_TIMER,
	IBV_QP_SQ_PSN,
	IBV_QP_MAX_DEST_RD_ATOMIC,
	IBV_QP_PATH_MIG_STATE,
	IBV_QP_CAP,
	IBV_QP_DEST_QPN,
	IBV_QP_RATE_LIMIT,
};
#define BITS ARRAY_SIZE(bits)

#define RC  IBV_QPT_RC
#define UC  IBV_QPT_UC
#define UD  IBV_QPT_UD
#define INI IBV_QPT_XRC_SEND
#define TGT IBV_QPT_XRC_RECV

static const struct row {
	enum ibv_qp_type type;
	enum ibv_qp_state from, to;
	uint8_t need[BITS];
} table[] = {
	/*                              cur sqd acc pki prt qky av mtu tmo rty rnr rqp rda alt mrt sqp dra mig
	   cap dqp rate */
	{RC, IBV_QPS_RESET, IBV_QPS_INIT, {_, _, R, R, R, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _}},
	{RC, IBV_QPS_INIT, IBV_QPS_INIT, {_, _, O, O, O, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _}},
	{RC, IBV_QPS_INIT, IBV_QPS_RTR, {_, _, O, O, _, _, R, R, _, _, _, R, _, O, R, _, R, _, _, R, _}},
	{RC, IBV_QPS_RTR, IBV_QPS_RTS, {O, _, O, _, _, _, _, _, R, R, R, _, R, O, O, R, _, O, _, _, _}},
	{RC, IBV_QPS_RTS, IBV_QPS_RTS, {O, _, O, _, _, _, _, _, _, _, _, _, _, O, O, _, _, O, _, _, _}},
	{RC, IBV_QPS_RTS, IBV_QPS_SQD, {_, O, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _}},
	{RC, IBV_QPS_SQD, IBV_QPS_RTS, {O, _, O, _, _, _, _, _, _, _, _, _, _, O, O, _, _, O, _, _, _}},
	{RC, IBV_QPS_SQD, IBV_QPS_SQD, {_, _, O, O, O, _, O, _, O, O, O, _, O, O, O, _, O, O, _, _, _}},
	{UC, IBV_QPS_RESET, IBV_QPS_INIT, {_, _, R, R, R, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _}},
	{UC, IBV_QPS_INIT, IBV_QPS_INIT, {_, _, O, O, O, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _}},
	{UC, IBV_QPS_INIT, IBV_QPS_RTR, {_, _, O, O, _, _, R, R, _, _, _, R, _, O, _, _, _, _, _, R, _}},
	{UC, IBV_QPS_RTR, IBV_QPS_RTS, {O, _, O, _, _, _, _, _, _, _, _, _, _, O, _, R, _, O, _, _, _}},
	{UC, IBV_QPS_RTS, IBV_QPS_RTS, {O, _, O, _, _, _, _, _, _, _, _, _, _, O, _, _, _, O, _, _, _}},
	{UC, IBV_QPS_RTS, IBV_QPS_SQD, {_, O, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _}},
	{UC, IBV_QPS_SQD, IBV_QPS_RTS, {O, _, O, _, _, _, _, _, _, _, _, _, _, O, _, _, _, O, _, _, _}},
	{UC, IBV_QPS_SQD, IBV_QPS_SQD, {_, _, O, O, _, _, O, _, _, _, _, _, _, O, _, _, _, O, _, _, _}},
	{UC, IBV_QPS_SQE, IBV_QPS_RTS, {O, _, O, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _}},
	{UD, IBV_QPS_RESET, IBV_QPS_INIT, {_, _, _, R, R, R, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _}},
	{UD, IBV_QPS_INIT, IBV_QPS_INIT, {_, _, _, O, O, O, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _}},
	{UD, IBV_QPS_INIT, IBV_QPS_RTR, {_, _, _, O, _, O, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _}},
	{UD, IBV_QPS_RTR, IBV_QPS_RTS, {O, _, _, _, _, O, _, _, _, _, _, _, _, _, _, R, _, _, _, _, _}},
	{UD, IBV_QPS_RTS, IBV_QPS_RTS, {O, _, _, _, _, O, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _}},
	{UD, IBV_QPS_RTS, IBV_QPS_SQD, {_, O, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _}},
	{UD, IBV_QPS_SQD, IBV_QPS_RTS, {O, _, _, _, _, O, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _}},
	{UD, IBV_QPS_SQD, IBV_QPS_SQD, {_, _, _, O, _, O, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _}},
	{UD, IBV_QPS_SQE, IBV_QPS_RTS, {O, _, _, _, _, O, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _}},
	{INI, IBV_QPS_RESET, IBV_QPS_INIT, {_, _, R, R, R, _, _, _, _, _, _, _, _, _, I, _, I, _, _, _, _}},
	{INI, IBV_QPS_INIT, IBV_QPS_INIT, {_, _, O, O, O, _, _, _, _, _, _, _, _, _, I, _, I, _, _, _, _}},
	{INI, IBV_QPS_INIT, IBV_QPS_RTR, {_, _, O, O, _, _, R, R, _, _, _, R, _, O, I, _, I, _, _, R, _}},
	{INI, IBV_QPS_RTR, IBV_QPS_RTS, {O, _, O, _, _, _, _, _, R, R, R, _, R, O, I, R, I, O, _, _, _}},
	{INI, IBV_QPS_RTS, IBV_QPS_RTS, {O, _, O, _, _, _, _, _, _, _, _, _, _, O, I, _, I, O, _, _, _}},
	{INI, IBV_QPS_RTS, IBV_QPS_SQD, {_, O, _, _, _, _, _, _, _, _, _, _, _, _, I, _, I, _, _, _, _}},
	{INI, IBV_QPS_SQD, IBV_QPS_RTS, {O, _, O, _, _, _, _, _, _, _, _, _, _, O, I, _, I, O, _, _, _}},
	{INI, IBV_QPS_SQD, IBV_QPS_SQD, {_, _, O, O, O, _, O, _, O, O, O, _, O, O, I, _, I, O, _, _, _}},
	{TGT, IBV_QPS_RESET, IBV_QPS_INIT, {_, _, R, R, R, _, _, _, _, I, I, _, I, _, _, _, _, _, _, _, _}},
	{TGT, IBV_QPS_INIT, IBV_QPS_INIT, {_, _, O, O, O, _, _, _, _, I, I, _, I, _, _, _, _, _, _, _, _}},
	{TGT, IBV_QPS_INIT, IBV_QPS_RTR, {_, _, O, O, _, _, R, R, _, I, I, R, I, O, R, _, R, _, _, R, _}},
	{TGT, IBV_QPS_RTR, IBV_QPS_RTS, {O, _, O, _, _, _, _, _, R, I, I, _, I, O, O, R, _, O, _, _, _}},
	{TGT, IBV_QPS_RTS, IBV_QPS_RTS, {O, _, O, _, _, _, _, _, _, I, I, _, I, O, O, _, _, O, _, _, _}},
	{TGT, IBV_QPS_RTS, IBV_QPS_SQD, {_, O, _, _, _, _, _, _, _, I, I, _, I, _, _, _, _, _, _, _, _}},
	{TGT, IBV_QPS_SQD, IBV_QPS_RTS, {O, _, O, _, _, _, _, _, _, I, I, _, I, O, O, _, _, O, _, _, _}},
	{TGT, IBV_QPS_SQD, IBV_QPS_SQD, {_, _, O, O, O, _, O, _, O, I, I, _, I, O, O, _, O, O, _, _, _}},
};

static const enum ibv_qp_type types[] = {RC, UC, UD, INI, TGT};
static const enum ibv_qp_state states[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
					   IBV_QPS_SQD,	  IBV_QPS_SQE,	IBV_QPS_ERR};

static const struct row *row_of(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].type == type && table[i].from == from && table[i].to == to)
			return &table[i];
	return NULL;
}

static int mask_of(const struct row *r, enum need need)
{
	int mask = 0;

	for (size_t i = 0; r && i < BITS; i++)
		if (r->need[i] == need)
			mask |= bits[i];
	return mask;
}

/* No QP of a reliable transport is ever in SQE. */
static bool exists(enum ibv_qp_type type, enum ibv_qp_state state)
{
	return type == UC || type == UD || state != IBV_QPS_SQE;
}

/* What a fresh QP in `from` says to it. */
static int try(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr attr;
	struct fixture *f;
	void *fresh = NULL;
	int err;

	assert_int_equal(fixture_setup(&fresh), 0);
	f = fresh;
	f->type = type;
	fixture_start(f, from);
	f->qp->path = (struct path){.sgid = fixture_here, .dgid = fixture_there};
	attr = f->attr;
	attr.qp_state = to;
	attr.cur_qp_state = from;
	attr.path_mig_state = IBV_MIG_MIGRATED;
	attr.alt_port_num = 1;
	err = fixture_modify(f, &attr, IBV_QP_STATE | mask);
	/* it moves or it does not */
	assert_int_equal(f->qp->state, err ? from : to);
	assert_int_equal(f->qp->state, err ? from : to);
	fixture_teardown(&fresh);
	return err;
}

static void every_transition_takes_what_it_requires(void **state)
{
	for (size_t t = 0; t < ARRAY_SIZE(types); t++)
		for (size_t a = 0; a < ARRAY_SIZE(states); a++)
			for (size_t b = 0; exists(types[t], states[a]) && b < ARRAY_SIZE(states); b++) {
				const struct row *r = row_of(types[t], states[a], states[b]);
				bool always = states[b] == IBV_QPS_RESET ||
					      (states[b] == IBV_QPS_ERR && states[a] != IBV_QPS_RESET);
				int err = try(types[t], states[a], states[b], mask_of(r, R));

				if (err != (r || always ? 0 : -EINVAL))
					fail_msg("type %d: %d to %d says %d", types[t], states[a], states[b], err);
			}
}

static void every_attribute_is_required_optional_or_refused(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		for (size_t b = 0; b < BITS; b++) {
			const struct row *r = &table[i];
			int required = mask_of(r, R), err = try(r->type, r->from, r->to, required ^ bits[b]);
			/* without a required one, or with a refused one */
			int expected = r->need[b] == I || r->need[b] == O ? 0 : -EINVAL;

			if (err != expected)
				fail_msg("type %d: %d to %d with mask %x (bit %x) says %d, not %d", r->type, r->from,
					 r->to, required ^ bits[b], bits[b], err, expected);
		}
}

static void all_optional_attributes_go_together(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		const struct row *r = &table[i];

		assert_int_equal(try(r->type, r->from, r->to, mask_of(r, R) | mask_of(r, O)), 0);
	}
}

static bool is_ignored(enum ibv_qp_type type, int bit)
{
	const struct row *r = row_of(type, IBV_QPS_RESET, IBV_QPS_INIT);

	return mask_of(r, I) & bit;
}

static void reset_and_error_take_nothing_but_the_state(void **state)
{
	for (size_t t = 0; t < ARRAY_SIZE(types); t++)
		for (size_t a = 0; a < ARRAY_SIZE(states); a++)
			for (size_t b = 0; exists(types[t], states[a]) && b < BITS; b++) {
				int expected = is_ignored(types[t], bits[b]) ? 0 : -EINVAL;

				assert_int_equal(try(types[t], states[a], IBV_QPS_RESET, bits[b]), expected);
				if (states[a] != IBV_QPS_RESET)
					assert_int_equal(try(types[t], states[a], IBV_QPS_ERR, bits[b]), expected);
			}
}

static void nobody_may_ask_for_sqe(void **state)
{
	for (size_t t = 0; t < ARRAY_SIZE(types); t++)
		for (size_t a = 0; a < ARRAY_SIZE(states); a++) {
			if (!exists(types[t], states[a]))
				continue;
			assert_int_equal(try(types[t], states[a], IBV_QPS_SQE, 0), -EINVAL);
			assert_int_equal(try(types[t], states[a], IBV_QPS_UNKNOWN, 0), -EINVAL);
			assert_int_equal(try(types[t], states[a], 99, 0), -EINVAL);
		}
}

static void the_current_state_has_to_be_it(void **state)
{
	struct ibv_qp_attr attr;
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	attr = f->attr;
	attr.qp_state = IBV_QPS_RTS;
	attr.cur_qp_state = IBV_QPS_SQD;
	assert_int_equal(fixture_modify(f, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), -EINVAL);
	attr.cur_qp_state = IBV_QPS_RTS;
	assert_int_equal(fixture_modify(f, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
}

static void without_a_state_the_qp_stays_where_it_is(void **state)
{
	struct ibv_qp_attr attr = {.min_rnr_timer = 5};
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	assert_int_equal(fixture_modify(f, &attr, IBV_QP_MIN_RNR_TIMER), 0);
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
	assert_int_equal(f->qp->attr.min_rnr_timer, 5);
	assert_int_equal(fixture_modify(f, &attr, IBV_QP_TIMEOUT), -EINVAL);
}

static void set(struct ibv_qp_attr *attr, size_t offset, size_t size, uint32_t value)
{
	char *field = (char *)attr + offset;

	assert_true(size <= sizeof(value));
	if (size == 1)
		*(uint8_t *)field = (uint8_t)value;
	else if (size == 2)
		*(uint16_t *)field = (uint16_t)value;
	else
		*(uint32_t *)field = value;
}

/* rows of {transition, what is wrong} */
static void values_have_their_limits(void **state)
{
	const struct {
		enum ibv_qp_state from, to;
		size_t offset, size;
		uint32_t good, bad;
	} rows[] = {
#define ROW(from, to, field, good, bad)                                                                               \
	{IBV_QPS_##from, IBV_QPS_##to, offsetof(struct ibv_qp_attr, field), sizeof(((struct ibv_qp_attr *)0)->field), \
	 good,		 bad}
		ROW(RESET, INIT, port_num, 1, 2),
		ROW(RESET, INIT, port_num, 1, 0),
		ROW(RESET, INIT, pkey_index, 0, 1),
		ROW(RESET, INIT, qp_access_flags, IBV_ACCESS_REMOTE_WRITE, 1u << 19),
		ROW(RESET, INIT, qp_access_flags, IBV_ACCESS_MW_BIND | IBV_ACCESS_HUGETLB,
		    1u << 10), /* uDAPL passes what regions have */
		ROW(RESET, INIT, qp_access_flags, IBV_ACCESS_REMOTE_READ | 3u << 8,
		    1u << 11), /* and others ask for FLUSH */
		ROW(INIT, RTR, path_mtu, IBV_MTU_4096, IBV_MTU_4096 + 1),
		ROW(INIT, RTR, path_mtu, IBV_MTU_256, 0),
		ROW(INIT, RTR, max_dest_rd_atomic, HCA_MAX_RD_ATOMIC, HCA_MAX_RD_ATOMIC + 1),
		ROW(INIT, RTR, min_rnr_timer, 31, 32),
		ROW(INIT, RTR, dest_qp_num, 0xffffff, 0x1000000),
		ROW(RTR, RTS, timeout, 31, 32),
		ROW(RTR, RTS, retry_cnt, 7, 8),
		ROW(RTR, RTS, rnr_retry, 7, 8),
		ROW(RTR, RTS, max_rd_atomic, HCA_MAX_RD_ATOMIC, HCA_MAX_RD_ATOMIC + 1),
#undef ROW
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (int good = 0; good < 2; good++) {
			uint32_t value = good ? rows[i].good : rows[i].bad;
			struct ibv_qp_attr before;
			struct fixture *f = fixture_renew(state);
			int err;

			fixture_start(f, rows[i].from);
			before = f->qp->attr;
			set(&f->attr, rows[i].offset, rows[i].size, value);
			err = fixture_move(f, rows[i].to);
			if (err != (good ? 0 : -EINVAL))
				fail_msg("row %zu: %u says %d", i, value, err);
			if (!good)
				assert_memory_equal(&before, &f->qp->attr, sizeof(before));
		}
}

static void what_was_modified_can_be_queried(void **state)
{
	struct fixture *f = *state;
	const struct ibv_qp_attr *a;

	f->attr.path_mtu = IBV_MTU_2048;
	f->attr.min_rnr_timer = 3;
	f->attr.timeout = 17;
	f->attr.retry_cnt = 6;
	f->attr.rnr_retry = 5;
	f->attr.max_rd_atomic = 9;
	f->attr.max_dest_rd_atomic = 11;
	f->attr.ah_attr.grh.traffic_class = 77;
	fixture_start(f, IBV_QPS_RTS);
	a = &f->qp->attr;
	assert_int_equal(a->qp_state, IBV_QPS_RTS);
	assert_int_equal(a->path_mtu, IBV_MTU_2048);
	assert_int_equal(a->min_rnr_timer, 3);
	assert_int_equal(a->timeout, 17);
	assert_int_equal(a->retry_cnt, 6);
	assert_int_equal(a->rnr_retry, 5);
	assert_int_equal(a->max_rd_atomic, 9);
	assert_int_equal(a->max_dest_rd_atomic, 11);
	assert_int_equal(a->dest_qp_num, PEER_QPN);
	assert_int_equal(a->rq_psn, f->attr.rq_psn);
	assert_int_equal(a->sq_psn, f->attr.sq_psn);
	assert_int_equal(a->ah_attr.grh.traffic_class, 77);
	assert_int_equal(a->qp_access_flags, f->attr.qp_access_flags);
	assert_int_equal(a->port_num, 1);
	fixture_move(f, IBV_QPS_ERR);
	assert_int_equal(a->qp_state, IBV_QPS_ERR);
	fixture_move(f, IBV_QPS_RESET);
	assert_int_equal(a->qp_state, IBV_QPS_RESET);
}

static void psns_keep_24_bits(void **state)
{
	struct fixture *f = *state;

	f->attr.rq_psn = 0xff000001;
	f->attr.sq_psn = 0x01fffffe;
	fixture_start(f, IBV_QPS_RTS);
	assert_int_equal(f->qp->resp.expected.v, 1);
	assert_int_equal(f->qp->req.next.v, 0xfffffe);
}

static void new_limits_hold_at_once(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD,
				   .rnr_retry = 7,
				   .retry_cnt = 1,
				   .timeout = 12,
				   .max_rd_atomic = 1,
				   .max_dest_rd_atomic = 1};
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_SQD);
	assert_int_equal(fixture_modify(f, &attr,
					IBV_QP_STATE | IBV_QP_RNR_RETRY | IBV_QP_RETRY_CNT | IBV_QP_TIMEOUT |
						IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC),
			 0);
	fixture_move(f, IBV_QPS_RTS);
	for (uint64_t i = 0; i < 2; i++)
		fixture_post(f, (struct ibv_send_wr){
					.wr_id = i, .opcode = IBV_WR_RDMA_READ, .num_sge = 1, .wr.rdma = {IOVA, 1}});
	expect_sent(f, OP_READ_REQUEST, sent_psn(0));
	expect_silence(f);
	for (int i = 0; i < 20; i++) {
		fixture_give(f, ack(sent_psn(0), SYNDROME_RNR | 1));
		fixture_wait(f, 20 * USEC);
	}
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
	while (f->qp->state == IBV_QPS_RTS)
		assert_true(fixture_wait_deadline(f));
	assert_true(f->now < SEC + 2 * 4 * (4096ull << 12) + 10 * MSEC);
}

/* Gives READs and atomics in one go, so that their responses wait together; how many were answered. */
static uint32_t give_at_once(struct fixture *f, uint32_t first, uint32_t count)
{
	lock_take(&f->qp->lock);
	for (uint32_t i = 0; i < count; i++) {
		struct packet p = aimed(f, i & 1 ? OP_READ_REQUEST : OP_FETCH_ADD, due_psn(first + i), 0, 0, 8);

		p.swap_add = 1;
		engine_receive(f->qp, &p, &fixture_there, f->now, NULL);
	}
	lock_drop(&f->qp->lock);
	fixture_forget(f);
	fixture_run(f);
	return f->sents;
}

static void the_peer_may_get_more_resources_while_it_works(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .max_dest_rd_atomic = 8};
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_SQD);
	assert_int_equal(give_at_once(f, 0, 4), 4);
	assert_int_equal(fixture_modify(f, &attr, IBV_QP_STATE | IBV_QP_MAX_DEST_RD_ATOMIC), 0);
	assert_int_equal(give_at_once(f, 4, 8), 8);
	assert_int_equal(f->qp->state, IBV_QPS_SQD);
	/* what is remembered of atomics survives: the first ones as well */
	fixture_forget(f);
	fixture_give(f, aimed(f, OP_FETCH_ADD, due_psn(2), 0, 0, 0));
	assert_int_equal(expect_sent(f, OP_ATOMIC_ACKNOWLEDGE, due_psn(2))->packet.original, 1);
	attr.max_dest_rd_atomic = 2;
	assert_int_equal(fixture_modify(f, &attr, IBV_QP_STATE | IBV_QP_MAX_DEST_RD_ATOMIC), 0);
	fixture_forget(f);
	fixture_give(f, aimed(f, OP_FETCH_ADD, due_psn(10), 0, 0, 0));
	assert_int_equal(expect_sent(f, OP_ATOMIC_ACKNOWLEDGE, due_psn(10))->packet.original, 5);
	assert_int_equal(give_at_once(f, 12, 2), 2);
	attr.max_dest_rd_atomic = 0;
	assert_int_equal(fixture_modify(f, &attr, IBV_QP_STATE | IBV_QP_MAX_DEST_RD_ATOMIC), 0);
	assert_int_equal(give_at_once(f, 14, 1), 1);
	expect_ack(f, due_psn(14), NAK_INVALID_REQUEST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_transition_takes_what_it_requires),
		cmocka_unit_test(every_attribute_is_required_optional_or_refused),
		cmocka_unit_test(all_optional_attributes_go_together),
		cmocka_unit_test(reset_and_error_take_nothing_but_the_state),
		cmocka_unit_test(nobody_may_ask_for_sqe),
		TEST(the_current_state_has_to_be_it),
		TEST(without_a_state_the_qp_stays_where_it_is),
		TEST(values_have_their_limits),
		TEST(what_was_modified_can_be_queried),
		TEST(psns_keep_24_bits),
		TEST(new_limits_hold_at_once),
		TEST(the_peer_may_get_more_resources_while_it_works),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
