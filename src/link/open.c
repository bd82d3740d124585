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

static const char *const word[] = {"udp", "packet", "xdp"};

/* What to do where a link of frames cannot be had. The last row of a link is for all other errors. */
static const struct {
	int link, error;
	const char *advice;
} advice[] = {
	{LINK_XDP, EPERM,
	 "AF_XDP needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF: run as root, or setpriv --inh-caps "
	 "+net_raw,+net_admin,+bpf --ambient-caps +net_raw,+net_admin,+bpf PROGRAM"},
	{LINK_XDP, EACCES, "A security policy of this system forbids AF_XDP or BPF"},
	{LINK_XDP, EBUSY,
	 "One process at a time has an interface by AF_XDP, and no other XDP program may be there: see ip -d link"},
	{LINK_XDP, EMSGSIZE,
	 "AF_XDP takes no frames as long as the interface's MTU allows: ip link set INTERFACE mtu 3498"},
	{LINK_XDP, ERANGE,
	 "The other end of a veth pair has too large an MTU for XDP: there, too, ip link set INTERFACE mtu 3498"},
	{LINK_XDP, ENOBUFS, "AF_XDP locks 4 MB of memory or more: raise ulimit -l, or add CAP_IPC_LOCK"},
	{LINK_XDP, EAFNOSUPPORT, "This kernel has no AF_XDP (CONFIG_XDP_SOCKETS)"},
	{LINK_XDP, 0,
	 "The interface's driver has no XDP, or not with this MTU and these queues: use UROCE_LINK=packet"},
	{LINK_PACKET, 0,
	 "Packet sockets need CAP_NET_RAW in the network namespace: run as root, or setpriv --inh-caps +net_raw "
	 "--ambient-caps +net_raw PROGRAM"},
};

static const char *advice_of(int link, int error)
{
	size_t i = 0;

	while (advice[i].link != link || (advice[i].error && advice[i].error != error))
		i++;
	return advice[i].advice;
}

/* `wanted` failed with that error; `used` serves in its place. */
static void say_why_not(int wanted, int err, int used)
{
	static _Atomic bool said;

	if (err == -ENODEV) /* loopback, for example: that is no mistake */
		log_debug("UROCE_LINK=%s: an address is of no Ethernet interface; using udp for it", word[wanted]);
	else if (!atomic_exchange_explicit(&said, true, memory_order_relaxed))
		log_warn("UROCE_LINK=%s: %s; using %s. %s", word[wanted], strerror(-err), word[used],
			 advice_of(wanted, -err));
}

/* The error of the socket that all links have. AF_XDP takes much memory: the others may find enough. */
static bool is_of_socket(int link, int err)
{
	return err == -EADDRINUSE || err == -EADDRNOTAVAIL || (err == -ENOMEM && link != LINK_XDP);
}

int link_open(const union ibv_gid *gid, uint16_t slot, struct link **link)
{
	int wanted = (int)config_enum(CONFIG_LINK), used = wanted, why = 0, err = 0;

	while (used != LINK_UDP) {
		err = link_packet_open(gid, slot, used == LINK_XDP ? BY_XDP : BY_PACKET_SOCKET, link);
		if (is_of_socket(used, err))
			return err;
		if (!err)
			break;
		why = why ?: err;
		used = err == -ENODEV ? LINK_UDP : used - 1;
	}
	if (used != wanted)
		say_why_not(wanted, why, used);
	return used == LINK_UDP ? link_udp_open(gid, link) : 0;
}

int link_set_slots(struct link *link, const uint16_t *slots, uint32_t count)
{
	return link_is_packet(link) ? link_packet_part(link, slots, count) : 0;
}
