// SPDX-License-Identifier: BSD-2-Clause
/* Reports to MemorySanitizer in the program, and questions to it. */
#include "check/msan.h"

#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/msan.h"
#include "base/plural.h"
#include "check/finding.h"
#include "check/objects.h"
#include "check/request.h"
#include "check/scope.h"
#include "check/target.h"
#include "object/mr.h"
#include "object/qp.h"
#include "object/window.h"
#include "wire/packet.h"

#define READS 16u /* findings that wait for a report */

/* ---- what a request sends ---- */

static void report_unset(const char *text, const struct stack *stack, const char *title)
{
	struct finding f = {.class = CHECK_BUFFERS,
			    .name = "uninitialized-sent",
			    .remedy = "fill all bytes that are sent, those between the fields of a struct as well, or "
				      "send fewer",
			    .at = {{title, stack}}};

	snprintf(f.text, sizeof(f.text), "%s", text);
	finding_report(&f);
}

static void report_memory(const struct ibv_send_wr *wr, const struct ibv_sge *sge, const char *at,
			  const struct stack *posted)
{
	char text[FINDING_TEXT];

	snprintf(text, sizeof(text),
		 "of the %u byte%s at 0x%" PRIx64 " that a request sends (wr_id 0x%" PRIx64 "), byte %" PRIu64
		 " was never initialised: the peer gets undefined data",
		 sge->length, plural(sge->length), sge->addr, wr->wr_id, (uint64_t)(uintptr_t)at - sge->addr);
	report_unset(text, posted, "posted");
}

static void look_at_memory(const struct ibv_qp *qp, const struct ibv_send_wr *wr, const struct stack *posted)
{
	struct hca *hca = ((const struct qp *)qp)->hca;

	for (int i = 0; i < sges_of(wr->sg_list, wr->num_sge, ((const struct qp *)qp)->cap.max_send_sge); i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];
		const char *at =
			wr->send_flags & IBV_SEND_INLINE ? (const char *)(uintptr_t)sge->addr : target_of_sge(hca, sge);
		const char *unset = at ? msan_first_unset(at, sge->length) : NULL;

		if (unset) {
			report_memory(wr, sge, (const char *)(uintptr_t)sge->addr + (unset - at), posted);
			return;
		}
	}
}

/* Reports an uninitialised word that the request itself carries. */
static void look_at_word(const char *what, const void *word, size_t size, const struct stack *posted)
{
	char text[FINDING_TEXT];

	if (!msan_first_unset(word, size))
		return;
	snprintf(text, sizeof(text), "%s of a request was never initialised: the peer gets undefined data", what);
	report_unset(text, posted, "posted");
}

static bool has_immediate(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

void msan_look(const struct ibv_qp *qp, const struct ibv_send_wr *wr, const struct stack *posted)
{
	if (!msan_is_there() || !check_wants(CHECK_BUFFERS))
		return;
	if (sends_bytes(wr->opcode))
		look_at_memory(qp, wr, posted);
	if (has_immediate(wr->opcode))
		look_at_word("the immediate data", &wr->imm_data, sizeof(wr->imm_data), posted);
	if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
		look_at_word("the operand (compare_add)", &wr->wr.atomic.compare_add, sizeof(wr->wr.atomic.compare_add),
			     posted);
	if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
		look_at_word("the operand (swap)", &wr->wr.atomic.swap, sizeof(wr->wr.atomic.swap), posted);
}

/* ---- what a request brings ---- */

void msan_brought(const struct request *r)
{
	uint32_t left = r->is_send || !r->is_placed ? UINT32_MAX : r->length;

	if (!msan_is_there() || !r->brings)
		return;
	for (uint32_t i = 0; i < r->all_sges && left; i++) {
		uint32_t length = min_of(r->all[i].length, left);

		msan_wrote((const void *)(uintptr_t)r->all[i].addr, length);
		left -= length;
	}
}

static void bytes_may_come(const struct ibv_sge *sge, int count)
{
	for (int i = 0; i < sges_of(sge, count, SGES_MOST); i++)
		msan_wrote((const void *)(uintptr_t)sge[i].addr, sge[i].length);
}

void msan_expects_receives(const struct ibv_recv_wr *wr)
{
	for (; wr && msan_is_there(); wr = wr->next)
		bytes_may_come(wr->sg_list, wr->num_sge);
}

void msan_expects_sent(const struct ibv_send_wr *wr)
{
	for (; wr && msan_is_there(); wr = wr->next)
		if (brings_bytes(wr->opcode))
			bytes_may_come(wr->sg_list, wr->num_sge);
}

void msan_polled(struct ibv_wc *wc, int count)
{
	if (count > 0)
		msan_wrote(wc, (size_t)count * sizeof(*wc));
}

/* ---- what a peer does ---- */

/* READs of uninitialised memory. Guarded by objects_lock; `noted` and `told` may be compared without the lock. */
static struct {
	uint32_t qpn;
	uint64_t va, length, offset;
	const struct stack *registered;
} reads[READS];
static _Atomic uint32_t noted, told;

static const struct stack *where_registered(const struct mr *mr) REQUIRES(objects_lock)
{
	const struct object *o = object_find(CHECK_MR, mr);

	return o ? o->made : NULL;
}

static void look_at_read(const struct qp *qp, const struct packet *p) REQUIRES(objects_lock)
{
	uint32_t n = atomic_load_explicit(&noted, memory_order_relaxed);
	char *at;
	struct mr *mr = target_of(qp, p, p->dma_length, IBV_ACCESS_REMOTE_READ, &at);
	const char *unset = mr ? msan_first_unset(at, p->dma_length) : NULL;

	if (unset && n - atomic_load_explicit(&told, memory_order_relaxed) < READS) {
		reads[n % READS].qpn = qp->base.qp_num;
		reads[n % READS].va = p->va;
		reads[n % READS].length = p->dma_length;
		reads[n % READS].offset = (uint64_t)(unset - at);
		reads[n % READS].registered = where_registered(mr);
		atomic_store_explicit(&noted, n + 1, memory_order_relaxed);
	}
	if (mr)
		mr_put(mr);
}

static void bytes_arrive(const struct qp *qp, const struct packet *p, unsigned access)
{
	char *at;
	struct mr *mr = target_of(qp, p, p->dma_length, access, &at);

	if (!mr)
		return;
	msan_wrote(at, p->dma_length);
	mr_put(mr);
}

void msan_arrives(const struct qp *qp, const struct packet *p)
{
	uint32_t flags = opcode_info[p->opcode].flags;

	if (!msan_is_there() || (flags & IS_RESPONSE))
		return;
	if (((flags & IS_WRITE) && (flags & IS_FIRST)) || (flags & IS_ATOMIC_WRITE))
		bytes_arrive(qp, p, IBV_ACCESS_REMOTE_WRITE);
	else if ((flags & IS_READ) && check_wants(CHECK_BUFFERS))
		look_at_read(qp, p);
}

static bool next_read(char *text, size_t room, const struct stack **registered)
{
	uint32_t n;
	bool any;

	lock_take(&objects_lock);
	n = atomic_load_explicit(&told, memory_order_relaxed);
	any = n != atomic_load_explicit(&noted, memory_order_relaxed);
	if (any) {
		snprintf(text, room,
			 "of the %" PRIu64 " bytes at 0x%" PRIx64 " that a peer READs by QP 0x%x, byte %" PRIu64
			 " was never initialised: the peer gets undefined data",
			 reads[n % READS].length, reads[n % READS].va, reads[n % READS].qpn, reads[n % READS].offset);
		*registered = reads[n % READS].registered;
		atomic_store_explicit(&told, n + 1, memory_order_relaxed);
	}
	lock_drop(&objects_lock);
	return any;
}

void msan_tell(void)
{
	const struct stack *registered;
	char text[FINDING_TEXT];

	if (likely(atomic_load_explicit(&noted, memory_order_relaxed) ==
		   atomic_load_explicit(&told, memory_order_relaxed)))
		return;
	while (next_read(text, sizeof(text), &registered))
		report_unset(text, registered, "registered");
}
