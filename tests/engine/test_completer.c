/* SPDX-License-Identifier: BSD-2-Clause */
/* The completer: what each answer does, and how every request ends (IBTA 9.7.5, 9.7.7, 10.7, 11.6.2). */
#include <string.h>

#include "requests.h"

static void an_ack_completes_all_before_it(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, send_of(1, 2 * MTU));
	fixture_post(f, write_of(2, 1));
	fixture_post(f, send_of(3, 3 * MTU));
	fixture_give(f, ack(sent_psn(0), ACKED)); /* half of the first */
	expect_none(f);
	fixture_give(f, ack(sent_psn(3), ACKED));
	assert_int_equal(expect_done(f, 1, IBV_WC_SUCCESS).opcode, IBV_WC_SEND);
	assert_int_equal(expect_done(f, 2, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_WRITE);
	expect_none(f);
	fixture_give(f, ack(sent_psn(5), ACKED));
	expect_done(f, 3, IBV_WC_SUCCESS);
	fixture_give(f, ack(sent_psn(5), ACKED)); /* again: nothing */
	expect_none(f);
	assert_false(fixture_wait_deadline(f)); /* nothing is due any more */
}

static void only_signalled_requests_complete(void **state)
{
	struct fixture *f = *state;
	struct ibv_send_wr quiet = send_of(1, 1);

	quiet.send_flags = 0;
	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, quiet);
	fixture_give(f, ack(sent_psn(0), ACKED));
	expect_none(f);
}

static void sig_all_signals_all(void **state)
{
	struct fixture *f = *state;
	struct ibv_send_wr quiet = send_of(1, 1);

	f->sig_all = true;
	quiet.send_flags = 0;
	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, quiet);
	fixture_give(f, ack(sent_psn(0), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
}

/* IBTA 9.7.5.1.2: for what was never sent, or was acknowledged before */
static void ghosts_are_ignored(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_give(f, ack(sent_psn(0), ACKED));
	fixture_give(f, ack(sent_psn(0), NAK_REMOTE_ACCESS));
	fixture_post(f, send_of(1, 1));
	fixture_forget(f);
	fixture_give(f, ack(sent_psn(1), ACKED));
	fixture_give(f, ack(sent_psn(1), NAK_REMOTE_ACCESS));
	fixture_give(f, ack(sent_psn(-1u), NAK_INVALID_REQUEST));
	fixture_give(f, ack(sent_psn(-1u), NAK_SEQUENCE));
	fixture_give(f, ack(sent_psn(-1u), SYNDROME_RNR | 1));
	fixture_give(f, ack(sent_psn(0x7fffff), ACKED));
	fixture_give(f, ack(sent_psn(0x800000), ACKED));
	fixture_give(f, response(OP_READ_RESPONSE_ONLY, sent_psn(1), 4));
	fixture_give(f, response(OP_READ_RESPONSE_ONLY, sent_psn(-1u), 4));
	fixture_give(f, response(OP_ATOMIC_ACKNOWLEDGE, sent_psn(-1u), 0));
	fixture_give_from(f, ack(sent_psn(0), ACKED), &fixture_elsewhere);
	expect_none(f);
	expect_silence(f);
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
	fixture_give(f, ack(sent_psn(0), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
}

/* rows of {syndrome, status}: what a NAK does to the request it names; those before it are done */
static void each_nak_has_its_status(void **state)
{
	static const struct {
		uint8_t syndrome;
		enum ibv_wc_status status;
	} rows[] = {
		{NAK_INVALID_REQUEST, IBV_WC_REM_INV_REQ_ERR},
		{NAK_REMOTE_ACCESS, IBV_WC_REM_ACCESS_ERR},
		{NAK_REMOTE_OPERATION, IBV_WC_REM_OP_ERR},
		{NAK_INVALID_RD_REQUEST, IBV_WC_REM_INV_RD_REQ_ERR},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fixture *f = fixture_renew(state);

		fixture_start(f, IBV_QPS_RTS);
		fixture_post_recv(f, 11, 4);
		fixture_post(f, send_of(1, 1));
		fixture_post(f, write_of(2, 2 * MTU));
		fixture_post(f, send_of(3, 1));
		fixture_give(f, ack(sent_psn(2), rows[i].syndrome)); /* the second packet of request 2 */
		expect_done(f, 1, IBV_WC_SUCCESS);
		expect_done(f, 2, rows[i].status);
		expect_done(f, 3, IBV_WC_WR_FLUSH_ERR);
		expect_taken(f, 11, IBV_WC_WR_FLUSH_ERR);
		expect_none(f);
		assert_int_equal(f->qp->state, IBV_QPS_ERR);
		assert_false(fixture_wait_deadline(f));
	}
}

static void unknown_naks_are_ignored(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, send_of(1, 1));
	for (uint8_t code = 5; code < 32; code++)
		fixture_give(f, ack(sent_psn(0), SYNDROME_NAK | code));
	for (uint8_t code = 0; code < 32; code++)
		fixture_give(f, ack(sent_psn(0), 0x40 | code)); /* a reserved kind */
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
	expect_none(f);
}

static void a_sequence_nak_goes_back(void **state)
{
	struct fixture *f = *state;
	uint64_t naks;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, send_of(1, 3 * MTU));
	fixture_post(f, send_of(2, 1));
	fixture_forget(f);
	naks = atomic_load(&hca_counted[HCA_SEQUENCE_NAKS]);
	fixture_give(f, ack(sent_psn(1), NAK_SEQUENCE)); /* and acknowledges what is before it */
	assert_int_equal(atomic_load(&hca_counted[HCA_SEQUENCE_NAKS]), naks + 1);
	expect_sent(f, OP_SEND_MIDDLE, sent_psn(1));
	expect_sent(f, OP_SEND_LAST, sent_psn(2));
	expect_sent(f, OP_SEND_ONLY, sent_psn(3));
	expect_silence(f);
	fixture_give(f, ack(sent_psn(3), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
	expect_done(f, 2, IBV_WC_SUCCESS);
}

static void retries_of_sequence_naks_are_limited(void **state)
{
	struct fixture *f = *state;

	f->attr.timeout = 20; /* 4 s: out of the way */
	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, send_of(1, 1));
	for (int i = 0; i < 50 && f->qp->state == IBV_QPS_RTS; i++) {
		fixture_give(f, ack(sent_psn(0), NAK_SEQUENCE));
		f->now += 30 * MSEC;
	}
	/* copies of one NAK may count once, but it does not go on for ever: the timer is there */
	while (f->qp->state == IBV_QPS_RTS && fixture_wait_deadline(f))
		;
	expect_done(f, 1, IBV_WC_RETRY_EXC_ERR);
}

static void a_read_is_put_where_it_belongs(void **state)
{
	struct ibv_sge sge[3];
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	sge[0] = fixture_sge(f, 1000, 100);
	sge[1] = fixture_sge(f, 3000, MTU);
	sge[2] = fixture_sge(f, 10, 45);
	fixture_post(f,
		     (struct ibv_send_wr){
			     .wr_id = 1, .opcode = IBV_WR_RDMA_READ, .sg_list = sge, .num_sge = 3, SIGNALED, REMOTE});
	fixture_give(f, response(OP_READ_RESPONSE_FIRST, sent_psn(0), MTU));
	expect_none(f);
	fixture_give(f, response(OP_READ_RESPONSE_LAST, sent_psn(1), 145));
	assert_int_equal(expect_done(f, 1, IBV_WC_SUCCESS).byte_len, 100 + MTU + 45);
	assert_memory_equal(f->memory + 1000, f->payload, 100);
	assert_memory_equal(f->memory + 3000, f->payload + 100, MTU - 100);
	assert_memory_equal(f->memory + 3000 + MTU - 100, f->payload, 100);
	assert_memory_equal(f->memory + 10, f->payload + 100, 45);
	assert_int_equal(f->memory[1100] | f->memory[3000 + MTU] | f->memory[55] | f->memory[9], 0);
}

/* rows of {response to a READ of 2 * MTU, offset of its PSN, length, whether it is right} */
static void responses_are_as_long_as_asked(void **state)
{
	static const struct {
		uint8_t operation;
		uint32_t length;
		bool right;
	} rows[] = {
		{OP_READ_RESPONSE_FIRST, MTU, true},	  {OP_READ_RESPONSE_FIRST, MTU - 1, false},
		{OP_READ_RESPONSE_FIRST, MTU + 1, false}, {OP_READ_RESPONSE_FIRST, 0, false},
		{OP_READ_RESPONSE_ONLY, 4, false},	  {OP_READ_RESPONSE_ONLY, 2 * MTU, false},
		{OP_READ_RESPONSE_LAST, 4, false},	  {OP_ATOMIC_ACKNOWLEDGE, 0, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fixture *f = fixture_renew(state);

		fixture_start(f, IBV_QPS_RTS);
		fixture_post(f, read_of(1, 2 * MTU));
		fixture_give(f, response(rows[i].operation, sent_psn(0), rows[i].length));
		if (rows[i].right) {
			expect_none(f);
		} else {
			expect_done(f, 1, IBV_WC_BAD_RESP_ERR);
			assert_int_equal(f->qp->state, IBV_QPS_ERR);
		}
	}
}

static void an_atomic_brings_what_was_there(void **state)
{
	struct fixture *f = *state;
	struct packet p;
	uint64_t was;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, add_of(1, 3));
	assert_int_equal(expect_sent(f, OP_FETCH_ADD, sent_psn(0))->packet.swap_add, 3);
	p = response(OP_ATOMIC_ACKNOWLEDGE, sent_psn(0), 0);
	p.original = 0x1122334455667788;
	fixture_give(f, p);
	assert_int_equal(expect_done(f, 1, IBV_WC_SUCCESS).opcode, IBV_WC_FETCH_ADD);
	memcpy(&was, f->memory, sizeof(was));
	assert_int_equal(was, 0x1122334455667788);
}

static void a_response_to_a_send_is_bad(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, send_of(1, 1));
	fixture_give(f, response(OP_READ_RESPONSE_ONLY, sent_psn(0), 1));
	expect_done(f, 1, IBV_WC_BAD_RESP_ERR);
}

static void a_read_answered_like_an_atomic_is_bad(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, add_of(1, 3));
	fixture_give(f, response(OP_READ_RESPONSE_ONLY, sent_psn(0), 8));
	expect_done(f, 1, IBV_WC_BAD_RESP_ERR);
}

/* IBTA 9.7.5.1.4: an ACK beyond a READ says that its response was lost */
static void an_ack_beyond_a_read_implies_a_nak(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, send_of(1, 1));
	fixture_post(f, read_of(2, 2 * MTU));
	fixture_post(f, send_of(3, 1));
	fixture_forget(f);
	fixture_give(f, ack(sent_psn(3), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
	expect_none(f);
	expect_sent(f, OP_READ_REQUEST, sent_psn(1));
	expect_sent(f, OP_SEND_ONLY, sent_psn(3));
	/* once for each hole */
	fixture_give(f, ack(sent_psn(3), ACKED));
	expect_silence(f);
	fixture_give(f, response(OP_READ_RESPONSE_FIRST, sent_psn(1), MTU));
	fixture_give(f, response(OP_READ_RESPONSE_LAST, sent_psn(2), MTU));
	expect_done(f, 2, IBV_WC_SUCCESS);
	fixture_give(f, ack(sent_psn(3), ACKED));
	expect_done(f, 3, IBV_WC_SUCCESS);
}

static void a_response_beyond_a_hole_asks_again_from_there(void **state)
{
	struct fixture *f = *state;
	const struct sent *s;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, read_of(1, 4 * MTU));
	fixture_forget(f);
	fixture_give(f, response(OP_READ_RESPONSE_FIRST, sent_psn(0), MTU));
	fixture_give(f, response(OP_READ_RESPONSE_MIDDLE, sent_psn(2), MTU));
	s = expect_sent(f, OP_READ_REQUEST, sent_psn(1));
	assert_int_equal(s->packet.va, IOVA + MTU);
	assert_int_equal(s->packet.dma_length, 3 * MTU);
	fixture_give(f, response(OP_READ_RESPONSE_LAST, sent_psn(3), MTU)); /* of the first answer, still */
	expect_silence(f);
	fixture_give(f, response(OP_READ_RESPONSE_FIRST, sent_psn(1), MTU));
	fixture_give(f, response(OP_READ_RESPONSE_MIDDLE, sent_psn(2), MTU));
	fixture_give(f, response(OP_READ_RESPONSE_LAST, sent_psn(3), MTU));
	expect_done(f, 1, IBV_WC_SUCCESS);
}

static void a_response_acknowledges_what_is_before_it(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post(f, send_of(1, 1));
	fixture_post(f, write_of(2, 2 * MTU));
	fixture_post(f, read_of(3, 1));
	fixture_give(f, response(OP_READ_RESPONSE_ONLY, sent_psn(3), 1));
	expect_done(f, 1, IBV_WC_SUCCESS);
	expect_done(f, 2, IBV_WC_SUCCESS);
	expect_done(f, 3, IBV_WC_SUCCESS);
}

/* rows of {what is posted, status}: errors of this side */
static void local_errors_have_their_status(void **state)
{
	enum { WRONG_KEY, OUT_OF_BOUNDS, OTHER_DOMAIN, READ_ONLY, NO_READS, ATOMIC_SIZE, TOO_LONG };
	static const struct {
		int what;
		enum ibv_wc_status status;
	} rows[] = {
		{WRONG_KEY, IBV_WC_LOC_PROT_ERR},    {OUT_OF_BOUNDS, IBV_WC_LOC_PROT_ERR},
		{OTHER_DOMAIN, IBV_WC_LOC_PROT_ERR}, {READ_ONLY, IBV_WC_LOC_PROT_ERR},
		{NO_READS, IBV_WC_LOC_QP_OP_ERR},    {ATOMIC_SIZE, IBV_WC_LOC_LEN_ERR},
		{TOO_LONG, IBV_WC_LOC_LEN_ERR},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ibv_send_wr wr = {.wr_id = 2, .opcode = IBV_WR_SEND, .num_sge = 1, SIGNALED, REMOTE};
		struct ibv_sge sge[2] = {{0}};
		struct fixture *f = fixture_renew(state);

		f->attr.max_rd_atomic = rows[i].what == NO_READS ? 0 : 4;
		fixture_start(f, IBV_QPS_RTS);
		wr.sg_list = sge;
		sge[0] = sge[1] = fixture_sge(f, 0, 8);
		switch (rows[i].what) {
		case WRONG_KEY:
			sge[0].lkey ^= 1;
			break;
		case OUT_OF_BOUNDS:
			sge[0].addr = IOVA + MEMORY - 7;
			break;
		case OTHER_DOMAIN:
			sge[0].lkey = f->foreign->base.lkey;
			break;
		case READ_ONLY:
			wr.opcode = IBV_WR_RDMA_READ;
			sge[0].lkey = f->plain->base.lkey;
			break;
		case NO_READS:
			wr.opcode = IBV_WR_RDMA_READ;
			break;
		case ATOMIC_SIZE:
			wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
			sge[0].length = 4;
			break;
		case TOO_LONG:
			wr.num_sge = 2;
			sge[0].length = 1u << 31;
			break;
		}
		/* it waits for the request before it */
		fixture_post(f, send_of(1, 1));
		fixture_post(f, wr);
		fixture_post(f, send_of(3, 1));
		expect_sent(f, OP_SEND_ONLY, sent_psn(0));
		if (rows[i].what == READ_ONLY) { /* found as the data come */
			expect_sent(f, OP_READ_REQUEST, sent_psn(1));
			expect_sent(f, OP_SEND_ONLY, sent_psn(2));
		}
		expect_silence_(f, (int)i);
		expect_none(f);
		fixture_give(f, ack(sent_psn(0), ACKED));
		expect_done(f, 1, IBV_WC_SUCCESS);
		if (rows[i].what == READ_ONLY)
			fixture_give(f, response(OP_READ_RESPONSE_ONLY, sent_psn(1), 8));
		expect_completion_(&f->send_cq, 2, rows[i].status, (int)i);
		expect_done(f, 3, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(f->qp->state, IBV_QPS_ERR);
	}
}

static void a_region_that_goes_while_its_request_waits_is_noticed(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge;

	fixture_start(f, IBV_QPS_RTS);
	sge = (struct ibv_sge){IOVA, 8, f->plain->base.lkey};
	fixture_post(f, send_from(1, &sge));
	fixture_post(f, send_of(2, 1));
	mr_deregister(f->plain);
	fixture_give(f, ack(sent_psn(0), NAK_SEQUENCE));
	expect_done(f, 1, IBV_WC_LOC_PROT_ERR);
	expect_done(f, 2, IBV_WC_WR_FLUSH_ERR);
}

static void failure_flushes_both_queues_in_order(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	for (uint64_t i = 1; i <= 3; i++)
		fixture_post_recv(f, 10 + i, 64);
	fixture_give(f, request(OP_SEND_FIRST, due_psn(0), MTU > 64 ? 0 : MTU)); /* fails: not a full packet */
	expect_taken(f, 11, IBV_WC_REM_INV_REQ_ERR);
	expect_taken(f, 12, IBV_WC_WR_FLUSH_ERR);
	expect_taken(f, 13, IBV_WC_WR_FLUSH_ERR);
	for (uint64_t i = 1; i <= 3; i++) {
		struct ibv_send_wr wr = send_of(i, 1);

		wr.send_flags = 0; /* a flushed request completes, signalled or not */
		fixture_post(f, wr);
		expect_done(f, i, IBV_WC_WR_FLUSH_ERR);
	}
	expect_none(f);
}

static void a_begun_receive_is_flushed_first(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post_recv(f, 1, 4096);
	fixture_post_recv(f, 2, 4096);
	fixture_give(f, request(OP_SEND_FIRST, due_psn(0), MTU));
	fixture_post(f, send_of(7, 3 * MTU));
	assert_int_equal(fixture_move(f, IBV_QPS_ERR), 0);
	expect_taken(f, 1, IBV_WC_WR_FLUSH_ERR);
	expect_taken(f, 2, IBV_WC_WR_FLUSH_ERR);
	expect_done(f, 7, IBV_WC_WR_FLUSH_ERR);
	expect_none(f);
	/* and the rest of the message changes nothing */
	memset(f->memory, 0, sizeof(f->memory));
	fixture_forget(f);
	fixture_give(f, request(OP_SEND_LAST, due_psn(1), 4));
	expect_silence(f);
	for (int i = 0; i < MEMORY; i++)
		assert_int_equal(f->memory[i], 0);
}

static void a_full_cq_takes_the_qp_down(void **state)
{
	struct fixture *f = *state;

	cq_fini(&f->send_cq);
	f->send_cq = (struct cq){0};
	assert_int_equal(cq_init(&f->send_cq, &f->hca, 2), 0);
	fixture_start(f, IBV_QPS_RTS);
	for (uint64_t i = 0; i < 3; i++)
		fixture_post(f, send_of(i, 1));
	fixture_give(f, ack(sent_psn(2), ACKED));
	assert_int_equal(f->cq_errors, 1);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
	assert_int_equal(f->event[IBV_EVENT_QP_FATAL], 1);
}

static void destroying_takes_the_completions_along(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post_recv(f, 1, 1);
	fixture_post(f, send_of(1, 1));
	fixture_give(f, ack(sent_psn(0), ACKED));
	fixture_move(f, IBV_QPS_ERR);
	qp_destroy(f->qp);
	f->qp = NULL;
	expect_none(f);
	assert_null(hca_find_qp(&f->hca, 0x010000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_ack_completes_all_before_it),
		TEST(only_signalled_requests_complete),
		TEST(sig_all_signals_all),
		TEST(ghosts_are_ignored),
		TEST(each_nak_has_its_status),
		TEST(unknown_naks_are_ignored),
		TEST(a_sequence_nak_goes_back),
		TEST(retries_of_sequence_naks_are_limited),
		TEST(a_read_is_put_where_it_belongs),
		TEST(responses_are_as_long_as_asked),
		TEST(an_atomic_brings_what_was_there),
		TEST(a_response_to_a_send_is_bad),
		TEST(a_read_answered_like_an_atomic_is_bad),
		TEST(an_ack_beyond_a_read_implies_a_nak),
		TEST(a_response_beyond_a_hole_asks_again_from_there),
		TEST(a_response_acknowledges_what_is_before_it),
		TEST(local_errors_have_their_status),
		TEST(a_region_that_goes_while_its_request_waits_is_noticed),
		TEST(failure_flushes_both_queues_in_order),
		TEST(a_begun_receive_is_flushed_first),
		TEST(a_full_cq_takes_the_qp_down),
		TEST(destroying_takes_the_completions_along),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
