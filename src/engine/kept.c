/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/kept.h"

#include <stdlib.h>

#include "base/be.h"
#include "base/trace.h"
#include "engine/answers.h"
#include "engine/checks.h"
#include "engine/engine.h"
#include "engine/tuned.h"

/* PSNs to be answered again: a ring, oldest first. */
struct repairs {
	uint32_t head, count;
	struct repair {
		psn_t psn;
		uint32_t packets;
	} ring[REPAIRS];
};

void kept_begin(struct qp *qp)
{
	struct responder *r = &qp->resp;

	if (!r->repairs && r->peer_is_uroce && qp->transport == TRANSPORT_RC && !qp->req.lossless)
		r->repairs = calloc(1, sizeof(*r->repairs));
}

static struct repair *repair_at(struct repairs *q, uint32_t i)
{
	return &q->ring[(q->head + i) % REPAIRS];
}

/* Reads memory of any kind. */
static bool read_memory(const struct mr *mr, char *to, const char *at, uint32_t length)
{
	return mr_is_indirect(mr) ? memory_ops[mr->kind].read(mr->handle, to, at, length)
				  : fault_copy_any(to, at, length);
}

void kept_take(struct qp *qp, const struct response *s)
{
	struct answer_record *a = find_answer(&qp->resp, s->psn, true);
	struct mr *mr;
	char *at;

	if (!a)
		return;
	if (a->kept) {
		a->kept->next = qp->resp.spent;
		qp->resp.spent = a->kept;
	}
	a->kept = s->left ? kept_read_make(s->psn, s->left) : NULL;
	if (!a->kept)
		return;
	mr = remote_region(qp, s->rkey, s->va, s->left, IBV_ACCESS_REMOTE_READ, &at);
	if (!mr || !read_memory(mr, a->kept->bytes, at, s->left)) {
		kept_read_free(a->kept);
		a->kept = NULL;
	}
	if (mr)
		mr_put(mr);
}

static const char *kept_of(const struct answer_record *a, psn_t psn, uint32_t length)
{
	uint64_t offset = a->kept ? (uint64_t)(uint32_t)psn_diff(psn, a->kept->psn) * a->mtu : 0;

	if (!a->kept || psn_diff(psn, a->kept->psn) < 0 || offset + length > a->kept->length)
		return NULL;
	return a->kept->bytes + offset;
}

const char *kept_at(const struct qp *qp, psn_t psn, uint32_t length)
{
	const struct answer_record *a = find_answer(&qp->resp, psn, true);

	return a ? kept_of(a, psn, length) : NULL;
}

static bool is_owed(struct repairs *q, psn_t psn)
{
	for (uint32_t i = 0; i < q->count; i++) {
		const struct repair *s = repair_at(q, i);

		if (psn_diff(psn, s->psn) >= 0 && psn_diff(psn, s->psn) < (int32_t)s->packets)
			return true;
	}
	return false;
}

/* True if the peer may have sent the request, which has not come. A stranger knows no key. */
static bool may_be_missing(const struct qp *qp, const struct packet *p)
{
	int32_t ahead = psn_diff(p->psn, qp->resp.expected);
	struct mr *mr = ahead >= 0 && psn_is_near(ahead) ? mr_get(qp->hca, p->rkey) : NULL;

	if (mr)
		mr_put(mr);
	return mr;
}

void kept_asked(struct qp *qp, const struct packet *p)
{
	struct responder *r = &qp->resp;
	struct repairs *q = r->repairs;
	const struct answer_record *read = asks_again(qp, p) ? find_answer(r, p->psn, true) : NULL,
				   *a = read ?: find_answer(r, p->psn, false);
	uint32_t left = a ? a->packets - (uint32_t)psn_diff(p->psn, a->psn) : 0;

	if (!r->nak && may_be_missing(qp, p))
		engine_ask_from(qp, r->expected);
	if (!left || !q || q->count == REPAIRS || is_owed(q, p->psn))
		return;
	qp_count(qp, HCA_DUPLICATES);
	*repair_at(q, q->count++) = (struct repair){p->psn, min_of(left, packets_of(qp->mtu, p->dma_length))};
	r->repair_owed = true;
}

/* Finds the bytes that the packet carries; of an atomic, the result in the byte order of the wire. False: none are
 * known. */
static bool find_bytes(struct qp *qp, struct tx_batch *batch, psn_t psn, const char **bytes, uint32_t *length)
{
	const struct answer_record *a = find_answer(&qp->resp, psn, true);
	char *bounce = batch->bounce + batch->bounced;
	uint64_t skipped;

	if (a) {
		skipped = (uint64_t)(uint32_t)psn_diff(psn, a->psn) * a->mtu;
		*length = (uint32_t)min_of((uint64_t)a->mtu, a->length - skipped);
		*bytes = *length ? kept_of(a, psn, *length) : "";
		return *bytes;
	}
	a = find_answer(&qp->resp, psn, false);
	if (!a)
		return false;
	*(be64 *)bounce = to_be64(a->value);
	*length = sizeof(be64);
	*bytes = bounce;
	return true;
}

/* Makes one packet. False: the tx batch is full. */
static bool repair_packet(struct qp *qp, struct tx_batch *batch, psn_t psn)
{
	const char *bytes;
	uint32_t length;
	struct tx *tx;

	if (batch->packets >= BATCH_TRAINS)
		return false;
	tx = batch_packet(qp, batch, OPCODE_ANSWERED_AGAIN, psn);
	if (!tx)
		return false;
	if (!find_bytes(qp, batch, psn, &bytes, &length)) {
		batch_drop_last(batch, tx);
		return true;
	}
	if (!batch_has_room(batch, length, false)) {
		batch_drop_last(batch, tx);
		return false;
	}
	batch_bytes(batch, tx, bytes, length);
	batch->bounced += (uint32_t)(bytes == batch->bounce + batch->bounced) * length;
	trace(build, qp->base.qp_num, tx->packet.dest_qpn, psn.v, tx->packet.opcode, length, 0);
	return true;
}

bool kept_run(struct qp *qp, struct tx_batch *batch)
{
	struct repairs *q = qp->resp.repairs;

	for (; q->count; q->count--, q->head++) {
		struct repair *s = repair_at(q, 0);

		for (; s->packets; s->packets--, s->psn = psn_add(s->psn, 1))
			if (!repair_packet(qp, batch, s->psn))
				return false;
	}
	qp->resp.repair_owed = false;
	return true;
}
