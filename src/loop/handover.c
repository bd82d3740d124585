/* SPDX-License-Identifier: BSD-2-Clause */
#include "loop/handover.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* A record, followed by `bytes` from the BTH to before the ICRC (which was good), filled up to a multiple of 8. */
struct record {
	uint32_t bytes;
	uint8_t congestion, traffic_class;
	uint8_t zero[2];
	union ibv_gid from, to;
};

static uint32_t fill(uint32_t bytes)
{
	return (bytes + 7) & ~7u;
}

void handover_send(struct handover *h, const struct slot *own)
{
	struct sockaddr_un address;

	if (!h->bytes)
		return;
	/* fails if that process is dead, or stopped and its queue full: lost */
	if (sendto(own->fd, h->memory, h->bytes, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&address,
		   slot_address(&address, h->slot)) < 0)
		h->lost++;
	h->bytes = 0;
}

void handover_add(struct handover *h, const struct slot *own, uint8_t slot, const struct packet *p,
		  const union ibv_gid *from)
{
	uint32_t most = sizeof(struct record) + PACKET_HEADERS + fill(p->length + packet_pad(p->length)) + 8;
	struct record *record;
	uint8_t *at;

	if (most > HANDOVER_BYTES)
		return;
	if (h->slot != slot || h->bytes + most > HANDOVER_BYTES)
		handover_send(h, own);
	h->slot = slot;
	record = (struct record *)(h->memory + h->bytes);
	at = (uint8_t *)(record + 1);
	at += packet_encode(p, at);
	memcpy(at, p->payload, p->length);
	at += p->length;
	memset(at, 0, packet_pad(p->length));
	at += packet_pad(p->length);
	*record = (struct record){.bytes = at - (uint8_t *)(record + 1),
				  .congestion = p->congestion,
				  .traffic_class = p->traffic_class,
				  .from = *from};
	memcpy(&record->to, p->to, sizeof(record->to));
	h->bytes += sizeof(*record) + fill(record->bytes);
	h->packets++;
}

/* Whether a process of this user sent it. */
static bool is_ours(struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS) {
			struct ucred who;

			memcpy(&who, CMSG_DATA(c), sizeof(who));
			return who.uid == geteuid();
		}
	}
	return false;
}

bool handover_receive(const struct slot *own, link_deliver *deliver, void *arg)
{
	_Alignas(8) static uint8_t memory[HANDOVER_BYTES]; /* guarded by the receive turn, as all receiving is */
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))];
	struct iovec iov = {memory, sizeof(memory)};
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(own->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	const uint8_t *at = memory, *end;

	if (n < 0)
		return false;
	if (!is_ours(&m))
		return true;
	for (end = memory + n; (size_t)(end - at) > sizeof(struct record);) {
		const struct record *record = (const struct record *)at;
		struct packet p;

		at += sizeof(*record);
		if (record->bytes > (size_t)(end - at))
			break;
		if (!packet_parse(&p, at, record->bytes)) {
			p.congestion = record->congestion;
			p.traffic_class = record->traffic_class;
			p.to = record->to.raw;
			deliver(arg, &p, &record->from);
		}
		at += min_of((size_t)fill(record->bytes), (size_t)(end - at));
	}
	return true;
}
