/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of a connection's user, and the states that allow them. */
#include "cm/calls.h"

#include <errno.h>

#include "cm/comm_id.h"
#include "cm/connection.h"
#include "cm/state.h"
#include "cm/tuned.h"

int connection_request(struct connection *c, struct cm_mad *req, uint64_t now)
{
	if (c->state != CM_IDLE)
		return -EINVAL;
	req->message = CM_REQ;
	c->local_qpn = req->qpn;
	c->timeout = cm_time(req->remote_timeout);
	c->retries = req->max_retries;
	connection_send(c, req);
	connection_await(c, CM_REQ_SENT, now);
	return 0;
}

int connection_accept(struct connection *c, struct cm_mad *rep, uint64_t now)
{
	if (c->state != CM_REQ_RECEIVED)
		return -EINVAL;
	rep->message = CM_REP;
	c->local_qpn = rep->qpn;
	connection_send(c, rep);
	connection_await(c, CM_REP_SENT, now);
	return 0;
}

int connection_reject(struct connection *c, struct cm_mad *rej, uint64_t now)
{
	if (c->state != CM_REQ_RECEIVED && c->state != CM_REP_RECEIVED)
		return -EINVAL;
	rej->message = CM_REJ;
	rej->about = c->state == CM_REQ_RECEIVED ? CM_ABOUT_REQ : CM_ABOUT_REP;
	connection_send(c, rej);
	c->interval = 2 * CM_FIRST_RETRY;
	c->give_up = now + c->timeout;
	connection_enter(c, CM_REJ_SENT, c->delayed ? now + CM_FIRST_RETRY : c->give_up);
	return 0;
}

int connection_ready(struct connection *c, struct cm_mad *rtu, uint64_t now)
{
	if (c->state != CM_REP_RECEIVED)
		return -EINVAL;
	rtu->message = CM_RTU;
	connection_send(c, rtu);
	connection_enter(c, CM_ESTABLISHED, NEVER);
	return 0;
}

int connection_established(struct connection *c)
{
	if (c->state != CM_REP_SENT)
		return -EINVAL;
	connection_enter(c, CM_ESTABLISHED, NEVER);
	c->is_proven = true;
	connection_tell(c, CM_EVENT_ESTABLISHED, 0, NULL);
	return 0;
}

int connection_disconnect(struct connection *c, struct cm_mad *dreq, uint64_t now)
{
	if (c->state == CM_DREQ_RECEIVED) {
		dreq->message = CM_DREP;
		connection_send(c, dreq);
		connection_rest(c, now);
		return 0;
	}
	if (c->state != CM_ESTABLISHED)
		return -EINVAL;
	c->transaction = machine_transaction(c->machine);
	dreq->message = CM_DREQ;
	dreq->qpn = c->remote_qpn;
	c->retries = DREQ_RETRIES;
	connection_send(c, dreq);
	connection_await(c, CM_DREQ_SENT, now);
	return 0;
}

int connection_lookup(struct connection *c, struct cm_mad *sidr_req, uint64_t now)
{
	if (c->state != CM_IDLE)
		return -EINVAL;
	sidr_req->message = CM_SIDR_REQ;
	connection_send(c, sidr_req);
	connection_await(c, CM_SIDR_REQ_SENT, now);
	return 0;
}

int connection_answer(struct connection *c, struct cm_mad *sidr_rep, uint64_t now)
{
	if (c->state != CM_SIDR_REQ_RECEIVED)
		return -EINVAL;
	sidr_rep->message = CM_SIDR_REP;
	connection_send(c, sidr_rep);
	connection_enter(c, CM_SIDR_REP_SENT, now + c->timeout);
	return 0;
}

/* ---- the user releases a connection ---- */

static void close_silently(struct connection *c, uint64_t now)
{
	connection_idle(c);
}

static void connection_give_up(struct connection *c, uint64_t now)
{
	struct cm_mad rej = {.message = CM_REJ, .about = CM_ABOUT_OTHER, .reason = CM_REASON_TIMEOUT};

	connection_send(c, &rej);
	connection_idle(c);
}

static void connection_refuse(struct connection *c, uint64_t now)
{
	connection_reject(c, &(struct cm_mad){.reason = CM_REASON_CONSUMER}, now);
}

static void refuse_lookup(struct connection *c, uint64_t now)
{
	connection_answer(c, &(struct cm_mad){.answer = CM_SIDR_REJECT}, now);
}

static void disconnect(struct connection *c, uint64_t now)
{
	connection_disconnect(c, &(struct cm_mad){0}, now);
}

/* Other states end without an action here. REP_SENT is one of them: the peer may be connected already, and a REJ would
 * not end that; so its RTU is answered by a DREQ. */
static void (*const on_release[CM_STATES])(struct connection *c, uint64_t now) = {
	[CM_IDLE] = close_silently,
	[CM_REQ_SENT] = connection_give_up,
	[CM_REQ_RECEIVED] = connection_refuse,
	[CM_REP_RECEIVED] = connection_refuse,
	[CM_ESTABLISHED] = disconnect,
	[CM_DREQ_RECEIVED] = disconnect,
	[CM_SIDR_REQ_SENT] = close_silently,
	[CM_SIDR_REQ_RECEIVED] = refuse_lookup,
};

void connection_release(struct connection *c, uint64_t now)
{
	c->user = NULL;
	if (on_release[c->state])
		on_release[c->state](c, now);
}
