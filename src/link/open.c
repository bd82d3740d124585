/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/open.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/base.h"
#include "base/config.h"
#include "base/log.h"
#include "link/packet.h"
#include "link/udp.h"

/* The packet link failed with that error; udp serves in its place. */
static void say_why_not(int err)
{
	static _Atomic bool said;

	if (err == -ENODEV) /* loopback, for example: that is no mistake */
		log_debug("UROCE_LINK=packet: an address is of no Ethernet interface; using udp for it");
	else if (!atomic_exchange_explicit(&said, true, memory_order_relaxed))
		log_warn("UROCE_LINK=packet: %s; using udp. Packet sockets need CAP_NET_RAW in the network namespace: "
			 "run as root, or setpriv --inh-caps +net_raw --ambient-caps +net_raw PROGRAM",
			 strerror(-err));
}

/* The errors of the socket that both links have. */
static bool is_of_socket(int err)
{
	return err == -EADDRINUSE || err == -EADDRNOTAVAIL || err == -ENOMEM;
}

int link_open(const union ibv_gid *gid, uint16_t slot, struct link **link)
{
	int err;

	if (config_enum(CONFIG_LINK) == LINK_UDP)
		return link_udp_open(gid, link);
	err = link_packet_open(gid, slot, link);
	if (!err || is_of_socket(err))
		return err;
	say_why_not(err);
	return link_udp_open(gid, link);
}

int link_set_slots(struct link *link, const uint16_t *slots, uint32_t count)
{
	return link_is_packet(link) ? link_packet_part(link, slots, count) : 0;
}
