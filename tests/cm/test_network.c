/* SPDX-License-Identifier: BSD-2-Clause */
/* Two machines on a network that loses, doubles, delays and reorders messages, is down for a while, or loses one of the
 * two machines altogether, while their users do whatever they may: thousands of short runs, each a seed. Same seed,
 * same run. When all has come to rest, both ends of a connection agree about it, or each has been told of the end;
 * nothing waits for ever; and when the users have gone, nothing is left.
 *
 *     test_network [--seed N] [--runs N] [--verbose]
 *
 * Prints TAP; when a run fails, the command that shows it again. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cm/calls.h"
#include "cm/connection.h"
#include "cm/machine.h"
#include "sim/dice.h"

enum {
	MACHINES = 2,
	SEATS = 24,
	ON_THE_WAY = 1024,
	RUNS = 10000,
#ifdef __SANITIZE_THREAD__
	RUNS_QUICK = 200, /* there is but one thread */
#else
	RUNS_QUICK = 1000, /* with another sanitizer */
#endif
	PEACE = 400,  /* seconds: all retries have run out by then, an MRA's included */
	IN_A_ROW = 4, /* messages lost, unless the network is down */
};

/* A user's place: one connection at a time. */
struct seat {
	struct connection *c; /* NULL: free */
	int machine;
	uint32_t qpn, peer_qpn;
	bool connected; /* it was told so, or said so */
	bool ended;	/* it was told so */
	bool parted;	/* it said so itself */
	bool alone;	/* its peer has given up, and the REJ that says so was lost: it is sent once */
};

static struct {
	struct machine machine[MACHINES];
	struct seat seat[MACHINES][SEATS];
	uint32_t qpns[MACHINES]; /* given out */
	struct dice dice;
	uint64_t seed, now;

	double loss, doubling;
	uint64_t delay;		     /* up to that */
	uint64_t down_from, down_to; /* the network */
	uint64_t crash;		     /* when machine 1 is lost; NEVER */
	bool harmless;		     /* neither: both ends must agree */
	uint32_t lost_in_a_row[MACHINES];

	struct {
		uint64_t when;
		int to;
		uint8_t bytes[CM_MAD_BYTES];
	} mad[ON_THE_WAY];
	uint32_t mads;
	bool verbose;
} w;

static const struct cm_address address[MACHINES] = {
	{.local.raw = {[10] = 0xff, 0xff, 192, 0, 2, 1}, .remote.raw = {[10] = 0xff, 0xff, 192, 0, 2, 2}},
	{.local.raw = {[10] = 0xff, 0xff, 192, 0, 2, 2}, .remote.raw = {[10] = 0xff, 0xff, 192, 0, 2, 1}},
};

static const char *program;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	va_list args;

	if (!w.verbose)
		return;
	printf("# %4llu.%06u ", w.now / SEC, (unsigned)(w.now % SEC / USEC));
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
}

__attribute__((format(printf, 1, 2), noreturn)) static void failed(const char *format, ...)
{
	va_list args;

	printf("not ok 1 - two machines on a bad network\n# ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n# again: %s --seed %" PRIu64 " --runs 1 --verbose\n", program, w.seed);
	exit(1);
}

/* ---- the network ---- */

static void put(int to, const uint8_t bytes[CM_MAD_BYTES])
{
	if (w.mads == ON_THE_WAY)
		return;
	w.mad[w.mads].when = w.now + dice_below(&w.dice, w.delay);
	w.mad[w.mads].to = to;
	memcpy(w.mad[w.mads++].bytes, bytes, CM_MAD_BYTES);
}

static bool is_lost(int from)
{
	if (w.now >= w.down_from && w.now < w.down_to)
		return true;
	if (w.lost_in_a_row[from] < IN_A_ROW && dice_chance(&w.dice, w.loss)) {
		w.lost_in_a_row[from]++;
		return true;
	}
	w.lost_in_a_row[from] = 0;
	return false;
}

static void leave_alone(int machine, uint32_t id)
{
	for (struct seat *s = w.seat[machine]; s < w.seat[machine] + SEATS; s++)
		s->alone |= s->c && s->c->id == id;
}

static void send(struct machine *m, const struct cm_address *to, const uint8_t bytes[CM_MAD_BYTES])
{
	int from = m == &w.machine[1];
	bool lost = is_lost(from);
	struct cm_mad mad;

	if (cm_mad_parse(&mad, bytes))
		failed("machine %d says what is no message", from);
	say("%d: %s %08x -> %08x%s", from, cm_message_name(mad.message), mad.local_id, mad.remote_id,
	    lost ? " lost" : "");
	if (lost) {
		if (mad.message == CM_REJ)
			leave_alone(!from, mad.remote_id);
		return;
	}
	put(!from, bytes);
	if (dice_chance(&w.dice, w.doubling))
		put(!from, bytes);
}

static uint32_t first_mad(void)
{
	uint32_t first = 0;

	for (uint32_t i = 1; i < w.mads; i++)
		if (w.mad[i].when < w.mad[first].when)
			first = i;
	return first;
}

static void deliver(uint32_t i)
{
	struct machine *m = &w.machine[w.mad[i].to];
	const struct cm_address *a = &address[w.mad[i].to];
	uint8_t bytes[CM_MAD_BYTES];

	memcpy(bytes, w.mad[i].bytes, CM_MAD_BYTES);
	w.mad[i] = w.mad[--w.mads];
	lock_take(&m->lock);
	machine_receive(m, bytes, a, w.now);
	lock_drop(&m->lock);
}

/* ---- what users are told ---- */

static const char *const event_names[] = {"replied",	  "established",   "rejected", "unreachable",
					  "disconnected", "timewait exit", "found"};

static void event(void *user, enum cm_event event, int status, const struct cm_mad *mad)
{
	struct seat *s = user;

	say("%d: QP %x %s (%d)", s->machine, s->qpn, event_names[event], status);
	if (!s->c)
		failed("told of %s, but there is no user", event_names[event]);
	if (s->ended && event != CM_EVENT_TIMEWAIT_EXIT)
		failed("told of %s after the end", event_names[event]);
	switch (event) {
	case CM_EVENT_REPLIED:
		if (s->connected || mad->private_data[0] != (uint8_t)mad->qpn)
			failed("a reply that is not for this connection");
		s->peer_qpn = mad->qpn;
		break;
	case CM_EVENT_ESTABLISHED:
		if (s->connected)
			failed("connected twice");
		s->connected = true;
		break;
	case CM_EVENT_TIMEWAIT_EXIT:
		if (!s->ended)
			failed("the end of the end without an end");
		break;
	default:
		s->ended = true;
	}
}

static struct seat *free_seat(int machine)
{
	for (struct seat *s = w.seat[machine]; s < w.seat[machine] + SEATS; s++) {
		if (s->c)
			continue;
		*s = (struct seat){.machine = machine, .qpn = ++w.qpns[machine]};
		return s;
	}
	return NULL;
}

static int request(struct connection *c, const struct cm_mad *mad, void **user)
{
	int machine = c->machine == &w.machine[1];
	struct seat *s;

	switch (dice_below(&w.dice, 12)) {
	case 0:
		return -ENOENT;
	case 1:
		return -EAGAIN;
	case 2:
		return mad->message == CM_REQ ? (int)CM_REASON_NO_RESOURCES : (int)CM_SIDR_NO_QP;
	}
	s = free_seat(machine);
	if (!s)
		return -EAGAIN;
	s->c = c;
	s->peer_qpn = mad->qpn;
	*user = s;
	say("%d: QP %x is asked for by QP %x", machine, s->qpn, mad->qpn);
	return 0;
}

static void deadline(struct machine *m, uint64_t when)
{
	if (when < w.now)
		failed("a deadline in the past");
}

static const struct machine_ops ops = {.send = send, .event = event, .request = request, .deadline = deadline};

/* ---- what users do ---- */

static void let_go(struct seat *s)
{
	struct connection *c = s->c;

	say("%d: QP %x goes", s->machine, s->qpn);
	s->c = NULL;
	connection_release(c, w.now);
}

static void begin(int machine)
{
	struct seat *s = free_seat(machine);
	struct cm_mad mad = {
		.remote_timeout = CM_RESPONSE_TIMEOUT, .local_timeout = CM_RESPONSE_TIMEOUT, .max_retries = CM_RETRIES};

	if (!s)
		return;
	s->c = connection_open(&w.machine[machine], &address[machine], s);
	if (!s->c)
		failed("no memory");
	mad.qpn = s->qpn;
	if (dice_below(&w.dice, 5))
		connection_request(s->c, &mad, w.now);
	else
		connection_lookup(s->c, &mad, w.now);
}

static void say_yes(struct seat *s)
{
	struct cm_mad mad = {.qpn = s->qpn, .private_data = {(uint8_t)s->qpn}};
	bool was_replied = s->c->state == CM_REP_RECEIVED;

	/* in whatever state, one of them at most is allowed */
	if (connection_accept(s->c, &mad, w.now) && connection_ready(s->c, &mad, w.now) &&
	    connection_answer(s->c, &mad, w.now))
		return;
	s->connected |= was_replied;
}

static void say_no(struct seat *s)
{
	struct cm_mad mad = {.reason = CM_REASON_CONSUMER};
	bool parts = s->c->state == CM_ESTABLISHED;

	if (!connection_reject(s->c, &mad, w.now) || !connection_disconnect(s->c, &mad, w.now))
		s->parted |= parts;
}

static struct seat *find_peer(const struct seat *s)
{
	for (struct seat *p = w.seat[!s->machine]; p < w.seat[!s->machine] + SEATS; p++)
		if (p->c && p->c->remote_id == s->c->id && (!s->c->remote_id || s->c->remote_id == p->c->id))
			return p;
	return NULL;
}

/* Data has come, if the peer could send any. */
static void say_established(struct seat *s)
{
	struct seat *peer = find_peer(s);

	if (peer && peer->c->state == CM_ESTABLISHED)
		connection_established(s->c);
}

static void act(void)
{
	int machine = (int)dice_below(&w.dice, MACHINES);
	struct seat *s = &w.seat[machine][dice_below(&w.dice, SEATS)];

	if (!s->c) {
		begin(machine);
		return;
	}
	switch (dice_below(&w.dice, 16)) {
	case 0:
		let_go(s);
		break;
	case 1 ... 3:
		say_no(s);
		break;
	case 4:
		say_established(s);
		break;
	default:
		say_yes(s);
	}
}

/* They have talked to each other before: what one answers is not limited to three messages, all of which may be lost.
 */
static int start(int machine)
{
	struct machine *m = &w.machine[machine];
	int err = machine_init(m, &ops, (uint8_t)(1 + machine), dice_roll(&w.dice));

	sources_prove(&m->sources, &address[machine].remote, NEVER - SOURCE_TRUST);
	return err;
}

/* The machine is gone, and what it knew; it begins again, with the same QPNs. */
static void crash(void)
{
	struct machine *m = &w.machine[1];

	say("1: crash");
	machine_fini(m);
	start(1);
	memset(w.seat[1], 0, sizeof(w.seat[1]));
	w.qpns[1] = 0;
	w.crash = NEVER;
}

/* ---- a run ---- */

static void expire(int machine)
{
	struct machine *m = &w.machine[machine];

	lock_take(&m->lock);
	machine_expire(m, w.now);
	lock_drop(&m->lock);
}

static void pass(uint64_t until)
{
	for (;;) {
		uint32_t i = first_mad();
		uint64_t mad = w.mads ? w.mad[i].when : NEVER;
		uint64_t due[MACHINES] = {machine_deadline(&w.machine[0]), machine_deadline(&w.machine[1])};
		uint64_t next = min_of(mad, min_of(due[0], due[1]));

		if (next > until)
			break;
		w.now = max_of(w.now, next);
		if (mad == next)
			deliver(i);
		else
			expire(due[1] == next);
	}
	w.now = until;
}

/* The peer's user has been asked, and thinks it over: MRAs say so, for as long as it takes. */
static bool is_put_off(const struct seat *s, const struct seat *peer)
{
	if (!peer)
		return false;
	return (s->c->state == CM_REQ_SENT && peer->c->state == CM_REQ_RECEIVED) ||
	       (s->c->state == CM_REP_SENT && peer->c->state == CM_REP_RECEIVED);
}

/* Nothing is under way any more: who waits, waits for its user. */
static bool is_resting(const struct seat *s)
{
	static const bool rests[CM_STATES] = {
		[CM_IDLE] = true,	 [CM_REQ_RECEIVED] = true,  [CM_REP_RECEIVED] = true,
		[CM_ESTABLISHED] = true, [CM_DREQ_RECEIVED] = true, [CM_SIDR_REQ_RECEIVED] = true,
	};

	return !s->c || rests[s->c->state] || is_put_off(s, find_peer(s));
}

/* One that is put off gives up when enough MRAs in a row are lost, which may be at any time: it rests some time later.
 */
static void await_rest(void)
{
	for (int again = 0; again < 3; again++)
		for (int i = 0; i < MACHINES * SEATS; i++)
			if (!is_resting(&w.seat[i / SEATS][i % SEATS])) {
				pass(w.now + PEACE * SEC);
				break;
			}
}

static void check_rest(const struct seat *s)
{
	const struct seat *peer = s->c ? find_peer(s) : NULL;

	if (!s->c)
		return;
	if (!is_resting(s))
		failed("machine %d, QP %x: state %u for ever", s->machine, s->qpn, s->c->state);
	if (s->parted && !s->ended)
		failed("machine %d, QP %x has parted, and is not told that it did", s->machine, s->qpn);
	if (s->c->state != CM_ESTABLISHED || !w.harmless || (s->alone && !peer))
		return;
	if (!peer || peer->c->state != CM_ESTABLISHED)
		failed("machine %d, QP %x (%08x) is connected, and its peer is not: %d", s->machine, s->qpn, s->c->id,
		       peer ? (int)peer->c->state : -1);
	if (s->peer_qpn != peer->qpn || peer->peer_qpn != s->qpn)
		failed("machine %d, QP %x is connected to QP %x, which knows nothing of that", s->machine, s->qpn,
		       peer->qpn);
}

static void choose_weather(void)
{
	static const double chances[] = {0, 0, 0.05, 0.2, 0.4};
	static const uint64_t delays[] = {1, USEC, 100 * USEC, 10 * MSEC, 200 * MSEC, 2 * SEC};

	w.loss = dice_pick(&w.dice, chances);
	w.doubling = dice_pick(&w.dice, chances);
	w.delay = dice_pick(&w.dice, delays);
	w.down_from = w.down_to = w.crash = NEVER;
	switch (dice_below(&w.dice, 4)) {
	case 0:
		w.down_from = w.now + dice_below(&w.dice, 20 * SEC);
		w.down_to = w.down_from + dice_below(&w.dice, 200 * SEC);
		break;
	case 1:
		w.crash = w.now + dice_below(&w.dice, 20 * SEC);
		break;
	}
	w.harmless = w.down_from == NEVER && w.crash == NEVER;
}

static void run(uint64_t seed)
{
	uint64_t actions, pause;

	w.seed = seed;
	w.dice = (struct dice){seed};
	w.now = 1000 * SEC;
	w.mads = 0;
	memset(w.seat, 0, sizeof(w.seat));
	memset(w.qpns, 0, sizeof(w.qpns));
	memset(w.lost_in_a_row, 0, sizeof(w.lost_in_a_row));
	for (int i = 0; i < MACHINES; i++)
		if (start(i))
			failed("no memory");
	choose_weather();
	say("loss %.2f, doubling %.2f, delay %llu us, %s", w.loss, w.doubling, w.delay / USEC,
	    w.harmless	       ? "no catastrophe"
	    : w.crash == NEVER ? "down for a time"
			       : "a crash");
	pause = dice_below(&w.dice, 4) ? SEC : 20 * SEC;
	for (actions = dice_between(&w.dice, 5, 40); actions; actions--) {
		act();
		pass(w.now + dice_below(&w.dice, pause));
		if (w.now >= w.crash)
			crash();
	}
	pass(w.now + PEACE * SEC);
	await_rest();
	for (int i = 0; i < MACHINES * SEATS; i++)
		check_rest(&w.seat[i / SEATS][i % SEATS]);
	for (int i = 0; i < MACHINES * SEATS; i++)
		if (w.seat[i / SEATS][i % SEATS].c)
			let_go(&w.seat[i / SEATS][i % SEATS]);
	pass(w.now + PEACE * SEC);
	for (int i = 0; i < MACHINES; i++) {
		if (w.machine[i].alive || w.machine[i].timers.members)
			failed("machine %d: %u connections are left", i, w.machine[i].alive);
		machine_fini(&w.machine[i]);
	}
}

int main(int argc, char **argv)
{
	const char *quick = getenv("UROCE_QUICK"); /* empty where nobody is in a hurry */
	uint64_t seed = 1, runs = quick && *quick ? RUNS_QUICK : RUNS;

	program = argv[0];
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--verbose"))
			w.verbose = true;
		else if (!strcmp(argv[i], "--seed") && i + 1 < argc)
			seed = strtoull(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--runs") && i + 1 < argc)
			runs = strtoull(argv[++i], NULL, 0);
		else
			return 2;
	}
	printf("1..1\n");
	for (uint64_t i = 0; i < runs; i++)
		run(seed + i);
	printf("ok 1 - two machines on a bad network, %" PRIu64 " runs\n", runs);
	return 0;
}
