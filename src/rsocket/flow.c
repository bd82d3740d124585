/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/flow.h"

#include "object/cq_poll.h"
#include "rsocket/timeout.h"
#include "rsocket/tuned.h"

#define BATCH 32

/* wr_id: a control message, a receive; else bytes of the send ring, and from bit WR_SLOTS on slots, that are free when
 * it completes. */
#define WR_CONTROL (1ull << 63)
#define WR_RECEIVE (1ull << 62)
#define WR_SLOTS   32

static int flow_post(struct rsocket *rs, struct ibv_sge *sge, int sges, enum ibv_wr_opcode opcode, uint32_t imm,
		     uint64_t wr_id, unsigned flags, uint64_t address, uint32_t key) REQUIRES(rs->lock)
{
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = sge,
				 .num_sge = sges,
				 .opcode = opcode,
				 .send_flags = flags,
				 .imm_data = to_be32(imm).raw,
				 .wr.rdma = {address, key}},
			   *bad;

	return -ibv_post_send(rs->id->qp, &wr, &bad);
}

int stream_post_control(struct rsocket *rs, struct ibv_sge *sge, int sges, enum ibv_wr_opcode opcode, uint32_t imm,
			unsigned flags, uint64_t address, uint32_t key)
{
	rs->stream.controls++;
	return flow_post(rs, sge, sges, opcode, imm, WR_CONTROL, flags | IBV_SEND_SIGNALED, address, key);
}

/* Takes slots and ring bytes. Most messages are not signaled, and need no ACK of their own; a later completion frees
 * what they took. The flags and wr_id for the work request. */
static unsigned charge(struct rsocket *rs, uint32_t slots, uint32_t bytes, uint64_t *wr_id) REQUIRES(rs->lock)
{
	struct stream *s = &rs->stream;

	*wr_id = 0;
	s->slots -= slots;
	s->quiet += slots;
	s->quiet_bytes += bytes;
	if (s->quiet < min_of((uint32_t)QUIET_MESSAGES, rs->sq_size / 2) && s->quiet_bytes < s->tx_size / 2)
		return 0;
	*wr_id = (uint64_t)s->quiet << WR_SLOTS | s->quiet_bytes;
	s->quiet = s->quiet_bytes = 0;
	return IBV_SEND_SIGNALED;
}

int stream_post_data(struct rsocket *rs, struct ibv_sge *sge, int sges, enum ibv_wr_opcode opcode, uint32_t imm,
		     uint32_t bytes, unsigned flags, uint64_t address, uint32_t key)
{
	uint64_t wr_id;

	flags |= charge(rs, 1, bytes, &wr_id);
	return flow_post(rs, sge, sges, opcode, imm, wr_id, flags, address, key);
}

int stream_place(struct stream *s, uint32_t length, struct ibv_sge sge[2])
{
	uint32_t first = min_of(length, s->tx_size - s->tx_head);

	sge[0] = (struct ibv_sge){(uintptr_t)(s->tx + s->tx_head), first, s->mr->lkey};
	sge[1] = (struct ibv_sge){(uintptr_t)s->tx, length - first, s->mr->lkey};
	s->tx_head = length == first ? (s->tx_head + length) % s->tx_size : length - first;
	s->tx_used += length;
	return length == first ? 1 : 2;
}

int stream_post_much(struct rsocket *rs, struct ibv_sge *sge, int sges, uint32_t bytes, uint64_t address, uint32_t key)
{
	struct ibv_send_wr word = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				   .imm_data = to_be32(rs_message(RS_OP_DATA, bytes)).raw},
			   data = {.next = &word,
				   .sg_list = sge,
				   .num_sge = sges,
				   .opcode = IBV_WR_RDMA_WRITE,
				   .wr.rdma = {address, key}},
			   *bad;

	word.send_flags = charge(rs, 2, bytes, &word.wr_id);
	return -ibv_post_send(rs->id->qp, &data, &bad);
}

int stream_post_receives(struct rsocket *rs, uint32_t count) REQUIRES(rs->lock)
{
	struct ibv_recv_wr wr[BATCH], *bad;

	for (uint32_t n; count; count -= n) {
		int error;

		n = min_of(count, (uint32_t)BATCH);
		for (uint32_t i = 0; i < n; i++)
			wr[i] = (struct ibv_recv_wr){.wr_id = WR_RECEIVE, .next = i + 1 < n ? &wr[i + 1] : NULL};
		error = ibv_post_recv(rs->id->qp, wr, &bad);
		if (error)
			return -error;
	}
	return 0;
}

void stream_fail(struct rsocket *rs, int error)
{
	if (rsocket_state(rs) == RS_OVER)
		return;
	rsocket_set_state(rs, RS_OVER);
	rs->error = error;
	rs->broken = error;
	rs->peer_shut = true;
}

bool stream_can_send(struct rsocket *rs)
{
	const struct stream *s = &rs->stream;

	return s->slots >= 2 && s->tx_size - s->tx_used >= RS_LOW_WATER && s->sent != s->granted &&
	       s->window[s->target].length;
}

bool stream_has_room(struct rsocket *rs)
{
	const struct stream *s = &rs->stream;
	uint32_t room = min_of(min_of((uint32_t)ROOM, s->target_size / 2), s->tx_size / 4);

	/* a write may be two messages of two work requests */
	return stream_can_send(rs) && s->slots >= 4 && (uint16_t)(s->granted - s->sent) >= 2 &&
	       s->tx_size - s->tx_used >= room && s->window[0].length + s->window[1].length >= room;
}

bool stream_is_drained(struct rsocket *rs) REQUIRES(rs->lock)
{
	const struct stream *s = &rs->stream;

	/* unsignaled messages have an ACK when the last word has, which is signaled */
	return rsocket_state(rs) != RS_CONNECTED || (s->slots + s->quiet == rs->sq_size && !s->controls);
}

int stream_control(struct rsocket *rs, enum rs_control what)
{
	if (rs->stream.controls == RS_CONTROLS)
		return -EAGAIN;
	return stream_post_control(rs, NULL, 0, IBV_WR_RDMA_WRITE_WITH_IMM, rs_message(RS_OP_CONTROL, what), 0, 0, 0);
}

enum rs_control stream_last_word(const struct rsocket *rs) REQUIRES(rs->lock)
{
	return rs->lingers && !rs->linger_seconds ? RS_RESET : RS_DISCONNECT;
}

/* ---- granting ---- */

static bool half_is_free(const struct stream *s)
{
	return s->rx_free >= s->rx_size / 2;
}

static bool should_grant(const struct rsocket *rs) REQUIRES(rs->lock)
{
	const struct stream *s = &rs->stream;

	return (half_is_free(s) || (uint16_t)(s->received - s->told) >= rs->rq_size / 2) && s->controls < RS_GRANTS &&
	       !rs->peer_shut;
}

static void publish_half(struct rsocket *rs, uint32_t message) REQUIRES(rs->lock)
{
	struct stream *s = &rs->stream;
	uint32_t half = s->rx_size / 2;
	struct rs_sge next = {(uintptr_t)(s->rx + s->rx_publish * half), s->mr->rkey, half};
	struct ibv_sge sge = {.addr = (uintptr_t)&next, .length = sizeof(next)};

	if (s->swap)
		next = rs_sge_swap(next);
	stream_post_control(rs, &sge, 1, IBV_WR_RDMA_WRITE_WITH_IMM, message, IBV_SEND_INLINE,
			    s->remote.address + s->remote_next * sizeof(next), s->remote.key);
	s->rx_free -= half;
	s->rx_publish ^= 1;
	s->remote_next = (s->remote_next + 1) % s->remote.length;
}

static void grant(struct rsocket *rs) REQUIRES(rs->lock)
{
	struct stream *s = &rs->stream;
	uint32_t message = rs_message(RS_OP_CREDIT, (uint16_t)(s->received + rs->rq_size));

	s->told = s->received;
	if (half_is_free(s))
		publish_half(rs, message);
	else
		stream_post_control(rs, NULL, 0, IBV_WR_RDMA_WRITE_WITH_IMM, message, 0, 0, 0);
}

/* ---- completions ---- */

static void take_target(struct stream *s)
{
	struct rs_sge *from = &s->targets[s->next_target], *to = &s->window[s->next_target];

	*to = *from;
	if (s->swap)
		*to = rs_sge_swap(*to);
	s->target_size = to->length;
	s->next_target = (s->next_target + 1) % RS_TARGETS;
}

static void take_control(struct rsocket *rs, uint32_t what) REQUIRES(rs->lock)
{
	switch (what) {
	case RS_DISCONNECT:
		rs->peer_shut = true;
		rsocket_set_state(rs, RS_OVER);
		break;
	case RS_SHUTDOWN:
		rs->peer_shut = true;
		break;
	case RS_RESET:
		stream_fail(rs, ECONNRESET);
		break;
	}
}

static void take_message(struct rsocket *rs, uint32_t message, uint32_t bytes) REQUIRES(rs->lock)
{
	struct stream *s = &rs->stream;
	uint32_t value = message & RS_VALUE_MAX;

	switch (message >> RS_VALUE_BITS) {
	case RS_OP_DATA:
		s->received++;
		if (value > s->rx_size - s->rx_ready) /* more than was granted */
			stream_fail(rs, EPROTO);
		else
			s->rx_ready += value;
		break;
	case RS_OP_CREDIT:
		s->granted = (uint16_t)value;
		if (bytes >= sizeof(struct rs_sge))
			take_target(s);
		break;
	case RS_OP_CONTROL:
		take_control(rs, value);
		break;
	}
}

static void take_sent(struct rsocket *rs, const struct cqe *e) REQUIRES(rs->lock)
{
	struct stream *s = &rs->stream;

	if (e->wr_id & WR_CONTROL) {
		s->controls--;
	} else {
		s->slots += (uint32_t)(e->wr_id >> WR_SLOTS);
		s->tx_used -= (uint32_t)e->wr_id;
	}
	if (likely(e->status == IBV_WC_SUCCESS) || rsocket_state(rs) != RS_CONNECTED)
		return;
	if (e->wr_id & WR_CONTROL && rs->peer_shut)
		stream_fail(rs, 0); /* no use any more */
	else
		stream_fail(rs, e->status == IBV_WC_RETRY_EXC_ERR ? ETIMEDOUT : ECONNRESET);
}

/* Receives to post anew: 0 or 1. */
static uint32_t flow_take(struct rsocket *rs, const struct cqe *e) REQUIRES(rs->lock)
{
	if (!(e->wr_id & WR_RECEIVE)) {
		take_sent(rs, e);
		return 0;
	}
	if (e->status == IBV_WC_SUCCESS) {
		take_message(rs, from_be32((be32){e->imm}), e->byte_len);
		return 1;
	}
	if (rsocket_state(rs) == RS_CONNECTED)
		stream_fail(rs, ECONNRESET);
	return 0;
}

void stream_process(struct rsocket *rs)
{
	struct stream *s = &rs->stream;
	struct cq *cq = (struct cq *)s->cq;
	struct cqe batch[BATCH];
	uint32_t receives = 0;
	int n;

	if (!cq)
		return;
	while ((n = cq_poll(cq, BATCH, batch)) > 0)
		for (int i = 0; i < n; i++)
			receives += flow_take(rs, &batch[i]);
	/* the first message proves, as the RTU does, that the peer has the REP */
	if (receives && rsocket_state(rs) == RS_ACCEPTING)
		rsocket_connected(rs);
	if (rsocket_state(rs) != RS_CONNECTED)
		return;
	s->owed += receives;
	if (s->owed >= RS_LAZY_RECEIVES) {
		stream_post_receives(rs, s->owed);
		s->owed = 0;
	}
	while (should_grant(rs))
		grant(rs);
}
