/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/record.h"

#include <errno.h>
#include <string.h>

#include "link/ring.h"

enum {
	SOLICITED = 1 << 0,
	ACK_REQUEST = 1 << 1,
	BECN = 1 << 2,
};

static uint32_t header_bytes(uint32_t flags)
{
	uint32_t bytes = sizeof(struct record);

	if (flags & (HAS_RETH | HAS_ATOMICETH | HAS_XRCETH))
		bytes += sizeof(struct record_request);
	if (flags & HAS_DETH)
		bytes += sizeof(struct record_datagram);
	return bytes;
}

uint32_t record_bytes(const struct packet *p)
{
	return ring_round(header_bytes(opcode_info[p->opcode].flags) + p->length);
}

static void put_request(struct record_request *r, const struct packet *p)
{
	*r = (struct record_request){.rkey = p->rkey,
				     .dma_length = p->dma_length,
				     .compare = p->compare,
				     .swap_add = p->swap_add,
				     .srqn = p->srqn};
}

static void put_datagram(struct record_datagram *d, const struct link_tx *tx, const union ibv_gid *from)
{
	*d = (struct record_datagram){.qkey = tx->packet->qkey,
				      .src_qpn = tx->packet->src_qpn,
				      .from = *from,
				      .to = *tx->dgid,
				      .traffic_class = tx->traffic_class};
}

void record_put(void *at, const struct link_tx *tx, const union ibv_gid *from)
{
	const struct packet *p = tx->packet;
	uint32_t flags = opcode_info[p->opcode].flags;
	struct record *r = at;
	char *to = at;

	r->length = p->length;
	r->opcode = p->opcode;
	r->flags = (p->solicited ? SOLICITED : 0) | (p->ack_request ? ACK_REQUEST : 0) | (p->becn ? BECN : 0);
	r->pkey = p->pkey;
	r->qpn = p->dest_qpn;
	r->psn = p->psn.v;
	r->word = flags & HAS_AETH ? (uint32_t)p->syndrome << 24 | p->msn : flags & HAS_IETH ? p->inv_rkey : p->imm;
	r->value = flags & HAS_ATOMICACKETH ? p->original : p->va;
	to += sizeof(*r);
	if (flags & (HAS_RETH | HAS_ATOMICETH | HAS_XRCETH)) {
		put_request((struct record_request *)to, p);
		to += sizeof(struct record_request);
	}
	if (unlikely(flags & HAS_DETH)) {
		put_datagram((struct record_datagram *)to, tx, from);
		to += sizeof(struct record_datagram);
	}
	for (uint32_t i = 0; i < tx->iovs; i++) {
		memcpy(to, tx->iov[i].iov_base, tx->iov[i].iov_len);
		to += tx->iov[i].iov_len;
	}
}

static void get_request(const struct record_request *r, struct packet *p)
{
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
	p->traffic_class = d->traffic_class;
	p->to = d->to.raw;
	*from = &d->from;
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
	if (!opcode_info[r->opcode].name || bytes < header || r->length > bytes - header ||
	    (r->length && !(flags & HAS_PAYLOAD)))
		return -EBADMSG;
	p->opcode = r->opcode;
	p->solicited = r->flags & SOLICITED;
	p->ack_request = r->flags & ACK_REQUEST;
	p->migrated = true;
	p->fecn = p->congestion = false;
	p->becn = r->flags & BECN;
	p->traffic_class = 0;
	p->to = NULL;
	p->pkey = r->pkey;
	p->dest_qpn = r->qpn & QPN_MASK;
	p->psn = psn(r->psn);
	p->imm = p->inv_rkey = r->word;
	p->syndrome = r->word >> 24;
	p->msn = r->word & PSN_MASK;
	p->va = p->original = r->value;
	p->length = r->length;
	if (flags & (HAS_RETH | HAS_ATOMICETH | HAS_XRCETH)) {
		get_request((const struct record_request *)next, p);
		next += sizeof(struct record_request);
	}
	if (unlikely(flags & HAS_DETH)) {
		get_datagram((const struct record_datagram *)next, p, from);
		next += sizeof(struct record_datagram);
	}
	p->payload = (const uint8_t *)next;
	return 0;
}
