/* SPDX-License-Identifier: BSD-2-Clause */
/* What two kernels said to each other in the captures, with us in the place of either: we say the same bytes,
 * but for the ids and transactions that each side chooses. */
#include <stdlib.h>
#include <string.h>

#include "wire/capture.c" /* the reader belongs to tests/wire, and is made for its SOURCE_DIR */
#include "world.h"

#define CAPTURES 64
#define MADS	 16

static struct exchange {
	char file[256];
	struct cm_address address[MACHINES]; /* of who sends the first message, and of the other */
	struct {
		int from;
		struct cm_mad mad;
	} said[MADS];
	uint32_t count;
	bool has_begun[MACHINES]; /* a request of that end has been seen, and with which PSN */
	uint32_t psn[MACHINES];
} exchanges[CAPTURES];
static uint32_t exchange_count;

static struct {
	struct machine machine;
	struct connection *c;
	int verdict;
	struct cm_mad sent;
	uint32_t sents;
	uint64_t now;
} us;

static int sender(const struct exchange *e, const struct captured *c)
{
	return memcmp(c->saddr, &e->address[ACTIVE].local, 16) ? PASSIVE : ACTIVE;
}

static void gather_data(struct exchange *e, const struct captured *c, const struct packet *p)
{
	uint8_t operation = p->opcode & 0x1f;
	bool is_response = operation >= OP_READ_RESPONSE_FIRST && operation <= OP_ATOMIC_ACKNOWLEDGE;
	int from = sender(e, c);

	if (!is_response && !e->has_begun[from]) {
		e->has_begun[from] = true;
		e->psn[from] = p->psn.v;
	}
}

static void gather(const struct captured *c)
{
	struct exchange *e = exchange_count ? &exchanges[exchange_count - 1] : NULL;
	struct packet p;

	if (packet_parse(&p, c->bytes, c->length - 4))
		return;
	if (p.dest_qpn != 1) {
		if (e && !strcmp(e->file, c->file))
			gather_data(e, c, &p);
		return;
	}
	if (!e || strcmp(e->file, c->file)) {
		e = &exchanges[exchange_count++];
		assert_true(exchange_count <= CAPTURES);
		snprintf(e->file, sizeof(e->file), "%s", c->file);
		memcpy(&e->address[ACTIVE].local, c->saddr, 16);
		memcpy(&e->address[ACTIVE].remote, c->daddr, 16);
		memcpy(&e->address[PASSIVE].local, c->daddr, 16);
		memcpy(&e->address[PASSIVE].remote, c->saddr, 16);
	}
	assert_true(e->count < MADS);
	e->said[e->count].from = sender(e, c);
	assert_int_equal(cm_mad_parse(&e->said[e->count++].mad, p.payload), 0);
}

static void send(struct machine *m, const struct cm_address *to, const uint8_t mad[CM_MAD_BYTES])
{
	assert_int_equal(cm_mad_parse(&us.sent, mad), 0);
	us.sents++;
}

static void event(void *user, enum cm_event event, int status, const struct cm_mad *mad)
{
}

static int request(struct connection *c, const struct cm_mad *mad, void **user)
{
	*user = &us;
	us.c = us.verdict ? NULL : c;
	return us.verdict;
}

static void deadline(struct machine *m, uint64_t when)
{
}

static const struct machine_ops ops = {.send = send, .event = event, .request = request, .deadline = deadline};

static bool is_sidr(const struct cm_mad *m)
{
	return m->message == CM_SIDR_REQ || m->message == CM_SIDR_REP;
}

/* Whether it answers the message that its exchange began with: then it has that one's transaction. */
static bool answers(const struct exchange *e, const struct cm_mad *mad)
{
	return mad->transaction == e->said[0].mad.transaction;
}

/* As the peer would have it, had it talked to us. */
static void hear(const struct exchange *e, const struct cm_mad *theirs, const struct cm_address *address)
{
	struct cm_mad mad = *theirs;
	uint8_t bytes[CM_MAD_BYTES];

	if (us.c && answers(e, theirs))
		mad.transaction = us.c->transaction;
	if (us.c && mad.message == CM_SIDR_REP)
		mad.local_id = us.c->id;
	else if (us.c && !is_sidr(&mad))
		mad.remote_id = us.c->id;
	cm_mad_encode(&mad, bytes);
	lock_take(&us.machine.lock);
	machine_receive(&us.machine, bytes, address, us.now);
	lock_drop(&us.machine.lock);
}

/* What a user does that wants to say that. */
static void say(const struct cm_mad *ours)
{
	static int (*const call[CM_MESSAGES])(struct connection *, struct cm_mad *, uint64_t) = {
		[CM_REQ - CM_FIRST] = connection_request,     [CM_REJ - CM_FIRST] = connection_reject,
		[CM_REP - CM_FIRST] = connection_accept,      [CM_RTU - CM_FIRST] = connection_ready,
		[CM_DREQ - CM_FIRST] = connection_disconnect, [CM_DREP - CM_FIRST] = connection_disconnect,
		[CM_SIDR_REQ - CM_FIRST] = connection_lookup, [CM_SIDR_REP - CM_FIRST] = connection_answer,
	};
	struct cm_mad mad = *ours;

	mad.qpn = ours->message == CM_DREQ ? 0 : mad.qpn;
	if (us.c)
		assert_int_equal(call[mad.message - CM_FIRST](us.c, &mad, us.now), 0);
}

static void compare(const struct exchange *e, const struct cm_mad *theirs)
{
	uint8_t expected[CM_MAD_BYTES], said[CM_MAD_BYTES];

	if (theirs->local_id && theirs->message != CM_SIDR_REP)
		us.sent.local_id = theirs->local_id;
	us.sent.transaction = theirs->transaction;
	cm_mad_encode(theirs, expected);
	cm_mad_encode(&us.sent, said);
	if (memcmp(expected, said, CM_MAD_BYTES))
		fail_msg("%s: our %s is not the kernel's %s", e->file, cm_message_name(us.sent.message),
			 cm_message_name(theirs->message));
}

static void play(const struct exchange *e, int role)
{
	uint32_t sents = 0;

	assert_int_equal(machine_init(&us.machine, &ops, 1, 0), 0);
	us.sents = 0;
	us.c = role == ACTIVE ? connection_open(&us.machine, &e->address[ACTIVE], &us) : NULL;
	for (uint32_t i = 0; i < e->count; i++) {
		const struct cm_mad *mad = &e->said[i].mad;

		if (e->said[i].from != role) {
			us.verdict = e->said[i + 1].mad.message == CM_REJ ? e->said[i + 1].mad.reason : 0;
			hear(e, mad, &e->address[role]);
			continue;
		}
		say(mad);
		assert_int_equal(us.sents, ++sents);
		compare(e, mad);
	}
	assert_int_equal(us.sents, sents);
	if (us.c)
		connection_release(us.c, us.now);
	us.now += 100 * SEC;
	lock_take(&us.machine.lock);
	machine_expire(&us.machine, us.now);
	lock_drop(&us.machine.lock);
	assert_int_equal(us.machine.alive, 0);
	machine_fini(&us.machine);
}

static void we_say_what_the_kernel_says(void **state)
{
	assert_true(captured_everywhere(gather) > 0);
	assert_true(exchange_count >= 10);
	for (uint32_t i = 0; i < exchange_count; i++) {
		play(&exchanges[i], ACTIVE);
		play(&exchanges[i], PASSIVE);
	}
}

static const struct cm_mad *find_said(const struct exchange *e, enum cm_message message)
{
	for (uint32_t i = 0; i < e->count; i++)
		if (e->said[i].mad.message == message)
			return &e->said[i].mad;
	return NULL;
}

/* What a kernel calls its "starting PSN" in a message is the one that the receiver of the message starts with.
 * test_ids.c shows that ours is. */
static void kernels_start_with_what_the_peer_said(void **state)
{
	uint32_t seen = 0;

	for (uint32_t i = 0; i < exchange_count; i++) {
		const struct exchange *e = &exchanges[i];
		const struct cm_mad *req = find_said(e, CM_REQ), *rep = find_said(e, CM_REP);

		if (!req || !rep)
			continue;
		if (e->has_begun[PASSIVE])
			assert_int_equal(e->psn[PASSIVE], req->psn);
		if (e->has_begun[ACTIVE])
			assert_int_equal(e->psn[ACTIVE], rep->psn);
		seen += e->has_begun[PASSIVE] + e->has_begun[ACTIVE];
	}
	assert_true(seen >= 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(we_say_what_the_kernel_says),
		cmocka_unit_test(kernels_start_with_what_the_peer_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
