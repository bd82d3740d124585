/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/hooks.h"

#include "base/trace.h"
#include "engine/wqe.h"
#include "object/checker.h"
#include "object/mr.h"
#include "object/window.h"

void (*faults_stop_peer)(struct qp *qp, uint64_t duration);

bool faults_touch(const struct qp *qp)
{
	return hook_is_on(HOOK_FAULT) && inject_touches(qp->serial, qp->base.qp_num, faults_device(qp), false);
}

bool faults_want_packets(const struct qp *qp)
{
	return hook_is_on(HOOK_FAULT) && inject_touches(qp->serial, qp->base.qp_num, faults_device(qp), true);
}

void faults_act(struct qp *qp, const struct inject_verdict *v)
{
	if (v->action == DO_STOP || v->action == DO_KILL) {
		if (faults_stop_peer)
			faults_stop_peer(qp, v->action == DO_STOP ? v->value[0] : 0);
	} else {
		inject_act(v);
	}
}

void faults_revoke(struct qp *qp, uint32_t key)
{
	inject_revoke(key);
	inject_revoke(key ^ qp->hca->keys.lkey); /* its other key */
	mr_revoke(qp->hca, key);
}

bool faults_ask(struct qp *qp, struct inject_event *e, struct inject_verdict *v)
{
	struct inject_qp *q = inject_of(&qp->inject, qp->serial);

	e->qpn = qp->base.qp_num;
	e->device = faults_device(qp);
	e->state = (uint8_t)qp->state;
	e->peer = qp->transport == TRANSPORT_UD ? NULL : qp->path.dgid.raw;
	return q && inject_ask(e, q, v);
}

/* The number of the region of an lkey or rkey, itself or by a window; 0: none. */
static uint32_t region_number(struct qp *qp, uint32_t key)
{
	struct mr *mr = mr_get(qp->hca, key) ?: mr_get_local(qp->hca, key);
	uint32_t number = 0;

	if (mr && mr->type)
		mr = window_enter(mr, qp->serial);
	if (mr) {
		number = mr->number;
		mr_put(mr);
	}
	return number;
}

/* Does the verdicts that concern memory, wherever memory is used. */
static void act_on_memory(struct qp *qp, uint32_t key, const struct inject_verdict *v)
{
	if (v->action == DO_REVOKE)
		faults_revoke(qp, key);
	else if (v->action != DO_REFUSE && v->action != DO_DELAY)
		faults_act(qp, v);
}

uint64_t faults_use_local(struct qp *qp, struct ibv_sge *sge, uint32_t count, enum rule_use use, uint64_t wr_id)
{
	struct inject_verdict v;
	uint64_t delay = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct inject_event e = {.event = RULE_MEMORY,
					 .direction = RULE_LOCAL,
					 .opcode = (uint8_t)use,
					 .size = sge[i].length,
					 .wr_id = wr_id,
					 .region = region_number(qp, sge[i].lkey)};

		if (!sge[i].length || !faults_ask(qp, &e, &v))
			continue;
		act_on_memory(qp, sge[i].lkey, &v);
		if (v.action == DO_REFUSE)
			sge[i].lkey = 0; /* no region has it */
		if (v.action == DO_DELAY)
			delay = max_of(delay, v.value[0]);
	}
	return delay;
}

static void post_uses(struct qp *qp, struct wqe *w)
{
	bool writes = w->opcode == IBV_WR_RDMA_READ || w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		      w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	uint64_t delay = faults_use_local(qp, w->sge, w->num_sge, writes ? USE_WRITE : USE_READ, w->wr_id);

	if (delay)
		qp->inject->late = max_of(qp->inject->late, delay);
}

bool faults_use_remote(struct qp *qp, const struct packet *p, struct inject_verdict *v)
{
	uint32_t flags = opcode_info[p->opcode].flags;
	bool is_atomic = flags & IS_ATOMIC;
	struct inject_event e = {
		.event = RULE_MEMORY,
		.direction = RULE_REMOTE,
		.opcode = is_atomic	    ? USE_ATOMIC
			  : flags & IS_READ ? USE_READ
					    : USE_WRITE,
		.size = is_atomic ? (uint32_t)sizeof(uint64_t) : p->dma_length,
		.region = region_number(qp, p->rkey),
	};

	if (!e.size || (is_reliable(qp) && !psn_equal(p->psn, qp->resp.expected)) || !faults_ask(qp, &e, v))
		return false;
	act_on_memory(qp, p->rkey, v);
	return true;
}

int hooks_post(struct qp *qp, struct wqe *w)
{
	struct inject_event e = {.event = RULE_POST, .opcode = w->opcode, .wr_id = w->wr_id, .size = w->length};
	struct inject_verdict v;

	if (inject_listens(RULE_POST) && faults_ask(qp, &e, &v)) {
		if (v.action == DO_REFUSE)
			return (int)v.value[0];
		if (v.action == DO_DELAY)
			qp->inject->late = max_of(qp->inject->late, v.value[0]);
		else if (v.action != DO_REVOKE)
			faults_act(qp, &v);
		else if (w->num_sge)
			faults_revoke(qp, w->sge[0].lkey);
	}
	if (inject_listens(RULE_MEMORY))
		post_uses(qp, w);
	trace(post_send, qp->base.qp_num, qp->sq.tail, w->wr_id, w->opcode, w->length,
	      w->flags | (qp->sig_all ? IBV_SEND_SIGNALED : 0));
	return 0;
}

bool hooks_onesided(struct qp *qp, const struct wqe *w)
{
	struct inject_event e = {.event = RULE_ONESIDED, .opcode = w->opcode, .wr_id = w->wr_id, .size = w->length};
	struct inject_verdict v;

	if (checker_listens() && wqe_wants_response(w))
		checker->begins(qp, w->wr_id);
	if (!inject_listens(RULE_ONESIDED) || !faults_ask(qp, &e, &v))
		return false;
	if (v.action == DO_REFUSE)
		return true;
	faults_act(qp, &v);
	return false;
}

/* Drops a completion and puts the CQ in error, as if it had been full. */
static void overrun(struct cq *cq) NO_LOCK_ANALYSIS
{
	lock_take(&cq->lock);
	cq_refuse(cq);
}

/* The status of a completion. Completions behind one with an error are flushed. */
static enum ibv_wc_status status_of(struct qp *qp, struct cq *cq, struct inject_event *e)
{
	struct inject_verdict v;

	if (qp->inject && qp->inject->serial == qp->serial && qp->inject->fails && e->status == IBV_WC_SUCCESS)
		return IBV_WC_WR_FLUSH_ERR;
	if (!faults_ask(qp, e, &v))
		return e->status;
	if (v.action == DO_OVERRUN)
		overrun(cq);
	else if (v.action != DO_STATUS)
		faults_act(qp, &v);
	if (v.action != DO_STATUS)
		return e->status;
	if (qp->state != IBV_QPS_ERR)
		qp->inject->fails = qp->cq_lost = true;
	return v.value[0];
}

enum ibv_wc_status hooks_complete(struct qp *qp, const struct wqe *w, uint32_t position, enum ibv_wc_status status)
{
	struct inject_event e = {.event = RULE_COMPLETE,
				 .opcode = opcode_when_complete[w->opcode],
				 .wr_id = w->wr_id,
				 .size = w->length,
				 .status = status};

	if (inject_listens(RULE_COMPLETE))
		status = status_of(qp, qp->send_cq, &e);
	if (checker_listens() && wqe_wants_response(w))
		checker->completes(qp, w->wr_id, w->length, true);
	trace(complete, qp->base.qp_num, position, w->wr_id, status, w->opcode, w->length);
	if (hook_is_on(HOOK_COUNT) && status == IBV_WC_SUCCESS)
		qp->sent_bytes += w->length;
	return status;
}

void hooks_complete_posted(struct qp *qp, const struct ibv_send_wr *wr, uint32_t position, uint32_t count)
{
	for (uint32_t end = position + count; position != end; position++, wr = wr->next) {
		uint32_t length = (uint32_t)posted_length(wr);

		if (checker_listens() && wr->opcode != IBV_WR_RDMA_WRITE)
			checker->completes(qp, wr->wr_id, length, true);
		trace(complete, qp->base.qp_num, position, wr->wr_id, IBV_WC_SUCCESS, wr->opcode, length);
		if (hook_is_on(HOOK_COUNT))
			qp->sent_bytes += length;
	}
}

enum ibv_wc_status hooks_complete_receive(struct qp *qp, const struct cqe *cqe)
{
	enum ibv_wc_status status = cqe->status;
	struct inject_event e = {.event = RULE_COMPLETE,
				 .opcode = cqe->opcode,
				 .wr_id = cqe->wr_id,
				 .size = cqe->byte_len,
				 .status = cqe->status};

	if (inject_listens(RULE_COMPLETE) && qp->recv_cq)
		status = status_of(qp, qp->recv_cq, &e);
	if (checker_listens())
		checker->completes(qp, cqe->wr_id, cqe->opcode == IBV_WC_RECV ? cqe->byte_len : 0, false);
	trace(complete_recv, cqe->qpn, cqe->wqe, cqe->wr_id, status, cqe->opcode, cqe->byte_len);
	if (hook_is_on(HOOK_COUNT) && status == IBV_WC_SUCCESS)
		qp->received_bytes += cqe->byte_len;
	return status;
}
