// SPDX-License-Identifier: BSD-2-Clause
#include "loop/pair.h"

#include <arpa/inet.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "port/local.h"
#include "port/local_peer.h"
#include "port/ports.h"
#include "port/post.h"
#include "progress/life.h"
#include "progress/poll.h"
#include "loop/netns.h"
#include "object/cq_poll.h"

int pair_event = -1;

static void cq_event(struct cq *cq)
{
	uint64_t one = 1;

	assert_int_equal(write(pair_event, &one, sizeof(one)), sizeof(one));
}

static void cq_error(struct cq *cq)
{
}

static void qp_event(struct qp *qp, enum ibv_event_type type)
{
}

const struct hca_ops pair_ops = {cq_event, cq_error, qp_event};

union ibv_gid pair_gid(const char *ipv4)
{
	union ibv_gid g = {.raw = {[10] = 0xff, [11] = 0xff}};

	assert_int_equal(inet_pton(AF_INET, ipv4, g.raw + 12), 1);
	return g;
}

static void modify(struct qp *qp, struct ibv_qp_attr attr, int mask)
{
	lock_take(&qp->lock);
	assert_int_equal(engine_modify(qp, &attr, mask | IBV_QP_STATE, clock_now()), 0);
	qp->base.state = qp->state;
	lock_drop(&qp->lock);
}

static void connect_qp(struct qp *qp, uint32_t to)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE},
			   rtr = {.qp_state = IBV_QPS_RTR,
				  .path_mtu = IBV_MTU_1024,
				  .dest_qp_num = to,
				  .rq_psn = 9,
				  .max_dest_rd_atomic = 1,
				  .min_rnr_timer = 1,
				  .ah_attr = {.port_num = 1, .is_global = 1}},
			   rts = {.qp_state = IBV_QPS_RTS,
				  .timeout = 14,
				  .retry_cnt = 7,
				  .rnr_retry = 7,
				  .sq_psn = 9,
				  .max_rd_atomic = 1};

	modify(qp, init, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	lock_take(&qp->lock);
	qp->path.sgid = qp->path.dgid = pair_gid("127.0.0.1");
	lock_drop(&qp->lock);
	assert_int_equal(loop_attach(&qp->path), 0);
	loop_introduce(&qp->path, to);
	modify(qp, rtr,
	       IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		       IBV_QP_MIN_RNR_TIMER);
	modify(qp, rts, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

/* By the local link from the first packet on, if that is to be. */
static void await_local_peer(const struct qp *qp)
{
	const struct local_peer *n = qp->path.local_peer;

	assert_int_equal(!n, !local_is_wanted());
	while (n && local_peer_state(n) != LOCAL_PEER_MET)
		sched_yield();
}

void pair_open(struct pair *p)
{
	struct ibv_qp_cap cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1};

	memset(p, 0, sizeof(*p));
	pair_event = eventfd(0, EFD_CLOEXEC);
	p->hca = loop_get(&pair_ops);
	assert_non_null(p->hca);
	p->pd.hca = p->hca;
	p->mr = mr_register(&p->pd, p->bytes, sizeof(p->bytes), (uintptr_t)p->bytes,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_non_null(p->mr);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(cq_init(&p->cq[i], p->hca, 32), 0);
		p->qp[i] = qp_create(p->hca, &p->pd, &p->cq[i], &p->cq[i], NULL, IBV_QPT_RC, &cap, true);
		assert_non_null(p->qp[i]);
	}
	for (int i = 0; i < 2; i++)
		connect_qp(p->qp[i], p->qp[!i]->base.qp_num);
	await_local_peer(p->qp[0]);
}

void pair_close(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		struct path path = p->qp[i]->path;

		qp_destroy(p->qp[i]);
		loop_detach(&path);
		cq_fini(&p->cq[i]);
	}
	mr_deregister(p->mr);
	loop_put(p->hca);
	close(pair_event);
}

void pair_post_receive(struct pair *p, int i)
{
	struct ibv_sge sge = {(uintptr_t)p->bytes[i], sizeof(p->bytes[i]), p->mr->base.lkey};
	struct ibv_recv_wr wr = {.wr_id = 100, .sg_list = &sge, .num_sge = 1}, *bad;

	lock_take(&p->qp[i]->lock);
	assert_int_equal(engine_post_recv(p->qp[i], &wr, &bad), 0);
	lock_drop(&p->qp[i]->lock);
}

void pair_post_send(struct pair *p, int i, const char *text)
{
	struct ibv_sge sge = {(uintptr_t)p->bytes[i], strlen(text) + 1, p->mr->base.lkey};
	struct ibv_send_wr wr = {.wr_id = 200, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	strcpy(p->bytes[i], text);
	lock_take(&p->qp[i]->lock);
	assert_int_equal(engine_post_send(p->qp[i], &wr, &bad), 0);
	loop_posted(p->qp[i]);
	lock_drop(&p->qp[i]->lock);
}

/* All that i has, to the other. */
void pair_post_write(struct pair *p, int i)
{
	struct ibv_sge sge = {(uintptr_t)p->bytes[i], sizeof(p->bytes[i]), p->mr->base.lkey};
	struct ibv_send_wr wr = {.wr_id = 300,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .wr.rdma = {(uintptr_t)p->bytes[!i], p->mr->base.rkey}},
			   *bad;

	lock_take(&p->qp[i]->lock);
	loop_posting(p->qp[i]);
	assert_int_equal(engine_post_send(p->qp[i], &wr, &bad), 0);
	loop_posted(p->qp[i]);
	lock_drop(&p->qp[i]->lock);
}

struct cqe pair_poll_for(struct pair *p, int i)
{
	struct cqe e;

	while (!cq_poll(&p->cq[i], 1, &e))
		loop_progress();
	assert_int_equal(e.status, IBV_WC_SUCCESS);
	return e;
}

void pair_round_trip(struct pair *p)
{
	pair_post_receive(p, 1);
	pair_post_send(p, 0, "there");
	assert_int_equal(pair_poll_for(p, 1).wr_id, 100);
	assert_string_equal(p->bytes[1], "there");
	pair_post_receive(p, 0);
	pair_post_send(p, 1, "and back");
	/* an acknowledgement may come before or after what the other end sends */
	assert_int_equal(pair_poll_for(p, 0).wr_id + pair_poll_for(p, 0).wr_id, 300);
	assert_string_equal(p->bytes[0], "and back");
	assert_int_equal(pair_poll_for(p, 1).wr_id, 200);
}

/* ---- both links ---- */

static int choose_link(void **state)
{
	return setenv("UROCE_LOCAL", *state, 1);
}

int pair_run_tests(const struct CMUnitTest *tests, size_t count)
{
	struct CMUnitTest both[2 * count]; /* one group, as there is one plan to a TAP stream */

	for (size_t i = 0; i < 2 * count; i++) {
		both[i] = tests[i % count];
		both[i].setup_func = choose_link;
		both[i].initial_state = i < count ? "off" : "on";
	}
	netns_enter();
	return _cmocka_run_group_tests("tests", both, 2 * count, NULL, NULL);
}
