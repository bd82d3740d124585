/* SPDX-License-Identifier: BSD-2-Clause */
/* The state machine of connection management: two of them talk, and messages are lost, doubled and crossed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define DAY (86400 * SEC)

static void all_bytes(const struct cm_mad *mad, uint8_t byte)
{
	for (uint32_t i = 0; i < cm_private_bytes(mad->message); i++)
		assert_int_equal(mad->private_data[i], byte);
}

static void both_connect_and_both_part(void **state)
{
	struct world *w = *state;

	world_connect(w);
	world_deliver(w);
	assert_int_equal(w->sent, 3);
	assert_int_equal(w->request.service, SERVICE);
	all_bytes(&w->request, 0xa1);
	all_bytes(&world_expect(w, ACTIVE, CM_EVENT_REPLIED)->mad, 0xb2);
	all_bytes(&world_expect(w, PASSIVE, CM_EVENT_ESTABLISHED)->mad, 0xc3);
	world_run(w, w->now + DAY); /* nothing is due */
	assert_int_equal(w->sent, 3);

	assert_int_equal(connection_disconnect(w->user[ACTIVE].c, &(struct cm_mad){0}, w->now), 0);
	world_deliver(w);
	assert_int_equal(w->sent, 5);
	world_expect(w, PASSIVE, CM_EVENT_DISCONNECTED);
	world_expect(w, ACTIVE, CM_EVENT_DISCONNECTED);
	world_run(w, w->now + DAY);
	world_expect(w, PASSIVE, CM_EVENT_TIMEWAIT_EXIT);
	world_expect(w, ACTIVE, CM_EVENT_TIMEWAIT_EXIT);
	assert_int_equal(w->sent, 5);
	world_end(w);
}

/* Every way to lose some of the first 8 messages, doubled or not, in order or not. */
static void lost_messages_are_made_up_for(void **state)
{
	for (uint32_t way = 0; way < 1024; way++) {
		struct world *w = world_renew(state);

		world_acquaint(w);
		w->lost = way >> 2;
		w->twice = way & 1;
		w->backwards = way & 2;
		world_connect(w);
		world_run(w, w->now + 60 * SEC);
		if (!world_has(w, PASSIVE, CM_EVENT_ESTABLISHED) || !world_has(w, ACTIVE, CM_EVENT_REPLIED))
			fail_msg("way %u: not connected", way);
		assert_int_equal(w->user[ACTIVE].events, 1);
		assert_int_equal(w->user[PASSIVE].events, 1);
		assert_int_equal(connection_disconnect(w->user[PASSIVE].c, &(struct cm_mad){0}, w->now), 0);
		w->lost <<= w->sent;
		world_run(w, w->now + 60 * SEC);
		for (int i = 0; i < MACHINES; i++) {
			assert_int_equal(w->user[i].events, 3);
			assert_int_equal(w->user[i].event[1].event, CM_EVENT_DISCONNECTED);
			assert_int_equal(w->user[i].event[1].status, 0);
			assert_int_equal(w->user[i].event[2].event, CM_EVENT_TIMEWAIT_EXIT);
		}
		world_end(w);
	}
}

static void nobody_answers(void **state)
{
	struct world *w = *state;
	uint64_t begin = w->now;

	w->lost = UINT64_MAX;
	world_connect(w);
	world_run(w, begin + 16 * cm_time(CM_RESPONSE_TIMEOUT) - 1);
	world_expect_none(w, ACTIVE);
	/* quick at first, patient later */
	assert_in_range(w->sent, 16, 24);
	world_run(w, begin + 16 * cm_time(CM_RESPONSE_TIMEOUT));
	assert_int_equal(world_expect(w, ACTIVE, CM_EVENT_UNREACHABLE)->status, -ETIMEDOUT);
	/* the same id may try again */
	w->lost = 0;
	assert_int_equal(connection_request(w->user[ACTIVE].c, &(struct cm_mad){.qpn = 1}, w->now), 0);
	world_deliver(w);
	world_expect(w, ACTIVE, CM_EVENT_REPLIED);
	world_end(w);
}

/* Each row: what is asked for, what has been found out, and what is told. */
static void nobody_is_there(void **state)
{
	static const struct {
		int (*ask)(struct connection *c, struct cm_mad *mad, uint64_t now);
		int err;
		enum cm_event tells;
		int status;
	} row[] = {
		{connection_request, -ECONNREFUSED, CM_EVENT_REJECTED, CM_REASON_INVALID_SERVICE},
		{connection_request, -EHOSTUNREACH, CM_EVENT_UNREACHABLE, -EHOSTUNREACH},
		{connection_lookup, -ECONNREFUSED, CM_EVENT_FOUND, CM_SIDR_UNSUPPORTED},
		{connection_lookup, -EHOSTUNREACH, CM_EVENT_UNREACHABLE, -EHOSTUNREACH},
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct world *w = world_renew(state);
		struct connection *c;
		uint32_t id;

		w->lost = UINT64_MAX;
		world_open(w);
		c = w->user[ACTIVE].c;
		assert_int_equal(row[i].ask(c,
					    &(struct cm_mad){.service = SERVICE,
							     .max_retries = 3,
							     .remote_timeout = CM_RESPONSE_TIMEOUT},
					    w->now),
				 0);
		assert_int_equal(w->unanswered, 0); /* not before an answer could have come */
		world_run(w, w->now + SEC);
		assert_in_range(w->unanswered, 3, 6);
		id = c->id;
		machine_absent(&w->machine[ACTIVE], id + 1, row[i].err, w->now); /* somebody else's */
		world_expect_none(w, ACTIVE);
		machine_absent(&w->machine[ACTIVE], id, row[i].err, w->now);
		assert_int_equal(world_expect(w, ACTIVE, row[i].tells)->status, row[i].status);
		machine_absent(&w->machine[ACTIVE], id, row[i].err, w->now); /* once is enough */
		world_expect_none(w, ACTIVE);
		world_end(w);
	}
}

/* A peer that has sent something is there, even if the network says that it is not. */
static void who_has_answered_is_there(void **state)
{
	struct world *w = *state;

	w->answers = false;
	world_connect(w);
	world_deliver(w);
	world_run(w, w->now + SEC); /* repeated, and told to wait */
	machine_absent(&w->machine[ACTIVE], w->user[ACTIVE].c->id, -ECONNREFUSED, w->now);
	world_expect_none(w, ACTIVE);
	assert_int_equal(connection_accept(w->user[PASSIVE].c, &(struct cm_mad){.qpn = 2}, w->now), 0);
	world_deliver(w);
	world_expect(w, ACTIVE, CM_EVENT_REPLIED);
	machine_absent(&w->machine[ACTIVE], w->user[ACTIVE].c->id, -ECONNREFUSED, w->now);
	world_expect_none(w, ACTIVE);
	world_end(w);
}

static void rtu_and_dreq_never_come(void **state)
{
	struct world *w = *state;

	world_connect(w);
	w->lost = UINT64_MAX & ~3ull; /* but REQ and REP arrive */
	world_run(w, w->now + 16 * cm_time(CM_RESPONSE_TIMEOUT));
	world_expect(w, ACTIVE, CM_EVENT_REPLIED);
	assert_int_equal(world_expect(w, PASSIVE, CM_EVENT_UNREACHABLE)->status, -ETIMEDOUT);
	assert_int_equal(connection_disconnect(w->user[ACTIVE].c, &(struct cm_mad){0}, w->now), 0);
	w->lost = UINT64_MAX;
	while (w->user[ACTIVE].events < 2) {
		w->mads = 0;
		w->now += SEC;
		world_expire(w, ACTIVE);
	}
	assert_int_equal(world_expect(w, ACTIVE, CM_EVENT_DISCONNECTED)->status, -ETIMEDOUT);
	world_end(w);
}

static void a_peer_that_has_waited_in_vain_ends_the_connection(void **state)
{
	static const struct {
		enum cm_reason reason;
		bool ends;
	} row[] = {{CM_REASON_TIMEOUT, true}, {CM_REASON_INVALID_ID, true}, {CM_REASON_CONSUMER, false}};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct cm_mad rej = {.message = CM_REJ, .about = CM_ABOUT_OTHER, .reason = row[i].reason};
		uint8_t bytes[CM_MAD_BYTES];
		struct world *w = world_renew(state);

		world_connect(w);
		world_deliver(w);
		world_expect(w, ACTIVE, CM_EVENT_REPLIED);
		rej.local_id = w->user[PASSIVE].c->id;
		rej.remote_id = w->user[ACTIVE].c->id;
		cm_mad_encode(&rej, bytes);
		world_hear(w, ACTIVE, bytes, world_address(ACTIVE));
		if (row[i].ends)
			world_expect(w, ACTIVE, CM_EVENT_DISCONNECTED);
		world_expect_none(w, ACTIVE);
		world_end(w);
	}
}

static void a_slow_application_is_waited_for(void **state)
{
	struct world *w = *state;

	w->answers = false;
	world_connect(w);
	world_run(w, w->now + 300 * SEC);
	world_expect_none(w, ACTIVE);
	assert_int_equal(w->requests, 1);
	assert_int_equal(connection_accept(w->user[PASSIVE].c, &(struct cm_mad){.qpn = 2}, w->now), 0);
	world_run(w, w->now + 300 * SEC);
	world_expect_none(w, PASSIVE);
	world_expect(w, ACTIVE, CM_EVENT_REPLIED);
	assert_int_equal(connection_ready(w->user[ACTIVE].c, &(struct cm_mad){0}, w->now), 0);
	world_run(w, w->now + SEC);
	world_expect(w, PASSIVE, CM_EVENT_ESTABLISHED);
	world_expect_none(w, ACTIVE);
	w->answers = true;
	world_end(w);
}

/* Who waits because he was asked to goes on asking: another process may have taken the place of the one that asked. */
static void who_asked_for_time_may_be_replaced(void **state)
{
	struct world *w = *state;

	w->answers = false;
	world_connect(w);
	world_run(w, w->now + SEC);
	assert_int_equal(w->requests, 1);
	machine_fini(&w->machine[PASSIVE]);
	machine_init(&w->machine[PASSIVE], w->machine[ACTIVE].ops, 9, 9);
	w->user[PASSIVE].c = NULL;
	world_run(w, w->now + 10 * SEC);
	assert_int_equal(w->requests, 2);
	assert_int_equal(connection_accept(w->user[PASSIVE].c, &(struct cm_mad){.qpn = 2}, w->now), 0);
	world_run(w, w->now + SEC);
	world_expect(w, ACTIVE, CM_EVENT_REPLIED);
	world_end(w);
}

static void data_may_come_before_the_rtu(void **state)
{
	struct world *w = *state;

	w->lost = 1 << 2;
	world_connect(w);
	world_deliver(w);
	assert_int_equal(connection_established(w->user[PASSIVE].c), 0);
	world_expect(w, PASSIVE, CM_EVENT_ESTABLISHED);
	assert_int_equal(connection_established(w->user[PASSIVE].c), -EINVAL);
	world_run(w, w->now + DAY);
	assert_int_equal(w->sent, 3);
	world_end(w);
}

static void a_dreq_tells_that_the_rtu_was_lost(void **state)
{
	struct world *w = *state;

	w->lost = 1 << 2;
	world_connect(w);
	world_deliver(w);
	assert_int_equal(connection_disconnect(w->user[ACTIVE].c, &(struct cm_mad){0}, w->now), 0);
	world_deliver(w);
	world_expect(w, PASSIVE, CM_EVENT_ESTABLISHED);
	world_expect(w, PASSIVE, CM_EVENT_DISCONNECTED);
	world_end(w);
}

static void dreqs_cross(void **state)
{
	struct world *w = *state;

	world_connect(w);
	world_deliver(w);
	for (int i = 0; i < MACHINES; i++)
		assert_int_equal(connection_disconnect(w->user[i].c, &(struct cm_mad){0}, w->now), 0);
	world_deliver(w);
	world_expect(w, ACTIVE, CM_EVENT_REPLIED);
	world_expect(w, PASSIVE, CM_EVENT_ESTABLISHED);
	world_run(w, w->now + DAY);
	for (int i = 0; i < MACHINES; i++) {
		assert_int_equal(world_expect(w, i, CM_EVENT_DISCONNECTED)->status, 0);
		world_expect(w, i, CM_EVENT_TIMEWAIT_EXIT);
		world_expect_none(w, i);
	}
	world_end(w);
}

static void every_reason_reaches_the_other_end(void **state)
{
	for (int reason = 1; reason <= CM_REASON_VENDOR_OPTION; reason++) {
		for (int by_user = 0; by_user < 2; by_user++) {
			struct world *w = world_renew(state);

			w->answers = false;
			w->twice = true;
			w->lost = reason & 1; /* and even if the REQ had to be sent again */
			w->verdict = by_user ? 0 : reason;
			world_connect(w);
			world_run(w, w->now + SEC / 4);
			if (by_user) {
				struct cm_mad rej = {.reason = reason, .info_length = 3, .info = {7, 8, 9}};

				memset(rej.private_data, 0xd4, sizeof(rej.private_data));
				assert_int_equal(connection_reject(w->user[PASSIVE].c, &rej, w->now), 0);
				w->lost = 1ull << (w->sent - 1);
				w->mads = 0;
			}
			world_run(w, w->now + 10 * SEC);
			assert_int_equal(world_expect(w, ACTIVE, CM_EVENT_REJECTED)->status, reason);
			if (by_user) {
				const struct cm_mad *mad = &w->user[ACTIVE].event[0].mad;

				all_bytes(mad, 0xd4);
				assert_int_equal(mad->info_length, 3);
				assert_int_equal(mad->info[2], 9);
			}
			world_expect_none(w, PASSIVE);
			world_end(w);
		}
	}
}

static void the_active_side_rejects_a_rep(void **state)
{
	struct world *w = *state;

	w->answers = false;
	world_connect(w);
	world_deliver(w);
	assert_int_equal(connection_accept(w->user[PASSIVE].c, &(struct cm_mad){.qpn = 2}, w->now), 0);
	world_deliver(w);
	w->lost = 1ull << w->sent;
	assert_int_equal(connection_reject(w->user[ACTIVE].c, &(struct cm_mad){.reason = 28}, w->now), 0);
	world_run(w, w->now + 10 * SEC);
	assert_int_equal(world_expect(w, PASSIVE, CM_EVENT_REJECTED)->status, 28);
	world_end(w);
}

static void a_full_backlog_is_asked_again(void **state)
{
	struct world *w = *state;

	w->verdict = -1;
	world_connect(w);
	world_run(w, w->now + SEC);
	world_expect_none(w, ACTIVE);
	assert_int_equal(w->machine[PASSIVE].alive, 0);
	w->verdict = 0;
	world_run(w, w->now + 10 * SEC);
	world_expect(w, ACTIVE, CM_EVENT_REPLIED);
	world_end(w);
}

static void a_listener_may_come_a_little_late(void **state)
{
	static const struct {
		uint64_t listens; /* after that time */
		bool streams;
		enum cm_event tells;
		int status;
	} row[] = {
		{CM_PATIENCE / 4, true, CM_EVENT_REPLIED, 0},
		{CM_PATIENCE - 1, true, CM_EVENT_REPLIED, 0},
		{2 * CM_PATIENCE, true, CM_EVENT_REJECTED, CM_REASON_INVALID_SERVICE},
		{2 * CM_PATIENCE, false, CM_EVENT_FOUND, CM_SIDR_UNSUPPORTED},
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct world *w = world_renew(state);

		w->verdict = -ENOENT;
		if (row[i].streams) {
			world_connect(w);
		} else {
			world_open(w);
			assert_int_equal(connection_lookup(w->user[ACTIVE].c, &(struct cm_mad){0}, w->now), 0);
		}
		world_run(w, w->now + row[i].listens);
		w->verdict = 0;
		world_run(w, w->now + 2 * CM_PATIENCE);
		assert_int_equal(world_expect(w, ACTIVE, row[i].tells)->status, row[i].status);
		world_end(w);
	}
}

/* A user goes, in each state: the other end is told, and nothing is left. */
static void a_user_may_go_at_any_time(void **state)
{
	static const struct {
		enum connection_state active, passive; /* when it goes */
		int who;
		enum cm_event tells;
		int status;
	} row[] = {
		{CM_REQ_SENT, CM_REQ_RECEIVED, ACTIVE, CM_EVENT_REJECTED, CM_REASON_TIMEOUT},
		{CM_REQ_SENT, CM_REQ_RECEIVED, PASSIVE, CM_EVENT_REJECTED, CM_REASON_CONSUMER},
		{CM_REQ_SENT, CM_REP_SENT, ACTIVE, CM_EVENT_REJECTED, CM_REASON_TIMEOUT},
		{CM_REP_RECEIVED, CM_REP_SENT, ACTIVE, CM_EVENT_REJECTED, CM_REASON_CONSUMER},
		{CM_REP_RECEIVED, CM_REP_SENT, PASSIVE, CM_EVENT_DISCONNECTED, 0},
		{CM_ESTABLISHED, CM_REP_SENT, ACTIVE, CM_EVENT_DISCONNECTED, 0},
		{CM_ESTABLISHED, CM_REP_SENT, PASSIVE, CM_EVENT_DISCONNECTED, 0},
		{CM_ESTABLISHED, CM_ESTABLISHED, ACTIVE, CM_EVENT_DISCONNECTED, 0},
		{CM_ESTABLISHED, CM_ESTABLISHED, PASSIVE, CM_EVENT_DISCONNECTED, 0},
		{CM_DREQ_SENT, CM_DREQ_RECEIVED, ACTIVE, CM_EVENT_DISCONNECTED, 0},
		{CM_DREQ_SENT, CM_DREQ_RECEIVED, PASSIVE, CM_EVENT_DISCONNECTED, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		for (uint32_t lost = 0; lost < 8; lost++) {
			struct connection *active, *passive;
			struct world *w = world_renew(state);
			int other = !row[i].who;

			w->answers = false;
			world_acquaint(w);
			world_connect(w);
			world_deliver(w);
			active = w->user[ACTIVE].c;
			passive = w->user[PASSIVE].c;
			if (row[i].passive != CM_REQ_RECEIVED)
				connection_accept(passive, &(struct cm_mad){.qpn = 2}, w->now);
			if (row[i].active != CM_REQ_SENT)
				world_deliver(w);
			w->mads = 0;
			if (row[i].active >= CM_ESTABLISHED)
				connection_ready(active, &(struct cm_mad){0}, w->now);
			if (row[i].passive >= CM_ESTABLISHED)
				world_deliver(w);
			w->mads = 0;
			if (row[i].active == CM_DREQ_SENT)
				connection_disconnect(active, &(struct cm_mad){0}, w->now);
			world_deliver(w);
			assert_int_equal(active->state, row[i].active);
			assert_int_equal(passive->state, row[i].passive);

			w->lost = (uint64_t)lost << w->sent;
			/* a REJ for a time-out is sent once, as is a REJ that answers a REP */
			if (row[i].active == CM_REQ_SENT && row[i].who == ACTIVE)
				w->lost = 0;
			connection_release(w->user[row[i].who].c, w->now);
			w->user[row[i].who].c = NULL;
			w->answers = row[i].active != CM_REQ_SENT;
			world_run(w, w->now + 200 * SEC);
			for (uint32_t e = 0;; e++) {
				if (e == w->user[other].events)
					fail_msg("row %zu, lost %u: told nothing", i, lost);
				if (w->user[other].event[e].event == row[i].tells) {
					assert_int_equal(w->user[other].event[e].status, row[i].status);
					break;
				}
			}
			world_end(w);
		}
	}
}

static void a_restarted_peer_makes_the_old_connection_end(void **state)
{
	struct world *w = *state;
	struct cm_mad req = {.qpn = 0x111111};
	struct connection *again;

	world_connect(w);
	world_deliver(w);
	world_expect(w, ACTIVE, CM_EVENT_REPLIED);
	world_expect(w, PASSIVE, CM_EVENT_ESTABLISHED);
	/* the same QPN, another id: it has forgotten the connection */
	machine_fini(&w->machine[ACTIVE]);
	machine_init(&w->machine[ACTIVE], w->machine[PASSIVE].ops, 9, 9);
	again = connection_open(&w->machine[ACTIVE], world_address(ACTIVE), &w->user[ACTIVE]);
	assert_int_equal(connection_request(again, &req, w->now), 0);
	w->user[ACTIVE].c = again;
	world_deliver(w);
	assert_int_equal(world_expect(w, ACTIVE, CM_EVENT_REJECTED)->status, CM_REASON_STALE);
	assert_int_equal(world_expect(w, PASSIVE, CM_EVENT_DISCONNECTED)->status, 0);
	world_end(w);
}

static int compare_ids(const void *one, const void *other)
{
	uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;

	return (a > b) - (a < b);
}

/* The REQ that came last comes again: once more as it was, then as another that has the same number. */
static void repeat_and_renew(struct world *w)
{
	uint32_t before = w->requests;
	struct cm_mad req = w->request;
	uint8_t bytes[CM_MAD_BYTES];

	cm_mad_encode(&req, bytes);
	world_hear(w, PASSIVE, bytes, world_address(PASSIVE));
	assert_int_equal(w->requests, before);
	req.transaction += 1ull << 32;
	cm_mad_encode(&req, bytes);
	world_hear(w, PASSIVE, bytes, world_address(PASSIVE));
	assert_int_equal(w->requests, before + 1);
	world_hear(w, PASSIVE, bytes, world_address(PASSIVE));
	assert_int_equal(w->requests, before + 1);
}

static void a_number_that_comes_again_is_of_another_request(void **state)
{
	struct world *w = *state;

	w->answers = false;
	world_connect(w);
	world_deliver(w);
	assert_int_equal(connection_reject(w->user[PASSIVE].c, &(struct cm_mad){.reason = CM_REASON_CONSUMER}, w->now),
			 0);
	world_deliver(w);
	assert_int_equal(world_expect(w, ACTIVE, CM_EVENT_REJECTED)->status, CM_REASON_CONSUMER);
	assert_int_equal(w->user[PASSIVE].c->state, CM_REJ_SENT);
	connection_release(w->user[PASSIVE].c, w->now);
	w->user[PASSIVE].c = NULL;
	repeat_and_renew(w);
	world_end(w);

	w = world_renew(state);
	world_connect(w);
	world_deliver(w);
	world_expect(w, ACTIVE, CM_EVENT_REPLIED);
	world_expect(w, PASSIVE, CM_EVENT_ESTABLISHED);
	assert_int_equal(connection_disconnect(w->user[ACTIVE].c, &(struct cm_mad){0}, w->now), 0);
	world_deliver(w);
	world_expect(w, PASSIVE, CM_EVENT_DISCONNECTED);
	assert_int_equal(w->user[PASSIVE].c->state, CM_TIMEWAIT);
	connection_release(w->user[PASSIVE].c, w->now);
	w->user[PASSIVE].c = NULL;
	w->answers = false;
	repeat_and_renew(w);
	world_end(w);
}

/* As many as are made one after the other while a peer remembers one that it has refused. */
static void numbers_do_not_come_again_soon(void **state)
{
	enum { MANY = 8192, CONNECTIONS = 2 };
	struct world *w = *state;
	uint32_t *id = calloc(MANY, sizeof(*id));

	assert_non_null(id);
	for (uint32_t i = 0; i < MANY; i += CONNECTIONS) {
		struct connection *c[CONNECTIONS];

		for (int n = 0; n < CONNECTIONS; n++) {
			c[n] = connection_open(&w->machine[ACTIVE], world_address(ACTIVE), NULL);
			assert_non_null(c[n]);
			id[i + n] = c[n]->id;
		}
		for (int n = 0; n < CONNECTIONS; n++)
			connection_release(c[n], w->now);
	}
	qsort(id, MANY, sizeof(*id), compare_ids);
	for (uint32_t i = 1; i < MANY; i++)
		assert_int_not_equal(id[i - 1], id[i]);
	free(id);
}

static void a_qpn_in_timewait_may_be_used_again(void **state)
{
	struct world *w = *state;

	for (int round = 0; round < 3; round++) {
		world_connect(w);
		world_deliver(w);
		world_expect(w, ACTIVE, CM_EVENT_REPLIED);
		world_expect(w, PASSIVE, CM_EVENT_ESTABLISHED);
		connection_disconnect(w->user[ACTIVE].c, &(struct cm_mad){0}, w->now);
		world_deliver(w);
		world_expect(w, ACTIVE, CM_EVENT_DISCONNECTED);
		world_expect(w, PASSIVE, CM_EVENT_DISCONNECTED);
		connection_release(w->user[ACTIVE].c, w->now);
		connection_release(w->user[PASSIVE].c, w->now);
		w->user[ACTIVE].c = w->user[PASSIVE].c = NULL;
	}
	assert_int_equal(w->machine[PASSIVE].alive, 3);
	world_end(w);
}

/* Another thread may know the machine before it is ready, and wait. */
NO_LOCK_ANALYSIS static void a_new_machine_keeps_its_lock(void **state)
{
	struct machine m;

	memset(&m, 0, sizeof(m));
	lock_set_rank(&m.lock, RANK_CM);
	lock_take(&m.lock);
	assert_int_equal(machine_init(&m, ((struct world *)*state)->machine[PASSIVE].ops, 3, 0), 0);
	assert_false(lock_try(&m.lock));
	lock_drop(&m.lock);
	assert_true(lock_try(&m.lock));
	lock_drop(&m.lock);
	machine_fini(&m);
}

/* One message may be lost, and nobody is left to send it again. */
NO_LOCK_ANALYSIS static void who_ends_says_goodbye_twice(void **state)
{
	for (int who = 0; who < MACHINES; who++) {
		struct world *w = world_renew(state);

		world_connect(w);
		world_deliver(w);
		connection_disconnect(w->user[who].c, &(struct cm_mad){0}, w->now);
		w->mads = 0;
		w->answers = false;
		lock_take(&w->machine[who].lock);
		machine_farewell(&w->machine[who]);
		machine_farewell(&w->machine[!who]); /* that one has nothing to say */
		lock_drop(&w->machine[who].lock);
		assert_int_equal(w->mads, 1);
		world_deliver(w);
		assert_true(world_has(w, !who, CM_EVENT_DISCONNECTED));
		w->answers = true;
		world_end(w);
	}
}

static void alternate_paths_are_declined(void **state)
{
	struct world *w = *state;
	struct cm_mad lap = {.message = CM_LAP}, apr;
	uint8_t bytes[CM_MAD_BYTES];

	world_connect(w);
	world_deliver(w);
	for (int known = 0; known < 2; known++) {
		lap.local_id = known ? w->user[ACTIVE].c->id : 1;
		lap.remote_id = known ? w->user[PASSIVE].c->id : 1;
		cm_mad_encode(&lap, bytes);
		world_hear(w, PASSIVE, bytes, world_address(PASSIVE));
		assert_int_equal(w->mads, 1);
		assert_int_equal(cm_mad_parse(&apr, w->mad[0].bytes), 0);
		assert_int_equal(apr.message, CM_APR);
		assert_int_equal(apr.remote_id, lap.local_id);
		assert_int_equal(apr.answer, known ? CM_PATH_UNSUPPORTED : CM_PATH_INVALID_ID);
		w->mads = 0;
	}
	world_end(w);
}

static void a_service_is_looked_up(void **state)
{
	struct world *w = *state;
	struct cm_mad rep = {.qpn = 0x333333, .qkey = 0x1234567};

	memset(rep.private_data, 0xe5, sizeof(rep.private_data));
	for (int status = CM_SIDR_VALID; status <= CM_SIDR_NO_QP; status++) {
		const struct world_event *e;

		w->twice = status & 1;
		rep.answer = status;
		world_open(w);
		assert_int_equal(connection_lookup(w->user[ACTIVE].c, &(struct cm_mad){.service = SERVICE}, w->now), 0);
		w->lost = 1ull << w->sent;
		w->mads = 0;
		world_run(w, w->now + SEC);
		assert_int_equal(w->requests, status + 1);
		assert_int_equal(connection_answer(w->user[PASSIVE].c, &rep, w->now), 0);
		w->mads = 0; /* the first answer is lost */
		world_run(w, w->now + 10 * SEC);
		e = world_expect(w, ACTIVE, CM_EVENT_FOUND);
		assert_int_equal(e->status, status);
		assert_int_equal(e->mad.qpn, 0x333333);
		assert_int_equal(e->mad.qkey, 0x1234567);
		all_bytes(&e->mad, 0xe5);
		world_expect_none(w, ACTIVE);
		world_end(w);
	}
}

static void a_lookup_of_nothing_is_told(void **state)
{
	struct world *w = *state;

	w->verdict = CM_SIDR_UNSUPPORTED;
	world_open(w);
	assert_int_equal(connection_lookup(w->user[ACTIVE].c, &(struct cm_mad){.service = SERVICE}, w->now), 0);
	world_deliver(w);
	assert_int_equal(world_expect(w, ACTIVE, CM_EVENT_FOUND)->status, CM_SIDR_UNSUPPORTED);
	world_end(w);
}

/* What a state does not list is refused to the user, and dropped when it comes from the network. */
static void nothing_happens_out_of_turn(void **state)
{
	static int (*const call[])(struct connection *, struct cm_mad *, uint64_t) = {
		connection_request, connection_accept,	   connection_reject, connection_ready,
		connection_lookup,  connection_disconnect, connection_answer};
	static const uint8_t allowed[CM_STATES] = {
		[CM_IDLE] = 1 << 0 | 1 << 4, [CM_REQ_RECEIVED] = 1 << 1 | 1 << 2, [CM_REP_RECEIVED] = 1 << 2 | 1 << 3,
		[CM_ESTABLISHED] = 1 << 5,   [CM_DREQ_RECEIVED] = 1 << 5,	  [CM_SIDR_REQ_RECEIVED] = 1 << 6,
	};
	struct world *w = *state;

	for (enum connection_state s = CM_IDLE; s < CM_STATES; s++) {
		for (size_t i = 0; i < ARRAY_SIZE(call); i++) {
			struct connection *c =
				connection_open(&w->machine[ACTIVE], world_address(ACTIVE), &w->user[ACTIVE]);

			c->state = s;
			assert_int_equal(call[i](c, &(struct cm_mad){0}, w->now), allowed[s] >> i & 1 ? 0 : -EINVAL);
			if (!(allowed[s] >> i & 1))
				assert_int_equal(c->state, s);
			c->state = CM_IDLE;
			connection_release(c, w->now);
		}
	}
	assert_int_equal(w->machine[ACTIVE].alive, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(both_connect_and_both_part),
		TEST(lost_messages_are_made_up_for),
		TEST(nobody_answers),
		TEST(nobody_is_there),
		TEST(who_has_answered_is_there),
		TEST(rtu_and_dreq_never_come),
		TEST(a_peer_that_has_waited_in_vain_ends_the_connection),
		TEST(a_slow_application_is_waited_for),
		TEST(who_asked_for_time_may_be_replaced),
		TEST(data_may_come_before_the_rtu),
		TEST(a_dreq_tells_that_the_rtu_was_lost),
		TEST(dreqs_cross),
		TEST(every_reason_reaches_the_other_end),
		TEST(the_active_side_rejects_a_rep),
		TEST(a_full_backlog_is_asked_again),
		TEST(a_listener_may_come_a_little_late),
		TEST(a_user_may_go_at_any_time),
		TEST(a_restarted_peer_makes_the_old_connection_end),
		TEST(a_number_that_comes_again_is_of_another_request),
		TEST(numbers_do_not_come_again_soon),
		TEST(a_qpn_in_timewait_may_be_used_again),
		TEST(a_new_machine_keeps_its_lock),
		TEST(who_ends_says_goodbye_twice),
		TEST(alternate_paths_are_declined),
		TEST(a_service_is_looked_up),
		TEST(a_lookup_of_nothing_is_told),
		TEST(nothing_happens_out_of_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
