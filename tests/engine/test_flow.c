/* SPDX-License-Identifier: BSD-2-Clause */
/* Flow control of UC and UD (engine/flow.c): when a sender waits for a receiver, and for how long. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "engine/flow.h"
#include "fixture.h"
#include "object/cq_poll.h"

enum {
	FREE = 32,     /* messages that nobody needs to allow */
	QPN = 1 << 13, /* slot 1, the first */
};

static int setup_type(void **state, enum ibv_qp_type type)
{
	struct fixture *f;

	if (fixture_setup(state))
		return -1;
	f = *state;
	f->type = type;
	f->sig_all = true;
	f->cap.max_send_wr = f->cap.max_recv_wr = 200;
	return 0;
}

static int setup_uc(void **state)
{
	return setup_type(state, IBV_QPT_UC);
}

static int setup_ud(void **state)
{
	return setup_type(state, IBV_QPT_UD);
}

static void post(struct fixture *f, uint32_t count, enum ibv_wr_opcode opcode, int length)
{
	for (uint32_t i = 0; i < count; i++) {
		struct ibv_send_wr wr = {.opcode = opcode, .num_sge = length};

		assert_int_equal(fixture_post(f, fixture_datagram(f, wr)), 0);
	}
}

static void post_sends(struct fixture *f, uint32_t count)
{
	post(f, count, IBV_WR_SEND, 1);
}

static uint32_t polled(struct fixture *f)
{
	struct cqe c;
	uint32_t n = 0;

	while (cq_poll(&f->send_cq, 1, &c) == 1) {
		assert_int_equal(c.status, IBV_WC_SUCCESS);
		n++;
	}
	return n;
}

/* What was sent since the last look: questions, and packets that are none. */
struct seen {
	uint32_t packets, credit_requests;
	struct packet credit_request; /* the last */
};

static struct seen look(struct fixture *f)
{
	struct seen s = {0};

	for (; f->shown < f->sents; f->shown++) {
		const struct packet *p = &f->sent[f->shown].packet;

		if (p->opcode == OPCODE_CREDIT_REQUEST) {
			s.credit_requests++;
			s.credit_request = *p;
			assert_int_equal(p->src_qpn, QPN);
		} else {
			s.packets++;
		}
	}
	fixture_forget(f);
	return s;
}

static void answer(struct fixture *f, const struct packet *credit_request, uint32_t receives)
{
	fixture_give(f, (struct packet){.opcode = OPCODE_CREDIT_GRANT,
					.pkey = PKEY_DEFAULT,
					.dest_qpn = QPN,
					.src_qpn = PEER_QPN,
					.psn = credit_request->psn,
					.imm = htonl(receives)});
}

/* A peer that has told what it has. */
static void be_heard(struct fixture *f, uint32_t receives)
{
	struct seen s;

	post_sends(f, FREE / 2);
	s = look(f);
	assert_int_equal(s.credit_requests, 1);
	answer(f, &s.credit_request, receives);
	assert_int_equal(polled(f), FREE / 2);
}

static void short_exchanges_ask_nothing(void **state)
{
	struct fixture *f = *state;
	struct seen s;

	fixture_start(f, IBV_QPS_RTS);
	post_sends(f, FREE / 2 - 1);
	s = look(f);
	assert_int_equal(s.packets, FREE / 2 - 1);
	assert_int_equal(s.credit_requests, 0);
	assert_false(fixture_wait_deadline(f));
	post_sends(f, 1);
	s = look(f);
	assert_int_equal(s.credit_requests, 1);
	assert_int_equal(s.credit_request.dest_qpn, PEER_QPN);
	if (f->type == IBV_QPT_UD)
		assert_int_equal(s.credit_request.qkey, QKEY);
	assert_false(fixture_wait_deadline(f)); /* nothing waits for the answer yet */
}

static void a_new_peer_is_not_run_over(void **state)
{
	struct fixture *f = *state;
	struct seen s;

	fixture_start(f, IBV_QPS_RTS);
	post_sends(f, 100);
	assert_int_equal(polled(f), FREE);
	s = look(f);
	assert_int_equal(s.packets, FREE);
	assert_int_equal(s.credit_requests, 1);
	answer(f, &s.credit_request, 40); /* of FREE / 2 messages, that is: so many may come after these */
	assert_int_equal(polled(f), 24);
	s = look(f);
	assert_int_equal(s.packets, 24);
	assert_int_equal(s.credit_requests, 1);
	answer(f, &s.credit_request, 100);
	assert_int_equal(polled(f), 44);
	assert_int_equal(look(f).packets, 44);
	assert_false(fixture_wait_deadline(f));
}

/* As over Thunderbolt: the first message waits for a receive, too. */
static void a_queue_pair_that_asks_first_sends_nothing_before(void **state)
{
	struct fixture *f = *state;
	struct seen s;

	fixture_start(f, IBV_QPS_RTS);
	f->qp->asks_first = true;
	flow_reset(f->qp);
	post_sends(f, 2);
	s = look(f);
	assert_int_equal(s.packets, 0);
	assert_int_equal(s.credit_requests, 1);
	answer(f, &s.credit_request, 1);
	assert_int_equal(look(f).packets, 1);
	assert_int_equal(polled(f), 1);
}

/* It cannot be sent, so it needs no receive of the peer. */
static void a_request_that_is_to_fail_waits_for_no_receive(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge nowhere = {IOVA, 8, 0};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &nowhere, .num_sge = 1};
	struct cqe c;

	fixture_start(f, IBV_QPS_RTS);
	be_heard(f, 1);
	post_sends(f, 1);
	assert_int_equal(polled(f), 1);
	assert_int_equal(fixture_post(f, fixture_datagram(f, wr)), 0);
	assert_int_equal(cq_poll(&f->send_cq, 1, &c), 1);
	assert_int_equal(c.status, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(f->qp->state, IBV_QPS_SQE);
	assert_false(fixture_wait_deadline(f));
}

static void an_answer_to_an_earlier_credit_request_says_nothing(void **state)
{
	struct fixture *f = *state;
	struct seen old, s;

	fixture_start(f, IBV_QPS_RTS);
	post_sends(f, 100);
	old = look(f);
	answer(f, &old.credit_request, FREE / 2);
	assert_int_equal(polled(f), FREE);
	s = look(f);
	assert_int_equal(s.credit_requests, 1);
	assert_int_not_equal(s.credit_request.psn.v, old.credit_request.psn.v);
	answer(f, &old.credit_request, 1000);
	assert_int_equal(polled(f), 0);
}

static void only_the_peer_answers(void **state)
{
	struct fixture *f = *state;
	struct packet p = {.opcode = OPCODE_CREDIT_GRANT, .pkey = PKEY_DEFAULT, .dest_qpn = QPN, .src_qpn = PEER_QPN};

	fixture_start(f, IBV_QPS_RTS);
	post_sends(f, 100);
	polled(f);
	p.psn = look(f).credit_request.psn;
	p.imm = htonl(1000);
	fixture_give_from(f, p, &fixture_elsewhere);
	assert_int_equal(polled(f), 0);
}

/* A stranger who forges the peer's address does not know the number of the credit request, and a grant that nobody has
 * asked for says nothing. */
static void a_grant_answers_a_credit_request(void **state)
{
	struct fixture *f = *state;
	struct packet guess;
	struct seen s;

	fixture_start(f, IBV_QPS_RTS);
	post_sends(f, FREE / 2);
	s = look(f);
	assert_true(s.credit_request.psn.v > FREE);
	answer(f, &s.credit_request, 40);
	answer(f, &s.credit_request, 0); /* again */
	for (uint32_t n = 0; n < FREE; n++) {
		guess.psn = psn(n);
		answer(f, &guess, 0);
	}
	post_sends(f, 40);
	look(f);
	assert_int_equal(polled(f), FREE / 2 + 40);
}

/* A credit request or its answer may be lost. */
static void a_credit_request_is_repeated_while_somebody_waits(void **state)
{
	struct fixture *f = *state;
	uint64_t start = f->now, last = start, interval = 0;
	struct seen s, first;

	fixture_start(f, IBV_QPS_RTS);
	post_sends(f, 100);
	first = look(f);
	assert_int_equal(polled(f), FREE);
	for (int i = 0; i < 8; i++) {
		assert_true(fixture_wait_deadline(f));
		s = look(f);
		assert_int_equal(s.packets, 0);
		assert_int_equal(s.credit_requests, 1);
		assert_true(f->now - last >= interval);
		interval = f->now - last;
		last = f->now;
	}
	assert_true(interval > MSEC && interval < 10 * MSEC);
	assert_int_not_equal(s.credit_request.psn.v, first.credit_request.psn.v); /* more was sent between these two */
	answer(f, &s.credit_request, 1000);
	assert_int_equal(polled(f), 100 - FREE);
}

static void a_repeated_credit_request_keeps_its_number(void **state)
{
	struct fixture *f = *state;
	struct packet credit_request;

	fixture_start(f, IBV_QPS_RTS);
	post_sends(f, 100);
	look(f);
	polled(f);
	assert_true(fixture_wait_deadline(f));
	credit_request = look(f).credit_request;
	for (int i = 0; i < 3; i++) {
		assert_true(fixture_wait_deadline(f));
		assert_int_equal(look(f).credit_request.psn.v, credit_request.psn.v);
	}
	answer(f, &credit_request, 1000); /* late, but true */
	assert_int_equal(polled(f), 100 - FREE);
}

/* An adapter that does not know the credit request: it costs a moment, once. */
static void a_silent_peer_is_not_waited_for_long(void **state)
{
	struct fixture *f = *state;
	uint64_t start = f->now;
	uint32_t done;
	struct seen s;

	fixture_start(f, IBV_QPS_RTS);
	post_sends(f, 100);
	assert_int_equal(polled(f), FREE);
	while (!(done = polled(f)))
		assert_true(fixture_wait_deadline(f));
	assert_int_equal(done, 100 - FREE);
	assert_in_range(f->now - start, 200 * MSEC, 300 * MSEC);
	look(f);
	post_sends(f, 64);
	assert_int_equal(polled(f), 64);
	s = look(f);
	assert_int_equal(s.packets, 64);
	assert_int_equal(s.credit_requests, 0);
	/* asked now and then all the same; and if it answers, it is heeded from then on */
	fixture_wait(f, SEC);
	post_sends(f, 1);
	s = look(f);
	assert_int_equal(s.credit_requests, 1);
	polled(f);
	answer(f, &s.credit_request, 5);
	post_sends(f, 10);
	assert_int_equal(polled(f), 5);
}

static void a_dead_peer_is_waited_for_a_second(void **state)
{
	struct fixture *f = *state;
	uint64_t start;

	fixture_start(f, IBV_QPS_RTS);
	be_heard(f, 10);
	post_sends(f, 20);
	assert_int_equal(polled(f), 10);
	start = f->now;
	while (!polled(f))
		assert_true(fixture_wait_deadline(f));
	assert_in_range(f->now - start, 900 * MSEC, 1100 * MSEC);
}

/* Between local peers, some times are given to within milliseconds. */
static void a_clock_that_steps_back_ends_no_patience(void **state)
{
	struct fixture *f = *state;
	struct seen s;

	fixture_start(f, IBV_QPS_RTS);
	be_heard(f, 10);
	post_sends(f, 20);
	assert_int_equal(polled(f), 10);
	f->now -= 2 * MSEC;
	fixture_run(f);
	post_sends(f, 1);
	assert_int_equal(polled(f), 0);
	s = look(f);
	answer(f, &s.credit_request, 11); /* asked when five had been sent: six more */
	assert_int_equal(polled(f), 6);
}

/* It answers, and has no receives: as long as it is slow, and not for ever, if it never posts one. */
static void a_peer_without_receives_is_waited_for_a_second(void **state)
{
	struct fixture *f = *state;
	struct seen s;

	fixture_start(f, IBV_QPS_RTS);
	be_heard(f, 1);
	post_sends(f, 3);
	assert_int_equal(polled(f), 1);
	for (int i = 0; i < 50; i++) {
		s = look(f);
		if (s.credit_requests)
			answer(f, &s.credit_request, 0);
		assert_int_equal(polled(f), 0);
		assert_true(fixture_wait_deadline(f));
	}
	s = look(f);
	answer(f, &s.credit_request, 1);
	assert_int_equal(polled(f), 1); /* there is one now */
	fixture_wait(f, 1100 * MSEC);
	assert_int_equal(polled(f), 1);
}

/* What takes no receive is limited by what may be on the way in bytes. */
static void writes_wait_for_bytes_alone(void **state)
{
	struct fixture *f = *state;
	uint32_t done;
	struct seen s;

	fixture_start(f, IBV_QPS_RTS);
	post(f, 100, IBV_WR_RDMA_WRITE, 1);
	assert_int_equal(polled(f), 100);
	fixture_forget(f);
	post(f, 30, IBV_WR_RDMA_WRITE, 10 * MTU);
	done = polled(f);
	s = look(f);
	assert_in_range(s.packets, 100, 180); /* about 64 KiB with what a packet weighs besides */
	assert_int_equal(s.credit_requests, 1);
	assert_int_equal(done, s.packets / 10);
	answer(f, &s.credit_request, 0); /* no receives: WRITEs need none */
	assert_true(look(f).packets > 0);
}

/* IBTA 10.3.1: a message that was begun is finished, and only then is the queue drained. */
static void sqd_waits_for_the_message_that_was_begun(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct seen s;

	fixture_start(f, IBV_QPS_RTS);
	post(f, 1, IBV_WR_SEND, 250 * MTU);
	post(f, 1, IBV_WR_SEND, 1);
	assert_int_equal(polled(f), 0);
	s = look(f);
	assert_int_equal(fixture_modify(f, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	fixture_run(f);
	assert_int_equal(f->event[IBV_EVENT_SQ_DRAINED], 0);
	answer(f, &s.credit_request, 1000);
	assert_int_equal(look(f).packets, 250 - s.packets);
	assert_int_equal(polled(f), 1);
	assert_int_equal(f->event[IBV_EVENT_SQ_DRAINED], 1);
}

static void reset_forgets(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	be_heard(f, 1);
	post_sends(f, 2);
	assert_int_equal(polled(f), 1);
	assert_int_equal(fixture_move(f, IBV_QPS_RESET), 0);
	assert_int_equal(fixture_move(f, IBV_QPS_INIT), 0);
	assert_int_equal(fixture_move(f, IBV_QPS_RTR), 0);
	assert_int_equal(fixture_move(f, IBV_QPS_RTS), 0);
	post_sends(f, FREE);
	assert_int_equal(polled(f), FREE);
}

static void an_error_flushes_what_waits(void **state)
{
	struct fixture *f = *state;
	struct cqe c;

	fixture_start(f, IBV_QPS_RTS);
	post_sends(f, FREE + 1);
	polled(f);
	assert_int_equal(fixture_move(f, IBV_QPS_ERR), 0);
	assert_int_equal(cq_poll(&f->send_cq, 1, &c), 1);
	assert_int_equal(c.status, IBV_WC_WR_FLUSH_ERR);
	assert_false(fixture_wait_deadline(f));
}

/* UD: each receiver is a matter of its own, though what waits at the head of the queue holds up the rest. */
static void receivers_are_counted_apart(void **state)
{
	struct fixture *f = *state;
	struct ibv_send_wr wr;

	fixture_start(f, IBV_QPS_RTS);
	for (uint32_t i = 0; i < 4 * FREE; i++) {
		wr = fixture_datagram(f, (struct ibv_send_wr){.opcode = IBV_WR_SEND, .num_sge = 1});
		wr.wr.ud.remote_qpn = 100 + i % 4;
		assert_int_equal(fixture_post(f, wr), 0);
	}
	assert_int_equal(polled(f), 4 * FREE);
	assert_int_equal(look(f).credit_requests, 4);
}

/* More receivers than are kept in mind: nothing goes wrong but the counting. */
static void many_receivers_are_served(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	for (uint32_t i = 0; i < 10 * FREE; i++) {
		struct ibv_send_wr wr = fixture_datagram(f, (struct ibv_send_wr){.opcode = IBV_WR_SEND});

		f->now += USEC;
		wr.wr.ud.remote_qpn = 100 + i % 50;
		assert_int_equal(fixture_post(f, wr), 0);
		assert_int_equal(polled(f), 1);
	}
}

static void nobody_answers_for_a_group(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	for (uint32_t i = 0; i < 150; i++) {
		struct ibv_send_wr wr = fixture_datagram(f, (struct ibv_send_wr){.opcode = IBV_WR_SEND});

		wr.wr.ud.remote_qpn = 0xffffff;
		assert_int_equal(fixture_post(f, wr), 0);
	}
	assert_int_equal(polled(f), 150);
	assert_int_equal(look(f).credit_requests, 0);
}

/* ---- the other side ---- */

static struct packet credit_request_from(uint32_t qpn)
{
	return (struct packet){.opcode = OPCODE_CREDIT_REQUEST,
			       .pkey = PKEY_DEFAULT,
			       .dest_qpn = QPN,
			       .src_qpn = qpn,
			       .qkey = QKEY,
			       .psn = psn(77)};
}

/* Receives that are offered; -1: no answer. */
static int64_t answers(struct fixture *f, struct packet credit_request, const union ibv_gid *from)
{
	struct packet p;
	bool any;

	lock_take(&f->qp->lock);
	any = engine_grant_credit(f->qp, &credit_request, from, f->now, &p);
	lock_drop(&f->qp->lock);
	if (!any)
		return -1;
	assert_int_equal(p.opcode, OPCODE_CREDIT_GRANT);
	assert_int_equal(p.psn.v, credit_request.psn.v);
	assert_int_equal(p.dest_qpn, credit_request.src_qpn);
	assert_int_equal(p.src_qpn, QPN);
	return ntohl(p.imm);
}

static void the_answer_is_how_many_receives_are_posted(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTR);
	assert_int_equal(answers(f, credit_request_from(PEER_QPN), &fixture_there), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(fixture_post_recv(f, 1, 100), 0);
	assert_int_equal(answers(f, credit_request_from(PEER_QPN), &fixture_there), 3);
	fixture_give(f, request(OP_SEND_ONLY, due_psn(0), 1));
	assert_int_equal(answers(f, credit_request_from(PEER_QPN), &fixture_there), 2);
	assert_int_equal(fixture_move(f, IBV_QPS_ERR), 0);
	assert_int_equal(answers(f, credit_request_from(PEER_QPN), &fixture_there), -1);
}

static void strangers_get_no_answer(void **state)
{
	struct fixture *f = *state;
	struct packet q = credit_request_from(PEER_QPN);

	fixture_start(f, IBV_QPS_RTS);
	if (f->type == IBV_QPT_UC) {
		assert_int_equal(answers(f, q, &fixture_elsewhere), -1);
		assert_int_equal(answers(f, credit_request_from(99), &fixture_there), -1);
	}
	q.qkey++;
	assert_int_equal(answers(f, q, &fixture_there), f->type == IBV_QPT_UD ? -1 : 0);
	q = credit_request_from(PEER_QPN);
	q.pkey = 0x8001;
	assert_int_equal(answers(f, q, &fixture_there), -1);
}

static void rc_knows_no_credit_requests(void **state)
{
	struct fixture *f = *state;

	f->type = IBV_QPT_RC;
	fixture_start(f, IBV_QPS_RTS);
	assert_int_equal(answers(f, credit_request_from(PEER_QPN), &fixture_there), -1);
	fixture_give(f, (struct packet){.opcode = OPCODE_CREDIT_GRANT, .pkey = PKEY_DEFAULT, .dest_qpn = QPN});
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
}

/* ---- promises: what one who asked was told is not told to another ---- */

enum { A = 1, B, C }; /* QPNs of senders */

enum act {
	ASK,  /* `who` asks; `n`: what it is told */
	SEND, /* `n` messages from it arrive */
	POST, /* `n` receives are posted */
	PASS, /* so many times, 60 ms go by and C asks; `who`: what it is told */
};

struct deed {
	enum act act;
	uint32_t who, n;
};

static void do_all(struct fixture *f, const struct deed *d, size_t count)
{
	for (size_t i = 0; i < count; i++, d++) {
		for (uint32_t n = 0; d->act == POST && n < d->n; n++)
			assert_int_equal(fixture_post_recv(f, 1, 100), 0);
		for (uint32_t n = 0; d->act == SEND && n < d->n; n++)
			fixture_give(f, (struct packet){.opcode = OP_SEND_ONLY,
							.pkey = PKEY_DEFAULT,
							.dest_qpn = QPN,
							.src_qpn = d->who,
							.qkey = QKEY});
		if (d->act == ASK && answers(f, credit_request_from(d->who), &fixture_there) != d->n)
			fail_msg("deed %zu: not %u receives", i, d->n);
		for (uint32_t n = 0; d->act == PASS && n < d->n; n++) {
			f->now += 60 * MSEC;
			assert_int_equal(answers(f, credit_request_from(C), &fixture_there), d->who);
		}
	}
}

#define CREDITS(name, ...)                                        \
	static void name(void **state)                            \
	{                                                         \
		static const struct deed deeds[] = {__VA_ARGS__}; \
		fixture_start(*state, IBV_QPS_RTR);               \
		do_all(*state, deeds, ARRAY_SIZE(deeds));         \
	}

CREDITS(half_of_what_is_free_is_left_to_others, {POST, 0, 100}, {ASK, A, 50}, {ASK, B, 25}, {ASK, C, 13})
CREDITS(a_promise_is_not_taken_back, {POST, 0, 8}, {ASK, A, 4}, {ASK, B, 2}, {SEND, C, 4}, {ASK, A, 4}, {SEND, A, 3},
	{ASK, A, 1})
CREDITS(the_last_receive_is_for_one, {POST, 0, 1}, {ASK, A, 1}, {ASK, B, 0}, {ASK, A, 1})
CREDITS(a_promise_is_kept_while_others_ask, {POST, 0, 8}, {ASK, A, 4}, {SEND, B, 4}, {ASK, B, 0}, {SEND, A, 4},
	{ASK, B, 0}, {POST, 0, 2}, {ASK, B, 1})
CREDITS(what_has_been_used_is_promised_no_more, {POST, 0, 8}, {ASK, A, 4}, {SEND, A, 3}, {POST, 0, 3}, {ASK, B, 4})
CREDITS(who_asks_again_gets_another_promise_and_not_one_more, {POST, 0, 8}, {ASK, A, 4}, {ASK, A, 4}, {ASK, B, 2})
CREDITS(who_is_silent_gives_its_promise_back, {POST, 0, 8}, {ASK, A, 4}, {PASS, 2, 2}, {PASS, 4, 1})
CREDITS(who_sends_is_not_silent, {POST, 0, 8}, {ASK, A, 4}, {PASS, 2, 2}, {SEND, A, 1}, {PASS, 2, 2})

/* More senders than are kept in mind: the one that asked first is forgotten. */
static void many_senders_are_served(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTR);
	for (uint32_t n = 0; n < 200; n++)
		assert_int_equal(fixture_post_recv(f, 1, 100), 0);
	for (uint32_t qpn = 1; qpn < 3 * UD_CREDITS; qpn++) {
		f->now += USEC;
		assert_true(answers(f, credit_request_from(qpn), &fixture_there) >= 0);
	}
	assert_true(f->qp->rq.granted <= 200);
}

static uint32_t told(struct fixture *f, uint32_t receives)
{
	for (uint32_t i = 0; i < receives; i++) {
		struct ibv_recv_wr *bad, wr = {0};

		assert_int_equal(srq_post(f->srq, &wr, &bad), 0);
	}
	return (uint32_t)answers(f, credit_request_from(A), &fixture_there);
}

/* Each QP of an SRQ may be sent so many unasked; but where there are not enough, who is here does not wait for others.
 */
static void receives_are_kept_for_who_may_come(void **state)
{
	struct fixture *f = *state;
	struct credit other = {0}; /* of another QP */

	f->srq = srq_create(&f->hca, &f->pd, NULL, NULL, 200, 1);
	assert_non_null(f->srq);
	fixture_start(f, IBV_QPS_RTR);
	lock_take(&f->srq->rq.lock);
	rq_grant(&f->srq->rq, &other, FREE);
	lock_drop(&f->srq->rq.lock);
	assert_int_equal(told(f, 8), 8);
	assert_int_equal(told(f, 12), 10);
	assert_int_equal(told(f, 32), 10);
	assert_int_equal(told(f, 100), (152 - FREE) / 2);
	lock_take(&f->srq->rq.lock);
	rq_grant(&f->srq->rq, &other, 0);
	lock_drop(&f->srq->rq.lock);
	assert_int_equal(told(f, 0), 152 / 2);
}

/* After a pause what was granted may be somebody else's: as much as a newcomer sends, and then it asks. */
static void an_old_promise_is_not_counted_on(void **state)
{
	struct fixture *f = *state;
	struct seen s;

	fixture_start(f, IBV_QPS_RTS);
	be_heard(f, 1000);
	fixture_wait(f, SEC);
	post_sends(f, 2 * FREE);
	assert_int_equal(polled(f), FREE);
	s = look(f);
	assert_int_equal(s.credit_requests, 1);
	answer(f, &s.credit_request, 1000);
	assert_int_equal(polled(f), FREE);
}

/* UROCE_PATIENCE=off: the receives of the peer do not count, as for an adapter; what is on the way in bytes does. */
static void start_without_patience(struct fixture *f)
{
	setenv("UROCE_PATIENCE", "off", 1);
	fixture_start(f, IBV_QPS_RTS);
	unsetenv("UROCE_PATIENCE");
}

static void without_patience_no_message_waits_for_a_receive(void **state)
{
	struct fixture *f = *state;
	struct seen s;

	start_without_patience(f);
	post_sends(f, 4 * FREE);
	assert_int_equal(polled(f), 4 * FREE);
	assert_int_equal(look(f).credit_requests, 0);
	fixture_wait(f, SEC); /* an old grant is not counted on, and here there is none */
	for (uint32_t n = 0, total = 0; !(s = look(f)).credit_requests; total += n) {
		assert_true(total < 65536);
		post_sends(f, n = FREE);
		assert_int_equal(polled(f), FREE);
	}
	answer(f, &s.credit_request, 0); /* all of it has been taken from the link, and found no receive */
	post_sends(f, 4 * FREE);
	assert_int_equal(polled(f), 4 * FREE);
}

static void without_patience_bytes_wait_as_on_a_lossless_link(void **state)
{
	struct fixture *f = *state;
	uint32_t done;
	struct seen s;

	start_without_patience(f);
	post(f, 30, IBV_WR_SEND, 10 * MTU);
	done = polled(f);
	s = look(f);
	assert_in_range(s.packets, 100, 180);
	assert_int_equal(s.credit_requests, 1);
	assert_int_equal(done, s.packets / 10);
	answer(f, &s.credit_request, 0);
	assert_true(look(f).packets > 0);
}

static void without_patience_a_peer_is_granted_what_it_asks_for(void **state)
{
	struct fixture *f = *state;

	start_without_patience(f);
	for (int i = 0; i < 3; i++)
		assert_int_equal(fixture_post_recv(f, 1, 100), 0);
	assert_int_equal(answers(f, credit_request_from(PEER_QPN), &fixture_there), f->type == IBV_QPT_UD ? 2 : 3);
}

#define BOTH(name)                                                   \
	{"uc: " #name, name, setup_uc, fixture_teardown, NULL},      \
	{                                                            \
		"ud: " #name, name, setup_ud, fixture_teardown, NULL \
	}
#define UC(name) cmocka_unit_test_setup_teardown(name, setup_uc, fixture_teardown)
#define UD(name) cmocka_unit_test_setup_teardown(name, setup_ud, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(short_exchanges_ask_nothing),
		BOTH(a_new_peer_is_not_run_over),
		UC(a_queue_pair_that_asks_first_sends_nothing_before),
		BOTH(a_request_that_is_to_fail_waits_for_no_receive),
		BOTH(an_answer_to_an_earlier_credit_request_says_nothing),
		BOTH(a_grant_answers_a_credit_request),
		BOTH(only_the_peer_answers),
		BOTH(a_credit_request_is_repeated_while_somebody_waits),
		BOTH(a_repeated_credit_request_keeps_its_number),
		BOTH(a_silent_peer_is_not_waited_for_long),
		BOTH(a_dead_peer_is_waited_for_a_second),
		BOTH(a_clock_that_steps_back_ends_no_patience),
		BOTH(a_peer_without_receives_is_waited_for_a_second),
		UC(writes_wait_for_bytes_alone),
		UC(sqd_waits_for_the_message_that_was_begun),
		BOTH(reset_forgets),
		BOTH(an_error_flushes_what_waits),
		UD(receivers_are_counted_apart),
		UD(many_receivers_are_served),
		UD(nobody_answers_for_a_group),
		UC(the_answer_is_how_many_receives_are_posted),
		BOTH(strangers_get_no_answer),
		UC(rc_knows_no_credit_requests),
		UD(half_of_what_is_free_is_left_to_others),
		UD(a_promise_is_not_taken_back),
		UD(the_last_receive_is_for_one),
		UD(a_promise_is_kept_while_others_ask),
		UD(what_has_been_used_is_promised_no_more),
		UD(who_asks_again_gets_another_promise_and_not_one_more),
		UD(who_is_silent_gives_its_promise_back),
		UD(who_sends_is_not_silent),
		UD(many_senders_are_served),
		UD(receives_are_kept_for_who_may_come),
		BOTH(an_old_promise_is_not_counted_on),
		BOTH(without_patience_no_message_waits_for_a_receive),
		UC(without_patience_bytes_wait_as_on_a_lossless_link),
		BOTH(without_patience_a_peer_is_granted_what_it_asks_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
