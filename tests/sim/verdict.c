/* SPDX-License-Identifier: BSD-2-Clause */
/* A model with few rules: each request completes once, in order; a message arrives whole or not at all, at most
 * once, in order; over a reliable service it arrives; nothing is written except what a message may write. */
#include <arpa/inet.h>
#include <string.h>

#include "links.h"
#include "object/cq_poll.h"

static uint8_t byte_of(const struct link *l, uint32_t number, uint32_t i)
{
	return (uint8_t)((uint32_t)(l - services.link) * 31 + number * 7 + i * 3 + (i >> 8));
}

uint8_t content(const struct link *l, uint32_t number, uint32_t i)
{
	struct head h = {(uint32_t)(l - services.link), number, l->message[number].length};

	return i < sizeof(h) ? ((uint8_t *)&h)[i] : byte_of(l, number, i);
}

/* ---- as it happens ---- */

static bool leads_to(const struct link *l, const struct node *n, uint32_t qpn)
{
	return l->to->node == n && l->to->qp->base.qp_num == qpn;
}

static struct link *link_of(const struct cqe *c, const struct node *n, const uint8_t *at)
{
	struct head h;

	for (uint32_t i = 0; i < services.links; i++)
		if (services.link[i].kind != UD && leads_to(&services.link[i], n, c->qpn))
			return &services.link[i];
	memcpy(&h, at + GRH, sizeof(h)); /* many may send to one */
	expect(services.world, NULL,
	       h.link < services.links && leads_to(&services.link[h.link], n, c->qpn) &&
		       services.link[h.link].from.qp->base.qp_num == c->src_qp,
	       "a datagram of nobody at QP %06x", c->qpn);
	return &services.link[h.link];
}

static void check_message(struct link *l, const struct cqe *c, const uint8_t *at)
{
	uint32_t length = c->byte_len, number;
	bool writes = c->opcode == IBV_WC_RECV_RDMA_WITH_IMM;
	struct head h;

	if (l->kind == UD) {
		at += GRH;
		length -= GRH;
	}
	if (writes) {
		number = ntohl(c->imm);
		expect(services.world, NULL, number < MESSAGES, "an immediate of nobody");
		at = l->target.bytes + number * ROOM;
	} else {
		memcpy(&h, at, sizeof(h));
		number = h.number;
	}
	expect(services.world, NULL, number >= l->next && number < l->posted,
	       "link %zu: message %u came twice or too late", (size_t)(l - services.link), number);
	expect(services.world, NULL, length == l->message[number].length, "link %zu: message %u has %u bytes",
	       (size_t)(l - services.link), number, length);
	for (uint32_t i = 0; i < length; i++)
		expect(services.world, NULL, at[i] == content(l, number, i), "link %zu: byte %u of message %u is wrong",
		       (size_t)(l - services.link), i, number);
	if (!(c->flags & IBV_WC_WITH_IMM))
		expect(services.world, NULL, l->message[number].opcode == IBV_WR_SEND, "an immediate was lost");
	else
		expect(services.world, NULL, ntohl(c->imm) == number, "message %u has another's immediate", number);
	l->next = number + 1;
	l->taken++;
}

static void received(struct node *n, const struct cqe *c)
{
	struct supply *p = &services.pool[c->wr_id / RECEIVES];
	uint32_t slot = c->wr_id % RECEIVES;
	uint8_t *at = p->block.bytes + slot * ROOM;
	struct link *l;

	expect(services.world, NULL, c->wr_id < (uint64_t)services.pools * RECEIVES && p->posted[slot],
	       "a receive completes twice");
	p->posted[slot] = false;
	if (c->status == IBV_WC_WR_FLUSH_ERR && services.world->struck)
		return;
	expect(services.world, NULL, c->status == IBV_WC_SUCCESS, "a receive says %s", ibv_wc_status_str(c->status));
	l = link_of(c, n, at);
	expect(services.world, NULL, l->pool == p, "a receive of another queue was used");
	check_message(l, c, at);
}

static void check_result(struct link *l, uint32_t number)
{
	const struct message *m = &l->message[number];
	const uint8_t *at = l->source.bytes + number * ROOM;
	uint64_t value;

	if (m->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		memcpy(&value, at, sizeof(value));
		expect(services.world, NULL, value == m->atomics, "an atomic found %lu, not %u", value, m->atomics);
		l->succeeded = m->atomics + 1;
	}
	for (uint32_t i = 0; m->opcode == IBV_WR_RDMA_READ && i < m->length; i++)
		expect(services.world, NULL, at[i] == content(l, number, i), "byte %u of READ %u is wrong", i, number);
}

/* Requests complete in order; those that need not be told of are passed by. */
static void sent(struct link *l, const struct cqe *c)
{
	bool flushed = c->status == IBV_WC_WR_FLUSH_ERR && l->struck;

	expect(services.world, NULL, c->status == IBV_WC_SUCCESS || flushed, "link %zu: request %lu says %s",
	       (size_t)(l - services.link), c->wr_id, ibv_wc_status_str(c->status));
	expect(services.world, NULL, flushed || !l->flushed, "a request succeeds after one that failed");
	expect(services.world, NULL, c->wr_id >= l->done && c->wr_id < l->posted, "request %lu completes twice",
	       c->wr_id);
	for (; l->done < c->wr_id; l->done++) {
		expect(services.world, NULL, !l->message[l->done].signalled && !l->flushed,
		       "request %u never completes", l->done);
		check_result(l, l->done);
	}
	l->done++;
	l->flushed |= flushed;
	if (flushed)
		return;
	expect(services.world, NULL, l->message[c->wr_id].signalled, "request %lu was not to be told of", c->wr_id);
	check_result(l, (uint32_t)c->wr_id);
}

void poll_node(struct node *n)
{
	struct cqe c;

	while (cq_poll(&n->cq[0], 1, &c) == 1)
		received(n, &c);
	while (cq_poll(&n->cq[1], 1, &c) == 1)
		for (uint32_t i = 0; i < services.links; i++)
			if (services.link[i].from.node == n && services.link[i].from.qp->base.qp_num == c.qpn)
				sent(&services.link[i], &c);
}

/* ---- what must have come of it ---- */

static bool may_be(const struct link *l, uint32_t number, uint32_t i)
{
	const struct message *m = &l->message[number];
	uint8_t byte = l->target.bytes[number * ROOM + i];
	bool writes = m->opcode == IBV_WR_RDMA_WRITE || m->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	bool inside = number < l->posted && i < m->length;

	if (inside && m->opcode == IBV_WR_RDMA_READ)
		return byte == content(l, number, i);
	if (!inside || !writes)
		return byte == UNTOUCHED;
	return byte == content(l, number, i) || (byte == UNTOUCHED && (!is_acknowledged(l) || l->struck));
}

void check_link(struct link *l)
{
	uint64_t counter;
	uint32_t due = 0;

	for (uint32_t n = 0; n < MESSAGES; n++)
		for (uint32_t i = 0; i < ROOM; i++)
			expect(services.world, NULL, may_be(l, n, i), "link %zu: byte %u of target %u is %02x",
			       (size_t)(l - services.link), i, n, l->target.bytes[n * ROOM + i]);
	for (uint32_t n = 0; n < l->posted; n++)
		due += l->message[n].opcode <= IBV_WR_SEND_WITH_IMM && l->message[n].opcode != IBV_WR_RDMA_WRITE;
	expect(services.world, NULL, l->taken <= due && (l->taken == due || !is_acknowledged(l) || l->struck),
	       "link %zu: %u of %u messages came", (size_t)(l - services.link), l->taken, due);
	for (; l->done < l->posted; l->done++)
		expect(services.world, NULL, !l->message[l->done].signalled && !l->flushed,
		       "request %u never completes", l->done);
	memcpy(&counter, l->target.bytes + COUNTER, sizeof(counter));
	expect(services.world, NULL,
	       counter >= l->succeeded && counter <= l->atomics && (l->struck || counter == l->atomics),
	       "a counter is %lu after %u atomics", counter, l->atomics);
}
