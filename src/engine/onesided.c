/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided operations on a local peer's memory: the posting thread performs them, without a packet. Only when no
 * earlier request is outstanding, so that they are in order: when they are posted, or when the requests before them
 * are complete. All other requests take the slow path, which knows what is wrong.
 *
 * Long SENDs: the packet says where the payload lies, and the receiver fetches it in one copy. The sender's memory
 * is valid until the request is complete, as always on RC. A receiver that cannot fetch it asks for the packet
 * again (by a sequence NAK, which means nothing else between local peers); from then on the packets carry the
 * payload. */

#include "engine/onesided.h"

#include "engine/complete.h"
#include "engine/engine.h"
#include "engine/hooks.h"
#include "engine/lane.h"
#include "memory/copy.h"
#include "memory/fault.h"
#include "memory/reach.h"
#include "object/capture.h"

/* The access rights that each work request needs at either side. */
static const struct {
	unsigned remote, local;
	bool possible;
} needs[] = {
	[IBV_WR_RDMA_WRITE] = {IBV_ACCESS_REMOTE_WRITE, 0, true},
	[IBV_WR_RDMA_READ] = {IBV_ACCESS_REMOTE_READ, IBV_ACCESS_LOCAL_WRITE, true},
	[IBV_WR_ATOMIC_CMP_AND_SWP] = {IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_LOCAL_WRITE, true},
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = {IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_LOCAL_WRITE, true},
};

/* Bytes. From this length on, a fetch is faster than packets if the memory is not mapped here; if it is:
 * REFER_MAPPED. */
#define REFER_COPIED 32768u

/* A one-sided operation: from a posted work request, or from its WQE. */
struct access {
	const struct ibv_sge *sge; /* the local memory */
	uint32_t count;
	bool keyless;	/* inline data: no key is needed */
	uint8_t opcode; /* an index of needs[] */
	uint32_t rkey;
	uint64_t length, remote_addr, compare_add, swap;
};

/* The local memory of a request while it is in use. */
struct own_memory {
	struct mr *mr[HCA_MAX_SGE];
	struct iovec iov[HCA_MAX_SGE];
	uint32_t mrs, iovs;
	bool has_gpu; /* some of the memory is of a GPU */
	bool keyless; /* memory of no region */
};

static inline void let_go(struct own_memory *h)
{
	while (h->mrs)
		mr_put(h->mr[--h->mrs]);
}

static inline bool take_part(struct qp *qp, const struct pd *pd, const struct ibv_sge *part, unsigned access,
			     struct own_memory *h)
{
	struct mr *mr = sge_region(qp->hca, pd, part, access);

	if (likely(mr))
		h->mr[h->mrs++] = mr;
	if (unlikely(!mr || mr_is_indirect(mr))) {
		if (mr && mr->kind == MEMORY_GPU) {
			h->has_gpu = true;
		} else {
			let_go(h);
			return false;
		}
	}
	h->iov[h->iovs++] = (struct iovec){mr_at(mr, part->addr), part->length};
	return true;
}

/* Takes `length` bytes of these SGEs, from `offset` on. */
static bool take_own(struct qp *qp, const struct pd *pd, const struct ibv_sge *sge, uint32_t count, uint64_t offset,
		     uint32_t length, unsigned access, struct own_memory *h)
{
	struct sge_rest rest = {sge, count, length, offset};
	struct ibv_sge part;

	h->mrs = h->iovs = 0;
	h->has_gpu = h->keyless = false;
	while (sge_next(&rest, &part))
		if (!take_part(qp, pd, &part, access, h))
			return false;
	return true;
}

static inline bool take_request_memory(struct qp *qp, const struct access *e, struct own_memory *h)
{
	unsigned access = needs[e->opcode].local;

	h->mrs = h->iovs = 0;
	h->has_gpu = false;
	h->keyless = e->keyless;
	if (e->keyless) {
		for (uint32_t i = 0; i < e->count; i++)
			if (e->sge[i].length) /* an empty SGE has no address */
				h->iov[h->iovs++] = (struct iovec){(void *)(uintptr_t)e->sge[i].addr, e->sge[i].length};
		return true;
	}
	return likely(e->count == 1) ? take_part(qp, qp->pd, e->sge, access, h)
				     : take_own(qp, qp->pd, e->sge, e->count, 0, (uint32_t)e->length, access, h);
}

/* A one-sided operation in progress. The memory of either end may have been unmapped (the local peer may be this
 * process). */
struct attempt {
	struct reach *reach;
	const struct access *e;
	const struct reach_span *span;
	const struct iovec *own;
	uint32_t owns;
	bool done;
};

static void store_before(const struct attempt *d, uint64_t before)
{
	const char *from = (const char *)&before;

	for (uint32_t i = 0; i < d->owns; i++) {
		memcpy(d->own[i].iov_base, from, d->own[i].iov_len);
		from += d->own[i].iov_len;
	}
}

static bool atomic(const struct attempt *d)
{
	const struct access *e = d->e;
	char *at = d->span->at;

	if (!at)
		return false;
	store_before(d, 0); /* a fault must come before the operation, which must not be done twice */
	store_before(d, e->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? atomic_fetch_add_at(at, e->compare_add)
								 : atomic_compare_swap_at(at, e->compare_add, e->swap));
	return true;
}

static void attempt_access(void *arg)
{
	struct attempt *d = arg;
	uint8_t opcode = d->e->opcode;

	if (opcode == IBV_WR_RDMA_WRITE)
		d->done = reach_write(d->reach, d->span, d->own, d->owns, d->e->length);
	else if (opcode == IBV_WR_RDMA_READ)
		d->done = reach_read(d->reach, d->span, d->own, d->owns, d->e->length);
	else
		d->done = atomic(d);
}

/* Tries an operation, which is passed by value: the compiler keeps it in registers on paths that do not call this. */
static __attribute__((noinline)) bool try_access(struct qp *qp, struct access e, const struct reach_span *span,
						 const struct own_memory *own)
{
	struct attempt d = {qp->reach, &e, span, own->iov, own->iovs, false};

	return fault_try(attempt_access, &d) && d.done;
}

/* Performs an operation with GPU memory at one end or both. Atomics take the queue: they must be atomic towards others
 * that come by it. */
static __attribute__((cold, noinline)) bool perform_gpu(struct qp *qp, uint8_t opcode, const struct reach_span *span,
							const struct own_memory *own)
{
	struct gpu_memory *gpu[HCA_MAX_SGE] = {0};

	if (opcode != IBV_WR_RDMA_WRITE && opcode != IBV_WR_RDMA_READ)
		return false;
	for (uint32_t i = 0; i < own->iovs && !own->keyless; i++)
		if (own->mr[i]->kind == MEMORY_GPU)
			gpu[i] = own->mr[i]->handle.gpu;
	return reach_copy_gpu(qp->reach, span, own->iov, gpu, own->iovs, opcode == IBV_WR_RDMA_WRITE);
}

static inline bool engine_onesided_perform(struct qp *qp, const struct access *e, const struct reach_span *span,
					   const struct own_memory *own)
{
	if (unlikely(own->has_gpu || span->gpu))
		return perform_gpu(qp, e->opcode, span, own);
	if (likely(e->opcode == IBV_WR_RDMA_WRITE && own->iovs == 1 && span->at))
		return fault_copy(span->at, own->iov[0].iov_base, own->iov[0].iov_len);
	return try_access(qp, *e, span, own);
}

static inline bool is_possible(const struct qp *qp, unsigned opcode)
{
	return opcode < ARRAY_SIZE(needs) && needs[opcode].possible && qp->reach && qp->state == IBV_QPS_RTS;
}

/* True for ordinary requests. False for those that the slow path would refuse, or complete without a check of the
 * key. */
static inline bool is_ordinary(const struct qp *qp, unsigned opcode, uint64_t length, uint64_t remote_addr)
{
	if (length == 0 || length > HCA_MAX_MESSAGE)
		return false;
	if (opcode == IBV_WR_RDMA_WRITE)
		return true;
	if (!qp->attr.max_rd_atomic)
		return false;
	return opcode == IBV_WR_RDMA_READ || (length == sizeof(uint64_t) && !(remote_addr & 7));
}

bool onesided_possible(const struct qp *qp, const struct wqe *w)
{
	return is_possible(qp, w->opcode) && is_ordinary(qp, w->opcode, w->length, w->remote_addr) &&
	       !qp->needs_packets && reach_has_stored(qp->reach, &qp->reach_pair);
}

/* reach_enter(), with a fast path for the region of the last access. */
static inline bool onesided_enter(struct qp *qp, uint32_t rkey, uint64_t va, uint64_t length, unsigned access,
				  struct reach_span *span)
{
	char *at = reach_again(qp->reach, &qp->reach_pair, rkey, va, length, access);

	if (unlikely(!at))
		return reach_enter(qp->reach, &qp->reach_pair, rkey, va, length, access, span);
	*span = (struct reach_span){.at = at};
	return true;
}

static inline __attribute__((always_inline)) bool onesided_carry_out(struct qp *qp, const struct access *e)
{
	struct reach_span span;
	struct own_memory hold;
	bool done = false;

	if (!take_request_memory(qp, e, &hold))
		return false;
	if (onesided_enter(qp, e->rkey, e->remote_addr, e->length, needs[e->opcode].remote, &span)) {
		done = engine_onesided_perform(qp, e, &span, &hold);
		reach_leave(qp->reach);
	}
	let_go(&hold);
	return done;
}

/* The operation of a WQE; `bytes`: for its inline data. */
static struct access access_of(const struct wqe *w, struct ibv_sge *bytes)
{
	bool is_inline = w->flags & IBV_SEND_INLINE;

	*bytes = (struct ibv_sge){.addr = (uintptr_t)w->sge, .length = w->length};
	return (struct access){
		.sge = is_inline ? bytes : w->sge,
		.count = is_inline ? 1 : w->num_sge,
		.keyless = is_inline,
		.opcode = w->opcode,
		.rkey = w->rkey,
		.length = w->length,
		.remote_addr = w->remote_addr,
		.compare_add = w->compare_add,
		.swap = w->swap,
	};
}

bool onesided_perform(struct qp *qp, const struct wqe *w)
{
	struct ibv_sge bytes;
	const struct access e = access_of(w, &bytes);

	return onesided_carry_out(qp, &e);
}

/* Shows an operation to a capture. It takes no PSNs; the capture counts on from the next one, so that the packets of
 * one operation follow those of the one before. */
static void capture_access(struct qp *qp, const struct access *e, uint32_t position)
{
	struct own_memory hold = {0};
	bool known = take_request_memory(qp, e, &hold);

	capture_onesided(
		&(struct capture_onesided){
			.path = {.traffic_class = qp->path.traffic_class,
				 .hop_limit = qp->path.hop_limit,
				 .flow_label = qp->path.flow_label,
				 .qpn = qp->base.qp_num,
				 .mtu = qp->mtu},
			.dest_qpn = qp->attr.dest_qp_num,
			.psn = psn_add(qp->req.next, qp->onesided_psns).v,
			.rkey = e->rkey,
			.wqe = position,
			.address = e->remote_addr,
			.compare_add = e->compare_add,
			.swap = e->swap,
			.opcode = e->opcode,
			.length = (uint32_t)e->length,
		},
		&qp->path.sgid, &qp->path.dgid, hold.iov, known && !hold.has_gpu ? hold.iovs : 0);
	qp->onesided_psns += packets_of(qp->mtu, (uint32_t)e->length);
	let_go(&hold);
}

__attribute__((cold)) void onesided_done_wqe(struct qp *qp, const struct wqe *w, uint32_t position)
{
	struct ibv_sge bytes;
	const struct access e = access_of(w, &bytes);

	onesided_done(qp, position, w->opcode, w->remote_addr, w->length);
	if (hook_is_on(HOOK_CAPTURE))
		capture_access(qp, &e, position);
}

static inline struct access access_posted(const struct ibv_send_wr *wr, uint64_t length)
{
	bool is_atomic = wr->opcode > IBV_WR_RDMA_READ;

	return (struct access){
		.sge = wr->sg_list,
		.count = (uint32_t)wr->num_sge,
		.keyless = wr->send_flags & IBV_SEND_INLINE,
		.opcode = wr->opcode,
		.rkey = is_atomic ? wr->wr.atomic.rkey : wr->wr.rdma.rkey,
		.length = length,
		.remote_addr = is_atomic ? wr->wr.atomic.remote_addr : wr->wr.rdma.remote_addr,
		.compare_add = is_atomic ? wr->wr.atomic.compare_add : 0,
		.swap = is_atomic ? wr->wr.atomic.swap : 0,
	};
}

/* Performs a posted request, if is_possible(). Not inlined, so that SENDs do not pay for its stack frame. */
static __attribute__((noinline)) bool perform_posted(struct qp *qp, const struct ibv_send_wr *wr)
{
	bool is_inline = wr->send_flags & IBV_SEND_INLINE;
	uint64_t length = posted_length(wr);
	struct access e;

	if (is_inline && (wr->opcode != IBV_WR_RDMA_WRITE || length > qp->sq.fast_inline))
		return false;
	e = access_posted(wr, length);
	return is_ordinary(qp, e.opcode, length, e.remote_addr) && onesided_carry_out(qp, &e);
}

static __attribute__((cold, noinline)) void trace_posted(struct qp *qp, const struct ibv_send_wr *wr, uint32_t position,
							 uint32_t length)
{
	bool is_atomic = wr->opcode > IBV_WR_RDMA_READ;

	trace(post_send, qp->base.qp_num, position, wr->wr_id, wr->opcode, length,
	      wr->send_flags | (qp->sig_all ? IBV_SEND_SIGNALED : 0));
	onesided_done(qp, position, wr->opcode, is_atomic ? wr->wr.atomic.remote_addr : wr->wr.rdma.remote_addr,
		      length);
	if (hook_is_on(HOOK_CAPTURE)) {
		const struct access e = access_posted(wr, length);

		capture_access(qp, &e, position);
	}
}

/* Notes an operation that has no WQE, but takes a place in the queue. */
static inline void note_done(struct qp *qp, const struct ibv_send_wr *wr, uint32_t length)
{
	if (hooks_any())
		trace_posted(qp, wr, qp->sq.tail, length);
	qp->req.wqe = qp->sq.head = ++qp->sq.tail; /* the QP is idle */
}

static __attribute__((noinline)) bool post_any(struct qp *qp, const struct ibv_send_wr *wr)
{
	if (!is_possible(qp, wr->opcode) || !sges_fit(wr->sg_list, wr->num_sge, qp->sq.max_sge) ||
	    !perform_posted(qp, wr))
		return false;
	note_done(qp, wr, (uint32_t)posted_length(wr));
	complete_posted(qp, wr, qp->sq.tail - 1, 1, (uint32_t)posted_length(wr));
	return true;
}

/* Number of free slots. */
static inline uint32_t sq_room(const struct sq *sq)
{
	/* relaxed: see cq.c reclaim() */
	return sq->depth - (sq->tail - atomic_load_explicit(&sq->reclaimed, memory_order_relaxed));
}

/* True if no earlier request is outstanding, and the completion has a slot. */
static inline bool onesided_fits(const struct sq *sq)
{
	return likely(sq->head == sq->tail && sq_room(sq));
}

/* The most frequent case: WRITEs of one piece each to the region of the last access. In a list, short ones from one
 * region share the look-ups of both ends' memory. */
#define RUN_LENGTH 1024u /* bytes of each, so that a thread that closes a region does not wait for long */

#define RUN_COUNT 64u

static inline bool write_is_plain(const struct ibv_send_wr *wr, uint32_t most)
{
	return likely(wr->opcode == IBV_WR_RDMA_WRITE && wr->num_sge == 1 && wr->sg_list &&
		      wr->sg_list->length - 1 < most);
}

/* Writes the requests behind the first that are like it: its region, `mr` (NULL: inline data), and the region of the
 * last access allow WRITEs. Returns the rest. Constants are in locals, as a copy may change all memory. */
static __attribute__((noinline)) struct ibv_send_wr *write_more(struct qp *qp, struct ibv_send_wr *wr,
								const struct mr *mr)
{
	const struct reach_pair to = qp->reach_pair;
	uint64_t iova = mr ? mr->iova : 0, size = mr ? mr->length : 0, from, at, length;
	uintptr_t memory = mr ? (uintptr_t)mr->memory : 0;
	uint32_t lkey = qp->sq.last.lkey, tail = qp->sq.tail, end = tail + min_of(RUN_COUNT, sq_room(&qp->sq));

	for (; wr && tail != end && write_is_plain(wr, RUN_LENGTH); tail++, wr = wr->next) {
		length = wr->sg_list->length;
		from = wr->sg_list->addr;
		at = wr->wr.rdma.remote_addr - to.va;
		if (wr->send_flags & IBV_SEND_INLINE) {
			if (unlikely(length > qp->sq.fast_inline))
				break;
		} else {
			from -= iova;
			if (unlikely(wr->sg_list->lkey != lkey || length > size || from > size - length))
				break;
			from += memory;
		}
		if (unlikely(wr->wr.rdma.rkey != to.key || length > to.length || at > to.length - length ||
			     !fault_copy(to.at + at, (const void *)(uintptr_t)from, length)))
			break;
		if (hooks_any())
			trace_posted(qp, wr, tail, (uint32_t)length);
	}
	qp->req.wqe = qp->sq.head = qp->sq.tail = tail;
	return wr;
}

/* Writes a run of requests and returns the rest: all, if the first is not for this path. Inlined for each value of
 * `is_inline`. */
static inline __attribute__((always_inline)) struct ibv_send_wr *write_run(struct qp *qp, struct ibv_send_wr *wr,
									   bool is_inline)
{
	const struct ibv_sge *sge = wr->sg_list;
	const void *from = (const void *)(uintptr_t)sge->addr;
	uint32_t position = qp->sq.tail, length = sge->length;
	struct ibv_send_wr *rest = wr;
	struct mr *mr = NULL;
	char *at;

	if (is_inline && unlikely(length > qp->sq.fast_inline))
		return wr;
	if (!is_inline) {
		mr = sge_region_again(qp->hca, &qp->sq.last, qp->pd, sge, length, 0);
		if (unlikely(!mr))
			return wr;
		from = mr_at(mr, sge->addr);
	}
	at = reach_place(&qp->reach_pair, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, length, IBV_ACCESS_REMOTE_WRITE);
	if (likely(at && (is_inline || !mr_is_indirect(mr)) && reach_resume(qp->reach, &qp->reach_pair))) {
		if (likely(fault_copy(at, from, length))) {
			note_done(qp, wr, length);
			rest = wr->next;
			if (unlikely(rest))
				rest = write_more(qp, rest, mr);
		}
		reach_leave(qp->reach);
	}
	if (!is_inline)
		mr_put(mr);
	if (likely(rest != wr)) /* at least the first one is done */
		complete_posted(qp, wr, position, rest == wr->next ? 1 : qp->sq.tail - position, length);
	return rest;
}

static inline struct ibv_send_wr *post_writes(struct qp *qp, struct ibv_send_wr *wr)
{
	return wr->send_flags & IBV_SEND_INLINE ? write_run(qp, wr, true) : write_run(qp, wr, false);
}

struct ibv_send_wr *engine_post_onesided(struct qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *rest;

	/* packets come after what records have carried */
	if (unlikely(!reach_has_stored(qp->reach, &qp->reach_pair)))
		return wr;
	qp->reach_pair.receives.unstored = false;
	do {
		if (unlikely(!onesided_fits(&qp->sq)))
			break;
		rest = write_is_plain(wr, HCA_MAX_MESSAGE) && likely(qp->sq.max_sge) ? post_writes(qp, wr) : wr;
		if (unlikely(rest == wr)) {
			if (!post_any(qp, wr))
				break;
			rest = wr->next;
		}
		wr = rest;
	} while (unlikely(wr));
	return wr;
}

/* The bytes of a WRITE with immediate data. */
static bool deliver_write(struct qp *qp, const struct access *e)
{
	return (!e->length || (reach_has_stored(qp->reach, &qp->reach_pair) && onesided_carry_out(qp, e))) &&
	       reach_deliver(qp->reach, &qp->reach_pair, 0);
}

/* The bytes of a SEND. */
static bool deliver_send(struct qp *qp, const struct access *e)
{
	struct own_memory hold;
	struct reach_span span = {0};
	bool done = false;

	if (!e->length)
		return reach_deliver(qp->reach, &qp->reach_pair, 0);
	if (!take_request_memory(qp, e, &hold))
		return false;
	if (!hold.has_gpu)
		span.at = reach_deliver(qp->reach, &qp->reach_pair, e->length);
	if (span.at) {
		done = engine_onesided_perform(qp, e, &span, &hold);
		if (!done)
			reach_undeliver(qp->reach, &qp->reach_pair);
	}
	let_go(&hold);
	return done;
}

bool onesided_deliver(struct qp *qp, const struct ibv_send_wr *wr, uint64_t length)
{
	struct access e = access_posted(wr, length);

	e.opcode = IBV_WR_RDMA_WRITE;
	if (e.keyless && length > qp->sq.fast_inline)
		return false;
	return wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? deliver_write(qp, &e) : deliver_send(qp, &e);
}

struct placing {
	struct reach *reach;
	const struct reach_span *span;
	const struct iovec *from;
	unsigned count;
	uint32_t length;
	bool done;
};

static void onesided_place(void *arg)
{
	struct placing *p = arg;

	p->done = !p->span->gpu && reach_write(p->reach, p->span, p->from, p->count, p->length);
}

bool engine_place(struct qp *qp, const struct iovec *from, unsigned count, uint32_t length, uint64_t address,
		  uint32_t rkey)
{
	struct placing p;
	struct reach_span span;
	bool done;

	if (!qp->reach || qp->state != IBV_QPS_RTS || qp->needs_packets ||
	    !reach_has_stored(qp->reach, &qp->reach_pair))
		return false;
	if (!onesided_enter(qp, rkey, address, length, IBV_ACCESS_REMOTE_WRITE, &span))
		return false;
	p = (struct placing){qp->reach, &span, from, count, length, false};
	done = fault_try(onesided_place, &p) && p.done;
	reach_leave(qp->reach);
	return done;
}

/* How the peer reaches the bytes; the region is held meanwhile, as ibv_rereg_mr(3) changes what is told of it. */
static enum share_way way_to(const struct qp *qp, const struct ibv_sge *sge)
{
	struct mr *mr = mr_get_local(qp->hca, sge->lkey);
	enum share_way way =
		mr ? share_way(qp->hca->share, sge->lkey ^ qp->hca->keys.lkey, sge->addr, sge->length) : SHARE_NOT;

	if (mr)
		mr_put(mr);
	return way;
}

/* True if a payload may be referred to. Not of a WRITE without immediate data: a local peer's memory is written without
 * a packet. A peer that needs packets shows no QP: it would ask for the payload by a NAK. */
bool onesided_may_refer(const struct qp *qp, struct wqe *w)
{
	enum share_way way = SHARE_ON_GPU;

	if (!(wqe_is_send(w) || w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) || (w->flags & IBV_SEND_INLINE) ||
	    !qp->reach || !qp->req.lossless || qp->req.plain || qp->needs_packets ||
	    !reach_is_open(qp->reach, &qp->reach_pair))
		return false;
	for (uint32_t i = 0; i < w->num_sge; i++)
		if (w->sge[i].length)
			way = min_of(way, way_to(qp, &w->sge[i]));
	w->of_gpu = way == SHARE_ON_GPU;
	return way >= SHARE_MAPPED ||
	       (way == SHARE_COPIED && w->length >= REFER_COPIED && reach_has_process_vm(qp->reach));
}

/* Copies bytes of the local peer's memory into own memory, which is released. */
static bool fetch_into(struct qp *qp, const struct packet_piece *piece, struct own_memory *own)
{
	struct reach_span span;
	bool done = false;

	if (onesided_enter(qp, piece->rkey, piece->address, piece->length, 0, &span)) {
		done = engine_onesided_perform(
			qp, &(struct access){.opcode = IBV_WR_RDMA_READ, .length = piece->length}, &span, own);
		reach_leave(qp->reach);
	}
	let_go(own);
	return done;
}

/* Fetches a piece into the receive, from `offset` on. */
static bool fetch_piece(struct qp *qp, const struct packet_piece *piece, uint64_t offset)
{
	const struct rwqe *to = qp->resp.recv;
	struct own_memory own;

	return take_own(qp, receive_pd(qp), to->sge, to->num_sge, offset, piece->length, IBV_ACCESS_LOCAL_WRITE,
			&own) &&
	       fetch_into(qp, piece, &own);
}

/* Fetches a piece into a region, with the caller's reference to it. */
static bool fetch_piece_to(struct qp *qp, const struct packet_piece *piece, struct mr *mr, char *at)
{
	struct own_memory own = {
		.mr = {mr}, .iov = {{at, piece->length}}, .iovs = 1, .has_gpu = mr->kind == MEMORY_GPU};

	return (!mr_is_indirect(mr) || own.has_gpu) && fetch_into(qp, piece, &own);
}

/* Fetches each piece of the packet, into the receive, or to `at` of the region. */
static bool fetch_pieces(struct qp *qp, const struct packet *p, struct mr *mr, char *at)
{
	uint64_t offset = mr ? 0 : qp->resp.received, end = offset + p->length;
	struct packet_piece piece;

	if (!qp->reach || qp->needs_packets)
		return false;
	for (uint32_t i = 0; i < p->pieces; offset += piece.length, i++) {
		/* the sender may change the piece meanwhile: it is copied, and only the checked copy is used */
		memcpy(&piece, p->payload + i * sizeof(piece), sizeof(piece));
		__asm__ volatile("" : "+m"(piece));
		if (piece.length > end - offset ||
		    !(mr ? fetch_piece_to(qp, &piece, mr, at + offset) : fetch_piece(qp, &piece, offset)))
			return false;
	}
	/* if the request has failed meanwhile, its memory may have changed */
	return reach_is_open(qp->reach, &qp->reach_pair);
}

bool onesided_fetch(struct qp *qp, const struct packet *p)
{
	return fetch_pieces(qp, p, NULL, NULL);
}

bool onesided_fetch_to(struct qp *qp, const struct packet *p, struct mr *mr, char *at)
{
	return fetch_pieces(qp, p, mr, at);
}

bool onesided_fetch_piece(struct qp *qp, const struct packet_piece *piece, char *to)
{
	struct reach_span span;
	bool done = false;

	if (unlikely(!qp->reach || qp->needs_packets))
		return false;
	if (onesided_enter(qp, piece->rkey, piece->address, piece->length, 0, &span)) {
		done = span.at && fault_copy_any(to, span.at, piece->length);
		reach_leave(qp->reach);
	}
	return done && reach_is_open(qp->reach, &qp->reach_pair);
}

struct reach_pair engine_pair(const struct qp *qp)
{
	return (struct reach_pair){
		.qp = qp->attr.dest_qp_num & 0xffff,
		.pair = share_pair(qp->path.dgid.raw, qp->attr.dest_qp_num, qp->path.sgid.raw, qp->base.qp_num),
	};
}

void engine_reach(struct qp *qp, struct reach *reach)
{
	if (qp->transport != TRANSPORT_RC || qp->reach == reach)
		return;
	qp->reach = reach;
	engine_set_lane(qp);
	qp->req.plain = false;
	reach_anew(&qp->reach_pair, engine_pair(qp));
}
