/* SPDX-License-Identifier: BSD-2-Clause */
/* Any messages of the peer of a stream, and anything written where it writes targets: what it grants and says that it
 * has sent stays within what there is. The input: the targets, then of each completion its kind, its status, its length
 * and the message. Seeds: corpus/stream, made by stream-seeds.py. */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "object/hca_init.h"
#include "require.h"
#include "rsocket/flow.h"
#include "rsocket/table.h"

enum { RING = 65536, DEPTH = 16, STEP = 8, MANY = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t ours; /* completions of our own messages that were not polled */

static int take_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	(void)bad;
	require(wr->num_sge == 0 || wr->sg_list->length == sizeof(struct rs_sge));
	return 0;
}

static int take_receives(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)qp;
	(void)bad;
	require(wr);
	return 0;
}

static void destroy(struct rsocket *rs)
{
	(void)rs; /* end_stream() has left nothing */
}

static void no_event(struct cq *cq)
{
	(void)cq;
}

static const struct hca_ops nobody = {.cq_event = no_event, .cq_error = no_event};
static struct ibv_context context = {.ops = {.post_send = take_send, .post_recv = take_receives}};
static struct ibv_qp qp = {.context = &context};
static struct rdma_cm_id id = {.qp = &qp};
static struct ibv_mr mr;
static uint8_t rx[RING];
static struct rs_sge targets[RS_TARGETS];

static void make_stream(struct rsocket *rs, struct cq *cq, bool swap) REQUIRES(rs->lock)
{
	struct stream *s = &rs->stream;

	rs->id = &id;
	rs->sq_size = rs->rq_size = DEPTH;
	rsocket_set_state(rs, RS_CONNECTED);
	s->cq = (struct ibv_cq *)cq;
	s->mr = &mr;
	s->targets = targets;
	s->tx_size = s->rx_size = RING;
	s->slots = DEPTH;
	s->rx = rx;
	s->rx_free = RING / 2;
	s->remote = (struct rs_sge){4096, 1, RS_TARGETS};
	s->swap = swap;
}

/* Nothing of it is the library's. */
static void end_stream(struct rsocket *rs) REQUIRES(rs->lock)
{
	rs->id = NULL;
	rs->stream.cq = NULL;
	rs->stream.mr = NULL;
	rs->stream.rx = NULL;
	rs->stream.targets = NULL;
}

/* What the program reads is free again; what has been sent leaves. */
static void use_stream(struct rsocket *rs) REQUIRES(rs->lock)
{
	struct stream *s = &rs->stream;

	require(s->rx_ready <= s->rx_size && s->next_target < RS_TARGETS && s->controls <= RS_CONTROLS);
	require(rsocket_state(rs) == RS_CONNECTED || rsocket_state(rs) == RS_OVER);
	s->rx_free = min_of(s->rx_free + s->rx_ready, s->rx_size);
	s->rx_ready = 0;
	(void)stream_can_send(rs);
	(void)stream_has_room(rs);
	(void)stream_is_drained(rs);
}

static void complete_one(struct rsocket *rs, struct cq *cq, const uint8_t step[STEP]) REQUIRES(rs->lock)
{
	struct cqe e = {.wr_id = step[0] & 1 ? 1ull << 63 : 1ull << 62,
			.status = step[1],
			.byte_len = step[2],
			.marks = CQE_KEEPS_SLOT};

	if (step[0] & 1 && ours == rs->stream.controls)
		return; /* of ours, only what was posted completes */
	ours += step[0] & 1;
	memcpy(&e.imm, step + 4, sizeof(e.imm));
	cq_push(cq, NULL, NULL, e);
	if (step[0] & 2)
		return; /* with the next one */
	stream_process(rs);
	ours = 0;
	use_stream(rs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct hca hca;
	struct cq cq = {0};
	struct rsocket *rs;

	if (size < 1 + sizeof(targets))
		return 0;
	rs = rsocket_make(-1, AF_INET, SOCK_STREAM, destroy);
	if (!hca.ops)
		require(!hca_init(&hca, &nobody, 1, 1, NULL));
	require(rs && !cq_init(&cq, &hca, 2 * MANY));
	memcpy(targets, data + 1, sizeof(targets));
	ours = 0;
	lock_take(&rs->lock);
	make_stream(rs, &cq, data[0] & 1);
	for (size_t at = 1 + sizeof(targets), n = 0; at + STEP <= size && n < MANY; at += STEP, n++)
		complete_one(rs, &cq, data + at);
	stream_process(rs);
	end_stream(rs);
	lock_drop(&rs->lock);
	rsocket_put(rs);
	cq_fini(&cq);
	return 0;
}
