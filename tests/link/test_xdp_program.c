/* SPDX-License-Identifier: BSD-2-Clause */
/* The XDP program, run by the kernel on frames (BPF_PROG_TEST_RUN): what is for a QP of the process goes to its socket,
 * everything else to the kernel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <net/ethernet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "link/packet_frame.h"
#include "link/xdp_program.h"
#include "wire/packet.h"

enum { LONGEST = 200, SLOT = 0x345, ROW = 3, BYTES = 60, QPN_AT = 5 };

static struct xdp_program program;
static int xsk;

static union ibv_gid xdp_gid(const char *text)
{
	union ibv_gid g = {0};

	if (inet_pton(AF_INET6, text, g.raw) == 1)
		return g;
	g.raw[10] = g.raw[11] = 0xff;
	assert_int_equal(inet_pton(AF_INET, text, g.raw + 12), 1);
	return g;
}

/* False: the kernel does not let this user have XDP. */
static bool xdp_start(void)
{
	union ibv_gid v4 = xdp_gid("10.1.2.3"), v6 = xdp_gid("fd00::1:2:3");
	int err;

	xsk = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (xsk < 0) {
		print_message("SKIP: this user has no sockets of AF_XDP\n");
		return false;
	}
	err = xdp_program_load(&program, LONGEST);
	if (err == -EPERM || err == -EACCES || err == -ENOSYS) {
		print_message("SKIP: this user has no BPF\n");
		close(xsk);
		return false;
	}
	assert_int_equal(err, 0);
	assert_int_equal(xdp_program_set_socket(&program, ROW, 0, xsk), 0);
	assert_int_equal(xdp_program_set_row(&program, &v4, SLOT, ROW), 0);
	assert_int_equal(xdp_program_set_row(&program, &v6, SLOT, ROW), 0);
	return true;
}

static void xdp_stop(void)
{
	xdp_program_close(&program);
	close(xsk);
}

/* A frame to a QP of the slot. */
static uint32_t xdp_frame(uint8_t *out, bool is_ipv6, const char *to, uint16_t slot)
{
	const struct packet_frame f = {.from = xdp_gid(is_ipv6 ? "fd00::9" : "10.1.2.9"),
				       .to = xdp_gid(to),
				       .port = ROCE_PORT,
				       .traffic_class = 2,
				       .hops = 64,
				       .bytes = BYTES};
	uint16_t type = htons(is_ipv6 ? ETHERTYPE_IPV6 : ETHERTYPE_IP), qpn = htons((uint16_t)(slot << 5 | 0x1f));
	uint32_t head;

	memset(out, 0, 12);
	memcpy(out + 12, &type, sizeof(type));
	head = packet_frame_put(&f, FRAME_SUM_NONE, out);
	memset(out + head, 0x5a, BYTES);
	memcpy(out + head + QPN_AT, &qpn, sizeof(qpn));
	return head + BYTES;
}

/* XDP_PASS or XDP_REDIRECT. */
static uint32_t xdp_verdict(const uint8_t *frame, uint32_t bytes)
{
	union bpf_attr a;

	memset(&a, 0, sizeof(a));
	a.test.prog_fd = (uint32_t)program.program;
	a.test.data_in = (uintptr_t)frame;
	a.test.data_size_in = bytes;
	a.test.repeat = 1;
	assert_int_equal(syscall(SYS_bpf, BPF_PROG_TEST_RUN, &a, sizeof(a)), 0);
	return a.test.retval;
}

/* One byte of a good frame is another one. */
static const struct {
	const char *what;
	bool is_ipv6, ours;
	uint32_t at;
	uint8_t byte;
} frames[] = {
	{"any MAC address", false, true, 0, 0x02},
	{"another protocol than IP", false, false, 12, 0x88},
	{"in a VLAN", false, false, 12, 0x81},
	{"IPv4 options", false, false, 14, 0x46},
	{"another traffic class", false, true, 15, 0xb8},
	{"the first fragment", false, false, 20, 0x60},
	{"a later fragment", false, false, 21, 0x01},
	{"DF is not set", false, true, 20, 0x00},
	{"TCP", false, false, 23, IPPROTO_TCP},
	{"from somebody else", false, true, 29, 0x77},
	{"to another address", false, false, 33, 0x04},
	{"from another port", false, true, 34, 0xc0},
	{"to another port", false, false, 37, 0xb8},
	{"to another slot", false, false, 47, 0xff},
	{"to another QP of the slot", false, true, 49, 0x11},
	{"another protocol than IP", true, false, 13, 0x06},
	{"extension headers", true, false, 20, 44},
	{"from somebody else", true, true, 37, 0x77},
	{"to another address", true, false, 38, 0xfe},
	{"to another address", true, false, 53, 0x04},
	{"to another port", true, false, 57, 0xb8},
	{"to another slot", true, false, 67, 0xff},
	{"to another QP of the slot", true, true, 69, 0x11},
};

static void only_packets_of_this_process_go_to_its_sockets(void **state)
{
	(void)state;
	if (!xdp_start())
		skip();
	for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
		uint8_t frame[256];
		bool v6 = frames[i].is_ipv6;
		uint32_t n = xdp_frame(frame, v6, v6 ? "fd00::1:2:3" : "10.1.2.3", SLOT);

		assert_int_equal(xdp_verdict(frame, n), XDP_REDIRECT);
		assert_int_not_equal(frame[frames[i].at], frames[i].byte);
		frame[frames[i].at] = frames[i].byte;
		if (xdp_verdict(frame, n) != (frames[i].ours ? XDP_REDIRECT : XDP_PASS))
			fail_msg("IPv%d: %s: verdict %u", v6 ? 6 : 4, frames[i].what, xdp_verdict(frame, n));
	}
	xdp_stop();
}

static void frames_too_short_or_too_long_are_the_kernels(void **state)
{
	uint8_t frame[1024] = {0};

	(void)state;
	if (!xdp_start())
		skip();
	for (int v6 = 0; v6 < 2; v6++) {
		uint32_t least = FRAME_ETHERNET + (v6 ? 40 : 20) + 8 + 12;

		xdp_frame(frame, v6, v6 ? "fd00::1:2:3" : "10.1.2.3", SLOT);
		for (uint32_t n = FRAME_ETHERNET; n <= LONGEST + 2; n++)
			if (xdp_verdict(frame, n) != (n >= least && n <= LONGEST ? XDP_REDIRECT : XDP_PASS))
				fail_msg("IPv%d: %u bytes", v6 ? 6 : 4, n);
	}
	xdp_stop();
}

static void what_is_forgotten_goes_to_the_kernel_again(void **state)
{
	union ibv_gid to = xdp_gid("10.1.2.3");
	uint8_t frame[256];
	uint32_t n;

	(void)state;
	if (!xdp_start())
		skip();
	n = xdp_frame(frame, false, "10.1.2.3", SLOT + 1);
	assert_int_equal(xdp_verdict(frame, n), XDP_PASS);
	assert_int_equal(xdp_program_set_row(&program, &to, SLOT + 1, ROW), 0);
	assert_int_equal(xdp_verdict(frame, n), XDP_REDIRECT);
	assert_int_equal(xdp_program_set_row(&program, &to, SLOT + 1, ROW + 1), 0); /* which has no socket */
	assert_int_equal(xdp_verdict(frame, n), XDP_PASS);
	assert_int_equal(xdp_program_set_row(&program, &to, SLOT + 1, ROW), 0);
	xdp_program_forget(&program, &to, SLOT + 1);
	assert_int_equal(xdp_verdict(frame, n), XDP_PASS);
	n = xdp_frame(frame, false, "10.1.2.3", SLOT);
	assert_int_equal(xdp_verdict(frame, n), XDP_REDIRECT);
	xdp_stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_packets_of_this_process_go_to_its_sockets),
		cmocka_unit_test(frames_too_short_or_too_long_are_the_kernels),
		cmocka_unit_test(what_is_forgotten_goes_to_the_kernel_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
