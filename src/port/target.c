/* SPDX-License-Identifier: BSD-2-Clause */
#include "port/target.h"

#include <stdlib.h>
#include <string.h>

#include "base/hooks.h"
#include "base/qpn.h"
#include "engine/engine.h"
#include "host/handover.h"
#include "host/slot.h"
#include "object/early.h"
#include "port/run.h"
#include "port/tuned.h"

/* ---- the owner ---- */

static void delegation_pass(struct loop *l, const struct qp *qp, uint16_t slot, const struct packet *p,
			    const union ibv_gid *from, bool again) REQUIRES(qp->lock)
{
	const struct xrc_delegation *a = &qp->xrc->delegation;
	const struct handover_pass h = {
		.domain = qp->xrc->domain,
		.incarnation = a->incarnation,
		.epoch = a->epoch,
		.qpn = qp->base.qp_num,
		.dest_qpn = qp->attr.dest_qp_num,
		.begin = a->begin.v,
		.begin_msn = a->begin_msn,
		.sgid = qp->path.sgid,
		.dgid = qp->path.dgid,
		.flow_label = qp->path.flow_label,
		.traffic_class = qp->path.traffic_class,
		.hop_limit = qp->path.hop_limit,
		.access = qp->attr.qp_access_flags,
		.path_mtu = qp->attr.path_mtu,
		.min_rnr_timer = qp->attr.min_rnr_timer,
		.max_dest_rd_atomic = qp->attr.max_dest_rd_atomic,
		.again = again,
		.migration = qp->attr.path_mig_state,
	};

	handover_pass(&l->handover, slot, &h, p, from);
}

/* Moves the responder to the process that this packet needs. */
static void delegation_move(struct loop *l, struct qp *qp, uint16_t to, const struct packet *p) REQUIRES(qp->lock)
{
	struct xrc_delegation *a = &qp->xrc->delegation;
	uint32_t msn = a->to ? a->msn : qp->resp.msn;

	if (!a->incarnation)
		a->incarnation = hca_random(&l->hca) | 1;
	a->epoch++;
	a->to = to;
	a->begin = a->expected = p->psn;
	a->begin_msn = a->msn = msn;
	a->rests = a->wanted = false;
	if (!to)
		engine_resume(qp, p->psn, msn);
}

/* Takes the responder back from a process that has died: its last report has all that was acknowledged. The rest of a
 * message that it was receiving is refused here, as the message has lost its SRQ. */
static void delegation_recall(struct loop *l, struct qp *qp) REQUIRES(qp->lock)
{
	struct xrc_delegation *a = &qp->xrc->delegation;

	if (slot_is_alive(a->to)) {
		l->handover.dead = l->handover.heard_out = 0; /* another process has the slot */
		return;
	}
	engine_resume(qp, a->expected, a->msn);
	a->to = 0;
	a->epoch++;
}

static void delegation_ask(struct loop *l, struct qp *qp) REQUIRES(qp->lock)
{
	const struct handover_ask ask = {.incarnation = qp->xrc->delegation.incarnation, .qpn = qp->base.qp_num};

	qp->xrc->delegation.wanted = true;
	handover_ask(&l->handover, qp->xrc->delegation.to, &ask);
}

/* Passes the packet to slot `to`; 0: to this process's engine. True: the packet is not for this engine. */
static bool delegation_give(struct loop *l, const struct qp *qp, uint16_t to, const struct packet *p,
			    const union ibv_gid *from, bool again) REQUIRES(qp->lock)
{
	if (to)
		delegation_pass(l, qp, to, p, from, again);
	return to;
}

/* The slot of the process with the SRQ; 0: this process, which also refuses packets for an SRQ that no process has. */
static uint16_t process_of_srq(const struct loop *l, const struct qp *qp, uint32_t srqn) REQUIRES(qp->lock)
{
	uint16_t slot = hca_owner((struct hca *)&l->hca, srqn);

	if (slot == l->slot.number || slot == qp->xrc->delegation.to)
		return slot == l->slot.number ? 0 : slot;
	return slot && slot_is_alive(slot) ? slot : 0;
}

bool target_route(struct loop *l, struct qp *qp, const struct packet *p, const union ibv_gid *from)
{
	uint32_t flags = opcode_info[p->opcode].flags;
	struct xrc_delegation *a;
	psn_t expected;
	bool rests;
	int32_t ahead;
	uint16_t to;

	if (!(flags & IS_REQUEST) || !is_xrc_target(qp))
		return false;
	a = &qp->xrc->delegation;
	if (likely(!a->to && hca_has_number(&l->hca, p->srqn)))
		return false;
	if (!engine_admits(qp, p, from))
		return true;
	if (unlikely(a->to && a->to == l->handover.heard_out))
		delegation_recall(l, qp);
	to = process_of_srq(l, qp, p->srqn);
	if (to == a->to)
		return delegation_give(l, qp, to, p, from, false);
	expected = a->to ? a->expected : qp->resp.expected;
	rests = a->to ? a->rests : engine_rests(qp);
	ahead = psn_diff(p->psn, expected);
	if (ahead >= (int32_t)SELECTIVE_PSNS)
		return true; /* no peer is so far ahead */
	/* A duplicate: data are requested from the process that has them; all else is acknowledged by the last
	 * delegate. */
	if (ahead < 0) {
		bool answered = flags & (IS_READ | IS_ATOMIC);

		return delegation_give(l, qp, answered ? to : a->to, p, from, answered);
	}
	if (ahead == 0 && rests && flags & IS_FIRST) {
		delegation_move(l, qp, to, p);
		return delegation_give(l, qp, to, p, from, false);
	}
	/* The packet names another SRQ than the first of its message, so the delegate refuses it. */
	if (ahead == 0 && !(flags & IS_FIRST))
		return delegation_give(l, qp, a->to, p, from, false);
	/* The responder cannot move before the delegate rests; and a report may be lost. */
	if (a->to)
		delegation_ask(l, qp);
	else if (ahead > 0)
		return false; /* an ordinary gap */
	else
		engine_ask_from(qp, expected);
	return true;
}

void target_heard(struct loop *l, const struct handover_report *r, uint64_t now)
{
	struct qp *qp = hca_find_qp(&l->hca, r->qpn);
	struct xrc_delegation *a;

	if (!qp)
		return;
	lock_take_over(&qp->lock);
	if (!is_xrc_target(qp))
		goto out;
	a = &qp->xrc->delegation;
	if (a->to && a->to == r->slot && a->incarnation == r->incarnation && a->epoch == r->epoch) {
		a->expected = psn(r->expected);
		a->msn = r->msn;
		a->rests = r->rests;
		if (r->is_failed)
			engine_fail_with(qp, r->failed);
		else if (a->wanted && a->rests) {
			a->wanted = false;
			engine_ask_from(qp, a->expected);
		}
		run_qp(l, qp, now, false);
	}
out:
	lock_drop(&qp->lock);
}

/* ---- the process with the SRQ ---- */

/* Destroys the delegates whose owners have died. */
static void delegates_reap(struct loop *l)
{
	for (uint32_t i = l->delegates; i-- > 0;) {
		struct qp *delegate = l->delegate[i];

		if (slot_is_alive(qpn_slot(delegate->base.qp_num)))
			continue;
		l->delegate[i] = l->delegate[--l->delegates];
		qp_destroy(delegate);
	}
}

static struct qp *delegate_create(struct loop *l, uint32_t qpn)
{
	static const struct ibv_qp_cap none;
	struct qp **more, *delegate;

	if (l->delegates % DELEGATES_REAP == DELEGATES_REAP - 1)
		delegates_reap(l);
	more = realloc(l->delegate, (l->delegates + 1) * sizeof(struct qp *));
	if (!more)
		return NULL;
	l->delegate = more;
	delegate = qp_create(&l->hca, NULL, NULL, NULL, NULL, IBV_QPT_XRC_RECV, &none, false);
	if (!delegate)
		return NULL;
	lock_take(&delegate->lock);
	delegate->base.qp_num = qpn; /* so only this process finds it by number, and completions have the owner's QPN */
	delegate->xrc->is_delegate = delegate->xrc->is_closed = true;
	lock_drop(&delegate->lock);
	l->delegate[l->delegates++] = delegate;
	return delegate;
}

static struct qp *delegate_find(struct loop *l, uint32_t qpn)
{
	for (uint32_t i = 0; i < l->delegates; i++)
		if (l->delegate[i]->base.qp_num == qpn)
			return l->delegate[i];
	return NULL;
}

/* The attributes of each step to RTR, the last state that an XRC target needs. */
static const struct {
	enum ibv_qp_state to;
	int mask;
} step[] = {
	{IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
	{IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			      IBV_QP_MIN_RNR_TIMER},
};

/* Moves a delegate to RTR with the attributes of the owner's QP. 0 or -errno. */
static int delegate_connect(struct qp *delegate, const struct handover_pass *h) REQUIRES(delegate->lock)
{
	const struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_qp_attr attr = {
		.port_num = 1,
		.qp_access_flags = h->access,
		.path_mtu = h->path_mtu,
		.dest_qp_num = h->dest_qpn,
		.rq_psn = h->begin,
		.max_dest_rd_atomic = h->max_dest_rd_atomic,
		.min_rnr_timer = h->min_rnr_timer,
	};

	int err = engine_modify(delegate, &reset, IBV_QP_STATE, 0);

	for (size_t i = 0; !err && i < ARRAY_SIZE(step); i++) {
		attr.qp_state = step[i].to;
		err = engine_modify(delegate, &attr, IBV_QP_STATE | step[i].mask, 0);
	}
	return err;
}

/* Sets the delegate's path to the one in use; the owner migrates. The delegate's packets tell, as the owner's do,
 * whether there is an alternate path. */
static void delegate_take_path(struct loop *l, struct qp *delegate, const struct handover_pass *h)
	REQUIRES(delegate->lock)
{
	delegate->path = (struct path){
		.sgid = h->sgid,
		.dgid = h->dgid,
		.flow_label = h->flow_label,
		.traffic_class = h->traffic_class,
		.hop_limit = h->hop_limit,
	};
	for (uint32_t i = 0; i < l->ports; i++)
		if (!memcmp(&l->port[i]->link->gid, &h->sgid, sizeof(h->sgid)))
			delegate->path.port = l->port[i];
	delegate->attr.path_mig_state = h->migration <= IBV_MIG_ARMED ? h->migration : IBV_MIG_MIGRATED;
	if (qp_is_guarded(delegate))
		hook_set(HOOK_MIGRATION, true); /* for engine_mark() */
}

/* Prepares the delegate for a passed packet. False: the responder cannot begin. */
static bool delegate_begin(struct loop *l, struct qp *delegate, const struct handover_pass *h) REQUIRES(delegate->lock)
{
	struct xrc_delegation *a = &delegate->xrc->delegation;

	if (a->incarnation != h->incarnation) {
		if (h->again || delegate_connect(delegate, h))
			return false;
		delegate->xrc->domain = h->domain;
		a->incarnation = h->incarnation;
		a->epoch = h->epoch - 1;
	}
	if (!h->again && a->epoch != h->epoch) {
		engine_resume(delegate, psn(h->begin), h->begin_msn);
		a->epoch = h->epoch;
	}
	delegate_take_path(l, delegate, h);
	return true;
}

struct qp *target_delegate(struct loop *l, const struct handover_pass *h)
{
	struct qp *delegate = delegate_find(l, h->qpn) ?: delegate_create(l, h->qpn);

	if (!delegate)
		return NULL;
	lock_take(&delegate->lock);
	if (!delegate_begin(l, delegate, h)) {
		lock_drop(&delegate->lock);
		return NULL;
	}
	lock_hand_over(&delegate->lock);
	return delegate;
}

static void delegate_report(struct loop *l, struct qp *delegate) REQUIRES(delegate->lock)
{
	const struct handover_report r = {
		.incarnation = delegate->xrc->delegation.incarnation,
		.epoch = delegate->xrc->delegation.epoch,
		.qpn = delegate->base.qp_num,
		.slot = l->slot.number,
		.expected = delegate->resp.expected.v,
		.msn = delegate->resp.msn,
		.rests = engine_rests(delegate),
		.is_failed = delegate->state == IBV_QPS_ERR,
		.failed = delegate->failed,
	};

	handover_report(&l->handover, hca_owner(&l->hca, delegate->base.qp_num), &r);
}

void target_run(struct loop *l, struct qp *delegate, uint64_t now)
{
	bool rests = engine_rests(delegate);

	delegate_report(l, delegate);
	handover_send(&l->handover);
	run_qp(l, delegate, now, false);
	if (engine_rests(delegate) != rests)
		delegate_report(l, delegate);
}

void target_asked(struct loop *l, const struct handover_ask *a)
{
	struct qp *delegate = delegate_find(l, a->qpn);

	if (!delegate)
		return;
	lock_take(&delegate->lock);
	if (delegate->xrc->delegation.incarnation == a->incarnation)
		delegate_report(l, delegate);
	lock_drop(&delegate->lock);
}

void target_forget_port(struct loop *l, const struct port *port)
{
	for (uint32_t i = 0; i < l->delegates; i++) {
		struct qp *delegate = l->delegate[i];

		lock_take(&delegate->lock);
		if (delegate->path.port == port)
			delegate->path.port = NULL;
		lock_drop(&delegate->lock);
	}
}

void target_fini(struct loop *l)
{
	while (l->delegates)
		qp_destroy(l->delegate[--l->delegates]);
	free(l->delegate);
}
