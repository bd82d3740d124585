/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages between QPs of one host whose receives are those of an SRQ: who posts a message claims the next receive.
 * None is used twice, none is lost, whatever becomes of the QP that the message was for. */
#include "verbs/fixture.h"

#include <pthread.h>
#include <string.h>

#include "engine/complete.h"
#include "memory/claims.h"
#include "object/offers.h"
#include "loop/loop.h"
#include "object/qp.h"
#include "object/srq.h"

enum { QPS = 3, DEPTH = 300, LENGTH = 64 };

/* Senders, and the QPs that they are connected to, of one SRQ. Nobody polls but the test. */
struct world {
	struct side from[QPS], to[QPS];
	struct ibv_srq *srq;
	struct ibv_cq *cq; /* of all that receive */
	char *memory;
	struct ibv_mr *mr;
};

static struct ibv_qp *make_target(struct world *w)
{
	struct ibv_qp_init_attr a = {
		.send_cq = w->cq,
		.recv_cq = w->cq,
		.srq = w->srq,
		.cap = {.max_send_wr = 16, .max_send_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	return ibv_create_qp(w->srq->pd, &a);
}

static void post_receive(struct world *w, uint64_t wr_id, uint32_t length, int wanted)
{
	struct ibv_sge sge = {(uintptr_t)w->memory + wr_id % DEPTH * LENGTH, length, w->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_srq_recv(w->srq, &wr, &bad), wanted);
}

static void post_message(struct world *w, int i, uint64_t what)
{
	struct side *s = &w->from[i];
	struct ibv_sge sge = piece(s, 0, 8);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

	memcpy(s->memory, &what, 8);
	assert_int_equal(side_send(s, &wr), 0);
}

static bool is_done(struct world *w, int i)
{
	struct qp *qp = (struct qp *)w->from[i].qp;
	bool done;

	lock_take(&qp->lock);
	done = qp->sq.head == qp->sq.tail;
	lock_drop(&qp->lock);
	return done;
}

static struct ibv_wc expect(struct world *w, enum ibv_wc_status status)
{
	struct ibv_wc wc = next(w->cq);

	assert_int_equal(wc.status, status);
	return wc;
}

/* The next message: from that sender, in that receive. */
static void expect_message(struct world *w, int i, uint64_t wr_id, uint64_t what)
{
	struct ibv_wc wc = expect(w, IBV_WC_SUCCESS);

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.qp_num, w->to[i].qp->qp_num);
	assert_int_equal(wc.byte_len, 8);
	assert_memory_equal(w->memory + wr_id % DEPTH * LENGTH, &what, 8);
	assert_int_equal(next(w->from[i].cq).status, IBV_WC_SUCCESS);
}

static void open_pair(struct world *w, int i)
{
	struct ibv_qp_cap cap = {.max_send_wr = 64, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
	struct side *s = &w->from[i];

	assert_non_null(s->pd = ibv_alloc_pd(context));
	assert_non_null(s->cq = ibv_create_cq(context, 64, NULL, NULL, 0));
	assert_non_null(s->memory = calloc(1, MEMORY));
	assert_non_null(s->mr = ibv_reg_mr(s->pd, s->memory, MEMORY, ALL_ACCESS));
	assert_non_null(s->qp = make_qp(s->pd, s->cq, &cap));
	assert_non_null(w->to[i].qp = make_target(w));
	bring(s->qp, w->to[i].qp, IBV_QPS_RTS);
	bring(w->to[i].qp, s->qp, IBV_QPS_RTS);
	post_receive(w, 0, LENGTH, 0); /* the first message of a connection goes as a packet */
	post_message(w, i, 1);
	expect_message(w, i, 0, 1);
}

static int open_world(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	struct ibv_srq_init_attr a = {.attr = {.max_wr = DEPTH, .max_sge = 2}};
	struct ibv_pd *pd = ibv_alloc_pd(context);

	assert_non_null(w->srq = ibv_create_srq(pd, &a));
	assert_non_null(w->cq = ibv_create_cq(context, 4096, NULL, NULL, 0));
	assert_non_null(w->memory = calloc(DEPTH, LENGTH));
	assert_non_null(w->mr = ibv_reg_mr(pd, w->memory, (size_t)DEPTH * LENGTH, IBV_ACCESS_LOCAL_WRITE));
	for (int i = 0; i < QPS; i++)
		open_pair(w, i);
	*state = w;
	return 0;
}

static int close_world(void **state)
{
	struct world *w = *state;
	struct ibv_pd *pd = w->srq->pd;

	for (int i = 0; i < QPS; i++) {
		struct side *s = &w->from[i];

		assert_int_equal(ibv_destroy_qp(s->qp), 0);
		assert_int_equal(ibv_destroy_qp(w->to[i].qp), 0);
		assert_int_equal(ibv_destroy_cq(s->cq), 0);
		assert_int_equal(ibv_dereg_mr(s->mr), 0);
		assert_int_equal(ibv_dealloc_pd(s->pd), 0);
		free(s->memory);
	}
	assert_int_equal(ibv_destroy_srq(w->srq), 0);
	assert_int_equal(ibv_destroy_cq(w->cq), 0);
	assert_int_equal(ibv_dereg_mr(w->mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	free(w->memory);
	free(w);
	return 0;
}

static void a_message_is_done_when_it_is_posted(void **state)
{
	struct world *w = *state;

	for (uint64_t i = 0; i < DEPTH; i++)
		post_receive(w, i, LENGTH, 0);
	for (uint64_t i = 0; i < DEPTH; i++) {
		post_message(w, (int)(i % QPS), i);
		assert_true(is_done(w, (int)(i % QPS)));
		if (!reach_maps_nothing)
			assert_memory_equal(w->memory + i * LENGTH, &i, 8);
		/* the others wait in the queue; offers are made when messages are taken */
		expect_message(w, (int)(i % QPS), i, i);
	}
	post_message(w, 0, 7);
	assert_false(is_done(w, 0));
	post_receive(w, DEPTH, LENGTH, 0);
	expect_message(w, 0, DEPTH, 7);
}

/* As in test_delivered.c. */
static void what_its_region_takes_no_more_fails_the_receiver(void **state)
{
	struct world *w = *state;
	struct ibv_mr *mr = ibv_reg_mr(w->srq->pd, w->memory, LENGTH, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = {(uintptr_t)w->memory, LENGTH, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 0, .sg_list = &sge, .num_sge = 1}, *bad;
	struct qp *to = (struct qp *)w->to[0].qp;

	assert_int_equal(ibv_post_srq_recv(w->srq, &wr, &bad), 0);
	lock_take(&loop_of(to)->receive); /* so that nobody receives it */
	post_message(w, 0, 7);
	assert_true(is_done(w, 0));
	assert_int_equal(ibv_dereg_mr(mr), 0);
	lock_drop(&loop_of(to)->receive);
	if (!reach_maps_nothing) {
		expect_message(w, 0, 0, 7);
		return;
	}
	assert_int_equal(expect(w, IBV_WC_LOC_PROT_ERR).wr_id, 0);
	assert_int_equal(qp_state_now((struct qp *)w->to[0].qp), IBV_QPS_ERR);
	/* the queue has lost none else */
	post_receive(w, 6, LENGTH, 0);
	post_message(w, 1, 8);
	expect_message(w, 1, 6, 8);
}

static void the_queue_has_the_room_that_it_says(void **state)
{
	struct world *w = *state;
	struct ibv_srq_attr a;

	assert_int_equal(ibv_query_srq(w->srq, &a), 0);
	for (uint64_t i = 0; i < a.max_wr; i++)
		post_receive(w, i, LENGTH, 0);
	post_receive(w, 0, LENGTH, ENOMEM);
	for (int i = 0; i < 3; i++) {
		post_message(w, 0, 5);
		expect_message(w, 0, (uint64_t)i, 5);
		post_receive(w, 0, LENGTH, 0);
		post_receive(w, 0, LENGTH, ENOMEM);
	}
	a.max_wr /= 2;
	assert_int_equal(ibv_modify_srq(w->srq, &a, IBV_SRQ_MAX_WR), EINVAL);
}

static void the_limit_is_told(void **state)
{
	struct world *w = *state;
	struct ibv_async_event event;
	struct ibv_srq_attr a = {.srq_limit = 2};

	for (uint64_t i = 0; i < 3; i++)
		post_receive(w, i, LENGTH, 0);
	assert_int_equal(ibv_modify_srq(w->srq, &a, IBV_SRQ_LIMIT), 0);
	for (uint64_t i = 0; i < 2; i++) {
		assert_int_equal(ibv_query_srq(w->srq, &a), 0);
		assert_int_equal(a.srq_limit, 2);
		post_message(w, 1, i);
		expect_message(w, 1, i, i);
	}
	assert_int_equal(ibv_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_ptr_equal(event.element.srq, w->srq);
	ibv_ack_async_event(&event);
	assert_int_equal(ibv_query_srq(w->srq, &a), 0);
	assert_int_equal(a.srq_limit, 0);
}

static void a_receive_that_is_too_short_fails_both(void **state)
{
	struct world *w = *state;

	post_receive(w, 1, 4, 0);
	post_receive(w, 2, LENGTH, 0);
	post_message(w, 0, 9);
	assert_int_equal(expect(w, IBV_WC_LOC_LEN_ERR).wr_id, 1);
	assert_int_equal(next(w->from[0].cq).status, IBV_WC_REM_INV_REQ_ERR);
	post_message(w, 1, 9);
	expect_message(w, 1, 2, 9);
}

static void await_last(struct world *w, int i)
{
	struct ibv_async_event event;

	assert_int_equal(ibv_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_ptr_equal(event.element.qp, w->to[i].qp);
	ibv_ack_async_event(&event);
}

static void what_came_before_err_is_received(void **state)
{
	struct world *w = *state;

	for (uint64_t i = 0; i < 6; i++)
		post_receive(w, i, LENGTH, 0);
	for (uint64_t i = 0; i < 4; i++)
		post_message(w, (int)(i % 2), i);
	bring(w->to[0].qp, w->from[0].qp, IBV_QPS_ERR);
	await_last(w, 0);
	for (uint64_t i = 0; i < 4; i++)
		expect_message(w, (int)(i % 2), i, i);
	for (uint64_t i = 4; i < 6; i++) { /* the other two are those of the others */
		post_message(w, 2, i);
		expect_message(w, 2, i, i);
	}
}

/* As a sender does that is killed, or stopped, before it has told of its message. */
static void claim_for(struct world *w, int i)
{
	struct srq *srq = (struct srq *)w->srq;
	struct share_table *t = srq->hca->share->table;
	uint32_t shown = atomic_load(&t->queue[srq->handle].offered), position;

	assert_true(claims_find(&t->claims[srq->handle], shown, &position));
	assert_true(claims_take(&t->claims[srq->handle], position, claimer(1, w->to[i].qp->qp_num)));
}

static void a_sender_that_dies_takes_no_receive_along(void **state)
{
	struct world *w = *state;

	for (uint64_t i = 0; i < 4; i++)
		post_receive(w, i, LENGTH, 0);
	claim_for(w, 0);
	claim_for(w, 1);
	bring(w->to[0].qp, w->from[0].qp, IBV_QPS_ERR);
	await_last(w, 0);
	assert_int_equal(expect(w, IBV_WC_WR_FLUSH_ERR).wr_id, 0);
	assert_int_equal(ibv_destroy_qp(w->to[1].qp), 0);
	assert_non_null(w->to[1].qp = make_target(w));
	for (uint64_t i = 0; i < 3; i++) {
		post_message(w, 2, i);
		expect_message(w, 2, i < 2 ? i + 2 : 1, i);
	}
}

static bool waits(struct world *w, int i)
{
	struct qp *qp = (struct qp *)w->to[i].qp;
	bool has;

	lock_take(&qp->lock);
	has = has_receive(qp);
	lock_drop(&qp->lock);
	return has;
}

/* A receive that somebody has claimed is none for another: its message waits as for any late receive. */
static void a_claimed_receive_is_none_for_others(void **state)
{
	struct world *w = *state;

	post_receive(w, 1, LENGTH, 0);
	assert_true(waits(w, 1));
	claim_for(w, 0);
	assert_false(waits(w, 1));
	post_message(w, 1, 4);
	assert_false(is_done(w, 1));
	post_receive(w, 2, LENGTH, 0);
	expect_message(w, 1, 2, 4);
}

static void reset_gives_back_what_was_claimed_in_vain(void **state)
{
	struct world *w = *state;

	post_receive(w, 1, LENGTH, 0);
	claim_for(w, 0);
	bring(w->to[0].qp, w->from[0].qp, IBV_QPS_RESET);
	post_message(w, 1, 6);
	expect_message(w, 1, 1, 6);
}

static void a_claim_that_is_flushed_counts_for_the_limit(void **state)
{
	struct world *w = *state;
	struct ibv_srq_attr a = {.srq_limit = 2};
	int reached = 0;

	for (uint64_t i = 0; i < 2; i++)
		post_receive(w, i, LENGTH, 0);
	assert_int_equal(ibv_modify_srq(w->srq, &a, IBV_SRQ_LIMIT), 0);
	claim_for(w, 0);
	bring(w->to[0].qp, w->from[0].qp, IBV_QPS_ERR);
	expect(w, IBV_WC_WR_FLUSH_ERR);
	for (int i = 0; i < 2; i++) { /* this, and LAST_WQE_REACHED */
		struct ibv_async_event event;

		assert_int_equal(ibv_get_async_event(context, &event), 0);
		reached += event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED;
		ibv_ack_async_event(&event);
	}
	assert_int_equal(reached, 1);
}

/* While one is held, all others come and go, by messages of both kinds. */
static void a_sender_that_is_stopped_holds_no_other(void **state)
{
	struct world *w = *state;
	uint64_t posted = 0, taken = 1;

	for (; posted < 32; posted++)
		post_receive(w, posted, LENGTH, 0);
	claim_for(w, 0);
	for (; taken < 1000; taken++) {
		post_message(w, 1 + (int)(taken % 2), taken);
		expect_message(w, 1 + (int)(taken % 2), taken, taken);
		post_receive(w, posted++, LENGTH, 0);
	}
	assert_int_equal(ibv_destroy_qp(w->to[0].qp), 0);
	assert_non_null(w->to[0].qp = make_target(w));
	for (int i = 0; i < 32; i++) { /* all that were posted, and the one that was held */
		post_message(w, 1, (uint64_t)i);
		assert_int_equal(expect(w, IBV_WC_SUCCESS).wr_id, i < 31 ? taken + (uint64_t)i : 0);
	}
}

/* Words that another process writes there do no harm: a message then comes as a packet. */
static void a_broken_peer_takes_nothing(void **state)
{
	struct world *w = *state;
	struct srq *srq = (struct srq *)w->srq;
	struct share_claims *c = &srq->hca->share->table->claims[srq->handle];
	uint64_t seed = 1;

	for (uint64_t i = 0; i < 1000; i++) {
		post_receive(w, i, LENGTH, 0);
		for (int n = 0; n < SHARE_RECEIVES; n++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			atomic_store(&c->word[n], seed);
		}
		atomic_store(&c->next, (uint32_t)(seed >> 20));
		post_message(w, (int)(i % QPS), i);
		assert_false(is_done(w, (int)(i % QPS)));
		for (int n = 0; n < SHARE_RECEIVES; n++)
			claims_put(c, (uint32_t)((srq->rq.head & ~(SHARE_RECEIVES - 1u)) + (uint32_t)n));
		claims_put(c, srq->rq.head - 1);
		expect_message(w, (int)(i % QPS), i, i);
	}
}

enum { EACH = 4000 };

struct sender {
	struct world *w;
	int i;
};

/* The 16 bytes that end in a count are stored in the order of the count. */
static void *send_many(void *arg)
{
	struct sender *s = arg;
	struct side *from = &s->w->from[s->i];
	struct ibv_wc wc[16];
	uint64_t outstanding = 0;

	for (uint64_t n = 0; n < EACH || outstanding;) {
		int got = ibv_poll_cq(from->cq, 16, wc);

		for (int k = 0; k < got; k++, outstanding--)
			assert_int_equal(wc[k].status, IBV_WC_SUCCESS);
		if (n < EACH && outstanding < 32) {
			uint64_t *what = (uint64_t *)(from->memory + n % 32 * 16);
			struct ibv_sge sge = piece(from, n % 32 * 16, 16);
			struct ibv_send_wr wr = {
				.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

			what[0] = (uint64_t)s->i;
			what[1] = n++;
			assert_int_equal(side_send(from, &wr), 0);
			outstanding++;
		}
	}
	return NULL;
}

/* Each message once, in the order of its sender, in a receive of its own. */
static void many_threads_send_at_once(void **state)
{
	struct world *w = *state;
	struct sender sender[QPS];
	pthread_t thread[QPS];
	uint64_t next_of[QPS] = {0}, posted = 0;

	for (; posted < 64; posted++)
		post_receive(w, posted, LENGTH, 0);
	for (int i = 0; i < QPS; i++) {
		sender[i] = (struct sender){w, i};
		assert_int_equal(pthread_create(&thread[i], NULL, send_many, &sender[i]), 0);
	}
	for (uint64_t n = 0; n < (uint64_t)QPS * EACH; n++) {
		struct ibv_wc wc = expect(w, IBV_WC_SUCCESS);
		const uint64_t *what = (const uint64_t *)(w->memory + wc.wr_id * LENGTH);

		assert_true(what[0] < QPS);
		assert_int_equal(wc.qp_num, w->to[what[0]].qp->qp_num);
		assert_int_equal(what[1], next_of[what[0]]++);
		post_receive(w, wc.wr_id, LENGTH, 0);
	}
	for (int i = 0; i < QPS; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
}

/* All again with receives whose memory is not mapped. */
static int open_unmapped(void **state)
{
	reach_maps_nothing = true;
	return open_world(state);
}

static int close_unmapped(void **state)
{
	reach_maps_nothing = false;
	return close_world(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name)                                                      \
	cmocka_unit_test_setup_teardown(name, open_world, close_world), \
		{#name "_carried", name, open_unmapped, close_unmapped, NULL}
		TEST(a_message_is_done_when_it_is_posted),
		TEST(what_its_region_takes_no_more_fails_the_receiver),
		TEST(the_queue_has_the_room_that_it_says),
		TEST(the_limit_is_told),
		TEST(a_receive_that_is_too_short_fails_both),
		TEST(what_came_before_err_is_received),
		TEST(a_sender_that_dies_takes_no_receive_along),
		TEST(a_claimed_receive_is_none_for_others),
		TEST(reset_gives_back_what_was_claimed_in_vain),
		TEST(a_claim_that_is_flushed_counts_for_the_limit),
		TEST(a_sender_that_is_stopped_holds_no_other),
		TEST(a_broken_peer_takes_nothing),
		TEST(many_threads_send_at_once),
	};

	return cmocka_run_group_tests(tests, open_context, close_context);
}
