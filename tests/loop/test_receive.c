/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets that arrive by UDP: which QP gets each, and which ones are dropped. A link of the test plays the peers. */
#include "verbs/fixture.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/hooks.h"
#include "link/udp.h"
#include "wire/packet.h"

enum {
	OP_UD_SEND_ONLY_IMM = TRANSPORT_UD | OP_SEND_ONLY_IMM,
	PEER_QPN = 0x123456,
	FIRST_PSN = 100,
	QKEY = 0x11111111,
	RECEIVES = 64,
	SLOT = 256, /* bytes of memory for one receive */
	LENGTH = 32,
	QPS = 3,
};

static struct link *peer, *stranger; /* at 127.0.0.2 and 127.0.0.3 */
static union ibv_gid here;
static char payload[LENGTH];

static union ibv_gid gid(const char *ipv4)
{
	union ibv_gid g = {.raw = {[10] = 0xff, [11] = 0xff}};

	assert_int_equal(inet_pton(AF_INET, ipv4, g.raw + 12), 1);
	return g;
}

static struct link *open_link(const char *ipv4)
{
	union ibv_gid at = gid(ipv4);
	struct link *link;

	assert_int_equal(link_udp_open(&at, &link), 0);
	return link;
}

static int open_links(void **state)
{
	open_context(state);
	here = gid("127.0.0.1");
	peer = open_link("127.0.0.2");
	stranger = open_link("127.0.0.3");
	return 0;
}

static int close_links(void **state)
{
	peer->ops->close(peer);
	stranger->ops->close(stranger);
	return close_context(state);
}

/* Packets that leave together. */
static void give(struct link *from, const struct packet *packets, uint32_t count)
{
	struct iovec iov[RECEIVES];
	struct link_tx tx[RECEIVES];

	assert_in_range(count, 1, RECEIVES);
	for (uint32_t i = 0; i < count; i++) {
		iov[i] = (struct iovec){payload, packets[i].length};
		tx[i] = (struct link_tx){.packet = &packets[i], .iov = &iov[i], .iovs = 1, .dgid = &here};
	}
	for (uint32_t done = 0; done < count;)
		done += from->ops->send(from, tx + done, count - done);
}

static struct packet packet(uint8_t opcode, uint32_t qpn, uint32_t at, uint32_t imm)
{
	return (struct packet){.opcode = opcode,
			       .pkey = 0xffff,
			       .dest_qpn = qpn,
			       .psn = psn(at),
			       .imm = imm,
			       .qkey = QKEY,
			       .src_qpn = PEER_QPN,
			       .length = LENGTH};
}

/* ---- one reliable connection, with the peer's link ---- */

static void connect_to_peer(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = attributes(IBV_QPS_RTR, qp);

	a.dest_qp_num = PEER_QPN;
	a.rq_psn = FIRST_PSN;
	a.ah_attr.grh.dgid = gid("127.0.0.2");
	assert_int_equal(ibv_modify_qp(qp, &a, RTR_MASK), 0);
}

/* Of what is dropped nothing is seen. So a good packet follows each bad one, with the PSN that the bad one would have
 * used up. */
static void only_packets_of_the_connection_are_taken(void **state)
{
	struct side *s = *state;
	uint32_t qpn = s[0].qp->qp_num, at = FIRST_PSN;
	const struct {
		struct link *from;
		uint8_t opcode;
		uint32_t qpn;
	} rows[] = {
		{peer, OP_SEND_ONLY_IMM, qpn},
		{stranger, OP_SEND_ONLY_IMM, qpn},	  /* whose address is not the peer's */
		{peer, OP_SEND_ONLY_IMM, qpn ^ 0x8000},	  /* no QP has that number */
		{peer, OP_SEND_ONLY_IMM, qpn ^ 0x7f0000}, /* nor is there such a process */
		{peer, OP_SEND_ONLY_IMM, 0},
		{peer, OP_SEND_ONLY_IMM, 1},
		{peer, OP_SEND_ONLY_IMM, 0xffffff},
		{peer, OP_SEND_ONLY_IMM, s[1].qp->qp_num}, /* in INIT */
		{peer, OP_UD_SEND_ONLY_IMM, qpn},
		{peer, OP_ACKNOWLEDGE, qpn},
	};

	connect_to_peer(s[0].qp);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct packet bad = packet(rows[i].opcode, rows[i].qpn, at, 1000),
			      good = packet(OP_SEND_ONLY_IMM, qpn, at, (uint32_t)i);
		struct ibv_wc wc;

		if (rows[i].opcode == OP_ACKNOWLEDGE)
			bad.length = 0;
		side_receive(&s[0], i);
		if (i)
			give(rows[i].from, &bad, 1);
		give(peer, &good, 1);
		wc = next(s[0].cq);
		if (wc.imm_data != i)
			print_message("# row %zu\n", i);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.imm_data, i);
		assert_int_equal(wc.byte_len, LENGTH);
		at++;
	}
}

/* The same while somebody listens to packets, which goes another way through the code. */
static void listeners_do_not_change_that(void **state)
{
	hook_set(HOOK_COUNT, true);
	only_packets_of_the_connection_are_taken(state);
	hook_set(HOOK_COUNT, false);
}

static void a_queue_pair_that_is_gone_gets_nothing(void **state)
{
	struct side *s = *state;
	struct ibv_qp_cap cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1};
	struct ibv_qp *gone = make_qp(s[0].pd, s[0].cq, &cap);
	uint32_t qpn = gone->qp_num;
	struct packet delayed_ack, good;
	struct ibv_wc wc;

	bring(gone, gone, IBV_QPS_INIT);
	connect_to_peer(gone);
	assert_int_equal(ibv_destroy_qp(gone), 0);
	connect_to_peer(s[0].qp);
	side_receive(&s[0], 7);
	delayed_ack = packet(OP_SEND_ONLY_IMM, qpn, FIRST_PSN, 1);
	good = packet(OP_SEND_ONLY_IMM, s[0].qp->qp_num, FIRST_PSN, 2);
	give(peer, &delayed_ack, 1);
	give(peer, &good, 1);
	wc = next(s[0].cq);
	assert_int_equal(wc.imm_data, 2);
	assert_int_equal(wc.qp_num, s[0].qp->qp_num);
}

/* ---- datagrams, which need no connection ---- */

struct crowd {
	struct ibv_pd *pd;
	struct ibv_cq *cq[QPS];
	struct ibv_qp *qp[QPS];
	struct ibv_mr *mr;
	char *memory;
};

static void post(struct crowd *c, int i)
{
	struct ibv_sge sge = {(uintptr_t)c->memory, SLOT, c->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(c->qp[i], &wr, &bad), 0);
}

static int open_crowd(void **state)
{
	struct crowd *c = calloc(1, sizeof(*c));

	assert_non_null(c->pd = ibv_alloc_pd(context));
	assert_non_null(c->memory = calloc(1, SLOT));
	assert_non_null(c->mr = ibv_reg_mr(c->pd, c->memory, SLOT, IBV_ACCESS_LOCAL_WRITE));
	for (int i = 0; i < QPS; i++) {
		struct ibv_qp_init_attr a = {
			.cap = {.max_send_wr = 1, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1},
			.qp_type = IBV_QPT_UD};

		assert_non_null(c->cq[i] = ibv_create_cq(context, RECEIVES, NULL, NULL, 0));
		a.send_cq = a.recv_cq = c->cq[i];
		assert_non_null(c->qp[i] = ibv_create_qp(c->pd, &a));
		bring_datagrams(c->qp[i], QKEY);
		for (int k = 0; k < RECEIVES; k++)
			post(c, i);
	}
	*state = c;
	return 0;
}

static int close_crowd(void **state)
{
	struct crowd *c = *state;

	for (int i = 0; i < QPS; i++) {
		assert_int_equal(ibv_destroy_qp(c->qp[i]), 0);
		assert_int_equal(ibv_destroy_cq(c->cq[i]), 0);
	}
	assert_int_equal(ibv_dereg_mr(c->mr), 0);
	assert_int_equal(ibv_dealloc_pd(c->pd), 0);
	free(c->memory);
	free(c);
	return 0;
}

static struct packet datagram(struct crowd *c, char to, uint32_t imm)
{
	uint32_t qpn = to == '?' ? c->qp[0]->qp_num ^ 0x8000 : c->qp[to - 'A']->qp_num;

	return packet(OP_UD_SEND_ONLY_IMM, qpn, imm, imm);
}

/* A, B, C: a QP; ?: a number that no QP has. */
static void each_queue_pair_gets_its_packets_of_a_train_in_order(void **state)
{
	static const char *const trains[] = {"A",
					     "AAAA",
					     "ABAB",
					     "AABBCC",
					     "ABCCBA",
					     "?A",
					     "A?A",
					     "A?",
					     "A??B?C",
					     "CCCCCCCCCCCCCCCC",
					     "ABCABCABCABCABCABCABCABCABCABC"};
	struct crowd *c = *state;

	for (size_t t = 0; t < sizeof(trains) / sizeof(trains[0]); t++) {
		uint32_t count = (uint32_t)strlen(trains[t]);
		struct packet train[RECEIVES];

		for (uint32_t i = 0; i < count; i++)
			train[i] = datagram(c, trains[t][i], i);
		give(peer, train, count);
		for (int q = QPS - 1; q >= 0; q--) /* whichever CQ is polled, all is received */
			for (uint32_t i = 0; i < count; i++) {
				struct ibv_wc wc;

				if (trains[t][i] != 'A' + q)
					continue;
				wc = next(c->cq[q]);
				assert_int_equal(wc.status, IBV_WC_SUCCESS);
				assert_int_equal(wc.imm_data, i);
				assert_int_equal(wc.src_qp, PEER_QPN);
				assert_int_equal(wc.qp_num, c->qp[q]->qp_num);
				post(c, q);
			}
	}
}

static void a_poll_takes_no_more_than_it_has_room_for(void **state)
{
	struct crowd *c = *state;
	struct packet train[20];
	uint32_t taken = 0;

	for (uint32_t i = 0; i < 20; i++)
		train[i] = datagram(c, 'A', i);
	give(peer, train, 20);
	while (taken < 20) {
		struct ibv_wc wc[4] = {0};
		int n = ibv_poll_cq(c->cq[0], 3, wc);

		assert_in_range(n, 0, 3);
		for (int i = 0; i < n; i++)
			assert_int_equal(wc[i].imm_data, taken++);
		assert_int_equal(wc[n].qp_num, 0);
	}
	assert_int_equal(ibv_poll_cq(c->cq[0], 1, &(struct ibv_wc){0}), 0);
}

static void a_datagram_with_another_q_key_is_dropped(void **state)
{
	struct crowd *c = *state;
	struct packet two[] = {datagram(c, 'A', 1), datagram(c, 'A', 2)};

	two[0].qkey++;
	give(peer, two, 2);
	assert_int_equal(next(c->cq[0]).imm_data, 2);
}

int main(void)
{
#define WITH(what, name) cmocka_unit_test_setup_teardown(name, open_##what, close_##what)
	const struct CMUnitTest tests[] = {
		WITH(sides, only_packets_of_the_connection_are_taken),
		WITH(sides, listeners_do_not_change_that),
		WITH(sides, a_queue_pair_that_is_gone_gets_nothing),
		WITH(crowd, each_queue_pair_gets_its_packets_of_a_train_in_order),
		WITH(crowd, a_poll_takes_no_more_than_it_has_room_for),
		WITH(crowd, a_datagram_with_another_q_key_is_dropped),
	};

	if (!enter_namespace()) {
		printf("1..0 # SKIP no network namespace\n");
		return 77;
	}
	setenv("UROCE_LOCAL", "off", true);
	return cmocka_run_group_tests(tests, open_links, close_links);
}
