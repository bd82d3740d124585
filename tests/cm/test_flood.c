/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests whose source addresses are forged, by the ten thousand: what they cost is bounded, and who is there connects
 * all the same. */
#include <stdlib.h>
#include <string.h>

#include "world.h"

enum { TAKEN = 32768 };

static struct {
	struct machine server, client;
	struct connection *taken[TAKEN]; /* by the server's user, who accepts what it is asked */
	uint32_t taken_count, accepted;
	bool accepts;
	uint32_t sent; /* by the server, to addresses that are forged */
	uint32_t rejected;
	uint64_t now;
	bool replied, established; /* the client, and the server about it */
	struct connection *asks;
} w;

static const struct cm_address server_address = {.local.raw = {[10] = 0xff, 0xff, 192, 0, 2, 1},
						 .remote.raw = {[10] = 0xff, 0xff, 192, 0, 2, 2}};
static const struct cm_address client_address = {.local.raw = {[10] = 0xff, 0xff, 192, 0, 2, 2},
						 .remote.raw = {[10] = 0xff, 0xff, 192, 0, 2, 1}};

static void hear(struct machine *m, const uint8_t bytes[CM_MAD_BYTES], const struct cm_address *address)
{
	lock_take(&m->lock);
	machine_receive(m, bytes, address, w.now);
	lock_drop(&m->lock);
}

static void expire(struct machine *m)
{
	lock_take(&m->lock);
	machine_expire(m, w.now);
	lock_drop(&m->lock);
}

/* Between those who are there, at once. The server's user accepts when it has been asked, in its own time: see
 * accept_all(). */
static void send(struct machine *m, const struct cm_address *to, const uint8_t mad[CM_MAD_BYTES])
{
	static struct {
		struct machine *to;
		const struct cm_address *address;
		uint8_t bytes[CM_MAD_BYTES];
	} queue[64];
	static uint32_t first, last;
	static bool delivers;

	if (m == &w.server && memcmp(&to->remote, &server_address.remote, sizeof(to->remote))) {
		w.sent++;
		return;
	}
	queue[last % 64].to = m == &w.server ? &w.client : &w.server;
	queue[last % 64].address = m == &w.server ? &client_address : &server_address;
	memcpy(queue[last++ % 64].bytes, mad, CM_MAD_BYTES);
	if (delivers)
		return;
	delivers = true;
	for (; first != last; first++)
		machine_receive(queue[first % 64].to, queue[first % 64].bytes, queue[first % 64].address, w.now);
	delivers = false;
}

static void event(void *user, enum cm_event event, int status, const struct cm_mad *mad)
{
	struct connection *c = *(struct connection **)user;

	if (event == CM_EVENT_REJECTED)
		w.rejected++;
	if (event == CM_EVENT_REPLIED)
		w.replied = true;
	if (event == CM_EVENT_ESTABLISHED && !memcmp(&c->address, &server_address, sizeof(c->address)))
		w.established = true;
}

static int request(struct connection *c, const struct cm_mad *mad, void **user)
{
	assert_in_range(w.taken_count, 0, TAKEN - 1);
	w.taken[w.taken_count] = c;
	*user = &w.taken[w.taken_count++];
	return 0;
}

static void deadline(struct machine *m, uint64_t when)
{
}

static const struct machine_ops ops = {.send = send, .event = event, .request = request, .deadline = deadline};

static int setup(void **state)
{
	memset(&w, 0, sizeof(w));
	w.now = 1000 * SEC;
	w.accepts = true;
	return machine_init(&w.server, &ops, 1, 11) || machine_init(&w.client, &ops, 2, 22);
}

static int teardown(void **state)
{
	machine_fini(&w.server);
	machine_fini(&w.client);
	return 0;
}

static void accept_all(void)
{
	for (; w.accepts && w.accepted < w.taken_count; w.accepted++)
		connection_accept(w.taken[w.accepted], &(struct cm_mad){.qpn = 0x10000 + w.accepted}, w.now);
}

static void pass(uint64_t time)
{
	for (uint64_t until = w.now + time; w.now < until; w.now += 10 * MSEC) {
		expire(&w.server);
		expire(&w.client);
		accept_all();
		if (w.replied && w.asks->state == CM_REP_RECEIVED)
			connection_ready(w.asks, &(struct cm_mad){0}, w.now);
	}
}

static struct cm_address forged(uint32_t host)
{
	struct cm_address a = server_address;

	a.remote.raw[12] = 10;
	a.remote.raw[13] = (uint8_t)(host >> 16);
	a.remote.raw[14] = (uint8_t)(host >> 8);
	a.remote.raw[15] = (uint8_t)host;
	return a;
}

static void request_from(const struct cm_address *a, uint32_t id)
{
	struct cm_mad req = {.message = CM_REQ,
			     .transaction = (uint64_t)id << 32,
			     .service = SERVICE,
			     .local_id = id,
			     .qpn = id & 0xffffff,
			     .local_timeout = 31,
			     .max_retries = 15};
	uint8_t bytes[CM_MAD_BYTES];

	cm_mad_encode(&req, bytes);
	hear(&w.server, bytes, a);
	accept_all();
}

static void flood(uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++) {
		struct cm_address a = forged(i);

		request_from(&a, 1 + i);
	}
}

static void prove(const struct cm_address *a)
{
	sources_prove(&w.server.sources, &a->remote, w.now);
}

static void one_request_gets_three_answers_at_most(void **state)
{
	flood(0, 1);
	pass(300 * SEC);
	assert_int_equal(w.taken_count, 1);
	assert_in_range(w.sent, 1, 3);
	flood(0, 1); /* one that comes again allows for as many more */
	pass(300 * SEC);
	assert_in_range(w.sent, 2, 6);
}

static void the_peer_does_not_choose_how_long_it_is_waited_for(void **state)
{
	flood(0, 1);
	assert_int_equal(w.taken[0]->state, CM_REP_SENT);
	pass(75 * SEC);
	assert_int_not_equal(w.taken[0]->state, CM_REP_SENT);
}

static void client_connects(void)
{
	struct cm_mad req = {.service = SERVICE,
			     .qpn = 0x111111,
			     .remote_timeout = CM_RESPONSE_TIMEOUT,
			     .local_timeout = CM_RESPONSE_TIMEOUT,
			     .max_retries = CM_RETRIES};

	w.asks = connection_open(&w.client, &client_address, &w.asks);
	assert_non_null(w.asks);
	assert_int_equal(connection_request(w.asks, &req, w.now), 0);
}

static void who_is_there_connects_while_a_flood_runs(void **state)
{
	uint32_t host = 0;

	flood(host, 20000);
	host = 20000;
	client_connects();
	for (int i = 0; i < 50 && !w.established; i++) {
		flood(host, host + 500);
		host += 500;
		pass(10 * MSEC);
	}
	assert_true(w.replied && w.established);
	assert_in_range(w.taken_count, 2, 256); /* for each the program makes a QP */
	assert_in_range(w.server.alive, 2, 256);
	assert_in_range(w.sent, 1, 3 * host);
}

static void one_source_gets_its_share_and_no_more(void **state)
{
	struct cm_address a = forged(1);

	w.accepts = false;
	prove(&a);
	for (uint32_t i = 1; i < 10000; i++)
		request_from(&a, i);
	assert_in_range(w.taken_count, 1024, 2048);
	/* and others theirs */
	client_connects();
	w.accepted = w.taken_count - 1;
	w.accepts = true;
	pass(SEC);
	assert_true(w.established);
}

static void the_oldest_go_first(void **state)
{
	w.accepts = false;
	for (uint32_t i = 0; i < 16384; i++) {
		struct cm_address a = forged(i);

		prove(&a);
		request_from(&a, 1 + i);
	}
	assert_int_equal(w.taken_count, 16384);
	assert_in_range(w.server.alive, 8192, 16384);
	assert_in_range(w.rejected, 1, 8192);
	assert_int_equal(w.taken[0]->state, CM_IDLE);
	assert_int_equal(w.taken[16383]->state, CM_REQ_RECEIVED);
}

/* Who only guesses what we have asked proves nothing. */
static void a_proof_has_to_be_right(void **state)
{
	struct cm_address a = forged(77777);
	uint32_t before;

	flood(0, 1000);
	before = w.taken_count;
	request_from(&a, 5);
	for (uint32_t i = 0; i < 1000; i++) {
		struct cm_mad drep = {.message = CM_DREP, .transaction = i, .local_id = 5, .remote_id = 1 << 21 | i};
		uint8_t bytes[CM_MAD_BYTES];

		cm_mad_encode(&drep, bytes);
		hear(&w.server, bytes, &a);
	}
	request_from(&a, 5);
	assert_int_equal(w.taken_count, before);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_request_gets_three_answers_at_most),
		TEST(the_peer_does_not_choose_how_long_it_is_waited_for),
		TEST(who_is_there_connects_while_a_flood_runs),
		TEST(one_source_gets_its_share_and_no_more),
		TEST(the_oldest_go_first),
		TEST(a_proof_has_to_be_right),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
