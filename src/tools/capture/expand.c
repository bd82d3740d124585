/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/capture/expand.h"

#include <infiniband/verbs.h>
#include <string.h>

#include "tools/capture/frame.h"

#define SPLIT	  4096u	     /* bytes of payload of each piece of a packet that is too long */
#define MTU_LEAST 256u	     /* smallest MTU of IBTA */
#define MOST	  (1u << 31) /* max bytes of a message */

/* The opcodes of a message of several packets. */
struct family {
	uint8_t first, middle, last;
};

static struct family family_of(uint8_t opcode)
{
	uint32_t flags = opcode_info[opcode].flags;
	uint8_t transport = TRANSPORT(opcode);

	if (flags & IS_SEND)
		return (struct family){transport | OP_SEND_FIRST, transport | OP_SEND_MIDDLE, transport | OP_SEND_LAST};
	if (flags & IS_WRITE)
		return (struct family){transport | OP_WRITE_FIRST, transport | OP_WRITE_MIDDLE,
				       transport | OP_WRITE_LAST};
	return (struct family){transport | OP_READ_RESPONSE_FIRST, transport | OP_READ_RESPONSE_MIDDLE,
			       transport | OP_READ_RESPONSE_LAST};
}

/* Opcode of the last piece of an ONLY or a LAST, which has the same extended headers. */
static uint8_t last_of(uint8_t opcode)
{
	static const uint8_t last[32] = {
		[OP_SEND_ONLY_IMM] = OP_SEND_LAST_IMM,	 [OP_SEND_LAST_IMM] = OP_SEND_LAST_IMM,
		[OP_SEND_ONLY_INV] = OP_SEND_LAST_INV,	 [OP_SEND_LAST_INV] = OP_SEND_LAST_INV,
		[OP_WRITE_ONLY_IMM] = OP_WRITE_LAST_IMM, [OP_WRITE_LAST_IMM] = OP_WRITE_LAST_IMM,
	};

	return last[OPERATION(opcode)] ? TRANSPORT(opcode) | last[OPERATION(opcode)] : family_of(opcode).last;
}

/* Splits a packet into pieces of `size` bytes of payload. A packet that fits is not split. */
static void cut_packet(const struct packet *p, const uint8_t *payload, uint32_t captured, uint32_t size, bool inbound,
		       expand_take *take, void *arg)
{
	const struct family family = family_of(p->opcode);
	uint32_t flags = opcode_info[p->opcode].flags, of = p->length > size ? (p->length + size - 1) / size : 1;
	struct expanded e = {.inbound = inbound, .of = of};

	for (uint32_t i = 0; i < of; i++) {
		uint32_t at = i * size;
		struct packet q = *p;

		q.length = min_of(size, p->length - at);
		q.psn = psn_add(p->psn, i);
		q.ack_request = p->ack_request && i == of - 1;
		if (of > 1)
			q.opcode = i == 0 && flags & IS_FIRST	    ? family.first
				   : i == of - 1 && flags & IS_LAST ? last_of(p->opcode)
								    : family.middle;
		e.packet = &q;
		e.number = i + 1;
		e.captured = captured > at ? min_of(captured - at, q.length) : 0;
		e.payload = payload + min_of(at, captured);
		take(arg, &e);
	}
}

bool expand_packet(const struct capture_packet *c, expand_take *take, void *arg)
{
	const uint8_t *bytes = (const uint8_t *)(c + 1);
	uint8_t headers[PACKET_HEADERS];
	struct packet p = {0};

	if (c->record.bytes < sizeof(*c) || c->headers < 12 || c->headers > PACKET_HEADERS || c->captured > c->length ||
	    c->length > MOST || (uint64_t)c->headers + c->captured > c->record.bytes - sizeof(*c))
		return false;
	memcpy(headers, bytes, c->headers);
	headers[1] &= 0xcf; /* no pad, as there is no payload */
	if (packet_parse(&p, headers, c->headers) ||
	    (c->length > FRAME_PAYLOAD && !opcode_info[family_of(p.opcode).middle].name))
		return false; /* datagrams are shorter */
	p.length = c->length;
	cut_packet(&p, bytes + c->headers, c->captured, c->length > FRAME_PAYLOAD ? SPLIT : FRAME_PAYLOAD,
		   c->record.inbound, take, arg);
	return true;
}

static void take_one(const struct packet *p, bool inbound, expand_take *take, void *arg)
{
	take(arg,
	     &(struct expanded){.packet = p, .payload = (const uint8_t *)"", .inbound = inbound, .number = 1, .of = 1});
}

/* The response, from the other end to this QP. */
static struct packet answer_of(const struct capture_onesided *c, uint8_t opcode, uint32_t psns)
{
	return (struct packet){
		.opcode = opcode,
		.migrated = true,
		.pkey = PKEY_DEFAULT,
		.dest_qpn = c->path.qpn,
		.psn = psn(c->psn + psns - 1),
		.syndrome = SYNDROME_ACK | SYNDROME_NO_CREDITS,
	};
}

static void expand_atomic(const struct capture_onesided *c, struct packet *p, expand_take *take, void *arg)
{
	bool swaps = c->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
	struct packet answer = answer_of(c, OP_ATOMIC_ACKNOWLEDGE, 1);

	p->opcode = swaps ? OP_COMPARE_SWAP : OP_FETCH_ADD;
	p->swap_add = swaps ? c->swap : c->compare_add;
	p->compare = swaps ? c->compare_add : 0;
	if (c->captured >= sizeof(answer.original))
		memcpy(&answer.original, c + 1, sizeof(answer.original));
	take_one(p, false, take, arg);
	take_one(&answer, true, take, arg);
}

bool expand_onesided(const struct capture_onesided *c, expand_take *take, void *arg)
{
	const uint8_t *payload = (const uint8_t *)(c + 1);
	uint32_t mtu = c->path.mtu ?: SPLIT, psns = c->length ? (c->length - 1) / mtu + 1 : 1;
	struct packet answer, p = {
				      .migrated = true,
				      .pkey = PKEY_DEFAULT,
				      .ack_request = true,
				      .dest_qpn = c->dest_qpn,
				      .psn = psn(c->psn),
				      .va = c->address,
				      .rkey = c->rkey,
				      .dma_length = c->length,
			      };

	if (c->record.bytes < sizeof(*c) || mtu < MTU_LEAST || mtu > FRAME_PAYLOAD || c->captured > c->length ||
	    c->captured > c->record.bytes - sizeof(*c) || c->length > MOST)
		return false;
	if (c->opcode == IBV_WR_RDMA_WRITE) {
		p.opcode = OP_WRITE_ONLY;
		p.length = c->length;
		answer = answer_of(c, OP_ACKNOWLEDGE, psns);
		cut_packet(&p, payload, c->captured, mtu, false, take, arg);
		take_one(&answer, true, take, arg);
	} else if (c->opcode == IBV_WR_RDMA_READ) {
		p.opcode = OP_READ_REQUEST;
		take_one(&p, false, take, arg);
		answer = answer_of(c, OP_READ_RESPONSE_ONLY, 1);
		answer.length = c->length;
		cut_packet(&answer, payload, c->captured, mtu, true, take, arg);
	} else if (c->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || c->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		expand_atomic(c, &p, take, arg);
	} else {
		return false;
	}
	return true;
}
