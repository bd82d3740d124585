/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/udp_way.h"

#include <errno.h>
#include <linux/net_tstamp.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <string.h>
#include <unistd.h>

#include "base/high_fd.h"
#include "link/netif.h"
#include "link/tuned.h"
#include "link/udp_socket.h"

#define FRAME 256u /* bytes; more than the headers of an empty datagram */

void udp_way_init(struct udp *udp)
{
	for (uint32_t i = 0; i < UDP_WAYS; i++) {
		udp->way[i].tx.fd = -1;
		lock_set_rank(&udp->way[i].tx.lock, RANK_UDP_TX);
	}
}

static void close_way(struct udp_way *w)
{
	fd_close(&w->tx.fd);
	w->times = w->others = 0;
	atomic_store_explicit(&w->missed, 0, memory_order_relaxed);
}

void udp_way_close(struct udp *udp)
{
	for (uint32_t i = 0; i < UDP_WAYS; i++)
		close_way(&udp->way[i]);
}

uint32_t udp_way_queued(struct udp *udp)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < UDP_WAYS; i++) {
		struct udp_tx *tx = &udp->way[i].tx;

		lock_take(&tx->lock);
		if (tx->fd >= 0)
			most = max_of(most, udp_queued(tx->fd));
		lock_drop(&tx->lock);
	}
	return most;
}

/* ---- the identification ---- */

/* The identification of the datagram in this frame; -1: not of this socket. */
static int identification(const uint8_t *frame, ssize_t length, uint16_t port)
{
	struct ip ip;
	struct udphdr udp;
	ssize_t at = length - (ssize_t)(sizeof(ip) + sizeof(udp)); /* after the device's header, at the end */

	if (at < 0)
		return -1;
	memcpy(&ip, frame + at, sizeof(ip));
	memcpy(&udp, frame + at + sizeof(ip), sizeof(udp));
	if (ip.ip_v != 4 || ip.ip_hl != sizeof(ip) / 4 || ip.ip_p != IPPROTO_UDP || ntohs(udp.uh_sport) != port ||
	    ntohs(udp.uh_dport) != ROCE_PORT)
		return -1;
	return ntohs(ip.ip_id);
}

/* Sends an empty datagram; its identification, or -1. */
static int send_empty(int fd, uint16_t port)
{
	uint8_t frame[FRAME];
	_Alignas(struct cmsghdr) char control[256];
	struct iovec iov = {frame, sizeof(frame)};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	ssize_t n;

	if (send(fd, "", 0, MSG_DONTWAIT | MSG_NOSIGNAL) != 0)
		return -1;
	n = recvmsg(fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT);
	return n > 0 && !(m.msg_flags & MSG_TRUNC) ? identification(frame, n, port) : -1;
}

static bool set_stamps(int fd, int which)
{
	return !setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &which, sizeof(which));
}

/* The identification of the next datagram, or -1. */
static int udp_way_learn(int fd, uint16_t port)
{
	int first, second;

	if (!set_stamps(fd, SOF_TIMESTAMPING_TX_SCHED | SOF_TIMESTAMPING_SOFTWARE))
		return -1;
	first = send_empty(fd, port);
	second = first < 0 ? -1 : send_empty(fd, port);
	if (!set_stamps(fd, 0) || second < 0 || second != (uint16_t)(first + 1))
		return -1;
	return (uint16_t)(second + 1);
}

/* ---- opening ---- */

/* To a port of the range, or if all that are tried are taken, to any. */
static bool bind_to_range(const struct udp *udp, int fd, const union ibv_gid *to)
{
	uint32_t from = udp_hash(to, (uint16_t)(getpid() ^ fd)) >> 16;
	union udp_address here;
	socklen_t size;

	for (uint32_t i = 0; i < WAY_TRIES; i++) {
		size = udp_address_of(udp, &udp->link.gid, (uint16_t)(UDP_WAY_PORT + (from + i) % UDP_WAY_PORTS),
				      &here);
		if (!bind(fd, &here.any, size))
			return true;
	}
	size = udp_address_of(udp, &udp->link.gid, 0, &here);
	return !bind(fd, &here.any, size);
}

static int connect_to(const struct udp *udp, const union ibv_gid *to, uint16_t *port)
{
	union udp_address here, there;
	socklen_t size = udp_address_of(udp, to, ROCE_PORT, &there);
	int fd = high_fd(socket(there.any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP));

	if (fd < 0)
		return -1;
	udp_set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF);
	if (udp_set_sending(there.any.sa_family, fd) || !bind_to_range(udp, fd, to) || connect(fd, &there.any, size) ||
	    getsockname(fd, &here.any, &size)) {
		close(fd);
		return -1;
	}
	*port = ntohs(udp->is_ipv4 ? here.in.sin_port : here.in6.sin6_port);
	return fd;
}

static bool open_way(const struct udp *udp, struct udp_way *w) REQUIRES(w->tx.lock)
{
	uint16_t port;
	int fd = connect_to(udp, &w->to, &port), next = 0;

	if (fd < 0)
		return false;
	if (udp->is_ipv4)
		next = udp_way_learn(fd, port);
	if (next < 0) {
		close(fd);
		return false;
	}
	icrc_flow_init(&w->flow, udp->link.gid.raw, w->to.raw, port, ROCE_PORT);
	w->next = (uint16_t)next;
	w->tx.fd = fd;
	w->tx.own = w->tx.wanted = (struct udp_options){0};
	w->tx.times = 0;
	w->tx.own_refused = false;
	return true;
}

/* Whether the way is to that peer. If not, the peer takes it if it is unused, or its peer has had no datagram lately.
 */
static bool is_to(struct udp_way *w, const union ibv_gid *to) REQUIRES(w->tx.lock)
{
	if (likely(!memcmp(&w->to, to, sizeof(*to)))) {
		w->others = 0;
		return true;
	}
	if (++w->others >= WAY_AFTER || (w->tx.fd < 0 && !w->times)) {
		close_way(w);
		w->to = *to;
		w->failures = 0;
	}
	return false;
}

static bool udp_way_is_open(const struct udp *udp, struct udp_way *w) REQUIRES(w->tx.lock)
{
	if (likely(w->tx.fd >= 0))
		return true;
	if (w->failures >= WAY_FAILURES || ++w->times < WAY_AFTER << 2 * w->failures)
		return false;
	w->times = 0;
	if (!address_is_multicast(&w->to) && open_way(udp, w))
		return true;
	w->failures++;
	return false;
}

/* Several threads that send much to one peer would use the way and the link's own socket by turns, and packets of two
 * sockets may be reordered: such a peer has no way. */
static bool udp_way_is_crowded(struct udp_way *w) REQUIRES(w->tx.lock)
{
	if (likely(atomic_load_explicit(&w->missed, memory_order_relaxed) < WAY_CROWD))
		return false;
	close_way(w);
	w->failures = WAY_FAILURES;
	return true;
}

struct udp_way *udp_way_enter(struct udp *udp, const union ibv_gid *to)
{
	struct udp_way *w = &udp->way[udp_hash(to, 0) >> 28];

	static_assert(UDP_WAYS == 1 << (32 - 28), "the hash's top bits are the row");
	if (unlikely(!lock_try(&w->tx.lock))) {
		atomic_fetch_add_explicit(&w->missed, 1, memory_order_relaxed);
		return NULL;
	}
	if (unlikely(!is_to(w, to) || !udp_way_is_open(udp, w) || udp_way_is_crowded(w))) {
		lock_drop(&w->tx.lock);
		return NULL;
	}
	lock_hand_over(&w->tx.lock); /* to udp_way_leave() */
	return w;
}

void udp_way_leave(struct udp_way *w, int err)
{
	lock_take_over(&w->tx.lock);
	if (likely(!err)) {
		if (unlikely(++w->next % WAY_PERIOD == 0))
			atomic_store_explicit(&w->missed, 0, memory_order_relaxed);
	} else if (err != -EAGAIN && err != -EFAULT) { /* for these the kernel has used no number */
		close_way(w);
		w->failures++;
	}
	lock_drop(&w->tx.lock);
}
