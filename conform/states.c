/* SPDX-License-Identifier: BSD-2-Clause */
#include "states.h"

#include <errno.h>
#include <string.h>

#include "conform.h"

enum {
	CUR = IBV_QP_CUR_STATE,
	NOTIFY = IBV_QP_EN_SQD_ASYNC_NOTIFY,
	ACCESS = IBV_QP_ACCESS_FLAGS,
	PKEY = IBV_QP_PKEY_INDEX,
	PORT = IBV_QP_PORT,
	QKEY = IBV_QP_QKEY,
	AV = IBV_QP_AV,
	MTU = IBV_QP_PATH_MTU,
	TIMEOUT = IBV_QP_TIMEOUT,
	RETRY = IBV_QP_RETRY_CNT,
	RNR = IBV_QP_RNR_RETRY,
	RQ_PSN = IBV_QP_RQ_PSN,
	RD = IBV_QP_MAX_QP_RD_ATOMIC,
	ALT = IBV_QP_ALT_PATH,
	RNR_TIMER = IBV_QP_MIN_RNR_TIMER,
	SQ_PSN = IBV_QP_SQ_PSN,
	DEST_RD = IBV_QP_MAX_DEST_RD_ATOMIC,
	MIG = IBV_QP_PATH_MIG_STATE,
	DEST = IBV_QP_DEST_QPN,

	FIRST = PKEY | PORT | ACCESS,
	TARGET = AV | MTU | DEST | RQ_PSN,
	READS = DEST_RD | RNR_TIMER,
	SENDS = TIMEOUT | RETRY | RNR | SQ_PSN | RD,
	PATHS = ALT | MIG,
	LATER = CUR | ACCESS | PATHS,
};

#define NONE          \
	{             \
		-1, 0 \
	}

/* IBTA volume 1, 11.2.5.2, table 91; qp_state_table in drivers/infiniband/core/verbs.c of Linux. */
static const struct {
	enum ibv_qp_state from, to;
	struct masks rc, uc, ud, raw, ini, tgt;
} transitions[] = {
	{IBV_QPS_RESET, IBV_QPS_INIT, {FIRST}, {FIRST}, {PKEY | PORT | QKEY}, {PORT}, {FIRST}, {FIRST}},
	{IBV_QPS_INIT, IBV_QPS_INIT, {0, FIRST}, {0, FIRST}, {0, PKEY | PORT | QKEY}, {0}, {0, FIRST}, {0, FIRST}},
	{IBV_QPS_INIT,
	 IBV_QPS_RTR,
	 {TARGET | READS, ALT | ACCESS | PKEY},
	 {TARGET, ALT | ACCESS | PKEY},
	 {0, PKEY | QKEY},
	 {0},
	 {TARGET, ALT | ACCESS | PKEY},
	 {TARGET | READS, ALT | ACCESS | PKEY}},
	{IBV_QPS_RTR,
	 IBV_QPS_RTS,
	 {SENDS, LATER | RNR_TIMER},
	 {SQ_PSN, LATER},
	 {SQ_PSN, CUR | QKEY},
	 {0},
	 {SENDS, LATER},
	 {TIMEOUT | SQ_PSN, LATER | RNR_TIMER}},
	{IBV_QPS_RTS,
	 IBV_QPS_RTS,
	 {0, LATER | RNR_TIMER},
	 {0, LATER},
	 {0, CUR | QKEY},
	 {0},
	 {0, LATER},
	 {0, LATER | RNR_TIMER}},
	{IBV_QPS_RTS, IBV_QPS_SQD, {0, NOTIFY}, {0, NOTIFY}, {0, NOTIFY}, {0}, {0, NOTIFY}, {0, NOTIFY}},
	{IBV_QPS_SQD,
	 IBV_QPS_RTS,
	 {0, LATER | RNR_TIMER},
	 {0, LATER},
	 {0, CUR | QKEY},
	 {0},
	 {0, LATER},
	 {0, LATER | RNR_TIMER}},
	{IBV_QPS_SQD,
	 IBV_QPS_SQD,
	 {0, PORT | AV | TIMEOUT | RETRY | RNR | RD | DEST_RD | ACCESS | PKEY | RNR_TIMER | PATHS},
	 {0, AV | ACCESS | PKEY | PATHS},
	 {0, PKEY | QKEY},
	 {0},
	 {0, PORT | AV | TIMEOUT | RETRY | RNR | RD | ACCESS | PKEY | PATHS},
	 {0, PORT | AV | TIMEOUT | DEST_RD | ACCESS | PKEY | RNR_TIMER | PATHS}},
	{IBV_QPS_SQE, IBV_QPS_RTS, NONE, {0, CUR | ACCESS}, {0, CUR | QKEY}, {0}, NONE, NONE},
};

struct masks transition(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to)
{
	static const struct masks none = NONE, bare = {0};

	if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET))
		return bare;
	for (size_t i = 0; i < COUNT(transitions); i++) {
		if (transitions[i].from != from || transitions[i].to != to)
			continue;
		switch (type) {
		case IBV_QPT_RC:
			return transitions[i].rc;
		case IBV_QPT_UC:
			return transitions[i].uc;
		case IBV_QPT_UD:
			return transitions[i].ud;
		case IBV_QPT_XRC_SEND:
			return transitions[i].ini;
		case IBV_QPT_XRC_RECV:
			return transitions[i].tgt;
		default:
			return transitions[i].raw;
		}
	}
	return none;
}

const char *state_name(enum ibv_qp_state state)
{
	static const char *const names[] = {"reset", "init", "rtr", "rts", "sqd", "sqe", "err"};

	return (unsigned)state < COUNT(names) ? names[state] : "unknown";
}

const char *type_name(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
		return "rc";
	case IBV_QPT_UC:
		return "uc";
	case IBV_QPT_UD:
		return "ud";
	case IBV_QPT_XRC_SEND:
		return "xrc-ini";
	case IBV_QPT_XRC_RECV:
		return "xrc-tgt";
	default:
		return "raw";
	}
}

const char *attribute_name(int bit)
{
	static const char *const names[ATTRIBUTES] = {"state",
						      "cur_state",
						      "en_sqd_async_notify",
						      "access_flags",
						      "pkey_index",
						      "port",
						      "qkey",
						      "av",
						      "path_mtu",
						      "timeout",
						      "retry_cnt",
						      "rnr_retry",
						      "rq_psn",
						      "max_rd_atomic",
						      "alt_path",
						      "min_rnr_timer",
						      "sq_psn",
						      "max_dest_rd_atomic",
						      "path_mig_state",
						      "cap",
						      "dest_qpn"};

	return names[__builtin_ctz((unsigned)bit)];
}

const char *status_name(enum ibv_wc_status status)
{
	return ibv_wc_status_str(status);
}

struct ibv_ah_attr address_of(const struct end *from, const struct end *to)
{
	struct ibv_ah_attr a = {
		.port_num = 1, .dlid = to->port.lid, .is_global = from->port.link_layer == IBV_LINK_LAYER_ETHERNET};

	if (a.is_global)
		a.dlid = 0;
	a.grh.dgid = to->gid;
	a.grh.sgid_index = from->gid_index;
	a.grh.hop_limit = 64;
	return a;
}

static uint8_t least(int limit, int most)
{
	return (uint8_t)(limit < most ? limit : most);
}

struct ibv_qp_attr attributes(struct qp *qp, const struct qp *peer)
{
	struct end *e = qp->end;
	int rights = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	struct ibv_qp_attr a = {
		.cur_qp_state = IBV_QPS_RTS,
		.en_sqd_async_notify = 1,
		.qp_access_flags = (unsigned)(qp->type == IBV_QPT_UC ? IBV_ACCESS_REMOTE_WRITE : rights),
		.port_num = 1,
		.qkey = 0x11111111,
		.path_mtu = IBV_MTU_1024 < e->port.active_mtu ? IBV_MTU_1024 : e->port.active_mtu,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.rq_psn = peer->psn,
		.sq_psn = qp->psn,
		.max_rd_atomic = least(e->attr.max_qp_init_rd_atom, 4),
		.max_dest_rd_atomic = least(e->attr.max_qp_rd_atom, 4),
		.min_rnr_timer = 1,
		.path_mig_state = IBV_MIG_MIGRATED,
		.dest_qp_num = peer->num,
		.alt_port_num = 1,
		.alt_timeout = 14,
	};

	if (qp->type != IBV_QPT_UC && e->attr.atomic_cap != IBV_ATOMIC_NONE)
		a.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
	a.ah_attr = a.alt_ah_attr = address_of(e, peer->end);
	return a;
}

struct ibv_qp_init_attr small_qp(const struct end *e, enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr){
		.qp_type = type,
		.cap = {.max_send_wr = 16,
			.max_recv_wr = 16,
			.max_send_sge = least(e->attr.max_sge, 4),
			.max_recv_sge = least(e->attr.max_sge, 4)},
	};
}

struct qp make_qp_as(struct end *e, const struct ibv_qp_init_attr *init)
{
	struct qp qp;
	int error = try_qp(&qp, e, init);

	if (error)
		lacking("%s queue pairs: %s", type_name(init->qp_type), strerror(error));
	return qp;
}

struct qp make_qp(struct end *e, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = small_qp(e, type);

	return make_qp_as(e, &init);
}

/* The step from a state on the way to another. */
static enum ibv_qp_state next_state(enum ibv_qp_state from, enum ibv_qp_state to)
{
	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR || to == IBV_QPS_INIT)
		return from == IBV_QPS_RESET && to == IBV_QPS_ERR ? IBV_QPS_INIT : to;
	return from < IBV_QPS_RTS ? from + 1 : to;
}

/* UC and UD: a send whose memory is not registered. */
static void fail_send(struct qp *qp)
{
	struct ibv_sge sge = {.addr = qp->end->arena, .length = 64, .lkey = ~qp->end->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1};
	struct ibv_ah_attr own = address_of(qp->end, qp->end);
	struct ibv_qp_attr seen;
	struct ibv_wc wc;
	int error;

	if (qp->type == IBV_QPT_UD && try_ah(qp->end, &own, &wr.wr.ud.ah))
		wrong("ibv_create_ah() of the own address failed");
	wr.wr.ud.remote_qpn = qp->num;
	wr.wr.ud.remote_qkey = 0x11111111;
	error = post(qp, &wr);
	if (error)
		lacking("a send that fails: it is refused when it is posted: %s", strerror(error));
	wc = completion(qp->end, qp->scq);
	if (wc.status == IBV_WC_SUCCESS)
		wrong("a send of memory with a wrong lkey succeeds");
	expect_errno("ibv_query_qp", query(qp, &seen), 0);
	if (seen.qp_state == IBV_QPS_ERR)
		unusual("a local error of a %s send leads to err, not sqe", type_name(qp->type));
	if (seen.qp_state != IBV_QPS_SQE)
		wrong("after a local error of a %s send the state is %s", type_name(qp->type),
		      state_name(seen.qp_state));
}

/* Nothing else may be modified while the send queue drains: IBTA 10.3.1.5. */
static void await_drained(struct qp *qp)
{
	uint64_t until = now() + 2000000000;
	struct ibv_qp_attr attr;

	do
		expect_errno("ibv_query_qp", query(qp, &attr), 0);
	while (attr.sq_draining && now() < until);
}

void bring(struct qp *qp, const struct qp *peer, enum ibv_qp_state from, enum ibv_qp_state to)
{
	struct ibv_qp_attr a = attributes(qp, peer);

	while (from != to) {
		enum ibv_qp_state next = next_state(from, to == IBV_QPS_SQE ? IBV_QPS_RTS : to);
		int error;

		if (from == IBV_QPS_RTS && to == IBV_QPS_SQE) {
			fail_send(qp);
			return;
		}
		a.qp_state = next;
		error = modify(qp, &a, IBV_QP_STATE | transition(qp->type, from, next).required);
		if (error && next == IBV_QPS_SQD)
			lacking("sqd: %s", strerror(error));
		if (error)
			wrong("%s: from %s to %s with what that requires: %s", type_name(qp->type), state_name(from),
			      state_name(next), strerror(error));
		if (next == IBV_QPS_SQD)
			await_drained(qp);
		from = next;
	}
}

void connect_pair(struct pair *p)
{
	bring(&p->a, &p->b, IBV_QPS_RESET, IBV_QPS_RTS);
	bring(&p->b, &p->a, IBV_QPS_RESET, IBV_QPS_RTS);
}

struct pair make_pair(enum ibv_qp_type type)
{
	struct pair p = {make_qp(near, type), make_qp(far, type)};

	connect_pair(&p);
	return p;
}

struct ibv_sge near_at(uint32_t offset, uint32_t length)
{
	return (struct ibv_sge){.addr = near->arena + offset, .length = length, .lkey = near->lkey};
}

void post_op(struct pair *p, uint64_t wr_id, enum ibv_wr_opcode opcode, uint32_t here, uint32_t there, uint32_t length,
	     unsigned flags)
{
	struct ibv_sge sge = near_at(here, length);
	struct ibv_send_wr wr = {.wr_id = wr_id, .opcode = opcode, .send_flags = flags, .sg_list = &sge, .num_sge = 1};
	bool adds = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	int error;

	if (adds || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = far->arena + there;
		wr.wr.atomic.rkey = far->rkey;
		wr.wr.atomic.compare_add = adds;
		wr.wr.atomic.swap = wr_id;
	} else {
		wr.wr.rdma.remote_addr = far->arena + there;
		wr.wr.rdma.rkey = far->rkey;
	}
	error = post(&p->a, &wr);
	if (error)
		lacking("the operation: %s", errno_name(error));
}

void need_atomics(void)
{
	if (near->attr.atomic_cap == IBV_ATOMIC_NONE)
		lacking("atomics");
}

struct ibv_wc completion(struct end *e, struct ibv_cq *cq)
{
	struct ibv_wc wc;

	if (!poll_cq(e, cq, (int)options.seconds * 500, &wc))
		wrong("no completion in %u ms", options.seconds * 500);
	return wc;
}

struct ibv_wc expect_status(struct end *e, struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = completion(e, cq);

	if (wc.status != status || wc.wr_id != wr_id)
		wrong("the completion is of request %d, %s; expected %d, %s", (int)wc.wr_id,
		      ibv_wc_status_str(wc.status), (int)wr_id, ibv_wc_status_str(status));
	return wc;
}
