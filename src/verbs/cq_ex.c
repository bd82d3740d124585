/* SPDX-License-Identifier: BSD-2-Clause */
/* The extended poll interface: ibv_start_poll(), one completion at a time, with functions that read its fields. */
#include "base/clock.h"
#include "base/trace.h"
#include "check/operations.h"
#include "device/front.h"
#include "fault/inject.h"
#include "object/cq_poll.h"
#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/table.h"
#include "verbs/turn.h"

#define SUPPORTED_FIELDS                                                                                               \
	(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK | \
	 IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_FLOW_TAG | IBV_WC_EX_WITH_TM_INFO | IBV_CREATE_CQ_SUP_WC_FLAGS)

static const struct cqe *now(struct ibv_cq_ex *cq)
{
	return &((struct cq_front *)cq)->now;
}

static int cq_ex_advance(struct ibv_cq_ex *cq, int got)
{
	struct cq_front *f = (struct cq_front *)cq;

	if (got == 0) {
		if (hooks_any())
			check_polled_none(ibv_cq_ex_to_cq(cq));
		return ENOENT;
	}
	cq->wr_id = f->now.wr_id;
	cq->status = f->now.status;
	/* the CQE has no timestamp; the time of the poll is the earliest at which the completion is visible */
	if (f->wants_time)
		f->now_time = clock_now();
	if (f->wants_wallclock)
		f->now_wallclock = clock_wall();
	trace(poll, f->now.qpn, f->now.wr_id, f->now.status, f->now.opcode, 0, 0);
	if (hooks_any())
		check_polled_one(ibv_cq_ex_to_cq(cq), f->now.qpn, f->now.wr_id, f->now.status,
				 f->now.opcode & IBV_WC_RECV);
	return 0;
}

/* ibv_poll_cq() needs no turn, since it returns completions of its own: the thread that has the turn may call it. */
static int start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	struct cq_front *f = (struct cq_front *)cq;
	int error;

	if (attr->comp_mask)
		return EINVAL;
	if (!cq_front_await(&f->cq))
		return cq_ex_advance(cq, 0);
	if (!f->is_single && !turn_take(&f->turn))
		return EDEADLK;
	error = cq_ex_advance(cq, cq_poll(&f->cq, 1, &f->now));
	if (unlikely(error) && !f->is_single) /* another thread was faster */
		turn_drop(&f->turn);
	return error;
}

static int next_poll(struct ibv_cq_ex *cq)
{
	struct cq_front *f = (struct cq_front *)cq;

	return cq_ex_advance(cq, cq_poll(&f->cq, 1, &f->now));
}

static void end_poll(struct ibv_cq_ex *cq)
{
	struct cq_front *f = (struct cq_front *)cq;

	cq_left(&f->cq);
	if (!f->is_single)
		turn_drop(&f->turn);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *cq)
{
	return now(cq)->opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *cq)
{
	return now(cq)->marks & CQE_FAILED ? now(cq)->imm : 0; /* enum cause */
}

static uint32_t read_byte_len(struct ibv_cq_ex *cq)
{
	return now(cq)->byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *cq)
{
	return now(cq)->imm;
}

static uint32_t read_qp_num(struct ibv_cq_ex *cq)
{
	return now(cq)->qpn;
}

static uint32_t read_src_qp(struct ibv_cq_ex *cq)
{
	return now(cq)->src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *cq)
{
	return now(cq)->flags;
}

static uint32_t read_slid(struct ibv_cq_ex *cq)
{
	return 0;
}

static uint8_t read_sl(struct ibv_cq_ex *cq)
{
	return cqe_sl(now(cq)->marks);
}

static uint8_t read_zero(struct ibv_cq_ex *cq)
{
	return 0;
}

/* VLAN tags stay in the frame, so this field reads as zero. */
static uint16_t read_cvlan(struct ibv_cq_ex *cq)
{
	return 0;
}

static uint32_t read_flow_tag(struct ibv_cq_ex *cq)
{
	const struct cqe *c = now(cq);

	/* only completions of raw frames have a flow tag in `imm`, which they do not use otherwise */
	return (c->opcode & IBV_WC_RECV) && !(c->flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV)) ? c->imm : 0;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *cq)
{
	return ((struct cq_front *)cq)->now_time;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *cq)
{
	return ((struct cq_front *)cq)->now_wallclock;
}

/* Tag matching SRQs are not supported. */
static void read_tm_info(struct ibv_cq_ex *cq, struct ibv_wc_tm_info *info)
{
	*info = (struct ibv_wc_tm_info){0};
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	uint32_t flags = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
	struct pd *holder = NULL;
	struct ibv_cq_ex *cq;
	struct cq_front *f;

	if (inject_call(CALL_ibv_create_cq))
		return NULL;
	if (attr->comp_mask & ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD) ||
	    attr->wc_flags & ~(uint64_t)SUPPORTED_FIELDS ||
	    flags & ~(uint32_t)(IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN))
		return fail_null(EOPNOTSUPP);
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) {
		holder = (struct pd *)attr->parent_domain;
		if (!holder || !holder->is_parent || holder->base.context != context)
			return fail_null(EINVAL);
	}
	f = cq_front_create(context, attr->cqe, attr->cq_context, attr->channel, attr->comp_vector, holder);
	if (!f)
		return NULL;
	f->wants_time = attr->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
	f->wants_wallclock = attr->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
	f->is_single = flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	f->cq.ignore_overrun = flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	cq = &f->cq.base;
	cq->start_poll = start_poll;
	cq->next_poll = next_poll;
	cq->end_poll = end_poll;
	cq->read_opcode = read_opcode;
	cq->read_vendor_err = read_vendor_err;
	cq->read_byte_len = read_byte_len;
	cq->read_imm_data = read_imm_data;
	cq->read_qp_num = read_qp_num;
	cq->read_src_qp = read_src_qp;
	cq->read_wc_flags = read_wc_flags;
	cq->read_slid = read_slid;
	cq->read_sl = read_sl;
	cq->read_dlid_path_bits = read_zero;
	cq->read_completion_ts = read_completion_ts;
	cq->read_completion_wallclock_ns = read_completion_wallclock_ns;
	cq->read_cvlan = read_cvlan;
	cq->read_flow_tag = read_flow_tag;
	cq->read_tm_info = read_tm_info;
	return cq;
}

void table_add_cq_ex(struct verbs_context *v)
{
	v->create_cq_ex = create_cq_ex;
}
