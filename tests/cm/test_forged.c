/* SPDX-License-Identifier: BSD-2-Clause */
/* The state machine of connection management: what forged messages, and those of strangers, cannot do. */
#include <string.h>

#include "world.h"

static void strangers_are_not_heard(void **state)
{
	struct world *w = *state;
	struct cm_address stranger = *world_address(PASSIVE);
	struct cm_mad mad = {.message = CM_DREQ};
	uint8_t bytes[CM_MAD_BYTES];

	world_connect(w);
	world_deliver(w);
	world_expect(w, PASSIVE, CM_EVENT_ESTABLISHED);
	mad.local_id = w->user[ACTIVE].c->id;
	mad.remote_id = w->user[PASSIVE].c->id;
	mad.qpn = 0x222222;
	cm_mad_encode(&mad, bytes);
	stranger.remote.raw[15] = 66;
	world_hear(w, PASSIVE, bytes, &stranger);
	mad.qpn++; /* not our QP */
	cm_mad_encode(&mad, bytes);
	world_hear(w, PASSIVE, bytes, world_address(PASSIVE));
	mad.qpn--;
	mad.local_id++; /* not our peer's id */
	cm_mad_encode(&mad, bytes);
	world_hear(w, PASSIVE, bytes, world_address(PASSIVE));
	world_expect_none(w, PASSIVE);
	world_end(w);
}

static void hear(struct world *w, int which, const struct cm_mad *mad)
{
	uint8_t bytes[CM_MAD_BYTES];

	cm_mad_encode(mad, bytes);
	world_hear(w, which, bytes, world_address(which));
}

/* A REQ whose source address is forged says that the peer uses its QPN again; the peer is connected as before. */
static void a_forged_req_does_not_end_a_connection(void **state)
{
	static const uint64_t guid[] = {0x1111, 0x2222}; /* the peer's, another adapter's */

	for (size_t i = 0; i < ARRAY_SIZE(guid); i++) {
		struct world *w = world_renew(state);
		struct cm_mad forged;

		w->guid = guid[0];
		world_connect(w);
		world_deliver(w);
		world_expect(w, ACTIVE, CM_EVENT_REPLIED);
		world_expect(w, PASSIVE, CM_EVENT_ESTABLISHED);
		forged = w->request;
		forged.local_id ^= 0x1234;
		forged.transaction += 7;
		forged.ca_guid = guid[i];
		for (int n = 0; n < 3; n++) {
			hear(w, PASSIVE, &forged);
			world_run(w, w->now + SEC);
		}
		world_expect_none(w, ACTIVE);
		world_expect_none(w, PASSIVE);
		assert_int_equal(w->user[PASSIVE].c->state, CM_ESTABLISHED);
		world_end(w);
	}
}

/* A DREP ends a connection only if it carries the transaction of our question. */
static void a_forged_drep_does_not_end_a_connection(void **state)
{
	struct world *w = *state;
	struct cm_mad drep = {.message = CM_DREP};

	world_connect(w);
	world_deliver(w);
	world_expect(w, PASSIVE, CM_EVENT_ESTABLISHED);
	drep.local_id = w->user[ACTIVE].c->id;
	drep.remote_id = w->user[PASSIVE].c->id;
	hear(w, PASSIVE, &drep); /* nothing has been asked */
	w->request.local_id ^= 0x1234;
	hear(w, PASSIVE, &w->request);
	drep.transaction = 1;
	hear(w, PASSIVE, &drep);
	world_expect_none(w, PASSIVE);
	assert_int_equal(w->user[PASSIVE].c->state, CM_ESTABLISHED);
	world_end(w);
}

/* Each row: a REJ that does not say which connection of its sender it is about. */
static void a_rej_without_an_id_ends_nothing_that_is_known(void **state)
{
	static const enum cm_reason reason[] = {CM_REASON_TIMEOUT, CM_REASON_INVALID_ID, CM_REASON_CONSUMER};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(reason); i++) {
		struct world *w = world_renew(state);
		struct cm_mad rej = {.message = CM_REJ, .about = CM_ABOUT_OTHER, .reason = reason[i / 2]};

		world_connect(w);
		world_deliver(w);
		world_expect(w, ACTIVE, CM_EVENT_REPLIED);
		world_expect(w, PASSIVE, CM_EVENT_ESTABLISHED);
		if (i & 1)
			rej.remote_id = w->user[PASSIVE].c->id;
		else
			rej.local_id = w->user[ACTIVE].c->id;
		hear(w, PASSIVE, &rej);
		world_expect_none(w, PASSIVE);
		assert_int_equal(w->user[PASSIVE].c->state, CM_ESTABLISHED);
		world_end(w);
	}
}

/* Who waits for the answer to a REQ believes only one that names its transaction. */
static void an_answer_names_the_transaction(void **state)
{
	static const enum cm_message message[] = {CM_REJ, CM_REP, CM_MRA};

	for (size_t i = 0; i < ARRAY_SIZE(message); i++) {
		struct world *w = world_renew(state);
		struct cm_mad mad = {.message = message[i], .local_id = 0x1234, .qpn = 3, .reason = CM_REASON_CONSUMER};

		w->lost = 1;
		world_connect(w);
		mad.remote_id = w->user[ACTIVE].c->id;
		mad.transaction = w->user[ACTIVE].c->transaction + (1ull << 32);
		hear(w, ACTIVE, &mad);
		world_expect_none(w, ACTIVE);
		assert_int_equal(w->user[ACTIVE].c->state, CM_REQ_SENT);
		assert_int_equal(w->user[ACTIVE].c->remote_id, 0);
		world_end(w);
	}
}

/* Of ids and transactions that follow each other, none tells the next: each bit is random. */
static void ids_are_not_guessed(void **state)
{
	enum { MANY = 512 };
	struct world *w = *state;
	uint32_t ids = 0, transactions = 0;
	struct connection *c[2];

	for (int i = 0; i < MANY; i++) {
		for (int n = 0; n < 2; n++)
			c[n] = connection_open(&w->machine[ACTIVE], world_address(ACTIVE), NULL);
		assert_int_equal(c[0]->id >> 21, 1);
		ids += __builtin_popcount(c[0]->id ^ c[1]->id);
		transactions += __builtin_popcount((uint32_t)(c[0]->transaction >> 32 ^ c[1]->transaction >> 32));
		for (int n = 0; n < 2; n++)
			connection_release(c[n], w->now);
	}
	assert_in_range(ids, 9.5 * MANY, 11.5 * MANY);	     /* 21 bits: 10.5 of them differ */
	assert_in_range(transactions, 15 * MANY, 17 * MANY); /* 32 */
}

/* Messages of every kind, with ids that hit, in random order, while users come and go: nothing leaks. */
static void a_hostile_peer_leaves_nothing_behind(void **state)
{
	struct world *w = *state;
	uint64_t dice = 88172645463325252ull;

	w->answers = false;
	for (int i = 0; i < 20000; i++) {
		struct user *u = &w->user[PASSIVE];
		struct cm_mad mad = {0};
		uint8_t bytes[CM_MAD_BYTES];

		dice ^= dice << 13, dice ^= dice >> 7, dice ^= dice << 17;
		mad.message = CM_FIRST + dice % CM_MESSAGES;
		mad.local_id = 1 + (dice >> 8) % 4;
		mad.remote_id = u->c ? u->c->id : (uint32_t)(dice >> 16);
		mad.qpn = (dice >> 40) % 4;
		mad.reason = (dice >> 44) % 36;
		mad.about = (dice >> 50) % 3;
		mad.service_timeout = (dice >> 52) % 32;
		mad.local_timeout = (dice >> 57) % 32;
		cm_mad_encode(&mad, bytes);
		world_hear(w, PASSIVE, bytes, world_address(PASSIVE));
		w->mads = 0;
		if (u->c && dice >> 61 == 0)
			connection_accept(u->c, &(struct cm_mad){.qpn = 1 + (dice >> 36) % 3}, w->now);
		else if (u->c && dice >> 61 == 1)
			connection_disconnect(u->c, &(struct cm_mad){0}, w->now);
		else if (u->c && dice >> 58 == 16) {
			connection_release(u->c, w->now);
			u->c = NULL;
		}
		w->now += dice >> 60 == 15 ? SEC : 0;
		world_expire(w, PASSIVE);
		u->events = w->mads = 0;
	}
	world_end(w);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(strangers_are_not_heard),
		TEST(a_forged_req_does_not_end_a_connection),
		TEST(a_forged_drep_does_not_end_a_connection),
		TEST(a_rej_without_an_id_ends_nothing_that_is_known),
		TEST(an_answer_names_the_transaction),
		TEST(ids_are_not_guessed),
		TEST(a_hostile_peer_leaves_nothing_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
