// SPDX-License-Identifier: BSD-2-Clause
/* threads_more [ROW]: what threads.c does, with the objects that it leaves out: queue pairs that change their state,
 * regions, windows, address handles, asynchronous events; all that can be created; connection management and rsockets.
 */
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>

#include "threads.h"

enum { SIZE = 1 << 16, DEPTH = 32, PAIRS = 3 };

static struct rc base;
static atomic_int begun, over, owed[PAIRS], numbers;
static atomic_bool closed[PAIRS];
static struct rc from[PAIRS], to[PAIRS];
static int total;

static void begin(int full)
{
	total = rounds(full);
	MUST(total <= MOST);
	begun = over = numbers = 0;
	rc_open(&base, NULL, 0, SIZE);
}

static int next_of(atomic_int *counter)
{
	int n = atomic_fetch_add(counter, 1);

	return n < total ? n : -1;
}

/* ---- modify x post x destroy ---- */

static void collect(struct rc *rc)
{
	struct ibv_wc wc[8];
	int n;

	MUST((n = ibv_poll_cq(rc->cq, 8, wc)) >= 0);
	for (int i = 0; i < n; i++) {
		MUST(wc[i].status <= IBV_WC_GENERAL_ERR);
		atomic_fetch_add(&times[wc[i].wr_id], 1);
		atomic_fetch_sub(&owed[wc[i].wr_id % PAIRS], 1);
	}
}

/* Of two threads, to queue pairs in all states but RESET. What is refused is not owed. */
static void *posts(void *arg)
{
	(void)arg;
	line_up();
	for (int n, k; (n = next_of(&begun)) >= 0;) {
		struct ibv_sge piece;
		struct ibv_send_wr wr = {.wr_id = n, .sg_list = &piece, .num_sge = 1}, *bad;

		k = n % PAIRS;
		piece = rc_piece(&from[k], 0, n % 5000);
		wr.opcode = n % 7 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
		wr.wr.rdma.remote_addr = from[k].peer.address;
		wr.wr.rdma.rkey = from[k].peer.rkey ^ (n % 1000 == 0);
		for (;;) {
			int error = -1;

			atomic_fetch_add(&owed[k], 1);
			if (!closed[k])
				error = ibv_post_send(from[k].qp, &wr, &bad);
			if (!error)
				break;
			MUST(error == -1 || error == ENOMEM);
			atomic_fetch_sub(&owed[k], 1);
			collect(&from[k]);
		}
		collect(&from[k]);
	}
	atomic_fetch_add(&over, 1);
	for (int k = 0; k < PAIRS; k++)
		while (owed[k])
			collect(&from[k]);
	return NULL;
}

static void again(struct rc *rc)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};

	ZERO(ibv_modify_qp(rc->qp, &attr, IBV_QP_STATE));
	ZERO(ibv_modify_qp(rc->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

static void *modifies(void *arg)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)arg;
	line_up();
	for (int i = 0; !over; i++) {
		int k = i % PAIRS;

		ZERO(ibv_modify_qp(i % 2 ? to[k].qp : from[k].qp, &attr, IBV_QP_STATE));
		ZERO(ibv_modify_qp(from[k].qp, &attr, IBV_QP_STATE));
		closed[k] = true;
		while (owed[k])
			collect(&from[k]);
		again(&from[k]);
		again(&to[k]);
		rc_connect_pair(&from[k], &to[k]);
		closed[k] = false;
	}
	return NULL;
}

static void *makes_pairs(void *arg)
{
	struct rc c, d;

	(void)arg;
	line_up();
	while (!over) {
		rc_open(&c, &base, 0, 4096);
		rc_open(&d, &base, 0, 4096);
		rc_connect_pair(&c, &d);
		rc_post(&c, IBV_WR_RDMA_WRITE, 0, 0, 4096);
		rc_expect(rc_poll(&c), IBV_WC_RDMA_WRITE);
		rc_post(&c, IBV_WR_RDMA_WRITE, 0, 0, 4096); /* and destroys it while this is on its way */
		rc_close(&c);
		rc_close(&d);
	}
	return NULL;
}

static void states(void)
{
	begin(20000);
	for (int k = 0; k < PAIRS; k++) {
		owed[k] = closed[k] = 0;
		rc_open(&from[k], &base, 0, SIZE);
		rc_open(&to[k], &base, 0, SIZE);
		rc_connect_pair(&from[k], &to[k]);
	}
	TOGETHER({posts, 2}, {modifies, 1}, {makes_pairs, 1});
	exactly_once(total);
	for (int k = 0; k < PAIRS; k++) {
		rc_close(&from[k]);
		rc_close(&to[k]);
	}
	rc_close(&base);
}

/* ---- reg_mr x dereg_mr x access ---- */

/* One region at a time, of pages of its own, which nobody may write to when it is gone. */
static struct {
	_Atomic uint64_t address;
	_Atomic uint32_t rkey, lkey;
} lent;

enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

static void *registers(void *arg)
{
	uint8_t *memory, *before;
	struct ibv_mr *mr;

	(void)arg;
	MUST(!posix_memalign((void **)&memory, 4096, SIZE));
	MUST(before = malloc(SIZE));
	memset(memory, 0, SIZE);
	line_up();
	for (int i = 0; !over; i++) {
		MUST(mr = ibv_reg_mr(base.pd, memory + i % 100, 4096 + i % 1000, ALL));
		lent.lkey = mr->lkey;
		lent.rkey = mr->rkey;
		lent.address = (uintptr_t)mr->addr;
		for (int k = 0; k < 20; k++)
			sched_yield();
		if (i % 8 == 0)
			ZERO(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE));
		ZERO(ibv_dereg_mr(mr));
		memcpy(before, memory, SIZE);
		for (int k = 0; k < 5; k++)
			sched_yield();
		MUST(!memcmp(before, memory, SIZE));
	}
	free(memory);
	free(before);
	return NULL;
}

static bool has_failed(struct rc *rc)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	ZERO(ibv_query_qp(rc->qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state == IBV_QPS_ERR;
}

/* Its own pair, made anew after each access that was refused. Where packets are lost (LOSSY), the NAK may be, and the
 * QP that sent it answers nothing more. */
static void *accesses(void *arg)
{
	bool lossy = getenv("LOSSY");
	struct rc c, d;

	MUST(arg || !arg);
	rc_open(&c, &base, 0, SIZE);
	rc_open(&d, &base, 0, SIZE);
	ZERO(ibv_destroy_qp(d.qp)); /* of the PD that the region is of */
	struct ibv_qp_init_attr attr = {
		.send_cq = d.cq, .recv_cq = d.cq, .qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
	MUST(d.qp = ibv_create_qp(base.pd, &attr));
	d.me.qpn = d.qp->qp_num;
	again(&d);
	rc_connect_pair(&c, &d);
	line_up();
	for (int n; (n = next_of(&begun)) >= 0;) {
		struct ibv_sge piece = rc_piece(&c, 0, 1000);
		struct ibv_send_wr wr = {.wr_id = n, .sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE},
				   *bad;
		struct ibv_wc wc;

		c.memory[n % 1000]++;
		wr.opcode = n % 3 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
		wr.wr.rdma.remote_addr = lent.address;
		wr.wr.rdma.rkey = lent.rkey;
		ZERO(ibv_post_send(c.qp, &wr, &bad));
		wc = rc_poll(&c);
		MUST(wc.wr_id == (uint64_t)n);
		atomic_fetch_add(&times[n], 1);
		if (wc.status == IBV_WC_SUCCESS)
			continue;
		MUST(wc.status == IBV_WC_REM_ACCESS_ERR ||
		     (lossy && wc.status == IBV_WC_RETRY_EXC_ERR && has_failed(&d)));
		again(&c);
		again(&d);
		rc_connect_pair(&c, &d);
	}
	over = 1;
	rc_close(&c);
	rc_close(&d);
	return NULL;
}

static void regions(void)
{
	begin(6000);
	lent.address = lent.rkey = 0;
	TOGETHER({accesses, 2}, {registers, 1});
	exactly_once(total);
	rc_close(&base);
}

/* ---- windows: two threads bind theirs by one queue pair ---- */

static atomic_int bound[MOST];

/* Until it has seen its own: each takes what comes, for the other too. */
static enum ibv_wc_status done(struct rc *rc, int number)
{
	struct ibv_wc wc;
	int n;

	while (!bound[number]) {
		MUST((n = ibv_poll_cq(rc->cq, 1, &wc)) >= 0);
		if (n) {
			atomic_fetch_add(&times[wc.wr_id], 1);
			bound[wc.wr_id] = 1 + wc.status;
		}
	}
	return bound[number] - 1;
}

static void post_to(struct rc *rc, struct ibv_send_wr *wr, int *number)
{
	struct ibv_send_wr *bad;

	wr->wr_id = *number = atomic_fetch_add(&numbers, 1);
	MUST(*number < MOST);
	ZERO(ibv_post_send(rc->qp, wr, &bad));
}

static void *binds(void *arg)
{
	struct rc *c = &from[0], *d = &to[0];
	struct ibv_mw *mw;
	int n;

	(void)arg;
	MUST(mw = ibv_alloc_mw(d->pd, IBV_MW_TYPE_2));
	line_up();
	while (next_of(&begun) >= 0) {
		uint32_t rkey = ibv_inc_rkey(mw->rkey);
		struct ibv_sge piece = rc_piece(c, 0, 64);
		struct ibv_send_wr bind = {
			.opcode = IBV_WR_BIND_MW,
			.bind_mw = {mw, rkey, {d->mr, d->me.address, 4096, IBV_ACCESS_REMOTE_WRITE}},
		};
		struct ibv_send_wr write = {
			.opcode = IBV_WR_RDMA_WRITE, .sg_list = &piece, .num_sge = 1, .wr.rdma = {d->me.address, rkey}};
		struct ibv_send_wr end = {.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = rkey};
		struct ibv_mw *other;

		MUST(other = ibv_alloc_mw(d->pd, IBV_MW_TYPE_1));
		post_to(d, &bind, &n);
		MUST(done(d, n) == IBV_WC_SUCCESS);
		mw->rkey = rkey;
		post_to(c, &write, &n);
		MUST(done(c, n) == IBV_WC_SUCCESS);
		post_to(d, &end, &n);
		MUST(done(d, n) == IBV_WC_SUCCESS);
		ZERO(ibv_dealloc_mw(other));
	}
	ZERO(ibv_dealloc_mw(mw));
	return NULL;
}

static void windows(void)
{
	begin(5000);
	memset(bound, 0, sizeof(bound));
	rc_open(&from[0], &base, 0, SIZE);
	rc_open(&to[0], &base, 0, SIZE);
	struct ibv_mr *mr;
	MUST(mr = ibv_reg_mr(to[0].pd, to[0].memory, SIZE, ALL | IBV_ACCESS_MW_BIND));
	ZERO(ibv_dereg_mr(to[0].mr));
	to[0].mr = mr;
	rc_connect_pair(&from[0], &to[0]);
	TOGETHER({binds, 2});
	exactly_once(numbers);
	rc_close(&from[0]);
	rc_close(&to[0]);
	rc_close(&base);
}

/* ---- address handles and datagrams ---- */

static struct ibv_qp *datagrams;
static struct ibv_cq *datagram_cq;

static void *addresses(void *arg)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = base.me.gid, .hop_limit = 1}};
	struct ibv_wc wc;
	struct ibv_ah *ah;
	int n, got;

	(void)arg;
	line_up();
	while ((n = next_of(&begun)) >= 0) {
		struct ibv_sge piece = rc_piece(&base, 0, 100);
		struct ibv_send_wr wr = {.wr_id = n,
					 .sg_list = &piece,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND,
					 .send_flags = IBV_SEND_SIGNALED},
				   *bad;
		struct ibv_sge into = rc_piece(&base, 4096, 4096);
		struct ibv_recv_wr receive = {.wr_id = MOST, .sg_list = &into, .num_sge = 1}, *bad_receive;

		MUST(ah = ibv_create_ah(base.pd, &attr));
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = datagrams->qp_num;
		wr.wr.ud.remote_qkey = 0x1111;
		int error = ibv_post_recv(datagrams, &receive, &bad_receive);
		MUST(!error || error == ENOMEM);
		ZERO(ibv_post_send(datagrams, &wr, &bad));
		do { /* and destroys it as soon as that one is complete, by whichever thread */
			MUST((got = ibv_poll_cq(datagram_cq, 1, &wc)) >= 0);
			MUST(!got || wc.status == IBV_WC_SUCCESS);
			if (got && wc.opcode == IBV_WC_SEND)
				atomic_fetch_add(&times[wc.wr_id], 1);
		} while (!times[n]);
		ZERO(ibv_destroy_ah(ah));
	}
	return NULL;
}

static void handles(void)
{
	begin(10000);
	MUST(datagram_cq = ibv_create_cq(base.context, 2048, NULL, NULL, 0));
	struct ibv_qp_init_attr init = {
		.send_cq = datagram_cq, .recv_cq = datagram_cq, .qp_type = IBV_QPT_UD, .cap = {64, 512, 1, 1, 0}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x1111};

	MUST(datagrams = ibv_create_qp(base.pd, &init));
	ZERO(ibv_modify_qp(datagrams, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	ZERO(ibv_modify_qp(datagrams, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	ZERO(ibv_modify_qp(datagrams, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	TOGETHER({addresses, 3});
	exactly_once(total);
	ZERO(ibv_destroy_qp(datagrams));
	ZERO(ibv_destroy_cq(datagram_cq));
	rc_close(&base);
}

/* ---- asynchronous events: one for each queue pair that ends ---- */

static struct ibv_srq *srq;

static void *ends_queue_pairs(void *arg)
{
	struct ibv_qp_init_attr init = {
		.send_cq = base.cq, .recv_cq = base.cq, .srq = srq, .qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)arg;
	line_up();
	for (int n; (n = next_of(&begun)) >= 0;) {
		struct ibv_qp *qp;

		init.qp_context = (void *)(intptr_t)n;
		MUST(qp = ibv_create_qp(base.pd, &init));
		base.me.qpn = qp->qp_num;
		struct ibv_qp_attr up = {.qp_state = IBV_QPS_INIT, .port_num = 1};
		ZERO(ibv_modify_qp(qp, &up, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
		ZERO(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
		if (n % 2)
			while (!times[n])
				sched_yield();
		ZERO(ibv_destroy_qp(qp)); /* waits until it is acknowledged, if it has been fetched */
		if (n % 2 == 0 && !times[n])
			atomic_fetch_add(&times[n], 1); /* it went with the queue pair */
	}
	if (atomic_fetch_add(&over, 1) == 1)
		MUST(!fcntl(base.context->async_fd, F_SETFL, O_NONBLOCK));
	return NULL;
}

static void *gets_events(void *arg)
{
	struct pollfd fd = {.fd = base.context->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	(void)arg;
	line_up();
	while (over < 2) {
		if (poll(&fd, 1, 10) < 1)
			continue;
		if (ibv_get_async_event(base.context, &event)) {
			MUST(errno == EAGAIN); /* the other one has it */
			continue;
		}
		MUST(event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED);
		atomic_fetch_add(&times[(intptr_t)event.element.qp->qp_context], 1);
		ibv_ack_async_event(&event);
	}
	return NULL;
}

static void async_events(void)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 16, .max_sge = 1}};

	begin(4000);
	MUST(!fcntl(base.context->async_fd, F_SETFL, O_NONBLOCK));
	MUST(srq = ibv_create_srq(base.pd, &attr));
	TOGETHER({ends_queue_pairs, 2}, {gets_events, 2});
	exactly_once(total);
	ZERO(ibv_destroy_srq(srq));
	rc_close(&base);
}

/* ---- objects of all kinds ---- */

static void make_device_memory(struct ibv_context *c)
{
	struct ibv_alloc_dm_attr attr = {.length = 4096};
	struct ibv_dm *dm = ibv_alloc_dm(c, &attr);

	MUST(dm || errno == EOPNOTSUPP);
	if (dm) {
		ZERO(ibv_memcpy_to_dm(dm, 0, &attr, sizeof(attr)));
		ZERO(ibv_free_dm(dm));
	}
}

static void make_work_queue(struct ibv_context *c, struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_wq_init_attr attr = {.wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = pd, .cq = cq};
	struct ibv_wq *wq = ibv_create_wq(c, &attr);

	MUST(wq || errno == EOPNOTSUPP || errno == EPERM);
	if (wq) {
		struct ibv_rwq_ind_table_init_attr with = {.ind_tbl = &wq};
		struct ibv_rwq_ind_table *rwq;

		MUST(rwq = ibv_create_rwq_ind_table(c, &with));
		ZERO(ibv_destroy_rwq_ind_table(rwq));
		ZERO(ibv_destroy_wq(wq));
	}
}

static void make_domains(struct ibv_context *c, struct ibv_pd *pd)
{
	struct ibv_xrcd_init_attr with = {
		.fd = -1, .oflags = O_CREAT, .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS};
	struct ibv_td_init_attr none = {0};
	struct ibv_parent_domain_init_attr of = {.pd = pd};
	struct ibv_xrcd *xrcd;
	struct ibv_pd *parent;

	MUST(xrcd = ibv_open_xrcd(c, &with));
	ZERO(ibv_close_xrcd(xrcd));
	MUST(of.td = ibv_alloc_td(c, &none));
	MUST(parent = ibv_alloc_parent_domain(c, &of));
	ZERO(ibv_dealloc_pd(parent));
	ZERO(ibv_dealloc_td(of.td));
}

static void join_group(struct ibv_qp *qp)
{
	union ibv_gid group = {.raw = {[10] = 0xff, 0xff, 224, 0, 0, 77}};
	int error = ibv_attach_mcast(qp, &group, 0);

	MUST(!error || error == ENODEV || error == EINVAL);
	if (!error)
		ZERO(ibv_detach_mcast(qp, &group, 0));
}

static void make_queue_pairs(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_srq_init_attr shared = {.attr = {.max_wr = 4, .max_sge = 1}};
	enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
	struct ibv_srq *s;

	MUST(s = ibv_create_srq(pd, &shared));
	for (int i = 0; i < 3; i++) {
		struct ibv_qp_init_attr attr = {.qp_type = types[i],
						.send_cq = cq,
						.recv_cq = cq,
						.srq = i == 1 ? NULL : s,
						.cap = {4, 4, 1, 1, 0}};
		struct ibv_qp *qp;

		MUST(qp = ibv_create_qp(pd, &attr));
		if (i == 2)
			join_group(qp);
		ZERO(ibv_destroy_qp(qp));
	}
	ZERO(ibv_destroy_srq(s));
}

static void *makes_all(void *arg)
{
	struct ibv_context *own;
	struct ibv_device **list;
	char memory[64];

	(void)arg;
	line_up();
	for (int n; (n = next_of(&begun)) >= 0;) {
		struct ibv_context *c = base.context;
		struct ibv_comp_channel *channel;
		struct ibv_pd *pd;
		struct ibv_cq *cq;
		struct ibv_mr *mr;

		own = NULL;
		if (n % 4 == 0) {
			MUST((list = ibv_get_device_list(NULL)) && list[0]);
			MUST(c = own = ibv_open_device(list[0]));
			ibv_free_device_list(list);
		}
		MUST(pd = ibv_alloc_pd(c));
		MUST(channel = ibv_create_comp_channel(c));
		MUST(cq = ibv_create_cq(c, 16, NULL, channel, 0));
		MUST(mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE));
		make_queue_pairs(pd, cq);
		make_domains(c, pd);
		make_work_queue(c, pd, cq);
		make_device_memory(c);
		MUST(ibv_dealloc_pd(pd) == EBUSY);
		ZERO(ibv_dereg_mr(mr));
		ZERO(ibv_destroy_cq(cq));
		ZERO(ibv_destroy_comp_channel(channel));
		ZERO(ibv_dealloc_pd(pd));
		if (own)
			ZERO(ibv_close_device(own));
		atomic_fetch_add(&times[n], 1);
	}
	return NULL;
}

static void objects(void)
{
	begin(800);
	TOGETHER({makes_all, 4});
	exactly_once(total);
	rc_close(&base);
}

/* ---- connections: two threads to each event channel ---- */

static struct rdma_event_channel *clients, *servers;
static struct sockaddr_in server_at;
static atomic_int seen[RDMA_CM_EVENT_TIMEWAIT_EXIT + 1];

static void begin_one(void)
{
	struct rdma_cm_id *id;
	int n = next_of(&begun);

	if (n < 0)
		return;
	MUST(!rdma_create_id(clients, &id, (void *)(intptr_t)n, RDMA_PS_TCP));
	MUST(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&server_at, 10000));
}

static void end_one(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	MUST(!rdma_destroy_id(id));
}

/* True: the id is at its end, and is destroyed when the event is acknowledged. */
static bool follow(struct rdma_cm_event *e)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = {2, 2, 1, 1, 0}};
	struct rdma_conn_param p = {.retry_count = 7, .responder_resources = 1, .initiator_depth = 1};
	bool is_client = e->id->channel == clients;

	atomic_fetch_add(&seen[e->event], 1);
	switch (e->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		MUST(!rdma_resolve_route(e->id, 10000));
		return false;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		MUST(!rdma_create_qp(e->id, NULL, &attr));
		MUST(!rdma_connect(e->id, &p));
		return false;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		MUST(!rdma_create_qp(e->id, NULL, &attr));
		MUST(!rdma_accept(e->id, &p));
		return false;
	case RDMA_CM_EVENT_ESTABLISHED:
		if (is_client) {
			atomic_fetch_add(&times[(intptr_t)e->id->context], 1);
			MUST(!rdma_disconnect(e->id));
		}
		return false;
	case RDMA_CM_EVENT_DISCONNECTED:
		return true;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return false;
	default:
		fprintf(stderr, "%s, status %d\n", rdma_event_str(e->event), e->status);
		exit(1);
	}
}

static void serve(struct rdma_event_channel *channel)
{
	struct pollfd fd = {.fd = channel->fd, .events = POLLIN};
	struct rdma_cm_event *e;

	while (over < 2 * total) {
		struct rdma_cm_id *id;
		bool ended;

		if (poll(&fd, 1, 10) < 1)
			continue;
		if (rdma_get_cm_event(channel, &e)) {
			MUST(errno == EAGAIN);
			continue;
		}
		id = e->id;
		ended = follow(e);
		MUST(!rdma_ack_cm_event(e));
		if (!ended)
			continue;
		end_one(id);
		atomic_fetch_add(&over, 1);
		if (channel == clients)
			begin_one();
	}
}

static void *connects(void *arg)
{
	(void)arg;
	line_up();
	for (int i = 0; i < 8; i++)
		begin_one();
	serve(clients);
	return NULL;
}

static void *accepts(void *arg)
{
	(void)arg;
	line_up();
	serve(servers);
	return NULL;
}

static void connections(void)
{
	struct rdma_cm_id *listener;

	total = rounds(400);
	begun = over = 0;
	memset(seen, 0, sizeof(seen));
	server_at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	MUST(clients = rdma_create_event_channel());
	MUST(servers = rdma_create_event_channel());
	MUST(!fcntl(clients->fd, F_SETFL, O_NONBLOCK) && !fcntl(servers->fd, F_SETFL, O_NONBLOCK));
	MUST(!rdma_create_id(servers, &listener, NULL, RDMA_PS_TCP));
	MUST(!rdma_bind_addr(listener, (struct sockaddr *)&server_at));
	MUST(!rdma_listen(listener, 100));
	server_at.sin_port = rdma_get_src_port(listener);
	TOGETHER({connects, 2}, {accepts, 2});
	exactly_once(total);
	MUST(seen[RDMA_CM_EVENT_ADDR_RESOLVED] == total && seen[RDMA_CM_EVENT_ROUTE_RESOLVED] == total);
	MUST(seen[RDMA_CM_EVENT_CONNECT_REQUEST] == total && seen[RDMA_CM_EVENT_DISCONNECTED] == 2 * total);
	MUST(!rdma_destroy_id(listener));
	rdma_destroy_event_channel(clients);
	rdma_destroy_event_channel(servers);
}

/* ---- ids that are made, moved to another channel and destroyed ---- */

static void *moves(void *arg)
{
	struct rdma_event_channel *channels[] = {clients, servers, NULL};

	line_up();
	for (int n; (n = next_of(&begun)) >= 0;) {
		struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		struct rdma_cm_id *id;

		MUST(!rdma_create_id(channels[n % 2], &id, NULL, n % 3 ? RDMA_PS_TCP : RDMA_PS_UDP));
		if (n % 5)
			MUST(!rdma_bind_addr(id, (struct sockaddr *)&any));
		if (n % 3 == 1)
			MUST(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&any, 1000));
		if (n % 15 == 2)
			MUST(!rdma_listen(id, 1));
		MUST(!rdma_migrate_id(id, channels[(n + 1) % 2]));
		if (n % 4 == 0)
			MUST(!rdma_migrate_id(id, channels[n % 2]));
		MUST(!rdma_destroy_id(id));
		atomic_fetch_add(&times[n], 1);
	}
	atomic_fetch_add(&over, (int)(intptr_t)arg + 1);
	return NULL;
}

static void ids(void)
{
	total = rounds(6000);
	begun = over = 0;
	MUST(clients = rdma_create_event_channel());
	MUST(servers = rdma_create_event_channel());
	TOGETHER({moves, 3});
	exactly_once(total);
	rdma_destroy_event_channel(clients);
	rdma_destroy_event_channel(servers);
}

/* ---- rsockets ---- */

static int ends[2];
static int listener;
static atomic_long counted[2], expected[2];

static void *accepts_stream(void *arg)
{
	(void)arg;
	MUST((ends[0] = raccept(listener, NULL, NULL)) >= 0);
	return NULL;
}

/* Both ends wait for room and for bytes all the time. */
static void has_small_buffers(int fd)
{
	int size = 4096;

	MUST(!rsetsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)));
	MUST(!rsetsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)));
}

static void *connects_stream(void *arg)
{
	(void)arg;
	MUST((ends[1] = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0);
	has_small_buffers(ends[1]);
	MUST(!rconnect(ends[1], (struct sockaddr *)&server_at, sizeof(server_at)));
	return NULL;
}

static void open_streams(void)
{
	socklen_t size = sizeof(server_at);

	server_at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	MUST((listener = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0);
	has_small_buffers(listener);
	MUST(!rbind(listener, (struct sockaddr *)&server_at, sizeof(server_at)));
	MUST(!rlisten(listener, 8));
	MUST(!rgetsockname(listener, (struct sockaddr *)&server_at, &size));
	TOGETHER({accepts_stream, 1}, {connects_stream, 1});
}

static void *writes(void *arg)
{
	int me = (int)(intptr_t)arg;
	char bytes[1000];

	memset(bytes, me, sizeof(bytes));
	line_up();
	for (int i = 0; i < total; i++) {
		ssize_t n = rsend(ends[0], bytes, 1 + (size_t)(i * 37 % 999), 0);

		MUST(n > 0);
		atomic_fetch_add(&expected[me], n);
	}
	if (atomic_fetch_add(&over, 1) == 1)
		MUST(!rshutdown(ends[0], SHUT_WR));
	return NULL;
}

static void *reads(void *arg)
{
	char bytes[4096];
	ssize_t n;

	(void)arg;
	line_up();
	while ((n = rrecv(ends[1], bytes, sizeof(bytes), 0))) {
		long ones = 0;

		MUST(n > 0);
		for (ssize_t i = 0; i < n; i++)
			ones += bytes[i];
		atomic_fetch_add(&counted[0], n - ones);
		atomic_fetch_add(&counted[1], ones);
	}
	return NULL;
}

static void *looks(void *arg)
{
	struct pollfd fds[2] = {{.fd = ends[0], .events = POLLOUT}, {.fd = ends[1], .events = POLLIN}};

	(void)arg;
	line_up();
	while (over < 2)
		MUST(rpoll(fds, 2, 10) >= 0);
	return NULL;
}

static void streams(void)
{
	total = rounds(5000);
	over = 0;
	memset(counted, 0, sizeof(counted));
	memset(expected, 0, sizeof(expected));
	open_streams();
	TOGETHER({writes, 2}, {reads, 2}, {looks, 1});
	for (int i = 0; i < 2; i++)
		MUST(counted[i] == expected[i]);
	MUST(!rclose(ends[0]) && !rclose(ends[1]) && !rclose(listener));
}

static void *opens(void *arg)
{
	(void)arg;
	line_up();
	for (int n; (n = next_of(&begun)) >= 0;) {
		int fd = rsocket(AF_INET, n % 2 ? SOCK_STREAM : SOCK_DGRAM, 0);
		struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		struct pollfd p = {.fd = fd, .events = POLLIN};

		MUST(fd >= 0);
		if (n % 8 == 1) {
			MUST(!rfcntl(fd, F_SETFL, O_NONBLOCK));
			MUST(!rconnect(fd, (struct sockaddr *)&server_at, sizeof(server_at)) || errno == EINPROGRESS);
		} else {
			MUST(!rbind(fd, (struct sockaddr *)&any, sizeof(any)));
		}
		if (n % 8 == 3)
			MUST(!rlisten(fd, 1));
		MUST(rpoll(&p, 1, 0) >= 0);
		MUST(!rclose(fd));
		atomic_fetch_add(&times[n], 1);
	}
	return NULL;
}

static void sockets(void)
{
	total = rounds(2000);
	begun = 0;
	open_streams();
	TOGETHER({opens, 3});
	exactly_once(total);
	MUST(!rclose(ends[0]) && !rclose(ends[1]) && !rclose(listener));
}

static const struct row table[] = {
	{"modify_qp x post x destroy", states},
	{"reg_mr x dereg_mr x access", regions},
	{"bind x bind", windows},
	{"create_ah x send x destroy_ah", handles},
	{"get_async_event x ack x destroy", async_events},
	{"create x destroy, of all kinds", objects},
	{"get_cm_event x ack_cm_event", connections},
	{"rdma_create_id x rdma_migrate_id x rdma_destroy_id", ids},
	{"rsend x rrecv x rpoll", streams},
	{"rsocket x rclose", sockets},
};

int main(int argc, char **argv)
{
	return run_rows(table, sizeof(table) / sizeof(table[0]), argc, argv);
}
