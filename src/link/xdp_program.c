/* SPDX-License-Identifier: BSD-2-Clause */
/* The instructions themselves, as in packet_filter.c, and bpf(2). So uroce needs no compiler for BPF when it is built,
 * and neither libbpf nor libxdp when it runs. libxdp's own program takes all that comes to a queue, its dispatcher is
 * pinned, and what it attaches outlives a process that is killed. */
#include "link/xdp_program.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <netinet/ip.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"
#include "base/high_fd.h"
#include "base/qpn.h"
#include "wire/headers.h"
#include "wire/packet.h"

#define IPV4_HEAD 0x45 /* version, and length without options */
#define QPN_SLOT  5    /* in the BTH: the first two bytes of the QPN */
#define KEYS	  1024 /* addresses and slots */
#define MOST	  96   /* instructions */

/* Offsets in a frame. */
enum {
	V4_HEAD = ETH_HLEN,
	V4_FRAGMENT = ETH_HLEN + 6,
	V4_PROTOCOL = ETH_HLEN + 9,
	V4_TO = ETH_HLEN + 16,
	V4_UDP = ETH_HLEN + 20,
	V6_NEXT = ETH_HLEN + 6,
	V6_TO = ETH_HLEN + 24,
	V6_UDP = ETH_HLEN + 40,
	UDP_TO = 2,
	UDP_HEADER = 8,
};

/* A key of the rows. IPv4 addresses are ::ffff:a.b.c.d. */
struct xdp_key {
	uint8_t to[16];
	uint32_t slot;
};
static_assert(sizeof(struct xdp_key) == 20, "the program writes all of it");
#define KEY_AT	 (-(int)sizeof(struct xdp_key)) /* on the program's stack */
#define KEY_SLOT (KEY_AT + (int)offsetof(struct xdp_key, slot))

/* ---- the program ---- */

enum { FRAME = 2, END, AT, VALUE, CONTEXT }; /* its registers; 0 to 5 are lost in a call */

struct xdp_code {
	struct bpf_insn out[MOST];
	uint16_t n;
};

static void add(struct xdp_code *c, int code, int to, int from, int offset, uint32_t value)
{
	c->out[c->n++] = (struct bpf_insn){.code = (uint8_t)code,
					   .dst_reg = (uint8_t)to & 0xf,
					   .src_reg = (uint8_t)from & 0xf,
					   .off = (int16_t)offset,
					   .imm = (int32_t)value};
}

static void move(struct xdp_code *c, int to, int from)
{
	add(c, BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0);
}

static void calculate(struct xdp_code *c, int operation, int to, uint32_t value)
{
	add(c, BPF_ALU64 | operation | BPF_K, to, 0, 0, value);
}

static void load(struct xdp_code *c, int size, int to, int from, int offset)
{
	add(c, BPF_LDX | BPF_MEM | size, to, from, offset, 0);
}

/* A jump to where the frame is passed to the kernel; code_end() says where that is. */
#define PASS_JUMP 0x7fff

static void pass_if(struct xdp_code *c, int comparison, int a, uint32_t value)
{
	add(c, BPF_JMP | comparison | BPF_K, a, 0, PASS_JUMP, value);
}

static void want(struct xdp_code *c, int size, int offset, uint32_t value)
{
	load(c, size, VALUE, FRAME, offset);
	pass_if(c, BPF_JNE, VALUE, value);
}

/* The verifier asks for it: the frame has so many bytes. */
static void want_bytes(struct xdp_code *c, uint32_t bytes)
{
	move(c, AT, FRAME);
	calculate(c, BPF_ADD, AT, bytes);
	add(c, BPF_JMP | BPF_JGT | BPF_X, AT, END, PASS_JUMP, 0);
}

/* A word of the address, as it is in the frame or as it always is. */
static void put_word(struct xdp_code *c, int number, int offset)
{
	load(c, BPF_W, VALUE, FRAME, offset);
	add(c, BPF_STX | BPF_MEM | BPF_W, BPF_REG_10, VALUE, KEY_AT + 4 * number, 0);
}

static void put_constant(struct xdp_code *c, int number, uint32_t value)
{
	add(c, BPF_ST | BPF_MEM | BPF_W, BPF_REG_10, 0, KEY_AT + 4 * number, value);
}

static void want_udp(struct xdp_code *c, int udp)
{
	want(c, BPF_H, udp + UDP_TO, htons(ROCE_PORT));
	load(c, BPF_H, VALUE, FRAME, udp + UDP_HEADER + QPN_SLOT);
}

static void want_ipv4(struct xdp_code *c)
{
	want(c, BPF_B, V4_HEAD, IPV4_HEAD);
	load(c, BPF_H, VALUE, FRAME, V4_FRAGMENT);
	pass_if(c, BPF_JSET, VALUE, htons(IP_MF | IP_OFFMASK));
	want(c, BPF_B, V4_PROTOCOL, IPPROTO_UDP);
	put_constant(c, 0, 0);
	put_constant(c, 1, 0);
	put_constant(c, 2, htonl(0xffff));
	put_word(c, 3, V4_TO);
	want_udp(c, V4_UDP);
}

static void want_ipv6(struct xdp_code *c)
{
	want(c, BPF_H, ETH_HLEN - 2, htons(ETH_P_IPV6));
	want_bytes(c, V6_UDP + UDP_HEADER + sizeof(struct bth));
	want(c, BPF_B, V6_NEXT, IPPROTO_UDP);
	for (int i = 0; i < 4; i++)
		put_word(c, i, V6_TO + 4 * i);
	want_udp(c, V6_UDP);
}

static void code_map(struct xdp_code *c, int to, int fd)
{
	add(c, BPF_LD | BPF_DW | BPF_IMM, to, BPF_PSEUDO_MAP_FD, 0, (uint32_t)fd);
	add(c, 0, 0, 0, 0, 0); /* the upper half of the value */
}

/* The QPN's first two bytes are in VALUE, the address is in the key. A queue without a socket: to the kernel. */
static void find_socket(struct xdp_code *c, const struct xdp_program *p)
{
	add(c, BPF_ALU | BPF_END | BPF_TO_BE, VALUE, 0, 0, 16);
	calculate(c, BPF_RSH, VALUE, 16 - SLOT_BITS);
	add(c, BPF_STX | BPF_MEM | BPF_W, BPF_REG_10, VALUE, KEY_SLOT, 0);
	code_map(c, BPF_REG_1, p->rows);
	move(c, BPF_REG_2, BPF_REG_10);
	calculate(c, BPF_ADD, BPF_REG_2, (uint32_t)KEY_AT);
	add(c, BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem);
	pass_if(c, BPF_JEQ, BPF_REG_0, 0);
	load(c, BPF_W, BPF_REG_3, CONTEXT, offsetof(struct xdp_md, rx_queue_index));
	pass_if(c, BPF_JGE, BPF_REG_3, XDP_QUEUES);
	load(c, BPF_W, BPF_REG_2, BPF_REG_0, 0);
	add(c, BPF_ALU64 | BPF_ADD | BPF_X, BPF_REG_2, BPF_REG_3, 0, 0);
	code_map(c, BPF_REG_1, p->sockets);
	calculate(c, BPF_MOV, BPF_REG_3, XDP_PASS);
	add(c, BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_redirect_map);
	add(c, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

static void code_end(struct xdp_code *c)
{
	int pass = c->n;

	calculate(c, BPF_MOV, BPF_REG_0, XDP_PASS);
	add(c, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
	for (int i = 0; i < pass; i++)
		if (c->out[i].off == PASS_JUMP)
			c->out[i].off = (int16_t)(pass - i - 1);
}

/* A jump to what comes next, from an instruction that had been added before. */
static void land(struct xdp_code *c, int from)
{
	c->out[from].off = (int16_t)(c->n - from - 1);
}

static void write_code(struct xdp_code *c, const struct xdp_program *p, uint32_t longest)
{
	int is_ipv4, join;

	move(c, CONTEXT, BPF_REG_1);
	load(c, BPF_W, FRAME, CONTEXT, offsetof(struct xdp_md, data));
	load(c, BPF_W, END, CONTEXT, offsetof(struct xdp_md, data_end));
	want_bytes(c, V4_UDP + UDP_HEADER + sizeof(struct bth));
	move(c, VALUE, END);
	add(c, BPF_ALU64 | BPF_SUB | BPF_X, VALUE, FRAME, 0, 0);
	pass_if(c, BPF_JGT, VALUE, longest);
	load(c, BPF_H, VALUE, FRAME, ETH_HLEN - 2);
	is_ipv4 = c->n;
	add(c, BPF_JMP | BPF_JEQ | BPF_K, VALUE, 0, 0, htons(ETH_P_IP));
	want_ipv6(c);
	join = c->n;
	add(c, BPF_JMP | BPF_JA, 0, 0, 0, 0);
	land(c, is_ipv4);
	want_ipv4(c);
	land(c, join);
	find_socket(c, p);
	code_end(c);
}

/* ---- the kernel's calls ---- */

static int bpf(int command, union bpf_attr *a)
{
	return (int)syscall(SYS_bpf, command, a, sizeof(*a));
}

/* All bytes have to be 0: the kernel looks at those that it has names for and we do not, too. */
static void clear(union bpf_attr *a)
{
	memset(a, 0, sizeof(*a));
}

static int make_map(uint32_t type, uint32_t key_bytes, uint32_t entries, const char *name)
{
	union bpf_attr a;

	clear(&a);
	a.map_type = type;
	a.key_size = key_bytes;
	a.value_size = sizeof(uint32_t);
	a.max_entries = entries;
	memcpy(a.map_name, name, strlen(name));
	return high_fd(bpf(BPF_MAP_CREATE, &a));
}

static int make_program(const struct xdp_program *p, uint32_t longest)
{
	struct xdp_code code = {.n = 0};
	union bpf_attr a;

	write_code(&code, p, longest);
	clear(&a);
	a.prog_type = BPF_PROG_TYPE_XDP;
	a.expected_attach_type = BPF_XDP;
	a.insns = (uintptr_t)code.out;
	a.insn_cnt = code.n;
	a.license = (uintptr_t) "BSD-2-Clause";
	memcpy(a.prog_name, "uroce", sizeof("uroce"));
	return high_fd(bpf(BPF_PROG_LOAD, &a));
}

int xdp_program_load(struct xdp_program *p, uint32_t longest)
{
	int err;

	*p = (struct xdp_program){-1, -1, -1, -1};
	p->sockets = make_map(BPF_MAP_TYPE_XSKMAP, sizeof(uint32_t), XDP_ROWS * XDP_QUEUES, "uroce_sockets");
	if (p->sockets >= 0)
		p->rows = make_map(BPF_MAP_TYPE_HASH, sizeof(struct xdp_key), KEYS, "uroce_rows");
	if (p->rows >= 0)
		p->program = make_program(p, longest);
	if (p->program >= 0)
		return 0;
	err = -errno;
	xdp_program_close(p);
	return err;
}

int xdp_program_attach(struct xdp_program *p, int netif)
{
	union bpf_attr a;

	clear(&a);
	a.link_create.prog_fd = (uint32_t)p->program;
	a.link_create.target_ifindex = (uint32_t)netif;
	a.link_create.attach_type = BPF_XDP;
	a.link_create.flags = XDP_FLAGS_DRV_MODE;
	p->link = high_fd(bpf(BPF_LINK_CREATE, &a));
	return p->link < 0 ? -errno : 0;
}

void xdp_program_close(struct xdp_program *p)
{
	const int fd[] = {p->link, p->program, p->rows, p->sockets};

	for (size_t i = 0; i < ARRAY_SIZE(fd); i++)
		if (fd[i] >= 0)
			close(fd[i]);
	*p = (struct xdp_program){-1, -1, -1, -1};
}

static int set_entry(int map, const void *key, uint32_t value)
{
	union bpf_attr a;

	clear(&a);
	a.map_fd = (uint32_t)map;
	a.key = (uintptr_t)key;
	a.value = (uintptr_t)&value;
	return bpf(BPF_MAP_UPDATE_ELEM, &a) ? -errno : 0;
}

int xdp_program_set_socket(const struct xdp_program *p, uint32_t row, uint32_t queue, int socket)
{
	uint32_t at = row * XDP_QUEUES + queue;

	return set_entry(p->sockets, &at, (uint32_t)socket);
}

static struct xdp_key key_of(const union ibv_gid *to, uint16_t slot)
{
	struct xdp_key key = {.slot = slot};

	memcpy(key.to, to->raw, sizeof(key.to));
	return key;
}

int xdp_program_set_row(const struct xdp_program *p, const union ibv_gid *to, uint16_t slot, uint32_t row)
{
	const struct xdp_key key = key_of(to, slot);

	return set_entry(p->rows, &key, row * XDP_QUEUES);
}

void xdp_program_forget(const struct xdp_program *p, const union ibv_gid *to, uint16_t slot)
{
	const struct xdp_key key = key_of(to, slot);
	union bpf_attr a;

	clear(&a);
	a.map_fd = (uint32_t)p->rows;
	a.key = (uintptr_t)&key;
	bpf(BPF_MAP_DELETE_ELEM, &a);
}
