/* SPDX-License-Identifier: BSD-2-Clause */
/* Who a message is for, what it does there, and what happens when none comes. What the user asks for is
 * connection.c. */
#include "cm/machine.h"

#include <errno.h>
#include <string.h>

#include "cm/internal.h"

/* What a peer may ask of us: exponents of cm_time(). */
#define LEAST_TIMEOUT 18 /* 1.1 s */
#define MOST_TIMEOUT  22 /* 17 s */
#define MOST_SERVICE  26 /* 275 s */

/* ---- connections, and how to find them ---- */

static uint32_t bucket(const union ibv_gid *gid, uint32_t number)
{
	uint64_t high, low;

	memcpy(&high, gid->raw, sizeof(high));
	memcpy(&low, gid->raw + 8, sizeof(low));
	return ((high ^ low ^ number) * 0x9e3779b97f4a7c15ull) >> 54;
}
static_assert(CM_BUCKETS == 1 << (64 - 54), "bucket()");

static bool machine_gid_equal(const union ibv_gid *a, const union ibv_gid *b)
{
	return !memcmp(a, b, sizeof(*a));
}

void connection_know(struct connection *c, uint32_t remote_id, uint32_t remote_qpn)
{
	struct machine *m = c->machine;

	if (remote_id && c->remote_id != remote_id) {
		list_remove(&c->remote);
		c->remote_id = remote_id;
		list_append(&m->by_remote[bucket(&c->address.remote, remote_id)], &c->remote);
		if (m->ops->met)
			m->ops->met(c);
	}
	if (remote_qpn && !c->remote_qpn) {
		c->remote_qpn = remote_qpn;
		list_append(&m->by_qpn[bucket(&c->address.remote, remote_qpn)], &c->qpn);
	}
}

void connection_forget(struct connection *c)
{
	list_remove(&c->remote);
	list_remove(&c->qpn);
	c->remote_id = c->remote_qpn = 0;
}

static struct connection *find_by_remote(struct machine *m, const struct cm_address *a, uint32_t remote_id)
{
	list_each (l, &m->by_remote[bucket(&a->remote, remote_id)]) {
		struct connection *c = container_of(l, struct connection, remote);

		if (c->remote_id == remote_id && machine_gid_equal(&c->address.remote, &a->remote))
			return c;
	}
	return NULL;
}

static struct connection *find_by_qpn(struct machine *m, const struct cm_address *a, uint32_t remote_qpn)
{
	list_each (l, &m->by_qpn[bucket(&a->remote, remote_qpn)]) {
		struct connection *c = container_of(l, struct connection, qpn);

		if (c->remote_qpn == remote_qpn && machine_gid_equal(&c->address.remote, &a->remote))
			return c;
	}
	return NULL;
}

/* The connection that a message names by our id; it must come from that connection's peer. */
static struct connection *machine_find(struct machine *m, const struct cm_address *a, const struct cm_mad *mad)
{
	uint32_t id = mad->message == CM_SIDR_REP ? mad->local_id : mad->remote_id;
	struct connection *c = pool_at(&m->connections, id & 0xffff);

	if (!c || c->state == CM_FREE || c->id != id || !machine_gid_equal(&c->address.remote, &a->remote) ||
	    !machine_gid_equal(&c->address.local, &a->local))
		return NULL;
	/* Who asked for time need not be who answers: it may have died, and the next REQ reached another process. A REJ
	 * need not say who sends it: there may be no connection at the other end. */
	if (mad->message != CM_SIDR_REP && c->state != CM_REQ_SENT && c->remote_id && c->remote_id != mad->local_id &&
	    !(mad->message == CM_REJ && !mad->local_id))
		return NULL;
	return c;
}

struct connection *connection_open(struct machine *m, const struct cm_address *address, void *user) REQUIRES(m->lock)
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
		.id = (uint32_t)m->slot << 24 | (uint32_t)(uint8_t)(m->generation + uses) << 16 | index,
		.uses = uses,
		.state = CM_IDLE,
		.user = user,
		.address = *address,
		.deadline = NEVER,
		.timeout = cm_time(CM_RESPONSE_TIMEOUT),
		.retries = CM_RETRIES,
	};
	c->transaction = (uint64_t)++m->transactions << 32 | c->id;
	list_init(&c->remote);
	list_init(&c->qpn);
	m->alive++;
	return c;
}

static void close_connection(struct connection *c)
{
	struct machine *m = c->machine;

	connection_forget(c);
	timers_leave(&m->timers, &c->timer);
	c->state = CM_FREE;
	m->alive--;
	pool_free(&m->connections, c->index);
}

/* ---- what the rest is made of ---- */

void connection_until(struct connection *c, uint64_t when)
{
	struct machine *m = c->machine;

	c->deadline = when;
	if (when != NEVER && timer_set(&m->timers, &c->timer, when))
		m->ops->deadline(m, when);
}

void connection_enter(struct connection *c, enum connection_state state, uint64_t until)
{
	c->state = state;
	connection_until(c, until);
}

void connection_idle(struct connection *c)
{
	connection_forget(c);
	connection_enter(c, CM_IDLE, NEVER);
	if (!c->user)
		close_connection(c);
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
	c->machine->ops->send(c->machine, &c->address, c->message);
}

void connection_await(struct connection *c, enum connection_state state, uint64_t now)
{
	c->interval = 2 * CM_FIRST_RETRY;
	c->give_up = now + (1 + c->retries) * c->timeout;
	connection_enter(c, state, now + CM_FIRST_RETRY);
}

/* An answer that is not kept: the peer asks again if it is lost. */
static void send_once(struct connection *c, struct cm_mad mad)
{
	uint8_t bytes[CM_MAD_BYTES];

	machine_fill(c, &mad);
	cm_mad_encode(&mad, bytes);
	c->machine->ops->send(c->machine, &c->address, bytes);
}

/* An answer where no connection is. */
static void send_stateless(struct machine *m, const struct cm_address *a, const struct cm_mad *to, struct cm_mad mad)
{
	uint8_t bytes[CM_MAD_BYTES];

	mad.transaction = to->transaction;
	mad.local_id = to->message == CM_SIDR_REQ ? to->local_id : to->remote_id;
	mad.remote_id = to->local_id;
	cm_mad_encode(&mad, bytes);
	m->ops->send(m, a, bytes);
}

/* ---- what messages do: one function per rule ---- */

typedef void handler(struct connection *c, const struct cm_mad *mad, uint64_t now);

/* 12.9.8.4: the peer has our message and needs more time than it said. We go on asking, now and then: each time we hear
 * again how long, or that nobody knows of us any more. */
static void wait_longer(struct connection *c, const struct cm_mad *mra, uint64_t now)
{
	uint64_t more = now + cm_time(min_of(mra->service_timeout, MOST_SERVICE));

	if (mra->about != (c->state == CM_REQ_SENT ? CM_ABOUT_REQ : CM_ABOUT_REP))
		return;
	connection_know(c, mra->local_id, 0);
	c->interval = c->timeout;
	c->give_up = more + (1 + c->retries) * c->timeout;
	connection_until(c, now + c->timeout);
}

static void refused(struct connection *c, const struct cm_mad *rej, uint64_t now)
{
	if (c->state == CM_REP_RECEIVED && rej->about == CM_ABOUT_REQ)
		return; /* of another process, which did not know the service */
	connection_tell(c, CM_EVENT_REJECTED, rej->reason, rej);
	if (c->state == CM_REP_SENT || rej->reason == CM_REASON_STALE)
		connection_rest(c, now);
	else
		connection_idle(c);
}

static void machine_replied(struct connection *c, const struct cm_mad *rep, uint64_t now)
{
	connection_know(c, rep->local_id, rep->qpn);
	connection_enter(c, CM_REP_RECEIVED, NEVER);
	connection_tell(c, CM_EVENT_REPLIED, 0, rep);
}

static void delay_req(struct connection *c, const struct cm_mad *req, uint64_t now)
{
	c->delayed = true;
	send_once(c, (struct cm_mad){.message = CM_MRA, .about = CM_ABOUT_REQ, .service_timeout = CM_SERVICE_TIMEOUT});
}

static void delay_rep(struct connection *c, const struct cm_mad *rep, uint64_t now)
{
	/* not for as long: should our RTU be lost, only the next REP will show it */
	send_once(c, (struct cm_mad){.message = CM_MRA, .about = CM_ABOUT_REP, .service_timeout = CM_RESPONSE_TIMEOUT});
}

static void repeat(struct connection *c, const struct cm_mad *mad, uint64_t now)
{
	connection_repeat(c);
}

static void machine_established(struct connection *c, const struct cm_mad *rtu, uint64_t now)
{
	connection_enter(c, CM_ESTABLISHED, NEVER);
	connection_tell(c, CM_EVENT_ESTABLISHED, 0, rtu);
	if (!c->user)
		connection_disconnect(c, &(struct cm_mad){0}, now);
}

static void answer_dreq(struct connection *c)
{
	connection_send(c, &(struct cm_mad){.message = CM_DREP});
}

static void machine_disconnected(struct connection *c, const struct cm_mad *dreq, uint64_t now)
{
	if (dreq->qpn != c->local_qpn)
		return;
	/* a peer that disconnects has had our REP: its RTU was lost */
	if (c->state == CM_REP_SENT)
		connection_tell(c, CM_EVENT_ESTABLISHED, 0, NULL);
	c->transaction = dreq->transaction;
	connection_enter(c, CM_DREQ_RECEIVED, NEVER);
	connection_tell(c, CM_EVENT_DISCONNECTED, 0, dreq);
	if (!c->user)
		connection_disconnect(c, &(struct cm_mad){0}, now);
}

/* Both disconnect at once. */
static void crossed(struct connection *c, const struct cm_mad *dreq, uint64_t now)
{
	if (dreq->qpn != c->local_qpn)
		return;
	c->transaction = dreq->transaction;
	answer_dreq(c);
	connection_rest(c, now);
	connection_tell(c, CM_EVENT_DISCONNECTED, 0, dreq);
}

static void answer_again(struct connection *c, const struct cm_mad *dreq, uint64_t now)
{
	c->transaction = dreq->transaction;
	answer_dreq(c);
}

static void released(struct connection *c, const struct cm_mad *drep, uint64_t now)
{
	connection_rest(c, now);
	connection_tell(c, CM_EVENT_DISCONNECTED, 0, drep);
}

/* Our DREQ finds nothing to disconnect, or the peer says that there never was such a connection, or that it has waited
 * for our RTU in vain. */
static void unknown_to_peer(struct connection *c, const struct cm_mad *rej, uint64_t now)
{
	if (c->state == CM_ESTABLISHED && rej->reason != CM_REASON_INVALID_ID && rej->reason != CM_REASON_TIMEOUT)
		return;
	released(c, NULL, now);
}

/* 12.9.8.3.1: one that has ended, as we see it. */
static void stale(struct connection *c, const struct cm_mad *req, uint64_t now)
{
	send_once(c, (struct cm_mad){.message = CM_REJ, .about = CM_ABOUT_REQ, .reason = CM_REASON_STALE});
}

/* Alternate paths are for adapters with more than one port. */
static void no_alternate(struct connection *c, const struct cm_mad *lap, uint64_t now)
{
	send_once(c, (struct cm_mad){.message = CM_APR, .answer = CM_PATH_UNSUPPORTED});
}

static void machine_found(struct connection *c, const struct cm_mad *sidr_rep, uint64_t now)
{
	connection_tell(c, CM_EVENT_FOUND, sidr_rep->answer, sidr_rep);
	connection_idle(c);
}

static void machine_refuse(struct machine *m, const struct cm_address *a, const struct cm_mad *mad, uint16_t reason)
{
	struct cm_mad no = {.message = CM_REJ, .about = CM_ABOUT_REQ, .reason = reason};

	if (mad->message == CM_SIDR_REQ)
		no = (struct cm_mad){.message = CM_SIDR_REP, .service = mad->service, .answer = reason};
	send_stateless(m, a, mad, no);
}

/* Whether somebody takes it. 0, or what request() says; then the connection has still to be dealt with. */
static int machine_ask(struct connection *c, const struct cm_mad *mad)
{
	int verdict;

	c->state = mad->message == CM_REQ ? CM_REQ_RECEIVED : CM_SIDR_REQ_RECEIVED;
	verdict = c->machine->ops->request(c, mad, &c->user);
	if (!verdict)
		connection_until(c, NEVER);
	return verdict;
}

static void turn_away(struct connection *c, const struct cm_mad *mad, int verdict)
{
	bool is_req = mad->message == CM_REQ;

	if (verdict == -ENOENT)
		verdict = is_req ? (int)CM_REASON_INVALID_SERVICE : (int)CM_SIDR_UNSUPPORTED;
	if (verdict > 0)
		machine_refuse(c->machine, &c->address, mad, (uint16_t)verdict);
	close_connection(c);
}

static void machine_hold(struct connection *c, const struct cm_mad *mad, uint64_t until)
{
	cm_mad_encode(mad, c->message);
	connection_enter(c, mad->message == CM_REQ ? CM_REQ_HELD : CM_SIDR_REQ_HELD, until);
}

static void machine_ask_again(struct connection *c, const struct cm_mad *mad, uint64_t now)
{
	uint64_t until = c->deadline;
	int verdict = machine_ask(c, mad);

	if (verdict == -ENOENT)
		machine_hold(c, mad, until);
	else if (verdict)
		turn_away(c, mad, verdict);
}

static void ask_at_last(struct connection *c, uint64_t now)
{
	struct cm_mad mad;
	int verdict;

	cm_mad_parse(&mad, c->message);
	verdict = machine_ask(c, &mad);
	if (verdict)
		turn_away(c, &mad, verdict);
}

#define ON(message) [CM_##message - CM_FIRST]

/* What each state lets in; all else is dropped. */
static handler *const on_message[CM_STATES][CM_MESSAGES] = {
	[CM_REQ_SENT] = {ON(MRA) = wait_longer, ON(REJ) = refused, ON(REP) = machine_replied},
	[CM_REQ_HELD] = {ON(REQ) = machine_ask_again},
	[CM_REQ_RECEIVED] = {ON(REQ) = delay_req, ON(REJ) = refused},
	[CM_REP_SENT] = {ON(REQ) = repeat, ON(MRA) = wait_longer, ON(REJ) = refused, ON(RTU) = machine_established,
			 ON(DREQ) = machine_disconnected},
	[CM_REP_RECEIVED] = {ON(REP) = delay_rep, ON(REJ) = refused},
	[CM_ESTABLISHED] = {ON(REP) = repeat, ON(REJ) = unknown_to_peer, ON(DREQ) = machine_disconnected,
			    ON(LAP) = no_alternate},
	[CM_DREQ_SENT] = {ON(DREQ) = crossed, ON(DREP) = released, ON(REJ) = unknown_to_peer},
	[CM_DREQ_RECEIVED] = {},
	[CM_REJ_SENT] = {ON(REQ) = repeat, ON(REP) = repeat},
	[CM_TIMEWAIT] = {ON(REQ) = stale, ON(DREQ) = answer_again},
	[CM_SIDR_REQ_SENT] = {ON(SIDR_REP) = machine_found},
	[CM_SIDR_REQ_HELD] = {ON(SIDR_REQ) = machine_ask_again},
	[CM_SIDR_REP_SENT] = {ON(SIDR_REQ) = repeat},
};

/* ---- messages that begin something ---- */

/* 12.9.8.3.1: the peer uses a QPN again that is connected as far as we know: the connection is no more, and
 * the new one has to wait until that is settled. One in timewait makes room. */
static bool machine_is_stale(struct machine *m, const struct cm_address *a, const struct cm_mad *req, uint64_t now)
{
	struct connection *c = find_by_qpn(m, a, req->qpn);

	if (!c)
		return false;
	if (c->state == CM_ESTABLISHED) {
		connection_disconnect(c, &(struct cm_mad){0}, now);
		return true;
	}
	list_remove(&c->qpn);
	c->remote_qpn = 0;
	return false;
}

/* Remembered only for the sake of requests that are repeated: and this one is none, but the peer uses the number again.
 */
static bool is_spent(const struct connection *c, const struct cm_mad *mad)
{
	return (c->state == CM_REJ_SENT || c->state == CM_TIMEWAIT || c->state == CM_SIDR_REP_SENT) &&
	       c->request != mad->transaction;
}

static void machine_begin(struct machine *m, const struct cm_address *a, const struct cm_mad *mad, uint64_t now)
	REQUIRES(m->lock)
{
	bool is_req = mad->message == CM_REQ;
	struct connection *c = find_by_remote(m, a, mad->local_id);
	int verdict;

	if (c && (c->state >= CM_SIDR_REQ_SENT) == is_req)
		c = NULL; /* an id of the other kind: they do not share numbers */
	if (c && is_spent(c, mad)) {
		list_remove(&c->remote);
		c = NULL;
	}
	if (c) {
		handler *handle = on_message[c->state][mad->message - CM_FIRST];

		if (handle)
			handle(c, mad, now);
		return;
	}
	if (!mad->local_id)
		return;
	if (is_req && machine_is_stale(m, a, mad, now)) {
		machine_refuse(m, a, mad, CM_REASON_STALE);
		return;
	}
	c = connection_open(m, a, NULL);
	if (!c)
		return;
	c->transaction = c->request = mad->transaction;
	if (is_req) {
		c->timeout = cm_time(min_of(max_of(mad->local_timeout, LEAST_TIMEOUT), MOST_TIMEOUT));
		c->retries = mad->max_retries;
	}
	connection_know(c, mad->local_id, is_req ? mad->qpn : 0);
	verdict = machine_ask(c, mad);
	if (verdict == -ENOENT)
		machine_hold(c, mad, now + CM_PATIENCE);
	else if (verdict)
		turn_away(c, mad, verdict);
}

/* ---- messages that find no connection ---- */

static void no_such_connection(struct machine *m, const struct cm_address *a, const struct cm_mad *mad)
{
	if (mad->message == CM_DREQ)
		send_stateless(m, a, mad, (struct cm_mad){.message = CM_DREP});
	else if (mad->message == CM_REP)
		send_stateless(
			m, a, mad,
			(struct cm_mad){.message = CM_REJ, .about = CM_ABOUT_REP, .reason = CM_REASON_INVALID_ID});
	else if (mad->message == CM_LAP)
		send_stateless(m, a, mad, (struct cm_mad){.message = CM_APR, .answer = CM_PATH_INVALID_ID});
}

/* A REJ for a time-out comes from one that never had an answer, so it cannot name us. */
static struct connection *find_rejected(struct machine *m, const struct cm_address *a, const struct cm_mad *rej)
{
	if (rej->remote_id || rej->reason != CM_REASON_TIMEOUT)
		return machine_find(m, a, rej);
	return find_by_remote(m, a, rej->local_id);
}

void machine_receive(struct machine *m, const uint8_t bytes[CM_MAD_BYTES], const struct cm_address *address,
		     uint64_t now)
{
	struct connection *c;
	struct cm_mad mad;
	handler *handle;

	if (cm_mad_parse(&mad, bytes))
		return;
	if (mad.message == CM_REQ || mad.message == CM_SIDR_REQ) {
		machine_begin(m, address, &mad, now);
		return;
	}
	c = mad.message == CM_REJ ? find_rejected(m, address, &mad) : machine_find(m, address, &mad);
	if (!c || c->state == CM_IDLE) {
		no_such_connection(m, address, &mad);
		return;
	}
	handle = on_message[c->state][mad.message - CM_FIRST];
	if (handle)
		handle(c, &mad, now);
}

int machine_owner(const uint8_t bytes[CM_MAD_BYTES], uint64_t *service)
{
	struct cm_mad mad;

	if (cm_mad_parse(&mad, bytes))
		return -1;
	*service = mad.service;
	if (mad.message == CM_REQ || mad.message == CM_SIDR_REQ)
		return 0;
	return (mad.message == CM_SIDR_REP ? mad.local_id : mad.remote_id) >> 24;
}

/* ---- time ---- */

static void machine_unanswered(struct connection *c, uint64_t now)
{
	switch (c->state) {
	case CM_DREQ_SENT:
		connection_rest(c, now);
		connection_tell(c, CM_EVENT_DISCONNECTED, -ETIMEDOUT, NULL);
		break;
	case CM_REP_SENT:
		send_once(c, (struct cm_mad){.message = CM_REJ, .about = CM_ABOUT_OTHER, .reason = CM_REASON_TIMEOUT});
		connection_rest(c, now);
		connection_tell(c, CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
		break;
	default:
		connection_tell(c, CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
		connection_idle(c);
	}
}

/* Next repetition, or the end of them. */
static void repeat_until_given_up(struct connection *c, uint64_t now)
{
	uint64_t interval = c->interval;

	connection_repeat(c);
	c->interval = min_of(2 * interval, c->timeout);
	connection_until(c, min_of(now + interval, c->give_up));
}

static bool machine_asks(const struct connection *c)
{
	return c->state == CM_REQ_SENT || c->state == CM_SIDR_REQ_SENT;
}

static void send_again(struct connection *c, uint64_t now)
{
	if (now >= c->give_up) {
		machine_unanswered(c, now);
		return;
	}
	/* first: hosts tell of closed ports only so often, and whoever sends the message would not hear it */
	if (machine_asks(c) && c->machine->ops->unanswered)
		c->machine->ops->unanswered(c);
	repeat_until_given_up(c, now);
}

static void rested(struct connection *c, uint64_t now)
{
	if (c->state == CM_TIMEWAIT)
		connection_tell(c, CM_EVENT_TIMEWAIT_EXIT, 0, NULL);
	connection_idle(c);
}

static void tell_again(struct connection *c, uint64_t now)
{
	if (!c->delayed || now >= c->give_up)
		rested(c, now);
	else
		repeat_until_given_up(c, now);
}

static void (*const on_time[CM_STATES])(struct connection *c, uint64_t now) = {
	[CM_REQ_HELD] = ask_at_last, [CM_SIDR_REQ_HELD] = ask_at_last, [CM_REQ_SENT] = send_again,
	[CM_REP_SENT] = send_again,  [CM_DREQ_SENT] = send_again,      [CM_SIDR_REQ_SENT] = send_again,
	[CM_REJ_SENT] = tell_again,  [CM_TIMEWAIT] = rested,	       [CM_SIDR_REP_SENT] = rested,
};

void machine_expire(struct machine *m, uint64_t now)
{
	struct timer *timer;

	while ((timer = timers_pop(&m->timers, now))) {
		struct connection *c = container_of(timer, struct connection, timer);

		if (c->deadline > now)
			connection_until(c, c->deadline);
		else
			on_time[c->state](c, now);
	}
}

/* ---- a peer that has died ---- */

/* As if it had said so: by a REJ while the connection is made, by a DREP or DREQ later. */
static handler *const on_death[CM_STATES] = {
	[CM_REQ_SENT] = refused,     [CM_REQ_RECEIVED] = refused, [CM_REP_SENT] = refused,
	[CM_REP_RECEIVED] = refused, [CM_ESTABLISHED] = released, [CM_DREQ_SENT] = released,
};

void machine_bury(struct machine *m, uint8_t slot, uint64_t now)
{
	struct cm_mad rej = {.message = CM_REJ, .about = CM_ABOUT_OTHER, .reason = CM_REASON_TIMEOUT};
	struct connection *c;

	for (uint32_t i = 0; (c = pool_at(&m->connections, i)); i++)
		if (c->state != CM_FREE && c->remote_id >> 24 == slot && on_death[c->state] &&
		    machine_gid_equal(&c->address.remote, &c->address.local))
			on_death[c->state](c, on_death[c->state] == refused ? &rej : NULL, now);
}

/* ---- a peer that is not there ---- */

void machine_absent(struct machine *m, uint32_t id, int err, uint64_t now)
{
	struct connection *c = pool_at(&m->connections, id & 0xffff);

	if (!c || c->id != id || !machine_asks(c) || c->remote_id)
		return;
	if (err != -ECONNREFUSED) {
		connection_tell(c, CM_EVENT_UNREACHABLE, err, NULL);
		connection_idle(c);
	} else if (c->state == CM_REQ_SENT) {
		refused(c,
			&(struct cm_mad){.message = CM_REJ, .about = CM_ABOUT_REQ, .reason = CM_REASON_INVALID_SERVICE},
			now);
	} else {
		machine_found(c, &(struct cm_mad){.message = CM_SIDR_REP, .answer = CM_SIDR_UNSUPPORTED}, now);
	}
}

/* ---- the end ---- */

static bool may_be_missed(const struct connection *c)
{
	struct cm_mad last;

	if (c->state == CM_DREQ_SENT || c->state == CM_REJ_SENT)
		return true;
	return c->state == CM_TIMEWAIT && !cm_mad_parse(&last, c->message) && last.message == CM_DREP;
}

void machine_farewell(struct machine *m)
{
	struct connection *c;

	for (uint32_t i = 0; (c = pool_at(&m->connections, i)); i++)
		if (may_be_missed(c))
			connection_repeat(c);
}

uint64_t machine_deadline(struct machine *m)
{
	return timers_next(&m->timers);
}

int machine_init(struct machine *m, const struct machine_ops *ops, uint8_t slot, uint32_t seed)
{
	/* not the lock: the caller may hold it, and others wait for it */
	lock_assert_unshared(&m->lock);
	m->ops = ops;
	m->slot = slot;
	m->generation = (uint8_t)seed;
	m->transactions = seed;
	m->alive = 0;
	for (uint32_t i = 0; i < CM_BUCKETS; i++) {
		list_init(&m->by_remote[i]);
		list_init(&m->by_qpn[i]);
	}
	timers_init(&m->timers);
	return pool_init(&m->connections, sizeof(struct connection), CONNECTION_LIMIT);
}

void machine_fini(struct machine *m)
{
	pool_fini(&m->connections);
	timers_fini(&m->timers);
}
