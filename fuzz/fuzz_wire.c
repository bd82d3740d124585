/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams as the socket gives them, to a whole process with connections (world.h): through the udp link, delivery, QP
 * 1 and the connection manager, the fast paths and the engine; and packets that other processes hand over.
 *
 * - A packet from another address changes nothing of a connected queue pair; one from the right address whose PSN is
 * not due changes nothing that the program or the peer sees.
 * - As long as no packet was one that the peer might have sent, the connections live: each sends the other a message at
 *   the end. Messages of strangers end no connection that the connection manager made.
 * - No byte outside the regions changes.
 *
 * An input is a sequence of records: struct input, and the bytes of a datagram. Seeds: corpus/wire, made by
 * wire-seeds.py. */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "object/early.h"
#include "wire/cm_mad.h"
#include "wire/headers.h"
#include "wire/icrc.h"
#include "world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum kind {
	RAW,	/* the bytes as they are */
	SEALED, /* packets of `segment` bytes, which get right ICRCs */
	MAD,	/* a message for QP 1 */
	HANDED, /* what another process of this user hands over */
	SEND,	/* A or B posts a request */
	TIME,
	LOSE, /* packets that A and B send: `segment` has a bit for each of the next ones */
	KINDS
};

enum how {
	TO_QP = 3,	    /* the number of a queue pair: WORLD_A, ...; WORLD_QPS: as it stands there */
	FROM_PEER = 1 << 2, /* the peer's address; else a stranger's */
	PSN_TAME = 1 << 3,  /* counts from the one that is due */
	KEY_TAME = 1 << 4,  /* the region's, and its address */
	TOLD = 1 << 5,	    /* the kernel says how long each packet is */
	CONGESTED = 1 << 6, /* a router has marked it */
	FORGED_ID = 1 << 7, /* IPv4 identification as from elsewhere */
};

struct input {
	uint8_t kind, how;
	int8_t psn;	 /* PSN_TAME: difference */
	uint8_t segment; /* bytes / 4; 0: all */
	be16 length;
};

static bool trusted; /* a packet was one that the peer might have sent: then all may end */

/* ---- what a packet is ---- */

static uint32_t due(const struct qp *qp, bool is_request)
{
	return is_request ? qp->resp.expected.v : qp->req.una.v;
}

static uint32_t qp_named(uint32_t qpn)
{
	for (uint32_t i = 0; i < WORLD_QPS; i++)
		if (world.qp[i]->base.qp_num == qpn)
			return i;
	return WORLD_QPS;
}

/* Whether the peer of a connection might have sent it: a request with the PSN that is due, or an answer to what has
 * been sent. */
static bool is_due(const struct qp *qp, const struct packet *p)
{
	if (p->opcode == OPCODE_CNP || p->opcode == OPCODE_CREDIT_REQUEST || p->opcode == OPCODE_CREDIT_GRANT)
		return false;
	/* a uroce keeps what comes before its turn */
	if (opcode_info[p->opcode].flags & IS_REQUEST)
		return (uint32_t)psn_diff(p->psn, psn(due(qp, true))) < SELECTIVE_PSNS;
	/* a NAK of the PSN behind the last one is none, but an ACK of the one before the oldest is */
	return psn_diff(p->psn, psn_add(qp->req.una, -1)) >= 0 && psn_diff(p->psn, qp->req.high) <= 0;
}

/* ---- making datagrams ---- */

static void seal(uint8_t *bytes, uint32_t length, const struct sockaddr_in *from, uint16_t id)
{
	uint8_t source[16] = {[10] = 0xff, 0xff};
	struct icrc_flow flow;

	memcpy(source + 12, &from->sin_addr, 4);
	icrc_flow_init(&flow, source, world.port->link->gid.raw, ntohs(from->sin_port), ROCE_PORT);
	if (length > sizeof(struct bth) + ICRC_BYTES)
		icrc_put(bytes + length - ICRC_BYTES, icrc_start(&flow, id, length, bytes, length - ICRC_BYTES));
}

static void tame(uint8_t *bytes, uint32_t length, const struct input *r)
{
	struct bth *bth = (void *)bytes;
	uint32_t flags = opcode_info[bytes[0]].flags;
	struct reth *reth = (void *)(bth + 1);
	struct qp *qp;

	if (length < sizeof(*bth))
		return;
	if ((r->how & TO_QP) < WORLD_QPS)
		bth->qpn = to_be32((from_be32(bth->qpn) & ~QPN_MASK) | world.qp[r->how & TO_QP]->base.qp_num);
	qp = world.qp[(r->how & TO_QP) % WORLD_QPS];
	if (r->how & PSN_TAME)
		bth->psn = to_be32((from_be32(bth->psn) & BTH_ACK_REQUEST) |
				   ((due(qp, flags & IS_REQUEST) + (uint32_t)r->psn) & PSN_MASK));
	if (flags & HAS_DETH && r->how & KEY_TAME && length >= sizeof(*bth) + sizeof(struct deth))
		((struct deth *)(bth + 1))->qkey = to_be32(WORLD_QKEY);
	if (flags & HAS_RETH && r->how & KEY_TAME && length >= sizeof(*bth) + sizeof(*reth)) {
		reth->va = to_be64((uintptr_t)world.open->addr + from_be64(reth->va) % (2 * WORLD_REGION));
		reth->rkey = to_be32(from_be32(reth->rkey) & 1 ? world.shut->rkey : world.open->rkey);
	}
}

/* ---- giving them ---- */

struct sighting {
	struct picture before[WORLD_UD];
	bool may_change[WORLD_UD], is_close[WORLD_UD]; /* by the peer; from its address */
};

static void see_packet(struct sighting *s, const uint8_t *bytes, uint32_t length, bool from_peer)
{
	struct packet p;
	uint32_t i;

	if (length < ICRC_BYTES || packet_parse(&p, bytes, length - ICRC_BYTES))
		return;
	i = qp_named(p.dest_qpn);
	if (i >= WORLD_UD || !from_peer)
		return;
	s->is_close[i] = true;
	s->may_change[i] |= is_due(world.qp[i], &p);
}

static void give(int fd, const struct datagram *d)
{
	uint64_t now = kernel_now();

	kernel_give(fd, d);
	lock_take(&world.loop->receive);
	if (fd == world.loop->slot.fd)
		receive_handover(world.loop, now);
	else
		receive_all(world.loop, &now, NULL);
	lock_drop(&world.loop->receive);
	require(kernel_is_empty());
}

static void check(const struct sighting *s)
{
	for (uint32_t i = 0; i < WORLD_UD; i++) {
		trusted |= s->may_change[i];
		require(trusted || world_is_same(&s->before[i], i, !s->is_close[i]));
	}
	world_require_memory();
}

static void give_datagram(const struct input *r, uint8_t *bytes, uint32_t length)
{
	bool from_peer = r->how & FROM_PEER;
	struct sockaddr_in from = {.sin_family = AF_INET,
				   .sin_port = htons(from_peer ? ROCE_PORT : 0xc000 + r->psn),
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK + !from_peer)};
	uint32_t segment = r->segment ? r->segment * 4 : length;
	struct datagram d = {.bytes = bytes,
			     .size = length,
			     .from = (struct sockaddr *)&from,
			     .from_size = sizeof(from),
			     .segment = r->how & TOLD ? (int)segment : 0,
			     .traffic_class = r->how & CONGESTED ? 3 : 0};
	struct sighting s = {0};

	for (uint32_t at = 0, id = r->how & FORGED_ID ? 0x8000u : 0; at < length; at += segment, id++) {
		uint32_t n = min_of(segment, length - at);

		if (r->kind == SEALED) {
			tame(bytes + at, n, r);
			seal(bytes + at, n, &from, (uint16_t)id);
		}
		see_packet(&s, bytes + at, n, from_peer);
	}
	for (uint32_t i = 0; i < WORLD_UD; i++)
		world_picture(&s.before[i], i);
	give(world.port->link->socket, &d);
	check(&s);
	world_run();
}

/* A MAD in a UD packet to QP 1. */
static void give_mad(struct input *r, const uint8_t *bytes, uint32_t length)
{
	uint8_t packet[sizeof(struct bth) + sizeof(struct deth) + MAD_BYTES + ICRC_BYTES] = {0};
	const struct packet p = {.opcode = TRANSPORT_UD | OP_SEND_ONLY,
				 .pkey = PKEY_DEFAULT,
				 .dest_qpn = GSI_QPN,
				 .src_qpn = GSI_QPN,
				 .qkey = GSI_QKEY,
				 .length = MAD_BYTES};

	memcpy(packet + packet_encode(&p, packet), bytes, min_of(length, (uint32_t)MAD_BYTES));
	r->kind = SEALED;
	r->how = (r->how & ~TO_QP & ~PSN_TAME & ~KEY_TAME) | WORLD_QPS;
	r->segment = 0;
	give_datagram(r, packet, sizeof(packet));
}

/* The process that hands packets over is of this user: it might have sent them itself. */
static void give_handed(uint8_t *bytes, uint32_t length)
{
	give(world.loop->slot.fd, &(struct datagram){.bytes = bytes, .size = length});
	trusted = true;
	world_require_memory();
	world_run();
}

static void post(const struct input *r)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND};
	enum ibv_wr_opcode opcode = opcodes[r->segment % ARRAY_SIZE(opcodes)];
	uint32_t from = r->how % WORLD_UD, most = opcode == IBV_WR_SEND ? WORLD_RECEIVE : WORLD_REGION / 2;

	world_post_receive(world.qp[!from]);
	world_post_send(world.qp[from], opcode, from_be16(r->length) % (most + 1), (uintptr_t)world.open->addr,
			world.open->rkey);
	world_run();
}

static void happen(struct input *r, uint8_t *bytes, uint32_t length)
{
	switch (r->kind % KINDS) {
	case MAD:
		give_mad(r, bytes, length);
		break;
	case HANDED:
		give_handed(bytes, length);
		break;
	case SEND:
		post(r);
		break;
	case TIME:
		kernel_pass((uint64_t)r->segment * MSEC);
		world_run();
		break;
	case LOSE:
		kernel_lose(r->segment | (uint32_t)(uint8_t)r->psn << 8);
		trusted = true; /* the retries may be spent by it */
		break;
	default:
		r->kind %= KINDS;
		give_datagram(r, bytes, length);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = data + size;
	struct input r;
	uint8_t *copy;

	if (!world.context)
		world_make();
	kernel_lose(0);
	world_renew();
	trusted = false;
	while ((size_t)(end - data) >= sizeof(r)) {
		uint32_t length;

		memcpy(&r, data, sizeof(r));
		data += sizeof(r);
		length = r.kind % KINDS >= SEND ? 0 : min_of((uint32_t)from_be16(r.length), (uint32_t)(end - data));
		copy = malloc(length + 1);
		require(copy);
		memcpy(copy, data, length);
		happen(&r, copy, length);
		free(copy);
		data += length;
	}
	kernel_lose(0);
	if (!trusted)
		world_require_connections();
	world_require_managed();
	return 0;
}
