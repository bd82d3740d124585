/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/record.h"

#include <errno.h>
#include <string.h>

#include "link/ring.h"

enum {
	SOLICITED = 1 << 0,
	ACK_REQUEST = 1 << 1,
	BECN = 1 << 2,
	ACKNOWLEDGES = 1 << 3,
	REFERENCE = 1 << 4, /* behind the header stands where the payload lies */
};
static_assert(offsetof(struct record, bytes) == offsetof(struct ring_mark, bytes), "a record begins with the ring's mark");

#define NEEDS_REQUEST (HAS_RETH | HAS_ATOMICETH | HAS_ATOMICACKETH | HAS_XRCETH)

static uint32_t header_bytes(uint32_t flags)
{
	uint32_t bytes = sizeof(struct record);

	if (flags & NEEDS_REQUEST)
		bytes += sizeof(struct record_request);
	if (flags & HAS_DETH)
		bytes += sizeof(struct record_datagram);
	return bytes;
}

uint32_t record_bytes(const struct packet *p)
{
	return header_bytes(opcode_info[p->opcode].flags) + packet_carries(p);
}

static void put_request(struct record_request *r, const struct packet *p, uint32_t flags)
{
	*r = (struct record_request){.value = flags & HAS_ATOMICACKETH ? p->original : p->va,
				     .rkey = p->rkey,
				     .dma_length = p->dma_length,
				     .compare = p->compare,
				     .swap_add = p->swap_add,
				     .srqn = p->srqn};
}

void record_put(void *at, const struct link_tx *tx, const union ibv_gid *from)
{
	const struct packet *p = tx->packet;
	uint32_t flags = opcode_info[p->opcode].flags;
	struct record *r = at;
	char *to = at;

	r->opcode = p->opcode;
	r->flags = (p->solicited ? SOLICITED : 0) | (p->ack_request ? ACK_REQUEST : 0) | (p->becn ? BECN : 0) |
		   (p->acknowledges ? ACKNOWLEDGES : 0) | (p->pieces ? REFERENCE : 0);
	r->traffic_class = tx->traffic_class;
	r->qpn = p->dest_qpn;
	r->psn = p->psn.v;
	r->word = flags & HAS_AETH ? (uint32_t)p->syndrome << 24 | p->msn : flags & HAS_IETH ? p->inv_rkey : p->imm;
	r->ack = p->acknowledged.v;
	to += sizeof(*r);
	if (flags & NEEDS_REQUEST) {
		put_request((struct record_request *)to, p, flags);
		to += sizeof(struct record_request);
	}
	if (unlikely(flags & HAS_DETH)) {
		*(struct record_datagram *)to = (struct record_datagram){p->qkey, p->src_qpn, *from};
		to += sizeof(struct record_datagram);
	}
	for (uint32_t i = 0; i < tx->iovs; i++) {
		memcpy(to, tx->iov[i].iov_base, tx->iov[i].iov_len);
		to += tx->iov[i].iov_len;
	}
}

static void get_request(const struct record_request *r, struct packet *p)
{
	p->va = p->original = r->value;
	p->rkey = r->rkey;
	p->dma_length = r->dma_length;
	p->compare = r->compare;
	p->swap_add = r->swap_add;
	p->srqn = r->srqn;
}

static void get_datagram(const struct record_datagram *d, struct packet *p, const union ibv_gid **from)
{
	p->qkey = d->qkey;
	p->src_qpn = d->src_qpn;
	p->to = d->gid.raw;
	*from = &d->gid;
}

/* Of requests that are acknowledged: until then the memory stays as it is. */
static int get_reference(struct packet *p)
{
	const struct packet_piece *piece = (const struct packet_piece *)p->payload;
	uint64_t length = 0;

	p->pieces = p->length / sizeof(*piece);
	if (TRANSPORT(p->opcode) != TRANSPORT_RC || !(opcode_info[p->opcode].flags & IS_SEND) || !p->pieces ||
	    p->length % sizeof(*piece))
		return -EBADMSG;
	for (uint32_t i = 0; i < p->pieces; i++)
		length += piece[i].length;
	p->length = (uint32_t)length;
	return length <= UINT32_MAX ? 0 : -EBADMSG;
}

int record_get(const void *at, uint32_t bytes, struct packet *p, const union ibv_gid **from)
{
	const struct record *r = at;
	const char *next = (const char *)(r + 1);
	uint32_t flags, header;

	if (bytes < sizeof(*r))
		return -EBADMSG;
	flags = opcode_info[r->opcode].flags;
	header = header_bytes(flags);
	if (!opcode_info[r->opcode].name || bytes < header || (bytes > header && !(flags & HAS_PAYLOAD)))
		return -EBADMSG;
	p->opcode = r->opcode;
	p->solicited = r->flags & SOLICITED;
	p->ack_request = r->flags & ACK_REQUEST;
	p->migrated = true;
	p->fecn = p->congestion = false;
	p->becn = r->flags & BECN;
	p->acknowledges = r->flags & ACKNOWLEDGES;
	p->acknowledged = psn(r->ack);
	p->traffic_class = r->traffic_class;
	p->to = NULL;
	p->mtu = 0;
	p->pkey = PKEY_DEFAULT;
	p->dest_qpn = r->qpn & QPN_MASK;
	p->psn = psn(r->psn);
	p->imm = p->inv_rkey = r->word;
	p->syndrome = r->word >> 24;
	p->msn = r->word & PSN_MASK;
	p->length = bytes - header;
	p->pieces = 0;
	if (flags & NEEDS_REQUEST) {
		get_request((const struct record_request *)next, p);
		next += sizeof(struct record_request);
	}
	if (unlikely(flags & HAS_DETH)) {
		get_datagram((const struct record_datagram *)next, p, from);
		next += sizeof(struct record_datagram);
	}
	p->payload = (const uint8_t *)next;
	return unlikely(r->flags & REFERENCE) ? get_reference(p) : 0;
}
