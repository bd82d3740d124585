/* SPDX-License-Identifier: BSD-2-Clause */
/* Small SENDs to the network on the fast path, and packets from there that take it: they leave the same state as
 * the slow path, and what is not for the fast path takes the slow path. */
#include <string.h>

#include "fast_path.h"

/* How many packets it became. */
static uint32_t post_with(struct fixture *f, struct ibv_send_wr *wr, struct packet p[2], char *payload)
{
	uint32_t tail = f->qp->sq.tail, count = 0;

	lock_take(&f->qp->lock);
	if (f->qp->lane == LANE_UDP && qp_is_idle(f->qp) && engine_fast_send_fits(f->qp, wr))
		count = engine_fast_send_udp(f->qp, &wr, f->now, UINT32_MAX, 1, payload, p);
	lock_drop(&f->qp->lock);
	assert_int_equal(f->qp->sq.tail, tail + (count > 0));
	return count;
}

/* `length` bytes from the beginning of the memory. */
static uint32_t post(struct fixture *f, uint64_t id, uint32_t length, unsigned flags, struct packet p[2])
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = send_of(f, id, &sge, length, flags);
	char payload[FAST_UDP_MOST];
	uint32_t count;

	count = post_with(f, &wr, p, payload);
	if (count)
		assert_memory_equal(payload, f->memory, length);
	return count;
}

static bool take_to(struct fixture *f, struct packet p, const union ibv_gid *from, struct cq_poller *poller)
{
	bool taken;

	p.payload = f->payload;
	p.to = fixture_here.raw;
	p.pkey = p.pkey ?: PKEY_DEFAULT;
	f->now += USEC;
	lock_take(&f->qp->lock);
	taken = engine_receive(f->qp, &p, from, f->now, poller);
	lock_drop(&f->qp->lock);
	return taken;
}

static bool take(struct fixture *f, struct packet p)
{
	return take_to(f, p, &fixture_there, NULL);
}

static void start(struct fixture *f)
{
	fixture_start(f, IBV_QPS_RTS);
	fill(f);
}

static void the_packet_says_what_the_request_does(void **state)
{
	struct fixture *f = *state;
	struct packet p[2];

	start(f);
	assert_int_equal(post(f, 1, 64, IBV_SEND_SOLICITED, p), 1);
	assert_int_equal(p[0].opcode, OP_SEND_ONLY);
	assert_int_equal(p[0].psn.v, sent_psn(0).v);
	assert_int_equal(p[0].dest_qpn, PEER_QPN);
	assert_int_equal(p[0].pkey, PKEY_DEFAULT);
	assert_int_equal(p[0].length, 64);
	assert_true(p[0].solicited && p[0].ack_request && p[0].migrated && !p[0].pieces);
	fixture_run(f);
	expect_silence(f); /* all has been sent */
	assert_true(take(f, ack(sent_psn(0), ACKED)));
	expect_done(f, 1, IBV_WC_SUCCESS);
	assert_int_equal(f->qp->req.flight, 0);
	assert_false(fixture_wait_deadline(f)); /* nothing is on the way, and no timer runs */
	assert_int_equal(post(f, 2, 64, IBV_SEND_INLINE, p), 1);
	assert_int_equal(p[0].psn.v, sent_psn(1).v);
	assert_false(p[0].solicited);
	fixture_give(f, ack(sent_psn(1), ACKED));
	expect_done(f, 2, IBV_WC_SUCCESS);
	expect_none(f);
}

static void what_is_not_acknowledged_is_sent_again_the_usual_way(void **state)
{
	struct fixture *f = *state;
	struct packet p[2];

	start(f);
	assert_int_equal(post(f, 1, 64, 0, p), 1);
	assert_true(fixture_wait_deadline(f));
	assert_memory_equal(expect_sent(f, OP_SEND_ONLY, sent_psn(0))->payload, f->memory, 64);
	assert_true(take(f, ack(sent_psn(0), ACKED)));
	expect_done(f, 1, IBV_WC_SUCCESS);
}

/* A small request waits for an answer that is bound to come, to be one of a train. */
static void while_an_answer_is_due_requests_wait(void **state)
{
	struct fixture *f = *state;
	struct packet p[2];

	start(f);
	assert_int_equal(post(f, 1, 64, 0, p), 1);
	assert_int_equal(post(f, 2, 64, 0, p), 0);
	assert_true(take(f, ack(sent_psn(0), ACKED)));
	assert_int_equal(post(f, 2, 64, 0, p), 1);
}

static void what_has_been_received_is_acknowledged_behind_it(void **state)
{
	struct fixture *f = *state;
	struct packet p[2], due = request(OP_SEND_ONLY, due_psn(0), 64);

	start(f);
	fixture_post_recv(f, 1, 64);
	due.ack_request = true;
	assert_true(take(f, due));
	assert_int_equal(post(f, 1, 64, 0, p), 2);
	assert_int_equal(p[1].opcode, OP_ACKNOWLEDGE);
	assert_int_equal(p[1].psn.v, due_psn(0).v);
	assert_int_equal(p[1].syndrome, ACKED);
	assert_int_equal(p[1].msn, 1);
	assert_int_equal(p[1].dest_qpn, PEER_QPN);
	fixture_run(f);
	expect_silence(f);
}

static void a_reply_that_is_not_signalled_does_not_ask(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge = fixture_sge(f, 0, 64);
	struct ibv_send_wr wr = wr_of(1, &sge, 1);
	struct packet p[2];
	char payload[FAST_UDP_MOST];

	start(f);
	wr.send_flags = 0;
	assert_int_equal(post_with(f, &wr, p, payload), 1);
	assert_true(p[0].ack_request); /* nobody has spoken yet */
	assert_true(take(f, ack(sent_psn(0), ACKED)));
	fixture_post_recv(f, 1, 64);
	assert_true(take(f, request(OP_SEND_ONLY, due_psn(0), 64)));
	assert_int_equal(post_with(f, &wr, p, payload), 2);
	assert_false(p[0].ack_request);
}

/* Posts `count` requests of these lengths (0: the last one's) as a list with ids from 1 on. The number posted. */
static uint32_t post_list(struct fixture *f, const uint32_t *lengths, uint32_t count, uint32_t most, struct packet *p,
			  uint32_t *packets)
{
	static char payload[(FAST_UDP_LIST + 8) * (FAST_UDP_MOST + PACKET_HEADERS)];
	struct ibv_sge sge[FAST_UDP_LIST + 8];
	struct ibv_send_wr wr[FAST_UDP_LIST + 8], *left = wr;
	uint32_t tail = f->qp->sq.tail, posted;
	const char *at = payload;

	for (uint32_t i = 0; i < count; i++) {
		sge[i] = fixture_sge(f, i, lengths[i]);
		wr[i] = wr_of(1 + i, &sge[i], 1);
		wr[i].send_flags = 0;
		wr[i].next = i + 1 < count ? &wr[i + 1] : NULL;
	}
	*packets = 0;
	lock_take(&f->qp->lock);
	if (f->qp->lane == LANE_UDP && qp_is_idle(f->qp) && engine_fast_send_fits(f->qp, wr))
		*packets = engine_fast_send_udp(f->qp, &left, f->now, UINT32_MAX, most, payload, p);
	lock_drop(&f->qp->lock);
	posted = f->qp->sq.tail - tail;
	assert_ptr_equal(left, posted < count ? &wr[posted] : NULL);
	for (uint32_t i = 0; i < posted; i++) {
		assert_int_equal(p[i].opcode, OP_SEND_ONLY);
		assert_int_equal(p[i].psn.v, sent_psn(i).v);
		assert_int_equal(p[i].length, lengths[i]);
		assert_memory_equal(at, f->memory + i, lengths[i]);
		at += packet_bytes(p);
	}
	return posted;
}

/* A list becomes one train: requests of one length, as many as fit. The last one asks for an ACK, which completes all.
 */
static void a_list_is_a_train(void **state)
{
	static const struct {
		uint32_t length[4], most, window, posted;
	} rows[] = {
		{{64, 64, 64, 64}, 8, UINT32_MAX, 4},
		{{64, 64, 64, 64}, 3, UINT32_MAX, 3},
		{{64, 64, 60, 64}, 8, UINT32_MAX, 2},
		{{64, 64, FAST_UDP_MOST + 1, 64}, 8, UINT32_MAX, 2},
		{{4, 4, 4, 4}, 8, FAST_UDP_MOST + PACKET_OVERHEAD, 4},
		{{252, 252, 252, 252}, 8, 3 * (252 + PACKET_OVERHEAD) + 5, 3},
		{{252, 252, 252, 252}, 8, FAST_UDP_MOST + PACKET_OVERHEAD, 1},
	};
	struct packet p[FAST_UDP_LIST + 1];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fixture *f = fixture_renew(state);
		uint32_t packets, posted;

		start(f);
		f->qp->req.window = min_of(f->qp->req.window, rows[i].window);
		posted = post_list(f, rows[i].length, 4, rows[i].most, p, &packets);
		if (posted != rows[i].posted)
			fail_msg("row %zu: %u are posted, not %u", i, posted, rows[i].posted);
		assert_int_equal(packets, posted);
		assert_true(p[posted - 1].ack_request);
		fixture_run(f);
		expect_silence(f); /* all has been sent */
		assert_true(take(f, ack(sent_psn((int)posted - 1), ACKED)));
		assert_int_equal(f->qp->sq.head, posted);
		assert_int_equal(f->qp->req.flight, 0);
	}
}

/* As many as FAST_UDP_LIST, and the ACK that is due behind them. */
static void a_long_list_is_cut(void **state)
{
	struct fixture *f = *state;
	struct packet p[FAST_UDP_LIST + 1], due = request(OP_SEND_ONLY, due_psn(0), 64);
	uint32_t lengths[FAST_UDP_LIST + 8], packets;

	start(f);
	for (uint32_t i = 0; i < ARRAY_SIZE(lengths); i++)
		lengths[i] = 16;
	fixture_post_recv(f, 1, 64);
	due.ack_request = true;
	assert_true(take(f, due));
	assert_int_equal(
		post_list(f, lengths, min_of((uint32_t)ARRAY_SIZE(lengths), f->qp->sq.depth), UINT32_MAX, p, &packets),
		min_of((uint32_t)FAST_UDP_LIST, f->qp->sq.depth));
	assert_int_equal(packets, min_of((uint32_t)FAST_UDP_LIST, f->qp->sq.depth) + 1);
	assert_int_equal(p[packets - 1].opcode, OP_ACKNOWLEDGE);
}

/* Memory that is not the domain's ends the train before it, and is left to the queue. */
static void a_list_ends_before_what_cannot_be_read(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge good = fixture_sge(f, 0, 64), bad = good;
	struct ibv_send_wr second = wr_of(2, &bad, 1), first = wr_of(1, &good, 1), *left = &first;
	char payload[2 * (FAST_UDP_MOST + PACKET_HEADERS)];
	struct packet p[FAST_UDP_LIST + 1];

	start(f);
	bad.lkey++;
	first.next = &second;
	lock_take(&f->qp->lock);
	assert_int_equal(engine_fast_send_udp(f->qp, &left, f->now, UINT32_MAX, 8, payload, p), 1);
	lock_drop(&f->qp->lock);
	assert_ptr_equal(left, &second);
	assert_true(p[0].ack_request);
}

static void what_is_not_short_is_left_to_the_usual_way(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge = fixture_sge(f, 0, 64);
	struct ibv_send_wr wr = wr_of(1, &sge, 1);
	char payload[FAST_UDP_MOST];
	struct packet p[2];

	start(f);
	assert_int_equal(post(f, 1, FAST_UDP_LEAST - 1, 0, p), 0);
	assert_int_equal(post(f, 1, MTU + 1, 0, p), 0);
	assert_int_equal(post(f, 1, f->qp->sq.max_inline + 1, IBV_SEND_INLINE, p), 0);
	assert_int_equal(post(f, 1, 64, IBV_SEND_FENCE, p), 0);
	wr.opcode = IBV_WR_RDMA_WRITE;
	assert_int_equal(post_with(f, &wr, p, payload), 0);
	wr.opcode = IBV_WR_SEND;
	wr.num_sge = 2;
	assert_int_equal(post_with(f, &wr, p, payload), 0);
	wr.num_sge = 1;
	sge.lkey = f->foreign->base.lkey;
	assert_int_equal(post_with(f, &wr, p, payload), 0);
	f->qp->answers_first = true;
	assert_int_equal(post(f, 1, 64, 0, p), 0);
	f->qp->answers_first = false;
	f->qp->req.window = 64; /* narrower than the packet */
	assert_int_equal(post(f, 1, 64, 0, p), 0);
	f->qp->req.window = 65536;
	assert_int_equal(post(f, 1, 64, 0, p), 1);
	fixture_give(f, ack(sent_psn(0), SYNDROME_RNR | 1));
	assert_int_equal(post(f, 2, 64, 0, p), 0);
}

static void to_a_local_peer_nothing_goes_so(void **state)
{
	struct fixture *f = *state;
	struct packet p[2];

	start(f);
	lock_take(&f->qp->lock);
	assert_true(engine_change_link(f->qp, 4096));
	lock_drop(&f->qp->lock);
	assert_int_equal(post(f, 1, 64, 0, p), 0);
}

static void a_message_finds_its_receive(void **state)
{
	struct fixture *f = *state;
	struct packet p = request(OP_SEND_ONLY, due_psn(0), 64);
	struct cqe c;

	start(f);
	assert_false(take(f, p)); /* there is none */
	fixture_post_recv(f, 1, 64);
	p.solicited = true;
	assert_true(take(f, p));
	c = expect_taken(f, 1, IBV_WC_SUCCESS);
	assert_int_equal(c.byte_len, 64);
	assert_true(c.marks & CQE_SOLICITED);
	assert_memory_equal(f->memory + MEMORY / 2, f->payload, 64);
	expect_none(f);
}

static void a_poll_returns_completions(void **state)
{
	struct fixture *f = *state;
	struct ibv_wc wc[2];
	struct cq_poller poller = {&f->recv_cq, wc, 2, 0};

	start(f);
	fixture_post_recv(f, 1, 64);
	assert_true(take_to(f, request(OP_SEND_ONLY, due_psn(0), 64), &fixture_there, &poller));
	assert_int_equal(poller.got, 1);
	assert_int_equal(wc[0].wr_id, 1);
	assert_int_equal(wc[0].status, IBV_WC_SUCCESS);
	assert_int_equal(wc[0].byte_len, 64);
	expect_none(f);
}

static void what_is_not_for_the_queue_pair_changes_nothing(void **state)
{
	union ibv_gid stranger = fixture_there;
	struct fixture *f = *state;
	struct packet p = request(OP_SEND_ONLY, due_psn(0), 64), good = p;

	start(f);
	fixture_post_recv(f, 1, 64);
	stranger.raw[15] ^= 1;
	assert_false(take_to(f, p, &stranger, NULL));
	p.pkey = 0x1234;
	assert_false(take(f, p));
	p = good;
	p.opcode |= TRANSPORT_UC;
	assert_false(take(f, p));
	assert_false(take(f, ack(sent_psn(0), ACKED))); /* of what was never sent */
	expect_none(f);
	fixture_run(f);
	expect_silence(f);
	assert_true(take(f, good));
	expect_taken(f, 1, IBV_WC_SUCCESS);
}

/* The slow path takes it in the same call. */
static void what_the_fast_path_leaves_is_taken_all_the_same(void **state)
{
	struct fixture *f = *state;
	struct packet congested = request(OP_SEND_ONLY, due_psn(0), 64), marked = request(OP_SEND_ONLY, due_psn(1), 64);

	start(f);
	for (uint64_t id = 1; id <= 3; id++)
		fixture_post_recv(f, id, MTU);
	congested.congestion = true;
	marked.fecn = true;
	assert_false(take(f, congested));
	expect_taken(f, 1, IBV_WC_SUCCESS);
	assert_false(take(f, marked));
	expect_taken(f, 2, IBV_WC_SUCCESS);
	assert_false(take(f, request(OP_SEND_ONLY, due_psn(3), 64)));	/* one before it is missing */
	assert_false(take(f, request(OP_SEND_ONLY, due_psn(1), 64)));	/* it has come before */
	assert_false(take(f, request(OP_SEND_FIRST, due_psn(2), MTU))); /* more is to come */
	expect_none(f);
}

static void a_loss_is_over_with_the_ack_of_all_that_was_sent(void **state)
{
	struct fixture *f = *state;
	struct packet p[2];

	start(f);
	assert_int_equal(post(f, 1, 64, 0, p), 1);
	f->qp->req.recovering = true;
	f->qp->req.recovery = f->qp->req.high;
	assert_true(take(f, ack(sent_psn(0), ACKED)));
	assert_false(f->qp->req.recovering);
	expect_done(f, 1, IBV_WC_SUCCESS);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(the_packet_says_what_the_request_does),
		T(what_is_not_acknowledged_is_sent_again_the_usual_way),
		T(while_an_answer_is_due_requests_wait),
		T(what_has_been_received_is_acknowledged_behind_it),
		T(a_reply_that_is_not_signalled_does_not_ask),
		T(a_list_is_a_train),
		T(a_long_list_is_cut),
		T(a_list_ends_before_what_cannot_be_read),
		T(what_is_not_short_is_left_to_the_usual_way),
		T(to_a_local_peer_nothing_goes_so),
		T(a_message_finds_its_receive),
		T(a_poll_returns_completions),
		T(what_is_not_for_the_queue_pair_changes_nothing),
		T(what_the_fast_path_leaves_is_taken_all_the_same),
		T(a_loss_is_over_with_the_ack_of_all_that_was_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
