/* SPDX-License-Identifier: BSD-2-Clause */
/* Raw packet queue pairs, steering rules, counters, and queues chosen by hash. */
#include "verbs/fixture.h"

#include <arpa/inet.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "object/rss.h"

enum { FRAME = 100, ROOM = 2048, RECEIVES = 8 };

static bool own;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static char memory[16 * ROOM];

/* A raw packet QP, its CQ, and a part of the memory that it receives to. */
struct raw {
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	char *at;
};

static int open_all(void **state)
{
	if (open_context(state))
		return -1;
	pd = ibv_alloc_pd(context);
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	return pd && mr ? 0 : -1;
}

static int close_all(void **state)
{
	return ibv_dereg_mr(mr) ?: ibv_dealloc_pd(pd) ?: close_context(state);
}

static struct ibv_qp *create(struct ibv_cq *cq)
{
	struct ibv_qp_init_attr a = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 16,
			.max_recv_wr = 16,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = 128},
		.qp_type = IBV_QPT_RAW_PACKET,
	};

	return ibv_create_qp(pd, &a);
}

static void to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE), EINVAL); /* which port? */
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT), 0);
	a.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
	a.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_RATE_LIMIT), EOPNOTSUPP);
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
}

static void post(struct raw *r)
{
	struct ibv_sge sge = {(uintptr_t)r->at, ROOM, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(r->qp, &wr, &bad), 0);
}

static void open_raw(struct raw *r, int number)
{
	assert_non_null(r->channel = ibv_create_comp_channel(context));
	assert_non_null(r->cq = ibv_create_cq(context, 64, NULL, r->channel, 0));
	assert_non_null(r->qp = create(r->cq));
	r->at = memory + number * ROOM;
	to_rts(r->qp);
	for (int i = 0; i < RECEIVES; i++)
		post(r);
}

static void close_raw(struct raw *r)
{
	assert_int_equal(ibv_destroy_qp(r->qp), 0);
	assert_int_equal(ibv_destroy_cq(r->cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(r->channel), 0);
}

/* An IPv4 UDP frame to port 9000 + `port`, with nothing right that nobody looks at. */
static void make_frame(uint8_t frame[FRAME], uint8_t port)
{
	static const uint8_t head[] = {
		2,    0,    0,	  0,	0, 9,  2,    0, 0,  0,	0, 8, 0x08, 0x00,		     /* Ethernet */
		0x45, 0x10, 0,	  86,	0, 0,  0x40, 0, 64, 17, 0, 0, 10,   0,	  0, 1, 10, 0, 0, 2, /* IPv4 */
		0x12, 0x34, 0x23, 0x28, 0, 66, 0,    0,						     /* UDP */
	};

	memset(frame, 'x', FRAME);
	memcpy(frame, head, sizeof(head));
	frame[37] += port;
	frame[FRAME - 1] = port;
}

static void send_frame(struct raw *r, uint8_t port)
{
	uint8_t frame[FRAME];
	struct ibv_sge sge = {(uintptr_t)frame, FRAME, 0};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE},
			   *bad;

	make_frame(frame, port);
	assert_int_equal(ibv_post_send(r->qp, &wr, &bad), 0);
	assert_int_equal(next(r->cq).status, IBV_WC_SUCCESS);
}

/* Waits for a frame, and says to which port it was. */
static int received(struct raw *r)
{
	struct ibv_wc wc = next(r->cq);
	int port;

	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, FRAME);
	assert_int_equal(wc.qp_num, r->qp->qp_num);
	port = r->at[FRAME - 1]; /* before the next one may come */
	post(r);
	return port;
}

static struct ibv_flow_spec_tcp_udp udp_spec(uint8_t port)
{
	return (struct ibv_flow_spec_tcp_udp){
		.type = IBV_FLOW_SPEC_UDP,
		.size = sizeof(struct ibv_flow_spec_tcp_udp),
		.val.dst_port = htons(9000 + port),
		.mask.dst_port = 0xffff,
	};
}

/* Specs follow each other without a gap. */
struct udp_flow {
	struct ibv_flow_attr attr;
	struct ibv_flow_spec_tcp_udp spec;
	struct ibv_flow_spec_counter_action count;
} __attribute__((packed, aligned(8)));

static struct ibv_flow *udp_flow(struct ibv_qp *qp, uint8_t port, uint16_t priority, uint32_t flags)
{
	struct udp_flow f = {
		.attr = {.size = sizeof(f), .priority = priority, .num_of_specs = 1, .port = 1, .flags = flags},
		.spec = udp_spec(port),
	};

	return ibv_create_flow(qp, &f.attr);
}

static struct ibv_flow *plain_flow(struct ibv_qp *qp, enum ibv_flow_attr_type type)
{
	struct ibv_flow_attr a = {.size = sizeof(a), .type = type, .port = 1};

	return ibv_create_flow(qp, &a);
}

static bool not_here(void)
{
	if (!own)
		print_message("# skipped: no namespace of our own\n");
	return !own;
}

static void it_takes_a_capability(void **state)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct all[2], less[2];
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);

	assert_int_equal(syscall(SYS_capget, &head, all), 0);
	memcpy(less, all, sizeof(all));
	less[0].effective &= ~(1u << CAP_NET_RAW);
	assert_int_equal(syscall(SYS_capset, &head, less), 0);
	assert_errno(create(cq), EPERM);
	assert_int_equal(syscall(SYS_capset, &head, all), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void frames_go_where_rules_say(void **state)
{
	struct raw a = {0}, b = {0};
	struct ibv_flow *one, *two, *rest;

	if (not_here())
		return;
	open_raw(&a, 0);
	open_raw(&b, 1);
	assert_non_null(one = udp_flow(a.qp, 1, 0, 0));
	assert_non_null(two = udp_flow(b.qp, 2, 0, 0));
	send_frame(&a, 2);
	assert_int_equal(received(&b), 2);
	send_frame(&b, 1);
	assert_int_equal(received(&a), 1);
	assert_int_equal(ibv_destroy_qp(a.qp), EBUSY);
	assert_int_equal(ibv_destroy_flow(one), 0);
	assert_non_null(rest = plain_flow(b.qp, IBV_FLOW_ATTR_ALL_DEFAULT));
	send_frame(&a, 1); /* nobody's own any more */
	assert_int_equal(received(&b), 1);
	assert_int_equal(ibv_destroy_flow(rest), 0);
	assert_int_equal(ibv_destroy_flow(two), 0);
	close_raw(&a);
	close_raw(&b);
}

static void rules_have_an_order(void **state)
{
	struct raw a = {0}, b = {0}, c = {0};
	struct ibv_flow *late, *early, *all, *shared;

	if (not_here())
		return;
	open_raw(&a, 0);
	open_raw(&b, 1);
	open_raw(&c, 2);
	assert_non_null(late = udp_flow(a.qp, 1, 7, 0));
	assert_non_null(early = udp_flow(b.qp, 1, 3, 0));
	assert_non_null(all = plain_flow(c.qp, IBV_FLOW_ATTR_SNIFFER));
	send_frame(&a, 1);
	assert_int_equal(received(&b), 1); /* the lower number; and a copy for who sees all */
	assert_int_equal(received(&c), 1);
	assert_int_equal(ibv_destroy_flow(early), 0);
	send_frame(&a, 1);
	assert_int_equal(received(&a), 1);
	assert_int_equal(received(&c), 1);
	assert_int_equal(ibv_destroy_flow(all), 0);
	assert_non_null(shared = udp_flow(b.qp, 1, 3, IBV_FLOW_ATTR_FLAGS_DONT_TRAP));
	send_frame(&c, 1);
	assert_int_equal(received(&b), 1);
	assert_int_equal(received(&a), 1);
	assert_int_equal(ibv_destroy_flow(late), 0);
	assert_int_equal(ibv_destroy_flow(shared), 0);
	close_raw(&a);
	close_raw(&b);
	close_raw(&c);
}

static void who_sleeps_is_woken(void **state)
{
	struct raw a = {0}, b = {0};
	struct ibv_flow *flow;
	struct ibv_cq *cq;
	void *arg;

	if (not_here())
		return;
	open_raw(&a, 0);
	open_raw(&b, 1);
	assert_non_null(flow = udp_flow(b.qp, 1, 0, 0));
	assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
	send_frame(&a, 1);
	assert_int_equal(ibv_get_cq_event(b.channel, &cq, &arg), 0);
	assert_int_equal(received(&b), 1);
	ibv_ack_cq_events(b.cq, 1);
	assert_int_equal(ibv_destroy_flow(flow), 0);
	close_raw(&a);
	close_raw(&b);
}

static void a_frame_may_be_too_long(void **state)
{
	struct raw a = {0}, b = {0};
	struct ibv_port_attr port;
	struct ibv_sge list[2];
	struct ibv_send_wr wr = {.sg_list = list, .num_sge = 2, .opcode = IBV_WR_SEND}, *bad;

	if (not_here())
		return;
	assert_true(ip("link set lo mtu 20000"));
	assert_int_equal(ibv_query_port(context, 1, &port), 0); /* and so the device knows */
	open_raw(&a, 0);
	open_raw(&b, 1);
	list[0] = (struct ibv_sge){(uintptr_t)memory, 20000, mr->lkey};
	list[1] = (struct ibv_sge){(uintptr_t)memory, 19, mr->lkey};
	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
	assert_int_equal(next(a.cq).status, IBV_WC_LOC_LEN_ERR);
	close_raw(&a);
	close_raw(&b);
	assert_true(ip("link set lo mtu 65536"));
}

static void what_is_asked_for_is_checked(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr rc = {
		.send_cq = cq, .recv_cq = cq, .cap = {.max_send_wr = 1, .max_send_sge = 1}, .qp_type = IBV_QPT_RC};
	const struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_tcp_udp spec;
		int error;
	} rows[] = {
		{{.port = 1}, udp_spec(1), 0},
		{{.port = 1, .num_of_specs = 1}, udp_spec(1), 0},
		{{.port = 2, .num_of_specs = 1}, udp_spec(1), EINVAL},
		{{.port = 1, .type = 4}, udp_spec(1), EINVAL},
		{{.port = 1, .comp_mask = 1}, udp_spec(1), EOPNOTSUPP},
		{{.port = 1, .flags = IBV_FLOW_ATTR_FLAGS_EGRESS}, udp_spec(1), EOPNOTSUPP},
		{{.port = 1, .type = IBV_FLOW_ATTR_SNIFFER, .num_of_specs = 1}, udp_spec(1), EINVAL},
		{{.port = 1, .num_of_specs = 1}, {.type = IBV_FLOW_SPEC_UDP, .size = 4}, EINVAL},
		{{.port = 1, .num_of_specs = 1}, {.type = IBV_FLOW_SPEC_UDP, .size = 12}, EINVAL},
		{{.port = 1, .num_of_specs = 1}, {.type = IBV_FLOW_SPEC_UDP, .size = 20}, EINVAL},
		{{.port = 1, .num_of_specs = 2}, {.type = IBV_FLOW_SPEC_ACTION_DROP, .size = 60000}, EINVAL},
		{{.port = 1, .num_of_specs = 1}, {.type = IBV_FLOW_SPEC_VXLAN_TUNNEL, .size = 16}, EOPNOTSUPP},
		{{.port = 1, .num_of_specs = 1},
		 {.type = IBV_FLOW_SPEC_UDP | IBV_FLOW_SPEC_INNER, .size = 16},
		 EOPNOTSUPP},
	};
	struct ibv_qp *qp;
	struct ibv_flow *f;

	if (not_here())
		return;
	assert_non_null(qp = create(cq));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct udp_flow u = {.attr = rows[i].attr, .spec = rows[i].spec};

		u.attr.size = sizeof(u);
		errno = 0;
		f = ibv_create_flow(qp, &u.attr);
		assert_int_equal(f ? 0 : errno, rows[i].error);
		if (f)
			assert_int_equal(ibv_destroy_flow(f), 0);
	}
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_non_null(qp = ibv_create_qp(pd, &rc));
	assert_errno(udp_flow(qp, 1, 0, 0), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void flows_are_counted(void **state)
{
	struct ibv_counters_init_attr none = {0};
	struct ibv_counters *c = ibv_create_counters(context, &none);
	struct ibv_counter_attach_attr bytes = {.counter_desc = IBV_COUNTER_BYTES, .index = 2},
				       packets = {.counter_desc = IBV_COUNTER_PACKETS, .index = 0},
				       odd = {.counter_desc = 2};
	struct udp_flow f = {
		.attr = {.size = sizeof(f), .num_of_specs = 2, .port = 1},
		.spec = udp_spec(1),
		.count = {.type = IBV_FLOW_SPEC_ACTION_COUNT, .size = sizeof(f.count), .counters = c},
	};
	struct ibv_flow *flow;
	struct raw a = {0}, b = {0};
	uint64_t value[3];

	assert_non_null(c);
	assert_int_equal(ibv_attach_counters_point_flow(c, &bytes, NULL), 0);
	assert_int_equal(ibv_attach_counters_point_flow(c, &packets, NULL), 0);
	assert_int_equal(ibv_attach_counters_point_flow(c, &odd, NULL), ENOTSUP);
	assert_int_equal(ibv_read_counters(c, value, 0, 0), EINVAL);
	if (not_here()) {
		assert_int_equal(ibv_destroy_counters(c), 0);
		return;
	}
	open_raw(&a, 0);
	open_raw(&b, 1);
	assert_non_null(flow = ibv_create_flow(b.qp, &f.attr));
	assert_int_equal(ibv_destroy_counters(c), EBUSY);
	for (int i = 0; i < 3; i++) {
		send_frame(&a, 2); /* another's */
		send_frame(&a, 1);
		assert_int_equal(received(&b), 1);
	}
	assert_int_equal(ibv_read_counters(c, value, 3, IBV_READ_COUNTERS_ATTR_PREFER_CACHED), 0);
	assert_int_equal(value[0], 3);
	assert_int_equal(value[1], 0);
	assert_int_equal(value[2], 3 * FRAME);
	assert_int_equal(ibv_destroy_flow(flow), 0);
	assert_int_equal(ibv_destroy_counters(c), 0);
	close_raw(&a);
	close_raw(&b);
}

static void a_completion_has_its_rules_tag(void **state)
{
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_tcp_udp spec;
		struct ibv_flow_spec_action_tag tag;
	} f = {
		.attr = {.size = sizeof(f), .num_of_specs = 2, .port = 1},
		.spec = udp_spec(1),
		.tag = {.type = IBV_FLOW_SPEC_ACTION_TAG, .size = sizeof(f.tag), .tag_id = 77},
	};
	struct ibv_cq_init_attr_ex ca = {.cqe = 4, .wc_flags = IBV_WC_EX_WITH_FLOW_TAG};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &ca);
	struct ibv_poll_cq_attr poll = {0};
	struct ibv_sge sge = {(uintptr_t)memory + ROOM, ROOM, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_flow *flow;
	struct ibv_qp *qp;
	struct raw a = {0};

	if (!not_here()) {
		open_raw(&a, 0);
		assert_non_null(qp = create(ibv_cq_ex_to_cq(cq)));
		to_rts(qp);
		assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
		assert_non_null(flow = ibv_create_flow(qp, &f.attr));
		send_frame(&a, 1);
		while (ibv_start_poll(cq, &poll))
			;
		assert_int_equal(ibv_wc_read_flow_tag(cq), 77);
		ibv_end_poll(cq);
		assert_int_equal(ibv_destroy_flow(flow), 0);
		assert_int_equal(ibv_destroy_qp(qp), 0);
		close_raw(&a);
	}
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

/* The verification suite that Microsoft publishes for RSS, and the hash's users test against. */
static uint8_t rss_key[RSS_KEY] = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
				   0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
				   0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

static void the_hash_is_toeplitzs(void **state)
{
	const struct {
		const char *source, *destination;
		uint16_t source_port, destination_port;
		uint32_t addresses, with_ports;
	} rows[] = {
		{"66.9.149.187", "161.142.100.80", 2794, 1766, 0x323e8fc2, 0x51ccc178},
		{"199.92.111.2", "65.69.140.83", 14230, 4739, 0xd718262a, 0xc626b0ea},
		{"24.19.198.95", "12.22.207.184", 12898, 38024, 0xd2d0a5de, 0x5c2b394a},
	};
	struct rss rss = {.fields = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4};

	memcpy(rss.key, rss_key, sizeof(rss.key));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct frame_key key = {
			.layers = FLOW_ETH | FLOW_IPV4 | FLOW_TCP,
			.ipv4 = {.src_ip = inet_addr(rows[i].source), .dst_ip = inet_addr(rows[i].destination)},
			.ports = {.src_port = htons(rows[i].source_port), .dst_port = htons(rows[i].destination_port)}};

		rss.fields = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4;
		assert_int_equal(rss_hash(&rss, &key), rows[i].addresses);
		rss.fields |= IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP;
		assert_int_equal(rss_hash(&rss, &key), rows[i].with_ports);
		key.layers = FLOW_ETH;
		assert_int_equal(rss_hash(&rss, &key), 0);
	}
}

/* What is a frame of which layers, and what of it a spec sees. */
static void specs_match_what_they_name(void **state)
{
	enum { ETH = 12, VLAN = 14, TOS = 15, SOURCE = 26, PROTOCOL = 23, FRAGMENT = 20, PORT_AT = 36 };
	struct flow_rule rule = {0};
	struct udp_flow u = {.attr = {.size = sizeof(u), .num_of_specs = 1, .port = 1}, .spec = udp_spec(1)};
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
		struct ibv_flow_spec_ipv4_ext ip;
	} f = {
		.attr = {.size = sizeof(f), .num_of_specs = 2, .port = 1},
		.eth = {.type = IBV_FLOW_SPEC_ETH,
			.size = sizeof(f.eth),
			.val = {.dst_mac = {2, 0, 0, 0, 0, 9}},
			.mask = {.dst_mac = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}},
		.ip = {.type = IBV_FLOW_SPEC_IPV4_EXT,
		       .size = sizeof(f.ip),
		       .val = {.src_ip = htonl(0x0a000000), .proto = 17, .tos = 0x10, .ttl = 64, .flags = 2},
		       .mask = {.src_ip = htonl(0xff000000), .proto = 255, .tos = 255, .ttl = 255, .flags = 255}},
	};
	uint8_t frame[FRAME];
	struct frame_key key;

	assert_int_equal(flow_parse(&rule, &f.attr), 0);
	make_frame(frame, 1);
	frame_read(&key, frame, FRAME);
	assert_int_equal(key.layers, FLOW_ETH | FLOW_IPV4 | FLOW_UDP);
	assert_true(flow_matches(&rule, &key));
	/* one wrong byte each; the last address byte is masked out */
	static const struct {
		size_t at;
		bool matches;
	} rows[] = {{0, false},	     {5, false},	 {11, true},	   {TOS, false},
		    {SOURCE, false}, {SOURCE + 3, true}, {PROTOCOL, false}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		make_frame(frame, 1);
		frame[rows[i].at] ^= 0x40;
		frame_read(&key, frame, FRAME);
		assert_int_equal(flow_matches(&rule, &key), rows[i].matches);
	}
	/* cut short at every length: never a layer that is not whole */
	make_frame(frame, 1);
	for (size_t n = 0; n <= FRAME; n++) {
		frame_read(&key, frame, n);
		assert_int_equal(key.layers, n < 14   ? 0
					     : n < 34 ? FLOW_ETH
					     : n < 38 ? FLOW_ETH | FLOW_IPV4
						      : FLOW_ETH | FLOW_IPV4 | FLOW_UDP);
	}
	/* a later fragment has no ports */
	rule = (struct flow_rule){0};
	assert_int_equal(flow_parse(&rule, &u.attr), 0);
	frame_read(&key, frame, FRAME);
	assert_true(flow_matches(&rule, &key));
	frame[FRAGMENT + 1] = 5;
	frame_read(&key, frame, FRAME);
	assert_false(flow_matches(&rule, &key));
	/* a VLAN tag is looked past */
	make_frame(frame, 1);
	memmove(frame + ETH + 4, frame + ETH, FRAME - ETH - 4);
	memcpy(frame + ETH, "\x81\x00\x00\x07", 4);
	frame_read(&key, frame, FRAME);
	assert_int_equal(key.eth.vlan_tag, htons(7));
	assert_true(flow_matches(&rule, &key));
}

static struct ibv_wq *work_queue(struct ibv_cq *cq)
{
	struct ibv_wq_init_attr a = {.wq_type = IBV_WQT_RQ, .max_wr = 16, .max_sge = 1, .pd = pd, .cq = cq};

	return ibv_create_wq(context, &a);
}

static int set_state(struct ibv_wq *wq, enum ibv_wq_state state)
{
	struct ibv_wq_attr a = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = state};

	return ibv_modify_wq(wq, &a);
}

static void work_queues_have_states(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_wq_attr wrong = {.attr_mask = IBV_WQ_ATTR_CURR_STATE, .curr_wq_state = IBV_WQS_RDY};
	struct ibv_wq_init_attr many = {
		.wq_type = IBV_WQT_RQ, .max_wr = (uint32_t)limits.max_qp_wr + 1, .max_sge = 1, .pd = pd, .cq = cq};
	struct ibv_recv_wr wr = {0}, *bad;
	struct ibv_wq *wq = work_queue(cq);

	assert_non_null(wq);
	assert_errno(ibv_create_wq(context, &many), EINVAL);
	assert_int_equal(wq->state, IBV_WQS_RESET);
	assert_int_equal(set_state(wq, IBV_WQS_ERR), EINVAL);
	assert_int_equal(ibv_modify_wq(wq, &wrong), EINVAL);
	assert_int_equal(ibv_post_wq_recv(wq, &wr, &bad), EINVAL);
	assert_int_equal(set_state(wq, IBV_WQS_RDY), 0);
	assert_int_equal(wq->state, IBV_WQS_RDY);
	assert_int_equal(ibv_post_wq_recv(wq, &wr, &bad), 0);
	assert_int_equal(set_state(wq, IBV_WQS_ERR), 0);
	assert_int_equal(next(cq).status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(set_state(wq, IBV_WQS_RDY), EINVAL);
	assert_int_equal(set_state(wq, IBV_WQS_RESET), 0);
	assert_int_equal(ibv_destroy_cq(cq), EBUSY);
	assert_int_equal(ibv_destroy_wq(wq), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static struct ibv_qp *hash_qp(struct ibv_rwq_ind_table *table, uint64_t fields, uint8_t key_length)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE,
		.pd = pd,
		.rwq_ind_tbl = table,
		.rx_hash_conf = {.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
				 .rx_hash_key_len = key_length,
				 .rx_hash_key = rss_key,
				 .rx_hash_fields_mask = fields},
	};

	return ibv_create_qp_ex(context, &a);
}

/* Each frame to the queue that its hash says, and to no other. */
static void frames_are_spread_by_hash(void **state)
{
	enum { QUEUES = 4, FRAMES = 12 };
	struct rss rss = {.fields = IBV_RX_HASH_DST_PORT_UDP};
	struct ibv_cq *cq[QUEUES];
	struct ibv_wq *wq[QUEUES];
	struct ibv_rwq_ind_table_init_attr ta = {.log_ind_tbl_size = 2, .ind_tbl = wq},
					   large = {.log_ind_tbl_size = 31};
	struct ibv_sge sge = {(uintptr_t)memory + ROOM, ROOM, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_rwq_ind_table *table;
	struct ibv_flow *flow;
	struct ibv_qp *qp;
	struct raw a = {0};

	if (not_here())
		return;
	memcpy(rss.key, rss_key, sizeof(rss.key));
	open_raw(&a, 0);
	for (int i = 0; i < QUEUES; i++) {
		assert_non_null(cq[i] = ibv_create_cq(context, 16, NULL, NULL, 0));
		assert_non_null(wq[i] = work_queue(cq[i]));
		assert_int_equal(set_state(wq[i], IBV_WQS_RDY), 0);
		for (int k = 0; k < FRAMES; k++)
			assert_int_equal(ibv_post_wq_recv(wq[i], &wr, &bad), 0);
	}
	assert_errno(ibv_create_rwq_ind_table(context, &large), EINVAL);
	assert_non_null(table = ibv_create_rwq_ind_table(context, &ta));
	assert_errno(hash_qp(table, IBV_RX_HASH_SRC_IPV4, 39), EINVAL);
	assert_errno(hash_qp(table, IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_SRC_IPV6, RSS_KEY), EOPNOTSUPP);
	assert_non_null(qp = hash_qp(table, rss.fields, RSS_KEY));
	assert_non_null(flow = plain_flow(qp, IBV_FLOW_ATTR_ALL_DEFAULT));
	for (uint8_t port = 0; port < FRAMES; port++) {
		uint8_t frame[FRAME];
		struct frame_key key;
		struct ibv_wc wc;
		uint32_t queue;

		make_frame(frame, port);
		frame_read(&key, frame, FRAME);
		queue = rss_hash(&rss, &key) % QUEUES;
		send_frame(&a, port);
		wc = next(cq[queue]);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(memory[ROOM + FRAME - 1], port);
		for (int i = 0; i < QUEUES; i++)
			assert_int_equal(ibv_poll_cq(cq[i], 1, &wc), 0);
	}
	assert_int_equal(ibv_destroy_wq(wq[0]), EBUSY);
	assert_int_equal(ibv_destroy_rwq_ind_table(table), EBUSY);
	assert_int_equal(ibv_destroy_flow(flow), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_rwq_ind_table(table), 0);
	for (int i = 0; i < QUEUES; i++) {
		assert_int_equal(ibv_destroy_wq(wq[i]), 0);
		assert_int_equal(ibv_destroy_cq(cq[i]), 0);
	}
	close_raw(&a);
}

static void there_are_as_many_as_the_device_says(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	struct ibv_device_attr_ex a;
	struct ibv_wq **wq;

	assert_int_equal(ibv_query_device_ex(context, NULL, &a), 0);
	assert_int_equal(a.rss_caps.max_rwq_indirection_table_size, RSS_TABLE);
	assert_true(a.orig_attr.device_cap_flags & IBV_DEVICE_MANAGED_FLOW_STEERING);
	wq = calloc(a.max_wq_type_rq, sizeof(*wq));
	for (uint32_t i = 0; i < a.max_wq_type_rq; i++)
		assert_non_null(wq[i] = work_queue(cq));
	assert_errno(work_queue(cq), ENOMEM);
	for (uint32_t i = 0; i < a.max_wq_type_rq; i++)
		assert_int_equal(ibv_destroy_wq(wq[i]), 0);
	free(wq);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_takes_a_capability),
		cmocka_unit_test(frames_go_where_rules_say),
		cmocka_unit_test(rules_have_an_order),
		cmocka_unit_test(who_sleeps_is_woken),
		cmocka_unit_test(a_frame_may_be_too_long),
		cmocka_unit_test(what_is_asked_for_is_checked),
		cmocka_unit_test(flows_are_counted),
		cmocka_unit_test(a_completion_has_its_rules_tag),
		cmocka_unit_test(the_hash_is_toeplitzs),
		cmocka_unit_test(specs_match_what_they_name),
		cmocka_unit_test(work_queues_have_states),
		cmocka_unit_test(frames_are_spread_by_hash),
		cmocka_unit_test(there_are_as_many_as_the_device_says),
	};

	own = enter_namespace();
	return cmocka_run_group_tests(tests, open_all, close_all);
}
