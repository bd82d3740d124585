/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs: checks of attributes, creation, state changes and destruction by the application. */
#include "verbs/qp.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/address.h"
#include "base/cause.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/msan.h"
#include "check/lifetime.h"
#include "check/objects.h"
#include "check/qp.h"
#include "device/adapter.h"
#include "device/device.h"
#include "device/front.h"
#include "device/listen.h"
#include "device/path.h"
#include "engine/engine.h"
#include "fault/inject.h"
#include "object/qp.h"
#include "object/show.h"
#include "port/faults.h"
#include "port/group.h"
#include "port/local.h"
#include "port/ports.h"
#include "port/post.h"
#include "port/raw.h"
#include "port/receive.h"
#include "progress/poll.h"
#include "verbs/async.h"
#include "verbs/builder.h"
#include "verbs/context.h"
#include "verbs/cq_front.h"
#include "verbs/remote_qp.h"
#include "verbs/shared_qp.h"
#include "verbs/table.h"
#include "verbs/wq.h"

#define ANSWERS (10 * MSEC) /* about the time that another process may occupy the processor */
#define IN_VAIN (1000 * MSEC)

static bool type_known(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_UD:
	case IBV_QPT_RAW_PACKET:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
	case IBV_QPT_DRIVER:
		return true;
	}
	return false;
}

/* 0 or EINVAL. */
static int check_cap(const struct ibv_qp_cap *cap)
{
	const struct adapter *a = adapter();
	uint32_t depth = (uint32_t)a->attr.max_qp_wr, sges = min_of((uint32_t)a->attr.max_sge, (uint32_t)HCA_MAX_SGE);
	const struct {
		const char *name;
		uint32_t asked, most;
	} rows[] = {
		{"max_send_wr", cap->max_send_wr, depth},
		{"max_recv_wr", cap->max_recv_wr, depth},
		{"max_send_sge", cap->max_send_sge, sges},
		{"max_recv_sge", cap->max_recv_sge, sges},
		{"max_inline_data", cap->max_inline_data, a->inline_most},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].asked > rows[i].most)
			return because(CAUSE_CREATE_LIMIT, EINVAL, "ibv_create_qp: %s is %u, at most %u are possible",
				       rows[i].name, rows[i].asked, rows[i].most);
	return 0;
}

/* ibv_create_qp(3), ibv_create_qp_ex(3): attributes of a queue that the QP does not have are ignored. */
static bool is_hash(const struct ibv_qp_init_attr_ex *a)
{
	return a->comp_mask & (IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE);
}

static void drop_unused(struct ibv_qp_init_attr_ex *a)
{
	bool sends = a->qp_type != IBV_QPT_XRC_RECV;
	bool receives = sends && a->qp_type != IBV_QPT_XRC_SEND;

	if (!sends) {
		a->cap = (struct ibv_qp_cap){0};
		a->pd = NULL;
		a->send_cq = NULL;
	}
	if (is_hash(a)) {
		a->cap = (struct ibv_qp_cap){0};
		a->send_cq = a->recv_cq = NULL;
		a->srq = NULL;
	}
	if (!receives) {
		a->srq = NULL;
		a->recv_cq = NULL;
	}
	if (!receives || a->srq)
		a->cap.max_recv_wr = a->cap.max_recv_sge = 0;
}

static int lacks(const char *what)
{
	return because(CAUSE_CREATE_OBJECT, EINVAL, "ibv_create_qp: the %s is NULL, destroyed or of another device",
		       what);
}

/* Call after drop_unused(). */
static int check_init(struct ibv_context *c, const struct ibv_qp_init_attr_ex *a)
{
	bool sends = a->qp_type != IBV_QPT_XRC_RECV;
	bool receives = sends && a->qp_type != IBV_QPT_XRC_SEND;

	if (!type_known(a->qp_type))
		return EINVAL;
	if (a->qp_type == IBV_QPT_DRIVER || !(adapter()->types & 1u << a->qp_type))
		return EOPNOTSUPP;
	if (!sends && (!(a->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !a->xrcd || a->xrcd->context != c))
		return EINVAL;
	if (sends && (pd_check(a->pd) || a->pd->context != c))
		return lacks("PD");
	if (sends && !is_hash(a) && (cq_check(a->send_cq) || a->send_cq->context != c))
		return lacks("send_cq");
	if (receives && !is_hash(a) && (cq_check(a->recv_cq) || a->recv_cq->context != c))
		return lacks("recv_cq");
	if (a->srq && (srq_check(a->srq) || a->srq->context != c || ((struct srq *)a->srq)->xrcd))
		return lacks("SRQ");
	return check_cap(&a->cap);
}

/* Sets up what only a raw packet QP has. 0 or errno; ibv_destroy_qp() undoes a partial setup. */
static int prepare_raw(struct qp *qp, const struct ibv_qp_init_attr_ex *a)
{
	if (is_hash(a)) {
		int error = rss_create(a, &qp->rss);

		if (error)
			return error;
	}
	return -raw_attach(qp, context_of(qp->base.context)->device->netif_index);
}

/* What else the QP uses. */
static const void *domain_or_table(const struct ibv_qp_init_attr_ex *a)
{
	if (a->comp_mask & IBV_QP_INIT_ATTR_XRCD)
		return a->xrcd;
	return is_hash(a) ? a->rwq_ind_tbl : NULL;
}

/* XRC targets are not counted: they belong to their domain. 0 or errno. */
static int count_qp(struct context *c, enum ibv_qp_type type)
{
	const struct adapter *a = adapter();

	if (type == IBV_QPT_XRC_RECV || adapter_take(&c->device->qps, a->attr.max_qp))
		return 0;
	return because(CAUSE_CREATE_MANY, a->no_more_qps ?: ENOMEM,
		       "ibv_create_qp: the device has %d queue pairs, all it can", a->attr.max_qp);
}

/* `ops`: enum ibv_qp_create_send_ops_flags, 0: a QP without the ibv_wr_ functions. */
static struct ibv_qp *verbs_qp_create(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr, uint64_t ops)
{
	struct qp *qp;
	int error;

	drop_unused(attr);
	error = check_init(context, attr) ?: count_qp(context_of(context), attr->qp_type);
	if (error)
		return fail_null(error);
	attr->cap.max_send_wr = depth_granted(attr->cap.max_send_wr);
	attr->cap.max_recv_wr = depth_granted(attr->cap.max_recv_wr);
	qp = loop_make_room(context_of(context)->hca)
		     ? NULL
		     : qp_create(context_of(context)->hca, (struct pd *)attr->pd, (struct cq *)attr->send_cq,
				 (struct cq *)attr->recv_cq, (struct srq *)attr->srq, attr->qp_type, &attr->cap,
				 attr->sq_sig_all);
	if (!qp) {
		if (attr->qp_type != IBV_QPT_XRC_RECV)
			adapter_give(&context_of(context)->device->qps);
		return fail_null(cause_no_more("ibv_create_qp", &context_of(context)->hca->qps, "queue pairs"));
	}
	lock_take(&qp->lock); /* qps_fail() can already find it */
	qp->base.context = context;
	lock_drop(&qp->lock);
	qp->base.qp_context = attr->qp_context;
	qp->base.pd = attr->pd;
	qp->base.send_cq = attr->send_cq;
	qp->base.recv_cq = attr->recv_cq;
	qp->base.srq = attr->srq;
	pthread_mutex_init(&qp->base.mutex, NULL);
	pthread_cond_init(&qp->base.cond, NULL);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS)
		qp->loop.no_multicast_loop = attr->create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	if (is_xrc_target(qp))
		share_qp(qp, (struct xrcd *)attr->xrcd);
	atomic_fetch_add_explicit(&context_of(context)->objects, 1, memory_order_relaxed);
	if (qp->transport == TRANSPORT_RAW)
		error = prepare_raw(qp, attr);
	if (!error && ops && builder_create(qp, ops))
		error = ENOMEM;
	if (error) {
		ibv_destroy_qp(&qp->base);
		return fail_null(error);
	}
	attr->cap = qp->cap;
	check_made(CHECK_QP, &qp->base, 0, attr->pd, attr->send_cq, attr->recv_cq, attr->srq, domain_or_table(attr));
	return &qp->base;
}

PUBLIC struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {0};
	struct ibv_qp *qp;

	if (inject_call(CALL_ibv_create_qp))
		return NULL;
	if (!pd || !attr)
		return fail_null(EINVAL);
	ex.pd = pd;
	ex.comp_mask = IBV_QP_INIT_ATTR_PD;
	ex.qp_context = attr->qp_context;
	ex.send_cq = attr->send_cq;
	ex.recv_cq = attr->recv_cq;
	ex.srq = attr->srq;
	ex.cap = attr->cap;
	ex.qp_type = attr->qp_type;
	ex.sq_sig_all = attr->sq_sig_all;
	qp = verbs_qp_create(pd->context, &ex, 0);
	if (!qp)
		return NULL;
	attr->cap = ex.cap;
	msan_wrote(&attr->cap, sizeof(attr->cap));
	return qp;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
			 IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	uint32_t flags = 0;
	uint64_t ops = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS ? attr->send_ops_flags : 0;

	if (inject_call(CALL_ibv_create_qp))
		return NULL;
	if (attr->qp_type == IBV_QPT_RAW_PACKET)
		known |= IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE;
	if (attr->qp_type == IBV_QPT_RAW_PACKET || attr->qp_type == IBV_QPT_UD)
		flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	if (attr->comp_mask & ~known || ops & ~builder_ops(attr->qp_type))
		return fail_null(EOPNOTSUPP);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && attr->create_flags & ~flags)
		return fail_null(EOPNOTSUPP);
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD))
		attr->pd = NULL;
	msan_wrote(&attr->cap, sizeof(attr->cap));
	return verbs_qp_create(context, attr, ops);
}

PUBLIC struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return qp && ((struct qp *)qp)->verbs.builder ? &((struct qp *)qp)->ex : NULL;
}

/* Checks the port, the partition and the limits of the adapter, which the engine's tables do not know. */
static int check_port(const struct ibv_qp_attr *a, int mask)
{
	const struct ibv_device_attr *limit = &adapter()->attr;
	const struct {
		int bit;
		const char *name;
		bool wrong;
		int value;
	} rows[] = {
		{IBV_QP_PORT, "port_num", a->port_num != PORT, a->port_num},
		{IBV_QP_PKEY_INDEX, "pkey_index", a->pkey_index != 0, a->pkey_index},
		{IBV_QP_MAX_QP_RD_ATOMIC, "max_rd_atomic", a->max_rd_atomic > limit->max_qp_init_rd_atom,
		 a->max_rd_atomic},
		{IBV_QP_MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic", a->max_dest_rd_atomic > limit->max_qp_rd_atom,
		 a->max_dest_rd_atomic},
	};

	if (mask & IBV_QP_ALT_PATH && !(limit->device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG))
		return EOPNOTSUPP;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if ((mask & rows[i].bit) && rows[i].wrong)
			return because(CAUSE_MODIFY_VALUE, EINVAL, "ibv_modify_qp: the device has no %s of %d",
				       rows[i].name, rows[i].value);
	return 0;
}

/* Limits the path MTU to the port's MTU. Adapters accept any path MTU, and many programs set 4096 at both ends:
 * one-packet messages then work if the network passes them. Here longer messages work too, in packets that fit the
 * port. */
static struct ibv_qp_attr qp_limit(struct device *d, const struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr a = *attr;

	if ((mask & IBV_QP_PATH_MTU) && a.path_mtu <= IBV_MTU_4096)
		a.path_mtu = min_of(a.path_mtu, device_active_mtu(d));
	return a;
}

/* Logs the right GID index: a wrong index is the most frequent mistake, and EINVAL does not explain it. */
static void qp_explain_gids(struct device *d, const struct ibv_global_route *grh)
{
	char own[INET6_ADDRSTRLEN], peer[INET6_ADDRSTRLEN], right[INET6_ADDRSTRLEN];
	bool is_ipv4 = address_is_ipv4(&grh->dgid);
	union ibv_gid gid, better;
	int index = device_first_gid(d, is_ipv4, &better);

	gid_print(grh->dgid.raw, peer);
	if (!device_gid(d, grh->sgid_index, &gid))
		snprintf(own, sizeof(own), "empty");
	else if (address_is_ipv4(&gid) != is_ipv4)
		gid_print(gid.raw, own);
	else
		return;
	if (index >= 0)
		log_warn("%s: GID index %u is %s, from where no path leads to %s: use GID index %d, %s (see uroce "
			 "devices, UROCE_GID_ORDER)",
			 d->base.name, grh->sgid_index, own, peer, index, gid_print(better.raw, right));
	else
		log_warn("%s: GID index %u is %s, from where no path leads to %s: the interface has no %s address",
			 d->base.name, grh->sgid_index, own, peer, is_ipv4 ? "IPv4" : "IPv6");
}

static int qp_resolve(struct device *d, const struct ibv_ah_attr *av, struct path *path)
{
	int err = path_resolve(d, av, path);

	if (err && av->is_global)
		qp_explain_gids(d, &av->grh);
	if (err || address_is_multicast(&path->dgid))
		return EINVAL;
	return -loop_attach(path);
}

/* The paths that a QP has, will have, or has no more. */
struct paths {
	struct path main, alternate;
};

/* Finds the process of the peer QP. The engine checks later if the attributes may be changed now. */
static void introduce(struct qp *qp, const struct ibv_qp_attr *attr, int mask, struct path *path)
{
	if (path->port && qp->transport != TRANSPORT_UD)
		loop_introduce(path, mask & IBV_QP_DEST_QPN ? attr->dest_qp_num : qp->attr.dest_qp_num);
}

/* Resolves the address vectors that are given. 0 or errno; what has been made is the caller's in any case. */
static int make_paths(struct qp *qp, struct device *d, const struct ibv_qp_attr *a, int mask, struct paths *made)
{
	int error = 0;

	if (mask & IBV_QP_AV)
		error = qp_resolve(d, &a->ah_attr, &made->main);
	if (!error && (mask & IBV_QP_ALT_PATH))
		error = qp_resolve(d, &a->alt_ah_attr, &made->alternate);
	introduce(qp, a, mask, &made->main);
	introduce(qp, a, mask, &made->alternate);
	return error;
}

/* From RTR on a UD QP receives at all addresses of its device, and sends no packet larger than the port's MTU. 0 or
 * errno. */
static int qp_listen_for(struct qp *qp, struct context *c) EXCLUDES(qp->lock)
{
	int error;

	if (qp->transport != TRANSPORT_UD || qp->verbs.listens)
		return 0;
	error = listen_everywhere(&c->listen);
	if (error)
		return -error;
	lock_take(&qp->lock);
	qp->verbs.listens = true;
	qp->mtu = 128u << device_active_mtu(c->device);
	lock_drop(&qp->lock);
	return 0;
}

static void listen_no_more(struct qp *qp, struct context *c) EXCLUDES(qp->lock)
{
	bool listens;

	lock_take(&qp->lock);
	listens = qp->verbs.listens && (qp->state == IBV_QPS_RESET || qp->state == IBV_QPS_INIT);
	qp->verbs.listens &= !listens;
	lock_drop(&qp->lock);
	if (listens)
		listen_leave(&c->listen);
}

static void detach_path(struct path *path)
{
	if (path->port)
		loop_detach(path);
	path->port = NULL;
}

/* Releases the links of paths that the QP does not use any more. */
static void detach(struct paths *paths)
{
	detach_path(&paths->main);
	detach_path(&paths->alternate);
}

/* A raw packet QP has no path: it sends through its device's interface, with frames up to the interface's MTU. (The
 * change to RESET has cleared both fields.) */
static void use_interface(struct qp *qp) REQUIRES(qp->lock)
{
	enum { HEADER = 14 + 4 }; /* Ethernet's, and a VLAN tag */

	qp->path.port = qp->state == IBV_QPS_RESET ? NULL : qp->loop.raw;
	if (qp->state == IBV_QPS_RTR)
		qp->mtu = device_interface_mtu(context_of(qp->base.context)->device) + HEADER;
}

/* Sets the paths, calls the engine, and restores the paths if the engine refuses. Returns in *paths those that are not
 * used any more. */
static int modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask, struct paths *paths) REQUIRES(qp->lock)
{
	struct paths old = {qp->path, qp->alternate};
	int error;

	/* send the owed ACKs first, as an adapter does at once: the destination may be cleared below */
	loop_run(qp);
	if (mask & IBV_QP_AV)
		qp->path = paths->main;
	if (mask & IBV_QP_ALT_PATH)
		qp->alternate = paths->alternate;
	error = engine_modify(qp, attr, mask, clock_now());
	if (error) {
		qp->path = old.main;
		qp->alternate = old.alternate;
		return -error;
	}
	if (mask & IBV_QP_AV)
		paths->main = old.main;
	if (mask & IBV_QP_ALT_PATH)
		paths->alternate = old.alternate;
	if (qp->state == IBV_QPS_RESET) {
		*paths = (struct paths){qp->path, qp->alternate};
		qp->path = qp->alternate = (struct path){0};
	}
	qp->base.state = qp->state;
	if (qp->loop.raw)
		use_interface(qp);
	loop_run(qp);
	return 0;
}

/* For a QP that accepts no more requests: waits for the end of the one-sided operations that local peers have started.
 */
static void qp_settle(struct qp *qp) EXCLUDES(qp->lock)
{
	bool closed;

	lock_take(&qp->lock);
	closed = qp->state == IBV_QPS_RESET || qp->state == IBV_QPS_ERR;
	lock_drop(&qp->lock);
	if (closed)
		show_settle(qp->hca);
}

/* Before moving to ERR at the program's request, wait at most ANSWERS for ACKs. An adapter sends and receives ACKs long
 * before a peer that has all its data can tell this program so over another channel; here an ACK may wait for a
 * processor. If a wait fails, no further QP waits for IN_VAIN, so that many QPs to one stopped peer do not wait one by
 * one. */
static void await_answers(struct qp *qp) EXCLUDES(qp->lock)
{
	static _Atomic uint64_t hopeless_until;
	uint64_t at = clock_now(), until = at + ANSWERS;
	bool awaits;

	loop_catch_up();
	/* relaxed: any previous value of this time is good enough */
	if (at < atomic_load_explicit(&hopeless_until, memory_order_relaxed))
		return;
	for (;;) {
		lock_take(&qp->lock);
		awaits = engine_expects_success(qp);
		lock_drop(&qp->lock);
		if (!awaits)
			return;
		at = clock_now();
		if (at >= until)
			break;
		loop_progress();
	}
	atomic_store_explicit(&hopeless_until, at + IN_VAIN, memory_order_relaxed);
}

/* `error`: 0, or an error that the caller has found. */
static int modify_remote(struct ibv_qp *base, const struct ibv_qp_attr *attr, int mask, int error)
{
	error = error ?: remote_modify(shared_qp(base), attr, mask);
	if (error)
		return fail(error);
	if (mask & IBV_QP_STATE)
		base->state = attr->qp_state;
	return 0;
}

static int modify_fail(int error)
{
	cause_shortage("ibv_modify_qp", error);
	return fail(error);
}

PUBLIC int ibv_modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask)
{
	struct paths paths = {0};
	struct ibv_qp_attr a;
	struct context *c;
	struct qp *qp;
	int error = qp_check(base);

	if (inject_call(CALL_ibv_modify_qp))
		return errno;
	if (error || !attr)
		return fail(error ?: EINVAL);
	qp = shared_qp(base);
	c = context_of(base->context);
	error = check_port(attr, mask);
	a = qp_limit(c->device, attr, mask);
	if (qp_is_remote(qp))
		return modify_remote(base, &a, mask, error);
	/* without the QP's lock, because binding a socket and starting a thread take long */
	if (!error)
		error = make_paths(qp, c->device, &a, mask, &paths);
	if (!error && (mask & IBV_QP_STATE) && a.qp_state == IBV_QPS_RTR)
		error = qp_listen_for(qp, c);
	if (error) {
		detach(&paths);
		return modify_fail(error);
	}
	if ((mask & IBV_QP_STATE) && a.qp_state == IBV_QPS_ERR)
		await_answers(qp);
	lock_take(&qp->lock);
	error = modify(qp, &a, mask, &paths);
	base->state = qp->state;
	lock_drop(&qp->lock);
	if (hooks_any() && base->state == IBV_QPS_RESET)
		check_forget_requests(base);
	if (hooks_any() && !error && mask & IBV_QP_STATE)
		check_moved(base);
	qp_settle(qp);
	detach(&paths);
	listen_no_more(qp, c);
	return error ? modify_fail(error) : 0;
}

void fail_qp_unsettled(struct ibv_qp *base)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct qp *qp = shared_qp(base);
	struct paths none = {0};

	loop_catch_up();
	lock_take(&qp->lock);
	modify(qp, &attr, IBV_QP_STATE, &none);
	base->state = qp->state;
	lock_drop(&qp->lock);
}

void qp_attributes(const struct qp *qp, struct ibv_qp_attr *attr)
{
	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = qp->state;
	attr->cap = qp->cap;
	if (qp->state >= IBV_QPS_RTR && qp->state <= IBV_QPS_SQE)
		attr->rq_psn = qp->resp.expected.v;
	if (qp->state >= IBV_QPS_RTS && qp->state <= IBV_QPS_SQE)
		attr->sq_psn = qp->req.high.v;
	attr->sq_draining = qp->state == IBV_QPS_SQD && engine_in_flight(qp);
}

static int qp_query(struct qp *qp, struct ibv_qp_attr *attr) EXCLUDES(qp->lock)
{
	if (qp_is_remote(qp))
		return remote_query(qp, attr);
	lock_take(&qp->lock);
	qp_attributes(qp, attr);
	lock_drop(&qp->lock);
	return 0;
}

PUBLIC int ibv_query_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	struct qp *qp;
	int error = qp_check(base);

	if (inject_call(CALL_ibv_query_qp))
		return errno;
	if (error || !attr || !init)
		return fail(error ?: EINVAL);
	qp = shared_qp(base);
	error = qp_query(qp, attr);
	if (error)
		return fail(error);
	if (mask & IBV_QP_STATE)
		base->state = attr->qp_state; /* written only in the application's own calls */
	*init = (struct ibv_qp_init_attr){
		.qp_context = base->qp_context,
		.send_cq = base->send_cq,
		.recv_cq = base->recv_cq,
		.srq = base->srq,
		.cap = qp->cap,
		.qp_type = base->qp_type,
		.sq_sig_all = qp->sig_all,
	};
	msan_wrote(attr, sizeof(*attr));
	msan_wrote(init, sizeof(*init));
	return 0;
}

/* Moves the QP to RESET: it causes no packet, timer or event any more. */
static void qp_silence(struct qp *qp, struct context *c, bool settles) EXCLUDES(qp->lock)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct paths paths = {0};

	if (hca_is_inert(qp->hca))
		return;
	lock_take(&qp->lock);
	if (hooks_any())
		faults_release(qp);
	modify(qp, &reset, IBV_QP_STATE, &paths);
	lock_drop(&qp->lock);
	if (settles)
		show_settle(qp->hca);
	detach(&paths);
	listen_no_more(qp, c);
}

/* Removes the QP: no packet can reach it, and no event is sent. */
static void dispose(struct qp *qp)
{
	if (hca_is_inert(qp->hca)) {
		qp_destroy(qp);
		return;
	}
	if (qp_is_remote(qp))
		remote_close(qp);
	else if (is_xrc_target(qp) && qp->xrc->domain.device != XRCD_PRIVATE)
		remote_withdraw(qp);
	builder_destroy(qp);
	if (qp->loop.raw)
		raw_detach(qp);
	rss_destroy(qp->rss);
	qp_destroy(qp);
}

void bury_qp(struct qp *qp)
{
	qp_silence(qp, NULL, true);
	dispose(qp);
}

static void destroy(struct ibv_qp *base, bool settles)
{
	struct qp *qp = shared_qp(base);
	struct context *c = context_of(base->context);
	bool counted = !is_xrc_target(qp), last = counted || unshare_qp((struct qp *)base);

	if (hooks_any())
		check_destroys_qp(base);
	check_gone(CHECK_QP, base);
	if (last)
		qp_silence(qp, c, settles);
	async_forget_qp(c, (struct qp *)base);
	pthread_cond_destroy(&base->cond);
	pthread_mutex_destroy(&base->mutex);
	if ((struct qp *)base != qp)
		free(base);
	if (last)
		dispose(qp);
	if (counted)
		adapter_give(&c->device->qps);
	atomic_fetch_sub_explicit(&c->objects, 1, memory_order_release);
}

PUBLIC int ibv_destroy_qp(struct ibv_qp *base)
{
	int error = qp_check(base);
	struct qp *qp;

	if (error && hooks_any())
		check_dead(CHECK_QP, base, "destroyed again");
	if (error)
		return fail(error);
	qp = shared_qp(base);
	if (atomic_load_explicit(&qp->verbs.groups, memory_order_relaxed)) { /* ibv_destroy_qp(3) */
		check_busy_as(CHECK_QP, base, "it is attached to a multicast group");
		return fail(EBUSY);
	}
	if (atomic_load_explicit(&qp->verbs.flows, memory_order_acquire)) {
		check_busy(CHECK_QP, base);
		return fail(EBUSY);
	}
	destroy(base, true);
	return 0;
}

void destroy_qp_unsettled(struct ibv_qp *qp)
{
	destroy(qp, false);
}

static void each_qp(struct context *c, void (*use)(struct qp *qp, struct context *c))
{
	for (uint32_t i = 0; i < HCA_MAX_QP; i++) {
		struct qp *qp = pool_at_random(&c->hca->qps, i);
		bool ours;

		if (!qp)
			continue;
		lock_take(&qp->lock);
		ours = qp->alive && qp->base.context == &c->verbs.context;
		lock_drop(&qp->lock);
		if (ours)
			use(qp, c);
	}
}

static void qp_abandon(struct qp *qp, struct context *c)
{
	qp_silence(qp, c, true);
	if (qp->verbs.groups)
		loop_leave_all(qp->base.qp_num);
}

void qps_abandon(struct context *c)
{
	each_qp(c, qp_abandon);
}

/* Checks again under the lock: another QP may have the same slot of the pool by now. */
static void fail_qp(struct qp *qp, struct context *c)
{
	lock_take(&qp->lock);
	if (qp->alive && qp->base.context == &c->verbs.context && qp->state != IBV_QPS_RESET) {
		engine_fail(qp);
		loop_run(qp);
	}
	lock_drop(&qp->lock);
}

void qps_fail(struct context *c)
{
	each_qp(c, fail_qp);
}

PUBLIC int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	return 0; /* not guaranteed: a retransmission may write the start of a message again after its end is visible */
}

/* Enhanced connection establishment: vendor-specific options; there are none here. */
PUBLIC int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (ece->comp_mask)
		return fail(EOPNOTSUPP);
	return 0;
}

PUBLIC int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	*ece = (struct ibv_ece){0};
	msan_wrote(ece, sizeof(*ece));
	return 0;
}

void table_add_qp(struct verbs_context *v)
{
	v->create_qp_ex = create_qp_ex;
}
