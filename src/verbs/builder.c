/* SPDX-License-Identifier: BSD-2-Clause */
/* Builders of work request batches, for the ibv_wr_ functions: see builder.h. */
#include "verbs/builder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hooks.h"
#include "base/msan.h"
#include "check/operations.h"
#include "device/adapter.h"
#include "verbs/post.h"
#include "verbs/turn.h"

#define WORD 8u /* bytes that an ATOMIC_WRITE writes */

struct builder {
	struct turn turn; /* from wr_start() to wr_complete() or wr_abort() */
	int error;	  /* the first mistake since wr_start */
	uint32_t count;	  /* number of entries in wr[] */
	uint32_t room;	  /* capacity of wr[]: the depth of the send queue */
	uint32_t max_sge, max_inline;
	struct ibv_send_wr *wr; /* each with its SGEs: ... */
	struct ibv_sge *sge;	/* max(max_sge, 1) SGEs for each */
	unsigned char *inlined; /* max(max_inline, WORD) bytes for each */
};

/* The flags of opcodes that the adapter lacks. All but that of ATOMIC_WRITE are in the order of the opcodes. */
static uint64_t lacking(uint32_t opcodes)
{
	static_assert(IBV_QP_EX_WITH_SEND_WITH_INV == 1 << IBV_WR_SEND_WITH_INV, "the same order");
	return (opcodes & (IBV_QP_EX_WITH_TSO - 1)) |
	       (opcodes >> IBV_WR_ATOMIC_WRITE & 1 ? IBV_QP_EX_WITH_ATOMIC_WRITE : 0);
}

static uint64_t ops_of(enum ibv_qp_type type)
{
	const uint64_t datagram = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
	const uint64_t unanswered = datagram | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_WRITE |
				    IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_LOCAL_INV |
				    IBV_QP_EX_WITH_BIND_MW;

	switch ((int)type) {
	case IBV_QPT_RC:
	case IBV_QPT_XRC_SEND:
		return unanswered | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
		       IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_ATOMIC_WRITE;
	case IBV_QPT_UC:
		return unanswered;
	case IBV_QPT_UD:
		return datagram;
	case IBV_QPT_RAW_PACKET:
		return IBV_QP_EX_WITH_SEND;
	default:
		return 0;
	}
}

uint64_t builder_ops(enum ibv_qp_type type)
{
	return ops_of(type) & ~lacking(adapter()->lacks);
}

static struct builder *builder_of(struct ibv_qp_ex *ex)
{
	return ((struct qp *)ex)->verbs.builder;
}

/* ibv_post_send() takes no turn: what it posts goes before the batch, which is posted as one. */
static void wr_start(struct ibv_qp_ex *ex)
{
	struct builder *b = builder_of(ex);

	b->error = turn_take(&b->turn) ? 0 : EDEADLK; /* begun twice */
	b->count = 0;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	turn_drop(&builder_of(ex)->turn);
}

/* Posts the whole batch, or nothing if the queue has no room for all of it. */
static int wr_complete(struct ibv_qp_ex *ex)
{
	struct builder *b = builder_of(ex);
	int error = b->error;

	if (!error && b->count) {
		b->wr[b->count - 1].next = NULL;
		error = post_batch(&ex->qp_base, b->wr, b->count);
	}
	turn_drop(&b->turn);
	return error;
}

/* Appends a work request to the batch. If it does not fit, it is dropped, and wr_complete() returns the error. */
static struct ibv_send_wr *builder_append(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
	struct builder *b = builder_of(ex);
	struct ibv_send_wr *wr;

	if (b->count == b->room) {
		b->error = b->error ?: ENOMEM;
		b->count = 0; /* the batch will fail, so the entry can be reused */
	}
	wr = &b->wr[b->count];
	wr->wr_id = ex->wr_id;
	wr->next = wr + 1;
	wr->num_sge = 0;
	wr->opcode = opcode;
	wr->send_flags = ex->wr_flags & ~(unsigned)IBV_SEND_INLINE;
	/* fields that the caller or a wr_set_ function may leave unset */
	wr->imm_data = 0;
	wr->wr.ud.ah = NULL;
	wr->qp_type.xrc.remote_srqn = 0;
	b->count++;
	return wr;
}

static struct ibv_send_wr *append_rdma(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t va)
{
	struct ibv_send_wr *wr = builder_append(ex, opcode);

	wr->wr.rdma.rkey = rkey;
	wr->wr.rdma.remote_addr = va;
	return wr;
}

static void wr_send(struct ibv_qp_ex *ex)
{
	builder_append(ex, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	builder_append(ex, IBV_WR_SEND_WITH_IMM)->imm_data = imm;
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	builder_append(ex, IBV_WR_SEND_WITH_INV)->invalidate_rkey = rkey;
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	builder_append(ex, IBV_WR_LOCAL_INV)->invalidate_rkey = rkey;
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct ibv_send_wr *wr = builder_append(ex, IBV_WR_BIND_MW);

	wr->bind_mw.mw = mw;
	wr->bind_mw.rkey = rkey;
	wr->bind_mw.bind_info = *info;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t va)
{
	append_rdma(ex, IBV_WR_RDMA_WRITE, rkey, va);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t va, __be32 imm)
{
	append_rdma(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, va)->imm_data = imm;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t va)
{
	append_rdma(ex, IBV_WR_RDMA_READ, rkey, va);
}

static void append_atomic(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t va,
			  uint64_t compare_add, uint64_t swap)
{
	struct ibv_send_wr *wr = builder_append(ex, opcode);

	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.remote_addr = va;
	wr->wr.atomic.compare_add = compare_add;
	wr->wr.atomic.swap = swap;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t va, uint64_t compare, uint64_t swap)
{
	append_atomic(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, va, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t va, uint64_t add)
{
	append_atomic(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, va, add, 0);
}

/* The work request that a wr_set_ function applies to: the last one started. */
static struct ibv_send_wr *builder_current(struct builder *b)
{
	static _Thread_local struct ibv_send_wr nowhere;

	if (b->count)
		return &b->wr[b->count - 1];
	b->error = b->error ?: EINVAL;
	return &nowhere;
}

/* The buffer for its inline data. */
static unsigned char *inlined(struct builder *b)
{
	return b->inlined + (size_t)(b->count - 1) * max_of(b->max_inline, WORD);
}

static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t va, const void *word)
{
	struct ibv_send_wr *wr = append_rdma(ex, IBV_WR_ATOMIC_WRITE, rkey, va);
	unsigned char *bytes = inlined(builder_of(ex));

	memcpy(bytes, word, WORD);
	wr->send_flags |= IBV_SEND_INLINE;
	wr->num_sge = 1;
	wr->sg_list[0] = (struct ibv_sge){.addr = (uintptr_t)bytes, .length = WORD};
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct ibv_send_wr *wr = builder_current(builder_of(ex));

	wr->wr.ud.ah = ah;
	wr->wr.ud.remote_qpn = qpn;
	wr->wr.ud.remote_qkey = qkey;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t number)
{
	builder_current(builder_of(ex))->qp_type.xrc.remote_srqn = number;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_sge *list)
{
	struct builder *b = builder_of(ex);
	struct ibv_send_wr *wr = builder_current(b);

	if (count > b->max_sge || (count && !list)) {
		b->error = b->error ?: EINVAL;
	} else if (!b->error) {
		memcpy(wr->sg_list, list, count * sizeof(*list));
		wr->num_sge = (int)count;
	}
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct builder *b = builder_of(ex);
	struct ibv_send_wr *wr = builder_current(b);

	if (likely(!b->error)) {
		wr->sg_list[0] = (struct ibv_sge){.addr = addr, .length = length, .lkey = lkey};
		wr->num_sge = 1;
	}
}

/* Copies the bytes, because the caller's buffers may change after the call. */
static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_data_buf *list)
{
	struct builder *b = builder_of(ex);
	struct ibv_send_wr *wr = builder_current(b);
	unsigned char *bytes;
	size_t length = 0;

	if (b->error)
		return;
	bytes = inlined(b);
	for (size_t i = 0; i < count; i++) {
		if (list[i].length > b->max_inline - length) {
			b->error = EINVAL;
			return;
		}
		memcpy(bytes + length, list[i].addr, list[i].length);
		if (hooks_any())
			msan_copied(bytes + length, list[i].addr, list[i].length);
		length += list[i].length;
	}
	if (hooks_any())
		check_takes_inline(&ex->qp_base, wr->wr_id, list, count);
	wr->send_flags |= IBV_SEND_INLINE;
	wr->num_sge = length ? 1 : 0;
	if (length)
		wr->sg_list[0] = (struct ibv_sge){.addr = (uintptr_t)bytes, .length = (uint32_t)length};
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	wr_set_inline_data_list(ex, 1, &(struct ibv_data_buf){addr, length});
}

int builder_create(struct qp *qp, uint64_t ops)
{
	struct builder *b = calloc(1, sizeof(*b));
	struct ibv_qp_ex *ex = &qp->ex;

	if (!b)
		return -ENOMEM;
	b->room = max_of(qp->cap.max_send_wr, 1u);
	b->max_sge = max_of(qp->cap.max_send_sge, 1u);
	b->max_inline = qp->cap.max_inline_data;
	b->wr = calloc(b->room, sizeof(*b->wr));
	b->sge = calloc((size_t)b->room * b->max_sge, sizeof(*b->sge));
	b->inlined = calloc(b->room, max_of(b->max_inline, WORD));
	qp->verbs.builder = b;
	if (!b->wr || !b->sge || !b->inlined) {
		builder_destroy(qp);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < b->room; i++)
		b->wr[i].sg_list = b->sge + (size_t)i * b->max_sge;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	/* only the functions of the requested operations: others stay NULL, as with hardware */
	ex->wr_send = ops & IBV_QP_EX_WITH_SEND ? wr_send : NULL;
	ex->wr_send_imm = ops & IBV_QP_EX_WITH_SEND_WITH_IMM ? wr_send_imm : NULL;
	ex->wr_send_inv = ops & IBV_QP_EX_WITH_SEND_WITH_INV ? wr_send_inv : NULL;
	ex->wr_rdma_write = ops & IBV_QP_EX_WITH_RDMA_WRITE ? wr_rdma_write : NULL;
	ex->wr_rdma_write_imm = ops & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM ? wr_rdma_write_imm : NULL;
	ex->wr_rdma_read = ops & IBV_QP_EX_WITH_RDMA_READ ? wr_rdma_read : NULL;
	ex->wr_atomic_cmp_swp = ops & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP ? wr_atomic_cmp_swp : NULL;
	ex->wr_atomic_fetch_add = ops & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD ? wr_atomic_fetch_add : NULL;
	ex->wr_bind_mw = ops & IBV_QP_EX_WITH_BIND_MW ? wr_bind_mw : NULL;
#if RDMA_CORE >= 44
	ex->wr_atomic_write = ops & IBV_QP_EX_WITH_ATOMIC_WRITE ? wr_atomic_write : NULL;
#else
	(void)wr_atomic_write; /* rdma-core 44's struct ibv_qp_ex has no member for it */
#endif
	ex->wr_local_inv = ops & IBV_QP_EX_WITH_LOCAL_INV ? wr_local_inv : NULL;
	return 0;
}

void builder_destroy(struct qp *qp)
{
	struct builder *b = qp->verbs.builder;

	if (!b)
		return;
	free(b->wr);
	free(b->sge);
	free(b->inlined);
	free(b);
	qp->verbs.builder = NULL;
}
