/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/connection.h"

#include <string.h>

#include "base/list.h"
#include "base/pool.h"
#include "base/timer.h"
#include "cm/admission.h"
#include "cm/comm_id.h"
#include "cm/state.h"
#include "cm/table.h"
#include "wire/cm_mad.h"

void connection_transmit(struct connection *c, const uint8_t bytes[CM_MAD_BYTES])
{
	if (credit_take(c))
		c->machine->ops->send(c->machine, &c->address, bytes);
}

struct connection *connection_open(struct machine *m, const struct cm_address *address, void *user)
{
	uint32_t index;
	uint8_t uses;
	struct connection *c;

	if (timers_join(&m->timers))
		return NULL;
	c = pool_alloc(&m->connections, &index);
	if (!c) {
		timers_leave(&m->timers, &(struct timer){0});
		return NULL;
	}
	uses = c->uses + 1;
	*c = (struct connection){
		.machine = m,
		.index = index,
		.id = comm_id_make(m, uses, index),
		.uses = uses,
		.state = CM_IDLE,
		.user = user,
		.address = *address,
		.deadline = NEVER,
		.timeout = cm_time(CM_RESPONSE_TIMEOUT),
		.retries = CM_RETRIES,
		.is_proven = true, /* active side: the application named the peer */
	};
	c->transaction = machine_transaction(m);
	list_init(&c->remote);
	list_init(&c->qpn);
	list_init(&c->aging);
	m->alive++;
	return c;
}

void connection_close(struct connection *c)
{
	struct machine *m = c->machine;

	connection_forget(c);
	age_set(c, CM_AGE_NONE);
	timers_leave(&m->timers, &c->timer);
	c->state = CM_FREE;
	connection_last_words(c);
	m->alive--;
	pool_free(&m->connections, c->index);
}

void connection_until(struct connection *c, uint64_t when)
{
	struct machine *m = c->machine;

	c->deadline = when;
	if (when != NEVER && timer_set(&m->timers, &c->timer, when))
		m->ops->deadline(m, when);
}

static const uint8_t age_of_state[CM_STATES] = {
	[CM_REQ_HELD] = CM_AGE_HALF_OPEN,      [CM_REQ_RECEIVED] = CM_AGE_HALF_OPEN,
	[CM_REP_SENT] = CM_AGE_HALF_OPEN,      [CM_REJ_SENT] = CM_AGE_ANSWERED,
	[CM_SIDR_REQ_HELD] = CM_AGE_HALF_OPEN, [CM_SIDR_REQ_RECEIVED] = CM_AGE_HALF_OPEN,
	[CM_SIDR_REP_SENT] = CM_AGE_ANSWERED,
};

/* REJ to send when the process ends, as in connection_release(): a peer that may be connected already takes a REJ
 * for a time-out as the end. 0: none. */
static const struct {
	uint8_t message, about, reason;
} last_words[CM_STATES] = {
	[CM_REQ_SENT] = {CM_REJ, CM_ABOUT_OTHER, CM_REASON_TIMEOUT},
	[CM_REQ_RECEIVED] = {CM_REJ, CM_ABOUT_REQ, CM_REASON_CONSUMER},
	[CM_REP_SENT] = {CM_REJ, CM_ABOUT_OTHER, CM_REASON_TIMEOUT},
	[CM_REP_RECEIVED] = {CM_REJ, CM_ABOUT_REP, CM_REASON_CONSUMER},
	[CM_ESTABLISHED] = {CM_DREQ},
	[CM_DREQ_SENT] = {CM_DREQ},
	[CM_DREQ_RECEIVED] = {CM_DREP},
};

void connection_last_words(struct connection *c)
{
	struct machine *m = c->machine;
	struct cm_mad mad = {.message = last_words[c->state].message,
			     .transaction = c->transaction,
			     .local_id = c->id,
			     .remote_id = c->remote_id,
			     .qpn = c->remote_qpn,
			     .about = last_words[c->state].about,
			     .reason = last_words[c->state].reason};
	uint8_t bytes[CM_MAD_BYTES];

	if (!m->ops->last_words)
		return;
	if (c->state == CM_ESTABLISHED)
		mad.transaction = machine_transaction(m);
	if (mad.message)
		cm_mad_encode(&mad, bytes);
	m->ops->last_words(c, mad.message ? bytes : NULL);
}

void connection_enter(struct connection *c, enum connection_state state, uint64_t until)
{
	c->state = state;
	connection_last_words(c);
	age_set(c, c->is_passive ? age_of_state[state] : CM_AGE_NONE);
	connection_until(c, until);
}

void connection_idle(struct connection *c)
{
	connection_forget(c);
	connection_enter(c, CM_IDLE, NEVER);
	if (!c->user)
		connection_close(c);
}

void connection_rest(struct connection *c, uint64_t now)
{
	connection_enter(c, CM_TIMEWAIT, now + cm_time(CM_ACK_TIMEOUT));
}

void connection_tell(struct connection *c, enum cm_event event, int status, const struct cm_mad *mad)
{
	if (c->user)
		c->machine->ops->event(c->user, event, status, mad);
}

static void machine_fill(const struct connection *c, struct cm_mad *mad)
{
	mad->transaction = c->transaction;
	mad->local_id = mad->message == CM_SIDR_REP ? c->remote_id : c->id;
	mad->remote_id = c->remote_id;
}

void connection_send(struct connection *c, struct cm_mad *mad)
{
	machine_fill(c, mad);
	cm_mad_encode(mad, c->message);
	connection_repeat(c);
}

void connection_repeat(struct connection *c)
{
	connection_transmit(c, c->message);
}

void connection_await(struct connection *c, enum connection_state state, uint64_t now)
{
	c->interval = 2 * CM_FIRST_RETRY;
	c->give_up = now + (1 + c->retries) * c->timeout;
	connection_enter(c, state, now + CM_FIRST_RETRY);
}

void connection_send_once(struct connection *c, struct cm_mad mad)
{
	uint8_t bytes[CM_MAD_BYTES];

	machine_fill(c, &mad);
	cm_mad_encode(&mad, bytes);
	connection_transmit(c, bytes);
}
