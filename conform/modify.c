/* SPDX-License-Identifier: BSD-2-Clause */
/* Transitions of queue pairs: each with each attribute. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "conform.h"
#include "states.h"

#define APM (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)

static const enum ibv_qp_type types[] = {IBV_QPT_RC,	   IBV_QPT_UC,	     IBV_QPT_UD,
					 IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV, IBV_QPT_RAW_PACKET};

enum what { BARE, NO_SUCH, WITHOUT, OPTIONAL, IGNORED, REFUSED };

/* Attributes that the kernel takes out of the mask of a type: modify_qp_mask() in drivers/infiniband/core/uverbs_cmd.c.
 */
static int ignored(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_XRC_SEND:
		return IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	case IBV_QPT_XRC_RECV:
		return IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
	default:
		return 0;
	}
}

static struct variant {
	enum ibv_qp_type type;
	enum ibv_qp_state from, to;
	enum what what;
	int bit;
} variants[4000];

static unsigned add_variants(unsigned n, enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to)
{
	struct masks m = transition(type, from, to);

	variants[n++] = (struct variant){type, from, to, m.required < 0 ? NO_SUCH : BARE, IBV_QP_STATE};
	for (int bit = IBV_QP_CUR_STATE; m.required >= 0 && bit < 1 << ATTRIBUTES; bit <<= 1) {
		enum what what = m.required & bit      ? WITHOUT
				 : m.optional & bit    ? OPTIONAL
				 : ignored(type) & bit ? IGNORED
						       : REFUSED;

		if (bit != IBV_QP_CAP) /* resizing queues: where a device has that, CAP is optional */
			variants[n++] = (struct variant){type, from, to, what, bit};
	}
	return n;
}

static unsigned count_variants(void)
{
	unsigned n = 0;

	for (size_t t = 0; t < COUNT(types); t++) {
		bool fails_alone = types[t] == IBV_QPT_UC || types[t] == IBV_QPT_UD;

		for (int from = IBV_QPS_RESET; from <= IBV_QPS_ERR; from++)
			for (int to = IBV_QPS_RESET; (from != IBV_QPS_SQE || fails_alone) && to <= IBV_QPS_ERR; to++)
				n = add_variants(n, types[t], from, to);
	}
	return n;
}

static void variant_rule(unsigned i, struct rule *r)
{
	static const char *const words[] = {"", "", "without-", "with-", "with-", "with-"};
	static const char *const said[] = {"", "", ", without ", ", and ", ", and ", ", and "};
	const struct variant *v = &variants[i];
	bool alone = v->what == BARE || v->what == NO_SUCH;

	snprintf(r->id, sizeof(r->id), "modify/%s/%s-%s%s%s%s", type_name(v->type), state_name(v->from),
		 state_name(v->to), alone ? "" : "/", words[v->what], alone ? "" : attribute_name(v->bit));
	r->source = v->what == IGNORED
			    ? "Linux core/uverbs_cmd.c: modify_qp_mask()"
			    : "IBTA 11.2.5.2, table 91; Linux core/verbs.c: qp_state_table, ib_modify_qp_is_ok()";
	snprintf(r->does, sizeof(r->does), "ibv_modify_qp(%s) from %s to %s with what that requires%s%s",
		 type_name(v->type), state_name(v->from), state_name(v->to), said[v->what],
		 alone ? "" : attribute_name(v->bit));
	snprintf(r->expects, sizeof(r->expects), "%s",
		 v->what == BARE || v->what == OPTIONAL || v->what == IGNORED ? "succeeds; the new state is queried"
									      : "EINVAL; the state stays");
}

static void check_variant(unsigned i)
{
	const struct variant *v = &variants[i];
	struct masks m = transition(v->type, v->from, v->to);
	struct qp qp = make_qp(near, v->type);
	struct ibv_qp_attr a = attributes(&qp, &qp), seen;
	bool takes = v->what == BARE || v->what == OPTIONAL || v->what == IGNORED;
	int mask = m.required < 0 ? IBV_QP_STATE : IBV_QP_STATE | m.required, error;

	if (v->what != BARE && v->what != NO_SUCH)
		mask ^= v->bit;
	bring(&qp, &qp, IBV_QPS_RESET, v->from);
	a.cur_qp_state = v->from;
	a.qp_state = v->to;
	error = modify(&qp, &a, mask);
	expect_errno("ibv_query_qp", query(&qp, &seen), 0);
	if (error == EOPNOTSUPP ||
	    (error && takes && v->bit & APM && !(near->attr.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG)))
		lacking("%s: %s", v->what == BARE ? state_name(v->to) : attribute_name(v->bit), strerror(error));
	if (takes && v->bit == IBV_QP_ALT_PATH && near->port.link_layer == IBV_LINK_LAYER_ETHERNET) {
		if (error)
			lacking("alternate paths on RoCE: %s", errno_name(error));
		unusual("an alternate path on RoCE, where Linux's _ib_modify_qp() has none");
	}
	if (!error && !takes && v->from == IBV_QPS_RESET && v->to == IBV_QPS_ERR)
		unusual("it is accepted (IBTA permits ERR from any state)");
	if (takes)
		expect_errno("ibv_modify_qp", error, 0);
	else if (!error)
		wrong("it is accepted; the state is %s", state_name(seen.qp_state));
	if (seen.qp_state != (takes ? v->to : v->from))
		wrong("the state is %s afterwards", state_name(seen.qp_state));
	if (error && error != EINVAL)
		unusual("refused with %s", strerror(error));
}

struct group modify_group = {"modify", .counted = count_variants, .rule = variant_rule, .check = check_variant};

/* Values out of range. */
struct bad {
	const char *name;
	enum ibv_qp_state from, to;
	int bit;
	void (*set)(struct ibv_qp_attr *a, const struct end *e);
	const char *says, *source;
	bool may_pass; /* permitted: the value is cut, not refused */
};

#define SET(name, ...)                                                     \
	static void set_##name(struct ibv_qp_attr *a, const struct end *e) \
	{                                                                  \
		__VA_ARGS__;                                               \
	}
SET(port_0, a->port_num = 0)
SET(port_high, a->port_num = (uint8_t)(e->attr.phys_port_cnt + 1))
SET(pkey, a->pkey_index = e->attr.max_pkeys)
SET(access, a->qp_access_flags = 1u << 19)
SET(mtu_0, a->path_mtu = 0)
SET(mtu_high, a->path_mtu = IBV_MTU_4096 + 1)
SET(av_port, a->ah_attr.port_num = (uint8_t)(e->attr.phys_port_cnt + 1))
SET(sgid, a->ah_attr.grh.sgid_index = (uint8_t)(e->port.gid_tbl_len < 254 ? e->port.gid_tbl_len : 254))
SET(sgid_255, a->ah_attr.grh.sgid_index = 255)
SET(no_grh, a->ah_attr.is_global = 0; a->ah_attr.dlid = 1)
SET(dgid_0, a->ah_attr.grh.dgid = (union ibv_gid){0})
SET(dest_rd, a->max_dest_rd_atomic = (uint8_t)(e->attr.max_qp_rd_atom + 1))
SET(rd, a->max_rd_atomic = (uint8_t)(e->attr.max_qp_init_rd_atom + 1))
SET(rnr_timer, a->min_rnr_timer = 32)
SET(dest_qpn, a->dest_qp_num = 1u << 24 | 5)
SET(timeout, a->timeout = 32)
SET(retry, a->retry_cnt = 8)
SET(rnr_retry, a->rnr_retry = 8)
SET(cur, a->cur_qp_state = IBV_QPS_INIT)
SET(cur_high, a->cur_qp_state = IBV_QPS_UNKNOWN)
SET(alt_port, a->alt_port_num = (uint8_t)(e->attr.phys_port_cnt + 1))
SET(alt_av_port, a->alt_ah_attr.port_num = (uint8_t)(e->attr.phys_port_cnt + 1))
SET(state_high, a->qp_state = IBV_QPS_UNKNOWN)
SET(state_99, a->qp_state = (enum ibv_qp_state)99)

static const char uverbs[] = "Linux core/uverbs_cmd.c: modify_qp()";
static const char ah_check[] = "Linux core/verbs.c: rdma_check_ah_attr()";
static const char limits[] = "IBTA 11.2.5.2; Linux sw/rxe/rxe_qp.c: rxe_qp_chk_attr()";

static const struct bad bad[] = {
	{"port-0", IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PORT, set_port_0, "port_num 0", uverbs},
	{"port-high", IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PORT, set_port_high, "port_num above the number of ports",
	 uverbs},
	{"pkey-index-high", IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX, set_pkey, "pkey_index max_pkeys",
	 "IBTA 11.2.5.2; Linux core/security.c: port_pkey_list"},
	{"access-unknown", IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_ACCESS_FLAGS, set_access,
	 "an access flag that there is not", "ibv_modify_qp(3)", true},
	{"mtu-0", IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_PATH_MTU, set_mtu_0, "path_mtu 0", limits},
	{"mtu-high", IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_PATH_MTU, set_mtu_high, "path_mtu above 4096", limits},
	{"av-port-high", IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_AV, set_av_port, "a path from a port that there is not",
	 ah_check},
	{"sgid-index-high", IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_AV, set_sgid, "a path with sgid_index gid_tbl_len",
	 ah_check},
	{"sgid-index-255", IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_AV, set_sgid_255, "a path with sgid_index 255 (-1)",
	 ah_check},
	{"no-grh", IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_AV, set_no_grh, "a path without a GRH, on RoCE", ah_check},
	{"dgid-0", IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_AV, set_dgid_0, "a path to the GID 0",
	 "Linux core/verbs.c: ib_resolve_unicast_gid_dmac()"},
	{"dest-rd-high", IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_MAX_DEST_RD_ATOMIC, set_dest_rd,
	 "max_dest_rd_atomic above max_qp_rd_atom", limits},
	{"rnr-timer-high", IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_MIN_RNR_TIMER, set_rnr_timer, "min_rnr_timer 32", limits,
	 true},
	{"dest-qpn-high", IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_DEST_QPN, set_dest_qpn, "dest_qp_num of 25 bits",
	 "IBTA 9.2", true},
	{"timeout-high", IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_TIMEOUT, set_timeout, "timeout 32", limits, true},
	{"retry-high", IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_RETRY_CNT, set_retry, "retry_cnt 8", limits, true},
	{"rnr-retry-high", IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_RNR_RETRY, set_rnr_retry, "rnr_retry 8", limits, true},
	{"rd-high", IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_MAX_QP_RD_ATOMIC, set_rd,
	 "max_rd_atomic above max_qp_init_rd_atom", limits},
	{"cur-state-init", IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_CUR_STATE, set_cur, "cur_qp_state init, which is not so",
	 "Linux core/verbs.c: ib_modify_qp_is_ok()"},
	{"cur-state-high", IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_CUR_STATE, set_cur_high, "cur_qp_state 7", uverbs},
	{"alt-port-high", IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_ALT_PATH, set_alt_port, "alt_port_num that there is not",
	 uverbs},
	{"alt-av-port-high", IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_ALT_PATH, set_alt_av_port,
	 "an alternate path from a port that there is not", uverbs},
	{"state-high", IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_STATE, set_state_high, "qp_state 7", uverbs},
	{"state-99", IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_STATE, set_state_99, "qp_state 99", uverbs},
};
static const enum ibv_qp_type valued[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_XRC_SEND, IBV_QPT_UD};

/* A row of `bad` for a type that has the attribute. */
static struct {
	const struct bad *bad;
	enum ibv_qp_type type;
} values[COUNT(bad) * COUNT(valued)];

static unsigned count_values(void)
{
	unsigned n = 0;

	for (size_t t = 0; t < COUNT(valued); t++) {
		for (size_t i = 0; i < COUNT(bad); i++) {
			struct masks m = transition(valued[t], bad[i].from, bad[i].to);

			if (!((IBV_QP_STATE | m.required | m.optional) & bad[i].bit))
				continue;
			values[n].bad = &bad[i];
			values[n++].type = valued[t];
		}
	}
	return n;
}

static void value_rule(unsigned i, struct rule *r)
{
	const struct bad *b = values[i].bad;

	snprintf(r->id, sizeof(r->id), "values/%s/%s", type_name(values[i].type), b->name);
	r->source = b->source;
	snprintf(r->does, sizeof(r->does), "ibv_modify_qp(%s) from %s to %s with %s", type_name(values[i].type),
		 state_name(b->from), state_name(b->to), b->says);
	snprintf(r->expects, sizeof(r->expects), "EINVAL; the state stays%s",
		 b->may_pass ? " (permitted: it is cut)" : "");
}

static void check_value(unsigned i)
{
	const struct bad *b = values[i].bad;
	struct qp qp = make_qp(near, values[i].type);
	struct ibv_qp_attr a = attributes(&qp, &qp), seen;
	int error,
		limit = b->bit == IBV_QP_MAX_QP_RD_ATOMIC ? near->attr.max_qp_init_rd_atom : near->attr.max_qp_rd_atom;

	if (b->set == set_no_grh && near->port.link_layer != IBV_LINK_LAYER_ETHERNET)
		lacking("RoCE");
	if ((b->bit == IBV_QP_MAX_QP_RD_ATOMIC || b->bit == IBV_QP_MAX_DEST_RD_ATOMIC) && limit >= 255)
		lacking("a limit below 255");
	if (b->bit == IBV_QP_ALT_PATH && !(near->attr.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG))
		lacking("alternate paths");
	if (b->bit == IBV_QP_AV && b->set != set_no_grh && b->set != set_av_port &&
	    near->port.link_layer != IBV_LINK_LAYER_ETHERNET)
		lacking("RoCE");
	if (b->bit == IBV_QP_PKEY_INDEX && !near->attr.max_pkeys)
		lacking("P_Keys");
	bring(&qp, &qp, IBV_QPS_RESET, b->from);
	a.cur_qp_state = b->from;
	a.qp_state = b->to;
	b->set(&a, near);
	error = modify(&qp, &a, IBV_QP_STATE | transition(values[i].type, b->from, b->to).required | b->bit);
	expect_errno("ibv_query_qp", query(&qp, &seen), 0);
	if (!error && b->may_pass)
		unusual("it is accepted, and cut or ignored");
	if (!error)
		wrong("it is accepted");
	if (seen.qp_state != b->from)
		wrong("the state is %s afterwards", state_name(seen.qp_state));
	if (error != EINVAL)
		unusual("refused with %s", strerror(error));
}

struct group values_group = {"values", .counted = count_values, .rule = value_rule, .check = check_value};
