/* SPDX-License-Identifier: BSD-2-Clause */
/* What a loss costs a queue pair between two uroce: memory for what is in flight, which it gives back. */
#include <string.h>

#include "engine/fixture.h"
#include "object/early.h"
#include "engine/requests.h"
#include "sim/shortage.h"

enum {
	QPS = 100,
	KNOWN = 256, /* bytes: the numbers that stay, as how many packets were lost so far */
	PLACE = 16,  /* bytes for each packet of which something may be known */
	KEPT = 2048, /* bytes for each packet that is kept */
};

static struct packet from_uroce(struct packet p)
{
	p.is_uroce = true;
	return p;
}

static void start(struct fixture *f)
{
	fixture_start_with_uroce(f);
	fixture_post(f, send_of(0, MTU));
	fixture_run(f);
	fixture_give(f, from_uroce(ack(sent_psn(0), ACKED)));
}

/* ---- requests ---- */

/* All but the first of so many packets have arrived. */
static void lose_request(struct fixture *f, uint32_t packets)
{
	uint8_t payload[SACK_PAYLOAD];
	uint32_t length = sack_begin(payload, sent_psn(1), packets);

	for (uint32_t i = 1; i < packets; i++)
		sack_set(payload, i);
	fixture_post(f, send_of(1, packets * MTU));
	fixture_run(f);
	fixture_forget(f);
	fixture_give(f, (struct packet){.opcode = OPCODE_SELECTIVE_ACK,
					.pkey = PKEY_DEFAULT,
					.dest_qpn = f->qp->base.qp_num,
					.psn = sent_psn(1),
					.length = length,
					.payload = payload});
	expect_sent(f, OP_SEND_FIRST, sent_psn(1));
}

static void acknowledge_all(struct fixture *f, uint32_t packets)
{
	fixture_give(f, from_uroce(ack(sent_psn(packets), ACKED)));
	expect_done(f, 0, IBV_WC_SUCCESS);
	expect_done(f, 1, IBV_WC_SUCCESS);
}

/* ---- responses ---- */

static void respond(struct fixture *f, uint32_t first, uint32_t end, uint32_t from)
{
	for (uint32_t n = from; n < end; n++)
		fixture_give(f, from_uroce(response(n == first	   ? OP_READ_RESPONSE_FIRST
						    : n == end - 1 ? OP_READ_RESPONSE_LAST
								   : OP_READ_RESPONSE_MIDDLE,
						    sent_psn(n), MTU)));
}

/* Responses are kept once one has been lost: those of this READ. */
static void lose_response(struct fixture *f, uint32_t packets)
{
	fixture_post(f, read_of(1, 2 * MTU));
	fixture_run(f);
	respond(f, 1, 3, 2);
	fixture_wait(f, MSEC);
	respond(f, 1, 3, 1);
	fixture_post(f, read_of(2, packets * MTU));
	fixture_run(f);
	respond(f, 3, 3 + packets, 4);
}

static void respond_again(struct fixture *f, uint32_t packets)
{
	respond(f, 3, 3 + packets, 3);
	for (uint32_t id = 0; id < 3; id++)
		expect_done(f, id, IBV_WC_SUCCESS);
}

/* ---- the responder ---- */

static void miss_request(struct fixture *f, uint32_t packets)
{
	for (uint32_t i = 0; i < packets; i++)
		fixture_give(f, from_uroce(aimed(f, i ? OP_WRITE_MIDDLE : OP_WRITE_FIRST, due_psn(i + 1), MTU, 0,
						 (packets + 1) * MTU)));
}

/* It is a message of its own; what waits is the next one, but for its end. */
static void fill_gap(struct fixture *f, uint32_t packets)
{
	fixture_give(f, from_uroce(aimed(f, OP_WRITE_ONLY, due_psn(0), MTU, 0, MTU)));
	fixture_give(f, from_uroce(request(OP_WRITE_LAST, due_psn(packets + 1), MTU)));
}

static const struct {
	const char *name;
	void (*lose)(struct fixture *f, uint32_t packets);
	void (*mend)(struct fixture *f, uint32_t packets);
	uint32_t place, kept; /* bytes */
} kinds[] = {
	{"request", lose_request, acknowledge_all, PLACE, 0},
	{"response", lose_response, respond_again, PLACE + sizeof(void *), KEPT},
	{"early request", miss_request, fill_gap, PLACE, KEPT},
};
static const uint32_t flights[] = {4, 32, 128};

static void memory_is_for_what_is_in_flight(void **state)
{
	static struct fixture *f[QPS];

	for (size_t i = 0; i < ARRAY_SIZE(kinds) * ARRAY_SIZE(flights); i++) {
		uint32_t kind = (uint32_t)(i / ARRAY_SIZE(flights)), packets = flights[i % ARRAY_SIZE(flights)];
		uint64_t before, lost, after, most = 2 * KNOWN + psn_places(packets) * kinds[kind].place;

		for (uint32_t k = 0; k < QPS; k++) {
			assert_int_equal(fixture_setup((void **)&f[k]), 0);
			start(f[k]);
		}
		before = shortage.bytes;
		for (uint32_t k = 0; k < QPS; k++)
			kinds[kind].lose(f[k], packets);
		lost = (shortage.bytes - before) / QPS;
		for (uint32_t k = 0; k < QPS; k++)
			kinds[kind].mend(f[k], packets);
		after = (shortage.bytes - before) / QPS;
		print_message("# %s, %u packets: %llu bytes for each queue pair, %llu afterwards\n", kinds[kind].name,
			      packets, (unsigned long long)lost, (unsigned long long)after);
		assert_in_range(lost, packets * sizeof(uint64_t) / 64, most + packets * kinds[kind].kept);
		assert_in_range(after, 0, 2 * KNOWN);
		for (uint32_t k = 0; k < QPS; k++)
			fixture_teardown((void **)&f[k]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_for_what_is_in_flight),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
