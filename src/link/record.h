/* SPDX-License-Identifier: BSD-2-Clause */
/* A packet as it stands in a ring: header values, and behind them the payload, or where it lies. Its words are in the
 * order and the size of this machine, as both ends are on it. */
#ifndef UROCE_RECORD_H
#define UROCE_RECORD_H

#include <errno.h>
#include <string.h>

#include "link/link.h"

/* What every packet has, behind which stands its payload, or where that lies, or first what only some have. With 64
 * bytes of payload it is one unit of the ring, a datagram too. */
struct record {
	uint64_t mark;	/* the ring's, as is ... */
	uint32_t bytes; /* ... of all of it: struct ring_mark */
	uint8_t opcode, flags, traffic_class, zero;
	uint32_t qpn, psn;
	uint32_t word;	   /* immediate data, the key to invalidate, or syndrome and MSN */
	uint32_t position; /* of a message that is delivered: of its receive */
};
static_assert(sizeof(struct record) == 32, "half a cache line");

enum record_flag {
	RECORD_SOLICITED = 1 << 0,
	RECORD_ACK_REQUEST = 1 << 1,
	RECORD_BECN = 1 << 2,
	RECORD_REFERENCE = 1 << 3,  /* behind the header stands where the payload lies */
	RECORD_UNMIGRATED = 1 << 4, /* MigReq is clear, which it seldom is */
	RECORD_DELIVERED = 1 << 5,  /* the bytes are in place, or behind the record: `psn` is their number */
};

/* READs, atomics, WRITEs. */
struct record_remote {
	uint64_t value; /* address, or what an atomic found */
	uint32_t rkey, dma_length;
};

/* Atomics, then. */
struct record_operands {
	uint64_t compare, swap_add;
};

/* What is of XRC, then. */
struct record_srq {
	uint32_t number, zero;
};

/* Datagrams. Local peers have one address. */
struct record_datagram {
	uint32_t qkey, src_qpn;
	union ibv_gid gid;
};

/* No record is larger than its payload by more. */
#define RECORD_OVERHEAD 200u

/* What record_put() will write. */
uint32_t record_bytes(const struct packet *p);

/* Writes the packet, but for the mark. False: its payload cannot be read. */
bool record_put(void *at, const struct link_tx *tx);

/* What every packet has; `word`: struct record's. */
static inline __attribute__((always_inline)) void record_put_common(struct record *r, const struct packet *p,
								    uint8_t traffic_class, uint32_t word)
{
	r->opcode = p->opcode;
	r->flags = (p->solicited ? RECORD_SOLICITED : 0) | (p->ack_request ? RECORD_ACK_REQUEST : 0) |
		   (p->becn ? RECORD_BECN : 0) | (p->pieces ? RECORD_REFERENCE : 0);
	r->traffic_class = traffic_class;
	r->qpn = p->dest_qpn;
	r->psn = p->psn.v;
	r->word = word;
	r->position = 0;
}

/* The same as record_put() of a SEND or WRITE that begins and ends a message on RC, with immediate data or not, and of
 * a datagram: all but its payload, which the caller puts behind record_header(). Inline, as its caller has most of it
 * in registers. */
static inline __attribute__((always_inline)) void record_put_fast(void *at, const struct packet *p,
								  uint8_t traffic_class, const union ibv_gid *from)
{
	struct record *r = at;

	record_put_common(r, p, traffic_class, p->imm);
	if (p->opcode == OP_WRITE_ONLY_IMM)
		*(struct record_remote *)(r + 1) =
			(struct record_remote){.value = p->va, .rkey = p->rkey, .dma_length = p->dma_length};
	else if (TRANSPORT(p->opcode) == TRANSPORT_UD)
		*(struct record_datagram *)(r + 1) = (struct record_datagram){p->qkey, p->src_qpn, *from};
}

/* A message that is delivered: all but its payload, if the record carries that. */
static inline __attribute__((always_inline)) void record_put_delivered(void *at, const struct packet *p,
								       uint8_t traffic_class)
{
	struct record *r = at;

	r->opcode = p->opcode;
	r->flags = (p->solicited ? RECORD_SOLICITED : 0) | RECORD_DELIVERED;
	r->traffic_class = traffic_class;
	r->qpn = p->dest_qpn;
	r->psn = p->length;
	r->word = p->imm;
	r->position = p->position;
}

/* Bytes before the payload; `flags`: of the opcode. */
static inline uint32_t record_header(uint32_t flags)
{
	return sizeof(struct record) + (flags & HAS_RETH ? sizeof(struct record_remote) : 0) +
	       (flags & HAS_DETH ? sizeof(struct record_datagram) : 0);
}

/* record_get() of what is not common. */
int record_get_any(const void *at, uint32_t bytes, struct packet *p, const union ibv_gid **from);

/* One byte, once: the producer may be broken, and change a record that has been published. So what decides on lengths
 * is read once; what is read from there twice is the payload alone. */
static inline uint8_t record_byte(const uint8_t *byte)
{
	return *(const volatile uint8_t *)byte;
}

/* What the fast path looks at. */
static inline __attribute__((always_inline)) void record_get_brief(const struct record *r, uint8_t opcode,
								   uint8_t flags, struct packet *p)
{
	p->brief = true;
	p->opcode = opcode;
	p->solicited = flags & RECORD_SOLICITED;
	p->ack_request = flags & RECORD_ACK_REQUEST;
	p->delivered = false;
	p->dest_qpn = r->qpn & QPN_MASK;
	p->psn = psn(r->psn);
	p->imm = r->word;
	p->syndrome = r->word >> 24;
	p->pieces = 0;
}

/* The rest of a packet that is brief: of a kind that record_get() reads inline. */
static inline void record_get_rest(struct packet *p)
{
	p->brief = false;
	p->migrated = true;
	p->fecn = p->congestion = p->becn = p->is_uroce = false;
	p->pkey = PKEY_DEFAULT;
	p->dma_length = 0;
	p->inv_rkey = p->imm;
	p->msn = p->imm & PSN_MASK;
}

/* Where a payload lies, in one piece: to p->piece. */
static inline void record_copy_piece(struct packet *p)
{
	memcpy(&p->piece, p->payload, sizeof(p->piece));
	__asm__ volatile("" : "+m"(p->piece)); /* so the compiler does not read it there again */
	p->payload = (const uint8_t *)&p->piece;
	p->length = p->piece.length;
	p->pieces = 1;
}

/* What record_put_delivered() has written. */
static inline __attribute__((always_inline)) int record_get_delivered(const struct record *r, uint8_t opcode,
								      uint8_t flags, uint32_t bytes, struct packet *p)
{
	if (unlikely(opcode != OP_SEND_ONLY && opcode != OP_SEND_ONLY_IMM && opcode != OP_WRITE_ONLY_IMM))
		return -EBADMSG;
	record_get_brief(r, opcode, flags, p);
	p->ack_request = false;
	p->delivered = true;
	p->psn = psn(0);
	p->position = r->position;
	p->length = p->dma_length = *(const volatile uint32_t *)&r->psn; /* once, as in record_byte() */
	p->payload = NULL;
	if (likely(bytes == sizeof(*r)))
		return 0;
	p->payload = (const uint8_t *)(r + 1);
	return p->length == bytes - sizeof(*r) && opcode != OP_WRITE_ONLY_IMM ? 0 : -EBADMSG;
}

/* A record of that many bytes -> values; its payload stays where it is, but where that lies is copied. *from is left
 * alone unless the record says who sent it (datagrams do). 0, or -EBADMSG if it cannot be a record. Inline is what is
 * most common: SENDs that begin and end a message, ACKs, and datagrams. */
static inline __attribute__((always_inline)) int record_get(const void *at, uint32_t bytes, struct packet *p,
							    const union ibv_gid **from)
{
	const struct record *r = at;
	uint32_t header = sizeof(*r);
	uint8_t opcode, flags;

	if (unlikely(bytes < header))
		return -EBADMSG;
	opcode = record_byte(&r->opcode);
	flags = record_byte(&r->flags);
	if (likely(flags & RECORD_DELIVERED))
		return record_get_delivered(r, opcode, flags, bytes, p);
	if (unlikely(flags & (RECORD_BECN | RECORD_UNMIGRATED)))
		return record_get_any(at, bytes, p, from);
	if (likely(opcode == OP_SEND_ONLY || opcode == OP_SEND_ONLY_IMM)) {
		record_get_brief(r, opcode, flags, p);
	} else if (opcode == (TRANSPORT_UD | OP_SEND_ONLY) || opcode == (TRANSPORT_UD | OP_SEND_ONLY_IMM)) {
		const struct record_datagram *d = (const struct record_datagram *)(r + 1);

		header += sizeof(*d);
		if (unlikely(bytes < header || flags & RECORD_REFERENCE))
			return -EBADMSG;
		record_get_brief(r, opcode, flags, p);
		p->traffic_class = r->traffic_class;
		p->qkey = d->qkey;
		p->src_qpn = d->src_qpn;
		p->to = d->gid.raw;
		*from = &d->gid;
	} else if (opcode == OP_ACKNOWLEDGE && bytes == header && !(flags & RECORD_REFERENCE)) {
		record_get_brief(r, opcode, flags, p);
	} else {
		return record_get_any(at, bytes, p, from);
	}
	p->payload = (const uint8_t *)at + header;
	p->length = bytes - header;
	if (unlikely(flags & RECORD_REFERENCE)) {
		if (bytes != header + sizeof(struct packet_piece))
			return record_get_any(at, bytes, p, from);
		record_copy_piece(p);
	}
	return 0;
}

#endif
