/* SPDX-License-Identifier: BSD-2-Clause */
/* Statuses of completions: which request has which, what is flushed behind it, states and events that follow; packet
 * sequence numbers; and timers. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "conform.h"
#include "states.h"

#define SRC 4096u
#define DST 65536u

static struct ibv_send_wr request(struct ibv_sge *sge, uint64_t wr_id, enum ibv_wr_opcode opcode, uint32_t length)
{
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED,
				 .sg_list = sge,
				 .num_sge = length ? 1 : 0};

	*sge = (struct ibv_sge){.addr = near->arena + SRC, .length = length, .lkey = near->lkey};
	wr.wr.rdma.remote_addr = far->arena + DST;
	wr.wr.rdma.rkey = far->rkey;
	return wr;
}

static void send_length(struct qp *qp, uint64_t wr_id, uint32_t length)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(&sge, wr_id, IBV_WR_SEND, length);

	expect_errno("ibv_post_send", post(qp, &wr), 0);
}

static void write_length(struct qp *qp, uint64_t wr_id, uint32_t length, unsigned flags)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(&sge, wr_id, IBV_WR_RDMA_WRITE, length);

	wr.send_flags = flags;
	expect_errno("ibv_post_send", post(qp, &wr), 0);
}

static void receives(struct qp *qp, int count, uint32_t length)
{
	for (int i = 1; i <= count; i++)
		expect_errno("ibv_post_recv", post_receive(qp, (uint64_t)i, DST, length), 0);
}

static enum ibv_qp_state state_of(struct qp *qp)
{
	struct ibv_qp_attr attr;

	expect_errno("ibv_query_qp", query(qp, &attr), 0);
	return attr.qp_state;
}

static void expect_in(struct qp *qp, enum ibv_qp_state state)
{
	enum ibv_qp_state seen = state_of(qp);

	if (seen != state)
		wrong("the %s queue pair is in %s, expected %s", qp->end == near ? "near" : "far", state_name(seen),
		      state_name(state));
}

static void expect_none(struct end *end, struct ibv_cq *cq)
{
	struct ibv_wc wc;

	if (poll_cq(end, cq, 0, &wc))
		wrong("another completion: request %d, %s", (int)wc.wr_id, ibv_wc_status_str(wc.status));
}

/* Connected, but for attributes of the near end, as `set` sets them. */
static struct pair pair_with(void (*set)(struct ibv_qp_attr *near_attr, struct ibv_qp_attr *far_attr))
{
	struct pair p = {make_qp(near, IBV_QPT_RC), make_qp(far, IBV_QPT_RC)};
	struct ibv_qp_attr a = attributes(&p.a, &p.b), b = attributes(&p.b, &p.a);

	set(&a, &b);
	for (enum ibv_qp_state s = IBV_QPS_RESET; s < IBV_QPS_RTS; s++) {
		int mask = IBV_QP_STATE | transition(IBV_QPT_RC, s, s + 1).required;

		a.qp_state = b.qp_state = s + 1;
		expect_errno("ibv_modify_qp", modify(&p.a, &a, mask), 0);
		expect_errno("ibv_modify_qp", modify(&p.b, &b, mask), 0);
	}
	p.a.psn = a.sq_psn;
	p.b.psn = b.sq_psn;
	return p;
}

static void too_long(void)
{
	struct pair p = make_pair(IBV_QPT_RC);

	receives(&p.b, 3, 64);
	send_length(&p.a, 1, 65);
	send_length(&p.a, 2, 8);
	expect_status(near, p.a.scq, 1, IBV_WC_REM_INV_REQ_ERR);
	expect_status(near, p.a.scq, 2, IBV_WC_WR_FLUSH_ERR);
	expect_status(far, p.b.rcq, 1, IBV_WC_LOC_LEN_ERR);
	expect_status(far, p.b.rcq, 2, IBV_WC_WR_FLUSH_ERR);
	expect_status(far, p.b.rcq, 3, IBV_WC_WR_FLUSH_ERR);
	expect_in(&p.a, IBV_QPS_ERR);
	expect_in(&p.b, IBV_QPS_ERR);
}

static void bad_receive(uint32_t lkey)
{
	struct pair p = make_pair(IBV_QPT_RC);
	struct ibv_sge sge = {.addr = far->arena, .length = 64, .lkey = lkey};
	int error = post_receive_sges(&p.b, 1, &sge, 1);

	if (error)
		unusual("the receive is refused when it is posted: %s", errno_name(error));
	receives(&p.b, 1, 64);
	send_length(&p.a, 1, 32);
	expect_status(near, p.a.scq, 1, IBV_WC_REM_OP_ERR);
	expect_status(far, p.b.rcq, 1, IBV_WC_LOC_PROT_ERR);
	expect_status(far, p.b.rcq, 1, IBV_WC_WR_FLUSH_ERR);
	expect_in(&p.a, IBV_QPS_ERR);
	expect_in(&p.b, IBV_QPS_ERR);
}

static void bad_receive_key(void)
{
	bad_receive(~far->lkey);
}

static void receive_without_right(void)
{
	struct ibv_mr *mr;
	uint32_t lkey, rkey;

	expect_errno("ibv_reg_mr", try_mr(far, 0, 4096, IBV_ACCESS_REMOTE_READ, &mr, &lkey, &rkey), 0);
	bad_receive(lkey);
}

static void no_rnr_retry(struct ibv_qp_attr *a, struct ibv_qp_attr *b)
{
	a->rnr_retry = 0;
}

static void no_receive(void)
{
	struct pair p = pair_with(no_rnr_retry);

	send_length(&p.a, 1, 16);
	send_length(&p.a, 2, 16);
	expect_status(near, p.a.scq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	expect_status(near, p.a.scq, 2, IBV_WC_WR_FLUSH_ERR);
	expect_in(&p.a, IBV_QPS_ERR);
	expect_in(&p.b, IBV_QPS_RTS);
}

static void late_receive(void)
{
	struct pair p = make_pair(IBV_QPT_RC);
	struct ibv_wc wc;

	send_length(&p.a, 1, 16);
	if (poll_cq(near, p.a.scq, 20, &wc))
		wrong("it completes without a receive: %s", ibv_wc_status_str(wc.status));
	receives(&p.b, 1, 64);
	expect_status(near, p.a.scq, 1, IBV_WC_SUCCESS);
	expect_status(far, p.b.rcq, 1, IBV_WC_SUCCESS);
}

static void few_retries(struct ibv_qp_attr *a, struct ibv_qp_attr *b)
{
	a->timeout = 8;
	a->retry_cnt = 1;
}

static void absent_peer(void)
{
	struct pair p = pair_with(few_retries);

	expect_errno("ibv_destroy_qp", destroy(far, p.b.ptr), 0);
	send_length(&p.a, 1, 16);
	send_length(&p.a, 2, 16);
	expect_status(near, p.a.scq, 1, IBV_WC_RETRY_EXC_ERR);
	expect_status(near, p.a.scq, 2, IBV_WC_WR_FLUSH_ERR);
	expect_in(&p.a, IBV_QPS_ERR);
}

static void peer_in_error(void)
{
	struct pair p = pair_with(few_retries);
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};

	expect_errno("ibv_modify_qp", modify(&p.b, &err, IBV_QP_STATE), 0);
	send_length(&p.a, 1, 16);
	expect_status(near, p.a.scq, 1, IBV_WC_RETRY_EXC_ERR);
}

static void other_psn(struct ibv_qp_attr *a, struct ibv_qp_attr *b)
{
	few_retries(a, b);
	b->rq_psn = (b->rq_psn + 5) & 0xffffff;
}

static void psns_differ(void)
{
	struct pair p = pair_with(other_psn);
	struct ibv_wc wc;

	receives(&p.b, 1, 64);
	send_length(&p.a, 1, 16);
	wc = completion(near, p.a.scq);
	if (wc.status == IBV_WC_SUCCESS)
		unusual("success: PSNs before the expected one are taken for duplicates, and acknowledged (9.7.5.1.4)");
	expect("status", wc.status, IBV_WC_RETRY_EXC_ERR);
	expect_none(far, p.b.rcq);
}

static void later_psn(struct ibv_qp_attr *a, struct ibv_qp_attr *b)
{
	few_retries(a, b);
	b->rq_psn = (b->rq_psn - 5) & 0xffffff;
}

static void psns_ahead(void)
{
	struct pair p = pair_with(later_psn);

	receives(&p.b, 1, 64);
	send_length(&p.a, 1, 16);
	expect_status(near, p.a.scq, 1, IBV_WC_RETRY_EXC_ERR);
	expect_none(far, p.b.rcq);
}

static void flushed_in_order(void)
{
	struct pair p = make_pair(IBV_QPT_RC);
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};

	for (uint64_t i = 1; i <= 8; i++)
		send_length(&p.a, i, 16); /* which find no receive */
	receives(&p.a, 4, 64);
	expect_errno("ibv_modify_qp", modify(&p.a, &err, IBV_QP_STATE), 0);
	for (uint64_t i = 1; i <= 8; i++)
		expect_status(near, p.a.scq, i, IBV_WC_WR_FLUSH_ERR);
	for (uint64_t i = 1; i <= 4; i++)
		expect_status(near, p.a.rcq, i, IBV_WC_WR_FLUSH_ERR);
	expect_none(near, p.a.scq);
	expect_none(near, p.a.rcq);
}

static void unsignaled_is_flushed(void)
{
	struct pair p = make_pair(IBV_QPT_RC);
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};

	send_length(&p.a, 1, 16); /* which finds no receive */
	write_length(&p.a, 2, 16, 0);
	write_length(&p.a, 3, 16, IBV_SEND_SIGNALED);
	expect_errno("ibv_modify_qp", modify(&p.a, &err, IBV_QP_STATE), 0);
	expect_status(near, p.a.scq, 1, IBV_WC_WR_FLUSH_ERR);
	expect_status(near, p.a.scq, 2, IBV_WC_WR_FLUSH_ERR);
	expect_status(near, p.a.scq, 3, IBV_WC_WR_FLUSH_ERR);
}

static void unsignaled_error(void)
{
	struct pair p = make_pair(IBV_QPT_RC);
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(&sge, 5, IBV_WR_RDMA_WRITE, 16);

	wr.send_flags = 0;
	wr.wr.rdma.rkey ^= 0x5a5a5500;
	expect_errno("ibv_post_send", post(&p.a, &wr), 0);
	expect_status(near, p.a.scq, 5, IBV_WC_REM_ACCESS_ERR);
	expect_none(near, p.a.scq);
}

static void unsignaled_is_silent(void)
{
	struct pair p = make_pair(IBV_QPT_RC);

	write_length(&p.a, 1, 16, 0);
	write_length(&p.a, 2, 16, 0);
	write_length(&p.a, 3, 16, IBV_SEND_SIGNALED);
	expect_status(near, p.a.scq, 3, IBV_WC_SUCCESS);
	expect_none(near, p.a.scq);
}

static void all_signaled(void)
{
	struct ibv_qp_init_attr init = small_qp(near, IBV_QPT_RC);
	struct pair p;

	init.sq_sig_all = 1;
	p = (struct pair){make_qp_as(near, &init), make_qp(far, IBV_QPT_RC)};
	connect_pair(&p);
	write_length(&p.a, 1, 16, 0);
	expect_status(near, p.a.scq, 1, IBV_WC_SUCCESS);
}

static void reset_empties(void)
{
	struct pair p = make_pair(IBV_QPT_RC);
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_wc wc;

	receives(&p.a, 4, 64);
	expect_errno("ibv_modify_qp", modify(&p.a, &reset, IBV_QP_STATE), 0);
	bring(&p.a, &p.b, IBV_QPS_RESET, IBV_QPS_RTS);
	if (poll_cq(near, p.a.rcq, 5, &wc))
		wrong("a receive of before the reset completes: %s", ibv_wc_status_str(wc.status));
}

static void no_dest_reads(struct ibv_qp_attr *a, struct ibv_qp_attr *b)
{
	b->max_dest_rd_atomic = 0;
}

static void read_is_not_taken(void)
{
	struct pair p = pair_with(no_dest_reads);
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(&sge, 1, IBV_WR_RDMA_READ, 16);
	struct ibv_wc wc;

	expect_errno("ibv_post_send", post(&p.a, &wr), 0);
	wc = completion(near, p.a.scq);
	if (wc.status == IBV_WC_SUCCESS)
		unusual("it succeeds");
	expect("status", wc.status, IBV_WC_REM_INV_REQ_ERR);
}

static void expect_event(struct end *end, int expected, const void *element)
{
	void *seen;
	int type = async_event(end, (int)options.seconds * 200, &seen);

	if (type == NO_EVENT)
		wrong("there is no asynchronous event");
	if (type != expected)
		wrong("the event is %s, expected %s", ibv_event_type_str((enum ibv_event_type)type),
		      ibv_event_type_str((enum ibv_event_type)expected));
	if (seen != element)
		wrong("the event is of another object");
}

static void event_of_access(void)
{
	struct pair p = make_pair(IBV_QPT_RC);
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(&sge, 1, IBV_WR_RDMA_WRITE, 16);

	wr.wr.rdma.rkey ^= 0x5a5a5500;
	expect_errno("ibv_post_send", post(&p.a, &wr), 0);
	expect_status(near, p.a.scq, 1, IBV_WC_REM_ACCESS_ERR);
	expect_event(far, IBV_EVENT_QP_ACCESS_ERR, p.b.ptr);
	expect_in(&p.b, IBV_QPS_ERR);
}

static void event_of_request(void)
{
	struct pair p = pair_with(no_dest_reads);
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(&sge, 1, IBV_WR_RDMA_READ, 16);

	expect_errno("ibv_post_send", post(&p.a, &wr), 0);
	if (completion(near, p.a.scq).status == IBV_WC_SUCCESS)
		unusual("the READ succeeds");
	expect_event(far, IBV_EVENT_QP_REQ_ERR, p.b.ptr);
}

static void event_of_first_message(void)
{
	struct pair p = {make_qp(near, IBV_QPT_RC), make_qp(far, IBV_QPT_RC)};

	bring(&p.b, &p.a, IBV_QPS_RESET, IBV_QPS_RTR);
	bring(&p.a, &p.b, IBV_QPS_RESET, IBV_QPS_RTS);
	receives(&p.b, 1, 64);
	send_length(&p.a, 1, 16);
	expect_status(near, p.a.scq, 1, IBV_WC_SUCCESS);
	expect_event(far, IBV_EVENT_COMM_EST, p.b.ptr);
	expect_in(&p.b, IBV_QPS_RTR);
}

static void event_of_drain(void)
{
	struct pair p = make_pair(IBV_QPT_RC);
	struct ibv_qp_attr sqd = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	int error;

	write_length(&p.a, 1, 16, IBV_SEND_SIGNALED);
	error = modify(&p.a, &sqd, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
	if (error)
		lacking("SQD: %s", errno_name(error));
	expect_event(near, IBV_EVENT_SQ_DRAINED, p.a.ptr);
	expect_status(near, p.a.scq, 1, IBV_WC_SUCCESS);
	write_length(&p.a, 2, 16, IBV_SEND_SIGNALED);
	expect_none(near, p.a.scq);
	bring(&p.a, &p.b, IBV_QPS_SQD, IBV_QPS_RTS);
	expect_status(near, p.a.scq, 2, IBV_WC_SUCCESS);
}

static void event_of_own_error(void)
{
	struct pair p = make_pair(IBV_QPT_RC);
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	void *element;
	int type;

	expect_errno("ibv_modify_qp", modify(&p.a, &err, IBV_QP_STATE), 0);
	type = async_event(near, 5, &element);
	if (type != NO_EVENT)
		wrong("an event of a queue pair that was moved to err: %s",
		      ibv_event_type_str((enum ibv_event_type)type));
}

const struct row status_rows[] = {
	{"rc/receive-too-short", "IBTA 9.7.4.1.7, 11.6.2", "a SEND of 65 bytes to a receive of 64",
	 "LOC_LEN_ERR there, REM_INV_REQ_ERR here, the rest flushed, both in err", too_long},
	{"rc/receive-wrong-lkey", "IBTA 9.7.5.2.7, 11.6.2: Remote Operational Error",
	 "a SEND to a receive with an L_Key that there is not",
	 "LOC_PROT_ERR there, REM_OP_ERR here, the rest flushed, both in err", bad_receive_key},
	{"rc/receive-no-local-write", "IBTA 9.7.5.2.7, 10.6.3.1; ibv_reg_mr(3)",
	 "a SEND to a receive without LOCAL_WRITE",
	 "LOC_PROT_ERR there, REM_OP_ERR here, the rest flushed, both in err", receive_without_right},
	{"rc/no-receive", "IBTA 9.7.5.2.8, 11.6.2", "a SEND without a receive, rnr_retry 0",
	 "RNR_RETRY_EXC_ERR, the next flushed; err here, rts there", no_receive},
	{"rc/late-receive", "IBTA 9.7.5.2.8: 7 is without end", "a SEND, 20 ms later its receive, rnr_retry 7",
	 "success", late_receive},
	{"rc/absent-peer", "IBTA 9.7.6.1.3, 11.6.2", "a SEND to a queue pair that was destroyed",
	 "RETRY_EXC_ERR, the next flushed", absent_peer},
	{"rc/peer-in-err", "IBTA 10.3.1.7: packets are dropped", "a SEND to a queue pair in err", "RETRY_EXC_ERR",
	 peer_in_error},
	{"rc/flush-order", "IBTA 10.8.3.2, 10.3.1.7", "8 SENDs and 4 receives, then to err",
	 "12 times WR_FLUSH_ERR, in order", flushed_in_order},
	{"rc/flush-unsignaled", "IBTA 10.8.3.2, 10.7.3.1", "an unsignaled WRITE behind a SEND that waits, then to err",
	 "it has a completion, too: WR_FLUSH_ERR", unsignaled_is_flushed},
	{"rc/error-unsignaled", "IBTA 10.7.3.1", "an unsignaled WRITE that fails", "one completion, with its status",
	 unsignaled_error},
	{"rc/unsignaled", "IBTA 10.7.3.1; ibv_post_send(3)", "2 unsignaled WRITEs and a signaled one", "one completion",
	 unsignaled_is_silent},
	{"rc/sq-sig-all", "ibv_create_qp(3)", "a WRITE without IBV_SEND_SIGNALED, sq_sig_all 1", "a completion",
	 all_signaled},
	{"rc/reset-empties", "IBTA 10.3.1.1: reset", "4 receives, to reset, and back to rts", "no completion",
	 reset_empties},
	{"rc/no-reads-taken", "IBTA 9.7.4.1.4: max_dest_rd_atomic", "a READ of a queue pair with max_dest_rd_atomic 0",
	 "REM_INV_REQ_ERR", read_is_not_taken},
	{"event/access", "IBTA 11.6.3.2: Local Access Violation", "a WRITE with a wrong R_Key",
	 "QP_ACCESS_ERR at its target, which is in err", event_of_access},
	{"event/request", "IBTA 11.6.3.2: Invalid Request", "a READ of a queue pair with max_dest_rd_atomic 0",
	 "QP_REQ_ERR there", event_of_request},
	{"event/communication", "IBTA 11.6.3.1: Communication Established", "a SEND to a queue pair in rtr",
	 "COMM_EST there; it stays in rtr", event_of_first_message},
	{"event/drained", "IBTA 11.6.3.1, 10.3.1.5", "a WRITE, then sqd with en_sqd_async_notify, and another",
	 "SQ_DRAINED; the other waits for rts", event_of_drain},
	{"event/own-error", "ibv_get_async_event(3)", "to err by ibv_modify_qp()", "no event", event_of_own_error},
	{"psn/before", "IBTA 9.7.1.1: duplicate", "a SEND, whose receiver expects a PSN 5 later",
	 "RETRY_EXC_ERR; it is not received (permitted: success, as of a duplicate)", psns_differ},
	{"psn/ahead", "IBTA 9.7.5.2.3: NAK, sequence error", "a SEND, whose receiver expects a PSN 5 earlier",
	 "RETRY_EXC_ERR; it is not received", psns_ahead},
	{0},
};

struct group status_group = {"status", .rows = status_rows};
