/* SPDX-License-Identifier: BSD-2-Clause */
/* `call NAME nth 1: refuse ERANGE`: each call that a rule can name, in each of its forms, is refused once with that
 * errno and changes nothing; made again, it does what it does. */
#include "verbs/fixture.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fault/calls.h"
#include "fault/inject.h"

#define ADDRESS "10.1.1.1" /* of loopback's device; ids that are bound to 127.0.0.1 have none */

static char memory[4096];
static struct side *sides;
static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;

/* Each makes one call. 0: it succeeded, and what it made is gone again; else the errno. */

static int query_device(void)
{
	struct ibv_device_attr a;

	return ibv_query_device(context, &a);
}

static int query_device_ex(void)
{
	struct ibv_device_attr_ex a;

	return ibv_query_device_ex(context, NULL, &a);
}

static int open_device(void)
{
	struct ibv_context *c = ibv_open_device(context->device);

	return c ? ibv_close_device(c) : errno;
}

static int query_port(void)
{
	struct ibv_port_attr a;

	return ibv_query_port(context, 1, &a);
}

static int query_port_of_old_programs(void)
{
	struct ibv_port_attr a;

	return (ibv_query_port)(context, 1, (struct _compat_ibv_port_attr *)&a);
}

static int query_gid(void)
{
	union ibv_gid gid;

	return ibv_query_gid(context, 1, 0, &gid) ? errno : 0;
}

static int query_gid_ex(void)
{
	struct ibv_gid_entry e;

	return ibv_query_gid_ex(context, 1, 0, &e, 0);
}

static int query_gid_table(void)
{
	struct ibv_gid_entry e[256];
	ssize_t count = ibv_query_gid_table(context, e, 256, 0);

	return count < 0 ? (int)-count : 0;
}

static int alloc_pd(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);

	return pd ? ibv_dealloc_pd(pd) : errno;
}

static int alloc_parent_domain(void)
{
	struct ibv_parent_domain_init_attr a = {.pd = sides->pd};
	struct ibv_pd *pd = ibv_alloc_parent_domain(context, &a);

	return pd ? ibv_dealloc_pd(pd) : errno;
}

static int end_region(struct ibv_mr *mr)
{
	return mr ? ibv_dereg_mr(mr) : errno;
}

static int reg_mr(void)
{
	return end_region(ibv_reg_mr(sides->pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE));
}

static int reg_mr_iova(void)
{
	return end_region(ibv_reg_mr_iova(sides->pd, memory, sizeof(memory), 0, IBV_ACCESS_LOCAL_WRITE));
}

static int reg_dmabuf_mr(void)
{
	int fd = memfd_create("memory", MFD_CLOEXEC), error;

	assert_int_equal(ftruncate(fd, sizeof(memory)), 0);
	error = end_region(ibv_reg_dmabuf_mr(sides->pd, 0, sizeof(memory), 0, fd, IBV_ACCESS_LOCAL_WRITE));
	close(fd);
	return error == EINVAL ? 0 : error; /* it is no dma-buf */
}

static int with_dm(bool registers)
{
	struct ibv_alloc_dm_attr a = {.length = 64};
	struct ibv_dm *dm = ibv_alloc_dm(context, &a);
	int error = dm ? 0 : errno;

	if (dm && registers)
		error = end_region(ibv_reg_dm_mr(sides->pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED));
	if (dm)
		assert_int_equal(ibv_free_dm(dm), 0);
	return error;
}

static int alloc_dm(void)
{
	return with_dm(false);
}

static int reg_dm_mr(void)
{
	return with_dm(true);
}

static int rereg_mr(void)
{
	return ibv_rereg_mr(sides->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL_ACCESS) ? errno : 0;
}

static int dereg_mr(void)
{
	static struct ibv_mr *mr;
	int error;

	mr = mr ?: ibv_reg_mr(sides->pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	error = ibv_dereg_mr(mr);
	mr = error ? mr : NULL;
	return error;
}

static int alloc_mw(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(sides->pd, IBV_MW_TYPE_2);

	return mw ? ibv_dealloc_mw(mw) : errno;
}

static int create_comp_channel(void)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(context);

	return ch ? ibv_destroy_comp_channel(ch) : errno;
}

static int create_cq(void)
{
	struct ibv_cq *cq = ibv_create_cq(context, 1, NULL, NULL, 0);

	return cq ? ibv_destroy_cq(cq) : errno;
}

static int create_cq_ex(void)
{
	struct ibv_cq_init_attr_ex a = {.cqe = 1};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &a);

	return cq ? ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) : errno;
}

static int resize_cq(void)
{
	return ibv_resize_cq(sides->cq, 64);
}

static int end_srq(struct ibv_srq *srq)
{
	return srq ? ibv_destroy_srq(srq) : errno;
}

static int create_srq(void)
{
	struct ibv_srq_init_attr a = {.attr = {.max_wr = 1, .max_sge = 1}};

	return end_srq(ibv_create_srq(sides->pd, &a));
}

static int create_srq_ex(void)
{
	struct ibv_srq_init_attr_ex a = {
		.attr = {.max_wr = 1, .max_sge = 1}, .comp_mask = IBV_SRQ_INIT_ATTR_PD, .pd = sides->pd};

	return end_srq(ibv_create_srq_ex(context, &a));
}

static int modify_srq(void)
{
	struct ibv_srq_init_attr a = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(sides->pd, &a);
	int error = ibv_modify_srq(srq, &(struct ibv_srq_attr){.srq_limit = 1}, IBV_SRQ_LIMIT);

	return end_srq(srq) ?: error;
}

static int open_xrcd(void)
{
	struct ibv_xrcd_init_attr a = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(context, &a);

	return xrcd ? ibv_close_xrcd(xrcd) : errno;
}

static int create_qp(void)
{
	struct ibv_qp *qp = make_qp(sides->pd, sides->cq, &(struct ibv_qp_cap){.max_send_wr = 1});

	return qp ? ibv_destroy_qp(qp) : errno;
}

static int create_qp_ex(void)
{
	struct ibv_qp_init_attr_ex a = {.send_cq = sides->cq,
					.recv_cq = sides->cq,
					.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = 1},
					.comp_mask = IBV_QP_INIT_ATTR_PD,
					.pd = sides->pd};
	struct ibv_qp *qp = ibv_create_qp_ex(context, &a);

	return qp ? ibv_destroy_qp(qp) : errno;
}

static int modify_qp(void)
{
	struct ibv_qp_attr a = attributes(IBV_QPS_INIT, sides->qp);

	return ibv_modify_qp(sides->qp, &a, INIT_MASK);
}

static int query_qp(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	return ibv_query_qp(sides->qp, &a, IBV_QP_STATE, &init);
}

static int create_ah(void)
{
	struct ibv_ah_attr a = attributes(IBV_QPS_INIT, sides->qp).ah_attr;
	struct ibv_ah *ah = ibv_create_ah(sides->pd, &a);

	return ah ? ibv_destroy_ah(ah) : errno;
}

static int with_group(bool attaches)
{
	const union ibv_gid group = {.raw = {[10] = 0xff, 0xff, 224, 0, 0, 99}};
	struct ibv_qp_init_attr a = {.send_cq = sides->cq, .recv_cq = sides->cq, .qp_type = IBV_QPT_UD};
	struct ibv_qp *qp;
	int error, left = 0;

	assert_non_null(qp = ibv_create_qp(sides->pd, &a));
	error = ibv_attach_mcast(qp, &group, 0);
	if (!error)
		left = ibv_detach_mcast(qp, &group, 0);
	if (left)
		assert_int_equal(ibv_detach_mcast(qp, &group, 0), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	return attaches ? error : error ?: left;
}

static int attach_mcast(void)
{
	return with_group(true);
}

static int detach_mcast(void)
{
	return with_group(false);
}

static int post_recv(void)
{
	struct ibv_recv_wr wr = {0}, *bad = NULL;
	int error = ibv_post_recv(sides->qp, &wr, &bad);

	assert_ptr_equal(bad, error ? &wr : NULL);
	return error;
}

static int create_event_channel(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();

	if (!ch)
		return errno;
	rdma_destroy_event_channel(ch);
	return 0;
}

static int create_id(void)
{
	struct rdma_cm_id *one;

	return rdma_create_id(channel, &one, NULL, RDMA_PS_TCP) || rdma_destroy_id(one) ? errno : 0;
}

static int address(struct rdma_addrinfo **info)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP};

	return rdma_getaddrinfo("127.0.0.1", "0", &hints, info) ? errno : 0;
}

static int getaddrinfo_of_rdma(void)
{
	struct rdma_addrinfo *info;
	int error = address(&info);

	if (!error)
		rdma_freeaddrinfo(info);
	return error;
}

static int create_ep(void)
{
	struct rdma_addrinfo *info;
	struct rdma_cm_id *one;
	int error;

	assert_int_equal(address(&info), 0);
	error = rdma_create_ep(&one, info, NULL, NULL) ? errno : 0;
	if (!error)
		rdma_destroy_ep(one);
	rdma_freeaddrinfo(info);
	return error;
}

static int set_option(void)
{
	uint8_t tos = 0;

	return rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)) ? errno : 0;
}

static int migrate_id(void)
{
	return rdma_migrate_id(id, channel) ? errno : 0;
}

static int with_qp(bool extended)
{
	struct ibv_qp_init_attr a = {.qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 1, .max_recv_wr = 1}};
	struct ibv_qp_init_attr_ex ex = {.qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 1, .max_recv_wr = 1}};

	if (extended ? rdma_create_qp_ex(id, &ex) : rdma_create_qp(id, NULL, &a))
		return errno;
	rdma_destroy_qp(id);
	return 0;
}

static int create_qp_of_id(void)
{
	return with_qp(false);
}

static int create_qp_ex_of_id(void)
{
	return with_qp(true);
}

static int with_srq(bool extended)
{
	struct ibv_srq_init_attr a = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_srq_init_attr_ex ex = {.attr = {.max_wr = 1, .max_sge = 1}};

	if (extended ? rdma_create_srq_ex(id, &ex) : rdma_create_srq(id, NULL, &a))
		return errno;
	rdma_destroy_srq(id);
	return 0;
}

static int create_srq_of_id(void)
{
	return with_srq(false);
}

static int create_srq_ex_of_id(void)
{
	return with_srq(true);
}

/* What is said of the next ones when they are made again tells only that they were not refused again: the id is in no
 * state for them. */
static int wrong_state(int result)
{
	return result && errno == EINVAL ? 0 : result ? errno : 0;
}

static int bind_address(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};

	return wrong_state(rdma_bind_addr(id, (struct sockaddr *)&to));
}

static int resolve_addr(void)
{
	return wrong_state(rdma_resolve_addr(id, NULL, (struct sockaddr *)&(struct sockaddr_in){0}, 0));
}

static int resolve_route(void)
{
	return wrong_state(rdma_resolve_route(id, 1000));
}

static int connect_id(void)
{
	return wrong_state(rdma_connect(id, &(struct rdma_conn_param){0}));
}

static int accept_id(void)
{
	return wrong_state(rdma_accept(id, &(struct rdma_conn_param){0}));
}

static int reject_id(void)
{
	return wrong_state(rdma_reject(id, NULL, 0));
}

static int reject_ece(void)
{
	return wrong_state(rdma_reject_ece(id, NULL, 0));
}

static int disconnect_id(void)
{
	return wrong_state(rdma_disconnect(id));
}

static int get_request(void)
{
	struct rdma_cm_id *one;

	return wrong_state(rdma_get_request(id, &one));
}

static int get_cm_event(void)
{
	struct rdma_cm_event *e;

	return wrong_state(rdma_get_cm_event(NULL, &e));
}

static const struct sockaddr_in group = {.sin_family = AF_INET};

static int join_multicast(void)
{
	return wrong_state(rdma_join_multicast(id, (struct sockaddr *)&group, NULL));
}

static int join_multicast_ex(void)
{
	struct rdma_cm_join_mc_attr_ex a = {.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
					    .join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER,
					    .addr = (struct sockaddr *)&group};

	return wrong_state(rdma_join_multicast_ex(id, &a, NULL));
}

static int listen_id(void)
{
	struct rdma_cm_id *one;
	int error;

	assert_int_equal(rdma_create_id(channel, &one, NULL, RDMA_PS_TCP), 0);
	error = rdma_listen(one, 1) ? errno : 0;
	assert_int_equal(rdma_destroy_id(one), 0);
	return error;
}

static const struct {
	enum rule_call call;
	int (*make)(void);
} rows[] = {
	{CALL_ibv_open_device, open_device},
	{CALL_ibv_query_device, query_device},
	{CALL_ibv_query_device, query_device_ex},
	{CALL_ibv_query_port, query_port},
	{CALL_ibv_query_port, query_port_of_old_programs},
	{CALL_ibv_query_gid, query_gid},
	{CALL_ibv_query_gid, query_gid_ex},
	{CALL_ibv_query_gid, query_gid_table},
	{CALL_ibv_alloc_pd, alloc_pd},
	{CALL_ibv_alloc_pd, alloc_parent_domain},
	{CALL_ibv_reg_mr, reg_mr},
	{CALL_ibv_reg_mr, reg_mr_iova},
	{CALL_ibv_reg_mr, reg_dmabuf_mr},
	{CALL_ibv_reg_mr, reg_dm_mr},
	{CALL_ibv_rereg_mr, rereg_mr},
	{CALL_ibv_dereg_mr, dereg_mr},
	{CALL_ibv_alloc_mw, alloc_mw},
	{CALL_ibv_alloc_dm, alloc_dm},
	{CALL_ibv_create_comp_channel, create_comp_channel},
	{CALL_ibv_create_cq, create_cq},
	{CALL_ibv_create_cq, create_cq_ex},
	{CALL_ibv_resize_cq, resize_cq},
	{CALL_ibv_create_srq, create_srq},
	{CALL_ibv_create_srq, create_srq_ex},
	{CALL_ibv_modify_srq, modify_srq},
	{CALL_ibv_open_xrcd, open_xrcd},
	{CALL_ibv_create_qp, create_qp},
	{CALL_ibv_create_qp, create_qp_ex},
	{CALL_ibv_create_qp, create_qp_of_id},
	{CALL_ibv_modify_qp, modify_qp},
	{CALL_ibv_query_qp, query_qp},
	{CALL_ibv_create_ah, create_ah},
	{CALL_ibv_attach_mcast, attach_mcast},
	{CALL_ibv_detach_mcast, detach_mcast},
	{CALL_ibv_post_recv, post_recv},
	{CALL_rdma_create_event_channel, create_event_channel},
	{CALL_rdma_get_cm_event, get_cm_event},
	{CALL_rdma_create_id, create_id},
	{CALL_rdma_migrate_id, migrate_id},
	{CALL_rdma_set_option, set_option},
	{CALL_rdma_getaddrinfo, getaddrinfo_of_rdma},
	{CALL_rdma_create_ep, create_ep},
	{CALL_rdma_bind_addr, bind_address},
	{CALL_rdma_listen, listen_id},
	{CALL_rdma_get_request, get_request},
	{CALL_rdma_resolve_addr, resolve_addr},
	{CALL_rdma_resolve_route, resolve_route},
	{CALL_rdma_create_srq, create_srq_of_id},
	{CALL_rdma_create_srq, create_srq_ex_of_id},
	{CALL_rdma_create_qp, create_qp_of_id},
	{CALL_rdma_create_qp, create_qp_ex_of_id},
	{CALL_rdma_connect, connect_id},
	{CALL_rdma_accept, accept_id},
	{CALL_rdma_reject, reject_id},
	{CALL_rdma_reject, reject_ece},
	{CALL_rdma_disconnect, disconnect_id},
	{CALL_rdma_join_multicast, join_multicast},
	{CALL_rdma_join_multicast, join_multicast_ex},
};

static void a_rule_refuses_a_call_in_each_of_its_forms(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct rule_error error;
		char rule[80];
		int got;

		print_message("# %s\n", rule_calls[rows[i].call]);
		assert_int_equal(rows[i].make(), 0);
		snprintf(rule, sizeof(rule), "call %s nth 1: refuse ERANGE", rule_calls[rows[i].call]);
		assert_true(inject_add(rule, &error) >= 0);
		got = rows[i].make();
		if (got != ERANGE)
			fail_msg("row %zu: %s, errno %d", i, rule_calls[rows[i].call], got);
		assert_int_equal(rows[i].make(), 0);
		inject_clear();
	}
}

static void each_call_that_a_rule_can_refuse_is_in_the_table(void **state)
{
	(void)state;
	for (int call = 0; call < RULE_CALLS; call++) {
		bool found = call == CALL_ibv_get_async_event || call == CALL_ibv_req_notify_cq; /* never refused */

		for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
			found |= (int)rows[i].call == call;
		if (!found)
			fail_msg("no row for %s", rule_calls[call]);
	}
}

static int set_up(void **state)
{
	struct sockaddr_in to = {.sin_family = AF_INET};

	if (open_context(state) || open_sides((void **)&sides))
		return -1;
	assert_non_null(channel = rdma_create_event_channel());
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	to.sin_addr.s_addr = inet_addr(ADDRESS);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&to), 0);
	return 0;
}

static int tear_down(void **state)
{
	rdma_destroy_id(id);
	rdma_destroy_event_channel(channel);
	close_sides((void **)&sides);
	return close_context(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rule_refuses_a_call_in_each_of_its_forms),
		cmocka_unit_test(each_call_that_a_rule_can_refuse_is_in_the_table),
	};

	if (!enter_namespace() || !ip("addr add " ADDRESS "/32 dev lo")) {
		puts("1..0 # SKIP no namespace here");
		return 77;
	}
	return cmocka_run_group_tests_name("refused", tests, set_up, tear_down);
}
