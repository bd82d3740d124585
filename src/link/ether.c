/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/ether.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_arp.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/high_fd.h"
#include "base/tsan.h"
#include "link/tuned.h"

static int ether_open_socket(int interface, uint16_t protocol)
{
	struct sockaddr_ll a = {.sll_family = AF_PACKET, .sll_protocol = htons(protocol), .sll_ifindex = interface};
	int fd = high_fd(socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)), error;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

/* What the network does not take is lost, as on a wire. */
static uint32_t ether_send(struct link *link, const struct link_tx *tx, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct msghdr m = {.msg_iov = (struct iovec *)tx[i].iov, .msg_iovlen = tx[i].iovs};

		tsan_release(tsan_key(ETH_P_ALL));
		if (likely(sendmsg(link->fd, &m, MSG_DONTWAIT) >= 0))
			continue;
		if (errno == EAGAIN || errno == ENOBUFS)
			return i;
		if (errno == EFAULT)
			return i | LINK_UNREADABLE;
	}
	return count;
}

static uint32_t receive_nothing(struct link *link, uint32_t batch, link_deliver *deliver, void *arg)
{
	return 0;
}

static void tell_nothing(const struct link *link)
{
}

static const struct link_ops ether_ops = {
	.name = "ether",
	.send = ether_send,
	.receive = receive_nothing,
	.tell = tell_nothing,
	.close = ether_close,
	.abandon = ether_close,
};

int ether_open(int interface, struct link *link, bool *loopback)
{
	int fd = ether_open_socket(interface, 0); /* no protocol: nothing comes in */
	struct sockaddr_ll a;
	socklen_t size = sizeof(a);

	if (fd < 0)
		return fd;
	*loopback = getsockname(fd, (struct sockaddr *)&a, &size) == 0 && a.sll_hatype == ARPHRD_LOOPBACK;
	*link = (struct link){.ops = &ether_ops, .fd = fd};
	return 0;
}

void ether_close(struct link *link)
{
	close(link->fd);
}

int ether_listen(int interface)
{
	struct packet_mreq all = {.mr_ifindex = interface, .mr_type = PACKET_MR_PROMISC};
	int fd = ether_open_socket(interface, ETH_P_ALL), bytes = ETHER_BUFFER, on = 1;

	if (fd < 0)
		return fd;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)))
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	/* rules may name any address; where that is not allowed, the interface's own must do */
	setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof(all));
	setsockopt(fd, SOL_PACKET, PACKET_AUXDATA, &on, sizeof(on));
	return fd;
}

/* The kernel takes the VLAN tag out of the frame and tells it beside: `frame` has 4 bytes of room before it. Returns
 * where the frame begins. */
static uint8_t *restore_tag(uint8_t *frame, uint32_t *length, struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		struct tpacket_auxdata aux;
		uint16_t tag[2];

		if (c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA)
			continue;
		memcpy(&aux, CMSG_DATA(c), sizeof(aux));
		if (!(aux.tp_status & TP_STATUS_VLAN_VALID) || *length < 2 * ETH_ALEN)
			break;
		tag[0] = htons(aux.tp_status & TP_STATUS_VLAN_TPID_VALID ? aux.tp_vlan_tpid : ETH_P_8021Q);
		tag[1] = htons(aux.tp_vlan_tci);
		memmove(frame - 4, frame, (size_t)2 * ETH_ALEN);
		memcpy(frame - 4 + 2 * ETH_ALEN, tag, sizeof(tag));
		*length += 4;
		return frame - 4;
	}
	return frame;
}

bool ether_receive(int fd, uint8_t *buffer, uint32_t batch, ether_deliver *deliver, void *arg)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct tpacket_auxdata))];
	struct sockaddr_ll from;
	bool any = false;

	for (; batch; batch--, any = true) {
		struct iovec iov = {buffer + 4, ETHER_FRAME - 4};
		struct msghdr m = {.msg_name = &from,
				   .msg_namelen = sizeof(from),
				   .msg_iov = &iov,
				   .msg_iovlen = 1,
				   .msg_control = control,
				   .msg_controllen = sizeof(control)};
		ssize_t got = recvmsg(fd, &m, MSG_DONTWAIT);
		uint32_t length = (uint32_t)got;
		uint8_t *frame;

		if (got < 0)
			break;
		tsan_acquire(tsan_key(ETH_P_ALL));
		frame = restore_tag(buffer + 4, &length, &m);
		if (!deliver(arg, frame, length, from.sll_pkttype == PACKET_OUTGOING))
			return true;
	}
	return any;
}
