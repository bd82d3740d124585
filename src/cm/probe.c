/* SPDX-License-Identifier: BSD-2-Clause */
/* Probes of hosts that do not answer: see probe.h. */
#include "cm/probe.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/high_fd.h"
#include "cm/address.h"
#include "link/netif.h"
#include "wire/packet.h"

static const struct family {
	int family, level, wants_errors, error;
} families[] = {
	{AF_INET, IPPROTO_IP, IP_RECVERR, IP_RECVERR},
	{AF_INET6, IPPROTO_IPV6, IPV6_RECVERR, IPV6_RECVERR},
};

static int sockets[ARRAY_SIZE(families)] GUARDED_BY(cm.lock) = {-1, -1}; /* -1: not opened yet */

/* A packet to QP 0, which RoCE does not use, without an ICRC. It has the minimum length of a packet: for a shorter one
 * rxe, up to Linux 6.12 at least, releases a QP that it has not looked up, and crashes its machine. */
struct probe {
	uint8_t bth[12]; /* zeros */
	uint32_t id;	 /* id of the connection */
};

static int probe_open_socket(const struct family *f)
{
	int fd = high_fd(socket(f->family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)), on = 1;

	if (fd >= 0 && setsockopt(fd, f->level, f->wants_errors, &on, sizeof(on))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

void probe_send(const struct cm_address *address, uint32_t id)
{
	size_t i = address_is_ipv4(&address->remote) ? 0 : 1;
	struct sockaddr_storage to;
	const struct probe probe = {.id = id};
	socklen_t size = sizeof(int);
	int before;

	if (!memcmp(&address->local, &address->remote, sizeof(address->local)))
		return;
	if (sockets[i] < 0)
		sockets[i] = probe_open_socket(&families[i]);
	if (sockets[i] < 0)
		return;
	gid_to_address(&address->remote, ROCE_PORT, &to);
	if (address_is_link_local(&address->remote))
		((struct sockaddr_in6 *)&to)->sin6_scope_id = (uint32_t)netif_of_address(&address->local);
	getsockopt(sockets[i], SOL_SOCKET, SO_ERROR, &before,
		   &size); /* clears another probe's pending error, which would fail the send */
	/* on failure the probe is lost; another one follows */
	(void)!sendto(sockets[i], &probe, sizeof(probe), 0, (struct sockaddr *)&to,
		      address_size((struct sockaddr *)&to));
}

static bool says_absent(uint32_t error)
{
	return error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH || error == EHOSTDOWN;
}

/* -errno of an ICMP error; 0: not about reachability. */
static int error_in(struct msghdr *m, const struct family *f)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		struct sock_extended_err e;

		if (c->cmsg_level != f->level || c->cmsg_type != f->error || c->cmsg_len < CMSG_LEN(sizeof(e)))
			continue;
		memcpy(&e, CMSG_DATA(c), sizeof(e));
		if (says_absent(e.ee_errno))
			return -(int)e.ee_errno;
	}
	return 0;
}

/* Reads the pending errors. Each contains the part of the probe that the ICMP sender returned. */
static bool cm_probe_collect(size_t i, void (*absent)(uint32_t id, int err)) REQUIRES(cm.lock)
{
	union {
		struct cmsghdr h;
		char bytes[CMSG_SPACE(sizeof(struct sock_extended_err) + sizeof(struct sockaddr_in6))];
	} control;
	struct probe probe;
	struct iovec iov = {&probe, sizeof(probe)};
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(sockets[i], &m, MSG_ERRQUEUE | MSG_DONTWAIT);
	int err;

	if (n < 0)
		return false;
	err = error_in(&m, &families[i]);
	if (err && n == sizeof(probe))
		absent(probe.id, err);
	return true;
}

void probe_collect(void (*absent)(uint32_t id, int err))
{
	for (size_t i = 0; i < ARRAY_SIZE(sockets); i++)
		while (sockets[i] >= 0 && cm_probe_collect(i, absent))
			;
}

void probe_forget(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(sockets); i++) {
		if (sockets[i] >= 0)
			close(sockets[i]);
		sockets[i] = -1;
	}
}
