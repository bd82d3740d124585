// SPDX-License-Identifier: BSD-2-Clause
// The udp link: what is sent at one end arrives at the other, in few system calls.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/if_ether.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "link/udp.h"
#include "link/udp_way.h"
#include "loop/netns.h"

enum { PACKETS = 200, BIGGEST = 4096, GARBAGE_PORT = 5000 };

static uint8_t memory[PACKETS * (BIGGEST + 1)];

struct got {
	struct packet packet;
	uint8_t payload[BIGGEST];
	union ibv_gid from;
};

struct end {
	struct link *link;
	uint32_t count;
	struct got got[PACKETS];
};

static struct end a, b;

static union ibv_gid gid(const char *text)
{
	union ibv_gid g = {0};

	if (inet_pton(AF_INET6, text, g.raw) == 1)
		return g;
	g.raw[10] = g.raw[11] = 0xff;
	assert_int_equal(inet_pton(AF_INET, text, g.raw + 12), 1);
	return g;
}

static void open_pair(const char *at_a, const char *at_b)
{
	union ibv_gid ga = gid(at_a), gb = gid(at_b);

	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	assert_int_equal(link_udp_open(&ga, &a.link), 0);
	if (!strcmp(at_a, at_b))
		b.link = a.link;
	else
		assert_int_equal(link_udp_open(&gb, &b.link), 0);
}

static void close_pair(void)
{
	if (b.link != a.link)
		b.link->ops->close(b.link);
	a.link->ops->close(a.link);
}

static bool deliver(void *arg, struct packet *p, const union ibv_gid *from)
{
	struct end *e = arg;
	struct got *g = &e->got[e->count++];

	assert_in_range(e->count, 1, PACKETS);
	assert_in_range(p->length, 0, BIGGEST);
	g->packet = *p;
	memcpy(g->payload, p->payload, p->length);
	g->from = *from;
	return true;
}

/* Good or bad; not empty ones, which are no packets, and come before the first packet of a way (link/udp_way.c). */
static uint64_t seen_by(const struct end *e)
{
	const struct udp_counters *c = link_udp_counters(e->link);

	return e->count + c->rx_icrc + c->rx_malformed;
}

/* Until `count` packets have been seen. */
static void receive(struct end *e, uint32_t count)
{
	struct pollfd p = {.fd = e->link->fd, .events = POLLIN};
	uint64_t all = seen_by(e) + count;

	while (seen_by(e) < all) {
		assert_int_equal(poll(&p, 1, -1), 1);
		e->link->ops->receive(e->link, (uint32_t)(all - seen_by(e)), deliver, e);
	}
	assert_int_equal(e->link->ops->receive(e->link, 1, deliver, e), 0);
}

/* `pieces` per payload, as nearly equal as can be. */
struct tx_batch {
	struct packet packet[PACKETS];
	struct iovec iov[PACKETS][4];
	struct link_tx tx[PACKETS];
	uint32_t count;
};
static struct tx_batch batch;

static void add(uint8_t opcode, uint32_t length, uint32_t pieces, const union ibv_gid *to)
{
	uint32_t n = batch.count++, done = 0;
	struct packet *p = &batch.packet[n];

	*p = (struct packet){.opcode = opcode,
			     .pkey = 0xffff,
			     .dest_qpn = 0x120000 + n,
			     .psn = psn(n),
			     .ack_request = n & 1,
			     .length = length,
			     .va = n,
			     .dma_length = length};
	for (uint32_t i = 0; i < pieces; i++) {
		uint32_t bytes = i + 1 == pieces ? length - done : length / pieces;

		batch.iov[n][i] = (struct iovec){memory + n * (BIGGEST + 1) + done, bytes};
		done += bytes;
	}
	batch.tx[n] = (struct link_tx){.packet = p, .iov = batch.iov[n], .iovs = pieces, .dgid = to, .hop_limit = 64};
}

static void send_batch(void)
{
	assert_int_equal(a.link->ops->send(a.link, batch.tx, batch.count), batch.count);
}

static void check_batch(void)
{
	assert_int_equal(b.count, batch.count);
	for (uint32_t i = 0; i < batch.count; i++) {
		const struct packet *sent = &batch.packet[i], *got = &b.got[i].packet;

		assert_int_equal(got->opcode, sent->opcode);
		assert_int_equal(got->psn.v, sent->psn.v);
		assert_int_equal(got->dest_qpn, sent->dest_qpn);
		assert_int_equal(got->ack_request, sent->ack_request);
		assert_int_equal(got->length, sent->length);
		assert_memory_equal(b.got[i].payload, memory + i * (BIGGEST + 1), sent->length);
		assert_memory_equal(&b.got[i].from, &a.link->gid, sizeof(union ibv_gid));
	}
	assert_int_equal(link_udp_counters(b.link)->rx_icrc, 0);
	assert_int_equal(link_udp_counters(b.link)->rx_malformed, 0);
}

static const uint32_t sizes[] = {0,   1,   2,	3,   4,	   5,	 63,   64,   65,   256,
				 511, 512, 513, 514, 1023, 1024, 2048, 4093, 4095, 4096};
static const struct {
	const char *a, *b;
} places[] = {{"127.0.0.1", "127.0.0.2"}, {"127.0.0.1", "127.0.0.1"}, {"::1", "::1"}};
static size_t place_count; /* without the last if there is no IPv6 */

static void each_size_arrives_whole(void **state)
{
	for (size_t k = 0; k < place_count; k++) {
		for (uint32_t pieces = 1; pieces <= 4; pieces++) {
			open_pair(places[k].a, places[k].b);
			batch.count = 0;
			for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
				add(OP_SEND_ONLY, sizes[i], pieces, &b.link->gid);
				add(OP_READ_RESPONSE_ONLY, sizes[i], pieces, &b.link->gid);
				add(OP_WRITE_ONLY, sizes[i], pieces, &b.link->gid);
			}
			send_batch();
			receive(&b, batch.count);
			check_batch();
			close_pair();
		}
	}
}

struct train {
	uint32_t count, length;	 /* packets, bytes of payload */
	uint32_t last;		 /* of one packet more; 0: none */
	uint32_t trains, before; /* that it takes now, and with a kernel before 6.9 */
};
static const struct train trains[] = {
	{1, 64, 0, 1, 1},    {2, 64, 0, 1, 1},	  {64, 64, 0, 1, 1},   {65, 64, 0, 1, 2},   {128, 64, 0, 1, 2},
	{128, 64, 4, 2, 3},  {100, 64, 4, 1, 2},  {10, 64, 32, 1, 1},  {10, 64, 68, 2, 2},  {15, 4096, 0, 1, 1},
	{16, 4096, 0, 2, 2}, {14, 4096, 1, 1, 1}, {15, 4096, 1, 1, 1}, {60, 1024, 0, 1, 1}, {63, 1024, 0, 2, 2},
	{3, 513, 512, 1, 1}, {3, 512, 513, 2, 2},
};

/* Whether the kernel takes trains of more than 64 packets. */
static bool kernel_takes_long_trains(void)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	char bytes[65] = {0};
	int fd = socket(AF_INET, SOCK_DGRAM, 0), one = 1;
	bool takes;

	assert_int_equal(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &one, sizeof(one)), 0);
	takes = sendto(fd, bytes, sizeof(bytes), 0, (struct sockaddr *)&to, sizeof(to)) == sizeof(bytes);
	close(fd);
	return takes;
}

static void check_trains(bool refuse_long)
{
	bool before = refuse_long || !kernel_takes_long_trains();

	for (size_t k = 0; k < place_count; k++) {
		for (size_t i = 0; i < ARRAY_SIZE(trains); i++) {
			const struct train *t = &trains[i];

			open_pair(places[k].a, places[k].b);
			if (refuse_long)
				link_udp_refuse_long_trains(a.link);
			batch.count = 0;
			for (uint32_t n = 0; n < t->count; n++)
				add(OP_SEND_ONLY, t->length, 1, &b.link->gid);
			if (t->last)
				add(OP_SEND_ONLY, t->last, 1, &b.link->gid);
			send_batch();
			receive(&b, batch.count);
			check_batch();
			assert_int_equal(link_udp_counters(a.link)->tx_trains, before ? t->before : t->trains);
			assert_int_equal(link_udp_counters(b.link)->rx_trains, before ? t->before : t->trains);
			close_pair();
		}
	}
}

static void equal_packets_travel_together(void **state)
{
	check_trains(false);
}

static void trains_are_shorter_where_the_kernel_takes_no_long_ones(void **state)
{
	check_trains(true);
}

/* rows of {opcodes of a train, all of whose packets but the last are as long as it takes; in which order they are
 * delivered} */
static void an_ack_is_delivered_before_the_requests_that_it_travels_with(void **state)
{
	static const struct {
		uint8_t opcode[3];
		uint32_t qpn; /* of the last */
		uint32_t order[3];
	} rows[] = {
		{{OP_SEND_ONLY, OP_SEND_ONLY, OP_ACKNOWLEDGE}, 7, {2, 0, 1}},
		{{OP_READ_RESPONSE_MIDDLE, OP_READ_RESPONSE_MIDDLE, OP_ACKNOWLEDGE}, 7, {0, 1, 2}},
		{{OP_SEND_ONLY, OP_READ_RESPONSE_MIDDLE, OP_ACKNOWLEDGE}, 7, {0, 1, 2}},
		{{OP_SEND_ONLY, OP_SEND_ONLY, OP_ACKNOWLEDGE}, 8, {0, 1, 2}},
	};
	struct end *e = &b;

	open_pair("127.0.0.1", "127.0.0.2");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		batch.count = e->count = 0;
		for (uint32_t k = 0; k < 3; k++) {
			add(rows[i].opcode[k], k < 2 ? 64 : 0, k < 2, &b.link->gid);
			batch.packet[k].dest_qpn = k < 2 ? 7 : rows[i].qpn;
		}
		send_batch();
		receive(e, 3);
		assert_int_equal(e->count, 3);
		for (uint32_t k = 0; k < 3; k++)
			assert_int_equal(e->got[k].packet.psn.v, rows[i].order[k]);
	}
	assert_int_equal(link_udp_counters(b.link)->rx_trains, ARRAY_SIZE(rows));
	assert_int_equal(link_udp_counters(b.link)->rx_icrc, 0);
	close_pair();
}

/* A payload that stands in the link's memory already, by itself and with an ACK behind it: by either socket, and by a
 * kernel that makes no trains. */
static void what_is_placed_arrives(void **state)
{
	for (size_t k = 0; k < place_count * 2; k++) {
		bool single = k >= place_count;

		open_pair(places[k % place_count].a, places[k % place_count].b);
		if (single)
			link_udp_refuse_segments(a.link);
		for (uint32_t i = 0; i < 200; i++) {
			uint32_t length = i % 50 ? 64 : 512, most;

			batch.count = b.count = 0;
			add(OP_SEND_ONLY, length, 0, &b.link->gid);
			batch.tx[0].placed = memcpy((char *)a.link->ops->room(a.link, &most) +
							    opcode_info[OP_SEND_ONLY].header_bytes,
						    memory, length);
			if (i % 3)
				add(OP_ACKNOWLEDGE, 0, 0, &b.link->gid);
			for (uint32_t n = 0; n < batch.count; n++)
				batch.packet[n].dest_qpn = 0x120007; /* not the same QP's: so the order stays */
			batch.packet[0].dest_qpn++;
			send_batch();
			receive(&b, batch.count);
			check_batch();
		}
		assert_int_equal(link_udp_counters(a.link)->tx_trains, single ? 200 + 133 : 200);
		close_pair();
	}
}

/* A list of placed payloads is one train; the peer gets all of it also where the kernel makes no trains, or short ones,
 * so that packets leave from other places than they were put in. */
static void a_placed_list_arrives(void **state)
{
	static const uint32_t lengths[] = {64, 5, 512, 62};
	static void (*const refuse[])(struct link * link) = {NULL, link_udp_refuse_segments,
							     link_udp_refuse_long_trains};

	for (size_t k = 0; k < place_count * ARRAY_SIZE(refuse); k++) {
		open_pair(places[k % place_count].a, places[k % place_count].b);
		if (refuse[k / place_count])
			refuse[k / place_count](a.link);
		for (uint32_t i = 0; i < 40; i++) {
			uint32_t length = lengths[i % 4], count = length == 512 ? 40 : 70, most;
			char *at = (char *)a.link->ops->room(a.link, &most) + opcode_info[OP_SEND_ONLY].header_bytes;

			batch.count = b.count = 0;
			for (uint32_t n = 0; n < count; n++) {
				add(OP_SEND_ONLY, length, 0, &b.link->gid);
				batch.packet[n].solicited = n % 3 == 0;
				batch.packet[n].dest_qpn = 0x120008;
				batch.tx[n].placed = memcpy(at, memory + n * (BIGGEST + 1), length);
				at += packet_bytes(batch.packet);
			}
			if (i % 3) {
				add(OP_ACKNOWLEDGE, 0, 0, &b.link->gid);
				batch.packet[count].dest_qpn = 0x120007; /* not the same QP's: so the order stays */
			}
			send_batch();
			receive(&b, batch.count);
			check_batch();
		}
		close_pair();
	}
}

/* After many alike the receiver is not told any more where packets end. */
static void long_trains_of_small_packets_are_split_whatever_comes_between(void **state)
{
	static const uint32_t between[] = {64, 60, 128, 1, 512, 4096};

	for (size_t k = 0; k < place_count; k++) {
		open_pair(places[k].a, places[k].b);
		for (uint32_t i = 0; i < ARRAY_SIZE(between) * 30; i++) {
			uint32_t length = i % 30 < 25 ? 64 : between[i / 30], count = length > 512 ? 15 : 60;

			batch.count = b.count = 0;
			for (uint32_t n = 0; n < count; n++)
				add(OP_SEND_ONLY, n + 1 < count || i % 2 ? length : 1, 1, &b.link->gid);
			send_batch();
			receive(&b, batch.count);
			check_batch();
		}
		assert_int_equal(link_udp_counters(b.link)->rx_icrc, 0);
		close_pair();
	}
}

static void without_segments_each_packet_travels_alone(void **state)
{
	for (size_t k = 0; k < place_count; k++) {
		open_pair(places[k].a, places[k].b);
		link_udp_refuse_segments(a.link);
		batch.count = 0;
		for (uint32_t n = 0; n < 20; n++)
			add(OP_SEND_ONLY, n < 10 ? 64 : 1024, 1, &b.link->gid);
		send_batch();
		receive(&b, batch.count);
		check_batch();
		assert_int_equal(link_udp_counters(a.link)->tx_trains, 20);
		close_pair();
	}
}

static void trains_end_where_the_way_changes(void **state)
{
	open_pair("127.0.0.1", "127.0.0.2");
	batch.count = 0;
	for (uint32_t n = 0; n < 6; n++) {
		add(OP_SEND_ONLY, 64, 1, &b.link->gid);
		batch.tx[n].traffic_class = n < 3 ? 0 : 0x20;
		batch.tx[n].hop_limit = n < 5 ? 0 : 7;
	}
	for (uint32_t n = 0; n < 4; n++) { /* on one host all of a train arrives where its first packet is for */
		add(OP_SEND_ONLY, 64, 1, &b.link->gid);
		batch.packet[6 + n].dest_qpn = n < 2 ? 0x50001 + n : 0x60001;
	}
	send_batch();
	receive(&b, batch.count);
	check_batch();
	assert_int_equal(link_udp_counters(a.link)->tx_trains, 5);
	close_pair();
}

static void packets_too_long_are_lost_and_others_still_travel_together(void **state)
{
	netns_lo_mtu(1500);
	open_pair("127.0.0.1", "127.0.0.2");
	batch.count = 0;
	for (uint32_t n = 0; n < 4; n++)
		add(OP_SEND_ONLY, 4096, 1, &b.link->gid);
	send_batch();
	assert_int_equal(link_udp_counters(a.link)->tx_refused, 4);
	batch.count = 0;
	for (uint32_t n = 0; n < 4; n++)
		add(OP_SEND_ONLY, 1024, 1, &b.link->gid);
	send_batch();
	receive(&b, 4);
	check_batch();
	assert_int_equal(link_udp_counters(a.link)->tx_trains, 1);
	close_pair();
	netns_lo_mtu(65536);
}

static void a_way_that_leads_nowhere_is_a_loss(void **state)
{
	union ibv_gid nowhere = gid("192.0.2.1");

	open_pair("127.0.0.1", "127.0.0.2");
	batch.count = 0;
	add(OP_SEND_ONLY, 64, 1, &nowhere);
	add(OP_SEND_ONLY, 64, 1, &b.link->gid);
	send_batch();
	receive(&b, 1);
	assert_int_equal(b.count, 1);
	assert_int_equal(link_udp_counters(a.link)->tx_refused, 1);
	close_pair();
}

/* A socket that is nobody's link. Its port is always the same: of 65536 packets that are garbage one looks right, as
 * nobody knows the identification that the ICRC covers. From this port none of those below does. */
static int open_stranger(void)
{
	struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(GARBAGE_PORT)};
	int s = socket(AF_INET, SOCK_DGRAM, 0);

	assert_int_equal(bind(s, (struct sockaddr *)&here, sizeof(here)), 0);
	return s;
}

static void garbage_is_counted_and_dropped(void **state)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(ROCE_PORT)};
	uint8_t bytes[64] = {OP_SEND_ONLY, 0, 0xff, 0xff};
	int s = open_stranger();

	to.sin_addr.s_addr = inet_addr("127.0.0.2");
	open_pair("127.0.0.1", "127.0.0.2");
	for (size_t n = 0; n <= sizeof(bytes); n++)
		assert_int_equal(sendto(s, bytes, n, 0, (struct sockaddr *)&to, sizeof(to)), n);
	receive(&b, sizeof(bytes));
	assert_int_equal(b.count, 0);
	assert_int_equal(link_udp_counters(b.link)->rx_icrc, sizeof(bytes)); /* the empty one is no packet */
	close(s);
	close_pair();
}

static void congestion_marks_are_seen(void **state)
{
	for (size_t k = 0; k < place_count; k++) {
		open_pair(places[k].a, places[k].b);
		for (uint32_t i = 0; i < 2; i++) {
			batch.count = b.count = 0;
			add(OP_SEND_ONLY, 64, 1, &b.link->gid);
			batch.tx[0].traffic_class = i ? 3 : 2; /* CE, ECT(0) */
			send_batch();
			receive(&b, 1);
			assert_int_equal(b.got[0].packet.congestion, i);
		}
		close_pair();
	}
}

static void exchange(void)
{
	b.count = 0;
	send_batch();
	receive(&b, batch.count);
	check_batch();
}

/* Small datagrams in a row change how the link works, at both ends: what comes then is as whole as ever. */
static void small_datagrams_in_a_row_spoil_nothing(void **state)
{
	for (size_t k = 0; k < place_count; k++) {
		open_pair(places[k].a, places[k].b);
		for (uint32_t round = 0; round < 4; round++) {
			uint32_t length = 60 + 52 * round;

			for (uint32_t n = 0; n < 100; n++) {
				batch.count = 0;
				add(OP_SEND_ONLY, length, 1, &b.link->gid);
				add(OP_ACKNOWLEDGE, 0, 1, &b.link->gid);
				batch.tx[0].hop_limit = batch.tx[1].hop_limit = 255;
				exchange();
			}
			batch.count = 0;
			switch (round) {
			case 0:
				add(OP_SEND_ONLY, 4096, 1, &b.link->gid);
				break;
			case 1:
				for (uint32_t n = 0; n < 14; n++)
					add(OP_WRITE_MIDDLE, 4096, 1, &b.link->gid);
				break;
			case 2:
				for (uint32_t n = 0; n < 5; n++)
					add(OP_SEND_ONLY, 4 * n, 1, &b.link->gid);
				break;
			case 3:
				add(OP_SEND_ONLY, 1200, 2, &b.link->gid);
				add(OP_SEND_ONLY, 1200, 2, &b.link->gid);
				add(OP_SEND_ONLY, 7, 1, &b.link->gid);
				break;
			}
			exchange();
		}
		assert_int_equal(link_udp_counters(b.link)->rx_errors, 0);
		close_pair();
	}
}

/* What the loopback carries, with its headers. */
static int open_capture(void)
{
	int s = socket(AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK, htons(ETH_P_IP));

	assert_return_code(s, errno);
	return s;
}

/* Checks the packets of one datagram, as receivers do that see the IP header; returns the port that it comes from. 0:
 * empty. */
static uint16_t check_captured(int capture, uint32_t first)
{
	uint8_t frame[4096];
	struct ip ip;
	struct udphdr udp;
	uint32_t at = sizeof(ip) + sizeof(udp), end, n = 0;
	struct icrc_flow flow;
	ssize_t bytes = recv(capture, frame, sizeof(frame), 0);

	assert_in_range(bytes, at, sizeof(frame));
	memcpy(&ip, frame, sizeof(ip));
	memcpy(&udp, frame + sizeof(ip), sizeof(udp));
	end = sizeof(ip) + ntohs(udp.uh_ulen);
	assert_int_equal(ntohs(udp.uh_dport), ROCE_PORT);
	icrc_flow_init(&flow, a.link->gid.raw, b.link->gid.raw, ntohs(udp.uh_sport), ROCE_PORT);
	for (; at < end; n++) {
		uint32_t length = n || end - at < first ? end - at : first;

		assert_true(icrc_is_right(&flow, frame + at, length, (uint16_t)(ntohs(ip.ip_id) + n)));
		at += length;
	}
	return n ? ntohs(udp.uh_sport) : 0;
}

/* A connected socket's datagrams are numbered by the kernel, and nobody says from where (link/udp_way.c). */
static void icrcs_cover_the_identification_that_the_kernel_gives(void **state)
{
	int capture;
	uint32_t ways = 0;

	open_pair("127.0.0.1", "127.0.0.2");
	capture = open_capture();
	for (uint32_t n = 0; n < 500; n++) {
		uint16_t port;

		batch.count = 0;
		add(OP_SEND_ONLY, 64, 1, &b.link->gid);
		if (n % 3)
			add(OP_ACKNOWLEDGE, 0, 1, &b.link->gid);
		exchange();
		while (!(port = check_captured(capture, packet_bytes(&batch.packet[0]))))
			;
		ways += port != ROCE_PORT;
		assert_true(b.got[0].packet.is_uroce); /* so that it can have what is lost, and only that, sent again */
	}
	if (!ways)
		printf("# no way: this kernel does not tell what it sends\n");
	else
		assert_in_range(ways, 400, 500);
	close(capture);
	close_pair();
}

/* A receiver that was not told where packets end, and does not know the identification either. */
static void what_follows_a_loss_is_whole(void **state)
{
	uint8_t lost[2000];

	open_pair("127.0.0.1", "127.0.0.2");
	for (uint32_t n = 1; n <= 1000; n++) {
		batch.count = 0;
		add(OP_SEND_ONLY, 64, 1, &b.link->gid);
		add(OP_ACKNOWLEDGE, 0, 1, &b.link->gid);
		if (n % 50) {
			exchange();
		} else {
			send_batch();
			assert_return_code(recv(b.link->fd, lost, sizeof(lost), 0), errno);
		}
	}
	close_pair();
}

static void garbage_among_small_datagrams_is_dropped(void **state)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(ROCE_PORT)};
	uint8_t bytes[2000] = {OP_SEND_ONLY, 0, 0xff, 0xff};
	int s = open_stranger();

	to.sin_addr.s_addr = inet_addr("127.0.0.2");
	open_pair("127.0.0.1", "127.0.0.2");
	for (uint32_t n = 1; n <= 400; n++) {
		batch.count = b.count = 0;
		add(OP_SEND_ONLY, 64, 1, &b.link->gid);
		send_batch();
		if (n % 100 == 0)
			assert_int_equal(sendto(s, bytes, 5 * n, 0, (struct sockaddr *)&to, sizeof(to)), 5 * n);
		receive(&b, 1 + (n % 100 == 0));
		assert_int_equal(b.count, 1);
	}
	assert_int_equal(link_udp_counters(b.link)->rx_icrc, 4);
	close(s);
	close_pair();
}

/* Bytes that CRCs were computed over. */
static crc_function *crc_uncounted;
static uint64_t crc_counted;

static uint32_t count_crc(uint32_t crc, const uint8_t *bytes, uint64_t n)
{
	crc_counted += n;
	return crc_uncounted(crc, bytes, n);
}

static uint64_t crc_bytes_of_one(int stranger, const uint8_t *bytes, uint32_t length)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(ROCE_PORT)};
	uint64_t before;

	to.sin_addr.s_addr = inet_addr("127.0.0.2");
	for (uint32_t n = 0; n < 20; n++) { /* so many small ones that nothing says where packets end */
		batch.count = b.count = 0;
		add(OP_SEND_ONLY, 64, 1, &b.link->gid);
		send_batch();
		receive(&b, 1);
	}
	assert_int_equal(sendto(stranger, bytes, length, 0, (struct sockaddr *)&to, sizeof(to)), length);
	before = crc_counted;
	receive(&b, 1);
	return crc_counted - before;
}

/* In every 16 bytes what looks like the begin of a packet, and an ICRC of all before it that is right for an
 * identification that nobody expects; but none of all. */
static void fill_with_begins(uint8_t *bytes, uint32_t length)
{
	union ibv_gid from = gid("127.0.0.1");
	struct icrc_flow flow;

	icrc_flow_init(&flow, from.raw, b.link->gid.raw, GARBAGE_PORT, ROCE_PORT);
	for (uint32_t at = 0; at + 16 <= length; at += 16) {
		memcpy(bytes + at, (uint8_t[12]){OP_SEND_ONLY, 0, 0xff, 0xff}, 12);
		icrc_put(bytes + at + 12, icrc_start(&flow, 0x7777, at + 16, bytes, at + 12));
	}
	bytes[length - 1] ^= 1;
}

enum { CRC_TRIES = 16 }; /* lengths of a datagram that may be tried, besides one pass over all */

/* One datagram costs no more than CRCs over its bytes, few times, whatever is in it. */
static void the_cost_of_garbage_is_linear_in_its_length(void **state)
{
	static const uint32_t lengths[] = {16, 200, 512, 1020, 1024, 1028, 4168, 16000, 65000};
	static uint8_t bytes[65000];
	int s = open_stranger();

	open_pair("127.0.0.1", "127.0.0.2");
	crc_uncounted = crc_best;
	crc_best = count_crc;
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		uint32_t n = lengths[i], begins = min_of(n, 4096u + PACKET_HEADERS + PACKET_TRAILER);

		for (uint32_t k = 0; k < n; k++)
			bytes[k] = (uint8_t)(k * k * 31 + k / 5 + 3);
		assert_in_range(crc_bytes_of_one(s, bytes, n), n - 4, 6 * n);
		fill_with_begins(bytes, n);
		assert_in_range(crc_bytes_of_one(s, bytes, n), n - 4, 6 * n + CRC_TRIES * begins);
	}
	crc_best = crc_uncounted;
	close(s);
	close_pair();
}

static void a_port_that_is_not_shared_is_in_use(void **state)
{
	union ibv_gid here = gid("127.0.0.3");
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(ROCE_PORT)};
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	struct link *link = NULL;

	at.sin_addr.s_addr = inet_addr("127.0.0.3");
	assert_int_equal(bind(s, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(link_udp_open(&here, &link), -EADDRINUSE);
	assert_null(link);
	close(s);
	here = gid("192.0.2.1");
	assert_int_equal(link_udp_open(&here, &link), -EADDRNOTAVAIL);
}

/* By two sockets in turn, what they send might change its order on the way. */
static void threads_that_send_at_once_get_no_way(void **state)
{
	struct udp_way *way;
	struct udp *udp;

	open_pair("127.0.0.1", "127.0.0.2");
	udp = container_of(a.link, struct udp, link);
	for (uint32_t n = 0; n < 100; n++) {
		batch.count = 0;
		add(OP_SEND_ONLY, 64, 1, &b.link->gid);
		exchange();
	}
	way = udp_way_enter(udp, &b.link->gid);
	if (!way) {
		printf("# no way: this kernel does not tell what it sends\n");
		close_pair();
		return;
	}
	for (uint32_t n = 0; n < 100; n++) /* a few now and then are the helper's */
		assert_null(udp_way_enter(udp, &b.link->gid));
	udp_way_leave(way, -EAGAIN);
	way = udp_way_enter(udp, &b.link->gid);
	assert_non_null(way);
	for (uint32_t n = 0; n < 1000; n++)
		assert_null(udp_way_enter(udp, &b.link->gid));
	udp_way_leave(way, -EAGAIN);
	for (uint32_t n = 0; n < 1000; n++) {
		assert_null(udp_way_enter(udp, &b.link->gid));
		batch.count = 0;
		add(OP_SEND_ONLY, 64, 1, &b.link->gid);
		exchange();
	}
	close_pair();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_size_arrives_whole),
		cmocka_unit_test(equal_packets_travel_together),
		cmocka_unit_test(trains_are_shorter_where_the_kernel_takes_no_long_ones),
		cmocka_unit_test(an_ack_is_delivered_before_the_requests_that_it_travels_with),
		cmocka_unit_test(what_is_placed_arrives),
		cmocka_unit_test(a_placed_list_arrives),
		cmocka_unit_test(long_trains_of_small_packets_are_split_whatever_comes_between),
		cmocka_unit_test(without_segments_each_packet_travels_alone),
		cmocka_unit_test(trains_end_where_the_way_changes),
		cmocka_unit_test(packets_too_long_are_lost_and_others_still_travel_together),
		cmocka_unit_test(a_way_that_leads_nowhere_is_a_loss),
		cmocka_unit_test(garbage_is_counted_and_dropped),
		cmocka_unit_test(congestion_marks_are_seen),
		cmocka_unit_test(small_datagrams_in_a_row_spoil_nothing),
		cmocka_unit_test(icrcs_cover_the_identification_that_the_kernel_gives),
		cmocka_unit_test(threads_that_send_at_once_get_no_way),
		cmocka_unit_test(what_follows_a_loss_is_whole),
		cmocka_unit_test(garbage_among_small_datagrams_is_dropped),
		cmocka_unit_test(the_cost_of_garbage_is_linear_in_its_length),
		cmocka_unit_test(a_port_that_is_not_shared_is_in_use),
	};

	netns_enter();
	place_count = ARRAY_SIZE(places) - !netns_has_ipv6();
	for (size_t i = 0; i < sizeof(memory); i++)
		memory[i] = i * 7 + (i >> 8);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
