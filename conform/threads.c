/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads on each kind of object. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "conform.h"
#include "states.h"

#define THREADS 4
#define ROUNDS	100

/* What the threads share. Made by the check. */
static struct {
	struct pair p;
	struct ibv_srq *srq;
	struct ibv_ah_attr path;
	int (*round)(unsigned n);
	_Atomic int error;
} shared;

static int destroyed(void *object, int result)
{
	return object ? result : errno ?: EIO;
}

static int round_pd(unsigned n)
{
	struct ibv_pd *pd = ibv_alloc_pd(end_context(near));

	return destroyed(pd, pd ? ibv_dealloc_pd(pd) : 0);
}

static int round_mr(unsigned n)
{
	struct ibv_mr *mr =
		ibv_reg_mr(near->pd, (void *)(uintptr_t)(near->arena + n % 64 * 4096), 4096, IBV_ACCESS_LOCAL_WRITE);

	return destroyed(mr, mr ? ibv_dereg_mr(mr) : 0);
}

static int round_cq(unsigned n)
{
	struct ibv_cq *cq = ibv_create_cq(end_context(near), 16, NULL, NULL, 0);

	return destroyed(cq, cq ? ibv_destroy_cq(cq) : 0);
}

static int round_ah(unsigned n)
{
	struct ibv_ah *ah = ibv_create_ah(near->pd, &shared.path);

	return destroyed(ah, ah ? ibv_destroy_ah(ah) : 0);
}

static int round_srq(unsigned n)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 16, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(near->pd, &init);

	return destroyed(srq, srq ? ibv_destroy_srq(srq) : 0);
}

static int round_qp(unsigned n)
{
	struct ibv_qp_init_attr init = small_qp(near, IBV_QPT_RC);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp *qp;
	int error;

	init.send_cq = init.recv_cq = shared.p.a.scq;
	qp = ibv_create_qp(near->pd, &init);
	if (!qp)
		return errno ?: EIO;
	error = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	return ibv_destroy_qp(qp) ?: error;
}

static int round_query(unsigned n)
{
	struct ibv_qp_attr attr = {.min_rnr_timer = (uint8_t)(n % 32)};
	struct ibv_qp_init_attr init;

	return ibv_modify_qp(shared.p.a.ptr, &attr, IBV_QP_MIN_RNR_TIMER)
		       ?: ibv_query_qp(shared.p.a.ptr, &attr, IBV_QP_STATE, &init)
		       ?: attr.qp_state == IBV_QPS_RTS ? 0 : EPROTO;
}

/* Until there is room: the check polls. */
static int round_send(unsigned n)
{
	struct ibv_sge sge = near_at(4096, 8);
	struct ibv_send_wr *bad, wr = {.wr_id = n,
				       .opcode = IBV_WR_RDMA_WRITE,
				       .send_flags = IBV_SEND_SIGNALED,
				       .sg_list = &sge,
				       .num_sge = 1,
				       .wr.rdma = {far->arena + 4096, far->rkey}};
	int error;

	while ((error = ibv_post_send(shared.p.a.ptr, &wr, &bad)) == ENOMEM && !shared.error)
		sched_yield();
	return error;
}

static int round_receive(unsigned n)
{
	struct ibv_recv_wr *bad, wr = {.wr_id = n};
	int error;

	while ((error = shared.srq ? ibv_post_srq_recv(shared.srq, &wr, &bad)
				   : ibv_post_recv(shared.p.a.ptr, &wr, &bad)) == ENOMEM &&
	       !shared.error)
		sched_yield();
	return error;
}

static void *rounds(void *first)
{
	unsigned from = (unsigned)(uintptr_t)first * ROUNDS;

	for (unsigned n = from; n < from + ROUNDS && !shared.error; n++) {
		int error = shared.round(n);

		if (error)
			shared.error = error;
	}
	return NULL;
}

/* Runs the rounds in all threads; `meanwhile` in this one, which returns a complaint or NULL. */
static void together(int (*round)(unsigned n), const char *(*meanwhile)(void))
{
	pthread_t threads[THREADS];
	const char *complaint;

	shared.round = round;
	shared.error = 0;
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, rounds, (void *)i);
	complaint = meanwhile ? meanwhile() : NULL;
	if (complaint)
		shared.error = ECANCELED;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	if (complaint)
		wrong("%s", complaint);
	expect_errno("a call", shared.error, 0);
}

/* Polls the completions of all rounds, each once. */
static const char *poll_all(struct ibv_cq *cq)
{
	bool seen[THREADS * ROUNDS] = {false};
	uint64_t until = now() + options.seconds * 500000000ull;

	for (unsigned total = 0; total < THREADS * ROUNDS && !shared.error;) {
		struct ibv_wc wc;
		int n = ibv_poll_cq(cq, 1, &wc);

		if (n < 0 || now() > until)
			return n < 0 ? "ibv_poll_cq() fails" : "completions are missing";
		if (!n) {
			sched_yield();
			continue;
		}
		if (wc.status || wc.wr_id >= THREADS * ROUNDS || seen[wc.wr_id])
			return wc.status ? "a request fails" : "a completion is there twice";
		seen[wc.wr_id] = true;
		total++;
	}
	return NULL;
}

static const char *poll_sends(void)
{
	return poll_all(shared.p.a.scq);
}

/* Sends a message for each receive; their own completions count for nothing. */
static const char *feed(void)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	bool seen[THREADS * ROUNDS] = {false};

	for (unsigned n = 0; n < THREADS * ROUNDS && !shared.error; n++) {
		struct ibv_wc sent, wc;

		if (post(&shared.p.b, &wr) || !poll_cq(far, shared.p.b.scq, 2000, &sent) || sent.status)
			return "a SEND fails";
		if (!poll_cq(near, shared.p.a.rcq, 2000, &wc))
			return "the completion of a receive is missing";
		if (wc.status || wc.wr_id >= THREADS * ROUNDS || seen[wc.wr_id])
			return wc.status ? "a receive fails" : "a receive is used twice";
		seen[wc.wr_id] = true;
	}
	return NULL;
}

static void pds(void)
{
	together(round_pd, NULL);
}

static void mrs(void)
{
	together(round_mr, NULL);
}

static void cqs(void)
{
	together(round_cq, NULL);
}

static void ahs(void)
{
	shared.path = address_of(near, far);
	together(round_ah, NULL);
}

static void srqs(void)
{
	if (!near->attr.max_srq)
		lacking("SRQs");
	together(round_srq, NULL);
}

static void qps(void)
{
	shared.p.a = make_qp(near, IBV_QPT_RC);
	together(round_qp, NULL);
}

static void one_qp(void)
{
	shared.p = make_pair(IBV_QPT_RC);
	together(round_query, NULL);
}

static void sends(void)
{
	shared.p = make_pair(IBV_QPT_RC);
	together(round_send, poll_sends);
}

static void receives(void)
{
	shared.srq = NULL;
	shared.p = make_pair(IBV_QPT_RC);
	together(round_receive, feed);
}

static void shared_receives(void)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 16, .max_sge = 1}};
	struct ibv_qp_init_attr qp = small_qp(near, IBV_QPT_RC);
	int error = try_srq(near, &init, &shared.srq);

	if (error)
		lacking("SRQs: %s", errno_name(error));
	qp.srq = shared.srq;
	shared.p = (struct pair){make_qp_as(near, &qp), make_qp(far, IBV_QPT_RC)};
	connect_pair(&shared.p);
	together(round_receive, feed);
}

static const char safe[] = "libibverbs/README of rdma-core: verbs are thread-safe";

static const struct row rows[] = {
	{"make/pd", safe, "4 threads allocate and free 100 PDs each", "success", pds},
	{"make/mr", safe, "4 threads register and deregister 100 regions each", "success", mrs},
	{"make/cq", safe, "4 threads create and destroy 100 CQs each", "success", cqs},
	{"make/ah", safe, "4 threads create and destroy 100 address handles each", "success", ahs},
	{"make/srq", safe, "4 threads create and destroy 100 SRQs each", "success", srqs},
	{"make/qp", safe, "4 threads create, move to init and destroy 100 queue pairs each", "success", qps},
	{"use/modify", safe, "4 threads modify and query one queue pair 100 times each", "success; rts", one_qp},
	{"use/send", safe, "4 threads post 100 WRITEs each to one queue pair", "each completion once", sends},
	{"use/receive", safe, "4 threads post 100 receives each to one queue pair", "each is used once", receives},
	{"use/srq", safe, "4 threads post 100 receives each to one SRQ", "each is used once", shared_receives},
	{0},
};

struct group threads_group = {"threads", .rows = rows};
