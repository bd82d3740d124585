/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/udp_options.h"

#include <errno.h>
#include <linux/udp.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "link/tuned.h"

#define SEND_FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL)

static bool udp_options_same(struct udp_options a, struct udp_options b)
{
	return a.segment == b.segment && a.hops == b.hops && a.traffic_class == b.traffic_class;
}

/* ---- options of the socket ---- */

static bool set_int(const struct udp_tx *o, int level, int name, int value)
{
	return !setsockopt(o->fd, level, name, &value, sizeof(value));
}

/* 0 hops: the system's default, which is -1 here. */
static bool set_all(const struct udp *udp, const struct udp_tx *o, struct udp_options m)
{
	int hops = m.hops ? m.hops : -1;

	if (!set_int(o, IPPROTO_UDP, UDP_SEGMENT, m.segment))
		return false;
	if (udp->is_ipv4)
		return set_int(o, IPPROTO_IP, IP_TTL, hops) && set_int(o, IPPROTO_IP, IP_TOS, m.traffic_class);
	return set_int(o, IPPROTO_IPV6, IPV6_UNICAST_HOPS, hops) &&
	       set_int(o, IPPROTO_IPV6, IPV6_TCLASS, m.traffic_class);
}

/* Back to the first options; from now on all is in control messages. */
static void udp_options_give_up(const struct udp *udp, struct udp_tx *o) REQUIRES(o->lock)
{
	set_all(udp, o, (struct udp_options){0});
	o->own = (struct udp_options){0};
	o->own_refused = true;
}

static void udp_options_follow(const struct udp *udp, struct udp_tx *o, struct udp_options want) REQUIRES(o->lock)
{
	if (want.segment > OWN_BYTES)
		want.segment = 0;
	if (!udp_options_same(want, o->wanted))
		o->times = 0;
	o->wanted = want;
	if (++o->times < OWN_AFTER || o->own_refused || udp_options_same(want, o->own))
		return;
	if (set_all(udp, o, want))
		o->own = want;
	else
		udp_options_give_up(udp, o);
}

/* ---- control messages ---- */

struct control {
	size_t used;
	_Alignas(struct cmsghdr) char bytes[CMSG_SPACE(sizeof(uint16_t)) + 2 * CMSG_SPACE(sizeof(int))];
};

static void control_add(struct control *c, int level, int type, const void *value, size_t size)
{
	struct cmsghdr *cmsg = (struct cmsghdr *)(c->bytes + c->used);

	*cmsg = (struct cmsghdr){.cmsg_level = level, .cmsg_type = type, .cmsg_len = CMSG_LEN(size)};
	memset(CMSG_DATA(cmsg), 0, CMSG_SPACE(size) - CMSG_LEN(0)); /* the padding is sent to the kernel as well */
	memcpy(CMSG_DATA(cmsg), value, size);
	c->used += CMSG_SPACE(size);
}

/* What the socket's options (NULL: not known) lack. A single packet shorter than the option's segment is not cut. */
static void control_fill(struct control *c, const struct udp *udp, struct udp_options want, uint32_t bytes,
			 const struct udp_options *own)
{
	int hops = want.hops ? want.hops : UDP_HOP_DEFAULT, traffic_class = want.traffic_class;

	c->used = 0;
	if (!own || (want.segment != own->segment && (want.segment || bytes > own->segment)))
		control_add(c, IPPROTO_UDP, UDP_SEGMENT, &want.segment, sizeof(want.segment));
	if (!own || want.traffic_class != own->traffic_class)
		control_add(c, udp->is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6, udp->is_ipv4 ? IP_TOS : IPV6_TCLASS,
			    &traffic_class, sizeof(traffic_class));
	if (!own || want.hops != own->hops)
		control_add(c, udp->is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6, udp->is_ipv4 ? IP_TTL : IPV6_HOPLIMIT, &hops,
			    sizeof(hops));
}

/* ---- sending ---- */

/* sendto() of one piece costs less. Not by glibc's functions: they are cancellation points. */
static int udp_options_send_message(int fd, struct msghdr *m, const struct control *c)
{
	const struct iovec *iov = m->msg_iov;
	long n;

	m->msg_control = c->used ? (void *)c->bytes : NULL;
	m->msg_controllen = c->used;
	do
		n = m->msg_iovlen > 1 || c->used ? syscall(SYS_sendmsg, fd, m, SEND_FLAGS)
						 : syscall(SYS_sendto, fd, iov->iov_base, iov->iov_len, SEND_FLAGS,
							   m->msg_name, m->msg_namelen);
	while (unlikely(n < 0 && errno == EINTR));
	return n < 0 ? -errno : 0;
}

static int send_with_options(const struct udp *udp, int fd, struct msghdr *m, struct udp_options want, uint32_t bytes,
			     const struct udp_options *own)
{
	struct control control;

	control_fill(&control, udp, want, bytes, own);
	return udp_options_send_message(fd, m, &control);
}

bool udp_may_lack_segments(int err)
{
	return err == -EINVAL || err == -EIO || err == -ENOPROTOOPT || err == -EMSGSIZE || err == -EOPNOTSUPP;
}

int udp_transmit_by(const struct udp *udp, struct udp_tx *o, struct msghdr *m, struct udp_options want, uint32_t bytes)
{
	udp_options_follow(udp, o, want);
	return send_with_options(udp, o->fd, m, want, bytes, &o->own);
}

int udp_transmit(struct udp *udp, struct msghdr *m, struct udp_options want, uint32_t bytes)
{
	struct udp_tx *o = &udp->tx;
	int err;

	if (!lock_try(&o->lock))
		return send_with_options(udp, o->fd, m, want, bytes, NULL);
	err = udp_transmit_by(udp, o, m, want, bytes);
	/* with the option, a device that cannot cut packets refuses also those that need not be cut */
	if (unlikely(err && o->own.segment && want.segment <= o->own.segment && udp_may_lack_segments(err))) {
		udp_options_give_up(udp, o);
		err = send_with_options(udp, o->fd, m, want, bytes, &o->own);
	}
	lock_drop(&o->lock);
	return err;
}
