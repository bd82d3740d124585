/* SPDX-License-Identifier: BSD-2-Clause */
/* The QP state machine: which transition takes which attributes (IBTA 11.2.5.2, table 91; ibv_modify_qp(3)). */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/trace.h"
#include "engine/answers.h"
#include "engine/cause.h"
#include "engine/complete.h"
#include "engine/engine.h"
#include "engine/flow.h"
#include "engine/lane.h"
#include "engine/migration.h"
#include "engine/owed.h"
#include "engine/scoreboard.h"
#include "engine/timers.h"
#include "object/receives.h"

#define ACCESS_FLUSH (3u << 8) /* IBV_ACCESS_FLUSH_GLOBAL, _PERSISTENT: of rdma-core 44 and later */

#define MASK_TEXT 400

#define ANY_ALT (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)

#define NOT_FOR       \
	{             \
		-1, 0 \
	} /* a required mask that no mask has */

/* The attributes that a transition takes besides IBV_QP_STATE. A transport without masks does not have the
 * transition. */
struct masks {
	int required, optional;
};

static const struct transition {
	enum ibv_qp_state from, to;
	struct masks rc, uc, ud, raw;
	struct masks ini, tgt; /* XRC */
} transitions[] = {
	{
		IBV_QPS_RESET,
		IBV_QPS_INIT,
		.rc = {IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
		.uc = {IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
		.ud = {IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
		.raw = {IBV_QP_PORT},
		.ini = {IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
		.tgt = {IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
	},
	{
		IBV_QPS_INIT,
		IBV_QPS_INIT,
		.rc = {0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
		.uc = {0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
		.ud = {0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
		.raw = {0},
		.ini = {0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
		.tgt = {0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
	},
	{
		IBV_QPS_INIT,
		IBV_QPS_RTR,
		.rc = {IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			       IBV_QP_MIN_RNR_TIMER,
		       IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
		.uc = {IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
		       IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
		.ud = {0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
		.raw = {0},
		.ini = {IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
			IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
		.tgt = {IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				IBV_QP_MIN_RNR_TIMER,
			IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
	},
	{
		IBV_QPS_RTR,
		IBV_QPS_RTS,
		.rc = {IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
		       IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | ANY_ALT},
		.uc = {IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | ANY_ALT},
		.ud = {IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY},
		.raw = {0, IBV_QP_RATE_LIMIT},
		.ini = {IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
			IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | ANY_ALT},
		.tgt = {IBV_QP_TIMEOUT | IBV_QP_SQ_PSN,
			IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | ANY_ALT},
	},
	{
		IBV_QPS_RTS,
		IBV_QPS_RTS,
		.rc = {0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | ANY_ALT},
		.uc = {0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | ANY_ALT},
		.ud = {0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
		.raw = {0, IBV_QP_RATE_LIMIT},
		.ini = {0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | ANY_ALT},
		.tgt = {0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | ANY_ALT},
	},
	{
		IBV_QPS_RTS,
		IBV_QPS_SQD,
		.rc = {0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
		.uc = {0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
		.ud = {0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
		.raw = {0},
		.ini = {0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
		.tgt = {0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
	},
	{
		IBV_QPS_SQD,
		IBV_QPS_RTS,
		.rc = {0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | ANY_ALT},
		.uc = {0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | ANY_ALT},
		.ud = {0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
		.raw = {0},
		.ini = {0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | ANY_ALT},
		.tgt = {0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | ANY_ALT},
	},
	{
		IBV_QPS_SQD,
		IBV_QPS_SQD,
		.rc = {0, IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ACCESS_FLAGS |
				  IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER | ANY_ALT},
		.uc = {0, IBV_QP_AV | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | ANY_ALT},
		.ud = {0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
		.raw = {0},
		.ini = {0, IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				   IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | ANY_ALT},
		.tgt = {0, IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ACCESS_FLAGS |
				   IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER | ANY_ALT},
	},
	{
		IBV_QPS_SQE,
		IBV_QPS_RTS,
		.rc = NOT_FOR,
		.uc = {0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS},
		.ud = {0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
		.raw = {0},
		.ini = NOT_FOR,
		.tgt = NOT_FOR,
	},
};

static const struct masks *masks_of(const struct transition *t, const struct qp *qp)
{
	switch (qp->transport) {
	case TRANSPORT_UC:
		return &t->uc;
	case TRANSPORT_UD:
		return &t->ud;
	case TRANSPORT_RAW:
		return &t->raw;
	case TRANSPORT_XRC:
		return is_xrc_target(qp) ? &t->tgt : &t->ini;
	default:
		return &t->rc;
	}
}

/* The masks of a transition; NOT_FOR: no such transition. RESET can be reached from every state, ERR from every other
 * one, without attributes. */
static struct masks find_masks(const struct qp *qp, enum ibv_qp_state from, enum ibv_qp_state to)
{
	static const struct masks none = NOT_FOR;

	if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET))
		return (struct masks){0};
	for (size_t i = 0; i < ARRAY_SIZE(transitions); i++)
		if (transitions[i].from == from && transitions[i].to == to)
			return *masks_of(&transitions[i], qp);
	return none;
}

/* The names of attributes. */
static const char *mask_text(int mask, char text[MASK_TEXT])
{
	static const char *const names[] = {
		"STATE",
		"CUR_STATE",
		"EN_SQD_ASYNC_NOTIFY",
		"ACCESS_FLAGS",
		"PKEY_INDEX",
		"PORT",
		"QKEY",
		"AV",
		"PATH_MTU",
		"TIMEOUT",
		"RETRY_CNT",
		"RNR_RETRY",
		"RQ_PSN",
		"MAX_QP_RD_ATOMIC",
		"ALT_PATH",
		"MIN_RNR_TIMER",
		"SQ_PSN",
		"MAX_DEST_RD_ATOMIC",
		"PATH_MIG_STATE",
		"CAP",
		"DEST_QPN",
	};
	size_t at = 0;

	*text = 0;
	for (size_t i = 0; i < ARRAY_SIZE(names) && at < MASK_TEXT; i++)
		if (mask & 1 << i)
			at += (size_t)snprintf(text + at, MASK_TEXT - at, "%sIBV_QP_%s", at ? ", " : "", names[i]);
	return text;
}

static int check_mask(const struct qp *qp, enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	struct masks m = find_masks(qp, from, to);
	int given = mask & ~IBV_QP_STATE;
	char text[MASK_TEXT];

	if (m.required == -1)
		return because(CAUSE_MODIFY_TRANSITION, -EINVAL, "QP 0x%x cannot go from %s to %s", qp->base.qp_num,
			       state_text(from), state_text(to));
	if ((given & m.required) != m.required)
		return because(CAUSE_MODIFY_MISSING, -EINVAL, "QP 0x%x, from %s to %s: attr_mask lacks %s",
			       qp->base.qp_num, state_text(from), state_text(to), mask_text(m.required & ~given, text));
	if (given & ~(m.required | m.optional))
		return because(CAUSE_MODIFY_EXTRA, -EINVAL, "QP 0x%x, from %s to %s: attr_mask may not have %s",
			       qp->base.qp_num, state_text(from), state_text(to),
			       mask_text(given & ~(m.required | m.optional), text));
	return mask & IBV_QP_RATE_LIMIT ? -EOPNOTSUPP : 0; /* as ibv_query_device() says */
}

static int check_values(const struct qp *qp, const struct ibv_qp_attr *a, int mask)
{
	/* the last ones mean nothing for a QP, but programs pass the flags of their memory regions, or all flags */
	const unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
				IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | ACCESS_FLUSH | IBV_ACCESS_OPTIONAL_RANGE;
	const struct {
		int bit;
		bool wrong;
		uint64_t value;
	} rows[] = {
		{IBV_QP_ACCESS_FLAGS, a->qp_access_flags & ~access, a->qp_access_flags},
		{IBV_QP_PKEY_INDEX, a->pkey_index != 0, a->pkey_index},
		{IBV_QP_PORT, a->port_num != 1, a->port_num},
		{IBV_QP_PATH_MTU, a->path_mtu < IBV_MTU_256 || a->path_mtu > IBV_MTU_4096, a->path_mtu},
		{IBV_QP_TIMEOUT, a->timeout > 31, a->timeout},
		{IBV_QP_RETRY_CNT, a->retry_cnt > 7, a->retry_cnt},
		{IBV_QP_RNR_RETRY, a->rnr_retry > 7, a->rnr_retry},
		{IBV_QP_MAX_QP_RD_ATOMIC, a->max_rd_atomic > HCA_MAX_RD_ATOMIC, a->max_rd_atomic},
		{IBV_QP_MAX_DEST_RD_ATOMIC, a->max_dest_rd_atomic > HCA_MAX_RD_ATOMIC, a->max_dest_rd_atomic},
		{IBV_QP_MIN_RNR_TIMER, a->min_rnr_timer > 31, a->min_rnr_timer},
		{IBV_QP_ALT_PATH, a->alt_port_num != 1, a->alt_port_num},
		{IBV_QP_ALT_PATH, a->alt_pkey_index != 0, a->alt_pkey_index},
		{IBV_QP_ALT_PATH, a->alt_timeout > 31, a->alt_timeout},
		{IBV_QP_DEST_QPN, a->dest_qp_num > QPN_MASK, a->dest_qp_num},
	};
	char text[MASK_TEXT];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if ((mask & rows[i].bit) && rows[i].wrong)
			return because(CAUSE_MODIFY_VALUE, -EINVAL, "QP 0x%x: %s cannot be %" PRIu64, qp->base.qp_num,
				       mask_text(rows[i].bit, text), rows[i].value);
	return 0;
}

static void take_attributes(struct qp *qp, const struct ibv_qp_attr *a, int mask)
{
	struct ibv_qp_attr *to = &qp->attr;

#define TAKE(bit, field)                      \
	do {                                  \
		if (mask & (bit))             \
			to->field = a->field; \
	} while (0)
	TAKE(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
	TAKE(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	TAKE(IBV_QP_PKEY_INDEX, pkey_index);
	TAKE(IBV_QP_PORT, port_num);
	TAKE(IBV_QP_QKEY, qkey);
	TAKE(IBV_QP_AV, ah_attr);
	TAKE(IBV_QP_PATH_MTU, path_mtu);
	TAKE(IBV_QP_TIMEOUT, timeout);
	TAKE(IBV_QP_RETRY_CNT, retry_cnt);
	TAKE(IBV_QP_RNR_RETRY, rnr_retry);
	TAKE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	TAKE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	TAKE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	TAKE(IBV_QP_DEST_QPN, dest_qp_num);
	TAKE(IBV_QP_RQ_PSN, rq_psn);
	TAKE(IBV_QP_SQ_PSN, sq_psn);
	TAKE(IBV_QP_ALT_PATH, alt_ah_attr);
	TAKE(IBV_QP_ALT_PATH, alt_pkey_index);
	TAKE(IBV_QP_ALT_PATH, alt_port_num);
	TAKE(IBV_QP_ALT_PATH, alt_timeout);
#undef TAKE
	to->rq_psn &= PSN_MASK;
	to->sq_psn &= PSN_MASK;
	if (mask & IBV_QP_PATH_MTU)
		qp->mtu = 128u << a->path_mtu;
	if (mask & IBV_QP_RETRY_CNT)
		qp->req.retries = a->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		qp->req.rnr_retries = a->rnr_retry;
}

/* Moves to RESET: nothing is outstanding, and no old completion is ever polled. */
static void reset(struct qp *qp)
{
	if (qp->send_cq)
		cq_remove_qp(qp->send_cq, qp->base.qp_num);
	if (qp->recv_cq)
		cq_remove_qp(qp->recv_cq, qp->base.qp_num);
	responder_stop(qp);
	scoreboard_stop(qp);
	qp->sq.head = qp->sq.tail = 0;
	atomic_store_explicit(&qp->sq.reclaimed, 0, memory_order_relaxed);
	receives_restart(&qp->rq);
	qp->rq.head = qp->rq.tail = 0;
	qp->reach_pair = (struct reach_pair){0};
	atomic_store_explicit(&qp->rq.reclaimed, 0, memory_order_relaxed);
	qp->reach = NULL;
	qp->req = (struct requester){.timeout_at = NEVER, .probe_at = NEVER};
	if (qp->flow) {
		flow_reset(qp);
		qp_withdraw(qp);
	}
	qp->attr = (struct ibv_qp_attr){0};
	qp->comm_est = qp->sqd_notified = qp->cq_lost = qp->strays = false;
	qp->mtu = 0;
	qp->cause = CAUSE_NONE;
	if (qp->xrc) {
		qp->xrc->delegation = (struct xrc_delegation){0};
		qp->xrc->is_passed_on = false;
	}
}

static void start_requester(struct qp *qp)
{
	struct requester *r = &qp->req;

	r->una = r->next = r->high = r->asked = psn(qp->attr.sq_psn);
	r->wqe = qp->sq.tail;
	r->mtu = qp->mtu;
	r->train = train_of(r->mtu);
	r->lossless = r->changing = false;
	if (qp->flow)
		flow_reset(qp);
	retry_configure(qp);
	r->window = FIRST_WINDOW;
	r->threshold = UINT32_MAX;
	r->timeout_at = r->probe_at = NEVER;
}

/* Takes memory for the READs and atomics of the peer. Only this can fail, so it comes before any change. */
static int modify_resources(struct qp *qp, const struct ibv_qp_attr *a, int mask, enum ibv_qp_state to)
{
	uint32_t resources = mask & IBV_QP_MAX_DEST_RD_ATOMIC ? a->max_dest_rd_atomic : qp->attr.max_dest_rd_atomic;

	if (!is_reliable(qp))
		return 0;
	if (to == IBV_QPS_RTR || (to == IBV_QPS_SQD && qp->resp.response_size != resources))
		return responder_start(qp, resources);
	return 0;
}

/* Starts or clears what belongs to the new state. */
static void modify_enter(struct qp *qp, enum ibv_qp_state from, enum ibv_qp_state to)
{
	switch (to) {
	case IBV_QPS_RESET:
		reset(qp);
		break;
	case IBV_QPS_RTR:
		qp->resp.expected = psn(qp->attr.rq_psn);
		qp->resp.ack_psn = psn_add(qp->resp.expected, -1u);
		trace(connect, qp->base.qp_num, qp->attr.dest_qp_num, 0, qp->attr.rq_psn, qp->mtu, 0);
		if (qp->flow && qp->srq)
			flow_expect(qp);
		break;
	case IBV_QPS_RTS:
		qp->cause = CAUSE_NONE; /* SQE is over */
		if (from != IBV_QPS_RTR)
			break;
		start_requester(qp);
		trace(connect, qp->base.qp_num, qp->attr.dest_qp_num, qp->attr.sq_psn, qp->attr.rq_psn, qp->mtu, 0);
		break;
	case IBV_QPS_SQD:
		if (from != IBV_QPS_SQD) {
			qp->sqd_notified = false;
			qp->attr.sq_draining = 1;
		}
		break;
	default:
		break;
	}
}

/* The mask without attributes that an XRC QP has no use for, which the kernel ignores too: programs give both ends the
 * same ones. */
static int heeded(const struct qp *qp, int mask)
{
	const int target_only = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	const int initiator_only = IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;

	if (qp->transport != TRANSPORT_XRC)
		return mask;
	return mask & ~(is_xrc_target(qp) ? initiator_only : target_only);
}

int engine_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask, uint64_t now)
{
	enum ibv_qp_state from = qp->state, to = mask & IBV_QP_STATE ? attr->qp_state : from;
	int err;

	mask = heeded(qp, mask);
	if ((mask & IBV_QP_CUR_STATE) && attr->cur_qp_state != from)
		return because(CAUSE_MODIFY_CURRENT, -EINVAL, "QP 0x%x is in %s, not in %s as cur_qp_state says",
			       qp->base.qp_num, state_text(from), state_text(attr->cur_qp_state));
	err = check_mask(qp, from, to, mask) ?: check_values(qp, attr, mask) ?: migration_check(qp, attr, mask);
	if (err)
		return err;
	if (to == IBV_QPS_ERR) {
		engine_fail(qp);
		return 0;
	}
	err = modify_resources(qp, attr, mask, to);
	if (err)
		return err;
	take_attributes(qp, attr, mask);
	modify_enter(qp, from, to);
	retry_set_intervals(qp);
	engine_set_state(qp, to);
	qp->attr.cur_qp_state = to;
	if (mask & IBV_QP_PATH_MIG_STATE)
		migration_set(qp, attr->path_mig_state, now);
	qp_show(qp);
	settle_drain(qp);
	return 0;
}

void engine_query(const struct qp *qp, struct ibv_qp_attr *attr)
{
	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = qp->state;
	attr->cap = qp->cap;
	if (qp->state >= IBV_QPS_RTR)
		attr->rq_psn = psn_add(qp->resp.expected, qp->rq.psns).v;
	if (qp->state >= IBV_QPS_RTS)
		attr->sq_psn = psn_add(qp->req.high, qp->reach_pair.receives.psns).v;
	attr->sq_draining = qp->state == IBV_QPS_SQD && engine_in_flight(qp);
}
