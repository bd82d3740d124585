/* SPDX-License-Identifier: BSD-2-Clause */
#include "port/count.h"

#include <stdlib.h>
#include <string.h>

#include "link/udp.h"
#include "loop/loop.h"

/* Counts of closed ports: of an address, or of an interface for multicast groups. */
static struct past {
	union ibv_gid gid;
	int netif;
	struct count count;
} * past;
static uint32_t pasts; /* both guarded by loop_hold() */

static uint64_t value(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit((_Atomic uint64_t *)counter, memory_order_relaxed);
}

static struct count counts_of(const struct port *port)
{
	const struct udp_counters *c = link_udp_counters(port->link);

	return (struct count){
		.tx_packets = value(&c->tx_packets),
		.tx_bytes = value(&c->tx_bytes),
		.tx_refused = value(&c->tx_refused),
		.rx_packets = value(&c->rx_packets),
		.rx_bytes = value(&c->rx_bytes),
		.rx_icrc = value(&c->rx_icrc),
		.rx_errors = value(&c->rx_malformed) + value(&c->rx_errors),
	};
}

static void count_add(struct count *sum, const struct count *c)
{
	sum->tx_packets += c->tx_packets;
	sum->tx_bytes += c->tx_bytes;
	sum->tx_refused += c->tx_refused;
	sum->rx_packets += c->rx_packets;
	sum->rx_bytes += c->rx_bytes;
	sum->rx_icrc += c->rx_icrc;
	sum->rx_errors += c->rx_errors;
}

static bool is_among(const union ibv_gid *gid, const union ibv_gid *list, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (!memcmp(gid, &list[i], sizeof(*gid)))
			return true;
	return false;
}

static struct past *past_of(const union ibv_gid *gid, int netif)
{
	struct past *more;

	for (uint32_t i = 0; i < pasts; i++)
		if (past[i].netif == netif && (netif || !memcmp(&past[i].gid, gid, sizeof(*gid))))
			return &past[i];
	more = realloc(past, (pasts + 1) * sizeof(*more));
	if (!more)
		return NULL;
	past = more;
	past[pasts] = (struct past){.gid = *gid, .netif = netif};
	return &past[pasts++];
}

void count_keep(const struct port *port)
{
	struct past *p = past_of(&port->link->gid, port->netif);
	const struct count c = counts_of(port);

	if (p) /* without memory the counts are lost */
		count_add(&p->count, &c);
}

struct count loop_count(int netif, const union ibv_gid *gid, uint32_t gids)
{
	struct loop *l = loop_hold();
	struct count sum = {0};

	for (uint32_t i = 0; i < pasts; i++)
		if (past[i].netif ? past[i].netif == netif : is_among(&past[i].gid, gid, gids))
			count_add(&sum, &past[i].count);
	for (uint32_t i = 0; l && i < l->ports; i++) {
		const struct port *port = l->port[i];
		struct count c;

		if (!(port->netif ? port->netif == netif : is_among(&port->link->gid, gid, gids)))
			continue;
		c = counts_of(port);
		count_add(&sum, &c);
	}
	loop_release();
	return sum;
}
