/* SPDX-License-Identifier: BSD-2-Clause */
/* A buffer belongs to the adapter from the post to the poll of the completion. Digests show whether the program has
 * written to it: for sent bytes, at the post and at the poll; for received bytes, when they are in memory and at the
 * poll; of some receives also at the post and just before the bytes come. */
#include "check/buffers.h"

#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "check/asan.h"
#include "check/finding.h"
#include "check/objects.h"
#include "check/pages.h"
#include "check/placed.h"
#include "check/queues.h"
#include "check/request.h"
#include "check/scope.h"
#include "check/stack.h"
#include "check/tuned.h"
#include "memory/fault.h"
#include "object/mr.h"
#include "object/qp.h"

struct digesting {
	const struct request *request;
	uint64_t digest;
};

typedef uint64_t lanes __attribute__((vector_size(32)));

/* Sums of the words, and sums of these sums, which depend on the order; in lanes, for speed. */
static uint64_t digest_blocks(const char *at, uint32_t blocks)
{
	lanes word[2], sum[2] = {{0}, {0}}, order[2] = {{0}, {0}};
	uint64_t digest = 0;

	for (; blocks; at += sizeof(word), blocks--) {
		memcpy(word, at, sizeof(word));
		sum[0] += word[0];
		sum[1] += word[1];
		order[0] += sum[0];
		order[1] += sum[1];
	}
	for (int i = 0; i < 4; i++) {
		digest = (digest ^ sum[0][i] ^ order[1][i]) * 0x9e3779b97f4a7c15u;
		digest = (digest ^ sum[1][i] ^ order[0][i] << 1) * 0x9e3779b97f4a7c15u;
	}
	return digest;
}

/* No ThreadSanitizer here: a concurrent write of the program is what is looked for. */
__attribute__((no_sanitize("thread"))) static uint64_t digest_add(uint64_t digest, const char *at, uint32_t length)
{
	enum { BOTH = 2 * sizeof(lanes) };
	uint32_t blocks = length / BOTH;

	if (blocks)
		digest = (digest ^ digest_blocks(at, blocks)) * 0x100000001b3u;
	for (at += (size_t)blocks * BOTH, length %= BOTH; length; at++, length--)
		digest = (digest ^ (uint8_t)*at) * 0x100000001b3u;
	return digest;
}

static uint64_t digest_ends(uint64_t digest, const char *at, uint32_t length)
{
	digest = digest_add(digest, at, DIGEST_END);
	return digest_add(digest, at + length - DIGEST_END, DIGEST_END);
}

static void digest_request(void *arg)
{
	struct digesting *d = arg;
	const struct request *r = d->request;
	uint32_t left = r->is_send ? UINT32_MAX : r->length;

	for (int i = 0; i < r->sges && left; i++) {
		const char *at = (const char *)(uintptr_t)r->sge[i].addr;
		uint32_t length = min_of(r->sge[i].length, left);

		left -= length;
		d->digest = r->ends_only && length > 2 * DIGEST_END
				    ? digest_ends(d->digest, at, length)
				    : digest_add(d->digest, at, min_of(length, DIGEST_MOST));
	}
}

/* False if the memory cannot be read. */
static bool digest_of(const struct request *r, uint64_t *digest)
{
	struct digesting d = {r, 0};
	bool ok = fault_try(digest_request, &d);

	*digest = d.digest;
	return ok;
}

static void digest_take(struct request *r)
{
	r->since = placed_count();
	r->has_digest = digest_of(r, &r->digest);
}

static bool is_changed(const struct request *r)
{
	uint64_t now;

	return r->has_digest && !(digest_of(r, &now) && now == r->digest);
}

/* ---- the blocks of a receive ---- */

/* A message may be shorter than its receive. The program may write behind the end of the message: UCX posts receives
 * that end in the header of what follows them. So blocks are compared, small ones first, and only those count that
 * the message fills. */

static uint32_t block_end(const struct request *r, uint32_t i)
{
	uint32_t length = min_of(r->sge[0].length, DIGEST_MOST),
		 rest = length - min_of(length, SMALL_BLOCKS * DIGEST_BLOCK);
	uint32_t step = (rest / (REQUEST_BLOCKS - SMALL_BLOCKS) / DIGEST_BLOCK + 1) * DIGEST_BLOCK;

	return min_of(length, i < SMALL_BLOCKS ? (i + 1) * DIGEST_BLOCK
					       : SMALL_BLOCKS * DIGEST_BLOCK + (i + 1 - SMALL_BLOCKS) * step);
}

struct blocks {
	const struct request *request;
	uint32_t block[REQUEST_BLOCKS], count;
};

static void digest_blocks_of(void *arg)
{
	struct blocks *b = arg;
	const struct request *r = b->request;
	const char *at = (const char *)(uintptr_t)r->sge[0].addr;
	uint32_t most = r->ends_only ? SMALL_BLOCKS : REQUEST_BLOCKS, from = 0, to;

	for (; b->count < most && from < (to = block_end(r, b->count)); from = to)
		b->block[b->count++] = (uint32_t)(digest_add(0, at + from, to - from) >> 32);
}

static void take_blocks(struct request *r)
{
	struct blocks b = {.request = r};

	r->since = placed_count();
	if (fault_try(digest_blocks_of, &b))
		r->blocks = (uint8_t)b.count;
	memcpy(r->block, b.block, sizeof(r->block));
	r->changed_block = REQUEST_BLOCKS;
}

/* Index of the first block that has changed. */
static uint8_t find_changed(const struct request *r)
{
	struct blocks b = {.request = r};

	if (!fault_try(digest_blocks_of, &b))
		return REQUEST_BLOCKS;
	for (uint8_t i = 0; i < r->blocks; i++)
		if (r->block[i] != b.block[i])
			return i;
	return REQUEST_BLOCKS;
}

/* True if a message of `length` bytes has filled the changed block. */
static bool is_filled(const struct request *r, uint32_t length)
{
	uint32_t i = r->changed_block;

	return i < SMALL_BLOCKS ? i * DIGEST_BLOCK < length : i < REQUEST_BLOCKS && block_end(r, i) <= length;
}

/* ---- from post to poll ---- */

void buffers_begin(struct request *r)
{
	static _Thread_local uint32_t counts[2]; /* of receives, of sends */
	uint32_t count;

	if (!check_wants(CHECK_BUFFERS) || !r->sges)
		return;
	count = ++counts[r->is_send];
	r->ends_only = count > WHOLE_FIRST && count % WHOLE_THEN;
	r->is_followed = !r->is_send;
	if (r->is_send)
		digest_take(r);
	else if (!r->ends_only || asan_is_there())
		take_blocks(r);
}

void buffers_arrive(struct request *r)
{
	struct placed by;

	asan_give(r);
	pages_pause(r);
	if (r->is_send) {
		r->was_written = is_changed(r) && !placed_since(r, &by);
	} else if (r->blocks) {
		r->changed_block = find_changed(r);
		if (r->changed_block < REQUEST_BLOCKS && placed_since(r, &by))
			r->changed_block = REQUEST_BLOCKS;
	}
}

void buffers_placed(struct request *r, uint32_t length)
{
	r->length = length;
	r->was_written |= r->blocks && is_filled(r, length);
	asan_give(r);
	if (r->has_digest || r->is_followed)
		digest_take(r);
	asan_take(r);
	pages_resume(r);
}

/* ---- what was found ---- */

static bool region_allows_writes(const struct object *o, uint32_t lkey)
{
	const struct mr *mr = o->object;

	return o->kind == CHECK_MR && mr->base.lkey == lkey &&
	       (mr->access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC));
}

static bool has_peer_elsewhere(const struct object *o) REQUIRES(objects_lock)
{
	const struct qp *qp = o->object;

	return o->kind == CHECK_QP && qp->reach && !queues_of_number(qp->attr.dest_qp_num);
}

/* True if another process of this host may have written to that memory without a packet. */
static bool peers_may_write(const struct request *r) REQUIRES(objects_lock)
{
	bool allowed = false, reached = false;

	for (const struct object *o = objects_next(NULL); o; o = objects_next(o)) {
		reached |= has_peer_elsewhere(o);
		for (int i = 0; i < r->sges; i++)
			allowed |= region_allows_writes(o, r->sge[i].lkey);
	}
	return allowed && reached;
}

static const char *or_a_peer(const struct request *r)
{
	bool may;

	lock_take(&objects_lock);
	may = peers_may_write(r);
	lock_drop(&objects_lock);
	return may ? ", by this program or by a peer's WRITE" : "";
}

static void report_source(const struct request *r, const struct placed *by)
{
	struct finding f = {.class = CHECK_BUFFERS,
			    .name = "changed-in-flight",
			    .remedy = "write to the buffer only when the completion has been polled; or send it inline",
			    .at = {{"posted", r->posted}, {"its completion was polled", stack_here()}}};
	char peer[64] = "";
	const char *answered =
		r->answers ? ". The peer's answer is no completion: the adapter may still send this again" : "";

	if (by->is_request) {
		snprintf(peer, sizeof(peer), " by a peer's WRITE that came to QP 0x%x", by->qpn);
		f.remedy = "let the peer write elsewhere, or only when this end has told it that the request is done";
	}
	snprintf(f.text, sizeof(f.text),
		 "the %u byte%s at 0x%" PRIx64 " that a request sends (wr_id 0x%" PRIx64
		 ") were changed%s before its completion was polled%s%s",
		 r->sge[0].length, plural(r->sge[0].length), r->sge[0].addr, r->wr_id, peer, *peer ? "" : or_a_peer(r),
		 answered);
	finding_report(&f);
}

static const char *name_of(const struct request *r)
{
	return !r->is_send ? "receive" : r->opcode == IBV_WR_RDMA_READ ? "READ" : "atomic";
}

/* An instruction of the program that is known, where no digest shows a change. */
static void report_touch(const struct request *r)
{
	struct finding f = {
		.class = CHECK_BUFFERS,
		.name = "touched-in-flight",
		.remedy = "do not use the memory between the post and the poll of the completion",
		.at = {{"touched", r->touched}, {"posted", r->posted}, {"its completion was polled", stack_here()}}};

	snprintf(f.text, sizeof(f.text),
		 "the %u byte%s at 0x%" PRIx64 " of a posted %s (wr_id 0x%" PRIx64
		 ") were read before its completion was polled",
		 r->sge[0].length, plural(r->sge[0].length), r->sge[0].addr, name_of(r), r->wr_id);
	finding_report(&f);
}

static void report_destination(const struct request *r)
{
	struct finding f = {.class = CHECK_BUFFERS,
			    .name = "written-in-flight",
			    .remedy = "do not use the memory between the post and the poll of the completion",
			    .at = {{"posted", r->posted},
				   {"its completion was polled", stack_here()},
				   {"an instruction that touched it", r->touched}}};

	snprintf(f.text, sizeof(f.text),
		 "the %u byte%s at 0x%" PRIx64 " of a posted %s (wr_id 0x%" PRIx64 ") were written to %s%s",
		 r->sge[0].length, plural(r->sge[0].length), r->sge[0].addr, name_of(r), r->wr_id,
		 r->was_written ? "before the data came" : "when the data had come, before its completion was polled",
		 or_a_peer(r));
	finding_report(&f);
}

static bool is_brought_by_any(const struct list *requests, const struct request *r) REQUIRES(objects_lock)
{
	list_each_safe (l, (struct list *)requests) {
		const struct request *other = container_of(l, struct request, link);

		if (other->brings && requests_overlap(other, r))
			return true;
	}
	return false;
}

/* True if bytes may be in the memory already: other adapters do not tell when bytes of a receive or a READ come. */
static bool may_be_brought(const struct request *r) REQUIRES(objects_lock)
{
	if (!check_is_through)
		return false;
	for (const struct object *o = objects_next(NULL); o; o = objects_next(o))
		if (o->queues &&
		    (is_brought_by_any(&o->queues->receives, r) || is_brought_by_any(&o->queues->sends, r)))
			return true;
	return false;
}

void buffers_end(const struct request *r)
{
	bool changed = is_changed(r) && (!r->brings || r->is_placed), placed = false;
	struct placed by = {0};

	if (!r->was_written && !changed) {
		if (r->touched)
			report_touch(r);
		return;
	}
	if (changed) {
		lock_take(&objects_lock);
		placed = placed_since(r, &by) || may_be_brought(r);
		lock_drop(&objects_lock);
	}
	if (r->brings) {
		if (r->was_written || !placed)
			report_destination(r);
	} else if (!placed || (by.is_request && by.qpn != r->qpn)) {
		report_source(r, &by);
	}
}
