// SPDX-License-Identifier: BSD-2-Clause
/* mix PORT SEED [HOST]: lists of random requests of six opcodes, of any length, in pieces, inline, fenced, signalled or
 * not, from the client to the server; some WRITEs and READs are of what a message before them in the list has brought.
 * Each byte and each completion is what it must be: both ends make the same lists from the seed, and do them in a
 * model. With an odd seed the receives are those of an SRQ. */
#include "rc.h"

enum { LISTS = 300, MOST = 12, PIECES = 3, ROOM = 16384, ALL = MOST * ROOM };

/* A request. Its bytes are at its ROOM of the client's memory; what it reads or changes, at its ROOM of the server's,
 * behind the receives. */
struct request {
	enum ibv_wr_opcode opcode;
	uint32_t length;
	int receive; /* -1: uses none */
	int of;	     /* the message whose bytes a WRITE or a READ is of; -1: of none */
	struct ibv_sge piece[PIECES];
};

static struct rc rc;
static struct ibv_srq *srq;
static struct request list[MOST];
static int count, receives;
static uint8_t client[ALL], server[2 * ALL]; /* the model */

static bool is_message(const struct request *r)
{
	return r->opcode == IBV_WR_SEND || r->opcode == IBV_WR_SEND_WITH_IMM;
}

/* Where a request goes in the server's memory. */
static size_t place_of(int i)
{
	const struct request *r = &list[i];

	if (is_message(r))
		return (size_t)r->receive * ROOM;
	return r->of >= 0 ? (size_t)list[r->of].receive * ROOM : (size_t)ALL + (size_t)i * ROOM;
}

/* A queue pair for lists, in place of the one that rc_open() has made. */
static void remake(void)
{
	struct ibv_qp_init_attr init = {.send_cq = rc.cq,
					.recv_cq = rc.cq,
					.srq = srq,
					.qp_type = IBV_QPT_RC,
					.cap = {MOST, MOST, PIECES, 1, 16}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags =
					   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};

	ZERO(ibv_destroy_qp(rc.qp));
	MUST(rc.qp = ibv_create_qp(rc.pd, &init));
	rc.me.qpn = rc.qp->qp_num;
	ZERO(ibv_modify_qp(rc.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

static void post_receive(int i)
{
	struct ibv_sge piece = rc_piece(&rc, (size_t)i * ROOM, ROOM);
	struct ibv_recv_wr wr = {.wr_id = (uint64_t)i, .sg_list = &piece, .num_sge = 1}, *bad;

	ZERO(srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(rc.qp, &wr, &bad));
}

static void think_up(int i)
{
	static const enum ibv_wr_opcode opcode[] = {
		IBV_WR_SEND,	  IBV_WR_SEND_WITH_IMM,	       IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	struct request *r = &list[i];
	int of = i ? rand() % i : -1;

	*r = (struct request){.opcode = opcode[rand() % 6], .receive = -1, .of = -1};
	r->length = r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : (uint32_t)rand() % (rand() % 7 ? 200 : 9000);
	if (is_message(r) || r->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		r->receive = receives++;
	else if (r->opcode != IBV_WR_ATOMIC_FETCH_AND_ADD && of >= 0 && is_message(&list[of]) && list[of].length) {
		r->of = of;
		r->length = r->length < list[of].length ? r->length : list[of].length;
	}
	for (uint32_t n = 0; n < r->length + 8; n++) {
		client[i * ROOM + n] = (uint8_t)rand();
		server[ALL + i * ROOM + n] = (uint8_t)rand();
	}
}

static struct ibv_send_wr build(int i, int round)
{
	struct request *r = &list[i];
	bool is_atomic = r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD, is_read = r->opcode == IBV_WR_RDMA_READ;
	struct ibv_send_wr wr = {.wr_id = (uint64_t)i,
				 .sg_list = r->piece,
				 .num_sge = is_atomic ? 1 : 1 + rand() % PIECES,
				 .opcode = r->opcode,
				 .imm_data = (uint32_t)(round * MOST + i)};
	uint32_t at = 0;

	for (int n = 0; n < wr.num_sge; n++) {
		uint32_t length = n < wr.num_sge - 1 ? (r->length - at) / 2 : r->length - at;

		r->piece[n] = rc_piece(&rc, (size_t)i * ROOM + at, length);
		at += length;
	}
	/* a WRITE without a fence may overtake a READ of the same bytes: IBTA 10.8.3.3 */
	wr.send_flags = (i == count - 1 || rand() % 2 ? IBV_SEND_SIGNALED : 0) |
			(rand() % 5 && (is_read || r->of < 0) ? 0 : IBV_SEND_FENCE) |
			(!is_atomic && !is_read && r->length <= 16 && rand() % 2 ? IBV_SEND_INLINE : 0);
	if (is_atomic) {
		wr.wr.atomic.remote_addr = rc.peer.address + place_of(i);
		wr.wr.atomic.rkey = rc.peer.rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = rc.peer.address + place_of(i);
		wr.wr.rdma.rkey = rc.peer.rkey;
	}
	return wr;
}

/* Does it in the model. */
static void do_in_model(int i)
{
	const struct request *r = &list[i];
	uint8_t *here = client + i * ROOM, *there = server + place_of(i);
	uint64_t word;

	if (r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		memcpy(here, there, 8);
		memcpy(&word, there, 8);
		word++;
		memcpy(there, &word, 8);
	} else if (r->opcode == IBV_WR_RDMA_READ) {
		memcpy(here, there, r->length);
	} else {
		memcpy(there, here, r->length);
	}
}

static void send_list(int round)
{
	struct ibv_send_wr wr[MOST], *bad;
	struct ibv_wc wc;

	memcpy(rc.memory, client, ALL);
	for (int i = 0; i < count; i++) {
		wr[i] = build(i, round);
		wr[i].next = i + 1 < count ? &wr[i + 1] : NULL;
		do_in_model(i);
	}
	rc_barrier(&rc); /* the receives are posted */
	ZERO(ibv_post_send(rc.qp, wr, &bad));
	for (int i = 0; i < count; i++) {
		if (!(wr[i].send_flags & IBV_SEND_SIGNALED))
			continue;
		wc = rc_poll(&rc);
		MUST(wc.status == IBV_WC_SUCCESS && wc.wr_id == (uint64_t)i);
	}
	for (int i = 0; i < count; i++)
		MUST(!memcmp(rc.memory + i * ROOM, client + i * ROOM, list[i].length));
	rc_barrier(&rc);
}

/* The receives complete in the order of the requests that use them. */
static void take_list(int round)
{
	memcpy(rc.memory, server, 2 * ALL);
	for (int i = 0; i < receives; i++)
		post_receive(i);
	for (int i = 0; i < count; i++) {
		build(i, round); /* as many random numbers as at the other end */
		do_in_model(i);
	}
	rc_barrier(&rc);
	for (int i = 0; i < count; i++) {
		const struct request *r = &list[i];
		struct ibv_wc wc;

		if (r->receive < 0)
			continue;
		wc = rc_poll(&rc);
		MUST(wc.status == IBV_WC_SUCCESS && wc.wr_id == (uint64_t)r->receive && wc.byte_len == r->length);
		MUST(wc.opcode == (is_message(r) ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM));
		if (r->opcode != IBV_WR_SEND)
			MUST(wc.wc_flags & IBV_WC_WITH_IMM && wc.imm_data == (uint32_t)(round * MOST + i));
	}
	rc_barrier(&rc); /* all is done */
	for (int i = 0; i < count; i++)
		MUST(!memcmp(rc.memory + place_of(i), server + place_of(i), list[i].length));
}

int main(int argc, char **argv)
{
	MUST(argc == 3 || argc == 4);
	srand((unsigned)atoi(argv[2]));
	rc_open(&rc, NULL, 0, (size_t)2 * ALL);
	if (argc == 3 && atoi(argv[2]) % 2)
		MUST(srq = ibv_create_srq(rc.pd, &(struct ibv_srq_init_attr){.attr = {.max_wr = MOST, .max_sge = 1}}));
	remake();
	rc_meet(&rc, argv[3], argv[1]);
	for (int round = 0; round < LISTS; round++) {
		count = 1 + rand() % MOST;
		receives = 0;
		for (int i = 0; i < count; i++)
			think_up(i);
		if (argc == 4)
			send_list(round);
		else
			take_list(round);
	}
	printf("mix %s: each byte was there\n", argv[2]);
	return 0;
}
