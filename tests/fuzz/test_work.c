/* SPDX-License-Identifier: BSD-2-Clause */
/* How much work bytes from outside can cause: for each parser, the basic blocks that it runs are at most so many, and
 * so many for each byte, whatever the bytes are. Blocks are counted, not time: the parsers are compiled with
 * -fsanitize-coverage=trace-pc, which calls a function in each. The CRC is counted apart: which engine makes it depends
 * on the machine. How often it is made, and over how many bytes, does not. */
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/control_call.h"
#include "base/rights.h"
#include "cm/comm_id.h"
#include "cm/machine.h"
#include "wire/packet_frame.h"
#include "device/device.h"
#include "device/link_set.h"
#include "device/link_state.h"
#include "fault/inject.h"
#include "link/record.h"
#include "link/udp_receive.h"
#include "loop/control.h"
#include "host/handover.h"
#include "host/introduction.h"
#include "host/services.h"
#include "host/slot.h"
#include "object/rules.h"
#include "rsocket/wire.h"
#include "fuzz/live_trace.h"
#include "wire/engines.h"
#include "wire/headers.h"

enum {
	MOST = 65000,
	LEAST = 64,
	CALM = 16, /* link/udp_receive.c's */
};

static uint64_t blocks; /* those of CRCs not among them */
static struct {
	crc_function *engine;
	uint64_t calls, bytes, blocks;
} crcs;

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void)
{
	blocks++;
}

static uint32_t count_crc(uint32_t before, const uint8_t *bytes, uint64_t n)
{
	uint64_t others = blocks;
	uint32_t sum = crcs.engine(before, bytes, n);

	crcs.blocks += blocks - others;
	blocks = others;
	crcs.calls++;
	crcs.bytes += n;
	return sum;
}

static const union ibv_gid here = {.raw = {[10] = 0xff, 0xff, 127, [15] = 1}};
static uint8_t input[MOST];
static int datagrams[2]; /* what is written to the first is received from the second */

/* ---- the parsers ---- */

static void parse_packet(size_t length)
{
	struct packet p;

	packet_parse(&p, input, length);
}

static void parse_frame(size_t length)
{
	struct packet_frame f;
	uint8_t type[2];

	packet_frame_parse(&f, input, (uint32_t)length);
	memcpy(type, input + 12, sizeof(type));
	memcpy(input + 12, (uint8_t[2]){0x08, 0}, sizeof(type)); /* IPv4 */
	packet_frame_parse(&f, input, (uint32_t)length);
	memcpy(input + 12, type, sizeof(type)); /* for the others */
}

static void check_icrc(size_t length)
{
	struct icrc_flow flow;

	icrc_flow_init(&flow, here.raw, here.raw, ROCE_PORT, ROCE_PORT);
	icrc_check(&flow, input, length, 0);
}

static bool drop(void *arg, struct packet *p, const union ibv_gid *from)
{
	return true;
}

/* `calm`: as after so many datagrams that were easy to split. From some number on, nobody tells the link how long each
 * packet is, and it has to find that out. */
static void receive_datagram(size_t length, int32_t calm)
{
	struct udp *udp = aligned_alloc(_Alignof(struct udp), sizeof(*udp));

	assert_non_null(udp);
	memset(udp, 0, offsetof(struct udp, buffer));
	udp->link.socket = datagrams[1];
	udp->link.gid = here;
	udp->is_ipv4 = true;
	udp->iov = (struct iovec){udp->buffer, sizeof(udp->buffer)};
	udp->message = (struct msghdr){
		.msg_name = &udp->from, .msg_iov = &udp->iov, .msg_iovlen = 1, .msg_control = udp->control};
	udp->calm = calm;
	assert_int_equal(send(datagrams[0], input, length, 0), length);
	udp_receive(&udp->link, 1, drop, NULL);
	free(udp);
}

static void receive_told(size_t length)
{
	receive_datagram(length, 0);
}

static void receive_untold(size_t length)
{
	receive_datagram(length, CALM);
}

static void get_record(size_t length)
{
	const union ibv_gid *from = NULL;
	struct packet p;

	record_get_any(input, (uint32_t)length, &p, &from);
}

static void receive_handed_over(size_t length)
{
	const struct slot own = {.fd = datagrams[1]};
	const struct handover_ops ops = {.packet = drop};

	assert_int_equal(send(datagrams[0], input, length, 0), length);
	handover_receive(&own, &ops, NULL);
}

static void check_greeting(size_t length)
{
	greeting_check(input, length, (int[GREETING_FDS]){0, 0, 0, 0, 0});
}

static void read_frame(size_t length)
{
	struct frame_key key;

	frame_read(&key, input, length);
}

static void parse_mad(size_t length)
{
	struct cm_mad m;
	uint64_t service;

	cm_mad_parse(&m, input);
	machine_owner(input, &service);
}

static void read_rsocket(size_t length)
{
	struct rs_peer peer;
	struct rs_udp_header udp;
	struct rs_header h;

	rs_read_connect(&peer, input, length);
	rs_read_udp_header(&udp, input, length);
	rs_read_header(&h, input, length);
}

/* Another process of this user sends it; with as many descriptors as a message can have. */
static int connection_with_input(size_t length, unsigned descriptors)
{
	int s[2], fd[RIGHTS_MOST], bytes = 4 * MOST;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0);
	setsockopt(s[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	for (unsigned i = 0; i < descriptors; i++)
		fd[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	assert_int_equal(rights_send(s[0], input, length, fd, descriptors), 0);
	for (unsigned i = 0; i < descriptors; i++)
		close(fd[i]);
	close(s[0]);
	return s[1];
}

static void receive_rights(size_t length)
{
	struct introduction in;
	int fd = connection_with_input(length, RIGHTS_MOST), given;
	char answer[256];

	if (!introduction_receive(fd, &in))
		introduction_close(&in);
	close(fd);
	fd = control_take_answer(connection_with_input(length, 1), answer, sizeof(answer), &given, clock_now() + SEC);
	if (fd >= 0)
		close(fd);
	if (given >= 0)
		close(given);
}

static void serve_control(size_t length)
{
	struct control c = {.is_open = true, .listener = dup(0)};
	int s[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0);
	c.connection[0] = (struct control_connection){.fd = s[0], .used = true};
	length = min_of(length, (size_t)CONTROL_MESSAGE);
	assert_int_equal(send(s[1], input, length, 0), length);
	control_serve(&c, s[0]);
	control_close(&c);
	close(s[1]);
	inject_clear();
}

NO_LOCK_ANALYSIS static void parse_links(size_t length)
{
	struct device d = {.base.name = "uroce0"};
	char *text = strndup((char *)input, length), *changed;
	size_t n = strlen(text);
	FILE *in = n ? fmemopen(text, n, "r") : NULL;

	links_parse(in);
	if (in)
		fclose(in);
	changed = links_rewritten(text, &d, true, &n);
	free(changed);
	free(text);
	links_parse(NULL);
}

static bool lives(uint16_t slot)
{
	return slot & 1;
}

/* Any process of this user may have written it. Its size does not depend on the input's. */
static void use_services(size_t length)
{
	static struct services services;

	for (size_t at = 0; at < sizeof(services); at += length)
		memcpy((char *)&services + at, input, min_of(length, sizeof(services) - at));
	for (uint64_t id = 0; id < 4; id++) {
		services_owner(&services, &here, id, lives);
		services_claim(&services, 5, &here, id, (enum gsi_claim)id, lives);
		services_release(&services, 5, &here, id);
	}
	services_forget(&services, (uint16_t)(input[0] & SLOT_LAST));
}

static void read_live_trace(size_t length)
{
	live_trace_read(input, length);
}

struct bound {
	uint32_t fixed;	   /* however short the input is */
	uint32_t per_kibi; /* and for each 1024 bytes */
};

static const struct parser {
	const char *name;
	void (*parse)(size_t length);
	struct bound blocks, crcs, crc_bytes;
	size_t most; /* bytes that it reads; 0: any number */
} parsers[] = {
	{"packet", parse_packet, {60, 0}, {0, 0}, {0, 0}},
	{"icrc", check_icrc, {400, 0}, {6, 0}, {200, 1024}},
	{"Ethernet frame", parse_frame, {400, 0}, {0, 0}, {0, 0}},
	{"udp, told", receive_told, {400, 20}, {6, 0}, {200, 1024}},
	{"udp, not told", receive_untold, {4000, 4500}, {64, 320}, {1024, 4 * 1024}},
	{"record", get_record, {100, 200}, {0, 0}, {0, 0}},
	{"handover", receive_handed_over, {100, 500}, {0, 0}, {0, 0}},
	{"greeting", check_greeting, {20, 0}, {0, 0}, {0, 0}},
	{"frame", read_frame, {60, 0}, {0, 0}, {0, 0}},
	{"connection management", parse_mad, {200, 0}, {0, 0}, {0, 0}},
	{"rsocket", read_rsocket, {100, 0}, {0, 0}, {0, 0}},
	{"message with descriptors", receive_rights, {400, 0}, {0, 0}, {0, 0}},
	{"control request", serve_control, {4000, 0}, {0, 0}, {0, 0}, CONTROL_MESSAGE},
	{"ports that are down", parse_links, {1000, 16000}, {0, 0}, {0, 0}},
	{"services", use_services, {5000000, 0}, {0, 0}, {0, 0}, 2 * LEAST},
	{"live trace", read_live_trace, {4000, 2500}, {0, 0}, {0, 0}},
};

/* Of any engine, for each call and each 1024 bytes. Without optimisation 105 and 836 are needed. */
static const struct bound engine_blocks = {128, 1024};

/* ---- the bytes ---- */

static void zeros(void)
{
	memset(input, 0, sizeof(input));
}

static void ones(void)
{
	memset(input, 0xff, sizeof(input));
}

static void noise(void)
{
	uint64_t x = 1;

	for (size_t i = 0; i < sizeof(input); i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		input[i] = (uint8_t)(x >> 56);
	}
}

/* A header of a packet, of the same partition, may begin at each word. */
static void headers(void)
{
	for (size_t i = 0; i < sizeof(input); i += 4)
		memcpy(input + i, (uint8_t[4]){OP_SEND_ONLY, 0, 0xff, 0xff}, 4);
}

/* Short records of one process for another; references to many pieces in a ring. */
static void records(void)
{
	for (size_t i = 0; i + 8 <= sizeof(input); i += 8)
		memcpy(input + i, (uint8_t[8]){8, 0, 0, 0, OP_SEND_FIRST, 0, 0, 0}, 8);
}

static void references(void)
{
	zeros();
	input[offsetof(struct record, flags)] = RECORD_REFERENCE;
}

/* The longest rule, and names and addresses in lines. */
static void requests(void)
{
	const char request[] = "fault add ";

	for (size_t i = 0; i < sizeof(input); i += 6)
		memcpy(input + i, "drop, ", min_of((size_t)6, sizeof(input) - i));
	memcpy(input, request, sizeof(request) - 1);
}

static void lines(void)
{
	for (size_t i = 0; i < sizeof(input); i += 8)
		memcpy(input + i, i % 64 ? " fe80::1" : "\nuroce0 ", 8);
}

static void short_lines(void)
{
	for (size_t i = 0; i < sizeof(input); i++)
		input[i] = i & 1 ? '\n' : 'a';
}

static void traces(void)
{
	live_trace_fill(input, sizeof(input));
}

static const struct {
	const char *name;
	void (*fill)(void);
} contents[] = {{"zeros", zeros},	{"ones", ones},	      {"noise", noise},
		{"headers", headers},	{"records", records}, {"references", references},
		{"requests", requests}, {"lines", lines},     {"short lines", short_lines},
		{"traces", traces}};

static void is_bounded(const struct parser *p, const char *content, size_t length, const char *what, uint64_t n,
		       const struct bound *b, uint64_t times, uint64_t bytes)
{
	uint64_t most = b->fixed * times + b->per_kibi * bytes / 1024;

	if (n > most)
		fail_msg("%s: %zu bytes of %s take %lu %s, not up to %lu", p->name, length, content, (unsigned long)n,
			 what, (unsigned long)most);
}

static void work_is_bounded(const struct parser *p, const char *content)
{
	for (size_t length = LEAST; length <= (p->most ?: MOST); length = length * 5 / 4 & ~3ul) {
		blocks = crcs.calls = crcs.bytes = crcs.blocks = 0;
		p->parse(length);
		assert_int_not_equal(blocks, 0);
		is_bounded(p, content, length, "blocks", blocks, &p->blocks, 1, length);
		is_bounded(p, content, length, "CRCs", crcs.calls, &p->crcs, 1, length);
		is_bounded(p, content, length, "bytes of CRCs", crcs.bytes, &p->crc_bytes, 1, length);
		is_bounded(p, content, length, "blocks of CRCs", crcs.blocks, &engine_blocks, crcs.calls, crcs.bytes);
	}
}

static void no_bytes_cause_more_work_than_their_number_allows(void **state)
{
	crcs.engine = crc_best;
	crc_best = count_crc;
	for (size_t k = 0; k < ARRAY_SIZE(parsers); k++)
		parsers[k].parse(LEAST); /* what is made once */
	for (size_t i = 0; i < ARRAY_SIZE(contents); i++) {
		contents[i].fill();
		for (size_t k = 0; k < ARRAY_SIZE(parsers); k++)
			work_is_bounded(&parsers[k], contents[i].name);
	}
}

static int open_sockets(void **state)
{
	int on = 1, bytes = 4 * MOST;

	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, datagrams))
		return -1;
	setsockopt(datagrams[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	return setsockopt(datagrams[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_bytes_cause_more_work_than_their_number_allows),
	};

	return engines_run(tests, ARRAY_SIZE(tests), open_sockets);
}
