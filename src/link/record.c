/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/record.h"

#include <errno.h>
#include <string.h>

#include "link/ring.h"
#include "memory/fault.h"

static_assert(offsetof(struct record, bytes) == offsetof(struct ring_mark, bytes),
	      "a record begins with the ring's mark");

#define NEEDS_REMOTE (HAS_RETH | HAS_ATOMICETH | HAS_ATOMICACKETH)
#define SELDOM	     (HAS_ATOMICETH | HAS_XRCETH | HAS_DETH)

static uint32_t record_header_bytes(uint32_t flags)
{
	uint32_t bytes = sizeof(struct record);

	if (likely(!(flags & (NEEDS_REMOTE | SELDOM))))
		return bytes;
	if (flags & NEEDS_REMOTE)
		bytes += sizeof(struct record_remote);
	if (flags & HAS_ATOMICETH)
		bytes += sizeof(struct record_operands);
	if (flags & HAS_XRCETH)
		bytes += sizeof(struct record_srq);
	if (flags & HAS_DETH)
		bytes += sizeof(struct record_datagram);
	return bytes;
}

uint32_t record_bytes(const struct packet *p)
{
	return record_header_bytes(opcode_info[p->opcode].flags) + packet_carries(p);
}

/* Returns where it ends, as the following do. */
static char *put_remote(char *to, const struct packet *p, uint32_t flags)
{
	*(struct record_remote *)to = (struct record_remote){
		.value = flags & HAS_ATOMICACKETH ? p->original : p->va, .rkey = p->rkey, .dma_length = p->dma_length};
	return to + sizeof(struct record_remote);
}

static char *put_seldom(char *to, const struct packet *p, uint32_t flags, const union ibv_gid *from)
{
	if (flags & HAS_ATOMICETH) {
		*(struct record_operands *)to = (struct record_operands){p->compare, p->swap_add};
		to += sizeof(struct record_operands);
	}
	if (flags & HAS_XRCETH) {
		*(struct record_srq *)to = (struct record_srq){.number = p->srqn};
		to += sizeof(struct record_srq);
	}
	if (flags & HAS_DETH) {
		*(struct record_datagram *)to = (struct record_datagram){p->qkey, p->src_qpn, *from};
		to += sizeof(struct record_datagram);
	}
	return to;
}

/* Payloads are copied behind the header. */
struct payload {
	char *to;
	const struct link_tx *tx;
};

static void put_payload(void *arg)
{
	const struct payload *p = arg;
	char *to = p->to;

	for (uint32_t i = 0; i < p->tx->iovs; i++) {
		memcpy(to, p->tx->iov[i].iov_base, p->tx->iov[i].iov_len);
		to += p->tx->iov[i].iov_len;
	}
}

bool record_put(void *at, const struct link_tx *tx)
{
	const struct packet *p = tx->packet;
	uint32_t flags = opcode_info[p->opcode].flags;
	char *to = (char *)at + sizeof(struct record);

	record_put_common(at, p, tx->traffic_class,
			  flags & HAS_AETH   ? (uint32_t)p->syndrome << 24 | p->msn
			  : flags & HAS_IETH ? p->inv_rkey
					     : p->imm);
	if (unlikely(!p->migrated))
		((struct record *)at)->flags |= RECORD_UNMIGRATED;
	if (flags & NEEDS_REMOTE)
		to = put_remote(to, p, flags);
	if (unlikely(flags & SELDOM))
		to = put_seldom(to, p, flags, tx->sgid);
	if (tx->foreign)
		return fault_try(put_payload, &(struct payload){to, tx});
	put_payload(&(struct payload){to, tx});
	return true;
}

static const char *get_remote(const char *at, struct packet *p)
{
	const struct record_remote *r = (const struct record_remote *)at;

	p->va = p->original = r->value;
	p->rkey = r->rkey;
	p->dma_length = r->dma_length;
	p->srqn = 0;
	return at + sizeof(*r);
}

static const char *get_seldom(const char *at, struct packet *p, uint32_t flags, const union ibv_gid **from)
{
	if (flags & HAS_ATOMICETH) {
		const struct record_operands *o = (const struct record_operands *)at;

		p->compare = o->compare;
		p->swap_add = o->swap_add;
		at += sizeof(*o);
	}
	if (flags & HAS_XRCETH) {
		p->srqn = ((const struct record_srq *)at)->number;
		at += sizeof(struct record_srq);
	}
	if (flags & HAS_DETH) {
		const struct record_datagram *d = (const struct record_datagram *)at;

		p->qkey = d->qkey;
		p->src_qpn = d->src_qpn;
		p->to = d->gid.raw;
		*from = &d->gid;
		at += sizeof(*d);
	}
	return at;
}

/* Of requests that are acknowledged: until then the memory stays as it is. */
static int get_reference(struct packet *p)
{
	const struct packet_piece *piece = (const struct packet_piece *)p->payload;
	uint64_t length = 0;

	p->pieces = p->length / sizeof(*piece);
	if (TRANSPORT(p->opcode) != TRANSPORT_RC || !(opcode_info[p->opcode].flags & (IS_SEND | IS_WRITE)) ||
	    !p->pieces || p->length % sizeof(*piece))
		return -EBADMSG;
	if (p->pieces == 1) {
		record_copy_piece(p);
		return 0;
	}
	for (uint32_t i = 0; i < p->pieces; i++) /* they stay where they are: see onesided_fetch() */
		length += piece[i].length;
	p->length = (uint32_t)length;
	return length <= UINT32_MAX ? 0 : -EBADMSG;
}

int record_get_any(const void *at, uint32_t bytes, struct packet *p, const union ibv_gid **from)
{
	const struct record *r = at;
	const char *next = (const char *)(r + 1);
	uint32_t flags, header;
	uint8_t opcode, bits;

	if (bytes < sizeof(*r))
		return -EBADMSG;
	opcode = record_byte(&r->opcode);
	bits = record_byte(&r->flags);
	flags = opcode_info[opcode].flags;
	header = record_header_bytes(flags);
	if (!opcode_info[opcode].name || bytes < header || (bytes > header && !(flags & HAS_PAYLOAD)))
		return -EBADMSG;
	record_get_brief(r, opcode, bits, p);
	record_get_rest(p);
	p->becn = bits & RECORD_BECN;
	p->migrated = !(bits & RECORD_UNMIGRATED);
	p->traffic_class = r->traffic_class;
	p->to = NULL;
	p->mtu = 0;
	p->length = bytes - header;
	if (flags & NEEDS_REMOTE)
		next = get_remote(next, p);
	if (unlikely(flags & SELDOM))
		next = get_seldom(next, p, flags, from);
	p->payload = (const uint8_t *)next;
	return unlikely(bits & RECORD_REFERENCE) ? get_reference(p) : 0;
}
