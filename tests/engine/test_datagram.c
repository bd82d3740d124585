/* SPDX-License-Identifier: BSD-2-Clause */
/* UD (IBTA 9.8.3, 10.2.5, 11.6.2): where datagrams go, what they contain, which QP takes them, what fails. */
#include <errno.h>
#include <string.h>

#include "fixture.h"

static int setup(void **state)
{
	struct fixture *f;

	if (fixture_setup(state))
		return -1;
	f = *state;
	f->type = IBV_QPT_UD;
	f->sig_all = true;
	return 0;
}

static struct ibv_send_wr datagram(struct fixture *f, uint64_t wr_id, int length)
{
	return fixture_datagram(f, (struct ibv_send_wr){.wr_id = wr_id, .opcode = IBV_WR_SEND, .num_sge = length});
}

static void a_datagram_carries_its_address(void **state)
{
	struct fixture *f = *state;
	struct ibv_send_wr wr = datagram(f, 1, MTU);
	const struct sent *s;

	fixture_start(f, IBV_QPS_RTS);
	wr.wr.ud.remote_qkey = 0x1234567;
	assert_int_equal(fixture_post(f, wr), 0);
	s = expect_sent(f, OP_SEND_ONLY, sent_psn(0));
	assert_int_equal(s->packet.dest_qpn, PEER_QPN);
	assert_int_equal(s->packet.src_qpn, f->qp->base.qp_num);
	assert_int_equal(s->packet.qkey, 0x1234567);
	assert_int_equal(s->packet.length, MTU);
	assert_false(s->packet.ack_request);
	assert_memory_equal(s->payload, f->memory, MTU);
	assert_memory_equal(&s->dgid, &fixture_there, 16);
	assert_int_equal(expect_done(f, 1, IBV_WC_SUCCESS).opcode, IBV_WC_SEND);

	wr.opcode = IBV_WR_SEND_WITH_IMM;
	wr.imm_data = 0x01020304;
	wr.send_flags = IBV_SEND_SOLICITED;
	wr.num_sge = 0;
	assert_int_equal(fixture_post(f, wr), 0);
	s = expect_sent(f, OP_SEND_ONLY_IMM, sent_psn(1));
	assert_int_equal(s->packet.imm, 0x01020304);
	assert_true(s->packet.solicited);
	assert_int_equal(s->packet.length, 0);
	expect_done(f, 1, IBV_WC_SUCCESS);
	expect_none(f);
	assert_false(fixture_wait_deadline(f)); /* nothing is due, ever */
}

/* IBTA 10.2.5 */
static void a_qkey_with_the_high_bit_means_the_qps_own(void **state)
{
	struct fixture *f = *state;
	struct ibv_send_wr wr = datagram(f, 1, 1);

	fixture_start(f, IBV_QPS_RTS);
	wr.wr.ud.remote_qkey = 0x80000000;
	fixture_post(f, wr);
	assert_int_equal(fixture_sent(f)->packet.qkey, QKEY);
}

static void datagrams_of_one_post_go_to_many(void **state)
{
	struct fixture *f = *state;
	struct ah ah[3] = {f->ah, f->ah, f->ah};
	struct ibv_send_wr wr[3], *bad;

	fixture_start(f, IBV_QPS_RTS);
	ah[1].path.dgid = fixture_elsewhere;
	for (int i = 0; i < 3; i++) {
		wr[i] = datagram(f, i, 0);
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
		wr[i].wr.ud.ah = &ah[i].base;
		wr[i].wr.ud.remote_qpn = 100 + i;
	}
	lock_take(&f->qp->lock);
	assert_int_equal(engine_post_send(f->qp, wr, &bad), 0);
	lock_drop(&f->qp->lock);
	memset(ah, 0xee, sizeof(ah)); /* destroyed once they are posted */
	fixture_run(f);
	for (uint32_t i = 0; i < 3; i++) {
		const struct sent *s = expect_sent(f, OP_SEND_ONLY, sent_psn(i));

		assert_int_equal(s->packet.dest_qpn, 100 + i);
		assert_memory_equal(&s->dgid, i == 1 ? &fixture_elsewhere : &fixture_there, 16);
		expect_done(f, i, IBV_WC_SUCCESS);
	}
}

static void inline_data_are_taken_when_posted(void **state)
{
	struct fixture *f = *state;
	char text[] = "taken";
	struct ibv_sge sge = {(uintptr_t)text, sizeof(text), 0};
	struct ibv_send_wr wr = datagram(f, 1, 0), *bad;

	fixture_start(f, IBV_QPS_RTS);
	wr.send_flags = IBV_SEND_INLINE;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	lock_take(&f->qp->lock);
	assert_int_equal(engine_post_send(f->qp, &wr, &bad), 0);
	lock_drop(&f->qp->lock);
	memset(text, 0, sizeof(text));
	fixture_run(f);
	assert_string_equal((const char *)fixture_sent(f)->payload, "taken");
}

/* A completion tells that the memory is free: not before the packet is out. */
static void a_datagram_is_complete_when_it_is_sent(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge = fixture_sge(f, 0, 8);
	struct ibv_send_wr wr = datagram(f, 1, 1), *bad;

	fixture_start(f, IBV_QPS_RTS);
	wr.sg_list = &sge;
	lock_take(&f->qp->lock);
	assert_int_equal(engine_post_send(f->qp, &wr, &bad), 0);
	f->batch.budget = 1 << 20;
	f->batch.room = UINT32_MAX;
	assert_true(engine_run(f->qp, &f->batch));
	assert_int_equal(f->batch.packets, 1);
	expect_none(f);
	batch_done(&f->batch);
	assert_false(engine_run(f->qp, &f->batch));
	lock_drop(&f->qp->lock);
	expect_done(f, 1, IBV_WC_SUCCESS);
}

static void bad_posts_are_refused(void **state)
{
	struct fixture *f = *state;
	static const enum ibv_wr_opcode never[] = {
		IBV_WR_RDMA_WRITE,	     IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV,	 IBV_WR_LOCAL_INV, IBV_WR_TSO,
		(enum ibv_wr_opcode)99};
	struct ibv_send_wr wr;

	fixture_start(f, IBV_QPS_RTS);
	for (size_t i = 0; i < ARRAY_SIZE(never); i++) {
		wr = datagram(f, 1, 1);
		wr.opcode = never[i];
		assert_int_equal(fixture_post(f, wr), EINVAL);
	}
	wr = datagram(f, 1, 1);
	wr.wr.ud.ah = NULL;
	assert_int_equal(fixture_post(f, wr), EINVAL);
	expect_silence(f);
	expect_none(f);
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
}

/* C10-10 */
static void an_address_of_another_domain_fails_the_request(void **state)
{
	struct fixture *f = *state;
	struct ah foreign = f->ah;
	struct ibv_send_wr wr = datagram(f, 1, 1);

	fixture_start(f, IBV_QPS_RTS);
	foreign.pd = &f->other_pd;
	wr.wr.ud.ah = &foreign.base;
	assert_int_equal(fixture_post(f, wr), 0);
	expect_silence(f);
	expect_done(f, 1, IBV_WC_LOC_QP_OP_ERR);
	assert_int_equal(f->qp->state, IBV_QPS_SQE);
}

/* IBTA 10.3.1.6: what fails locally stops the send queue and nothing else; the program sets it going again.
 */
static void a_local_error_stops_the_send_queue_alone(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge nowhere = {IOVA, 8, 0}, foreign = {IOVA, 8, f->foreign->base.lkey};
	const struct {
		struct ibv_sge *sge;
		int length;
		enum ibv_wc_status status;
	} rows[] = {
		{&nowhere, 1, IBV_WC_LOC_PROT_ERR},
		{&foreign, 1, IBV_WC_LOC_PROT_ERR},
		{NULL, MTU + 1, IBV_WC_LOC_LEN_ERR},
	};
	uint32_t sent = 0;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post_recv(f, 77, 1024);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ibv_sge good = fixture_sge(f, 0, 8);
		struct ibv_send_wr wr[3] = {datagram(f, 0, 1), datagram(f, 1, rows[i].length), datagram(f, 2, 1)}, *bad;
		struct ibv_sge large = fixture_sge(f, 0, MTU + 1);

		wr[0].next = &wr[1];
		wr[1].next = &wr[2];
		wr[0].sg_list = wr[2].sg_list = &good;
		wr[1].sg_list = rows[i].sge ? rows[i].sge : &large;
		wr[1].num_sge = 1;
		lock_take(&f->qp->lock);
		assert_int_equal(engine_post_send(f->qp, wr, &bad), 0);
		lock_drop(&f->qp->lock);
		fixture_run(f);
		expect_sent(f, OP_SEND_ONLY, sent_psn(sent++));
		expect_silence(f);
		expect_done(f, 0, IBV_WC_SUCCESS);
		expect_done(f, 1, rows[i].status);
		expect_done(f, 2, IBV_WC_WR_FLUSH_ERR);
		expect_none(f);
		assert_int_equal(f->qp->state, IBV_QPS_SQE);
		assert_int_equal(f->qp->state, IBV_QPS_SQE);

		/* what is posted now is flushed; what arrives is received */
		assert_int_equal(fixture_post(f, datagram(f, 3, 1)), 0);
		expect_done(f, 3, IBV_WC_WR_FLUSH_ERR);
		fixture_give(f, request(OP_SEND_ONLY, due_psn(i), 8));
		expect_taken(f, 77, IBV_WC_SUCCESS);
		fixture_post_recv(f, 77, 1024);

		assert_int_equal(fixture_move(f, IBV_QPS_RTS), 0);
		assert_int_equal(fixture_post(f, datagram(f, 4, 1)), 0);
		expect_sent(f, OP_SEND_ONLY, sent_psn(sent++));
		expect_done(f, 4, IBV_WC_SUCCESS);
	}
	assert_int_equal(f->event[IBV_EVENT_QP_FATAL], 0);
}

static void a_datagram_arrives_behind_its_header(void **state)
{
	static const uint8_t ipv4[] = {0x45, 0x2e, 0, 20 + 8 + 12 + 8 + 4 + 5 + 3 + 4, 0, 0, 0x40, 0, 64, 17};
	struct fixture *f = *state;
	const uint8_t *at = f->memory + MEMORY / 2;
	struct packet p = request(OP_SEND_ONLY_IMM, psn(123), 5);
	uint32_t sum = 0;
	struct cqe c;

	fixture_start(f, IBV_QPS_RTR);
	fixture_post_recv(f, 1, GRH + 5);
	p.src_qpn = 0xabcdef;
	p.imm = 0x55667788;
	p.solicited = true;
	p.traffic_class = 0x2e;
	fixture_give(f, p);
	c = expect_taken(f, 1, IBV_WC_SUCCESS);
	assert_int_equal(c.opcode, IBV_WC_RECV);
	assert_int_equal(c.byte_len, GRH + 5);
	assert_int_equal(c.flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(c.src_qp, 0xabcdef);
	assert_int_equal(c.imm, 0x55667788);
	assert_int_equal(c.marks & CQE_SOLICITED, 1);
	assert_int_equal(cqe_sl(c.marks), 0xa); /* what UCX looks at */
	assert_memory_equal(at + 20, ipv4, sizeof(ipv4));
	for (int i = 20; i < GRH; i += 2)
		sum += at[i] << 8 | at[i + 1];
	assert_int_equal((sum & 0xffff) + (sum >> 16), 0xffff);
	assert_memory_equal(at + 32, fixture_there.raw + 12, 4);
	assert_memory_equal(at + 36, fixture_here.raw + 12, 4);
	assert_memory_equal(at + GRH, f->payload, 5);
	expect_silence(f);
	assert_int_equal(f->event[IBV_EVENT_COMM_EST], 0);
}

static void an_ipv6_header_is_a_grh(void **state)
{
	static const union ibv_gid from = {.raw = {0xfe, 0x80, [15] = 1}}, to = {.raw = {0xfd, [15] = 2}};
	struct fixture *f = *state;
	const uint8_t *at = f->memory + MEMORY / 2;
	struct packet p = request(OP_SEND_ONLY, psn(5), 4);
	const struct ibv_grh *grh = (const void *)at;
	uint8_t payload[4] = {1, 2, 3, 4};
	struct cqe c;

	fixture_start(f, IBV_QPS_RTR);
	fixture_post_recv(f, 1, 64);
	p.traffic_class = 0xb8;
	p.to = to.raw;
	p.payload = payload;
	lock_take(&f->qp->lock);
	p.opcode |= TRANSPORT_UD;
	engine_receive(f->qp, &p, &from, f->now, NULL);
	lock_drop(&f->qp->lock);
	c = expect_taken(f, 1, IBV_WC_SUCCESS);
	assert_int_equal(cqe_sl(c.marks), 0x9);
	assert_int_equal(be32toh(grh->version_tclass_flow), 6u << 28 | 0xb8u << 20);
	assert_int_equal(be16toh(grh->paylen), 8 + 12 + 8 + 4 + 4);
	assert_int_equal(grh->next_hdr, 17);
	assert_memory_equal(&grh->sgid, &from, 16);
	assert_memory_equal(&grh->dgid, &to, 16);
	assert_memory_equal(at + GRH, payload, 4);
}

/* Dropped without a word, and without a receive: rows of what is wrong. */
static void what_does_not_fit_is_dropped(void **state)
{
	struct fixture *f = *state;
	struct packet p;

	fixture_start(f, IBV_QPS_RTS);
	fixture_give(f, request(OP_SEND_ONLY, psn(1), 8)); /* no receive is posted */
	fixture_post_recv(f, 1, GRH + 8);
	p = request(OP_SEND_ONLY, psn(2), 8);
	p.qkey++;
	fixture_give(f, p);
	p.qkey = QKEY;
	p.pkey = 0x1234;
	fixture_give(f, p);
	fixture_give(f, request(OP_SEND_ONLY, psn(3), 9)); /* longer than the receive */
	lock_take(&f->qp->lock);
	p = request(OP_SEND_ONLY, psn(4), 8);
	p.payload = f->payload;
	engine_receive(f->qp, &p, &fixture_there, f->now, NULL); /* RC */
	p.opcode |= TRANSPORT_UC;
	engine_receive(f->qp, &p, &fixture_there, f->now, NULL);
	p.opcode = OPCODE_CNP;
	engine_receive(f->qp, &p, &fixture_there, f->now, NULL);
	lock_drop(&f->qp->lock);
	expect_none(f);
	expect_silence(f);
	fixture_give_from(f, request(OP_SEND_ONLY, psn(5), 8), &fixture_elsewhere);
	assert_int_equal(expect_taken(f, 1, IBV_WC_SUCCESS).byte_len, GRH + 8);
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
}

/* Only in those in which a QP receives. */
static void states_say_whether_it_receives(void **state)
{
	static const struct {
		enum ibv_qp_state state;
		bool receives;
	} rows[] = {
		{IBV_QPS_INIT, false}, {IBV_QPS_RTR, true}, {IBV_QPS_RTS, true},
		{IBV_QPS_SQD, true},   {IBV_QPS_SQE, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fixture *f = fixture_renew(state);

		f->type = IBV_QPT_UD;
		fixture_start(f, rows[i].state);
		fixture_post_recv(f, 1, 64);
		fixture_give(f, request(OP_SEND_ONLY, psn(1), 8));
		if (rows[i].receives)
			expect_taken(f, 1, IBV_WC_SUCCESS);
		expect_none(f);
	}
}

static void a_receive_that_may_not_be_written_ends_the_qp(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	fixture_post_recv_to(f, 1, (struct ibv_sge){IOVA, 64, f->plain->base.lkey});
	fixture_post_recv(f, 2, 64);
	fixture_give(f, request(OP_SEND_ONLY, psn(1), 8));
	expect_taken(f, 1, IBV_WC_LOC_PROT_ERR);
	expect_taken(f, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
}

static void sqd_holds_what_is_posted(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_SQD);
	assert_int_equal(fixture_post(f, datagram(f, 1, 1)), 0);
	expect_silence(f);
	expect_none(f);
	assert_int_equal(fixture_move(f, IBV_QPS_RTS), 0);
	fixture_run(f);
	expect_sent(f, OP_SEND_ONLY, sent_psn(0));
	expect_done(f, 1, IBV_WC_SUCCESS);
}

static void drained_is_told_when_all_is_sent(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

	fixture_start(f, IBV_QPS_RTS);
	assert_int_equal(fixture_post(f, datagram(f, 1, 1)), 0);
	assert_int_equal(fixture_modify(f, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	assert_int_equal(f->event[IBV_EVENT_SQ_DRAINED], 1);
	fixture_run(f);
	assert_int_equal(f->event[IBV_EVENT_SQ_DRAINED], 1);
}

static void more_than_a_turn_holds_goes_out_all_the_same(void **state)
{
	struct fixture *f = *state;
	struct ibv_send_wr wr[2 * BATCH_PACKETS], *bad;

	f->cap.max_send_wr = ARRAY_SIZE(wr);
	fixture_start(f, IBV_QPS_RTS);
	for (size_t i = 0; i < ARRAY_SIZE(wr); i++) {
		wr[i] = datagram(f, i, 0);
		wr[i].wr.ud.remote_qpn = 100 + i / 8; /* none has to be waited for: test_flow.c */
		wr[i].next = i + 1 < ARRAY_SIZE(wr) ? &wr[i + 1] : NULL;
	}
	lock_take(&f->qp->lock);
	assert_int_equal(engine_post_send(f->qp, wr, &bad), 0);
	lock_drop(&f->qp->lock);
	fixture_run(f);
	assert_int_equal(f->sents, ARRAY_SIZE(wr));
	for (size_t i = 0; i < ARRAY_SIZE(wr); i++)
		expect_done(f, i, IBV_WC_SUCCESS);
}

#define OWN_TEST(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		OWN_TEST(a_datagram_carries_its_address),
		OWN_TEST(a_qkey_with_the_high_bit_means_the_qps_own),
		OWN_TEST(datagrams_of_one_post_go_to_many),
		OWN_TEST(inline_data_are_taken_when_posted),
		OWN_TEST(a_datagram_is_complete_when_it_is_sent),
		OWN_TEST(bad_posts_are_refused),
		OWN_TEST(an_address_of_another_domain_fails_the_request),
		OWN_TEST(a_local_error_stops_the_send_queue_alone),
		OWN_TEST(a_datagram_arrives_behind_its_header),
		OWN_TEST(an_ipv6_header_is_a_grh),
		OWN_TEST(what_does_not_fit_is_dropped),
		OWN_TEST(states_say_whether_it_receives),
		OWN_TEST(a_receive_that_may_not_be_written_ends_the_qp),
		OWN_TEST(sqd_holds_what_is_posted),
		OWN_TEST(drained_is_told_when_all_is_sent),
		OWN_TEST(more_than_a_turn_holds_goes_out_all_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
