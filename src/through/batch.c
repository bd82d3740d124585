// SPDX-License-Identifier: BSD-2-Clause
#include "through/batch.h"

#include <stdlib.h>
#include <string.h>

#include "check/operations.h"
#include "check/request.h"
#include "through/post.h"

struct batch_entry {
	struct ibv_send_wr wr;
	struct ibv_sge sge[REQUEST_SGES];
};

/* Between wr_start() and wr_complete() or wr_abort() the adapter lets no other thread in. */
struct batch {
	struct ibv_qp_ex was; /* its functions are the adapter's */
	struct batch_entry *entries;
	uint32_t count, room;
	bool is_lost; /* there was no memory: nothing is said of it */
};

static struct batch *batch_of(const struct ibv_qp_ex *qp)
{
	return shadow_of(CHECK_QP, &qp->qp_base)->batch;
}

static void batch_empty(struct batch *b)
{
	free(b->entries);
	b->entries = NULL;
	b->count = b->room = 0;
	b->is_lost = false;
}

static bool batch_grow(struct batch *b)
{
	uint32_t room = b->room ? 2 * b->room : 16;
	struct batch_entry *more = reallocarray(b->entries, room, sizeof(*more));

	if (!more)
		return false;
	b->entries = more;
	b->room = room;
	return true;
}

/* NULL: there is no memory. */
static struct ibv_send_wr *append(struct batch *b, const struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode)
{
	struct batch_entry *e;

	if (b->is_lost || (b->count == b->room && !batch_grow(b))) {
		b->is_lost = true;
		return NULL;
	}
	e = &b->entries[b->count++];
	memset(e, 0, sizeof(*e));
	e->wr.wr_id = qp->wr_id;
	e->wr.opcode = opcode;
	e->wr.send_flags = qp->wr_flags & ~(unsigned)IBV_SEND_INLINE;
	return &e->wr;
}

static void append_rdma(struct batch *b, const struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode, uint32_t rkey,
			uint64_t va)
{
	struct ibv_send_wr *wr = append(b, qp, opcode);

	if (!wr)
		return;
	wr->wr.rdma.rkey = rkey;
	wr->wr.rdma.remote_addr = va;
}

/* ---- one function each: the adapter's, and the note ---- */

static void from_wr_start(struct ibv_qp_ex *qp)
{
	struct batch *b = batch_of(qp);

	b->was.wr_start(qp);
	batch_empty(b);
}

static void from_wr_send(struct ibv_qp_ex *qp)
{
	struct batch *b = batch_of(qp);

	b->was.wr_send(qp);
	append(b, qp, IBV_WR_SEND);
}

static void from_wr_send_imm(struct ibv_qp_ex *qp, __be32 imm)
{
	struct batch *b = batch_of(qp);

	b->was.wr_send_imm(qp, imm);
	append(b, qp, IBV_WR_SEND_WITH_IMM);
}

static void from_wr_send_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	struct batch *b = batch_of(qp);

	b->was.wr_send_inv(qp, rkey);
	append(b, qp, IBV_WR_SEND_WITH_INV);
}

static void from_wr_send_tso(struct ibv_qp_ex *qp, void *header, uint16_t size, uint16_t mss)
{
	struct batch *b = batch_of(qp);

	b->was.wr_send_tso(qp, header, size, mss);
	append(b, qp, IBV_WR_TSO);
}

static void from_wr_local_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	struct batch *b = batch_of(qp);

	b->was.wr_local_inv(qp, rkey);
	append(b, qp, IBV_WR_LOCAL_INV);
}

static void from_wr_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct batch *b = batch_of(qp);

	b->was.wr_bind_mw(qp, mw, rkey, info);
	append(b, qp, IBV_WR_BIND_MW);
}

static void from_wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t va)
{
	struct batch *b = batch_of(qp);

	b->was.wr_rdma_read(qp, rkey, va);
	append_rdma(b, qp, IBV_WR_RDMA_READ, rkey, va);
}

static void from_wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t va)
{
	struct batch *b = batch_of(qp);

	b->was.wr_rdma_write(qp, rkey, va);
	append_rdma(b, qp, IBV_WR_RDMA_WRITE, rkey, va);
}

static void from_wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t va, __be32 imm)
{
	struct batch *b = batch_of(qp);

	b->was.wr_rdma_write_imm(qp, rkey, va, imm);
	append_rdma(b, qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, va);
}

static void from_wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t va, uint64_t compare, uint64_t swap)
{
	struct batch *b = batch_of(qp);

	b->was.wr_atomic_cmp_swp(qp, rkey, va, compare, swap);
	append(b, qp, IBV_WR_ATOMIC_CMP_AND_SWP);
}

static void from_wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t va, uint64_t add)
{
	struct batch *b = batch_of(qp);

	b->was.wr_atomic_fetch_add(qp, rkey, va, add);
	append(b, qp, IBV_WR_ATOMIC_FETCH_AND_ADD);
}

#if RDMA_CORE >= 44
static void from_wr_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t va, const void *word)
{
	struct batch *b = batch_of(qp);

	b->was.wr_atomic_write(qp, rkey, va, word);
	append_rdma(b, qp, IBV_WR_ATOMIC_WRITE, rkey, va);
}
#endif

/* What is inline is copied now, so there is no memory to look at later. */
static void from_wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t count, const struct ibv_data_buf *list)
{
	check_takes_inline(&qp->qp_base, qp->wr_id, list, count);
	batch_of(qp)->was.wr_set_inline_data_list(qp, count, list);
}

static void from_wr_set_inline_data(struct ibv_qp_ex *qp, void *at, size_t length)
{
	check_takes_inline(&qp->qp_base, qp->wr_id, &(struct ibv_data_buf){at, length}, 1);
	batch_of(qp)->was.wr_set_inline_data(qp, at, length);
}

static void from_wr_set_sge_list(struct ibv_qp_ex *qp, size_t count, const struct ibv_sge *list)
{
	struct batch *b = batch_of(qp);
	struct batch_entry *e = b->count ? &b->entries[b->count - 1] : NULL;

	b->was.wr_set_sge_list(qp, count, list);
	if (!e || b->is_lost)
		return;
	e->wr.num_sge = (int)min_of(count, (size_t)REQUEST_SGES);
	memcpy(e->sge, list, (size_t)e->wr.num_sge * sizeof(*list));
}

static void from_wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t at, uint32_t length)
{
	struct batch *b = batch_of(qp);
	struct batch_entry *e = b->count ? &b->entries[b->count - 1] : NULL;

	b->was.wr_set_sge(qp, lkey, at, length);
	if (!e || b->is_lost)
		return;
	e->wr.num_sge = 1;
	e->sge[0] = (struct ibv_sge){.addr = at, .length = length, .lkey = lkey};
}

/* The entries move while the batch grows, so they are linked at its end. */
static void batch_link(struct batch_entry *entries, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		entries[i].wr.sg_list = entries[i].sge;
		entries[i].wr.next = i + 1 < count ? &entries[i + 1].wr : NULL;
	}
}

/* Posts the batch to the adapter. */
static int complete(struct ibv_qp *real, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ibv_qp_ex *qp = (struct ibv_qp_ex *)real;
	int error = batch_of(qp)->was.wr_complete(qp);

	if (error) /* then none is posted */
		*bad = wr;
	return error;
}

static int from_wr_complete(struct ibv_qp_ex *qp)
{
	struct shadow *s = shadow_of(CHECK_QP, &qp->qp_base);
	struct batch *b = s->batch;
	struct batch_entry *entries = b->entries;
	struct ibv_send_wr *bad;
	int error;

	if (b->is_lost || !b->count)
		return b->was.wr_complete(qp);
	batch_link(entries, b->count);
	b->entries = NULL; /* the next batch may begin before this function ends */
	b->count = b->room = 0;
	error = post_checked(&s->as.qp.base, &entries->wr, &bad, complete);
	free(entries);
	return error;
}

void batch_open(struct shadow *s, struct ibv_qp_ex *qp)
{
	struct batch *b = calloc(1, sizeof(*b));

	if (!b)
		return;
	s->batch = b;
	b->was = *qp;
#define REPLACE(name) qp->name = qp->name ? from_##name : NULL
	REPLACE(wr_start);
	REPLACE(wr_complete);
	REPLACE(wr_send);
	REPLACE(wr_send_imm);
	REPLACE(wr_send_inv);
	REPLACE(wr_send_tso);
	REPLACE(wr_local_inv);
	REPLACE(wr_bind_mw);
	REPLACE(wr_rdma_read);
	REPLACE(wr_rdma_write);
	REPLACE(wr_rdma_write_imm);
	REPLACE(wr_atomic_cmp_swp);
	REPLACE(wr_atomic_fetch_add);
	REPLACE(wr_set_inline_data);
	REPLACE(wr_set_inline_data_list);
	REPLACE(wr_set_sge);
	REPLACE(wr_set_sge_list);
#if RDMA_CORE >= 44
	REPLACE(wr_atomic_write);
#endif
#undef REPLACE
}

void batch_free(struct batch *b)
{
	if (b)
		batch_empty(b);
	free(b);
}
