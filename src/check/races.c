/* SPDX-License-Identifier: BSD-2-Clause */
/* Two requests of different queue pairs race if the second is posted while the program cannot know that the first is
 * done. The program can know if it polled the completion of the first or of a later one, or if after the post of the
 * first it got news: a message, a WRITE or an atomic of a peer, the result of a READ or an atomic, an event. A
 * message between two queue pairs of this process tells of that QP only; any other may tell anything. Atomics are
 * synchronization, and adapters order them with each other; but not with a WRITE, so they race with that. */
#include "check/races.h"

#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/list.h"
#include "base/plural.h"
#include "check/across.h"
#include "check/finding.h"
#include "check/objects.h"
#include "check/queues.h"
#include "check/request.h"
#include "check/scope.h"
#include "object/mr.h"
#include "object/qp.h"

static uint64_t heard_count; /* guarded by objects_lock */
static struct list racing;   /* queues with accesses that may be outstanding; guarded by objects_lock */

/* The peer of the QP, if in this process; else NULL. */
static struct queues *peer_here(const struct qp *qp) REQUIRES(objects_lock)
{
	struct queues *peer = queues_of_number(qp->attr.dest_qp_num);

	if (!peer || qp->base.qp_type == IBV_QPT_UD || peer->qp->attr.dest_qp_num != qp->base.qp_num)
		return NULL;
	return peer;
}

/* Number of the process that has the queue pair: the first of the slots that its QPNs begin with. */
static uint32_t owner_of(const struct qp *qp, uint32_t qpn)
{
	return hca_owner(qp->hca, qpn);
}

/* True if the peer is a process of this network namespace: its address is that of the queue pair. */
static bool is_of_host(const struct qp *qp)
{
	return qp->base.qp_type != IBV_QPT_UD &&
	       !memcmp(&qp->attr.ah_attr.grh.dgid, &qp->path.sgid, sizeof(union ibv_gid));
}

void races_heard_all(void)
{
	heard_count++;
	across_heard();
}

void races_moved(const struct qp *qp)
{
	across_own(owner_of(qp, qp->base.qp_num));
	across_heard();
}

void races_heard(const struct qp *qp, bool is_message)
{
	struct queues *peer = peer_here(qp);

	if (peer) {
		peer->heard += is_message;
		return;
	}
	heard_count++;
	if (is_of_host(qp))
		across_heard_from(owner_of(qp, qp->attr.dest_qp_num));
	else
		across_heard();
}

/* ---- accesses ---- */

/* Identity of the process that owns the memory; 0: this one. */
static uint64_t place_of(const union ibv_gid *gid, uint32_t owner)
{
	static const uint64_t factor = 0x9e3779b97f4a7c15u;
	uint64_t place = (owner + 1) * factor;

	place = (place ^ gid->global.subnet_prefix) * factor;
	place = (place ^ gid->global.interface_id) * factor;
	return place | 1;
}

/* Changes an address of the region to one of this process. */
static bool translate(const struct qp *qp, struct request_target *t)
{
	struct mr *mr = mr_get(qp->hca, t->rkey);
	bool known;

	if (!mr)
		return false;
	known = !mr->type && !mr_is_indirect(mr) && mr_allows(mr, mr->pd, t->at, t->length, 0);
	if (known)
		t->at = (uintptr_t)mr_at(mr, t->at);
	mr_put(mr);
	t->rkey = 0;
	return known;
}

static bool is_atomic(const struct request *r)
{
	return r->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static void target_take(const struct qp *qp, struct request *r, const struct ibv_send_wr *wr) REQUIRES(objects_lock)
{
	struct request_target *t = &r->target;
	const struct queues *peer = peer_here(qp);
	bool atomic = is_atomic(r);

	if (!atomic && wr->opcode != IBV_WR_RDMA_WRITE && wr->opcode != IBV_WR_RDMA_WRITE_WITH_IMM &&
	    wr->opcode != IBV_WR_RDMA_READ)
		return;
	*t = (struct request_target){
		.place = peer ? 0 : place_of(&qp->attr.ah_attr.grh.dgid, owner_of(qp, qp->attr.dest_qp_num)),
		.at = atomic ? wr->wr.atomic.remote_addr : wr->wr.rdma.remote_addr,
		.length = sges_of(wr->sg_list, wr->num_sge, qp->cap.max_send_sge) ? posted_length(wr) : 0,
		.rkey = atomic ? wr->wr.atomic.rkey : wr->wr.rdma.rkey,
		.writes = wr->opcode != IBV_WR_RDMA_READ,
		.is_atomic = atomic};
	if (peer && !translate(peer->qp, t))
		t->length = 0;
}

/* Access number i of the request; length 0: none. The results of atomics are of no interest to most programs. */
static struct request_target access_of(const struct request *r, int i)
{
	if (i == r->sges)
		return r->target;
	if (is_atomic(r))
		return (struct request_target){0};
	return (struct request_target){.at = r->sge[i].addr, .length = r->sge[i].length, .writes = r->brings};
}

static bool conflict(const struct request_target *a, const struct request_target *b)
{
	if (a->is_atomic || b->is_atomic ? a->is_atomic == b->is_atomic || !(a->writes && b->writes)
					 : !(a->writes || b->writes))
		return false;
	return a->place == b->place && a->rkey == b->rkey && a->at < b->at + b->length && b->at < a->at + a->length;
}

static bool requests_conflict(const struct request *a, const struct request *b, struct request_target *of_a,
			      struct request_target *of_b)
{
	for (int i = 0; i <= a->sges; i++)
		for (int k = 0; k <= b->sges; k++) {
			*of_a = access_of(a, i);
			*of_b = access_of(b, k);
			if (conflict(of_a, of_b))
				return true;
		}
	return false;
}

/* ---- other processes ---- */

static bool writes_to_peer(enum ibv_wr_opcode opcode)
{
	return opcode != IBV_WR_SEND && opcode != IBV_WR_SEND_WITH_IMM && opcode != IBV_WR_RDMA_READ;
}

static void post_across(const struct queues *q, struct request *r) REQUIRES(objects_lock)
{
	const struct qp *qp = q->qp;
	uint32_t owner = owner_of(qp, qp->base.qp_num);
	uint64_t here = place_of(&qp->path.sgid, owner);
	struct request_target a[REQUEST_SGES + 1];
	int count = 0;

	if (peer_here(qp) || q->send_count >= q->depth) /* the post will be refused */
		return;
	for (; count < min_of(r->sges, (int)REQUEST_SGES); count++) {
		a[count] = access_of(r, count);
		a[count].place = here;
		a[count].rkey = r->sge[count].lkey ^ qp->hca->keys.lkey; /* the rkey of that region */
	}
	a[count++] = r->target;
	across_post(r, a, count);
	if (r->opcode != IBV_WR_RDMA_READ && is_of_host(qp))
		across_sends(owner_of(qp, qp->attr.dest_qp_num), qp->base.qp_num, writes_to_peer(r->opcode));
}

/* ---- the bounds of a QP's accesses ---- */

static bool bounds_meet(const struct bounds *b, const struct request *r)
{
	for (int i = 0; i <= r->sges; i++) {
		struct request_target a = access_of(r, i);

		if (a.length && a.at < b->end && b->start < a.at + a.length)
			return true;
	}
	return false;
}

static void bounds_widen(struct queues *q, const struct request *r) REQUIRES(objects_lock)
{
	struct bounds *b = &q->bounds;

	if (list_empty(&q->sends) || q->bounds_heard != heard_count + q->heard)
		*b = (struct bounds){.start = UINT64_MAX};
	q->bounds_heard = heard_count + q->heard;
	for (int i = 0; i <= r->sges; i++) {
		struct request_target a = access_of(r, i);

		if (!a.length)
			continue;
		b->start = min_of(b->start, a.at);
		b->end = max_of(b->end, a.at + a.length);
	}
}

/* ---- */

static uint64_t heard_of(const struct queues *q) REQUIRES(objects_lock)
{
	return heard_count + q->heard;
}

/* The oldest of these requests that races with `r`. Both counters only rise, and so does their sum. */
static const struct request *find_race(struct queues *q, const struct request *r) REQUIRES(objects_lock)
{
	const struct request *found = NULL;
	struct request_target of_other, of_r;

	for (struct list *l = q->sends.prev; l != &q->sends; l = l->prev) {
		const struct request *other = container_of(l, struct request, link);

		if (other->heard != heard_of(q))
			break;
		if (requests_conflict(other, r, &of_other, &of_r))
			found = other;
	}
	return found;
}

bool races_find(const struct object *o, struct request *r, const struct ibv_send_wr *wr, struct race *race)
{
	const struct request *found = NULL;

	r->heard = heard_of(o->queues);
	target_take(o->object, r, wr);
	post_across(o->queues, r);
	if (!racing.next)
		list_init(&racing);
	list_each_safe (l, &racing) {
		struct queues *q = container_of(l, struct queues, racing);

		if (list_empty(&q->sends) || q->bounds_heard != heard_of(q)) {
			list_remove(l);
			list_init(l);
			continue;
		}
		if (q == o->queues || !bounds_meet(&q->bounds, r))
			continue;
		found = find_race(q, r);
		if (found)
			break;
	}
	if (found)
		*race = (struct race){*r, *found};
	bounds_widen(o->queues, r);
	if (list_empty(&o->queues->racing))
		list_append(&racing, &o->queues->racing);
	return found;
}

static const char *name_of(const struct request *r)
{
	return r->target.is_atomic		     ? "an atomic"
	       : r->opcode == IBV_WR_RDMA_READ	     ? "a READ"
	       : r->target.length || r->target.place ? "a WRITE"
						     : "a SEND";
}

void races_report(const struct race *race)
{
	const struct request *r = &race->second, *other = &race->first;
	struct finding f = {.class = CHECK_RACES,
			    .name = "race",
			    .remedy =
				    "poll the completion of the first before the second is posted, or post both to one "
				    "queue pair",
			    .at = {{"posted", r->posted}, {"the other was posted", other->posted}}};
	struct request_target mine, its;
	char where[64] = "";
	uint64_t start, end;

	if (!requests_conflict(r, other, &mine, &its))
		return;
	start = max_of(mine.at, its.at);
	end = min_of(mine.at + mine.length, its.at + its.length);
	if (mine.place)
		snprintf(where, sizeof(where), " of the peer's region 0x%x", mine.rkey);
	snprintf(f.text, sizeof(f.text),
		 "%s of QP 0x%x %s %" PRIu64 " byte%s from 0x%" PRIx64
		 " on%s, while %s of QP 0x%x that %s them may be outstanding",
		 name_of(r), r->qpn, mine.writes ? "writes" : "reads", end - start, plural(end - start), start, where,
		 name_of(other), other->qpn, its.writes ? "writes" : "reads");
	finding_report(&f);
}
