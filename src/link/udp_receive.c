/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/udp_receive.h"

#include <errno.h>
#include <linux/udp.h>
#include <netinet/ip.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/hooks.h"
#include "base/tsan.h"
#include "base/address.h"
#include "link/tuned.h"
#include "wire/headers.h"

/* The system calls themselves: glibc's functions are cancellation points, which costs 20 ns each time. */
static ssize_t udp_recvmsg(int fd, struct msghdr *m, int flags)
{
	return syscall(SYS_recvmsg, fd, m, flags);
}

static ssize_t udp_recvfrom(int fd, void *bytes, size_t size, int flags, struct sockaddr *from, socklen_t *length)
{
	return syscall(SYS_recvfrom, fd, bytes, size, flags, from, length);
}

/* The destination QPN in the BTH. */
#define QPN_AT	  5u
#define QPN_BYTES 3u

/* What the kernel reports with a datagram. */
struct note {
	uint32_t segment;      /* bytes of each packet but the last; 0: not reported */
	uint8_t traffic_class; /* 0 if not asked for */
};

static int cmsg_int(const struct cmsghdr *c)
{
	int value = 0;

	memcpy(&value, CMSG_DATA(c), min_of(sizeof(value), c->cmsg_len - CMSG_LEN(0)));
	return value;
}

/* The value is a byte or an int, by kernel and family. */
static uint8_t cmsg_traffic_class(const struct cmsghdr *c)
{
	return c->cmsg_len == CMSG_LEN(1) ? *CMSG_DATA(c) : cmsg_int(c);
}

static struct note read_note(struct msghdr *m, uint32_t bytes)
{
	struct note note = {.segment = bytes};

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO)
			note.segment = cmsg_int(c);
		else if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) ||
			 (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS))
			note.traffic_class = cmsg_traffic_class(c);
	}
	if (unlikely(note.segment == 0))
		note.segment = bytes;
	return note;
}

/* The report of congestion marks costs 0.15 us for each datagram, and most networks have none. If no datagram had one,
 * the report is off, but for one datagram from time to time. */
static void watch_marks(struct udp *udp, uint8_t ecn)
{
	if (ecn != IPTOS_ECN_NOT_ECT)
		udp->looks = 0;
	else if (++udp->looks > (udp->sees_marks ? MARK_LOOK : MARK_REST)) {
		int on = !udp->sees_marks;

		setsockopt(udp->link.socket, udp->is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6,
			   udp->is_ipv4 ? IP_RECVTOS : IPV6_RECVTCLASS, &on, sizeof(on));
		udp->sees_marks = on;
		udp->looks = 0;
	}
}

static void read_from(const struct udp *udp, union ibv_gid *gid, uint16_t *port)
{
	gid_set(gid->raw, udp->is_ipv4, udp->is_ipv4 ? (const void *)&udp->from.in.sin_addr : &udp->from.in6.sin6_addr);
	*port = ntohs(udp->from.in.sin_port); /* at the same offset in both */
}

static bool is_of_uroce(uint16_t port)
{
	return port == ROCE_PORT || port - UDP_WAY_PORT < UDP_WAY_PORTS;
}

/* Whether the datagram is from the same address and port as the last one. */
static bool is_from_last(const struct udp *udp)
{
	static_assert(offsetof(struct sockaddr_in, sin_zero) == 8 && offsetof(struct sockaddr_in6, sin6_scope_id) == 24,
		      "family, port and address come first");
	return !(udp->is_ipv4 ? memcmp(&udp->from, &udp->last_from, 8) : memcmp(&udp->from, &udp->last_from, 24));
}

/* The row of the sender; a new sender replaces the one that had the row. */
static struct udp_source *look_up_source(struct udp *udp)
{
	union ibv_gid gid;
	uint16_t port;
	struct udp_source *s;

	read_from(udp, &gid, &port);
	s = &udp->source[udp_hash(&gid, port) >> 26];
	static_assert(UDP_SOURCES == 1 << (32 - 26), "the hash's top bits are the row");
	if (unlikely(s->port != port || memcmp(&s->gid, &gid, sizeof(gid)))) {
		*s = (struct udp_source){
			.gid = gid, .port = port, .is_uroce = is_of_uroce(port), .zero = true, .known = true};
		icrc_flow_init(&s->flow, gid.raw, udp->link.gid.raw, port, ROCE_PORT);
	}
	udp->last = s;
	udp->last_from = udp->from;
	return s;
}

static inline struct udp_source *find_source(struct udp *udp)
{
	return likely(udp->last && is_from_last(udp)) ? udp->last : look_up_source(udp);
}

/* The expected identification of the next packet; `number`: within its train. */
static uint16_t expected(const struct udp_source *s, uint32_t number)
{
	if (number)
		return s->next;
	return s->zero ? 0 : s->steps ? s->start + 1 : s->next;
}

static void seen(struct udp_source *s, uint32_t number, uint16_t id)
{
	if (!number) {
		s->known = id == expected(s, 0);
		if (unlikely(!s->known)) {
			s->zero = id == 0;
			s->steps = id == (uint16_t)(s->start + 1) || id != s->next;
		}
		s->start = id;
	}
	s->next = id + 1;
}

/* icrc_check() of a packet that is probably as long as the last one. */
static int check_again(struct udp_source *s, const uint8_t *bytes, uint32_t length, uint16_t guess)
{
	if (unlikely(length != s->before_length)) {
		if (length < ICRC_SCAN_LEAST)
			return -EBADMSG;
		s->before_length = length;
		s->before = icrc_before(&s->flow, length);
	}
	return icrc_check_from(&s->flow, s->before, bytes, length, guess);
}

/* `number`: within its train. False: the ICRC is wrong. */
static bool check(struct udp *udp, struct udp_source *s, uint32_t number, const uint8_t *bytes, uint32_t length)
{
	int id = check_again(s, bytes, length, expected(s, number));

	if (unlikely(id < 0)) {
		udp_count(&udp->counters.rx_icrc, 1);
		return false;
	}
	seen(s, number, id);
	return true;
}

/* Whether the datagram begins with a packet of this length. */
static bool begins(const struct udp *udp, const struct udp_source *s, uint32_t length)
{
	return icrc_is_right(&s->flow, udp->buffer, length, expected(s, 0));
}

/* Whether it begins with two packets of this length, whose identifications are not the expected ones: a packet was
 * lost, or was sent by another socket. */
static bool begins_anew(const struct udp *udp, const struct udp_source *s, uint32_t length, uint32_t total)
{
	int id = length < total ? icrc_check(&s->flow, udp->buffer, length, 0) : -1;

	return id >= 0 &&
	       icrc_is_right(&s->flow, udp->buffer + length, min_of(length, total - length), (uint16_t)(id + 1));
}

/* Whether a packet with the P_Key of the first one may begin there. */
static bool may_follow(const uint8_t *first, const uint8_t *next)
{
	const struct bth *a = (const void *)first, *b = (const void *)next;

	return opcode_info[b->opcode].name && !(b->flags & BTH_VERSION) && a->pkey.raw == b->pkey.raw;
}

/* begins_anew() for the length that the scan is at. */
static bool scan_begins_anew(const struct udp *udp, const struct icrc_scan *scan, uint32_t difference, uint16_t guess,
			     uint32_t total)
{
	int id = icrc_identification(difference, scan->length, guess);

	return id >= 0 && icrc_is_right(scan->flow, udp->buffer + scan->length,
					min_of(scan->length, total - scan->length), (uint16_t)(id + 1));
}

/* Tries all lengths in one pass. The length of a first packet with the expected identification, or 0; *anew: the length
 * with another identification, or 0. At most ANEW_TRIES of these are tried, as each costs a CRC of the next packet. */
static uint32_t scan_lengths(const struct udp *udp, const struct udp_source *s, uint32_t total, uint32_t *anew)
{
	uint32_t most = min_of(total, ICRC_SCAN_MOST), tries = 0;
	uint16_t guess = expected(s, 0);
	struct icrc_scan scan;

	*anew = 0;
	if (total < ICRC_SCAN_LEAST)
		return 0;
	icrc_scan_start(&scan, &s->flow, udp->buffer, guess);
	while (scan.length + 4 <= most) {
		uint32_t difference = icrc_scan_next(&scan);

		if (unlikely(!difference))
			return scan.length;
		if (!*anew && s->flow.is_ipv4 && tries < ANEW_TRIES && total - scan.length >= ICRC_SCAN_LEAST &&
		    may_follow(udp->buffer, udp->buffer + scan.length)) {
			tries++;
			if (scan_begins_anew(udp, &scan, difference, guess, total))
				*anew = scan.length;
		}
	}
	return 0;
}

/* Bytes of each packet of a datagram but the last, by ICRCs: the length of the last time, all, or a scan. *known: the
 * first packet has the expected identification. Bytes that are no train cost a bounded number of CRCs. */
static uint32_t measure(const struct udp *udp, const struct udp_source *s, uint32_t total, bool *known)
{
	uint32_t last = s->segment[total > SMALL_BYTES], found, anew;

	*known = true;
	if (likely(last && last <= total && begins(udp, s, last)))
		return last;
	if (total <= ICRC_SCAN_MOST && begins(udp, s, total))
		return total;
	*known = false;
	if (last && begins_anew(udp, s, last, total))
		return last;
	found = scan_lengths(udp, s, total, &anew);
	*known = found;
	return found ?: anew ?: total;
}

/* Counts consecutive datagrams that are small or `alike`, with expected identifications. */
static void watch_size(struct udp *udp, struct udp_source *s, uint32_t total, bool alike)
{
	if (unlikely(!s->known)) {
		udp->calm = ++s->misses >= UNKNOWN_MAX ? -TELL_AGAIN : min_of(udp->calm, 0);
		s->misses %= UNKNOWN_MAX;
	} else if (total > SMALL_BYTES && !alike) {
		udp->calm = min_of(udp->calm, 0);
	} else if (udp->calm < CALM && ++udp->calm == CALM) {
		s->misses = 0;
	}
}

static bool is_request(const uint8_t *bytes)
{
	return opcode_info[bytes[0]].flags & IS_REQUEST;
}

/* The offset of the last packet, if it is an ACK to the QP whose requests are before it; else 0. */
static uint32_t last_ack(const struct udp *udp, uint32_t segment, uint32_t total)
{
	uint32_t last = (total - 1) / segment * segment;
	const uint8_t *ack = udp->buffer + last;

	if (likely(!last) || (ack[0] != OP_ACKNOWLEDGE && ack[0] != (TRANSPORT_XRC | OP_ACKNOWLEDGE)))
		return 0;
	for (uint32_t at = 0; at < last; at += segment)
		if (!is_request(udp->buffer + at) || memcmp(udp->buffer + at + QPN_AT, ack + QPN_AT, QPN_BYTES))
			return 0;
	return last;
}

/* The last packet that was parsed. */
struct parsed {
	struct packet packet;
	const uint8_t *bytes; /* NULL: none */
	uint32_t length;
};

/* Delivers a packet with a valid ICRC. One that goes on like the last one is not parsed again. */
static void parse_and_deliver(struct udp *udp, const struct udp_source *s, struct note note, uint32_t at,
			      uint32_t length, struct parsed *last, link_deliver *deliver, void *arg)
{
	const uint8_t *bytes = udp->buffer + at;
	struct packet *p = &last->packet;

	/* a hook may have changed the last packet */
	if (last->bytes && !hooks_any() && length == last->length && packet_parse_next(p, last->bytes, bytes)) {
		last->bytes = bytes;
	} else {
		last->bytes = NULL;
		if (unlikely(packet_parse(p, bytes, length - ICRC_BYTES))) {
			udp_count(&udp->counters.rx_malformed, 1);
			return;
		}
		p->congestion = (note.traffic_class & IPTOS_ECN_MASK) == IPTOS_ECN_CE;
		p->traffic_class = note.traffic_class;
		p->is_uroce = s->is_uroce;
		p->to = udp->link.gid.raw;
		last->bytes = bytes;
		last->length = length;
	}
	tsan_acquire(tsan_key(p->dest_qpn));
	deliver(arg, p, &s->gid);
}

/* Adapters send an ACK before the receiving program can answer, and programs rely on it: their SEND completes before
 * the answer arrives. In a train the ACK is last, since only the last packet may be smaller than the others; so it is
 * delivered first. Its identification, or -EBADMSG. */
static int deliver_ack(struct udp *udp, const struct udp_source *s, struct note note, uint32_t at, uint32_t total,
		       link_deliver *deliver, void *arg)
{
	struct parsed none;
	int id = icrc_check(&s->flow, udp->buffer + at, total - at, expected(s, 0) + at / note.segment);

	none.bytes = NULL;
	if (likely(id >= 0))
		parse_and_deliver(udp, s, note, at, total - at, &none, deliver, arg);
	else
		udp_count(&udp->counters.rx_icrc, 1);
	return id;
}

/* Returns the number of packets. */
static uint32_t split(struct udp *udp, struct note note, uint32_t total, link_deliver *deliver, void *arg)
{
	struct udp_source *s = find_source(udp);
	uint32_t n = 0, at = 0, ack;
	struct parsed last;
	bool checked = false, alike;
	int ack_id = 0;

	last.bytes = NULL;
	if (!note.segment)
		note.segment = measure(udp, s, total, &checked);
	alike = note.segment == s->segment[total > SMALL_BYTES] && note.segment <= SMALL_PACKET;
	s->segment[total > SMALL_BYTES] = note.segment;
	ack = last_ack(udp, note.segment, total);
	if (ack)
		ack_id = deliver_ack(udp, s, note, ack, total, deliver, arg);
	for (; at < total; at += note.segment, n++) {
		uint32_t length = min_of(note.segment, total - at);

		if (ack && at == ack) {
			if (likely(ack_id >= 0))
				seen(s, n, (uint16_t)ack_id);
			continue;
		}
		if (checked && n == 0)
			seen(s, 0, expected(s, 0));
		else if (!check(udp, s, n, udp->buffer + at, length))
			continue;
		parse_and_deliver(udp, s, note, at, length, &last, deliver, arg);
	}
	watch_size(udp, s, total, alike);
	udp_count(&udp->counters.rx_trains, 1);
	udp_count(&udp->counters.rx_packets, n);
	udp_count(&udp->counters.rx_bytes, total);
	return n;
}

uint32_t udp_take(struct udp *udp, const struct udp_datagram *d, link_deliver *deliver, void *arg)
{
	struct udp_source *s = find_source(udp);

	s->zero = s->steps = false;
	s->next = d->identification;
	return split(udp, (struct note){.traffic_class = d->traffic_class}, d->bytes, deliver, arg);
}

static ssize_t receive_told(struct udp *udp, struct note *note)
{
	ssize_t n;

	udp->message.msg_namelen = sizeof(udp->from);
	udp->message.msg_controllen = sizeof(udp->control);
	n = udp_recvmsg(udp->link.socket, &udp->message, MSG_DONTWAIT);
	if (n > 0)
		*note = read_note(&udp->message, n);
	return n;
}

static ssize_t receive_plain(struct udp *udp, struct note *note)
{
	socklen_t size = sizeof(udp->from);

	*note = (struct note){0};
	return udp_recvfrom(udp->link.socket, udp->buffer, sizeof(udp->buffer), MSG_DONTWAIT, &udp->from.any, &size);
}

uint32_t udp_receive(struct link *link, uint32_t batch, link_deliver *deliver, void *arg)
{
	struct udp *udp = container_of(link, struct udp, link);
	uint32_t seen = 0;

	while (seen < batch) {
		struct note note;
		ssize_t n =
			udp->calm == CALM && !udp->sees_marks ? receive_plain(udp, &note) : receive_told(udp, &note);

		if (n < 0) {
			if (unlikely(errno != EAGAIN && errno != EINTR))
				udp_count(&udp->counters.rx_errors, 1);
			break;
		}
		if (unlikely(n == 0)) {
			seen++;
			continue;
		}
		watch_marks(udp, note.traffic_class & IPTOS_ECN_MASK);
		seen += split(udp, note, n, deliver, arg);
	}
	return seen;
}
