// SPDX-License-Identifier: BSD-2-Clause
/* check_me CASE wrong|right: does one thing wrong, or the same right. Without arguments it lists the cases: the name,
 * and what `uroce check` must find in the wrong one: "name of the finding", at "function of the place". Plain
 * libibverbs and librdmacm. */
#include "pair.h"

#include <rdma/rdma_cma.h>

/* ---- leaks ---- */

static void leak_region(bool wrong)
{
	struct pair p;
	struct ibv_mr *mr;

	context_open(&p);
	MUST(mr = ibv_reg_mr(p.pd, &p, sizeof(p), 0));
	if (!wrong)
		ZERO(ibv_dereg_mr(mr));
	if (!wrong)
		context_close(&p);
}

static void leak_cq(bool wrong)
{
	struct pair p;
	struct ibv_cq *cq;

	context_open(&p);
	MUST(cq = ibv_create_cq(p.context, 4, NULL, NULL, 0));
	if (!wrong)
		ZERO(ibv_destroy_cq(cq));
	context_close(&p);
}

static void leak_qp(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){.is_idle = true});
	if (!wrong)
		pair_close(&p);
}

static void leak_srq(bool wrong)
{
	struct ibv_srq_init_attr attr = {.attr = {4, 1}};
	struct ibv_srq *srq;
	struct pair p;

	context_open(&p);
	MUST(srq = ibv_create_srq(p.pd, &attr));
	if (wrong)
		return;
	ZERO(ibv_destroy_srq(srq));
	context_close(&p);
}

static void leak_ah(bool wrong)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}};
	struct ibv_ah *ah;
	struct pair p;

	context_open(&p);
	ZERO(ibv_query_gid(p.context, 1, 0, &attr.grh.dgid));
	MUST(ah = ibv_create_ah(p.pd, &attr));
	if (wrong)
		return;
	ZERO(ibv_destroy_ah(ah));
	context_close(&p);
}

static void leak_window(bool wrong)
{
	struct ibv_mw *mw;
	struct pair p;

	context_open(&p);
	MUST(mw = ibv_alloc_mw(p.pd, IBV_MW_TYPE_1));
	if (wrong)
		return;
	ZERO(ibv_dealloc_mw(mw));
	context_close(&p);
}

static void leak_context(bool wrong)
{
	struct pair p;

	context_open(&p);
	if (wrong) {
		ZERO(ibv_destroy_comp_channel(p.channel));
		ZERO(ibv_dealloc_pd(p.pd));
	} else {
		context_close(&p);
	}
}

static void leak_pd(bool wrong)
{
	struct pair p;

	context_open(&p);
	if (!wrong)
		ZERO(ibv_dealloc_pd(p.pd));
	ZERO(ibv_destroy_comp_channel(p.channel));
	ZERO(ibv_close_device(p.context));
}

static void leak_channel(bool wrong)
{
	struct pair p;

	context_open(&p);
	if (!wrong)
		ZERO(ibv_destroy_comp_channel(p.channel));
	ZERO(ibv_dealloc_pd(p.pd));
	ZERO(ibv_close_device(p.context));
}

static void leak_id(bool wrong)
{
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;

	MUST(channel = rdma_create_event_channel());
	ZERO(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	if (!wrong)
		ZERO(rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

static void leak_event_channel(bool wrong)
{
	struct rdma_event_channel *channel;

	MUST(channel = rdma_create_event_channel());
	if (!wrong)
		rdma_destroy_event_channel(channel);
}

/* ---- habits ---- */

static void region_outlives_pd(bool wrong)
{
	struct ibv_mr *mr;
	struct pair p;

	context_open(&p);
	MUST(mr = ibv_reg_mr(p.pd, &p, sizeof(p), 0));
	if (wrong)
		MUST(ibv_dealloc_pd(p.pd) == EBUSY);
	ZERO(ibv_dereg_mr(mr));
	context_close(&p);
}

static void qp_outlives_cq(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){.is_idle = true});
	if (wrong)
		MUST(ibv_destroy_cq(p.a.cq) == EBUSY);
	pair_close(&p);
}

static void cq_outlives_channel(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){.is_idle = true});
	if (wrong)
		MUST(ibv_destroy_comp_channel(p.channel) == EBUSY);
	pair_close(&p);
}

static const struct row {
	const char *name;
	void (*run)(bool wrong);
	const char *finding, *place;
} rows[] = {
	{"leak_region", leak_region, "leak-region", "leak_region"},
	{"leak_cq", leak_cq, "leak-cq", "leak_cq"},
	{"leak_qp", leak_qp, "leak-qp", "end_open"},
	{"leak_srq", leak_srq, "leak-srq", "leak_srq"},
	{"leak_ah", leak_ah, "leak-ah", "leak_ah"},
	{"leak_window", leak_window, "leak-window", "leak_window"},
	{"leak_context", leak_context, "leak-context", "context_open"},
	{"leak_pd", leak_pd, "leak-pd", "context_open"},
	{"leak_channel", leak_channel, "leak-channel", "context_open"},
	{"leak_id", leak_id, "leak-id", "leak_id"},
	{"leak_event_channel", leak_event_channel, "leak-event-channel", "leak_event_channel"},
	{"region_outlives_pd", region_outlives_pd, "destroyed-in-use", "region_outlives_pd"},
	{"qp_outlives_cq", qp_outlives_cq, "destroyed-in-use", "qp_outlives_cq"},
	{"cq_outlives_channel", cq_outlives_channel, "destroyed-in-use", "cq_outlives_channel"},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (argc < 3) {
			printf("%s %s %s\n", rows[i].name, rows[i].finding, rows[i].place);
		} else if (!strcmp(argv[1], rows[i].name)) {
			rows[i].run(!strcmp(argv[2], "wrong"));
			return 0;
		}
	return argc < 3 ? 0 : 2;
}
