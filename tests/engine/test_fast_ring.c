/* SPDX-License-Identifier: BSD-2-Clause */
/* Small SENDs and WRITEs with immediate between local peers on the fast path: they leave the same state as the slow
 * path, and what is not for the fast path takes the slow path. Datagrams: test_fast_datagrams.c. */
#include <string.h>

#include "fast_path.h"

enum { LARGE = 4096 };

static void start(struct fixture *f)
{
	fixture_start(f, IBV_QPS_RTS);
	lock_take(&f->qp->lock);
	assert_true(engine_change_link(f->qp, LARGE));
	lock_drop(&f->qp->lock);
	fill(f);
}

static bool post_with(struct fixture *f, const struct ibv_send_wr *wr, struct packet *p, char *payload)
{
	uint32_t tail = f->qp->sq.tail;
	bool posted = false;

	*p = (struct packet){0};
	lock_take(&f->qp->lock);
	if (f->qp->lane == LANE_RING && qp_is_idle(f->qp))
		posted = fast_is_common(f->qp, wr) ? engine_fast_send(f->qp, wr, p, payload, true)
						   : engine_fast_send(f->qp, wr, p, payload, false);
	if (posted && !engine_fast_is_timed(f->qp))
		engine_fast_time(f->qp, f->now);
	lock_drop(&f->qp->lock);
	assert_int_equal(f->qp->sq.tail, tail + posted);
	return posted;
}

/* `length` bytes from the beginning of the memory. */
static bool post(struct fixture *f, uint64_t id, uint32_t length, unsigned flags, struct packet *p)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = send_of(f, id, &sge, length, flags);
	char payload[FAST_RING_MOST];
	bool posted;

	posted = post_with(f, &wr, p, payload);
	if (posted)
		assert_memory_equal(payload, f->memory, length);
	return posted;
}

static void the_packet_says_what_the_request_does(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge[2];
	struct ibv_send_wr wr = wr_of(7, sge, 2);
	char payload[FAST_RING_MOST];
	struct packet p;

	start(f);
	sge[0] = fixture_sge(f, 10, 3);
	sge[1] = fixture_sge(f, 100, 5);
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	wr.imm_data = 0x11223344;
	wr.send_flags |= IBV_SEND_SOLICITED;
	assert_true(post_with(f, &wr, &p, payload));
	assert_int_equal(p.opcode, OP_SEND_ONLY_IMM);
	assert_int_equal(p.imm, 0x11223344);
	assert_int_equal(p.psn.v, sent_psn(0).v);
	assert_int_equal(p.dest_qpn, PEER_QPN);
	assert_int_equal(p.length, 8);
	assert_true(p.solicited && p.ack_request && !p.pieces);
	assert_memory_equal(payload, f->memory + 10, 3);
	assert_memory_equal(payload + 3, f->memory + 100, 5);
	assert_true(post(f, 8, 0, 0, &p));
	assert_int_equal(p.opcode, OP_SEND_ONLY);
	assert_int_equal(p.psn.v, sent_psn(1).v);
	assert_false(p.solicited);
	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr.wr.rdma.remote_addr = 0x123456789a;
	wr.wr.rdma.rkey = 0x778899;
	assert_true(post_with(f, &wr, &p, payload));
	assert_int_equal(p.opcode, OP_WRITE_ONLY_IMM);
	assert_int_equal(p.imm, 0x11223344);
	assert_int_equal(p.va, 0x123456789a);
	assert_int_equal(p.rkey, 0x778899);
	assert_int_equal(p.length, 8);
	assert_int_equal(p.dma_length, 8);
	fixture_run(f);
	expect_silence(f); /* all has been sent */
}

static void an_acknowledgement_completes_it(void **state)
{
	struct fixture *f = *state;
	struct packet p;

	start(f);
	for (uint64_t i = 0; i < 3; i++)
		assert_true(post(f, i, 64, i == 1 ? IBV_SEND_INLINE : 0, &p));
	expect_none(f);
	fixture_give(f, ack(sent_psn(1), ACKED));
	expect_done(f, 0, IBV_WC_SUCCESS);
	expect_done(f, 1, IBV_WC_SUCCESS);
	expect_none(f);
	fixture_give(f, ack(sent_psn(2), ACKED));
	expect_done(f, 2, IBV_WC_SUCCESS);
	assert_int_equal(f->qp->req.flight, 0);
	assert_false(fixture_wait_deadline(f)); /* nothing is on the way, and no timer runs */
}

static void what_is_not_acknowledged_is_sent_again_the_usual_way(void **state)
{
	struct fixture *f = *state;
	uint8_t before[64];
	struct packet p;

	start(f);
	memcpy(before, f->memory, sizeof(before));
	assert_true(post(f, 1, 64, 0, &p));
	assert_true(post(f, 2, 64, IBV_SEND_INLINE, &p));
	memset(f->memory, 0, sizeof(before)); /* inline data are taken when they are posted */
	assert_true(fixture_wait_deadline(f));
	assert_memory_equal(expect_sent(f, OP_SEND_ONLY, sent_psn(0))->payload, f->memory, 64);
	assert_memory_equal(expect_sent(f, OP_SEND_ONLY, sent_psn(1))->payload, before, 64);
	fixture_give(f, ack(sent_psn(1), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
	expect_done(f, 2, IBV_WC_SUCCESS);
}

static void while_the_receiver_is_not_ready_nothing_goes_straight(void **state)
{
	struct fixture *f = *state;
	struct packet p;

	start(f);
	assert_true(post(f, 1, 64, 0, &p));
	assert_true(post(f, 2, 64, 0, &p));
	fixture_give(f, ack(sent_psn(0), SYNDROME_RNR | 1));
	assert_false(post(f, 3, 64, 0, &p));
	fixture_post(f, (struct ibv_send_wr){
				.wr_id = 3, .opcode = IBV_WR_SEND, .num_sge = 64, .send_flags = IBV_SEND_SIGNALED});
	expect_silence(f);
	assert_true(fixture_wait_deadline(f));
	for (uint32_t i = 0; i < 3; i++)
		expect_sent(f, OP_SEND_ONLY, sent_psn(i));
	assert_true(post(f, 4, 64, 0, &p));
	assert_int_equal(p.psn.v, sent_psn(3).v);
	fixture_give(f, ack(sent_psn(3), ACKED));
	for (uint64_t i = 1; i < 5; i++)
		expect_done(f, i, IBV_WC_SUCCESS);
}

static void what_is_not_plain_is_left_to_the_usual_way(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge = fixture_sge(f, 0, 64);
	struct ibv_send_wr wr = wr_of(1, &sge, 1);
	char payload[FAST_RING_MOST];
	struct packet p;

	start(f);
	assert_false(post(f, 1, FAST_RING_MOST + 1, 0, &p));
	assert_false(post(f, 1, f->qp->sq.max_inline + 1, IBV_SEND_INLINE, &p));
	wr.opcode = IBV_WR_RDMA_WRITE;
	assert_false(post_with(f, &wr, &p, payload));
	wr.opcode = IBV_WR_SEND_WITH_INV;
	assert_false(post_with(f, &wr, &p, payload));
	wr.opcode = IBV_WR_SEND;
	wr.num_sge = (int)f->qp->sq.max_sge + 1;
	assert_false(post_with(f, &wr, &p, payload));
	wr.num_sge = -1;
	assert_false(post_with(f, &wr, &p, payload));
	wr.num_sge = 1;
	sge.lkey = f->foreign->base.lkey;
	assert_false(post_with(f, &wr, &p, payload));
	/* a fence waits for READs */
	fixture_post(f, (struct ibv_send_wr){
				.wr_id = 1, .opcode = IBV_WR_RDMA_READ, .num_sge = 64, .wr.rdma = {IOVA, 0x99}});
	assert_false(post(f, 2, 64, IBV_SEND_FENCE, &p));
	assert_true(post(f, 2, 64, 0, &p));
	assert_int_equal(p.psn.v, sent_psn(1).v);
}

static void a_full_queue_takes_no_more(void **state)
{
	struct fixture *f = *state;
	struct packet p;

	start(f);
	for (uint32_t i = 0; i < f->qp->sq.depth; i++)
		assert_true(post(f, i, 1, 0, &p));
	assert_false(post(f, 99, 1, 0, &p));
}

static void over_the_network_nothing_goes_straight(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	lock_take(&f->qp->lock);
	assert_int_equal(f->qp->lane, LANE_UDP);
	lock_drop(&f->qp->lock);
}

static void a_message_finds_its_receive(void **state)
{
	struct fixture *f = *state;
	struct packet p = request(OP_SEND_ONLY_IMM, due_psn(0), 64);
	struct cqe c;

	start(f);
	p.imm = 0x55667788;
	p.solicited = true;
	fixture_post_recv(f, 1, 64);
	fixture_post_recv(f, 2, 64);
	assert_true(give(f, p));
	c = expect_taken(f, 1, IBV_WC_SUCCESS);
	assert_int_equal(c.byte_len, 64);
	assert_int_equal(c.imm, 0x55667788);
	assert_int_equal(c.flags, IBV_WC_WITH_IMM);
	assert_int_equal(c.opcode, IBV_WC_RECV);
	assert_int_equal(c.src_qp, PEER_QPN);
	assert_true(c.marks & CQE_SOLICITED);
	assert_memory_equal(f->memory + MEMORY / 2, f->payload, 64);
	p = request(OP_SEND_ONLY, due_psn(1), 0);
	assert_true(give(f, p));
	c = expect_taken(f, 2, IBV_WC_SUCCESS);
	assert_int_equal(c.byte_len, 0);
	assert_int_equal(c.flags, 0);
	assert_false(c.marks & CQE_SOLICITED);
	expect_none(f);
}

static struct packet write_of(const struct fixture *f, psn_t at, uint32_t length)
{
	struct packet p = request(OP_WRITE_ONLY_IMM, at, length);

	p.va = IOVA + 700;
	p.rkey = f->mr->base.rkey;
	p.dma_length = length;
	p.imm = 0x55667788;
	p.mtu = LARGE;
	return p;
}

static void a_write_with_immediate_is_stored_and_takes_a_receive(void **state)
{
	struct fixture *f = *state;
	struct packet p = write_of(f, due_psn(0), 64);
	struct cqe c;

	start(f);
	assert_false(give(f, p)); /* no receive */
	fixture_post_recv(f, 1, 0);
	fixture_post_recv(f, 2, 0);
	assert_true(give(f, p));
	c = expect_taken(f, 1, IBV_WC_SUCCESS);
	assert_int_equal(c.byte_len, 64);
	assert_int_equal(c.imm, 0x55667788);
	assert_int_equal(c.flags, IBV_WC_WITH_IMM);
	assert_int_equal(c.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_memory_equal(f->memory + 700, f->payload, 64);
	p = write_of(f, due_psn(1), 0);
	p.rkey = 0; /* of no bytes, it is not looked at */
	assert_true(give(f, p));
	assert_int_equal(expect_taken(f, 2, IBV_WC_SUCCESS).byte_len, 0);
	expect_none(f);
}

static void a_write_that_may_not_be_is_refused_the_usual_way(void **state)
{
	struct fixture *f = *state;
	struct packet p;
	uint8_t before;

	start(f);
	before = f->memory[700];
	fixture_post_recv(f, 1, 0);
	p = write_of(f, due_psn(0), 64);
	p.dma_length++;
	assert_false(give(f, p));
	p = write_of(f, due_psn(0), 64);
	p.rkey = f->plain->base.rkey;
	assert_false(give(f, p));
	p = write_of(f, due_psn(0), 64);
	p.va = IOVA + MEMORY - 63;
	assert_false(give(f, p));
	assert_int_equal(f->memory[700], before);
	expect_none(f);
	fixture_give(f, p);
	expect_ack(f, due_psn(0), NAK_REMOTE_ACCESS);
}

static void an_end_that_only_receives_tells_of_the_first_message(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTR);
	fixture_post_recv(f, 1, 64);
	fixture_post_recv(f, 2, 64);
	assert_false(give(f, request(OP_SEND_ONLY, due_psn(0), 64)));
	fixture_give(f, request(OP_SEND_ONLY, due_psn(0), 64));
	assert_int_equal(f->event[IBV_EVENT_COMM_EST], 1);
	assert_true(give(f, request(OP_SEND_ONLY, due_psn(1), 64)));
	expect_taken(f, 1, IBV_WC_SUCCESS);
	expect_taken(f, 2, IBV_WC_SUCCESS);
	assert_int_equal(f->event[IBV_EVENT_COMM_EST], 1);
}

static void what_has_been_received_is_acknowledged(void **state)
{
	struct fixture *f = *state;
	struct packet p = request(OP_SEND_ONLY, due_psn(0), 64), answer;

	start(f);
	p.ack_request = true;
	fixture_post_recv(f, 1, 64);
	fixture_post_recv(f, 2, 64);
	assert_true(give(f, p));
	fixture_run(f);
	expect_ack(f, due_psn(0), ACKED);
	expect_taken(f, 1, IBV_WC_SUCCESS);
	/* in a packet of its own, whatever else leaves */
	p.psn = due_psn(1);
	assert_true(give(f, p));
	assert_true(post(f, 1, 8, 0, &answer));
	fixture_run(f);
	expect_ack(f, due_psn(1), ACKED);
	expect_silence(f);
	expect_taken(f, 2, IBV_WC_SUCCESS);
}

static void what_is_out_of_order_or_does_not_fit_is_not_taken(void **state)
{
	struct fixture *f = *state;

	start(f);
	assert_false(give(f, request(OP_SEND_ONLY, due_psn(0), 64))); /* no receive */
	fixture_post_recv(f, 1, 64);
	fixture_post_recv(f, 2, 64);
	assert_false(give(f, request(OP_SEND_ONLY, due_psn(1), 64)));
	assert_false(give(f, request(OP_SEND_ONLY, psn_add(due_psn(0), -1u), 64)));
	assert_false(give(f, request(OP_SEND_ONLY, due_psn(0), 65)));
	assert_false(give(f, request(OP_SEND_FIRST, due_psn(0), 64)));
	assert_false(give(f, request(OP_SEND_ONLY_INV, due_psn(0), 64)));
	expect_none(f);
	fixture_give(f,
		     request(OP_SEND_FIRST, due_psn(0), MTU)); /* the middle of a message, too long for its receive */
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
	assert_false(give(f, request(OP_SEND_ONLY, due_psn(0), 64)));
}

static void a_receive_into_memory_that_is_not_writable_fails_the_usual_way(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge = fixture_sge(f, 0, 64);
	struct ibv_recv_wr *bad, wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1};
	struct packet p = request(OP_SEND_ONLY, due_psn(0), 64);

	start(f);
	sge.lkey = f->plain->base.lkey;
	lock_take(&f->qp->lock);
	assert_int_equal(engine_post_recv(f->qp, &wr, &bad), 0);
	lock_drop(&f->qp->lock);
	assert_false(give(f, p));
	expect_none(f);
	p.mtu = LARGE;
	fixture_give(f, p);
	expect_taken(f, 1, IBV_WC_LOC_PROT_ERR);
}

static void start_sharing(struct fixture *f)
{
	f->srq = srq_create(&f->hca, &f->pd, NULL, NULL, 8, 2);
	assert_non_null(f->srq);
	start(f);
}

static void a_message_takes_a_shared_receive(void **state)
{
	struct fixture *f = *state;
	struct packet p = request(OP_SEND_ONLY_IMM, due_psn(0), 64);
	struct cqe c;

	start_sharing(f);
	p.imm = 0x55667788;
	assert_false(give(f, p)); /* no receive */
	share(f, 1, 64, f->mr->base.lkey);
	share(f, 2, 64, f->mr->base.lkey);
	assert_true(give(f, p));
	c = expect_taken(f, 1, IBV_WC_SUCCESS);
	assert_int_equal(c.byte_len, 64);
	assert_int_equal(c.imm, 0x55667788);
	assert_int_equal(c.src_qp, PEER_QPN);
	assert_memory_equal(f->memory + MEMORY / 2, f->payload, 64);
	assert_int_equal(f->srq->rq.tail - f->srq->rq.head, 1);
	assert_false(give(f, write_of(f, due_psn(1), 0)));
	assert_false(give(f, request(OP_READ_REQUEST, due_psn(1), 0)));
	assert_int_equal(f->srq->rq.tail - f->srq->rq.head, 1);
	assert_true(give(f, request(OP_SEND_ONLY, due_psn(1), 3)));
	assert_int_equal(expect_taken(f, 2, IBV_WC_SUCCESS).byte_len, 3);
	expect_none(f);
}

/* It has been taken by then, and is the one that the usual way fails with. */
static void a_shared_receive_that_will_not_do_fails_the_usual_way(void **state)
{
	const struct {
		uint32_t room;
		bool writable;
		enum ibv_wc_status status;
	} rows[] = {{63, true, IBV_WC_LOC_LEN_ERR}, {64, false, IBV_WC_LOC_PROT_ERR}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fixture *f = fixture_renew(state);
		struct packet p = request(OP_SEND_ONLY, due_psn(0), 64);

		start_sharing(f);
		share(f, 1, rows[i].room, (rows[i].writable ? f->mr : f->plain)->base.lkey);
		share(f, 2, 64, f->mr->base.lkey);
		assert_false(give(f, p));
		expect_none(f);
		p.mtu = LARGE;
		fixture_give(f, p);
		expect_taken(f, 1, rows[i].status);
		expect_none(f);
		assert_int_equal(f->srq->rq.tail - f->srq->rq.head, 1);
	}
}

static void a_completion_that_finds_its_queue_full_fails_the_queue_pair(void **state)
{
	struct fixture *f = *state;
	uint32_t depth = f->recv_cq.depth;

	f->cap.max_recv_wr = depth + 1;
	start(f);
	for (uint32_t i = 0; i <= depth; i++)
		fixture_post_recv(f, i, 8);
	for (uint32_t i = 0; i < depth; i++)
		assert_true(give(f, request(OP_SEND_ONLY, due_psn(i), 8)));
	assert_true(give(f, request(OP_SEND_ONLY, due_psn(depth), 8)));
	assert_int_equal(f->cq_errors, 1);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
}

/* ---- somebody polls ---- */

static void who_polls_is_given_the_completion_at_once(void **state)
{
	struct fixture *f = *state;
	struct packet p = request(OP_SEND_ONLY_IMM, due_psn(0), 64), sent;
	struct ibv_wc wc[2];
	struct cq_poller poller = {&f->recv_cq, wc, 2, 0};

	f->cap.max_recv_wr = 2;
	start(f);
	p.imm = 0x55667788;
	fixture_post_recv(f, 1, 64);
	fixture_post_recv(f, 2, 64);
	assert_true(post(f, 7, 8, 0, &sent));
	assert_true(give_to(f, p, &fixture_there, &poller));
	assert_int_equal(poller.got, 1);
	assert_int_equal(wc[0].wr_id, 1);
	assert_int_equal(wc[0].status, IBV_WC_SUCCESS);
	assert_int_equal(wc[0].opcode, IBV_WC_RECV);
	assert_int_equal(wc[0].byte_len, 64);
	assert_int_equal(wc[0].imm_data, 0x55667788);
	assert_int_equal(wc[0].wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(wc[0].qp_num, f->qp->base.qp_num);
	expect_none(f);
	fixture_post_recv(f, 3, 64); /* in the place that has become free */
	assert_true(give_to(f, request(OP_SEND_ONLY, due_psn(1), 8), &fixture_there, &poller));
	assert_int_equal(poller.got, 2);
	assert_int_equal(wc[1].wr_id, 2);
	assert_int_equal(wc[1].wc_flags, 0);
	assert_true(give_to(f, request(OP_SEND_ONLY, due_psn(2), 8), &fixture_there,
			    &poller)); /* no more than it has asked for */
	assert_int_equal(poller.got, 2);
	expect_taken(f, 3, IBV_WC_SUCCESS);
	poller.got = 0;
	assert_true(give_to(f, ack(sent_psn(0), ACKED), &fixture_there, &poller)); /* that is for another CQ */
	assert_int_equal(poller.got, 0);
	expect_done(f, 7, IBV_WC_SUCCESS);
	poller.cq = &f->send_cq;
	assert_true(post(f, 8, 8, 0, &sent));
	assert_true(give_to(f, ack(sent_psn(1), ACKED), &fixture_there, &poller));
	assert_int_equal(poller.got, 1);
	assert_int_equal(wc[0].wr_id, 8);
	assert_int_equal(wc[0].opcode, IBV_WC_SEND);
	expect_none(f);
}

/* What is in the CQ is older; and who waits for an event of it wants one. */
static void but_not_before_others_nor_without_an_event(void **state)
{
	struct fixture *f = *state;
	struct ibv_wc wc[2];
	struct cq_poller poller = {&f->recv_cq, wc, 2, 0};

	start(f);
	for (int i = 1; i < 4; i++)
		fixture_post_recv(f, i, 64);
	assert_true(give(f, request(OP_SEND_ONLY, due_psn(0), 64)));
	assert_true(give_to(f, request(OP_SEND_ONLY, due_psn(1), 64), &fixture_there, &poller));
	expect_taken(f, 1, IBV_WC_SUCCESS);
	expect_taken(f, 2, IBV_WC_SUCCESS);
	cq_request(&f->recv_cq, false);
	assert_true(give_to(f, request(OP_SEND_ONLY, due_psn(2), 64), &fixture_there, &poller));
	expect_taken(f, 3, IBV_WC_SUCCESS);
	assert_int_equal(f->cq_events, 1);
	assert_int_equal(poller.got, 0);
}

/* The bytes are in the memory already: what the peer says of them is believed where it can be true, and of no other. */
static void a_message_that_is_delivered_takes_the_receive_that_it_names(void **state)
{
	struct fixture *f = *state;
	struct packet p = {.opcode = OP_SEND_ONLY_IMM, .delivered = true, .imm = 5, .length = 32};
	struct cqe c;

	start(f);
	for (uint64_t i = 1; i < 4; i++)
		fixture_post_recv(f, i, 32);
	assert_true(give(f, p));
	c = expect_taken(f, 1, IBV_WC_SUCCESS);
	assert_int_equal(c.byte_len, 32);
	assert_int_equal(c.imm, 5);
	assert_int_equal(f->qp->resp.expected.v, due_psn(0).v);
	expect_silence(f);
	p.position = 2; /* not the next one */
	assert_false(give(f, p));
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
}

static void one_that_is_longer_than_its_receive_fails(void **state)
{
	struct fixture *f = *state;
	struct packet p = {.opcode = OP_SEND_ONLY, .delivered = true, .length = 33};

	start(f);
	fixture_post_recv(f, 1, 32);
	assert_false(give(f, p));
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(the_packet_says_what_the_request_does),
		T(an_acknowledgement_completes_it),
		T(what_is_not_acknowledged_is_sent_again_the_usual_way),
		T(while_the_receiver_is_not_ready_nothing_goes_straight),
		T(what_is_not_plain_is_left_to_the_usual_way),
		T(a_full_queue_takes_no_more),
		T(over_the_network_nothing_goes_straight),
		T(a_message_finds_its_receive),
		T(a_write_with_immediate_is_stored_and_takes_a_receive),
		T(a_write_that_may_not_be_is_refused_the_usual_way),
		T(an_end_that_only_receives_tells_of_the_first_message),
		T(what_has_been_received_is_acknowledged),
		T(a_message_that_is_delivered_takes_the_receive_that_it_names),
		T(one_that_is_longer_than_its_receive_fails),
		T(what_is_out_of_order_or_does_not_fit_is_not_taken),
		T(a_receive_into_memory_that_is_not_writable_fails_the_usual_way),
		T(a_message_takes_a_shared_receive),
		T(a_shared_receive_that_will_not_do_fails_the_usual_way),
		T(a_completion_that_finds_its_queue_full_fails_the_queue_pair),
		T(who_polls_is_given_the_completion_at_once),
		T(but_not_before_others_nor_without_an_event),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
