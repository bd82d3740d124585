/* SPDX-License-Identifier: BSD-2-Clause */
/* What `uroce stat` is told of devices and of the objects that verbs make (base/stat.h). Each object is copied under
 * its own lock, or hazard pointer, one after the other: nothing is stopped, so the numbers of two objects are of two
 * moments. */
#include <string.h>

#include "base/stat.h"
#include "device/attributes.h"
#include "device/device.h"
#include "object/mr.h"
#include "object/srq.h"
#include "port/count.h"
#include "port/local_peer.h"
#include "verbs/channel.h"
#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/pd.h"

static_assert((int)STAT_RESENT == (int)HCA_COUNTERS, "the counters of enum hca_counter come first");
static_assert((int)STAT_RNR_NAKS == (int)HCA_RNR_NAKS && (int)STAT_RNR_RETRIES_SPENT == (int)HCA_RNR_RETRIES_SPENT,
	      "they have the same numbers");

static_assert((int)HCA_COUNTERS == ARRAY_SIZE(((struct stat_device *)0)->trouble), "a device has all of them");

#define CONTEXTS 256 /* whose objects are reported, at most */

/* Open contexts: an object is reported if its context is one of them. */
struct stat_view {
	struct stat_sheet *sheet;
	struct hca *hca;
	uint32_t contexts;
	struct {
		const struct ibv_context *context;
		struct device *device;
	} context[CONTEXTS];
};

static void view_context(struct monitor_user *u, void *arg)
{
	const struct context *c = container_of(u, struct context, user);
	struct stat_view *v = arg;
	struct stat_context row = {
		.device = (uint32_t)c->device->number,
		.objects = atomic_load_explicit(&c->objects, memory_order_relaxed),
		.number = (uint32_t)c->verbs.context.cmd_fd,
	};

	if (v->contexts == CONTEXTS)
		return;
	v->hca = c->hca;
	v->context[v->contexts].context = &c->verbs.context;
	v->context[v->contexts++].device = c->device;
	stat_put(v->sheet, STAT_CONTEXT, &row, sizeof(row));
}

/* The number of its device; STAT_UNKNOWN: no open context of this process. */
static uint32_t device_number(const struct stat_view *v, const struct ibv_context *context)
{
	for (uint32_t i = 0; i < v->contexts; i++)
		if (v->context[i].context == context)
			return (uint32_t)v->context[i].device->number;
	return STAT_UNKNOWN;
}

static void put_device(const struct stat_view *v, struct device *d)
{
	struct stat_device row = {.number = (uint32_t)d->number};
	union ibv_gid gid[DEVICE_GIDS] = {0};
	struct ibv_port_attr port = {0};
	struct count c;

	for (uint32_t i = 0; i < DEVICE_GIDS; i++)
		device_gid(d, i, &gid[i]);
	c = loop_count(d->netif_index, gid, DEVICE_GIDS);
	device_port(d, &port);
	row.is_up = port.state == IBV_PORT_ACTIVE;
	memcpy(row.name, d->base.name, sizeof(row.name));
	memcpy(row.interface, d->netif_name, sizeof(row.interface));
	row.tx_packets = c.tx_packets;
	row.tx_bytes = c.tx_bytes;
	row.tx_refused = c.tx_refused;
	row.rx_packets = c.rx_packets;
	row.rx_bytes = c.rx_bytes;
	row.rx_icrc = c.rx_icrc;
	row.rx_errors = c.rx_errors;
	for (size_t i = 0; i < HCA_COUNTERS; i++)
		row.trouble[i] = atomic_load_explicit(&hca_counted[i], memory_order_relaxed);
	stat_put(v->sheet, STAT_DEVICE, &row, sizeof(row));
}

/* Reports each open device once. */
static void put_devices(const struct stat_view *v)
{
	for (uint32_t i = 0; i < v->contexts; i++) {
		bool again = false;

		for (uint32_t j = 0; j < i; j++)
			again |= v->context[j].device == v->context[i].device;
		if (!again)
			put_device(v, v->context[i].device);
	}
}

static void put_pd(struct pd *pd, void *arg)
{
	const struct stat_view *v = arg;
	struct stat_pd row = {.device = device_number(v, pd->made_in), .handle = pd->handle};

	row.users = atomic_load_explicit(&pd->users, memory_order_relaxed);
	if (row.device != STAT_UNKNOWN)
		stat_put(v->sheet, STAT_PD, &row, sizeof(row));
}

static void put_cq(struct cq_front *f, void *arg)
{
	const struct stat_view *v = arg;
	struct cq *cq = &f->cq;
	struct stat_cq row = {.device = device_number(v, cq->base.context), .handle = f->handle};

	if (row.device == STAT_UNKNOWN)
		return;
	lock_take(&cq->lock);
	row.depth = cq->depth;
	row.filled = cq_tail(cq) - cq_head(cq);
	row.armed = (uint8_t)cq_arm(cq);
	row.overrun = cq_overrun(cq);
	lock_drop(&cq->lock);
	row.users = atomic_load_explicit(&cq->users, memory_order_relaxed);
	row.has_channel = !!cq->channel;
	if (cq->channel) {
		lock_take(&cq->channel->lock);
		row.has_event = !!cq->events;
		lock_drop(&cq->channel->lock);
	}
	stat_put(v->sheet, STAT_CQ, &row, sizeof(row));
}

static uint32_t cq_handle(const struct cq *cq)
{
	return cq ? container_of(cq, const struct cq_front, cq)->handle : STAT_UNKNOWN;
}

static void fill_queues(struct stat_qp *row, struct qp *qp) REQUIRES(qp->lock)
{
	/* an XRC target takes receives from the SRQs that messages name */
	bool sends = qp->sq.ring;
	bool receives = qp->rq.ring && !qp->srq && qp->base.qp_type != IBV_QPT_XRC_RECV;

	row->send_depth = sends ? qp->sq.depth : 0;
	row->send_posted = qp->sq.tail - qp->sq.head;
	row->sent = qp->sq.head;
	row->unpolled = qp->sq.head - atomic_load_explicit(&qp->sq.reclaimed, memory_order_relaxed);
	row->recv_depth = receives ? qp->rq.depth : 0;
	row->recv_posted = receives ? qp->rq.tail - qp->rq.head : 0;
	row->received = receives ? qp->rq.head : qp->resp.msn;
}

static void fill_requester(struct stat_qp *row, struct qp *qp) REQUIRES(qp->lock)
{
	const struct requester *r = &qp->req;

	row->in_flight = is_reliable(qp) ? (uint32_t)max_of(psn_diff(r->high, r->una), 0) : 0;
	row->una = r->una.v;
	row->next = r->next.v;
	row->expected = qp->resp.expected.v;
	row->msn = qp->resp.msn;
	row->retries = r->retries;
	row->rnr_retries = r->rnr_retries;
	row->rnr_wait = r->pause == PAUSE_RNR;
	row->rtt = (uint32_t)min_of(r->srtt / USEC, (uint64_t)UINT32_MAX);
	memcpy(row->trouble, qp->trouble, sizeof(qp->trouble));
	row->trouble[STAT_RESENT] = qp->resent;
	row->sent_bytes = qp->sent_bytes;
	row->received_bytes = qp->received_bytes;
}

static void fill_path(struct stat_qp *row, const struct qp *qp)
{
	const struct local_peer *n = qp->path.local_peer;

	memcpy(row->local, qp->path.sgid.raw, sizeof(row->local));
	memcpy(row->remote, qp->path.dgid.raw, sizeof(row->remote));
	row->remote_qpn = qp->attr.dest_qp_num;
	/* the process is constant once they have met */
	row->peer_pid = n && local_peer_state(n) != LOCAL_PEER_MEETING ? (uint32_t)n->pid : 0;
	row->mtu = qp->mtu;
}

/* False: no QP is here, or not one of this process. */
static bool fill_qp(const struct stat_view *v, struct stat_qp *row, struct qp *qp) REQUIRES(qp->lock)
{
	if (!qp->alive || is_delegate(qp))
		return false;
	*row = (struct stat_qp){.device = device_number(v, qp->base.context), .qpn = qp->base.qp_num};
	row->type = (uint8_t)qp->base.qp_type;
	row->state = (uint8_t)qp->state;
	row->lane = qp->lane;
	row->pd = qp->pd ? qp->pd->handle : STAT_UNKNOWN;
	row->send_cq = cq_handle(qp->send_cq);
	row->recv_cq = cq_handle(qp->recv_cq);
	row->srq = qp->srq ? qp->srq->number : STAT_UNKNOWN;
	fill_queues(row, qp);
	fill_requester(row, qp);
	fill_path(row, qp);
	return row->device != STAT_UNKNOWN;
}

static void put_qps(const struct stat_view *v)
{
	for (uint32_t i = 0; i < HCA_MAX_QP; i++) {
		struct qp *qp = pool_at_random(&v->hca->qps, i);
		struct stat_qp row;
		bool ours;

		if (!qp)
			continue;
		lock_take(&qp->lock);
		ours = fill_qp(v, &row, qp);
		lock_drop(&qp->lock);
		if (ours)
			stat_put(v->sheet, STAT_QP, &row, sizeof(row));
	}
}

static void put_srqs(const struct stat_view *v)
{
	struct srq *srq;

	for (uint32_t i = 0; (srq = pool_at(&v->hca->srqs, i)); i++) {
		struct stat_srq row = {.device = STAT_UNKNOWN};

		lock_take(&srq->rq.lock);
		if (srq->alive) {
			row.device = device_number(v, srq->base.context);
			row.number = srq->number;
			row.depth = srq->rq.depth;
			row.posted = rq_posted(&srq->rq);
			row.limit = srq->limit;
			row.pd = srq->pd->handle;
			row.cq = cq_handle(srq->cq);
			row.type = srq->cq ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
			row.users = atomic_load_explicit(&srq->users, memory_order_relaxed);
		}
		lock_drop(&srq->rq.lock);
		if (row.device != STAT_UNKNOWN)
			stat_put(v->sheet, STAT_SRQ, &row, sizeof(row));
	}
}

#define RIGHTS                                                                                                  \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | \
	 IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND)

/* The caller has a hazard pointer: the region, and so its domain, stay. */
static void put_mr(const struct stat_view *v, const struct mr *mr, uint32_t key)
{
	struct stat_mr row = {
		.device = device_number(v, mr->pd->made_in),
		.pd = mr->pd->handle,
		.key = key,
		.access = mr->access & RIGHTS,
		.address = (uintptr_t)mr->memory,
		.length = mr->length,
		.is_window = !!mr->type,
		.lkey = mr->type ? 0 : key ^ v->hca->keys.lkey,
	};

	if (row.device != STAT_UNKNOWN)
		stat_put(v->sheet, STAT_MR, &row, sizeof(row));
}

static void put_mrs(const struct stat_view *v)
{
	struct mr *mr;

	for (uint32_t i = 0; (mr = pool_at(&v->hca->mrs, i)); i++) {
		uint32_t key = atomic_load_explicit(&mr->rkey, memory_order_relaxed);

		if (!key || !mr_hazard_get(mr, &mr->rkey, key))
			continue;
		put_mr(v, mr, key);
		mr_put(mr);
	}
}

/* The helper thread of the loop calls: so there is a loop, and its objects stay where they are. */
static void stat_verbs(struct stat_sheet *sheet)
{
	static struct stat_view v; /* only that thread uses it */

	v = (struct stat_view){.sheet = sheet};
	monitor_each(view_context, &v);
	if (!v.hca)
		return;
	put_devices(&v);
	if (sheet->only_devices)
		return;
	pds_each(put_pd, &v);
	cqs_each(put_cq, &v);
	put_qps(&v);
	put_srqs(&v);
	put_mrs(&v);
}

__attribute__((constructor)) static void stat_verbs_register(void)
{
	stat_register(stat_verbs);
}
