/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows: what may be bound to what (IBTA 10.6.7), what their keys then allow, and the order of binding and
 * invalidating among other requests. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "fixture.h"

#define READ   IBV_ACCESS_REMOTE_READ
#define WRITE  IBV_ACCESS_REMOTE_WRITE
#define ATOMIC IBV_ACCESS_REMOTE_ATOMIC
#define ZERO   IBV_ACCESS_ZERO_BASED
#define LOCAL  IBV_ACCESS_LOCAL_WRITE
#define BIND   IBV_ACCESS_MW_BIND

/* A region of the same memory, to bind to. */
static struct mr *region(struct fixture *f, struct pd *pd, unsigned access)
{
	return mr_register(pd, f->memory, MEMORY, access & ZERO ? 0 : IOVA, access);
}

static struct ibv_send_wr bind_of(uint64_t id, struct mr *window, struct mr *mr, uint64_t addr, uint64_t length,
				  unsigned access)
{
	return (struct ibv_send_wr){
		.wr_id = id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {&window->window, ibv_inc_rkey(window->window.rkey), {&mr->base, addr, length, access}},
	};
}

static struct ibv_send_wr invalidate_of(uint64_t id, uint32_t rkey)
{
	return (struct ibv_send_wr){
		.wr_id = id,
		.opcode = IBV_WR_LOCAL_INV,
		.send_flags = IBV_SEND_SIGNALED,
		.invalidate_rkey = rkey,
	};
}

static struct ibv_send_wr send_of(uint64_t id)
{
	return (struct ibv_send_wr){.wr_id = id, .opcode = IBV_WR_SEND, .num_sge = 8, .send_flags = IBV_SEND_SIGNALED};
}

/* rows of {type, rights of the region, rights asked for, address, length, status} */
static void the_rules_of_binding(void **state)
{
	const enum ibv_wc_status OK = IBV_WC_SUCCESS, NO = IBV_WC_MW_BIND_ERR;
	const struct {
		enum ibv_mw_type type;
		unsigned has, wants;
		uint64_t address, length;
		enum ibv_wc_status status;
	} rows[] = {
		{1, BIND, READ, IOVA, 8, OK},
		{2, BIND, READ, IOVA, 8, OK},
		{1, 0, READ, IOVA, 8, NO}, /* the region does not take windows */
		{2, 0, READ, IOVA, 8, NO},
		{2, BIND, WRITE, IOVA, 8, NO}, /* remote writes need local ones */
		{2, BIND | LOCAL, WRITE, IOVA, 8, OK},
		{1, BIND, ATOMIC, IOVA, 8, NO},
		{1, BIND | LOCAL, ATOMIC, IOVA, 8, OK},
		{2, BIND | LOCAL, WRITE | LOCAL, IOVA, 8, OK}, /* local rights mean nothing */
		{2, BIND | READ, 0, IOVA, 8, OK},	       /* no rights are some */
		{1, BIND, READ, IOVA, MEMORY, OK},
		{1, BIND, READ, IOVA, MEMORY + 1, NO},
		{1, BIND, READ, IOVA - 1, 8, NO},
		{1, BIND, READ, IOVA + MEMORY - 8, 8, OK},
		{1, BIND, READ, IOVA + MEMORY - 7, 8, NO},
		{2, BIND, READ, UINT64_MAX, 8, NO},
		{2, BIND, READ, IOVA, UINT64_MAX, NO},
		{1, BIND, READ, IOVA, 0, OK}, /* unbinds */
		{2, BIND, READ, IOVA, 0, NO},
		{1, BIND, READ | ZERO, IOVA, 8, NO},
		{2, BIND, READ | ZERO, IOVA, 8, OK},
		{2, BIND | ZERO, READ, 0, 8, NO}, /* a region that counts from zero */
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fixture *f = fixture_renew(state);
		struct mr *mr, *window;

		fixture_start(f, IBV_QPS_RTS);
		mr = region(f, &f->pd, rows[i].has);
		window = window_create(&f->pd, rows[i].type);
		assert_int_equal(
			fixture_post(f, bind_of(i, window, mr, rows[i].address, rows[i].length, rows[i].wants)), 0);
		assert_int_equal(expect_completion_(&f->send_cq, i, rows[i].status, (int)i).opcode, IBV_WC_BIND_MW);
		assert_int_equal(f->qp->state, rows[i].status == OK ? IBV_QPS_RTS : IBV_QPS_ERR);
		assert_int_equal(mr_deregister(mr), rows[i].status == OK && rows[i].length ? -EBUSY : 0);
		expect_silence(f);
	}
}

static void domains_must_agree(void **state)
{
	struct fixture *f = *state;
	struct mr *mr = region(f, &f->pd, BIND), *other = region(f, &f->other_pd, BIND);
	struct mr *window = window_create(&f->pd, IBV_MW_TYPE_1), *foreign = window_create(&f->other_pd, IBV_MW_TYPE_1);
	const struct {
		struct mr *window, *mr;
	} rows[] = {{window, other}, {foreign, mr}, {foreign, other}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (f->qp)
			qp_destroy(f->qp);
		fixture_start(f, IBV_QPS_RTS);
		assert_int_equal(fixture_post(f, bind_of(i, rows[i].window, rows[i].mr, IOVA, 8, READ)), 0);
		expect_done(f, i, IBV_WC_MW_BIND_ERR);
	}
}

static void type_2_is_bound_once(void **state)
{
	struct fixture *f = *state;
	struct mr *mr = region(f, &f->pd, BIND), *window = window_create(&f->pd, IBV_MW_TYPE_2);

	fixture_start(f, IBV_QPS_RTS);
	assert_int_equal(fixture_post(f, bind_of(1, window, mr, IOVA, 8, READ)), 0);
	expect_done(f, 1, IBV_WC_SUCCESS);
	assert_int_equal(fixture_post(f, invalidate_of(2, window->window.rkey)), 0);
	assert_int_equal(expect_done(f, 2, IBV_WC_SUCCESS).opcode, IBV_WC_LOCAL_INV);
	assert_int_equal(fixture_post(f, bind_of(3, window, mr, IOVA, 8, READ)), 0);
	expect_done(f, 3, IBV_WC_SUCCESS);
	assert_int_equal(fixture_post(f, bind_of(4, window, mr, IOVA, 8, READ)), 0);
	expect_done(f, 4, IBV_WC_MW_BIND_ERR);
}

/* A WRITE, READ or atomic by that key at that address. */
static void try(struct fixture *f, uint32_t n, uint8_t operation, uint32_t rkey, uint64_t va, bool allowed, int row)
{
	bool reads = operation == OP_READ_REQUEST, atomic = operation == OP_FETCH_ADD;
	struct packet p = aimed(f, operation, due_psn(n), reads || atomic ? 0 : 8, 0, 8);

	p.rkey = rkey;
	p.va = va;
	fixture_give(f, p);
	if (!allowed)
		expect_ack_(f, due_psn(n), NAK_REMOTE_ACCESS, row);
	else if (reads)
		expect_sent_(f, OP_READ_RESPONSE_ONLY, due_psn(n), row);
	else if (atomic)
		expect_sent_(f, OP_ATOMIC_ACKNOWLEDGE, due_psn(n), row);
	else
		expect_ack_(f, due_psn(n), ACKED, row);
	expect_silence_(f, row);
}

/* rows of {rights of the window, operation, address from the window's start, allowed}; the window is of 64
 * bytes from byte 1024 of the region */
static void a_window_allows_what_it_was_bound_for(void **state)
{
	static const struct {
		unsigned wants;
		uint8_t operation;
		int64_t offset;
		bool allowed;
	} rows[] = {
		{WRITE, OP_WRITE_ONLY, 0, true},	  {WRITE, OP_WRITE_ONLY, 56, true},
		{WRITE, OP_WRITE_ONLY, 57, false},	  {WRITE, OP_WRITE_ONLY, -1, false},
		{WRITE, OP_READ_REQUEST, 0, false},	  {WRITE, OP_FETCH_ADD, 0, false},
		{READ, OP_READ_REQUEST, 0, true},	  {READ, OP_WRITE_ONLY, 0, false},
		{ATOMIC, OP_FETCH_ADD, 8, true},	  {ATOMIC, OP_WRITE_ONLY, 8, false},
		{0, OP_READ_REQUEST, 0, false},		  {WRITE | ZERO, OP_WRITE_ONLY, 0, true},
		{WRITE | ZERO, OP_WRITE_ONLY, 56, true},  {WRITE | ZERO, OP_WRITE_ONLY, 57, false},
		{READ | ZERO, OP_READ_REQUEST, 56, true}, {ATOMIC | ZERO, OP_FETCH_ADD, 56, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fixture *f = fixture_renew(state);
		struct mr *window;
		uint64_t base = rows[i].wants & ZERO ? 0 : IOVA + 1024;

		fixture_start(f, IBV_QPS_RTS);
		window = window_create(&f->pd, IBV_MW_TYPE_2);
		assert_int_equal(fixture_post(f, bind_of(1, window, f->mr, IOVA + 1024, 64, rows[i].wants)), 0);
		expect_done(f, 1, IBV_WC_SUCCESS);
		for (int k = 0; k < 64; k++)
			f->memory[1024 + k] = (uint8_t)k;
		try(f, 0, rows[i].operation, window->window.rkey, base + (uint64_t)rows[i].offset, rows[i].allowed,
		    (int)i);
		if (rows[i].operation == OP_WRITE_ONLY && rows[i].allowed)
			assert_memory_equal(f->memory + 1024 + rows[i].offset, f->payload, 8);
		if (rows[i].operation == OP_READ_REQUEST && rows[i].allowed)
			assert_memory_equal(f->sent[f->sents - 1].payload, f->memory + 1024 + rows[i].offset, 8);
	}
}

static void type_1_gets_another_key_each_time(void **state)
{
	struct fixture *f = *state;
	struct mr *window = window_create(&f->pd, IBV_MW_TYPE_1);
	uint32_t first = window->window.rkey, second;

	fixture_start(f, IBV_QPS_RTS);
	assert_int_equal(fixture_post(f, bind_of(1, window, f->mr, IOVA, 8, WRITE)), 0);
	expect_done(f, 1, IBV_WC_SUCCESS);
	second = window->window.rkey;
	assert_int_equal(second, ibv_inc_rkey(first));
	try(f, 0, OP_WRITE_ONLY, second, IOVA, true, 0);
	assert_int_equal(fixture_post(f, bind_of(2, window, f->mr, IOVA + 8, 8, WRITE)), 0);
	expect_done(f, 2, IBV_WC_SUCCESS);
	assert_int_equal(window->window.rkey, ibv_inc_rkey(second));
	try(f, 1, OP_WRITE_ONLY, window->window.rkey, IOVA + 8, true, 1);
	try(f, 2, OP_WRITE_ONLY, second, IOVA, false, 2);
}

/* what kills the key: rows of a function that does it */
static void by_local_invalidation(struct fixture *f, struct mr *window)
{
	assert_int_equal(fixture_post(f, invalidate_of(9, window->window.rkey)), 0);
	expect_done(f, 9, IBV_WC_SUCCESS);
}

static void by_remote_invalidation(struct fixture *f, struct mr *window)
{
	struct packet p = request(OP_SEND_ONLY_INV, due_psn(1), 4);
	struct cqe c;

	fixture_post_recv(f, 5, 64);
	p.inv_rkey = window->window.rkey;
	fixture_give(f, p);
	c = expect_taken(f, 5, IBV_WC_SUCCESS);
	assert_int_equal(c.flags, IBV_WC_WITH_INV);
	assert_int_equal(c.imm, p.inv_rkey);
	expect_ack(f, due_psn(1), ACKED);
}

static void by_deallocation(struct fixture *f, struct mr *window)
{
	window_destroy(window);
}

static void a_dead_key_is_nobodys(void **state)
{
	static void (*const rows[])(struct fixture * f, struct mr * window) = {by_local_invalidation,
									       by_remote_invalidation, by_deallocation};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint32_t next = rows[i] == by_remote_invalidation ? 2 : 1;
		struct fixture *f = fixture_renew(state);
		struct mr *mr, *window;
		uint32_t rkey;

		fixture_start(f, IBV_QPS_RTS);
		window = window_create(&f->pd, IBV_MW_TYPE_2);
		rkey = ibv_inc_rkey(window->window.rkey);
		mr = region(f, &f->pd, BIND | LOCAL);
		assert_int_equal(fixture_post(f, bind_of(1, window, mr, IOVA, 64, WRITE)), 0);
		expect_done(f, 1, IBV_WC_SUCCESS);
		try(f, 0, OP_WRITE_ONLY, rkey, IOVA, true, 0);
		assert_int_equal(mr_reregister(mr, &f->pd, f->memory, 8, IOVA, BIND), -EBUSY);
		assert_int_equal(mr_deregister(mr), -EBUSY);
		rows[i](f, window);
		try(f, next, OP_WRITE_ONLY, rkey, IOVA, false, 1);
		assert_int_equal(mr_reregister(mr, &f->pd, f->memory, 8, IOVA, BIND), 0);
		assert_int_equal(mr_deregister(mr), 0);
	}
}

/* rows of keys that are not for this QP to invalidate, locally or by a message */
static void some_keys_cannot_be_invalidated(void **state)
{
	enum { UNKNOWN, REGION, TYPE_1, UNBOUND, OF_ANOTHER_QP, OF_ANOTHER_DOMAIN, KINDS };

	for (int i = 0; i < 2 * KINDS; i++) {
		bool remotely = i >= KINDS;
		struct fixture *f = fixture_renew(state);
		struct mr *w;
		struct packet p = request(OP_SEND_ONLY_INV, due_psn(0), 4);
		uint32_t key;

		fixture_start(f, IBV_QPS_RTS);
		w = window_create(i % KINDS == OF_ANOTHER_DOMAIN ? &f->other_pd : &f->pd,
				  i % KINDS == TYPE_1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
		key = w->window.rkey;
		struct mr *mr = region(f, w->pd, BIND);
		struct window_bind b = {w->index, mr->base.lkey, (uint8_t)key, READ, IOVA, 8};

		switch (i % KINDS) {
		case UNKNOWN:
			key = 0x12345678;
			break;
		case REGION:
			key = f->mr->base.rkey;
			break;
		case TYPE_1:
		case OF_ANOTHER_DOMAIN:
			assert_true(window_bind(&f->hca, w->pd, f->qp->serial, &b));
			break;
		case OF_ANOTHER_QP:
			assert_true(window_bind(&f->hca, w->pd, f->qp->serial + 1, &b));
			break;
		default:
			break;
		}
		if (remotely) {
			fixture_post_recv(f, 5, 64);
			p.inv_rkey = key;
			fixture_give(f, p);
			expect_silence_(f, i); /* class J: IBTA 9.9.6.3 */
			expect_completion_(&f->recv_cq, 5, IBV_WC_REM_INV_REQ_ERR, i);
			assert_int_equal(f->event[IBV_EVENT_QP_ACCESS_ERR], 1);
		} else {
			assert_int_equal(fixture_post(f, invalidate_of(1, key)), 0);
			expect_completion_(&f->send_cq, 1, IBV_WC_MW_BIND_ERR, i);
		}
		assert_int_equal(f->qp->state, IBV_QPS_ERR);
	}
}

static void type_2_is_for_the_qp_that_bound_it(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	try(f, 0, OP_WRITE_ONLY, f->rkey, IOVA, true, 0);
	qp_destroy(f->qp);
	fixture_start(f, IBV_QPS_RTS); /* another QP of the same domain */
	try(f, 0, OP_WRITE_ONLY, f->rkey, IOVA, false, 1);
}

static void type_1_is_for_all_qps_of_its_domain(void **state)
{
	struct fixture *f = *state;
	struct mr *window = window_create(&f->pd, IBV_MW_TYPE_1);
	uint32_t rkey = ibv_inc_rkey(window->window.rkey);

	fixture_start(f, IBV_QPS_RTS);
	assert_int_equal(fixture_post(f, bind_of(1, window, f->mr, IOVA, 8, WRITE)), 0);
	qp_destroy(f->qp);
	fixture_start(f, IBV_QPS_RTS);
	try(f, 0, OP_WRITE_ONLY, rkey, IOVA, true, 0);
}

/* A remote key is not a local one. */
static void a_window_gives_no_local_rights(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge = {IOVA, 8, f->rkey};
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};

	fixture_start(f, IBV_QPS_RTS);
	assert_int_equal(fixture_post(f, wr), 0);
	expect_done(f, 1, IBV_WC_LOC_PROT_ERR);
}

/* They are done when their tx batch comes, and complete when those before them have. */
static void completions_stay_in_order(void **state)
{
	struct fixture *f = *state;
	struct mr *window = window_create(&f->pd, IBV_MW_TYPE_2);
	uint32_t rkey = ibv_inc_rkey(window->window.rkey);

	fixture_start(f, IBV_QPS_RTS);
	assert_int_equal(fixture_post(f, send_of(1)), 0);
	assert_int_equal(fixture_post(f, bind_of(2, window, f->mr, IOVA, 8, WRITE)), 0);
	assert_int_equal(fixture_post(f, send_of(3)), 0);
	assert_int_equal(fixture_post(f, invalidate_of(4, rkey)), 0);
	assert_int_equal(fixture_post(f, invalidate_of(5, f->rkey)), 0);
	expect_sent(f, OP_SEND_ONLY, sent_psn(0));
	expect_sent(f, OP_SEND_ONLY, sent_psn(1));
	expect_silence(f);
	expect_none(f);
	fixture_give(f, ack(sent_psn(0), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
	expect_done(f, 2, IBV_WC_SUCCESS);
	expect_none(f);
	fixture_give(f, ack(sent_psn(1), ACKED));
	expect_done(f, 3, IBV_WC_SUCCESS);
	expect_done(f, 4, IBV_WC_SUCCESS);
	expect_done(f, 5, IBV_WC_SUCCESS);
}

/* Going back passes over what is done: it is not done again. */
static void they_are_not_done_twice(void **state)
{
	struct fixture *f = *state;
	struct mr *window = window_create(&f->pd, IBV_MW_TYPE_2);

	fixture_start(f, IBV_QPS_RTS);
	assert_int_equal(fixture_post(f, send_of(1)), 0);
	assert_int_equal(fixture_post(f, bind_of(2, window, f->mr, IOVA, 8, WRITE)), 0);
	assert_int_equal(fixture_post(f, bind_of(3, window_create(&f->pd, IBV_MW_TYPE_2), f->mr, IOVA, 8, WRITE)), 0);
	assert_int_equal(fixture_post(f, send_of(4)), 0);
	fixture_forget(f);
	fixture_give(f, ack(sent_psn(0), NAK_SEQUENCE));
	expect_sent(f, OP_SEND_ONLY, sent_psn(0));
	expect_sent(f, OP_SEND_ONLY, sent_psn(1));
	expect_none(f);
	fixture_give(f, ack(sent_psn(0), ACKED));
	for (uint64_t id = 1; id <= 3; id++)
		expect_done(f, id, IBV_WC_SUCCESS);
	/* back to the one behind them: to the place where they are */
	fixture_give(f, ack(sent_psn(1), NAK_SEQUENCE));
	expect_sent(f, OP_SEND_ONLY, sent_psn(1));
	fixture_give(f, ack(sent_psn(1), ACKED));
	expect_done(f, 4, IBV_WC_SUCCESS);
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
}

/* The hole is right behind them, and an ACK shows that it never was. */
static void going_back_to_their_place_does_no_harm(void **state)
{
	struct fixture *f = *state;
	struct mr *window = window_create(&f->pd, IBV_MW_TYPE_2);

	fixture_start(f, IBV_QPS_RTS);
	assert_int_equal(fixture_post(f, send_of(1)), 0);
	assert_int_equal(fixture_post(f, bind_of(2, window, f->mr, IOVA, 8, WRITE)), 0);
	fixture_forget(f);
	/* nothing is on the way but the SEND: the probe repeats it, not what stands before the cursor */
	assert_true(fixture_wait_deadline(f));
	expect_sent(f, OP_SEND_ONLY, sent_psn(0));
	fixture_give(f, ack(sent_psn(0), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
	expect_done(f, 2, IBV_WC_SUCCESS);
	assert_int_equal(fixture_post(f, send_of(3)), 0);
	expect_sent(f, OP_SEND_ONLY, sent_psn(1));
	fixture_give(f, ack(sent_psn(1), ACKED));
	expect_done(f, 3, IBV_WC_SUCCESS);
}

static void a_failure_waits_for_those_before_it(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_RTS);
	assert_int_equal(fixture_post(f, send_of(1)), 0);
	assert_int_equal(fixture_post(f, invalidate_of(2, 0x7777)), 0);
	assert_int_equal(fixture_post(f, send_of(3)), 0);
	expect_sent(f, OP_SEND_ONLY, sent_psn(0));
	expect_silence(f);
	expect_none(f);
	fixture_give(f, ack(sent_psn(0), ACKED));
	expect_done(f, 1, IBV_WC_SUCCESS);
	expect_done(f, 2, IBV_WC_MW_BIND_ERR);
	expect_done(f, 3, IBV_WC_WR_FLUSH_ERR);
}

static void a_fence_is_kept(void **state)
{
	struct fixture *f = *state;
	struct ibv_send_wr read = {.wr_id = 1,
				   .opcode = IBV_WR_RDMA_READ,
				   .num_sge = 8,
				   .send_flags = IBV_SEND_SIGNALED,
				   .wr.rdma = {IOVA, 0x99}},
			   inv = invalidate_of(2, f->rkey);

	inv.send_flags |= IBV_SEND_FENCE;
	fixture_start(f, IBV_QPS_RTS);
	assert_int_equal(fixture_post(f, read), 0);
	assert_int_equal(fixture_post(f, inv), 0);
	expect_sent(f, OP_READ_REQUEST, sent_psn(0));
	try(f, 0, OP_WRITE_ONLY, f->rkey, IOVA, true, 0); /* it is still good */
	fixture_give(f, response(OP_READ_RESPONSE_ONLY, sent_psn(0), 8));
	expect_done(f, 1, IBV_WC_SUCCESS);
	expect_done(f, 2, IBV_WC_SUCCESS);
	try(f, 1, OP_WRITE_ONLY, f->rkey, IOVA, false, 1);
}

static void they_wait_while_the_queue_drains(void **state)
{
	struct fixture *f = *state;

	fixture_start(f, IBV_QPS_SQD);
	assert_int_equal(fixture_post(f, invalidate_of(1, f->rkey)), 0);
	expect_none(f);
	assert_int_equal(fixture_move(f, IBV_QPS_RTS), 0);
	fixture_run(f);
	expect_done(f, 1, IBV_WC_SUCCESS);
}

/* A READ that is half answered when its window goes: it ends there, and the region may go. */
static void a_read_ends_with_its_window(void **state)
{
	struct fixture *f = *state;
	struct packet p;

	fixture_start(f, IBV_QPS_RTS);
	p = aimed(f, OP_READ_REQUEST, due_psn(0), 0, 0, 100 * MTU); /* more than a tx batch */
	p.rkey = f->rkey;
	lock_take(&f->qp->lock);
	engine_receive(f->qp, &p, &fixture_there, f->now, NULL);
	f->batch.now = f->now;
	f->batch.room = UINT32_MAX;
	assert_true(engine_run(f->qp, &f->batch));
	assert_int_equal(mr_deregister(f->exported), -EBUSY);
	assert_true(
		window_invalidate(&f->hca, &f->pd, f->qp->serial, f->rkey)); /* while the tx batch holds the region */
	batch_done(&f->batch);
	lock_drop(&f->qp->lock);
	assert_int_equal(mr_deregister(f->exported), 0);
	fixture_run(f);
	expect_ack(f, due_psn(BATCH_TRAINS), NAK_REMOTE_ACCESS);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
}

/* UC has no ACK to wait for; all the same they stay in order. */
static void an_unreliable_qp_binds_too(void **state)
{
	struct fixture *f = *state;
	struct mr *window = window_create(&f->pd, IBV_MW_TYPE_2);
	uint32_t rkey = ibv_inc_rkey(window->window.rkey);

	f->type = IBV_QPT_UC;
	fixture_start(f, IBV_QPS_RTS);
	assert_int_equal(fixture_post(f, bind_of(1, window, f->mr, IOVA, 8, WRITE)), 0);
	expect_done(f, 1, IBV_WC_SUCCESS);
	expect_silence(f);
	assert_int_equal(fixture_post(f, send_of(2)), 0);
	assert_int_equal(fixture_post(f, invalidate_of(3, rkey)), 0);
	assert_int_equal(fixture_post(f, send_of(4)), 0);
	for (uint64_t id = 2; id <= 4; id++)
		expect_done(f, id, IBV_WC_SUCCESS);
	assert_int_equal(fixture_post(f, invalidate_of(5, rkey)), 0);
	expect_done(f, 5, IBV_WC_MW_BIND_ERR);
	assert_int_equal(f->qp->state, IBV_QPS_SQE);
}

enum { ROUNDS = 2000 };

struct lending {
	struct fixture *f;
	_Atomic uint32_t key; /* of the window, as a peer would know it */
	_Atomic bool over;
	uint64_t word;
};

/* What the responder does for one packet, again and again, while the window comes and goes. */
static void *import_make(void *arg)
{
	struct lending *l = arg;

	while (!l->over) {
		struct mr *mr = mr_get(&l->f->hca, l->key);

		mr = mr && mr->type ? window_enter(mr, 1) : mr;
		if (!mr)
			continue;
		l->word++;
		mr_put(mr);
	}
	return NULL;
}

/* Once a window is unbound and its region deregistered, nobody touches the memory: so plain accesses on both
 * sides are no race. */
static void unbinding_and_deregistering_waits_for_those_inside(void **state)
{
	struct fixture *f = *state;
	struct lending l = {.f = f};
	struct mr *w = window_create(&f->pd, IBV_MW_TYPE_2);
	pthread_t thread;

	fixture_start(f, IBV_QPS_RTS);
	assert_int_equal(pthread_create(&thread, NULL, import_make, &l), 0);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct mr *mr = mr_register(&f->pd, &l.word, sizeof(l.word), IOVA, BIND | LOCAL);
		struct window_bind b = {w->index, mr->base.lkey, (uint8_t)i, WRITE, IOVA, 8};

		assert_true(window_bind(&f->hca, &f->pd, 1, &b));
		l.key = mr_key(w, (uint8_t)i);
		assert_true(window_invalidate(&f->hca, &f->pd, 1, l.key));
		assert_int_equal(mr_deregister(mr), 0);
		l.word = 0;
	}
	l.over = true;
	pthread_join(thread, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_rules_of_binding),
		TEST(domains_must_agree),
		TEST(type_2_is_bound_once),
		TEST(a_window_allows_what_it_was_bound_for),
		TEST(type_1_gets_another_key_each_time),
		TEST(a_dead_key_is_nobodys),
		TEST(some_keys_cannot_be_invalidated),
		TEST(type_2_is_for_the_qp_that_bound_it),
		TEST(type_1_is_for_all_qps_of_its_domain),
		TEST(a_window_gives_no_local_rights),
		TEST(completions_stay_in_order),
		TEST(they_are_not_done_twice),
		TEST(going_back_to_their_place_does_no_harm),
		TEST(a_failure_waits_for_those_before_it),
		TEST(a_fence_is_kept),
		TEST(they_wait_while_the_queue_drains),
		TEST(a_read_ends_with_its_window),
		TEST(an_unreliable_qp_binds_too),
		TEST(unbinding_and_deregistering_waits_for_those_inside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
