/* SPDX-License-Identifier: BSD-2-Clause */
/* The requests of one kernel to another in the captures, sent to our responder: it answers as the other kernel did. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "wire/capture.c" /* the reader belongs to tests/wire, and is made for its SOURCE_DIR */
#include "wire/icrc.h"

#define HALF (MEMORY / 2) /* the peer's target is the second half of what it registered */

/* One row per scenario of the captures: what the passive side had posted and allowed. */
static const struct scenario {
	const char *name;
	uint32_t receives, length;
	bool late;    /* the receive comes late: just before the answer that is no refusal */
	bool atomic;  /* the target is a number */
	bool forbids; /* the QP allows nothing */
	bool wrong;   /* the key is not ours */
	uint8_t says; /* our NAK where it differs from the kernel's */
} scenarios[] = {
	{.name = "rc-send-imm", .receives = 10, .length = HALF},
	{.name = "rc-send-inv", .receives = 1, .length = HALF},
	{.name = "rc-send", .receives = 10, .length = HALF},
	{.name = "rc-write-imm", .receives = 10, .length = HALF},
	{.name = "rc-write"},
	{.name = "rc-read"},
	{.name = "rc-atomic", .atomic = true},
	{.name = "rc-mixed"},
	{.name = "rc-rnr", .length = HALF, .late = true},
	{.name = "rc-nak-rkey", .wrong = true},
	{.name = "rc-nak-op", .forbids = true},
	/* IBTA 9.9.3 has a message that is too long as an invalid request; rxe answers "operational error" */
	{.name = "rc-nak-len", .receives = 1, .length = 16, .says = NAK_INVALID_REQUEST},
};

static struct {
	struct fixture *f;
	const struct scenario *scenario;
	char file[256];
	uint8_t active[16]; /* who asks */
	struct packet held; /* late: a request that waits for us to see what it was answered */
	struct mr *mr;	    /* at the addresses that the capture names */
	uint32_t files, answers;
} replay;

static const struct scenario *scenario_of(const char *path)
{
	const char *name = strrchr(path, '/') + 1, *rc = strstr(name, "rc-");

	if (!rc || !strncmp(name, "loss", 4) || !strncmp(name, "pingpong", 8))
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(scenarios); i++)
		if (!strncmp(rc, scenarios[i].name, strlen(scenarios[i].name)))
			return &scenarios[i];
	return NULL;
}

static enum ibv_mtu mtu_of(const char *path)
{
	return strstr(path, "mtu256-")	  ? IBV_MTU_256
	       : strstr(path, "mtu2048-") ? IBV_MTU_2048
	       : strstr(path, "mtu4096-") ? IBV_MTU_4096
					  : IBV_MTU_1024;
}

static void finish(void)
{
	void *state = replay.f;

	if (!replay.f)
		return;
	if (!fixture_is_silent(replay.f))
		fail_msg("%s: we say more: %s psn %06x", replay.file,
			 opcode_info[fixture_sent(replay.f)->packet.opcode].name,
			 replay.f->sent[replay.f->shown - 1].packet.psn.v);
	fixture_teardown(&state);
	replay.f = NULL;
	replay.mr = NULL;
}

static void begin(const struct captured *c, const struct packet *first)
{
	uint64_t target = 0x1122334455667788;
	void *state;

	assert_int_equal(fixture_setup(&state), 0);
	replay.f = state;
	replay.files++;
	replay.f->attr.rq_psn = first->psn.v;
	replay.f->attr.path_mtu = mtu_of(c->file);
	replay.f->attr.qp_access_flags = replay.scenario->forbids ? 0 : replay.f->attr.qp_access_flags;
	fixture_start(replay.f, IBV_QPS_RTS);
	for (int i = 0; i < MEMORY; i++)
		replay.f->memory[i] = (uint8_t)(7 * i + 3);
	if (!replay.scenario->atomic)
		target = htole64(target); /* as READs found it, on x86 */
	memcpy(replay.f->memory + HALF, &target, sizeof(target));
	for (uint32_t i = 0; i < replay.scenario->receives; i++)
		fixture_post_recv(replay.f, i, replay.scenario->length);
	memcpy(replay.active, c->saddr, sizeof(replay.active));
}

static void ask(struct packet p)
{
	struct fixture *f = replay.f;

	if (opcode_info[p.opcode].flags & (HAS_RETH | HAS_ATOMICETH)) {
		if (!replay.mr)
			replay.mr = mr_register(&f->pd, f->memory, MEMORY, p.va - HALF, f->mr->access);
		p.rkey = replay.mr->base.rkey ^ (replay.scenario->wrong ? 0x55 : 0);
	}
	p.inv_rkey = f->rkey;
	if (replay.scenario->late)
		replay.held = p; /* its payload is not looked at */
	else
		fixture_give(f, p);
}

static void ask_late(const struct packet *answer)
{
	if ((answer->syndrome & SYNDROME_KIND) == SYNDROME_ACK)
		fixture_post_recv(replay.f, 0, replay.scenario->length);
	replay.held.payload = NULL;
	fixture_give(replay.f, replay.held);
}

static void compare(const struct packet *theirs)
{
	uint32_t flags = opcode_info[theirs->opcode].flags;
	uint8_t syndrome = replay.scenario->says ? replay.scenario->says : theirs->syndrome;
	const struct sent *s = NULL;

	if (replay.scenario->late)
		ask_late(theirs);
	if (!fixture_is_silent(replay.f))
		s = fixture_sent(replay.f);
	if (!s || s->packet.opcode != theirs->opcode || s->packet.psn.v != theirs->psn.v)
		fail_msg("%s: the kernel says %s psn %06x, we %s psn %06x", replay.file,
			 opcode_info[theirs->opcode].name, theirs->psn.v,
			 s ? opcode_info[s->packet.opcode].name : "nothing", s ? s->packet.psn.v : 0);
	if ((flags & HAS_AETH) && (s->packet.syndrome != syndrome || s->packet.msn != theirs->msn))
		fail_msg("%s: psn %06x: the kernel says syndrome %02x msn %u, we %02x %u", replay.file, theirs->psn.v,
			 theirs->syndrome, theirs->msn, s->packet.syndrome, s->packet.msn);
	if (flags & HAS_ATOMICACKETH)
		assert_int_equal(s->packet.original, theirs->original);
	assert_int_equal(s->packet.length, theirs->length);
	assert_memory_equal(s->payload, theirs->payload, theirs->length);
	replay.answers++;
}

static void see(const struct captured *c)
{
	struct packet p;

	if (strcmp(c->file, replay.file)) {
		finish();
		snprintf(replay.file, sizeof(replay.file), "%s", c->file);
		replay.scenario = scenario_of(c->file);
	}
	if (!replay.scenario)
		return;
	assert_int_equal(packet_parse(&p, c->bytes, c->length - ICRC_BYTES), 0);
	if (!replay.f)
		begin(c, &p);
	if (!memcmp(c->saddr, replay.active, sizeof(replay.active)))
		ask(p);
	else
		compare(&p);
}

static void we_answer_as_the_kernel_does(void **state)
{
	assert_true(captured_everywhere(see) > 0);
	finish();
	print_message("# %u captures, %u answers\n", replay.files, replay.answers);
	assert_true(replay.files >= 40 && replay.answers >= 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(we_answer_as_the_kernel_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
