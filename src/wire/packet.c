/* SPDX-License-Identifier: BSD-2-Clause */
/* The parser and the encoder of packets. */
#include <errno.h>
#include <string.h>

#include "wire/headers.h"
#include "wire/packet.h"

/* the low 24 bits of a word that has another field above */
#define LOW24 0xffffffu

/* Returns *at and advances it. */
static inline void *packet_take(uint8_t **at, size_t bytes)
{
	void *start = *at;

	*at += bytes;
	return start;
}

static inline const void *take_const(const uint8_t **at, size_t bytes)
{
	const void *start = *at;

	*at += bytes;
	return start;
}

/* In the order of EXTENDED_HEADERS; `at` is after the BTH and all headers are present. No transport here has an
 * RDETH. */
static inline void parse_extended(struct packet *p, uint32_t flags, const uint8_t *at)
{
	if (flags & HAS_DETH) {
		const struct deth *h = take_const(&at, sizeof(*h));
		p->qkey = from_be32(h->qkey);
		p->src_qpn = from_be32(h->src_qpn) & LOW24;
	}
	if (flags & HAS_XRCETH) {
		const struct xrceth *h = take_const(&at, sizeof(*h));
		p->srqn = from_be32(h->srqn) & LOW24;
	}
	if (flags & HAS_RETH) {
		const struct reth *h = take_const(&at, sizeof(*h));
		p->va = from_be64(h->va);
		p->rkey = from_be32(h->rkey);
		p->dma_length = from_be32(h->dma_length);
	}
	if (flags & HAS_ATOMICETH) {
		const struct atomiceth *h = take_const(&at, sizeof(*h));
		p->va = from_be64(h->va);
		p->rkey = from_be32(h->rkey);
		p->swap_add = from_be64(h->swap_add);
		p->compare = from_be64(h->compare);
	}
	if (flags & HAS_AETH) {
		const struct aeth *h = take_const(&at, sizeof(*h));
		p->syndrome = from_be32(h->syndrome_msn) >> 24;
		p->msn = from_be32(h->syndrome_msn) & LOW24;
	}
	if (flags & HAS_ATOMICACKETH) {
		const struct atomicacketh *h = take_const(&at, sizeof(*h));
		p->original = from_be64(h->original);
	}
	if (flags & HAS_IMM) {
		const struct immdt *h = take_const(&at, sizeof(*h));
		p->imm = h->imm.raw;
	}
	if (flags & HAS_IETH) {
		const struct ieth *h = take_const(&at, sizeof(*h));
		p->inv_rkey = from_be32(h->rkey);
	}
}

int packet_parse(struct packet *p, const uint8_t *bytes, size_t length)
{
	const struct bth *bth = (const void *)bytes;
	const struct opcode_info *info;
	size_t rest, pad;
	uint32_t qpn, word;

	if (unlikely(length < sizeof(*bth)))
		return -EBADMSG;
	info = &opcode_info[bth->opcode];
	if (unlikely(!info->name || length < info->header_bytes || bth->flags & BTH_VERSION))
		return -EBADMSG;

	/* IBTA 9.2.4: the pad completes the payload to a multiple of 4 bytes */
	rest = length - info->header_bytes;
	pad = bth->flags >> BTH_PAD_SHIFT & 3;
	if (unlikely(rest & 3 || pad > rest || (rest && !(info->flags & HAS_PAYLOAD))))
		return -EBADMSG;

	qpn = from_be32(bth->qpn);
	word = from_be32(bth->psn);
	p->opcode = bth->opcode;
	p->delivered = false;
	p->solicited = bth->flags & BTH_SOLICITED;
	p->migrated = bth->flags & BTH_MIGRATED;
	p->ack_request = word & BTH_ACK_REQUEST;
	p->fecn = qpn & BTH_FECN;
	p->becn = qpn & BTH_BECN;
	p->congestion = p->is_uroce = false; /* the link sets them */
	p->mtu = p->pieces = p->dma_length = 0;
	p->pkey = from_be16(bth->pkey);
	p->dest_qpn = qpn & LOW24;
	p->psn = psn(word);
	p->length = rest - pad;
	p->payload = bytes + info->header_bytes;
	if (info->header_bytes > sizeof(*bth))
		parse_extended(p, info->flags, bytes + sizeof(*bth));
	return 0;
}

/* What the BTH says before the PSN. */
static inline uint64_t bth_before_psn(const uint8_t *bytes)
{
	uint64_t word;

	static_assert(offsetof(struct bth, psn) == sizeof(word), "all that is before the PSN");
	memcpy(&word, bytes, sizeof(word));
	return word;
}

bool packet_parse_next(struct packet *p, const uint8_t *last, const uint8_t *bytes)
{
	const struct bth *bth = (const void *)bytes;
	uint32_t word;

	if (bth_before_psn(last) != bth_before_psn(bytes) || opcode_info[bth->opcode].header_bytes != sizeof(*bth))
		return false;
	word = from_be32(bth->psn);
	p->ack_request = word & BTH_ACK_REQUEST;
	p->psn = psn(word);
	p->payload = bytes + sizeof(*bth);
	return true;
}

/* In the order of EXTENDED_HEADERS. */
static inline void encode_extended(const struct packet *p, uint32_t flags, uint8_t *at)
{
	if (flags & HAS_DETH)
		*(struct deth *)packet_take(&at, sizeof(struct deth)) = (struct deth){
			.qkey = to_be32(p->qkey),
			.src_qpn = to_be32(p->src_qpn & LOW24),
		};
	if (flags & HAS_XRCETH)
		*(struct xrceth *)packet_take(&at, sizeof(struct xrceth)) = (struct xrceth){
			.srqn = to_be32(p->srqn & LOW24),
		};
	if (flags & HAS_RETH)
		*(struct reth *)packet_take(&at, sizeof(struct reth)) = (struct reth){
			.va = to_be64(p->va),
			.rkey = to_be32(p->rkey),
			.dma_length = to_be32(p->dma_length),
		};
	if (flags & HAS_ATOMICETH)
		*(struct atomiceth *)packet_take(&at, sizeof(struct atomiceth)) = (struct atomiceth){
			.va = to_be64(p->va),
			.rkey = to_be32(p->rkey),
			.swap_add = to_be64(p->swap_add),
			.compare = to_be64(p->compare),
		};
	if (flags & HAS_AETH)
		*(struct aeth *)packet_take(&at, sizeof(struct aeth)) = (struct aeth){
			.syndrome_msn = to_be32((uint32_t)p->syndrome << 24 | (p->msn & LOW24)),
		};
	if (flags & HAS_ATOMICACKETH)
		*(struct atomicacketh *)packet_take(&at, sizeof(struct atomicacketh)) = (struct atomicacketh){
			.original = to_be64(p->original),
		};
	if (flags & HAS_IMM)
		*(struct immdt *)packet_take(&at, sizeof(struct immdt)) = (struct immdt){
			.imm = {p->imm},
		};
	if (flags & HAS_IETH)
		*(struct ieth *)packet_take(&at, sizeof(struct ieth)) = (struct ieth){
			.rkey = to_be32(p->inv_rkey),
		};
}

size_t packet_encode(const struct packet *p, uint8_t out[PACKET_HEADERS])
{
	const struct opcode_info *info = &opcode_info[p->opcode];

	assert(info->name);
	*(struct bth *)out = (struct bth){
		.opcode = p->opcode,
		.flags = (p->solicited ? BTH_SOLICITED : 0) | (p->migrated ? BTH_MIGRATED : 0) |
			 packet_pad(p->length) << BTH_PAD_SHIFT,
		.pkey = to_be16(p->pkey),
		.qpn = to_be32((p->dest_qpn & LOW24) | (p->fecn ? BTH_FECN : 0) | (p->becn ? BTH_BECN : 0)),
		.psn = to_be32(p->psn.v | (p->ack_request ? BTH_ACK_REQUEST : 0)),
	};
	if (info->header_bytes > sizeof(struct bth))
		encode_extended(p, info->flags, out + sizeof(struct bth));
	return info->header_bytes;
}

size_t packet_encode_like(const struct packet *p, const uint8_t *like, uint8_t *out)
{
	struct bth *bth = (void *)out;

	memcpy(bth, like, offsetof(struct bth, psn));
	bth->flags = (bth->flags & ~BTH_SOLICITED) | (p->solicited ? BTH_SOLICITED : 0);
	bth->psn = to_be32(p->psn.v | (p->ack_request ? BTH_ACK_REQUEST : 0));
	return sizeof(*bth);
}
