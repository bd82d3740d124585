/* SPDX-License-Identifier: BSD-2-Clause */
#include "loop/target.h"

#include <stdlib.h>
#include <string.h>

#include "object/keep.h"

#define GUESTS_REAP 64 /* so often, those whose hosts have died go */

/* ---- the host ---- */

void target_note(struct qp *qp)
{
	if (qp->is_kept)
		keep_write(qp->keep, &(struct kept){
					     .state = qp->state,
					     .attr = qp->attr,
					     .path = qp->path,
					     .away = qp->away,
					     .expected = qp->resp.expected,
					     .msn = qp->resp.msn,
					     .failed = qp->failed,
				     });
}

static void pass(struct loop *l, const struct qp *qp, uint8_t slot, const struct packet *p, const union ibv_gid *from,
		 bool again) REQUIRES(qp->lock)
{
	const struct away *a = &qp->away;
	const struct handover_pass h = {
		.domain = qp->domain,
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
		.host = l->slot.number,
	};

	handover_pass(&l->handover, &l->slot, slot, &h, p, from);
}

/* The responder goes to where this packet wants it. */
static void target_move(struct loop *l, struct qp *qp, uint8_t to, const struct packet *p) REQUIRES(qp->lock)
{
	struct away *a = &qp->away;
	uint32_t msn = a->owner ? a->msn : qp->resp.msn;

	if (!a->incarnation)
		a->incarnation = hca_random(&l->hca) | 1;
	a->epoch++;
	a->owner = to;
	a->begin = a->expected = p->psn;
	a->begin_msn = a->msn = msn;
	a->rests = a->wanted = false;
	if (!to)
		engine_resume(qp, p->psn, msn);
	target_note(qp);
}

/* The owner's process has died: what it has reported is all that was acknowledged. If it was in the middle of a
 * message, the rest of that is refused here, as it has lost its SRQ. */
static void recall(struct loop *l, struct qp *qp) REQUIRES(qp->lock)
{
	struct away *a = &qp->away;

	if (slot_is_alive(a->owner)) {
		l->handover.dead = 0; /* another has its number */
		return;
	}
	engine_resume(qp, a->expected, a->msn);
	a->owner = 0;
	a->epoch++;
	target_note(qp);
}

static void ask_owner(struct loop *l, struct qp *qp) REQUIRES(qp->lock)
{
	const struct handover_ask ask = {
		.incarnation = qp->away.incarnation, .qpn = qp->base.qp_num, .slot = l->slot.number};

	qp->away.wanted = true;
	handover_ask(&l->handover, &l->slot, qp->away.owner, &ask);
}

/* To a slot, 0: to our own engine. True: it is not for that. */
static bool target_give(struct loop *l, const struct qp *qp, uint8_t to, const struct packet *p,
			const union ibv_gid *from, bool again) REQUIRES(qp->lock)
{
	if (to)
		pass(l, qp, to, p, from, again);
	return to;
}

/* Whom the SRQ is of; nobody's is ours to refuse. */
static uint8_t owner_of(const struct loop *l, const struct qp *qp, uint32_t srqn) REQUIRES(qp->lock)
{
	uint8_t slot = srqn >> 16;

	if (slot == l->slot.number || slot == qp->away.owner)
		return slot == l->slot.number ? 0 : slot;
	return slot && slot_is_alive(slot) ? slot : 0;
}

bool target_route(struct loop *l, struct qp *qp, const struct packet *p, const union ibv_gid *from)
{
	uint32_t flags = opcode_info[p->opcode].flags;
	struct away *a = &qp->away;
	psn_t expected;
	bool rests;
	int32_t ahead;
	uint8_t to;

	if (likely(!a->owner && p->srqn >> 16 == l->slot.number))
		return false;
	if (!(flags & IS_REQUEST) || !is_xrc_target(qp))
		return false;
	if (!engine_admits(qp, p, from))
		return true;
	if (unlikely(a->owner && a->owner == l->handover.dead))
		recall(l, qp);
	to = owner_of(l, qp, p->srqn);
	if (to == a->owner)
		return target_give(l, qp, to, p, from, false);
	expected = a->owner ? a->expected : qp->resp.expected;
	rests = a->owner ? a->rests : engine_rests(qp);
	ahead = psn_diff(p->psn, expected);
	if (ahead <
	    0) { /* data are asked for where they are; all else is acknowledged by whoever is the last to know */
		bool answered = flags & (IS_READ | IS_ATOMIC);

		return target_give(l, qp, answered ? to : a->owner, p, from, answered);
	}
	if (ahead == 0 && rests && flags & IS_FIRST) {
		target_move(l, qp, to, p);
		return target_give(l, qp, to, p, from, false);
	}
	if (ahead == 0 && !(flags & IS_FIRST)) /* it names another SRQ than its message began with: refused there */
		return target_give(l, qp, a->owner, p, from, false);
	if (a->owner)
		ask_owner(l, qp); /* and until it rests, nothing can be said; a report may be lost, too */
	else if (ahead > 0)
		return false; /* a gap like any other */
	else
		engine_ask_from(qp, expected);
	return true;
}

void target_heard(struct loop *l, const struct handover_report *r, uint64_t now)
{
	struct qp *qp = hca_find_qp(&l->hca, r->qpn);
	struct away *a;

	if (!qp)
		return;
	lock_take_over(&qp->lock);
	a = &qp->away;
	if (a->owner && a->owner == r->slot && a->incarnation == r->incarnation && a->epoch == r->epoch) {
		a->expected = psn(r->expected);
		a->msn = r->msn;
		a->rests = r->rests;
		if (r->is_failed)
			engine_fail_with(qp, r->failed);
		else if (a->wanted && a->rests) {
			a->wanted = false;
			engine_ask_from(qp, a->expected);
		}
		target_note(qp);
		run_qp(l, qp, now, false);
	}
	lock_drop(&qp->lock);
}

/* ---- the owner ---- */

/* Those whose hosts have died. */
static void reap(struct loop *l)
{
	for (uint32_t i = l->guests; i-- > 0;) {
		struct qp *guest = l->guest[i];

		if (slot_is_alive(guest->away.host) || steering_heir(&l->steering, guest->base.qp_num))
			continue;
		l->guest[i] = l->guest[--l->guests];
		qp_destroy(guest);
	}
}

static struct qp *make_guest(struct loop *l, uint32_t qpn)
{
	static const struct ibv_qp_cap none;
	struct qp **more, *guest;

	if (l->guests % GUESTS_REAP == GUESTS_REAP - 1)
		reap(l);
	more = realloc(l->guest, (l->guests + 1) * sizeof(struct qp *));
	if (!more)
		return NULL;
	l->guest = more;
	guest = qp_create(&l->hca, NULL, NULL, NULL, NULL, IBV_QPT_XRC_RECV, &none, false);
	if (!guest)
		return NULL;
	lock_take(&guest->lock);
	guest->base.qp_num = qpn; /* so that nobody finds it by number but us, and completions say whose it is */
	guest->is_guest = guest->closed = true;
	lock_drop(&guest->lock);
	l->guest[l->guests++] = guest;
	return guest;
}

static struct qp *find_guest(struct loop *l, uint32_t qpn)
{
	for (uint32_t i = 0; i < l->guests; i++)
		if (l->guest[i]->base.qp_num == qpn)
			return l->guest[i];
	return NULL;
}

/* What each step takes: an XRC target has no more. */
static const struct {
	enum ibv_qp_state to;
	int mask;
} step[] = {
	{IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
	{IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			      IBV_QP_MIN_RNR_TIMER},
	{IBV_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_SQ_PSN},
	{IBV_QPS_SQD, 0},
};

int target_connect(struct qp *qp, const struct ibv_qp_attr *attr, enum ibv_qp_state to)
{
	struct ibv_qp_attr a = *attr;
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(step) && step[i].to <= to; i++) {
		a.qp_state = step[i].to;
		err = engine_modify(qp, &a, IBV_QP_STATE | step[i].mask, 0);
	}
	return err;
}

/* As the host's QP once was. 0 or -errno. */
static int connect_guest(struct qp *guest, const struct handover_pass *h) REQUIRES(guest->lock)
{
	const struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET},
				 attr = {
					 .port_num = 1,
					 .qp_access_flags = h->access,
					 .path_mtu = h->path_mtu,
					 .dest_qp_num = h->dest_qpn,
					 .rq_psn = h->begin,
					 .max_dest_rd_atomic = h->max_dest_rd_atomic,
					 .min_rnr_timer = h->min_rnr_timer,
				 };

	return engine_modify(guest, &reset, IBV_QP_STATE, 0) ?: target_connect(guest, &attr, IBV_QPS_RTR);
}

/* False: there is nothing to begin with. */
static bool target_begin(struct loop *l, struct qp *guest, const struct handover_pass *h) REQUIRES(guest->lock)
{
	struct away *a = &guest->away;

	if (a->incarnation != h->incarnation) {
		if (h->again || connect_guest(guest, h))
			return false;
		guest->domain = h->domain;
		a->incarnation = h->incarnation;
		a->epoch = h->epoch - 1;
	}
	if (!h->again && a->epoch != h->epoch) {
		engine_resume(guest, psn(h->begin), h->begin_msn);
		a->epoch = h->epoch;
	}
	a->host = h->host;
	guest->path = (struct path){
		.sgid = h->sgid,
		.dgid = h->dgid,
		.flow_label = h->flow_label,
		.traffic_class = h->traffic_class,
		.hop_limit = h->hop_limit,
	};
	for (uint32_t i = 0; i < l->ports; i++)
		if (!memcmp(&l->port[i]->link->gid, &h->sgid, sizeof(h->sgid)))
			guest->path.port = l->port[i];
	return true;
}

struct qp *target_guest(struct loop *l, const struct handover_pass *h)
{
	struct qp *guest = find_guest(l, h->qpn) ?: make_guest(l, h->qpn);

	if (!guest)
		return NULL;
	lock_take(&guest->lock);
	if (!target_begin(l, guest, h)) {
		lock_drop(&guest->lock);
		return NULL;
	}
	lock_hand_over(&guest->lock);
	return guest;
}

static void target_report(struct loop *l, struct qp *guest) REQUIRES(guest->lock)
{
	const struct handover_report r = {
		.incarnation = guest->away.incarnation,
		.epoch = guest->away.epoch,
		.qpn = guest->base.qp_num,
		.slot = l->slot.number,
		.expected = guest->resp.expected.v,
		.msn = guest->resp.msn,
		.rests = engine_rests(guest),
		.is_failed = guest->state == IBV_QPS_ERR,
		.failed = guest->failed,
	};

	handover_report(&l->handover, &l->slot, guest->away.host, &r);
}

void target_run(struct loop *l, struct qp *qp, uint64_t now)
{
	bool rests;

	if (qp->is_guest) {
		rests = engine_rests(qp);
		target_report(l, qp);
		handover_send(&l->handover, &l->slot);
		run_qp(l, qp, now, false);
		if (engine_rests(qp) != rests)
			target_report(l, qp);
	} else {
		target_note(qp);
		run_qp(l, qp, now, true);
	}
}

void target_asked(struct loop *l, const struct handover_ask *a)
{
	struct qp *guest = find_guest(l, a->qpn);

	if (!guest)
		return;
	lock_take(&guest->lock);
	if (guest->away.incarnation == a->incarnation) {
		guest->away.host = a->slot;
		target_report(l, guest);
	}
	lock_drop(&guest->lock);
}

/* The guest whose responder is that of this QP now. */
static struct qp *find_present(struct loop *l, const struct qp *heir) REQUIRES(heir->lock)
{
	struct qp *guest = find_guest(l, heir->base.qp_num);
	bool present;

	if (!guest)
		return NULL;
	lock_take(&guest->lock);
	present = guest->away.incarnation == heir->away.incarnation && guest->away.epoch == heir->away.epoch;
	lock_drop(&guest->lock);
	return present ? guest : NULL;
}

bool target_absorb(struct loop *l, struct qp *heir)
{
	struct qp *guest = find_present(l, heir);
	struct responder old = heir->resp;

	if (!guest)
		return false;
	lock_take(&guest->lock);
	heir->resp = guest->resp;
	guest->resp = old;
	lock_drop(&guest->lock);
	if (guest->state == IBV_QPS_ERR)
		engine_fail_with(heir, guest->failed);
	for (uint32_t i = 0; i < l->guests; i++)
		if (l->guest[i] == guest)
			l->guest[i--] = l->guest[--l->guests];
	qp_destroy(guest);
	return true;
}

void target_forget_port(struct loop *l, const struct port *port)
{
	for (uint32_t i = 0; i < l->guests; i++) {
		struct qp *guest = l->guest[i];

		lock_take(&guest->lock);
		if (guest->path.port == port)
			guest->path.port = NULL;
		lock_drop(&guest->lock);
	}
}

void target_fini(struct loop *l)
{
	while (l->guests)
		qp_destroy(l->guest[--l->guests]);
	free(l->guest);
}
