/* SPDX-License-Identifier: BSD-2-Clause */
/* What each state of a queue pair takes: work requests, and what becomes of them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "conform.h"
#include "states.h"

static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND};

enum fate { DONE, FLUSHED, HELD, REFUSED, ABSENT };

static const struct {
	enum ibv_qp_state state;
	enum fate send, receive;
} fates[] = {
	{IBV_QPS_RESET, REFUSED, REFUSED}, {IBV_QPS_INIT, REFUSED, HELD}, {IBV_QPS_RTR, REFUSED, HELD},
	{IBV_QPS_RTS, DONE, HELD},	   {IBV_QPS_SQD, HELD, HELD},	  {IBV_QPS_SQE, FLUSHED, HELD},
	{IBV_QPS_ERR, FLUSHED, FLUSHED},
};

static struct {
	enum ibv_qp_type type;
	enum ibv_qp_state state;
	bool is_receive;
	enum fate fate;
} cases[COUNT(types) * COUNT(fates) * 2];

static unsigned count_cases(void)
{
	unsigned n = 0;

	for (size_t t = 0; t < COUNT(types); t++) {
		for (size_t f = 0; f < COUNT(fates); f++) {
			for (int r = 0; r < 2; r++) {
				if ((r && types[t] == IBV_QPT_XRC_SEND) ||
				    (fates[f].state == IBV_QPS_SQE && types[t] != IBV_QPT_UC && types[t] != IBV_QPT_UD))
					continue;
				cases[n].type = types[t];
				cases[n].state = fates[f].state;
				cases[n].is_receive = r;
				cases[n++].fate = r ? fates[f].receive : fates[f].send;
			}
		}
	}
	return n;
}

static void case_rule(unsigned i, struct rule *r)
{
	static const char *const words[] = {"done", "a completion with WR_FLUSH_ERR", "taken, and no completion",
					    "EINVAL (permitted: taken, as libraries need not look)"};

	snprintf(r->id, sizeof(r->id), "post/%s/%s-in-%s", type_name(cases[i].type),
		 cases[i].is_receive ? "receive" : "send", state_name(cases[i].state));
	r->source = "IBTA 10.3.1, 11.4.1.1; ibv_post_send(3), ibv_post_recv(3)";
	snprintf(r->does, sizeof(r->does), "post a %s to a queue pair of %s in %s",
		 cases[i].is_receive ? "receive" : "SEND", type_name(cases[i].type), state_name(cases[i].state));
	snprintf(r->expects, sizeof(r->expects), "%s", words[cases[i].fate]);
}

static void check_case(unsigned i)
{
	struct qp qp = make_qp(near, cases[i].type),
		  peer = make_qp(far, cases[i].type == IBV_QPT_XRC_SEND ? IBV_QPT_XRC_RECV : cases[i].type);
	struct ibv_sge sge = {.addr = near->arena, .length = 32, .lkey = near->lkey};
	struct ibv_send_wr wr = {
		.wr_id = 7, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1};
	struct ibv_ah_attr there = address_of(near, far);
	struct ibv_cq *cq = cases[i].is_receive ? qp.rcq : qp.scq;
	struct ibv_wc wc;
	int error;

	bring(&peer, &qp, IBV_QPS_RESET, IBV_QPS_RTS);
	if (peer.type != IBV_QPT_XRC_RECV)
		expect_errno("ibv_post_recv", post_receive(&peer, 1, 0, 128), 0);
	bring(&qp, &peer, IBV_QPS_RESET, cases[i].state);
	if (qp.type == IBV_QPT_UD)
		expect_errno("ibv_create_ah", try_ah(near, &there, &wr.wr.ud.ah), 0);
	wr.wr.ud.remote_qpn = peer.num;
	wr.wr.ud.remote_qkey = 0x11111111;
	if (qp.type == IBV_QPT_XRC_SEND && cases[i].fate == DONE)
		lacking("a SEND by XRC here: see xrc/");
	error = cases[i].is_receive ? post_receive(&qp, 7, 256, 128) : post(&qp, &wr);
	if (cases[i].fate == REFUSED && !error)
		unusual("it is taken");
	expect_errno(cases[i].is_receive ? "ibv_post_recv" : "ibv_post_send", error,
		     cases[i].fate == REFUSED ? EINVAL : 0);
	if (cases[i].fate == DONE)
		expect_status(near, cq, 7, IBV_WC_SUCCESS);
	if (cases[i].fate == FLUSHED)
		expect_status(near, cq, 7, IBV_WC_WR_FLUSH_ERR);
	if (cases[i].fate == HELD && poll_cq(near, cq, 5, &wc))
		wrong("it has a completion: %s", ibv_wc_status_str(wc.status));
}

struct group states_group = {"post", .counted = count_cases, .rule = case_rule, .check = check_case};
