/* SPDX-License-Identifier: BSD-2-Clause */
/* What faults and a hostile adapter do that shows in memory and in completion channels: each time what a program must
 * not count on is seen, and then what it may count on. */
#include "verbs/fixture.h"

#include <string.h>

#include "fault/inject.h"
#include "object/mr.h"

enum { LENGTH = 1000 }; /* of one packet, by UDP as well */

static void add_rule(const char *rule)
{
	struct rule_error error;

	if (inject_add(rule, &error) < 0)
		fail_msg("%s: %s", rule, error.text);
}

static int end_rules(void **state)
{
	inject_clear();
	return close_sides(state);
}

/* The byte, as the adapter has left it; polls, as a program may. */
static char at(struct side *s, size_t offset)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(s->cq, 1, &wc), 0);
	return __atomic_load_n(s->memory + offset, __ATOMIC_RELAXED); /* the adapter may be writing there */
}

/* A program that waits for the last byte of a WRITE finds it, and not the first one. */
static void the_last_bytes_of_a_write_may_be_first(void **state)
{
	struct side *s = *state;

	add_rule("in WRITE nth 1: last-first 2s");
	connect_sides(s);
	memset(s[0].memory, 'n', LENGTH);
	assert_int_equal(side_write(&s[0], &s[1], LENGTH), 0);
	while (at(&s[1], LENGTH - 1) != 'n')
		;
	assert_int_equal(at(&s[1], LENGTH - 8), 'n');
	assert_int_equal(at(&s[1], LENGTH - 9), 0);
	assert_int_equal(at(&s[1], 0), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(s[0].memory, s[1].memory, LENGTH);
}

/* The same of a SEND: the receive's buffer belongs to the adapter until the completion. And of a READ. */
static void so_may_those_of_a_send_and_of_a_read(void **state)
{
	for (int is_read = 0; is_read < 2; is_read++) {
		struct side *s, *to;
		struct ibv_sge sge;
		struct ibv_send_wr wr = {.sg_list = &sge,
					 .num_sge = 1,
					 .opcode = is_read ? IBV_WR_RDMA_READ : IBV_WR_SEND,
					 .send_flags = IBV_SEND_SIGNALED};
		void *fresh = NULL;

		assert_int_equal(open_sides(&fresh), 0);
		s = fresh;
		to = is_read ? &s[0] : &s[1];
		add_rule(is_read ? "in READ_RESPONSE nth 1: last-first 2s" : "in SEND nth 1: last-first 2s");
		connect_sides(s);
		memset(s[is_read].memory, 'n', LENGTH);
		sge = piece(&s[0], 0, LENGTH);
		wr.wr.rdma.remote_addr = (uintptr_t)s[1].memory;
		wr.wr.rdma.rkey = s[1].mr->rkey;
		assert_int_equal(side_receive(&s[1], 1), 0);
		assert_int_equal(side_send(&s[0], &wr), 0);
		while (at(to, LENGTH - 1) != 'n')
			;
		assert_int_equal(at(to, LENGTH - 8), 'n');
		assert_int_equal(at(to, LENGTH - 9), 0);
		assert_int_equal(at(to, 0), 0);
		assert_int_equal(next(to->cq).status, IBV_WC_SUCCESS);
		assert_memory_equal(s[0].memory, s[1].memory, LENGTH);
		end_rules(&fresh);
	}
}

/* In the middle and last packets of a long one, with the rest of it in order. */
static void a_long_send_or_read_arrives_whole(void **state)
{
	for (int is_read = 0; is_read < 2; is_read++) {
		struct side *s;
		struct ibv_sge sge, room;
		struct ibv_send_wr wr = {.sg_list = &sge,
					 .num_sge = 1,
					 .opcode = is_read ? IBV_WR_RDMA_READ : IBV_WR_SEND,
					 .send_flags = IBV_SEND_SIGNALED};
		struct ibv_recv_wr receive = {.sg_list = &room, .num_sge = 1}, *bad;
		void *fresh = NULL;

		assert_int_equal(open_sides(&fresh), 0);
		s = fresh;
		add_rule(is_read ? "in READ_RESPONSE every 2: last-first 1ms" : "in SEND every 2: last-first 1ms");
		connect_sides(s);
		for (int i = 0; i < MEMORY; i++)
			s[is_read].memory[i] = (char)(i * 7);
		sge = piece(&s[0], 0, MEMORY);
		room = piece(&s[1], 0, MEMORY);
		wr.wr.rdma.remote_addr = (uintptr_t)s[1].memory;
		wr.wr.rdma.rkey = s[1].mr->rkey;
		assert_int_equal(ibv_post_recv(s[1].qp, &receive, &bad), 0);
		assert_int_equal(side_send(&s[0], &wr), 0);
		assert_int_equal(next(s[is_read ? 0 : 1].cq).status, IBV_WC_SUCCESS);
		assert_memory_equal(s[0].memory, s[1].memory, MEMORY);
		end_rules(&fresh);
	}
}

/* An asynchronous event of the port may be told twice. */
static void an_asynchronous_event_may_come_twice(void **state)
{
	struct side *s = *state;
	int down = 0, up = 0;

	add_rule("call ibv_get_async_event nth 1: duplicate");
	add_rule("post nth 1: port-down 1ms");
	connect_sides(s);
	assert_int_equal(side_write(&s[0], &s[1], 8), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	for (int i = 0; i < 3; i++) {
		struct ibv_async_event event;

		assert_int_equal(ibv_get_async_event(context, &event), 0);
		down += event.event_type == IBV_EVENT_PORT_ERR;
		up += event.event_type == IBV_EVENT_PORT_ACTIVE;
		ibv_ack_async_event(&event);
	}
	assert_int_equal(down, 2);
	assert_int_equal(up, 1);
}

/* The same in the last packet of several. */
static void so_may_those_of_a_long_one(void **state)
{
	struct side *s = *state;
	uint32_t length = MEMORY - 1;

	add_rule("in WRITE LAST nth 1: last-first 2s");
	connect_sides(s);
	memset(s[0].memory, 'n', length);
	assert_int_equal(side_write(&s[0], &s[1], length), 0);
	while (at(&s[1], length - 1) != 'n')
		;
	assert_int_equal(at(&s[1], 0), 'n');
	assert_int_equal(at(&s[1], length - 9), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(s[0].memory, s[1].memory, length);
}

static void a_write_that_is_refused_changes_nothing(void **state)
{
	struct side *s = *state;

	add_rule("in WRITE: last-first 1ms");
	connect_sides(s);
	memset(s[0].memory, 'n', LENGTH);
	s[1].mr->rkey ^= 1;
	assert_int_equal(side_write(&s[0], &s[1], LENGTH), 0);
	s[1].mr->rkey ^= 1;
	assert_int_equal(next(s[0].cq).status, IBV_WC_REM_ACCESS_ERR);
	for (int i = 0; i < LENGTH; i++)
		assert_int_equal(s[1].memory[i], 0);
}

/* A buffer belongs to the adapter until the completion. An inline one never does. */
static void a_send_buffer_may_be_read_late(void **state)
{
	for (int is_inline = 0; is_inline < 2; is_inline++) {
		struct side *s;
		struct ibv_sge sge;
		struct ibv_send_wr wr = {.sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND,
					 .send_flags = IBV_SEND_SIGNALED | (is_inline ? IBV_SEND_INLINE : 0)};
		void *fresh = NULL;

		assert_int_equal(open_sides(&fresh), 0);
		s = fresh;
		add_rule("post SEND nth 1: delay 2s");
		connect_sides(s);
		sge = piece(&s[0], 0, 64);
		assert_int_equal(side_receive(&s[1], 1), 0);
		memset(s[0].memory, 'a', 64);
		assert_int_equal(side_send(&s[0], &wr), 0);
		memset(s[0].memory, 'b', 64); /* too early */
		assert_int_equal(next(s[1].cq).status, IBV_WC_SUCCESS);
		assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
		assert_int_equal(s[1].memory[0], is_inline ? 'a' : 'b');
		end_rules(&fresh);
	}
}

/* An event says that something may be in the CQ: it may have been polled already. */
static void an_event_may_come_without_a_completion(void **state)
{
	struct side *s = *state;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *arg;

	connect_sides(s);
	assert_int_equal(ibv_req_notify_cq(s[0].cq, 0), 0);
	assert_int_equal(side_write(&s[0], &s[1], 8), 0);
	assert_int_equal(ibv_get_cq_event(s[0].channel, &cq, &arg), 0);
	add_rule("call ibv_req_notify_cq nth 1: wake");
	assert_int_equal(ibv_req_notify_cq(s[0].cq, 0), 0); /* as it should be: ask, then poll until there is nothing */
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_poll_cq(s[0].cq, 1, &wc), 0);
	assert_int_equal(ibv_get_cq_event(s[0].channel, &cq, &arg), 0);
	assert_int_equal(ibv_poll_cq(s[0].cq, 1, &wc), 0);
	assert_int_equal(ibv_req_notify_cq(s[0].cq, 0), 0);
	assert_int_equal(side_write(&s[0], &s[1], 8), 0);
	assert_int_equal(ibv_get_cq_event(s[0].channel, &cq, &arg), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	ibv_ack_cq_events(s[0].cq, 3);
}

/* For the program itself, which posts its own buffer, and in a receive; and for its peer. */
static void a_region_may_be_gone(void **state)
{
	for (int i = 0; i < 3; i++) {
		struct side *s;
		struct ibv_sge sge;
		struct ibv_send_wr wr = {
			.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
		void *fresh = NULL;

		assert_int_equal(open_sides(&fresh), 0);
		s = fresh;
		add_rule("post SEND wr_id 7: revoke");
		connect_sides(s);
		sge = piece(&s[0], 0, 64);
		wr.wr_id = 7;
		assert_int_equal(side_receive(&s[0], 1), 0);
		assert_int_equal(side_receive(&s[1], 1), 0);
		assert_int_equal(side_send(&s[0], &wr), 0);
		assert_int_equal(next(s[0].cq).status, IBV_WC_LOC_PROT_ERR);
		assert_int_equal(next(s[0].cq).status, IBV_WC_WR_FLUSH_ERR); /* the receive */
		for (int end = 0; end < 2; end++)
			bring(s[end].qp, s[!end].qp, IBV_QPS_RESET);
		connect_sides(s);
		if (i == 0) { /* its own WRITE */
			assert_int_equal(side_write(&s[0], &s[1], 8), 0);
			assert_int_equal(next(s[0].cq).status, IBV_WC_LOC_PROT_ERR);
		} else if (i == 1) { /* that of its peer */
			assert_int_equal(side_write(&s[1], &s[0], 8), 0);
			assert_int_equal(next(s[1].cq).status, IBV_WC_REM_ACCESS_ERR);
		} else { /* a receive of its own */
			sge = piece(&s[1], 0, 64);
			wr.wr_id = 8;
			assert_int_equal(side_receive(&s[0], 2), 0);
			assert_int_equal(side_send(&s[1], &wr), 0);
			assert_int_equal(next(s[0].cq).status, IBV_WC_LOC_PROT_ERR);
			assert_int_equal(next(s[1].cq).status, IBV_WC_REM_OP_ERR);
		}
		end_rules(&fresh);
	}
}

/* One request of side 0 to side 1, in 8 bytes; a SEND has its receive. */
static void request(struct side *s, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = piece(&s[0], 0, 8);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)s[1].memory;
		wr.wr.atomic.rkey = s[1].mr->rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)s[1].memory;
		wr.wr.rdma.rkey = s[1].mr->rkey;
	}
	if (opcode == IBV_WR_SEND)
		assert_int_equal(side_receive(&s[1], 1), 0);
	assert_int_equal(side_send(&s[0], &wr), 0);
}

/* Each use of a region, by whom, for what: two requests pass, the third does not, and whether the region is there
 * afterwards. */
static void a_rule_hits_the_uses_of_memory(void **state)
{
	static const struct {
		const char *rule;
		enum ibv_wr_opcode opcode;
		enum ibv_wc_status status, again; /* of the requester; after both ends have begun anew */
	} rows[] = {
		{"memory local READ nth 3: refuse", IBV_WR_SEND, IBV_WC_LOC_PROT_ERR, IBV_WC_SUCCESS},
		{"memory local READ nth 3: revoke", IBV_WR_SEND, IBV_WC_LOC_PROT_ERR, IBV_WC_LOC_PROT_ERR},
		{"memory local WRITE nth 3: refuse", IBV_WR_RDMA_READ, IBV_WC_LOC_PROT_ERR, IBV_WC_SUCCESS},
		{"memory local WRITE nth 3: refuse", IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_LOC_PROT_ERR, IBV_WC_SUCCESS},
		{"memory local WRITE nth 3: refuse", IBV_WR_SEND, IBV_WC_REM_OP_ERR, IBV_WC_SUCCESS}, /* the receive */
		{"memory local WRITE nth 3: revoke", IBV_WR_SEND, IBV_WC_REM_OP_ERR, IBV_WC_REM_OP_ERR},
		{"memory remote WRITE nth 3: refuse", IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR, IBV_WC_SUCCESS},
		{"memory remote WRITE nth 3: revoke", IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR},
		{"memory remote READ nth 3: refuse", IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR, IBV_WC_SUCCESS},
		{"memory ATOMIC nth 3: refuse", IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_REM_ACCESS_ERR, IBV_WC_SUCCESS},
		{"memory nth 3 size 9: refuse", IBV_WR_RDMA_WRITE, IBV_WC_SUCCESS, IBV_WC_SUCCESS},
		{"memory remote READ nth 3: refuse", IBV_WR_RDMA_WRITE, IBV_WC_SUCCESS, IBV_WC_SUCCESS},
		{"memory nth 3: delay 1ms", IBV_WR_SEND, IBV_WC_SUCCESS, IBV_WC_SUCCESS},
		{"memory remote nth 3: delay 1ms", IBV_WR_RDMA_READ, IBV_WC_SUCCESS, IBV_WC_SUCCESS},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct side *s;
		void *fresh = NULL;

		print_message("# %s\n", rows[i].rule);
		assert_int_equal(open_sides(&fresh), 0);
		s = fresh;
		add_rule(rows[i].rule);
		connect_sides(s);
		for (int n = 1; n <= 3; n++) {
			request(s, rows[i].opcode);
			assert_int_equal(next(s[0].cq).status, n < 3 ? IBV_WC_SUCCESS : rows[i].status);
		}
		for (int end = 0; end < 2; end++)
			bring(s[end].qp, s[!end].qp, IBV_QPS_RESET);
		for (struct ibv_wc wc; ibv_poll_cq(s[0].cq, 1, &wc) || ibv_poll_cq(s[1].cq, 1, &wc);)
			;
		connect_sides(s);
		request(s, rows[i].opcode);
		assert_int_equal(next(s[0].cq).status, rows[i].again);
		end_rules(&fresh);
	}
}

/* Regions have numbers, from 1 as they are registered. */
static void a_rule_names_a_region(void **state)
{
	struct side *s = *state;
	char rule[64], memory[8] = {0};
	struct ibv_mr *one = ibv_reg_mr(s[1].pd, memory, sizeof(memory), ALL_ACCESS), *other;
	uint32_t number = ((struct mr *)one)->number;
	struct ibv_sge sge;
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};

	other = ibv_reg_mr(s[1].pd, memory, sizeof(memory), ALL_ACCESS);
	assert_int_equal(((struct mr *)other)->number, number + 1);
	snprintf(rule, sizeof(rule), "memory region %u: refuse", number);
	add_rule(rule);
	connect_sides(s);
	memset(s[0].memory, 'n', sizeof(memory));
	sge = piece(&s[0], 0, sizeof(memory));
	wr.wr.rdma.remote_addr = (uintptr_t)memory;
	wr.wr.rdma.rkey = other->rkey;
	assert_int_equal(side_send(&s[0], &wr), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	assert_int_equal(memory[0], 'n');
	wr.wr.rdma.rkey = one->rkey;
	assert_int_equal(side_send(&s[0], &wr), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dereg_mr(one), 0);
	assert_int_equal(ibv_dereg_mr(other), 0);
}

#define ROW(test) cmocka_unit_test_setup_teardown(test, open_sides, end_rules)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROW(the_last_bytes_of_a_write_may_be_first),
		ROW(so_may_those_of_a_long_one),
		ROW(a_write_that_is_refused_changes_nothing),
		cmocka_unit_test(a_send_buffer_may_be_read_late),
		cmocka_unit_test(so_may_those_of_a_send_and_of_a_read),
		cmocka_unit_test(a_long_send_or_read_arrives_whole),
		ROW(an_asynchronous_event_may_come_twice),
		cmocka_unit_test(a_rule_hits_the_uses_of_memory),
		ROW(a_rule_names_a_region),
		cmocka_unit_test(a_region_may_be_gone),
		ROW(an_event_may_come_without_a_completion),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, open_context, close_context);
}
