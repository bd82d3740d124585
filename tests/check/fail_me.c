// SPDX-License-Identifier: BSD-2-Clause
/* fail_me CASE wrong|right: lets one call or request fail, or does the same right. Without arguments it lists the
 * cases: the name, the code of the cause that uroce must tell on standard error, and words of that message. Plain
 * libibverbs.
 */
#include "pair.h"

#include <sys/mman.h>
#include <unistd.h>

#define INIT (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)

static int try_post(struct pair *p, enum ibv_wr_opcode opcode, int sges, uint32_t length, unsigned flags)
{
	struct ibv_sge sge[8];
	struct ibv_send_wr wr = {.opcode = opcode, .sg_list = sge, .num_sge = sges, .send_flags = flags}, *bad;

	for (int i = 0; i < sges; i++)
		sge[i] = piece(&p->a, 0, length);
	wr.wr.rdma.remote_addr = (uintptr_t)p->b.memory;
	wr.wr.rdma.rkey = p->b.mr->rkey;
	return ibv_post_send(p->a.qp, &wr, &bad);
}

/* ---- calls ---- */

static void full_send_queue(struct pair *p, bool wrong)
{
	for (int i = 0; i < DEPTH; i++)
		ZERO(try_post(p, IBV_WR_RDMA_WRITE, 1, 8, wrong || i != DEPTH - 1 ? 0 : IBV_SEND_SIGNALED));
	if (!wrong)
		await(&p->a);
	MUST(try_post(p, IBV_WR_RDMA_WRITE, 1, 8, IBV_SEND_SIGNALED) == (wrong ? ENOMEM : 0));
	if (!wrong)
		await(&p->a);
}

/* A request that is to be posted, or refused. */
static void one_request(struct pair *p, int error, enum ibv_wr_opcode opcode, int sges, uint32_t length, unsigned flags)
{
	bool has_receive = !error && opcode == IBV_WR_SEND;

	if (has_receive)
		receive(&p->b, piece(&p->b, 0, SIZE));
	MUST(try_post(p, opcode, sges, length, flags | IBV_SEND_SIGNALED) == error);
	if (!error)
		MUST(await(&p->a).status == IBV_WC_SUCCESS);
	if (has_receive)
		await(&p->b);
}

static void many_sges(struct pair *p, bool wrong)
{
	one_request(p, wrong ? EINVAL : 0, IBV_WR_SEND, wrong ? 3 : 2, 8, 0);
}

static void long_inline(struct pair *p, bool wrong)
{
	one_request(p, wrong ? EINVAL : 0, IBV_WR_SEND, 1, 999, wrong ? IBV_SEND_INLINE : 0);
}

static void inline_read(struct pair *p, bool wrong)
{
	one_request(p, wrong ? EINVAL : 0, IBV_WR_RDMA_READ, 1, 8, wrong ? IBV_SEND_INLINE : 0);
}

static void read_of_uc(struct pair *p, bool wrong)
{
	one_request(p, wrong ? EINVAL : 0, wrong ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 1, 8, 0);
}

static int try_receive(struct end *e, int sges, uint32_t length)
{
	struct ibv_sge sge[8];
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = sges}, *bad;

	for (int i = 0; i < sges; i++)
		sge[i] = piece(e, 0, length);
	return ibv_post_recv(e->qp, &wr, &bad);
}

static void full_receive_queue(struct pair *p, bool wrong)
{
	for (int i = 0; i < DEPTH; i++)
		receive(&p->b, piece(&p->b, 0, 8));
	if (!wrong) {
		MUST(!try_post(p, IBV_WR_SEND, 1, 8, IBV_SEND_SIGNALED));
		await(&p->a);
		await(&p->b);
	}
	MUST(try_receive(&p->b, 1, 8) == (wrong ? ENOMEM : 0));
}

static void many_receive_sges(struct pair *p, bool wrong)
{
	MUST(try_receive(&p->b, wrong ? 3 : 2, 8) == (wrong ? EINVAL : 0));
}

/* Queue pairs that have an SRQ have no receives of their own. */
static void receive_beside_srq(struct pair *p, bool wrong)
{
	if (wrong)
		MUST(try_receive(&p->b, 1, 8) == EINVAL);
	else
		receive(&p->b, piece(&p->b, 0, 8));
}

static void reset(struct pair *p)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	ZERO(ibv_modify_qp(p->a.qp, &attr, IBV_QP_STATE));
}

static void initialize(struct pair *p)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL};

	ZERO(ibv_modify_qp(p->a.qp, &attr, INIT));
}

static void receive_in_reset(struct pair *p, bool wrong)
{
	reset(p);
	if (!wrong)
		initialize(p);
	MUST(try_receive(&p->a, 1, 8) == (wrong ? EINVAL : 0));
}

static void send_in_reset(struct pair *p, bool wrong)
{
	if (wrong)
		reset(p);
	one_request(p, wrong ? EINVAL : 0, IBV_WR_SEND, 1, 8, 0);
}

static void straight_to_rts(struct pair *p, bool wrong)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};

	reset(p);
	if (wrong) {
		MUST(ibv_modify_qp(p->a.qp, &attr, IBV_QP_STATE) == EINVAL);
	} else {
		initialize(p);
		end_connect(p, &p->a, &p->b);
	}
}

/* From RESET to INIT, with attributes more or less than it takes. */
static void to_init(struct pair *p, int error, int mask, uint8_t port)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .cur_qp_state = IBV_QPS_RTS, .port_num = port, .qp_access_flags = ALL};

	reset(p);
	MUST(ibv_modify_qp(p->a.qp, &attr, mask) == error);
}

static void no_access_flags(struct pair *p, bool wrong)
{
	to_init(p, wrong ? EINVAL : 0, wrong ? INIT & ~IBV_QP_ACCESS_FLAGS : INIT, 1);
}

static void timeout_too_early(struct pair *p, bool wrong)
{
	to_init(p, wrong ? EINVAL : 0, wrong ? INIT | IBV_QP_TIMEOUT : INIT, 1);
}

static void port_two(struct pair *p, bool wrong)
{
	to_init(p, wrong ? EINVAL : 0, INIT, wrong ? 2 : 1);
}

/* From INIT to RTR: right with a GRH, wrong by a LID, or by neither. */
static void by_lid(struct pair *p, bool wrong, uint16_t lid)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
				   .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = p->b.qp->qp_num,
				   .max_dest_rd_atomic = 1,
				   .ah_attr = {.is_global = !wrong, .port_num = 1, .dlid = lid}};

	reset(p);
	initialize(p);
	ZERO(ibv_query_gid(p->context, 1, 0, &attr.ah_attr.grh.dgid));
	MUST(ibv_modify_qp(p->a.qp, &attr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == (wrong ? EINVAL : 0));
	if (wrong)
		MUST(!ibv_create_ah(p->pd, &attr.ah_attr) && errno == EINVAL);
	else
		MUST(p->a.ah = ibv_create_ah(p->pd, &attr.ah_attr));
}

static void lid_on_ethernet(struct pair *p, bool wrong)
{
	by_lid(p, wrong, 1);
}

static void no_lid_on_infiniband(struct pair *p, bool wrong)
{
	by_lid(p, wrong, 0);
}

static void another_state_than_it_is(struct pair *p, bool wrong)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .cur_qp_state = wrong ? IBV_QPS_SQD : IBV_QPS_RTS};

	MUST(ibv_modify_qp(p->a.qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE) == (wrong ? EINVAL : 0));
}

static void create_and_destroy(struct pair *p, bool wrong, struct ibv_cq *receives, uint32_t depth)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = p->a.cq, .recv_cq = receives, .qp_type = IBV_QPT_RC, .cap = {.max_send_wr = depth}};
	struct ibv_qp *qp = ibv_create_qp(p->pd, &attr);

	MUST(!qp == wrong);
	if (qp)
		ZERO(ibv_destroy_qp(qp));
}

static void huge_queue(struct pair *p, bool wrong)
{
	create_and_destroy(p, wrong, p->a.cq, wrong ? 1 << 30 : 1);
}

static void one_qp_more(struct pair *p, bool wrong)
{
	struct ibv_qp_init_attr attr = {.send_cq = p->a.cq,
					.recv_cq = p->a.cq,
					.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = 1, .max_recv_wr = 1}};
	struct ibv_device_attr limits;
	struct ibv_qp **qps, *qp;
	int n = 0;

	ZERO(ibv_query_device(p->pd->context, &limits));
	MUST(qps = calloc((size_t)limits.max_qp, sizeof(struct ibv_qp *)));
	while (n < limits.max_qp - 2 - !wrong) /* two are the pair's */
		MUST(qps[n++] = ibv_create_qp(p->pd, &attr));
	qp = ibv_create_qp(p->pd, &attr);
	MUST(!qp == wrong);
	if (qp)
		qps[n++] = qp;
	while (n)
		ZERO(ibv_destroy_qp(qps[--n]));
	free(qps);
}

static void no_cq(struct pair *p, bool wrong)
{
	create_and_destroy(p, wrong, wrong ? NULL : p->a.cq, 1);
}

static void register_it(struct pair *p, bool wrong, void *at, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(p->pd, at, SIZE, access);

	MUST(!mr == wrong);
	if (mr)
		ZERO(ibv_dereg_mr(mr));
}

static void remote_write_alone(struct pair *p, bool wrong)
{
	register_it(p, wrong, p->a.memory, IBV_ACCESS_REMOTE_WRITE | (wrong ? 0 : IBV_ACCESS_LOCAL_WRITE));
}

static void nothing_mapped(struct pair *p, bool wrong)
{
	void *at = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	MUST(at != MAP_FAILED);
	if (wrong)
		ZERO(munmap(at, SIZE));
	register_it(p, wrong, at, 0);
	if (!wrong)
		ZERO(munmap(at, SIZE));
}

/* ---- requests ---- */

/* An RDMA WRITE of the one end to the other, which the other may refuse. */
static void write_to(struct pair *p, uint32_t rkey, bool wrong)
{
	struct ibv_mr mr = {.rkey = rkey};
	struct end peer = {.memory = p->b.memory, .mr = &mr};

	post(&p->a, IBV_WR_RDMA_WRITE, piece(&p->a, 0, 8), &peer, IBV_SEND_SIGNALED);
	MUST(await(&p->a).status == (wrong ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS));
}

static void write_to_peer(struct pair *p, bool wrong, uint32_t length)
{
	post(&p->a, IBV_WR_RDMA_WRITE, piece(&p->a, 0, length), &p->b, IBV_SEND_SIGNALED);
	MUST(await(&p->a).status == (wrong ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS));
}

static void deregistered(struct pair *p, bool wrong)
{
	uint32_t rkey = p->b.mr->rkey;

	if (!wrong)
		write_to_peer(p, false, 8);
	ZERO(ibv_dereg_mr(p->b.mr));
	p->b.mr = &(struct ibv_mr){.rkey = rkey};
	if (wrong)
		write_to_peer(p, true, 8);
	p->b.mr = NULL;
}

static void unknown_key(struct pair *p, bool wrong)
{
	struct ibv_mr *mr = p->b.mr;

	p->b.mr = wrong ? &(struct ibv_mr){.rkey = mr->rkey ^ 0x10000} : mr;
	write_to_peer(p, wrong, 8);
	p->b.mr = mr;
}

/* The region is for other uses. */
static void not_for_writes(struct pair *p, bool wrong)
{
	struct ibv_mr *mr = p->b.mr;

	MUST(p->b.mr = ibv_reg_mr(p->pd, p->b.memory, SIZE, wrong ? IBV_ACCESS_REMOTE_READ : ALL));
	write_to_peer(p, wrong, 8);
	ZERO(ibv_dereg_mr(p->b.mr));
	p->b.mr = mr;
}

static void another_domain(struct pair *p, bool wrong)
{
	struct ibv_mr *mr = p->b.mr;
	struct ibv_pd *pd;

	MUST(pd = ibv_alloc_pd(p->context));
	MUST(p->b.mr = ibv_reg_mr(wrong ? pd : p->pd, p->b.memory, SIZE, ALL));
	write_to_peer(p, wrong, 8);
	ZERO(ibv_dereg_mr(p->b.mr));
	ZERO(ibv_dealloc_pd(pd));
	p->b.mr = mr;
}

static void beyond(struct pair *p, bool wrong)
{
	p->b.memory += 8;
	write_to_peer(p, wrong, wrong ? SIZE : SIZE - 8);
	p->b.memory -= 8;
}

static void qp_allows_no_writes(struct pair *p, bool wrong)
{
	struct ibv_qp_attr attr = {.qp_access_flags = wrong ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE};

	ZERO(ibv_modify_qp(p->b.qp, &attr, IBV_QP_ACCESS_FLAGS));
	post(&p->a, IBV_WR_RDMA_WRITE, piece(&p->a, 0, 8), &p->b, IBV_SEND_SIGNALED);
	MUST(await(&p->a).status == (wrong ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_SUCCESS));
}

static void unaligned_atomic(struct pair *p, bool wrong)
{
	p->b.memory += wrong ? 4 : 8;
	post(&p->a, IBV_WR_ATOMIC_FETCH_AND_ADD, piece(&p->a, 0, 8), &p->b, IBV_SEND_SIGNALED);
	MUST(await(&p->a).status == (wrong ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_SUCCESS));
	p->b.memory -= wrong ? 4 : 8;
}

static void short_atomic(struct pair *p, bool wrong)
{
	post(&p->a, IBV_WR_ATOMIC_FETCH_AND_ADD, piece(&p->a, 0, wrong ? 4 : 8), &p->b, IBV_SEND_SIGNALED);
	MUST(await(&p->a).status == (wrong ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS));
}

static void send_of(struct pair *p, struct ibv_sge sge, bool wrong)
{
	if (!wrong)
		receive(&p->b, piece(&p->b, 0, SIZE));
	post(&p->a, IBV_WR_SEND, sge, &p->b, IBV_SEND_SIGNALED);
	MUST(await(&p->a).status == (wrong ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS));
	if (!wrong)
		await(&p->b);
}

static void reregistered(struct pair *p, bool wrong)
{
	uint32_t rkey = p->b.mr->rkey;

	ZERO(ibv_rereg_mr(p->b.mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p->b.memory, SIZE / 2, 0));
	rkey = wrong ? rkey : p->b.mr->rkey;
	write_to(p, rkey, wrong);
}

/* The owner invalidates the window between two WRITEs of its peer. */
static void invalidated(struct pair *p, bool wrong)
{
	struct ibv_mw *mw = ibv_alloc_mw(p->pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;
	uint32_t rkey;

	MUST(mw);
	rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = p->b.mr,
		.addr = (uintptr_t)p->b.memory,
		.length = SIZE,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	ZERO(ibv_post_send(p->b.qp, &wr, &bad));
	MUST(await(&p->b).status == IBV_WC_SUCCESS);
	if (!wrong)
		write_to(p, rkey, false);
	wr = (struct ibv_send_wr){.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = rkey, .send_flags = IBV_SEND_SIGNALED};
	ZERO(ibv_post_send(p->b.qp, &wr, &bad));
	MUST(await(&p->b).status == IBV_WC_SUCCESS);
	if (wrong)
		write_to(p, rkey, true);
	ZERO(ibv_dealloc_mw(mw));
}

static void own_deregistered(struct pair *p, bool wrong)
{
	struct ibv_sge sge = piece(&p->a, 0, 8);

	if (!wrong)
		send_of(p, sge, false);
	ZERO(ibv_dereg_mr(p->a.mr));
	if (wrong)
		send_of(p, sge, true);
	p->a.mr = NULL;
}

static void own_beyond(struct pair *p, bool wrong)
{
	send_of(p, piece(&p->a, wrong ? 8 : 0, SIZE), wrong);
}

static void lkey_as_rkey(struct pair *p, bool wrong)
{
	write_to(p, wrong ? p->b.mr->lkey : p->b.mr->rkey, wrong);
}

static void rkey_as_lkey(struct pair *p, bool wrong)
{
	struct ibv_sge sge = piece(&p->a, 0, 8);

	sge.lkey = wrong ? p->a.mr->rkey : p->a.mr->lkey;
	send_of(p, sge, wrong);
}

/* A READ stores what it brings. */
static void read_only(struct pair *p, bool wrong)
{
	struct ibv_mr *mr = p->a.mr;

	MUST(p->a.mr = ibv_reg_mr(p->pd, p->a.memory, SIZE, wrong ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_LOCAL_WRITE));
	post(&p->a, IBV_WR_RDMA_READ, piece(&p->a, 0, 8), &p->b, IBV_SEND_SIGNALED);
	MUST(await(&p->a).status == (wrong ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS));
	ZERO(ibv_dereg_mr(p->a.mr));
	p->a.mr = mr;
}

static void short_receive(struct pair *p, bool wrong)
{
	receive(&p->b, piece(&p->b, 0, wrong ? 99 : 100));
	post(&p->a, IBV_WR_SEND, piece(&p->a, 0, 100), &p->b, IBV_SEND_SIGNALED);
	MUST(await(&p->a).status == (wrong ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_SUCCESS));
	MUST(await(&p->b).vendor_err == (wrong ? 0x201 : 0));
}

/* What is flushed names the failure before it. */
static void flushed(struct pair *p, bool wrong)
{
	short_receive(p, wrong);
	if (!wrong)
		receive(&p->b, piece(&p->b, 0, 100));
	post(&p->a, IBV_WR_SEND, piece(&p->a, 0, 100), &p->b, IBV_SEND_SIGNALED);
	MUST(await(&p->a).vendor_err == (wrong ? 0x1124 : 0));
	if (!wrong)
		await(&p->b);
}

/* A datagram with another Q_Key is dropped without a word to its sender; the one after it comes. */
static void another_qkey(struct pair *p, bool wrong)
{
	struct ibv_sge sge = piece(&p->a, 0, 8);
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	wr.wr.ud.ah = p->a.ah;
	wr.wr.ud.remote_qpn = p->b.qp->qp_num;
	for (int i = 0; i < 2; i++) {
		receive(&p->b, piece(&p->b, 0, 100));
		wr.wr.ud.remote_qkey = wrong && !i ? QKEY + 1 : QKEY;
		ZERO(ibv_post_send(p->a.qp, &wr, &bad));
		await(&p->a);
	}
	for (int i = wrong; i < 2; i++)
		await(&p->b);
}

static void ah_of_another_domain(struct pair *p, bool wrong)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}};
	struct ibv_ah *own = p->a.ah;
	struct ibv_pd *pd;

	MUST(pd = ibv_alloc_pd(p->context));
	ZERO(ibv_query_gid(p->context, 1, 0, &attr.grh.dgid));
	MUST(p->a.ah = ibv_create_ah(wrong ? pd : p->pd, &attr));
	receive(&p->b, piece(&p->b, 0, 100));
	post(&p->a, IBV_WR_SEND, piece(&p->a, 0, 8), &p->b, IBV_SEND_SIGNALED);
	MUST(await(&p->a).status == (wrong ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_SUCCESS));
	if (!wrong)
		await(&p->b);
	ZERO(ibv_destroy_ah(p->a.ah));
	ZERO(ibv_dealloc_pd(pd));
	p->a.ah = own;
}

/* Messages that come, and nothing polls. */
static void cq_overruns(struct pair *p, bool wrong)
{
	int room = p->b.cq->cqe, count = room + wrong;
	struct ibv_async_event event;

	for (int i = 0; i < count; i++)
		receive(&p->b, piece(&p->b, 0, 8));
	for (int i = 0; i < count; i++)
		ZERO(try_post(p, IBV_WR_SEND, 1, 8, i < count - 1 ? 0 : IBV_SEND_SIGNALED));
	for (bool failed = !wrong; !failed; ibv_ack_async_event(&event)) {
		ZERO(ibv_get_async_event(p->context, &event));
		failed = event.event_type == IBV_EVENT_QP_FATAL;
	}
	if (wrong)
		return;
	await(&p->a);
	for (int i = 0; i < room; i++)
		await(&p->b);
}

static void nothing_to_receive_it(struct pair *p, bool wrong)
{
	if (!wrong)
		receive(&p->b, piece(&p->b, 0, 8));
	post(&p->a, IBV_WR_SEND, piece(&p->a, 0, 8), &p->b, IBV_SEND_SIGNALED);
	MUST(await(&p->a).status == (wrong ? IBV_WC_RNR_RETRY_EXC_ERR : IBV_WC_SUCCESS));
	if (!wrong)
		await(&p->b);
}

/* UC: nobody else tells of a message that is dropped. The WRITE behind it shows that it has come. */
static void lost_message(struct pair *p, bool wrong)
{
	const char *end = p->b.memory + SIZE - 1;
	struct ibv_wc wc;
	int came = 0;

	if (!wrong)
		receive(&p->b, piece(&p->b, 0, 8));
	p->a.memory[SIZE - 1] = 'w';
	post(&p->a, IBV_WR_SEND, piece(&p->a, 0, 8), &p->b, IBV_SEND_SIGNALED);
	post(&p->a, IBV_WR_RDMA_WRITE, piece(&p->a, 0, SIZE), &p->b, IBV_SEND_SIGNALED);
	for (int i = 0; i < 2; i++)
		MUST(await(&p->a).status == IBV_WC_SUCCESS);
	while (__atomic_load_n(end, __ATOMIC_ACQUIRE) != 'w' || came < !wrong)
		came += ibv_poll_cq(p->b.cq, 1, &wc);
	MUST(came == !wrong);
}

static void reads_without_depth(struct pair *p, bool wrong)
{
	post(&p->a, wrong ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, piece(&p->a, 0, 8), &p->b, IBV_SEND_SIGNALED);
	MUST((await(&p->a).status == IBV_WC_SUCCESS) == !wrong);
}

/* For right and wrong alike the rows below say what b expects; the right program connects anew. */
static void connect_anew(struct pair *p)
{
	struct ibv_qp_attr attr;

	p->skew = 0;
	for (struct end *e = &p->a; e; e = e == &p->a ? &p->b : NULL) {
		attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RESET};
		ZERO(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE));
		attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL};
		ZERO(ibv_modify_qp(e->qp, &attr, INIT));
	}
	end_connect(p, &p->a, &p->b);
	end_connect(p, &p->b, &p->a);
}

static void other_psns(struct pair *p, bool wrong)
{
	if (!wrong)
		connect_anew(p);
	receive(&p->b, piece(&p->b, 0, 8));
	post(&p->a, IBV_WR_SEND, piece(&p->a, 0, 8), &p->b, IBV_SEND_SIGNALED);
	MUST(await(&p->a).status == (wrong ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS));
	if (!wrong)
		await(&p->b);
}

/* The first SEND is acknowledged, and lost; the second takes the receive. */
static void one_psn_higher(struct pair *p, bool wrong)
{
	if (!wrong)
		connect_anew(p);
	receive(&p->b, piece(&p->b, 0, 8));
	receive(&p->b, piece(&p->b, 0, 8));
	for (int i = 0; i < 2; i++) {
		post(&p->a, IBV_WR_SEND, piece(&p->a, 0, 8), &p->b, IBV_SEND_SIGNALED);
		MUST(await(&p->a).status == IBV_WC_SUCCESS);
	}
	for (int i = wrong; i < 2; i++)
		await(&p->b);
}

static const struct want srq = {.shares = true}, uc = {.type = IBV_QPT_UC}, ud = {.type = IBV_QPT_UD},
			 small = {.cqe = 4}, impatient = {.gives_up = true}, no_reads = {.reads_none = true},
			 windows = {.binds = true}, behind = {.skew = -16u}, ahead = {.skew = 16}, by_one = {.skew = 1},
			 infiniband = {.infiniband = true};

static const struct row {
	const char *name;
	void (*run)(struct pair *p, bool wrong);
	unsigned cause;
	const char *words;
	const struct want *want;
} rows[] = {
	{"full_send_queue", full_send_queue, 0x401, "of 8 (max_send_wr), 0 are not complete, and 8 are"},
	{"many_sges", many_sges, 0x404, "a SEND of 3 SGEs, more than max_send_sge 2"},
	{"long_inline", long_inline, 0x405, "999 bytes of inline data, more than max_inline_data 64"},
	{"inline_read", inline_read, 0x406, "a READ cannot be inline"},
	{"full_receive_queue", full_receive_queue, 0x411, "of 8, 8 wait for a message"},
	{"send_in_reset", send_in_reset, 0x402, "is in RESET"},
	{"straight_to_rts", straight_to_rts, 0x421, "cannot go from RESET to RTS"},
	{"no_access_flags", no_access_flags, 0x422, "from RESET to INIT: attr_mask lacks IBV_QP_ACCESS_FLAGS"},
	{"port_two", port_two, 0x424, "no port_num of 2"},
	{"lid_on_ethernet", lid_on_ethernet, 0x426, "has no GRH (is_global is 0, dlid 1)"},
	{"no_lid_on_infiniband", no_lid_on_infiniband, 0x427, "neither GRH nor LID", &infiniband},
	{"huge_queue", huge_queue, 0x431, "max_send_wr is 1073741824, at most"},
	{"no_cq", no_cq, 0x432, "the recv_cq is NULL"},
	{"one_qp_more", one_qp_more, 0x433, "the device has 65536 queue pairs, all it can"},
	{"remote_write_alone", remote_write_alone, 0x441, "lack LOCAL_WRITE"},
	{"nothing_mapped", nothing_mapped, 0x442, "is not mapped"},
	{"deregistered", deregistered, 0x212, "was deregistered 0."},
	{"reregistered", reregistered, 0x212, "got another key by ibv_rereg_mr() 0."},
	{"invalidated", invalidated, 0x212, "was invalidated, by LOCAL_INV or SEND_WITH_INV, 0.", &windows},
	{"own_deregistered", own_deregistered, 0x112, "SEND of 8 bytes, wr_id 0x1, failed: the region of the key"},
	{"beyond", beyond, 0x214, "is not inside"},
	{"short_receive", short_receive, 0x201, "with wr_id 0x64 has 99 bytes, the message at least 100"},
	{"flushed", flushed, 0x124, "refused it"},
	{"read_of_uc", read_of_uc, 0x403, "of UC, has no READ", &uc},
	{"many_receive_sges", many_receive_sges, 0x412, "no receive of 3 SGEs: at most 2"},
	{"receive_beside_srq", receive_beside_srq, 0x414, "receives by an SRQ", &srq},
	{"receive_in_reset", receive_in_reset, 0x413, "is in RESET"},
	{"timeout_too_early", timeout_too_early, 0x423, "from RESET to INIT: attr_mask may not have IBV_QP_TIMEOUT"},
	{"another_state_than_it_is", another_state_than_it_is, 0x425, "is in RTS, not in SQD"},
	{"unknown_key", unknown_key, 0x211, "no region has the key"},
	{"not_for_writes", not_for_writes, 0x215, "has the rights REMOTE_READ, not REMOTE_WRITE"},
	{"another_domain", another_domain, 0x213, "is of another protection domain"},
	{"qp_allows_no_writes", qp_allows_no_writes, 0x202, "its qp_access_flags are REMOTE_READ"},
	{"unaligned_atomic", unaligned_atomic, 0x204, "is not a multiple of 8"},
	{"short_atomic", short_atomic, 0x102, "of 4 bytes, wr_id 0x1, failed: it needs 8 bytes"},
	{"own_beyond", own_beyond, 0x114, "SEND of 4096 bytes, wr_id 0x1, failed: 0x"},
	{"read_only", read_only, 0x115, "READ of 8 bytes, wr_id 0x1, failed: the region of the key"},
	{"lkey_as_rkey", lkey_as_rkey, 0x217, "is the lkey of a region, and was used as an rkey"},
	{"rkey_as_lkey", rkey_as_lkey, 0x117, "is the rkey of a region, and was used as an lkey"},
	{"another_qkey", another_qkey, 0x209, "its Q_Key is 0x1235, not 0x1234", &ud},
	{"ah_of_another_domain", ah_of_another_domain, 0x104, "the address handle is of another protection domain",
	 &ud},
	{"cq_overruns", cq_overruns, 0x302, "a completion queue of 4 entries", &small},
	{"lost_message", lost_message, 0x20c, "0 receives were posted, and all of them are consumed", &uc},
	{"nothing_to_receive_it", nothing_to_receive_it, 0x122, "the peer had no receive posted", &impatient},
	{"lower_psns", other_psns, 0x127, "expects PSN 0xfffff0, this end begins with 0x0", &behind},
	{"higher_psns", other_psns, 0x127, "expects PSN 0x10, this end begins with 0x0", &ahead},
	{"one_psn_higher", one_psn_higher, 0x20b, "its PSN is 0x0, and the first is to have 0x1 (rq_psn)", &by_one},
	{"reads_without_depth", reads_without_depth, 0x103, "whose max_rd_atomic is 0", &no_reads},
};

/* Asks that command what this process waits for, while it has its objects. */
static void explain_me(const char *uroce)
{
	char command[4200];

	snprintf(command, sizeof(command), "exec '%s' explain -p %d", uroce, getpid());
	MUST(system(command) == 0);
}

int main(int argc, char **argv)
{
	struct pair p;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (argc < 3) {
			printf("%s\t0x%x\t%s\n", rows[i].name, rows[i].cause, rows[i].words);
		} else if (!strcmp(argv[1], rows[i].name)) {
			if (rows[i].want && rows[i].want->infiniband)
				setenv("UROCE_ADAPTER", "ib", 1);
			pair_open(&p, rows[i].want ? *rows[i].want : (struct want){0});
			rows[i].run(&p, !strcmp(argv[2], "wrong"));
			if (argc > 3)
				explain_me(argv[3]);
			pair_close(&p);
			return 0;
		}
	return argc < 3 ? 0 : 2;
}
