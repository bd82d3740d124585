// SPDX-License-Identifier: BSD-2-Clause
/* mistakes: what an application can do wrong, and the status that each end must then get: IBTA 9.9, 10.10.
 * Each row has a pair of queue pairs of its own. */
#include "rc.h"

enum { SIZE = 8192 };

enum wrong {
	NOTHING,
	REMOTE_KEY,
	REMOTE_END,	 /* beyond the end of the peer's region */
	REMOTE_START,	 /* before its start */
	REMOTE_READONLY, /* the peer's region does not allow it */
	QP_REFUSES,	 /* the region allows it, the peer's queue pair does not */
	LOCAL_KEY,
	LOCAL_END,
	LOCAL_READONLY, /* data that arrive may not be stored */
	MISALIGNED,
	RECEIVE_SHORT,
	RECEIVE_KEY,
	RECEIVE_NONE,
};

static const struct row {
	enum ibv_wr_opcode opcode;
	enum wrong wrong;
	enum ibv_wc_status requester, receiver; /* the receiver's only if it has a receive posted */
} table[] = {
	{IBV_WR_SEND, NOTHING, IBV_WC_SUCCESS, IBV_WC_SUCCESS},
	{IBV_WR_RDMA_WRITE, NOTHING, IBV_WC_SUCCESS, 0},
	{IBV_WR_RDMA_WRITE_WITH_IMM, NOTHING, IBV_WC_SUCCESS, IBV_WC_SUCCESS},
	{IBV_WR_RDMA_WRITE, REMOTE_KEY, IBV_WC_REM_ACCESS_ERR, 0},
	{IBV_WR_RDMA_WRITE, REMOTE_END, IBV_WC_REM_ACCESS_ERR, 0},
	{IBV_WR_RDMA_WRITE, REMOTE_START, IBV_WC_REM_ACCESS_ERR, 0},
	{IBV_WR_RDMA_WRITE, REMOTE_READONLY, IBV_WC_REM_ACCESS_ERR, 0},
	{IBV_WR_RDMA_READ, REMOTE_KEY, IBV_WC_REM_ACCESS_ERR, 0},
	{IBV_WR_RDMA_READ, REMOTE_END, IBV_WC_REM_ACCESS_ERR, 0},
	{IBV_WR_RDMA_READ, REMOTE_READONLY, IBV_WC_REM_ACCESS_ERR, 0},
	{IBV_WR_RDMA_READ, LOCAL_READONLY, IBV_WC_LOC_PROT_ERR, 0},
	{IBV_WR_ATOMIC_FETCH_AND_ADD, REMOTE_KEY, IBV_WC_REM_ACCESS_ERR, 0},
	{IBV_WR_ATOMIC_FETCH_AND_ADD, REMOTE_READONLY, IBV_WC_REM_ACCESS_ERR, 0},
	{IBV_WR_ATOMIC_FETCH_AND_ADD, MISALIGNED, IBV_WC_REM_INV_REQ_ERR, 0},
	{IBV_WR_RDMA_WRITE, QP_REFUSES, IBV_WC_REM_INV_REQ_ERR, 0},
	{IBV_WR_RDMA_READ, QP_REFUSES, IBV_WC_REM_INV_REQ_ERR, 0},
	{IBV_WR_ATOMIC_CMP_AND_SWP, QP_REFUSES, IBV_WC_REM_INV_REQ_ERR, 0},
	{IBV_WR_SEND, LOCAL_KEY, IBV_WC_LOC_PROT_ERR, 0},
	{IBV_WR_SEND, LOCAL_END, IBV_WC_LOC_PROT_ERR, 0},
	{IBV_WR_RDMA_WRITE, LOCAL_KEY, IBV_WC_LOC_PROT_ERR, 0},
	{IBV_WR_SEND, RECEIVE_SHORT, IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR},
	{IBV_WR_SEND, RECEIVE_KEY, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR},
	{IBV_WR_SEND, RECEIVE_NONE, IBV_WC_RNR_RETRY_EXC_ERR, 0},
	{IBV_WR_RDMA_WRITE_WITH_IMM, RECEIVE_NONE, IBV_WC_RNR_RETRY_EXC_ERR, 0},
};

static void post_receive(struct rc *rc, enum wrong wrong)
{
	struct ibv_sge piece = rc_piece(rc, 0, wrong == RECEIVE_SHORT ? 999 : SIZE);
	struct ibv_recv_wr wr = {.sg_list = &piece, .num_sge = 1}, *bad;

	piece.lkey ^= wrong == RECEIVE_KEY ? 0x5a : 0;
	if (wrong != RECEIVE_NONE)
		ZERO(ibv_post_recv(rc->qp, &wr, &bad));
}

static void post_send(struct rc *rc, const struct row *row)
{
	bool atomic = row->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || row->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
	struct ibv_sge piece = rc_piece(rc, 0, atomic ? 8 : 3000);
	uint64_t remote = rc->peer.address;
	uint32_t rkey = rc->peer.rkey ^ (row->wrong == REMOTE_KEY ? 0x100 : 0);
	struct ibv_send_wr wr = {.opcode = row->opcode, .sg_list = &piece, .num_sge = 1}, *bad;

	piece.lkey ^= row->wrong == LOCAL_KEY ? 0x5a : 0;
	piece.addr += row->wrong == LOCAL_END ? SIZE - 2999 : 0;
	remote += row->wrong == REMOTE_END ? SIZE - 2999 : row->wrong == MISALIGNED ? 4 : 0;
	remote -= row->wrong == REMOTE_START ? 1 : 0;
	if (atomic) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = rkey;
	}
	ZERO(ibv_post_send(rc->qp, &wr, &bad));
}

static void restrict_region(struct rc *rc, int access)
{
	ZERO(ibv_dereg_mr(rc->mr));
	MUST(rc->mr = ibv_reg_mr(rc->pd, rc->memory, rc->size, access));
	rc->me.rkey = rc->mr->rkey;
}

static void restrict_qp(struct rc *rc)
{
	struct ibv_qp_attr attr = {.qp_access_flags = 0};

	ZERO(ibv_modify_qp(rc->qp, &attr, IBV_QP_ACCESS_FLAGS));
}

static int check(const char *end, struct rc *rc, const struct row *row, enum ibv_wc_status wanted)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_wc wc = rc_poll(rc);

	ZERO(ibv_query_qp(rc->qp, &attr, IBV_QP_STATE, &init));
	if (wc.status == wanted && attr.qp_state == (wanted ? IBV_QPS_ERR : IBV_QPS_RTS))
		return 0;
	printf("row %td: %s: %s, state %d; should be %s\n", row - table, end, ibv_wc_status_str(wc.status),
	       attr.qp_state, ibv_wc_status_str(wanted));
	return 1;
}

static int try(const struct rc *base, const struct row *row)
{
	bool receives = row->opcode == IBV_WR_SEND || row->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	struct rc a, b;
	int bad;

	rc_open(&a, base, 0, SIZE);
	rc_open(&b, base, 0, SIZE);
	if (row->wrong == REMOTE_READONLY)
		restrict_region(&b, IBV_ACCESS_LOCAL_WRITE);
	if (row->wrong == LOCAL_READONLY)
		restrict_region(&a, IBV_ACCESS_REMOTE_READ);
	if (row->wrong == RECEIVE_NONE)
		a.rnr_retry = 1;
	rc_connect_pair(&a, &b);
	if (row->wrong == QP_REFUSES)
		restrict_qp(&b);
	if (receives)
		post_receive(&b, row->wrong);
	post_send(&a, row);
	bad = check("requester", &a, row, row->requester);
	if (receives && row->wrong != RECEIVE_NONE && row->requester != IBV_WC_LOC_PROT_ERR)
		bad += check("receiver", &b, row, row->receiver);
	rc_close(&a);
	rc_close(&b);
	return bad;
}

/* What a post refuses at once, with the request that it refused. */
static int refusals(const struct rc *base)
{
	struct ibv_sge piece, many[8];
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &piece, .num_sge = 1}, *bad = NULL;
	struct ibv_recv_wr rr = {.sg_list = &piece, .num_sge = 1}, *bad_rr = NULL;
	struct rc a, b;
	int n = 0, error;

	rc_open(&a, base, 0, SIZE);
	rc_open(&b, base, 0, SIZE);
	piece = rc_piece(&a, 0, 8);
	MUST(ibv_post_send(a.qp, &wr, &bad) == EINVAL && bad == &wr); /* in INIT */
	rc_connect_pair(&a, &b);
	wr.wr.rdma.remote_addr = a.peer.address;
	wr.wr.rdma.rkey = a.peer.rkey;

	for (int i = 0; i < 8; i++)
		many[i] = piece;
	wr.sg_list = many;
	wr.num_sge = 8; /* the queue pair has at most the few that it was asked for */
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	ZERO(ibv_query_qp(a.qp, &attr, IBV_QP_CAP, &init));
	if (init.cap.max_send_sge < 8)
		MUST(ibv_post_send(a.qp, &wr, &bad) == EINVAL && bad == &wr);
	wr.sg_list = &piece;
	wr.num_sge = 1;

	wr.opcode = 77;
	MUST(ibv_post_send(a.qp, &wr, &bad) == EINVAL && bad == &wr);
	wr.opcode = IBV_WR_RDMA_WRITE;

	/* Slots are freed when completions are polled, so this comes to an end. */
	while (!(error = ibv_post_send(a.qp, &wr, &bad)))
		n++;
	MUST(error == ENOMEM && bad == &wr && n == (int)init.cap.max_send_wr);
	while (n--)
		rc_expect(rc_poll(&a), IBV_WC_RDMA_WRITE);
	for (n = 0; !(error = ibv_post_recv(b.qp, &rr, &bad_rr)); n++)
		;
	MUST(error == ENOMEM && bad_rr == &rr && n == (int)init.cap.max_recv_wr);
	rc_close(&a);
	rc_close(&b);
	return 0;
}

int main(void)
{
	struct rc base;
	int bad = 0;

	rc_open(&base, NULL, 0, SIZE);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		bad += try(&base, &table[i]);
	bad += refusals(&base);
	rc_close(&base);
	if (!bad)
		printf("every mistake got its status\n");
	return bad != 0;
}
