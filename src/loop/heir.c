/* SPDX-License-Identifier: BSD-2-Clause */
#include "loop/heir.h"

#include <errno.h>

#include "loop/target.h"

/* Packets of that number come to this process. */
static int heir_inherit(struct loop *l, uint32_t qpn) REQUIRES(l->receive)
{
	int lock = steering_try(&l->steering), err;

	if (lock < 0)
		return lock;
	err = steering_inherit(&l->steering, qpn);
	for (uint32_t i = 0; !err && i < l->ports; i++)
		if (!l->port[i]->netif && !l->port[i]->raw)
			steering_mend(&l->port[i]->steered);
	steering_leave(lock);
	return err;
}

static bool has_path(const struct kept *k)
{
	return k->attr.path_mtu;
}

/* As far as it had come. An error came after RTR, or the QP never had a path. */
static enum ibv_qp_state reached(const struct kept *k)
{
	if (k->state != IBV_QPS_ERR)
		return k->state;
	return has_path(k) ? IBV_QPS_RTR : IBV_QPS_INIT;
}

static int resume(struct loop *l, struct qp *qp, const struct kept *k) REQUIRES(qp->lock, l->receive)
{
	int err = target_connect(qp, &k->attr, reached(k));

	if (err || k->state == IBV_QPS_RESET || k->state == IBV_QPS_INIT)
		return err;
	qp->away = k->away;
	engine_resume(qp, k->expected, k->msn);
	if (k->state == IBV_QPS_ERR) {
		qp->failed = k->failed;
		engine_fail(qp);
	} else if (k->away.owner == l->slot.number) {
		if (!target_absorb(l, qp))
			engine_resume(qp, k->away.expected, k->away.msn);
		qp->away.owner = 0;
		qp->away.epoch++;
	}
	return 0;
}

static int heir_take(struct loop *l, struct qp *qp, const struct kept *k) REQUIRES(l->receive)
{
	int err;

	lock_take(&qp->lock);
	err = resume(l, qp, k) ?: hca_adopt(&l->hca, qp);
	if (!err) {
		qp->is_here = qp->is_kept = true;
		qp->base.state = qp->state;
		target_note(qp);
		run_qp(l, qp, clock_now(), false);
	}
	lock_drop(&qp->lock);
	return err;
}

int heir_begin(struct qp *qp)
{
	struct loop *l = loop_of(qp);
	const struct kept k = keep_read(qp->keep);
	struct path path = k.path;
	int err;

	path.port = NULL;
	path.local_peer = NULL;
	lock_take(&l->receive);
	err = heir_inherit(l, qp->base.qp_num);
	lock_drop(&l->receive);
	if (!err && has_path(&k))
		err = loop_attach_again(&path);
	if (err)
		return err;
	lock_take(&qp->lock);
	qp->path = path;
	lock_drop(&qp->lock);
	lock_take(&l->receive);
	err = heir_take(l, qp, &k);
	lock_drop(&l->receive);
	return err;
}

void heir_leave(struct qp *qp)
{
	struct loop *l = loop_of(qp);
	struct services *services;
	int lock;

	hca_disown(&l->hca, qp);
	lock = steering_enter(&l->steering, &services);
	if (lock >= 0)
		steering_disinherit(&l->steering, qp->base.qp_num);
	steering_leave(lock);
}

uint8_t heir_of(struct hca *hca, uint32_t qpn)
{
	return steering_heir(&container_of(hca, struct loop, hca)->steering, qpn) ?: qpn >> 16;
}

void heir_note(struct qp *qp)
{
	target_note(qp);
}

void heir_release(struct qp *qp)
{
	const struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	if (!qp->is_kept)
		return;
	loop_run(qp); /* what has come is acknowledged */
	target_note(qp);
	qp->is_kept = false;
	engine_modify(qp, &reset, IBV_QP_STATE, 0);
	atomic_store_explicit(&qp->keep->memory->home, 0,
			      memory_order_release); /* what was noted is seen by whoever takes it */
}
