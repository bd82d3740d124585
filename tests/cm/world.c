/* SPDX-License-Identifier: BSD-2-Clause */
#include "world.h"

#include <stdlib.h>
#include <string.h>

static struct world *current;

static const struct cm_address address[MACHINES] = {
	{.local.raw = {[10] = 0xff, 0xff, 192, 0, 2, 1}, .remote.raw = {[10] = 0xff, 0xff, 192, 0, 2, 2}},
	{.local.raw = {[10] = 0xff, 0xff, 192, 0, 2, 2}, .remote.raw = {[10] = 0xff, 0xff, 192, 0, 2, 1}},
};

const struct cm_address *world_address(int which)
{
	return &address[which];
}

static void send(struct machine *m, const struct cm_address *to, const uint8_t mad[CM_MAD_BYTES])
{
	struct world *w = current;
	uint32_t n = w->sent++;

	if (n < 64 && w->lost >> n & 1)
		return;
	assert_true(w->mads < WORLD_MADS);
	w->mad[w->mads].to = m == &w->machine[ACTIVE] ? PASSIVE : ACTIVE;
	memcpy(w->mad[w->mads++].bytes, mad, CM_MAD_BYTES);
}

static void event(void *arg, enum cm_event event, int status, const struct cm_mad *mad)
{
	struct user *u = arg;

	assert_true(u->events < WORLD_EVENTS);
	u->event[u->events] = (struct world_event){.event = event, .status = status, .has_mad = mad};
	if (mad)
		u->event[u->events].mad = *mad;
	u->events++;
}

static int request(struct connection *c, const struct cm_mad *mad, void **user)
{
	struct world *w = current;

	w->requests++;
	w->request = *mad;
	if (w->verdict || w->user[PASSIVE].c)
		return w->verdict ?: -1;
	w->user[PASSIVE].c = c;
	*user = &w->user[PASSIVE];
	return 0;
}

static void deadline(struct machine *m, uint64_t when)
{
}

static void unanswered(const struct connection *c)
{
	current->unanswered++;
}

static const struct machine_ops ops = {
	.send = send, .event = event, .request = request, .unanswered = unanswered, .deadline = deadline};

int world_setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	if (!w)
		return -1;
	current = w;
	w->now = 1000 * SEC;
	w->answers = true;
	for (int i = 0; i < MACHINES; i++)
		machine_init(&w->machine[i], &ops, 1 + i, i * 77);
	*state = w;
	return 0;
}

int world_teardown(void **state)
{
	struct world *w = *state;

	for (int i = 0; i < MACHINES; i++)
		machine_fini(&w->machine[i]);
	free(w);
	return 0;
}

struct world *world_renew(void **state)
{
	world_teardown(state);
	assert_int_equal(world_setup(state), 0);
	return *state;
}

void world_open(struct world *w)
{
	struct user *u = &w->user[ACTIVE];

	u->c = connection_open(&w->machine[ACTIVE], &address[ACTIVE], u);
	assert_non_null(u->c);
}

void world_acquaint(struct world *w)
{
	for (int i = 0; i < MACHINES; i++)
		sources_prove(&w->machine[i].sources, &address[i].remote, NEVER - SOURCE_TRUST);
}

void world_connect(struct world *w)
{
	struct cm_mad req = {.service = SERVICE,
			     .ca_guid = w->guid,
			     .qpn = 0x111111,
			     .psn = 0x123,
			     .remote_timeout = CM_RESPONSE_TIMEOUT,
			     .local_timeout = CM_RESPONSE_TIMEOUT,
			     .max_retries = CM_RETRIES};

	world_open(w);
	memset(req.private_data, 0xa1, sizeof(req.private_data));
	assert_int_equal(connection_request(w->user[ACTIVE].c, &req, w->now), 0);
}

/* What an application does that wants to be connected. */
static void answer(struct world *w)
{
	struct cm_mad rep = {.qpn = 0x222222, .psn = 0x456}, rtu = {0};
	struct connection *active = w->user[ACTIVE].c, *passive = w->user[PASSIVE].c;

	memset(rep.private_data, 0xb2, sizeof(rep.private_data));
	memset(rtu.private_data, 0xc3, sizeof(rtu.private_data));
	if (passive && passive->state == CM_REQ_RECEIVED)
		assert_int_equal(connection_accept(passive, &rep, w->now), 0);
	if (active && active->state == CM_REP_RECEIVED)
		assert_int_equal(connection_ready(active, &rtu, w->now), 0);
	if (passive && passive->state == CM_DREQ_RECEIVED)
		assert_int_equal(connection_disconnect(passive, &(struct cm_mad){0}, w->now), 0);
	if (active && active->state == CM_DREQ_RECEIVED)
		assert_int_equal(connection_disconnect(active, &(struct cm_mad){0}, w->now), 0);
}

void world_hear(struct world *w, int which, const uint8_t mad[CM_MAD_BYTES], const struct cm_address *address)
{
	struct machine *m = &w->machine[which];

	lock_take(&m->lock);
	machine_receive(m, mad, address, w->now);
	lock_drop(&m->lock);
}

void world_expire(struct world *w, int which)
{
	struct machine *m = &w->machine[which];

	lock_take(&m->lock);
	machine_expire(m, w->now);
	lock_drop(&m->lock);
}

static void arrive(struct world *w, const struct world_mad *mad)
{
	world_hear(w, mad->to, mad->bytes, &address[mad->to]);
	if (w->twice)
		world_hear(w, mad->to, mad->bytes, &address[mad->to]);
}

void world_deliver(struct world *w)
{
	while (w->mads) {
		uint32_t i = w->backwards ? w->mads - 1 : 0;
		struct world_mad mad = w->mad[i];

		memmove(&w->mad[i], &w->mad[i + 1], (--w->mads - i) * sizeof(mad));
		arrive(w, &mad);
		if (w->answers)
			answer(w);
	}
}

void world_run(struct world *w, uint64_t until)
{
	for (;;) {
		uint64_t next = NEVER;

		world_deliver(w);
		for (int i = 0; i < MACHINES; i++)
			next = min_of(next, machine_deadline(&w->machine[i]));
		if (next > until)
			break;
		w->now = max_of(w->now, next);
		for (int i = 0; i < MACHINES; i++)
			world_expire(w, i);
	}
	w->now = until;
}

void world_end(struct world *w)
{
	for (int i = 0; i < MACHINES; i++)
		if (w->user[i].c)
			connection_release(w->user[i].c, w->now);
	w->user[ACTIVE].c = w->user[PASSIVE].c = NULL;
	world_run(w, w->now + 1000 * SEC);
	for (int i = 0; i < MACHINES; i++) {
		assert_int_equal(w->machine[i].alive, 0);
		assert_int_equal(w->machine[i].timers.members, 0);
	}
}

const struct world_event *world_expect(struct world *w, int which, enum cm_event event)
{
	struct user *u = &w->user[which];

	assert_true(u->shown < u->events);
	assert_int_equal(u->event[u->shown].event, event);
	return &u->event[u->shown++];
}

void world_expect_none(struct world *w, int which)
{
	assert_int_equal(w->user[which].shown, w->user[which].events);
}

bool world_has(struct world *w, int which, enum cm_event event)
{
	for (uint32_t i = 0; i < w->user[which].events; i++)
		if (w->user[which].event[i].event == event)
			return true;
	return false;
}
