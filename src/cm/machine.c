/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the connection of a message, handles the message in the connection's state, and handles timeouts. */
#include "cm/machine.h"

#include <errno.h>
#include <string.h>

#include "cm/admission.h"
#include "cm/calls.h"
#include "cm/comm_id.h"
#include "cm/connection.h"
#include "cm/sources.h"
#include "cm/state.h"
#include "cm/table.h"
#include "cm/tuned.h"

/* The connection that a message names by our id, if the message comes from its peer. */
static struct connection *machine_find(struct machine *m, const struct cm_address *a, const struct cm_mad *mad)
{
	struct connection *c = find_by_id(m, mad->message == CM_SIDR_REP ? mad->local_id : mad->remote_id);

	if (!c || !machine_gid_equal(&c->address.remote, &a->remote) ||
	    !machine_gid_equal(&c->address.local, &a->local))
		return NULL;
	/* An MRA and the final answer to a REQ may come from different processes: the first one died, and the repeated
	 * REQ reached the second. A process that rejects the REQ has no id. So an answer is matched by the transaction
	 * ID of its request (13.4.6.4). */
	if (c->state == CM_REQ_SENT || c->state == CM_SIDR_REQ_SENT)
		return mad->transaction == c->transaction ? c : NULL;
	return mad->local_id == c->remote_id ? c : NULL;
}

/* Encodes an answer to a message that has no connection. */
static void encode_stateless(const struct cm_mad *to, struct cm_mad mad, uint8_t bytes[CM_MAD_BYTES])
{
	mad.transaction = to->transaction;
	mad.local_id = to->message == CM_SIDR_REQ ? to->local_id : to->remote_id;
	mad.remote_id = to->local_id;
	cm_mad_encode(&mad, bytes);
}

static void send_stateless(struct machine *m, const struct cm_address *a, const struct cm_mad *to, struct cm_mad mad)
{
	uint8_t bytes[CM_MAD_BYTES];

	encode_stateless(to, mad, bytes);
	m->ops->send(m, a, bytes);
}

/* ---- what messages do: one function per rule ---- */

typedef void handler(struct connection *c, const struct cm_mad *mad, uint64_t now);

/* 12.9.8.4: the peer has our message and needs more time. Repetitions go on at a low rate: each shows how long the
 * peer still needs, or that it no longer knows the connection. */
static void wait_longer(struct connection *c, const struct cm_mad *mra, uint64_t now)
{
	uint64_t more = now + cm_time(min_of(mra->service_timeout, CM_SERVICE_TIMEOUT));

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
		return; /* REJ of another process, which does not know the service */
	connection_tell(c, CM_EVENT_REJECTED, rej->reason, rej);
	if (c->state == CM_REP_SENT || rej->reason == CM_REASON_STALE)
		connection_rest(c, now);
	else
		connection_idle(c);
}

static void machine_replied(struct connection *c, const struct cm_mad *rep, uint64_t now)
{
	c->remote_guid = rep->ca_guid;
	connection_know(c, rep->local_id, rep->qpn);
	connection_enter(c, CM_REP_RECEIVED, NEVER);
	connection_tell(c, CM_EVENT_REPLIED, 0, rep);
}

static void delay_req(struct connection *c, const struct cm_mad *req, uint64_t now)
{
	c->delayed = true;
	connection_send_once(
		c, (struct cm_mad){.message = CM_MRA, .about = CM_ABOUT_REQ, .service_timeout = CM_SERVICE_TIMEOUT});
}

static void delay_rep(struct connection *c, const struct cm_mad *rep, uint64_t now)
{
	/* shorter than CM_SERVICE_TIMEOUT: if our RTU is lost, only the next REP shows it */
	connection_send_once(
		c, (struct cm_mad){.message = CM_MRA, .about = CM_ABOUT_REP, .service_timeout = CM_RESPONSE_TIMEOUT});
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
	/* a peer that disconnects has received our REP: its RTU was lost */
	if (c->state == CM_REP_SENT)
		connection_tell(c, CM_EVENT_ESTABLISHED, 0, NULL);
	c->transaction = dreq->transaction;
	connection_enter(c, CM_DREQ_RECEIVED, NEVER);
	connection_tell(c, CM_EVENT_DISCONNECTED, 0, dreq);
	if (!c->user)
		connection_disconnect(c, &(struct cm_mad){0}, now);
}

/* Handles DREQs that both sides sent at the same time. */
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

/* Handles a REJ of our DREQ, or of a connection that the peer says never existed or timed out while it waited for
 * our RTU. */
static void unknown_to_peer(struct connection *c, const struct cm_mad *rej, uint64_t now)
{
	if (c->state == CM_ESTABLISHED && rej->reason != CM_REASON_INVALID_ID && rej->reason != CM_REASON_TIMEOUT)
		return;
	released(c, NULL, now);
}

/* Handles a DREP that answers ask_whether_connected(): the peer is not connected any more. */
static void connection_gone(struct connection *c, const struct cm_mad *drep, uint64_t now)
{
	if (c->challenge && drep->transaction == c->challenge)
		released(c, drep, now);
}

/* 12.9.8.3.1: rejects a REQ for a connection that has ended here. */
static void stale(struct connection *c, const struct cm_mad *req, uint64_t now)
{
	connection_send_once(c, (struct cm_mad){.message = CM_REJ, .about = CM_ABOUT_REQ, .reason = CM_REASON_STALE});
}

/* Refuses alternate paths, which are for adapters with more than one port. */
static void no_alternate(struct connection *c, const struct cm_mad *lap, uint64_t now)
{
	connection_send_once(c, (struct cm_mad){.message = CM_APR, .answer = CM_PATH_UNSUPPORTED});
}

static void machine_found(struct connection *c, const struct cm_mad *sidr_rep, uint64_t now)
{
	connection_tell(c, CM_EVENT_FOUND, sidr_rep->answer, sidr_rep);
	connection_idle(c);
}

static struct cm_mad refusal_of(const struct cm_mad *mad, uint16_t reason)
{
	if (mad->message == CM_SIDR_REQ)
		return (struct cm_mad){.message = CM_SIDR_REP, .service = mad->service, .answer = reason};
	return (struct cm_mad){.message = CM_REJ, .about = CM_ABOUT_REQ, .reason = reason};
}

static void machine_refuse(struct machine *m, const struct cm_address *a, const struct cm_mad *mad, uint16_t reason)
{
	send_stateless(m, a, mad, refusal_of(mad, reason));
}

bool machine_refusal(const uint8_t bytes[CM_MAD_BYTES], uint8_t answer[CM_MAD_BYTES])
{
	struct cm_mad mad, no;

	if (cm_mad_parse(&mad, bytes))
		return false;
	switch (mad.message) {
	case CM_REQ:
		no = refusal_of(&mad, CM_REASON_INVALID_SERVICE);
		break;
	case CM_SIDR_REQ:
		no = refusal_of(&mad, CM_SIDR_UNSUPPORTED);
		break;
	case CM_REP:
		no = (struct cm_mad){.message = CM_REJ, .about = CM_ABOUT_REP, .reason = CM_REASON_INVALID_ID};
		break;
	case CM_DREQ:
		no = (struct cm_mad){.message = CM_DREP};
		break;
	default:
		return false;
	}
	encode_stateless(&mad, no, answer);
	return true;
}

/* Passes a request to ops->request(). 0, or its result; the caller then rejects or holds the connection. */
static int machine_ask(struct connection *c, const struct cm_mad *mad)
{
	int verdict;

	c->state = mad->message == CM_REQ ? CM_REQ_RECEIVED : CM_SIDR_REQ_RECEIVED;
	verdict = c->machine->ops->request(c, mad, &c->user);
	if (!verdict) {
		connection_last_words(c);
		connection_until(c, NEVER);
	}
	return verdict;
}

static void turn_away(struct connection *c, const struct cm_mad *mad, int verdict)
{
	bool is_req = mad->message == CM_REQ;

	if (verdict == -ENOENT)
		verdict = is_req ? (int)CM_REASON_INVALID_SERVICE : (int)CM_SIDR_UNSUPPORTED;
	if (verdict > 0)
		machine_refuse(c->machine, &c->address, mad, (uint16_t)verdict);
	connection_close(c);
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

/* Handlers by state and message; a message without a handler is dropped. */
static handler *const on_message[CM_STATES][CM_MESSAGES] = {
	[CM_REQ_SENT] = {ON(MRA) = wait_longer, ON(REJ) = refused, ON(REP) = machine_replied},
	[CM_REQ_HELD] = {ON(REQ) = machine_ask_again},
	[CM_REQ_RECEIVED] = {ON(REQ) = delay_req, ON(REJ) = refused},
	[CM_REP_SENT] = {ON(REQ) = repeat, ON(MRA) = wait_longer, ON(REJ) = refused, ON(RTU) = machine_established,
			 ON(DREQ) = machine_disconnected},
	[CM_REP_RECEIVED] = {ON(REP) = delay_rep, ON(REJ) = refused},
	[CM_ESTABLISHED] = {ON(REP) = repeat, ON(REJ) = unknown_to_peer, ON(DREQ) = machine_disconnected,
			    ON(DREP) = connection_gone, ON(LAP) = no_alternate},
	[CM_DREQ_SENT] = {ON(DREQ) = crossed, ON(DREP) = released, ON(REJ) = unknown_to_peer},
	[CM_DREQ_RECEIVED] = {},
	[CM_REJ_SENT] = {ON(REQ) = repeat, ON(REP) = repeat},
	[CM_TIMEWAIT] = {ON(REQ) = stale, ON(DREQ) = answer_again},
	[CM_SIDR_REQ_SENT] = {ON(SIDR_REP) = machine_found},
	[CM_SIDR_REQ_HELD] = {ON(SIDR_REQ) = machine_ask_again},
	[CM_SIDR_REP_SENT] = {ON(SIDR_REQ) = repeat},
};

/* ---- messages that start a connection ---- */

/* Asks if the peer is still connected, by a DREQ with a wrong QPN. A connected peer drops it; a peer without this
 * connection answers any DREQ with a DREP, both uroce and the kernel. */
static void ask_whether_connected(struct connection *c)
{
	struct cm_mad dreq = {.message = CM_DREQ, .local_id = c->id, .remote_id = c->remote_id};
	uint8_t bytes[CM_MAD_BYTES];

	c->challenge = c->challenge ?: machine_transaction(c->machine);
	dreq.transaction = c->challenge;
	dreq.qpn = ~c->remote_qpn & 0xffffff;
	cm_mad_encode(&dreq, bytes);
	connection_transmit(c, bytes);
}

/* 12.9.8.3.1: a REQ names a remote QPN that is already connected here. Either the old connection is gone at the peer,
 * or the REQ is forged. So the peer is asked, as RFC 5961 does for a reset, and the REQ is rejected as stale
 * meanwhile. An old connection that is not in ESTABLISHED only loses its QPN entry. */
static bool machine_is_stale(struct machine *m, const struct cm_address *a, const struct cm_mad *req)
{
	struct connection *c = find_by_qpn(m, a, req);

	if (!c)
		return false;
	if (c->state == CM_ESTABLISHED) {
		ask_whether_connected(c);
		return true;
	}
	list_remove(&c->qpn);
	c->remote_qpn = 0;
	return false;
}

/* True if the connection is kept only to answer repeated requests, and this is a new request: the peer uses the id
 * again. */
static bool is_spent(const struct connection *c, const struct cm_mad *mad)
{
	return (c->state == CM_REJ_SENT || c->state == CM_TIMEWAIT || c->state == CM_SIDR_REP_SENT) &&
	       c->request != mad->transaction;
}

/* Frees the connection, to make room for others. Its user is told that the peer has given up. */
static void machine_evict(struct connection *c, uint64_t now)
{
	if (c->state == CM_REQ_RECEIVED || c->state == CM_REP_SENT)
		refused(c, &(struct cm_mad){.message = CM_REJ, .about = CM_ABOUT_OTHER, .reason = CM_REASON_TIMEOUT},
			now);
	else
		connection_idle(c);
}

/* The connection of a repeated request, or NULL for a new one. */
static struct connection *find_requested(struct machine *m, const struct cm_address *a, const struct cm_mad *mad)
{
	struct connection *c = find_by_remote(m, a, mad->local_id);

	if (c && (c->state >= CM_SIDR_REQ_SENT) == (mad->message == CM_REQ))
		return NULL; /* REQ and SIDR_REQ ids are separate number spaces */
	if (c && is_spent(c, mad)) {
		list_remove(&c->remote);
		return NULL;
	}
	return c;
}

static struct connection *open_requested(struct machine *m, const struct cm_address *a, const struct cm_mad *mad,
					 uint64_t now) REQUIRES(m->lock)
{
	bool is_req = mad->message == CM_REQ;
	struct connection *c = connection_open(m, a, NULL);

	if (!c)
		return NULL;
	c->is_passive = true;
	c->is_proven = sources_is_proven(&m->sources, &a->remote, now);
	c->credit = CM_AMPLIFICATION;
	c->transaction = c->request = mad->transaction;
	if (is_req) {
		c->timeout = cm_time(min_of(max_of(mad->local_timeout, TIMEOUT_LEAST), CM_RESPONSE_TIMEOUT));
		c->retries = mad->max_retries;
		c->remote_guid = mad->ca_guid;
	}
	connection_know(c, mad->local_id, is_req ? mad->qpn : 0);
	age_set(c, CM_AGE_HALF_OPEN);
	return c;
}

static void connection_hear_again(struct connection *c, const struct cm_mad *mad, uint64_t now)
{
	handler *handle = on_message[c->state][mad->message - CM_FIRST];

	c->credit += CM_AMPLIFICATION;
	if (handle)
		handle(c, mad, now);
}

static void machine_begin(struct machine *m, const struct cm_address *a, const struct cm_mad *mad, uint64_t now)
	REQUIRES(m->lock)
{
	struct connection *c = find_requested(m, a, mad), *old;
	int verdict;

	if (c) {
		connection_hear_again(c, mad, now);
		return;
	}
	if (!mad->local_id)
		return;
	if (mad->message == CM_REQ && machine_is_stale(m, a, mad)) {
		machine_refuse(m, a, mad, CM_REASON_STALE);
		return;
	}
	if (!machine_admit(m, a, mad, now))
		return;
	while ((old = admission_surplus(m)))
		machine_evict(old, now);
	c = open_requested(m, a, mad, now);
	if (!c)
		return;
	verdict = machine_ask(c, mad);
	if (verdict == -ENOENT)
		machine_hold(c, mad, now + CM_PATIENCE);
	else if (verdict)
		turn_away(c, mad, verdict);
}

/* ---- messages that find no connection ---- */

static void no_such_connection(struct machine *m, const struct cm_address *a, const struct cm_mad *mad, uint64_t now)
{
	if (mad->message == CM_DREP)
		machine_take_proof(m, a, mad, now);
	else if (mad->message == CM_DREQ)
		send_stateless(m, a, mad, (struct cm_mad){.message = CM_DREP});
	else if (mad->message == CM_REP)
		send_stateless(
			m, a, mad,
			(struct cm_mad){.message = CM_REJ, .about = CM_ABOUT_REP, .reason = CM_REASON_INVALID_ID});
	else if (mad->message == CM_LAP)
		send_stateless(m, a, mad, (struct cm_mad){.message = CM_APR, .answer = CM_PATH_INVALID_ID});
}

/* The connection of a request that the peer gives up before it got an answer, and so without our id. The REJ has the
 * peer's own id and the transaction ID. */
static struct connection *find_given_up(struct machine *m, const struct cm_address *a, const struct cm_mad *rej)
{
	struct connection *c = find_by_remote(m, a, rej->local_id);

	if (!c || (c->state != CM_REQ_RECEIVED && c->state != CM_REP_SENT) || c->request != rej->transaction)
		return NULL;
	return c;
}

static struct connection *find_rejected(struct machine *m, const struct cm_address *a, const struct cm_mad *rej)
{
	if (rej->remote_id || rej->reason != CM_REASON_TIMEOUT)
		return machine_find(m, a, rej);
	return find_given_up(m, a, rej);
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
		no_such_connection(m, address, &mad, now);
		return;
	}
	if (mad.remote_id || mad.message == CM_SIDR_REP)
		connection_prove(c, now); /* only a receiver of our message knows this id */
	handle = on_message[c->state][mad.message - CM_FIRST];
	if (handle)
		handle(c, &mad, now);
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
		connection_send_once(
			c, (struct cm_mad){.message = CM_REJ, .about = CM_ABOUT_OTHER, .reason = CM_REASON_TIMEOUT});
		connection_rest(c, now);
		connection_tell(c, CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
		break;
	default:
		connection_tell(c, CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
		connection_idle(c);
	}
}

/* Repeats the message, or gives up. */
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
	/* before the message is sent: hosts limit the rate of ICMP errors, and the socket of the message does not get
	 * them */
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

/* Handlers for the death of a peer, as if it had sent a REJ while the connection is made, or a DREP or DREQ later. */
static handler *const on_death[CM_STATES] = {
	[CM_REQ_SENT] = refused,     [CM_REQ_RECEIVED] = refused, [CM_REP_SENT] = refused,
	[CM_REP_RECEIVED] = refused, [CM_ESTABLISHED] = released, [CM_DREQ_SENT] = released,
};

void machine_bury(struct machine *m, uint16_t slot, uint64_t now)
{
	struct cm_mad rej = {.message = CM_REJ, .about = CM_ABOUT_OTHER, .reason = CM_REASON_CONSUMER};
	struct connection *c;

	for (uint32_t i = 0; (c = pool_at(&m->connections, i)); i++)
		if (c->state != CM_FREE && c->is_watched && c->remote_id >> ID_BITS == slot && on_death[c->state])
			on_death[c->state](c, on_death[c->state] == refused ? &rej : NULL, now);
}

/* ---- an absent peer ---- */

void machine_absent(struct machine *m, uint32_t id, int err, uint64_t now)
{
	struct connection *c = find_by_id(m, id);

	if (!c || !machine_asks(c) || c->remote_id)
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

void machine_last_words(struct machine *m)
{
	struct connection *c;

	for (uint32_t i = 0; (c = pool_at(&m->connections, i)); i++)
		if (c->state != CM_FREE)
			connection_last_words(c);
}

uint64_t machine_deadline(struct machine *m)
{
	return timers_next(&m->timers);
}

int machine_init(struct machine *m, const struct machine_ops *ops, uint16_t slot, uint64_t seed)
{
	int err;

	/* the lock is not initialized: the caller may hold it, and other threads may wait for it */
	lock_assert_unshared(&m->lock);
	lock_set_rank(&m->lock, RANK_CM);
	m->slot = slot;
	m->key = (struct siphash_key){{seed, ~seed}};
	m->transactions = 0;
	m->alive = 0;
	for (uint32_t i = 0; i < CM_BUCKETS; i++) {
		list_init(&m->by_remote[i]);
		list_init(&m->by_qpn[i]);
	}
	for (uint32_t i = 0; i < CM_AGES; i++) {
		list_init(&m->aging[i].oldest);
		m->aging[i].count = 0;
	}
	m->unproven = 0;
	sources_init(&m->sources, &m->key);
	timers_init(&m->timers);
	err = pool_init(&m->connections, sizeof(struct connection), CONNECTION_LIMIT);
	pool_rest(&m->connections, RESTING);
	m->ops = err ? NULL : ops;
	return err;
}

void machine_fini(struct machine *m)
{
	pool_fini(&m->connections);
	timers_fini(&m->timers);
}
