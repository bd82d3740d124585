/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/capture.h"

#include <string.h>
#include <unistd.h>

#include "memory/fault.h"

#define PIECES 64u /* pieces of a payload in other memory; more are left out, and the packet is cut */

/* Copies at most `most` bytes. Returns the number of bytes that were read. */
static uint32_t copy_payload(char *to, const struct iovec *iov, uint32_t iovs, uint32_t most)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < iovs && n < most; i++) {
		uint32_t part = min_of((uint32_t)iov[i].iov_len, most - n);

		if (part && !fault_copy_any(to + n, iov[i].iov_base, part))
			break;
		n += part;
	}
	return n;
}

/* The same from memory of the process `owner`. */
static uint32_t copy_remote(char *to, const struct iovec *iov, uint32_t iovs, uint32_t most, pid_t owner)
{
	struct iovec into = {to, most};
	ssize_t n = process_vm_readv(owner, &into, 1, iov, iovs, 0);

	return n > 0 ? (uint32_t)n : 0;
}

static uint32_t find_pieces(const struct iovec *iov, uint32_t iovs, uint32_t pieces, struct iovec found[PIECES])
{
	struct packet_piece piece[PIECES];
	uint32_t n = copy_payload((char *)piece, iov, iovs, (uint32_t)sizeof(piece[0]) * min_of(pieces, PIECES)) /
		     (uint32_t)sizeof(piece[0]);

	for (uint32_t i = 0; i < n; i++)
		found[i] = (struct iovec){(void *)(uintptr_t)piece[i].address, piece[i].length};
	return n;
}

static uint32_t copy_of_packet(char *to, const struct packet *p, const struct capture_seen *s, uint32_t most)
{
	struct iovec found[PIECES];
	uint32_t n;

	if (!p->pieces)
		return copy_payload(to, s->iov, s->iovs, most);
	n = find_pieces(s->iov, s->iovs, p->pieces, found);
	return s->owner && s->owner != getpid() ? copy_remote(to, found, n, most, s->owner)
						: copy_payload(to, found, n, most);
}

void capture_packet(const struct packet *p, const struct capture_seen *s)
{
	uint32_t most = min_of(p->length, capture_payload());
	struct capture_packet *c = capture_begin(CAPTURE_PACKET, sizeof(*c) + PACKET_HEADERS + most);
	uint8_t *bytes = (uint8_t *)(c + 1);

	if (!c)
		return;
	c->record.link = s->link;
	c->record.inbound = s->inbound;
	c->path = (struct capture_path){
		.traffic_class = s->traffic_class,
		.hop_limit = s->hop_limit,
		.flow_label = s->flow_label,
		.qpn = s->qpn,
		.mtu = s->mtu,
	};
	memcpy(c->path.from, s->from, sizeof(c->path.from));
	memcpy(c->path.to, s->to, sizeof(c->path.to));
	c->headers = (uint32_t)packet_encode(p, bytes);
	c->length = p->length;
	c->captured = copy_of_packet((char *)bytes + c->headers, p, s, most);
	capture_commit(&c->record, sizeof(*c) + c->headers + c->captured);
}

void capture_onesided(const struct capture_onesided *e, const union ibv_gid *from, const union ibv_gid *to,
		      const struct iovec *iov, uint32_t iovs)
{
	uint32_t most = min_of(e->length, capture_payload());
	struct capture_onesided *c = capture_begin(CAPTURE_ONESIDED, sizeof(*c) + most);
	struct capture_record head;

	if (!c)
		return;
	head = c->record;
	*c = *e;
	c->record = head;
	c->record.link = CAPTURE_MEMORY;
	memcpy(c->path.from, from, sizeof(c->path.from));
	memcpy(c->path.to, to, sizeof(c->path.to));
	c->captured = copy_payload((char *)(c + 1), iov, iovs, most);
	capture_commit(&c->record, sizeof(*c) + c->captured);
}
