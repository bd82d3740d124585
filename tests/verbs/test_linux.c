/* SPDX-License-Identifier: BSD-2-Clause */
/* What Linux's core, uverbs and mlx5 refuse, one row each: the call and its attribute, who refuses it there, what
 * adapters answer, what uroce answers. Where the last two differ, the row says why. What the man pages alone decide
 * stands in test_misuse.c. */
#include "verbs/fixture.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <rdma/rdma_cma.h>

static struct side *s;
static struct ibv_qp *uc, *ud, *raw;
static struct rdma_cm_id *id, *resolved, *listener;

static int minus(int result)
{
	return result ? errno : 0;
}

/* ---- ibv_modify_qp ---- */

enum { CUR = IBV_QP_CUR_STATE, UD_INIT = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY };

/* From `from` to `to`, with one attribute changed by `change`. */
#define MODIFY(from, to, mask, change)                             \
	({                                                         \
		struct ibv_qp_attr a = attributes(to, s[1].qp);    \
                                                                   \
		bring(s[0].qp, s[1].qp, IBV_QPS_RESET);            \
		if ((from) != IBV_QPS_RESET)                       \
			bring(s[0].qp, s[1].qp, from);             \
		a.cur_qp_state = from;                             \
		change;                                            \
		ibv_modify_qp(s[0].qp, &a, (mask) | IBV_QP_STATE); \
	})
#define TO_INIT(change)	      MODIFY(IBV_QPS_RESET, IBV_QPS_INIT, INIT_MASK, change)
#define TO_RTR(change)	      MODIFY(IBV_QPS_INIT, IBV_QPS_RTR, RTR_MASK, change)
#define TO_RTS(change)	      MODIFY(IBV_QPS_RTR, IBV_QPS_RTS, RTS_MASK, change)
#define TO_RTS_ALT(change)    MODIFY(IBV_QPS_RTR, IBV_QPS_RTS, RTS_MASK | IBV_QP_ALT_PATH, change)
#define MASKED(from, to, add) MODIFY(from, to, mask_to(to) ^ (add), )

static int modify(struct ibv_qp *qp, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr a = {.qp_state = to, .cur_qp_state = qp->state, .port_num = 1};

	return ibv_modify_qp(qp, &a, mask | IBV_QP_STATE);
}

/* A QP of another type, brought from RESET to `from` with the masks of the man page. */
static int from_reset(struct ibv_qp *qp, int init, enum ibv_qp_state to, int mask)
{
	return modify(qp, IBV_QPS_RESET, 0) ?: modify(qp, IBV_QPS_INIT, init) ?: modify(qp, to, mask);
}

/* ---- ibv_create_ah ---- */

static int address(struct ibv_ah_attr a)
{
	struct ibv_ah *ah;

	if (a.is_global && !a.grh.dgid.global.interface_id)
		assert_int_equal(ibv_query_gid(context, 1, 0, &a.grh.dgid), 0);
	ah = ibv_create_ah(s[0].pd, &a);
	if (!ah)
		return errno;
	return ibv_destroy_ah(ah);
}
#define GLOBAL(port, index) address((struct ibv_ah_attr){.port_num = port, .is_global = 1, .grh.sgid_index = index})

/* ---- ibv_create_qp, ibv_create_cq, ibv_create_srq ---- */

static int queue_pair(struct ibv_qp_init_attr a)
{
	struct ibv_qp *qp;

	a.send_cq = a.recv_cq = s[0].cq;
	qp = ibv_create_qp(s[0].pd, &a);
	return qp ? ibv_destroy_qp(qp) : errno;
}
#define QP(...) queue_pair((struct ibv_qp_init_attr){.qp_type = IBV_QPT_RC, __VA_ARGS__})

static int cq_of(int cqe, int vector)
{
	struct ibv_cq *cq = ibv_create_cq(context, cqe, NULL, NULL, vector);

	return cq ? ibv_destroy_cq(cq) : errno;
}

static int srq_of(uint32_t wr, uint32_t sge)
{
	struct ibv_srq_init_attr a = {.attr = {.max_wr = wr, .max_sge = sge}};
	struct ibv_srq *srq = ibv_create_srq(s[0].pd, &a);

	return srq ? ibv_destroy_srq(srq) : errno;
}

/* ---- ibv_reg_mr ---- */

/* where nothing can be mapped (vm.mmap_min_addr), so that no other thread maps something there */
#define PAGE_GONE ((void *)4096)

static char *page, *page_read_only, *page_write_only;

static int region(void *at, size_t length, unsigned access)
{
	struct ibv_mr *mr = ibv_reg_mr(s[0].pd, at, length, (int)access);

	return mr ? ibv_dereg_mr(mr) : errno;
}

enum {
	LW = IBV_ACCESS_LOCAL_WRITE,
	RW = IBV_ACCESS_REMOTE_WRITE,
	RR = IBV_ACCESS_REMOTE_READ,
	RA = IBV_ACCESS_REMOTE_ATOMIC,
	MW = IBV_ACCESS_MW_BIND,
	FLUSH = 1 << 8,
};

/* ---- ibv_post_send, ibv_post_recv ---- */

static int post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, int sges, unsigned flags, uint32_t length)
{
	struct ibv_sge sge[4] = {piece(&s[0], 0, length), piece(&s[0], 0, 8), piece(&s[0], 0, 8), piece(&s[0], 0, 8)};
	struct ibv_send_wr wr = {.sg_list = sge, .num_sge = sges, .opcode = opcode, .send_flags = flags}, *bad;

	return ibv_post_send(qp, &wr, &bad);
}

static int ready(enum ibv_wr_opcode opcode, int sges, unsigned flags, uint32_t length)
{
	bring(s[0].qp, s[1].qp, IBV_QPS_RESET);
	bring(s[0].qp, s[1].qp, IBV_QPS_RTS);
	return post(s[0].qp, opcode, sges, flags, length);
}

static int receive_in(enum ibv_qp_state state, int sges)
{
	struct ibv_sge sge[4] = {piece(&s[0], 0, 8), piece(&s[0], 0, 8), piece(&s[0], 0, 8), piece(&s[0], 0, 8)};
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = sges}, *bad;

	bring(s[0].qp, s[1].qp, IBV_QPS_RESET);
	if (state != IBV_QPS_RESET)
		bring(s[0].qp, s[1].qp, state);
	return ibv_post_recv(s[0].qp, &wr, &bad);
}

/* ---- rdma_cm ---- */

static struct sockaddr_in at(const char *ip, uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};

	assert_int_equal(inet_pton(AF_INET, ip, &a.sin_addr), 1);
	return a;
}

static int bind_to(struct rdma_cm_id *to, const char *ip)
{
	struct sockaddr_in a = at(ip, 0);

	return minus(rdma_bind_addr(to, (struct sockaddr *)&a));
}

static int connect_with(struct rdma_cm_id *by, struct rdma_conn_param p)
{
	static char data[256];

	p.private_data = data;
	return minus(rdma_connect(by, &p));
}

static int option_of(int level, int name, size_t size)
{
	uint64_t value = 0;

	return minus(rdma_set_option(id, level, name, &value, size));
}

static int qp_of_id(struct rdma_cm_id *of)
{
	struct ibv_qp_init_attr a = {.qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};

	return minus(rdma_create_qp(of, NULL, &a));
}

/* call, attribute; who refuses it; what adapters answer; what uroce answers */
#define ROWS                                                                                                           \
	/* an address vector without what its link layer needs, or from nowhere */                                     \
	R(rtr_without_grh, "rdma_check_ah_attr", EINVAL, EINVAL, TO_RTR(a.ah_attr.is_global = 0))                      \
	R(rtr_by_lid, "rdma_check_ah_attr", EINVAL, EINVAL, TO_RTR(a.ah_attr.is_global = 0; a.ah_attr.dlid = 1))       \
	R(rtr_by_port_2, "modify_qp of uverbs_cmd.c", EINVAL, EINVAL, TO_RTR(a.ah_attr.port_num = 2))                  \
	R(rtr_by_port_0, "modify_qp of uverbs_cmd.c", EINVAL, EINVAL, TO_RTR(a.ah_attr.port_num = 0))                  \
	R(rtr_from_an_empty_gid, "rdma_get_gid_attr", ENODATA, ENODATA, TO_RTR(a.ah_attr.grh.sgid_index = 60))         \
	R(rtr_from_minus_1, "rdma_get_gid_attr; here beyond the table", ENODATA, EINVAL,                               \
	  TO_RTR(a.ah_attr.grh.sgid_index = 255))                                                                      \
	R(rtr_to_ipv6_from_ipv4, "addr_resolve", EINVAL, EINVAL, TO_RTR(a.ah_attr.grh.dgid.raw[0] = 0xfd))             \
	R(alternate_without_grh, "rdma_check_ah_attr", EINVAL, EINVAL, TO_RTS_ALT(a.alt_ah_attr.is_global = 0))        \
	R(alternate_of_port_2, "modify_qp of uverbs_cmd.c", EINVAL, EINVAL, TO_RTS_ALT(a.alt_port_num = 2))            \
	R(alternate_by_port_2, "modify_qp of uverbs_cmd.c", EINVAL, EINVAL, TO_RTS_ALT(a.alt_ah_attr.port_num = 2))    \
	R(ah_without_grh, "mlx5_create_ah", EINVAL, EINVAL, address((struct ibv_ah_attr){.port_num = 1, .dlid = 1}))   \
	R(ah_of_port_2, "mlx5_create_ah", EINVAL, EINVAL, GLOBAL(2, 0))                                                \
	R(ah_of_port_0, "mlx5_create_ah", EINVAL, EINVAL, GLOBAL(0, 0))                                                \
	R(ah_from_an_empty_gid, "rdma_get_gid_attr", ENODATA, ENODATA, GLOBAL(1, 60))                                  \
	R(ah_from_minus_1, "rdma_get_gid_attr; here beyond the table", ENODATA, EINVAL, GLOBAL(1, 255))                \
	/* values */                                                                                                   \
	R(init_of_port_0, "modify_qp of uverbs_cmd.c", EINVAL, EINVAL, TO_INIT(a.port_num = 0))                        \
	R(init_of_port_2, "modify_qp of uverbs_cmd.c", EINVAL, EINVAL, TO_INIT(a.port_num = 2))                        \
	R(init_of_pkey_1, "mlx5_ib_modify_qp", EINVAL, EINVAL, TO_INIT(a.pkey_index = 1))                              \
	R(init_without_local_write, "nobody", 0, 0, TO_INIT(a.qp_access_flags = RW | RA))                              \
	R(init_without_rights, "nobody", 0, 0, TO_INIT(a.qp_access_flags = 0))                                         \
	R(rtr_of_mtu_0, "__mlx5_ib_modify_qp", EINVAL, EINVAL, TO_RTR(a.path_mtu = 0))                                 \
	R(rtr_of_mtu_6, "__mlx5_ib_modify_qp", EINVAL, EINVAL, TO_RTR(a.path_mtu = IBV_MTU_4096 + 1))                  \
	R(rtr_of_an_mtu_above_the_ports, "nobody", 0, 0, TO_RTR(a.path_mtu = IBV_MTU_4096))                            \
	R(rtr_of_many_reads, "mlx5_ib_modify_qp", EINVAL, EINVAL, TO_RTR(a.max_dest_rd_atomic = 255))                  \
	R(rtr_of_no_reads, "nobody", 0, 0, TO_RTR(a.max_dest_rd_atomic = 0))                                           \
	R(rtr_of_a_long_psn, "nobody: _ib_modify_qp masks it", 0, 0, TO_RTR(a.rq_psn = 0xff000001))                    \
	R(rtr_of_rnr_timer_32, "rxe: nobody; mlx5's command has 5 bits", 0, EINVAL, TO_RTR(a.min_rnr_timer = 32))      \
	R(rts_of_many_reads, "mlx5_ib_modify_qp", EINVAL, EINVAL, TO_RTS(a.max_rd_atomic = 255))                       \
	R(rts_of_no_reads, "nobody", 0, 0, TO_RTS(a.max_rd_atomic = 0))                                                \
	R(rts_of_timeout_32, "rxe_qp_chk_attr", EINVAL, EINVAL, TO_RTS(a.timeout = 32))                                \
	R(rts_of_timeout_0, "nobody: no limit", 0, 0, TO_RTS(a.timeout = 0))                                           \
	R(rts_of_retry_8, "nobody: mlx5's command has 3 bits", 0, EINVAL, TO_RTS(a.retry_cnt = 8))                     \
	R(rts_of_a_long_psn, "nobody: _ib_modify_qp masks it", 0, 0, TO_RTS(a.sq_psn = 0xff000001))                    \
	/* ib_modify_qp_is_ok: transitions that there are not, attributes that they need or do not take */             \
	R(err_from_reset, "ib_modify_qp_is_ok", EINVAL, EINVAL, MASKED(IBV_QPS_RESET, IBV_QPS_ERR, 0))                 \
	R(rts_from_reset, "ib_modify_qp_is_ok", EINVAL, EINVAL, MASKED(IBV_QPS_RESET, IBV_QPS_RTS, 0))                 \
	R(rtr_from_reset, "ib_modify_qp_is_ok", EINVAL, EINVAL, MASKED(IBV_QPS_RESET, IBV_QPS_RTR, 0))                 \
	R(rts_from_init, "ib_modify_qp_is_ok", EINVAL, EINVAL, MASKED(IBV_QPS_INIT, IBV_QPS_RTS, 0))                   \
	R(rtr_from_rts, "ib_modify_qp_is_ok", EINVAL, EINVAL, MASKED(IBV_QPS_RTS, IBV_QPS_RTR, 0))                     \
	R(init_from_rtr, "ib_modify_qp_is_ok", EINVAL, EINVAL, MASKED(IBV_QPS_RTR, IBV_QPS_INIT, 0))                   \
	R(rts_from_err, "ib_modify_qp_is_ok", EINVAL, EINVAL, MASKED(IBV_QPS_ERR, IBV_QPS_RTS, 0))                     \
	R(sqd_from_rtr, "ib_modify_qp_is_ok", EINVAL, EINVAL, MASKED(IBV_QPS_RTR, IBV_QPS_SQD, 0))                     \
	R(err_from_init, "nobody", 0, 0, MASKED(IBV_QPS_INIT, IBV_QPS_ERR, 0))                                         \
	R(reset_with_a_port, "ib_modify_qp_is_ok", EINVAL, EINVAL, MASKED(IBV_QPS_INIT, IBV_QPS_RESET, IBV_QP_PORT))   \
	R(err_with_a_port, "ib_modify_qp_is_ok", EINVAL, EINVAL, MASKED(IBV_QPS_RTS, IBV_QPS_ERR, IBV_QP_PORT))        \
	R(init_without_flags, "ib_modify_qp_is_ok", EINVAL, EINVAL,                                                    \
	  MASKED(IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_ACCESS_FLAGS))                                                    \
	R(init_with_a_qkey, "ib_modify_qp_is_ok", EINVAL, EINVAL, MASKED(IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_QKEY))    \
	R(init_with_caps, "ib_modify_qp_is_ok", EINVAL, EINVAL, MASKED(IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_CAP))       \
	R(rtr_without_psn, "ib_modify_qp_is_ok", EINVAL, EINVAL, MASKED(IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_RQ_PSN))     \
	R(rtr_with_a_timeout, "ib_modify_qp_is_ok", EINVAL, EINVAL, MASKED(IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_TIMEOUT)) \
	R(rtr_with_current, "ib_modify_qp_is_ok", EINVAL, EINVAL, MASKED(IBV_QPS_INIT, IBV_QPS_RTR, CUR))              \
	R(rts_without_retries, "ib_modify_qp_is_ok", EINVAL, EINVAL,                                                   \
	  MASKED(IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_RETRY_CNT))                                                          \
	R(rts_with_current, "nobody", 0, 0, MASKED(IBV_QPS_RTR, IBV_QPS_RTS, CUR))                                     \
	R(rts_again_with_a_path, "ib_modify_qp_is_ok", EINVAL, EINVAL,                                                 \
	  MODIFY(IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_AV, (void)0))                                                        \
	R(uc_with_retries, "ib_modify_qp_is_ok", EINVAL, EINVAL,                                                       \
	  modify(uc, IBV_QPS_RESET, 0) ?: modify(uc, IBV_QPS_INIT, INIT_MASK | IBV_QP_RETRY_CNT))                      \
	R(ud_without_qkey, "ib_modify_qp_is_ok", EINVAL, EINVAL,                                                       \
	  modify(ud, IBV_QPS_RESET, 0) ?: modify(ud, IBV_QPS_INIT, UD_INIT & ~IBV_QP_QKEY))                            \
	R(ud_with_rights, "ib_modify_qp_is_ok", EINVAL, EINVAL,                                                        \
	  modify(ud, IBV_QPS_RESET, 0) ?: modify(ud, IBV_QPS_INIT, UD_INIT | IBV_QP_ACCESS_FLAGS))                     \
	R(ud_with_a_path, "ib_modify_qp_is_ok", EINVAL, EINVAL, from_reset(ud, UD_INIT, IBV_QPS_RTR, IBV_QP_AV))       \
	R(raw_with_a_pkey, "ib_modify_qp_is_ok", EINVAL, EINVAL,                                                       \
	  modify(raw, IBV_QPS_RESET, 0) ?: modify(raw, IBV_QPS_INIT, IBV_QP_PORT | IBV_QP_PKEY_INDEX))                 \
	R(raw_with_current, "ib_modify_qp_is_ok", EINVAL, EINVAL,                                                      \
	  from_reset(raw, IBV_QP_PORT, IBV_QPS_RTR, 0) ?: modify(raw, IBV_QPS_RTS, CUR))                               \
	/* creation */                                                                                                 \
	R(qp_of_no_depth, "nobody", 0, 0, QP(.cap = {0}))                                                              \
	R(qp_of_no_sges, "nobody", 0, 0, QP(.cap = {.max_send_wr = 4, .max_recv_wr = 4}))                              \
	R(qp_of_too_many, "mlx5_calc_sq_size", EINVAL, EINVAL, QP(.cap = {.max_send_wr = 1u << 30}))                   \
	R(qp_of_too_many_receives, "mlx5_calc_rq_size", EINVAL, EINVAL, QP(.cap = {.max_recv_wr = 1u << 30}))          \
	R(qp_of_too_many_sges, "mlx5_calc_send_wqe", EINVAL, EINVAL,                                                   \
	  QP(.cap = {.max_send_wr = 1, .max_send_sge = 1u << 16}))                                                     \
	R(qp_of_no_type, "create_qp of uverbs_cmd.c", EINVAL, EINVAL, queue_pair((struct ibv_qp_init_attr){0}))        \
	R(cq_of_nothing, "create_cq of mlx5's verbs.c", EINVAL, EINVAL, cq_of(0, 0))                                   \
	R(cq_of_less, "create_cq of mlx5's verbs.c", EINVAL, EINVAL, cq_of(-1, 0))                                     \
	R(cq_of_too_many, "mlx5_ib_create_cq", EINVAL, EINVAL, cq_of(limits.max_cqe + 1, 0))                           \
	R(cq_of_a_far_vector, "create_cq of uverbs_std_types_cq.c", EINVAL, EINVAL,                                    \
	  cq_of(1, context->num_comp_vectors))                                                                         \
	R(srq_of_nothing, "mlx5: nobody; rxe_srq_chk_init: EINVAL", 0, 0, srq_of(0, 1))                                \
	R(srq_of_too_many, "mlx5_create_srq", EINVAL, EINVAL, srq_of((uint32_t)limits.max_srq_wr + 1, 1))              \
	R(srq_of_too_many_sges, "mlx5_create_srq", EINVAL, EINVAL, srq_of(1, (uint32_t)limits.max_srq_sge + 1))        \
	/* regions */                                                                                                  \
	R(region_of_no_page, "ib_umem_get: no page", EINVAL, EINVAL, region(page, 0, LW))                              \
	R(region_of_no_bytes, "nobody: the page of the address", 0, 0, region(page + 8, 0, LW))                        \
	R(region_around_the_end, "ib_umem_get", EINVAL, EINVAL, region((void *)-16, 32, LW))                           \
	R(region_for_remote_writes, "ib_check_mr_access", EINVAL, EINVAL, region(page, 8, RW))                         \
	R(region_for_remote_atomics, "ib_check_mr_access", EINVAL, EINVAL, region(page, 8, RA | RR))                   \
	R(region_read_only_for_windows, "pin_user_pages", EFAULT, EFAULT, region(page_read_only, 8, MW))               \
	R(region_for_windows, "nobody", 0, 0, region(page, 8, MW))                                                     \
	R(region_of_unknown_rights, "ib_check_mr_access", EINVAL, EINVAL, region(page, 8, LW | 1 << 18))               \
	R(region_with_hints, "nobody", 0, 0, region(page, 8, LW | IBV_ACCESS_RELAXED_ORDERING | 1 << 29))              \
	R(region_that_flushes, "ib_check_mr_access", EOPNOTSUPP, EOPNOTSUPP, region(page, 8, LW | FLUSH))              \
	R(region_read_only_to_write, "pin_user_pages", EFAULT, EFAULT, region(page_read_only, 8, LW))                  \
	R(region_read_only, "nobody", 0, 0, region(page_read_only, 8, RR))                                             \
	R(region_write_only_to_write, "nobody: pinned to write", 0, 0, region(page_write_only, 8, LW))                 \
	R(region_write_only, "pin_user_pages", EFAULT, EFAULT, region(page_write_only, 8, 0))                          \
	R(region_unmapped, "pin_user_pages", EFAULT, EFAULT, region(PAGE_GONE, 8, 0))                                  \
	/* requests */                                                                                                 \
	R(send_of_no_opcode, "mlx5_post_send", EINVAL, EINVAL, ready(77, 1, 0, 8))                                     \
	R(send_of_many_sges, "mlx5_post_send", EINVAL, EINVAL, ready(IBV_WR_SEND, 3, 0, 8))                            \
	R(send_of_much_inline, "mlx5: ENOMEM, rxe: EINVAL", ENOMEM, EINVAL,                                            \
	  ready(IBV_WR_SEND, 1, IBV_SEND_INLINE, MEMORY))                                                              \
	R(receive_in_reset, "mlx5: nobody; rxe_post_recv: EINVAL", 0, EINVAL, receive_in(IBV_QPS_RESET, 1))            \
	R(receive_in_init, "nobody", 0, 0, receive_in(IBV_QPS_INIT, 1))                                                \
	R(receive_in_err, "nobody", 0, 0, receive_in(IBV_QPS_ERR, 1))                                                  \
	R(receive_of_many_sges, "mlx5_post_recv", EINVAL, EINVAL, receive_in(IBV_QPS_INIT, 3))                         \
	/* rdma_cm: cma.c of Linux, cma.c of librdmacm */                                                              \
	R(bind_twice, "rdma_bind_addr: state", EINVAL, EINVAL, bind_to(listener, "127.0.0.1"))                         \
	R(bind_to_anothers, "rdma_translate_ip", EADDRNOTAVAIL, EADDRNOTAVAIL, bind_to(id, "192.0.2.1"))               \
	R(route_before_address, "rdma_resolve_route: state", EINVAL, EINVAL, minus(rdma_resolve_route(id, 100)))       \
	R(listen_twice, "rdma_listen: state", EINVAL, EINVAL, minus(rdma_listen(listener, 1)))                         \
	R(connect_before_route, "rdma_connect: state", EINVAL, EINVAL, connect_with(id, (struct rdma_conn_param){0}))  \
	R(connect_by_a_listener, "rdma_connect: state", EINVAL, EINVAL,                                                \
	  connect_with(listener, (struct rdma_conn_param){0}))                                                         \
	R(connect_with_much_data, "ib_send_cm_req", EINVAL, EINVAL,                                                    \
	  connect_with(resolved, (struct rdma_conn_param){.private_data_len = 57}))                                    \
	R(connect_with_many_reads, "ucma_valid_param", EINVAL, EINVAL,                                                 \
	  connect_with(resolved, (struct rdma_conn_param){.responder_resources = 254}))                                \
	R(accept_of_nothing, "rdma_accept: state", EINVAL, EINVAL, minus(rdma_accept(id, NULL)))                       \
	R(reject_of_nothing, "rdma_reject", EINVAL, EINVAL, minus(rdma_reject(id, NULL, 0)))                           \
	R(disconnect_of_nothing, "rdma_disconnect", EINVAL, EINVAL, minus(rdma_disconnect(id)))                        \
	R(qp_without_a_device, "rdma_create_qp_ex", EINVAL, EINVAL, qp_of_id(id))                                      \
	R(option_of_no_level, "ucma_set_option_level", ENOSYS, ENOSYS, option_of(9, 0, 1))                             \
	R(option_of_no_name, "ucma_set_option_id", ENOSYS, ENOSYS, option_of(RDMA_OPTION_ID, 99, 1))                   \
	R(option_of_a_wrong_size, "ucma_set_option_id", EINVAL, EINVAL,                                                \
	  option_of(RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 4))

#define R(row, by, theirs, ours, call) {#row, by, theirs, ours},
static const struct {
	const char *name, *source;
	int adapters, uroce;
} rows[] = {ROWS};
#undef R

/* Row by row, so that all differences are told at once. */
static void adapters_refuse_it(void **state)
{
	size_t row = 0, wrong = 0;

#define R(row_name, by, theirs, ours, call)                                                           \
	do {                                                                                          \
		int answer;                                                                           \
                                                                                                      \
		errno = 0;                                                                            \
		answer = (call);                                                                      \
		if (answer != rows[row].uroce) {                                                      \
			print_error("%s: %d, not %d (%s)\n", rows[row].name, answer, rows[row].uroce, \
				    rows[row].source);                                                \
			wrong++;                                                                      \
		}                                                                                     \
		row++;                                                                                \
	} while (0);
	ROWS
#undef R
		assert_int_equal(wrong, 0);
}

static void *map(int protection)
{
	void *at = mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(at != MAP_FAILED);
	return at;
}

static struct ibv_qp *qp_of(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr a = {.send_cq = s[0].cq, .recv_cq = s[0].cq, .cap = {1, 1, 1, 1, 0}, .qp_type = type};
	struct ibv_qp *qp = ibv_create_qp(s[0].pd, &a);

	assert_non_null(qp);
	return qp;
}

static int open_all(void **state)
{
	struct sockaddr_in here = at("127.0.0.1", 0), there;

	open_sides(state);
	s = *state;
	uc = qp_of(IBV_QPT_UC);
	ud = qp_of(IBV_QPT_UD);
	raw = qp_of(IBV_QPT_RAW_PACKET);
	page = map(PROT_READ | PROT_WRITE);
	page_read_only = map(PROT_READ);
	page_write_only = map(PROT_WRITE);
	assert_int_equal(rdma_create_id(NULL, &listener, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(listener, (struct sockaddr *)&here), 0);
	assert_int_equal(rdma_listen(listener, 1), 0);
	there = at("127.0.0.1", ntohs(rdma_get_src_port(listener)));
	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_create_id(NULL, &resolved, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(resolved, NULL, (struct sockaddr *)&there, 2000), 0);
	assert_int_equal(rdma_resolve_route(resolved, 2000), 0);
	assert_int_equal(qp_of_id(resolved), 0);
	return 0;
}

static int close_all(void **state)
{
	rdma_destroy_qp(resolved);
	assert_int_equal(rdma_destroy_id(resolved), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
	assert_int_equal(ibv_destroy_qp(uc), 0);
	assert_int_equal(ibv_destroy_qp(ud), 0);
	assert_int_equal(ibv_destroy_qp(raw), 0);
	munmap(page, 4096);
	munmap(page_read_only, 4096);
	munmap(page_write_only, 4096);
	return close_sides(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(adapters_refuse_it, open_all, close_all),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, open_context, close_context);
}
