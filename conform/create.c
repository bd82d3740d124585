/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits of creation, what is granted, inline data, and what may not be destroyed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "conform.h"
#include "states.h"

static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND};

enum field { SEND_WR, RECV_WR, SEND_SGE, RECV_SGE, FIELDS };
enum amount { NONE, ONE, ODD, SOME, MOST, MORE, FAR_MORE, AMOUNTS };

static const char *const field_names[FIELDS] = {"max_send_wr", "max_recv_wr", "max_send_sge", "max_recv_sge"};
static const char *const amount_names[AMOUNTS] = {"0", "1", "3", "100", "limit", "limit+1", "1000000"};

static struct row_of {
	enum ibv_qp_type type;
	enum field field;
	enum amount amount;
} made[COUNT(types) * FIELDS * AMOUNTS];

static unsigned count_rows(void)
{
	unsigned n = 0;

	for (size_t t = 0; t < COUNT(types); t++)
		for (int f = 0; f < FIELDS; f++)
			for (int a = 0; a < AMOUNTS; a++)
				if (types[t] != IBV_QPT_XRC_SEND || f == SEND_WR || f == SEND_SGE)
					made[n++] = (struct row_of){types[t], f, a};
	return n;
}

static void create_rule(unsigned i, struct rule *r)
{
	enum amount amount = made[i].amount;
	enum field field = made[i].field;

	snprintf(r->id, sizeof(r->id), "create/%s/%s-%s", type_name(made[i].type), field_names[field],
		 amount_names[amount]);
	r->source = amount >= MORE ? "IBTA 11.2.4.1; Linux sw/rxe/rxe_qp.c: rxe_qp_chk_cap()"
				   : "IBTA 11.2.4.1; ibv_create_qp(3)";
	snprintf(r->does, sizeof(r->does), "create a queue pair of %s with %s %s", type_name(made[i].type),
		 field_names[field], amount_names[amount]);
	snprintf(r->expects, sizeof(r->expects), "%s",
		 amount >= MORE ? "EINVAL (permitted: ENOMEM)" : "as many as asked, or more; that many can be posted");
}

static uint32_t limit_of(enum field field)
{
	return (uint32_t)(field < SEND_SGE ? near->attr.max_qp_wr : near->attr.max_sge);
}

/* Posts as many receives, or sends in err, as were asked for. */
static void use(struct qp *qp, enum field field, uint32_t asked)
{
	struct ibv_ah_attr own = address_of(near, near);
	struct ibv_sge sges[CALL_SGES];
	struct ibv_ah *ah = NULL;
	uint32_t count = field < SEND_SGE ? asked : 1, sge = field < SEND_SGE ? 1 : asked;

	if (count > 300 || sge > CALL_SGES || qp->type == IBV_QPT_XRC_SEND)
		return;
	for (uint32_t i = 0; i < sge; i++)
		sges[i] = (struct ibv_sge){.addr = near->arena + i, .length = 1, .lkey = near->lkey};
	if (qp->type == IBV_QPT_UD)
		expect_errno("ibv_create_ah", try_ah(near, &own, &ah), 0);
	for (uint32_t i = 0; i < count; i++) {
		struct ibv_send_wr wr = {.wr_id = i,
					 .wr.ud = {.ah = ah, .remote_qpn = qp->num},
					 .opcode = IBV_WR_SEND,
					 .sg_list = sges,
					 .num_sge = (int)sge};
		int error = field == RECV_WR || field == RECV_SGE ? post_receive_sges(qp, i, sges, (int)sge)
								  : post(qp, &wr);

		if (error)
			wrong("request %u of %u, of %u SGEs, is refused: %s", i + 1, count, sge, errno_name(error));
	}
}

static void expect_granted(const struct ibv_qp_cap *cap, enum field field, uint32_t asked, uint32_t most)
{
	const uint32_t granted[FIELDS] = {cap->max_send_wr, cap->max_recv_wr, cap->max_send_sge, cap->max_recv_sge};

	if (granted[field] < asked)
		wrong("%u are granted, of %u", granted[field], asked);
	if (granted[field] > most && asked)
		unusual("%u are granted, above the limit of %u", granted[field], most);
}

static void check_create(unsigned i)
{
	enum amount amount = made[i].amount;
	enum field field = made[i].field;
	struct ibv_qp_init_attr init = small_qp(near, made[i].type);
	uint32_t *const fields[FIELDS] = {&init.cap.max_send_wr, &init.cap.max_recv_wr, &init.cap.max_send_sge,
					  &init.cap.max_recv_sge};
	uint32_t most = limit_of(field), asked;
	const uint32_t amounts[AMOUNTS] = {0, 1, 3, 100, most, most + 1, 1000000};
	struct qp qp;
	int error;

	make_qp_as(near, &init);
	asked = *fields[field] = amounts[amount];
	if (amount < MOST && asked > most)
		lacking("%u of %s", asked, field_names[field]);
	error = try_qp(&qp, near, &init);
	if (amount >= MORE && asked > most) {
		if (!error)
			wrong("it is granted: the limit is %u", most);
		if (error == ENOMEM)
			unusual("ENOMEM");
		expect_errno("ibv_create_qp", error, EINVAL);
		return;
	}
	if (error == ENOMEM && asked > 1000)
		unusual("ENOMEM: there may be less room than the limit");
	expect_errno("ibv_create_qp", error, 0);
	expect_granted(&qp.cap, field, asked, most);
	if (field == RECV_WR || field == RECV_SGE)
		bring(&qp, &qp, IBV_QPS_RESET, IBV_QPS_INIT);
	else
		bring(&qp, &qp, IBV_QPS_RESET, IBV_QPS_ERR);
	if (field == SEND_WR && asked > 50)
		return; /* the CQ has 64 places */
	use(&qp, field, asked);
}

struct group create_group = {"create", .counted = count_rows, .rule = create_rule, .check = check_create};

static void full_queue(bool of_receives)
{
	struct ibv_qp_init_attr init = small_qp(near, IBV_QPT_RC);
	struct qp qp;
	uint32_t taken = 0, most;
	int error = 0;

	init.cap.max_send_wr = init.cap.max_recv_wr = 3;
	qp = make_qp_as(near, &init);
	most = of_receives ? qp.cap.max_recv_wr : qp.cap.max_send_wr;
	bring(&qp, &qp, IBV_QPS_RESET, of_receives ? IBV_QPS_INIT : IBV_QPS_SQD);
	for (; !error && taken <= most + 1000; taken++) {
		struct ibv_send_wr wr = {.wr_id = taken, .opcode = IBV_WR_SEND};

		error = of_receives ? post_receive(&qp, taken, 0, 8) : post(&qp, &wr);
	}
	if (taken - 1 > most)
		unusual("%u requests are taken, of %u", taken - 1, most);
	expect("requests taken", (long)taken - 1, (long)most);
	expect_errno(of_receives ? "ibv_post_recv" : "ibv_post_send", error, ENOMEM);
}

static void full_sends(void)
{
	full_queue(false);
}

static void full_receives(void)
{
	full_queue(true);
}

static void many_sges(void)
{
	struct qp qp = make_qp(near, IBV_QPT_RC);
	struct ibv_sge sges[CALL_SGES];
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = sges, .num_sge = (int)qp.cap.max_send_sge + 1};

	if (wr.num_sge > CALL_SGES)
		lacking("fewer than %u SGEs", CALL_SGES);
	for (int i = 0; i < wr.num_sge; i++)
		sges[i] = (struct ibv_sge){.addr = near->arena, .length = 1, .lkey = near->lkey};
	bring(&qp, &qp, IBV_QPS_RESET, IBV_QPS_RTS);
	expect_errno("ibv_post_send", post(&qp, &wr), EINVAL);
	if (qp.cap.max_recv_sge + 1 > CALL_SGES)
		return;
	expect_errno("ibv_post_recv", post_receive_sges(&qp, 0, sges, (int)qp.cap.max_recv_sge + 1), EINVAL);
}

static void inline_limit(void)
{
	struct ibv_qp_init_attr init = small_qp(near, IBV_QPT_RC);
	struct ibv_sge sge = {.addr = near->arena};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
				 .sg_list = &sge,
				 .num_sge = 1};
	struct qp qp;
	int error;

	init.cap.max_inline_data = 32;
	error = try_qp(&qp, near, &init);
	if (error)
		lacking("inline data: %s", errno_name(error));
	if (qp.cap.max_inline_data < 32)
		wrong("max_inline_data is %u, of 32", qp.cap.max_inline_data);
	bring(&qp, &qp, IBV_QPS_RESET, IBV_QPS_RTS);
	sge.length = qp.cap.max_inline_data;
	expect_errno("ibv_post_send", post(&qp, &wr), 0);
	sge.length = qp.cap.max_inline_data + 1;
	error = post(&qp, &wr);
	if (error == ENOMEM)
		unusual("ENOMEM");
	expect_errno("ibv_post_send, a byte more", error, EINVAL);
}

static void inline_too_much(void)
{
	struct ibv_qp_init_attr init = small_qp(near, IBV_QPT_RC);
	struct qp qp;
	int error;

	make_qp_as(near, &init);
	init.cap.max_inline_data = 1u << 20;
	error = try_qp(&qp, near, &init);
	if (!error)
		wrong("1 MiB of inline data is granted");
	if (error == ENOMEM)
		unusual("ENOMEM");
	expect_errno("ibv_create_qp", error, EINVAL);
}

static void inline_key(void)
{
	struct pair p = {.b = make_qp(far, IBV_QPT_RC)};
	struct ibv_qp_init_attr init = small_qp(near, IBV_QPT_RC);
	struct ibv_sge sge = {.addr = near->arena, .length = 8, .lkey = ~near->lkey};
	struct ibv_send_wr wr = {.wr_id = 3,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
				 .sg_list = &sge,
				 .num_sge = 1};

	init.cap.max_inline_data = 8;
	p.a = make_qp_as(near, &init);
	connect_pair(&p);
	expect_errno("ibv_post_recv", post_receive(&p.b, 1, 0, 64), 0);
	expect_errno("ibv_post_send", post(&p.a, &wr), 0);
	expect_status(near, p.a.scq, 3, IBV_WC_SUCCESS);
}

static void busy(struct end *e, const char *what, void *object)
{
	int error = destroy(e, object);

	if (!error)
		wrong("the %s is destroyed though it is in use", what);
	if (error == EINVAL)
		unusual("EINVAL");
	expect_errno("the destroy call", error, EBUSY);
}

static void cq_in_use(void)
{
	struct qp qp = make_qp(near, IBV_QPT_RC);

	busy(near, "CQ", qp.scq);
}

static void mr_with_window(void)
{
	struct pair p = make_pair(IBV_QPT_RC);
	uint32_t lkey, rkey, key;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	int error = try_mw(near, IBV_MW_TYPE_1, &mw, &key);

	if (error)
		lacking("windows of type 1: %s", errno_name(error));
	expect_errno("ibv_reg_mr",
		     try_mr(near, 0, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND, &mr, &lkey, &rkey), 0);
	expect_errno("ibv_bind_mw", bind_mw(&p.a, mw, mr, 1, 0, 64, IBV_ACCESS_REMOTE_WRITE, &key), 0);
	expect_status(near, p.a.scq, 1, IBV_WC_SUCCESS);
	busy(near, "region", mr);
	expect_errno("ibv_dealloc_mw", destroy(near, mw), 0);
	expect_errno("ibv_dereg_mr", destroy(near, mr), 0);
}

static void pd_in_use(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(end_context(near));
	struct ibv_mr *mr;
	char page[4096];
	int error;

	if (!pd)
		wrong("ibv_alloc_pd: %s", errno_name(errno));
	mr = ibv_reg_mr(pd, page, sizeof(page), IBV_ACCESS_LOCAL_WRITE);
	error = ibv_dealloc_pd(pd);
	expect_errno("ibv_dealloc_pd", error, EBUSY);
	expect_errno("ibv_dereg_mr", ibv_dereg_mr(mr), 0);
	expect_errno("ibv_dealloc_pd", ibv_dealloc_pd(pd), 0);
}

static void srq_in_use(void)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 16, .max_sge = 1}};
	struct ibv_qp_init_attr init = small_qp(near, IBV_QPT_RC);
	int error = try_srq(near, &attr, &init.srq);

	if (error)
		lacking("SRQs: %s", errno_name(error));
	make_qp_as(near, &init);
	busy(near, "SRQ", init.srq);
}

static void cq_depth(int depth, int expected)
{
	struct ibv_cq *cq;
	int error = try_cq(near, depth, &cq);

	if (error == ENOMEM && expected)
		unusual("ENOMEM");
	expect_errno("ibv_create_cq", error, expected);
}

static void cq_of_none(void)
{
	cq_depth(0, EINVAL);
}

static void cq_too_deep(void)
{
	if (near->attr.max_cqe >= 0x7fffffff)
		lacking("a limit");
	cq_depth(near->attr.max_cqe + 1, EINVAL);
}

static void cq_of_vector(void)
{
	struct ibv_context *c = end_context(near);
	struct ibv_cq *cq = ibv_create_cq(c, 10, NULL, NULL, c->num_comp_vectors);

	if (!cq) {
		expect_errno("ibv_create_cq", errno, EINVAL);
		return;
	}
	ibv_destroy_cq(cq);
	wrong("comp_vector %d is granted, of %d", c->num_comp_vectors, c->num_comp_vectors);
}

static void cq_granted(void)
{
	struct ibv_cq *cq = ibv_create_cq(end_context(near), 100, (void *)7, NULL, 0);
	int granted;

	if (!cq)
		wrong("ibv_create_cq: %s", errno_name(errno));
	granted = cq->cqe;
	expect("cq_context", (long)cq->cq_context, 7);
	ibv_destroy_cq(cq);
	if (granted < 100)
		wrong("%d are granted, of 100", granted);
}

static const struct row rows[] = {
	{"post/full-send-queue", "ibv_post_send(3): ENOMEM", "post sends in sqd until one is refused",
	 "ENOMEM after max_send_wr of them", full_sends},
	{"post/full-receive-queue", "ibv_post_recv(3): ENOMEM", "post receives in init until one is refused",
	 "ENOMEM after max_recv_wr of them", full_receives},
	{"post/sges", "ibv_post_send(3): EINVAL; IBTA 10.7.3.1", "requests with more SGEs than granted", "EINVAL",
	 many_sges},
	{"inline/limit", "ibv_post_send(3), ibv_create_qp(3)", "as much inline data as granted, and a byte more",
	 "success, EINVAL", inline_limit},
	{"inline/too-much", "ibv_create_qp(3)", "a queue pair with 1 MiB of inline data", "EINVAL", inline_too_much},
	{"inline/lkey", "ibv_post_send(3): the L_Key is not checked", "an inline SEND with an L_Key that there is not",
	 "success", inline_key},
	{"busy/cq", "ibv_create_cq(3): EBUSY; IBTA 11.2.8.3", "destroy a CQ that a queue pair uses", "EBUSY",
	 cq_in_use},
	{"busy/mr", "IBTA 11.2.9.5; ibv_dereg_mr(3)", "deregister a region that a window is bound to",
	 "EBUSY; success without it", mr_with_window},
	{"busy/pd", "ibv_alloc_pd(3): EBUSY", "deallocate a PD that a region is of", "EBUSY; success without it",
	 pd_in_use},
	{"busy/srq", "ibv_create_srq(3): EBUSY", "destroy an SRQ that a queue pair uses", "EBUSY", srq_in_use},
	{"cq/0", "Linux core/uverbs_cmd.c: create_cq(), drivers: EINVAL", "a CQ of 0", "EINVAL", cq_of_none},
	{"cq/limit", "IBTA 11.2.8.1", "a CQ of max_cqe + 1", "EINVAL", cq_too_deep},
	{"cq/vector", "ibv_create_cq(3)", "a CQ of comp_vector num_comp_vectors", "EINVAL", cq_of_vector},
	{"cq/granted", "ibv_create_cq(3)", "a CQ of 100", "100 or more; its context", cq_granted},
	{0},
};

struct group limits_group = {"limits", .rows = rows};
