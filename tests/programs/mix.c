// SPDX-License-Identifier: BSD-2-Clause
/* mix SEED: lists of random requests of six opcodes, of any length, in pieces, inline, fenced, signalled or not,
 * from one queue pair to another, and each byte and each completion is what it must be. With an odd seed the receives
 * are those of an SRQ. */
#include "rc.h"

enum { LISTS = 300, MOST = 12, PIECES = 3, ROOM = 16384, FAR = MOST * ROOM };

/* A request. Its bytes here are at its ROOM of a.memory; far from here, at its ROOM behind FAR of b.memory; a message
 * goes to the ROOM of its receive. */
struct request {
	enum ibv_wr_opcode opcode;
	uint32_t length;
	int receive;  /* -1: uses none */
	uint64_t old; /* the word that an atomic changes */
	struct ibv_sge piece[PIECES];
};

static struct rc a, b;
static struct ibv_srq *srq;
static struct request list[MOST];
static int count, receives;

static uint8_t *here(int i)
{
	return a.memory + i * ROOM;
}

static uint8_t *there(int i)
{
	return b.memory + FAR + i * ROOM;
}

static bool is_message(const struct request *r)
{
	return r->opcode == IBV_WR_SEND || r->opcode == IBV_WR_SEND_WITH_IMM;
}

/* A queue pair for lists, in place of the one that rc_open() has made. */
static void remake(struct rc *rc, struct ibv_srq *with)
{
	struct ibv_qp_init_attr init = {.send_cq = rc->cq,
					.recv_cq = rc->cq,
					.srq = with,
					.qp_type = IBV_QPT_RC,
					.cap = {MOST, MOST, PIECES, 1, 16}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags =
					   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};

	ZERO(ibv_destroy_qp(rc->qp));
	MUST(rc->qp = ibv_create_qp(rc->pd, &init));
	rc->me.qpn = rc->qp->qp_num;
	ZERO(ibv_modify_qp(rc->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

static void post_receive(int i)
{
	struct ibv_sge piece = rc_piece(&b, (size_t)i * ROOM, ROOM);
	struct ibv_recv_wr wr = {.wr_id = (uint64_t)i, .sg_list = &piece, .num_sge = 1}, *bad;

	ZERO(srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(b.qp, &wr, &bad));
}

static void think_up(int i)
{
	static const enum ibv_wr_opcode opcode[] = {
		IBV_WR_SEND,	  IBV_WR_SEND_WITH_IMM,	       IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	struct request *r = &list[i];

	*r = (struct request){.opcode = opcode[rand() % 6], .receive = -1};
	r->length = r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : (uint32_t)rand() % (rand() % 7 ? 200 : 9000);
	if (is_message(r) || r->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		r->receive = receives++;
	for (uint32_t n = 0; n < r->length + 8; n++) {
		here(i)[n] = (uint8_t)rand();
		there(i)[n] = (uint8_t)rand();
	}
	memcpy(&r->old, there(i), 8);
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

		r->piece[n] = rc_piece(&a, (size_t)i * ROOM + at, length);
		at += length;
	}
	wr.send_flags = (i == count - 1 || rand() % 2 ? IBV_SEND_SIGNALED : 0) | (rand() % 5 ? 0 : IBV_SEND_FENCE) |
			(!is_atomic && !is_read && r->length <= 16 && rand() % 2 ? IBV_SEND_INLINE : 0);
	if (is_atomic) {
		wr.wr.atomic.remote_addr = (uintptr_t)there(i);
		wr.wr.atomic.rkey = b.mr->rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)there(i);
		wr.wr.rdma.rkey = b.mr->rkey;
	}
	return wr;
}

static void check_request(int i)
{
	const struct request *r = &list[i];
	uint64_t word, got;

	if (r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		memcpy(&got, here(i), 8);
		memcpy(&word, there(i), 8);
		MUST(got == r->old && word == r->old + 1);
	} else if (!is_message(r)) {
		MUST(!memcmp(here(i), there(i), r->length));
	} else {
		MUST(!memcmp(here(i), b.memory + r->receive * ROOM, r->length));
	}
}

/* The receives complete in the order of the requests that use them. */
static void check_receive(int i, int round)
{
	const struct request *r = &list[i];
	struct ibv_wc wc = rc_poll(&b);

	MUST(wc.status == IBV_WC_SUCCESS && wc.wr_id == (uint64_t)r->receive && wc.byte_len == r->length);
	MUST(wc.opcode == (is_message(r) ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM));
	if (r->opcode != IBV_WR_SEND)
		MUST(wc.wc_flags & IBV_WC_WITH_IMM && wc.imm_data == (uint32_t)(round * MOST + i));
}

static void run_list(int round)
{
	struct ibv_send_wr wr[MOST], *bad;
	struct ibv_wc wc;

	count = 1 + rand() % MOST;
	receives = 0;
	for (int i = 0; i < count; i++)
		think_up(i);
	for (int i = 0; i < count; i++) {
		wr[i] = build(i, round);
		wr[i].next = i + 1 < count ? &wr[i + 1] : NULL;
	}
	for (int i = 0; i < receives; i++)
		post_receive(i);
	ZERO(ibv_post_send(a.qp, wr, &bad));
	for (int i = 0; i < count; i++) {
		if (!(wr[i].send_flags & IBV_SEND_SIGNALED))
			continue;
		wc = rc_poll(&a);
		MUST(wc.status == IBV_WC_SUCCESS && wc.wr_id == (uint64_t)i);
	}
	for (int i = 0; i < count; i++)
		if (list[i].receive >= 0)
			check_receive(i, round);
	for (int i = 0; i < count; i++)
		check_request(i);
}

int main(int argc, char **argv)
{
	MUST(argc == 2);
	srand((unsigned)atoi(argv[1]));
	rc_open(&a, NULL, 0, 2 * FAR);
	rc_open(&b, &a, 0, 2 * FAR);
	if (atoi(argv[1]) % 2)
		MUST(srq = ibv_create_srq(b.pd, &(struct ibv_srq_init_attr){.attr = {.max_wr = MOST, .max_sge = 1}}));
	remake(&a, NULL);
	remake(&b, srq);
	rc_connect_pair(&a, &b);
	for (int i = 0; i < LISTS; i++)
		run_list(i);
	printf("mix %s: each byte was there\n", argv[1]);
	return 0;
}
