/* SPDX-License-Identifier: BSD-2-Clause */
/* Modifying a queue pair: checks of attributes, paths and changes of its state. */
#include "verbs/qp_modify.h"

#include <stdlib.h>

#include "base/address.h"
#include "base/cause.h"
#include "base/clock.h"
#include "base/msan.h"
#include "check/lifetime.h"
#include "check/qp.h"
#include "device/adapter.h"
#include "device/device.h"
#include "device/front.h"
#include "device/listen.h"
#include "device/path.h"
#include "engine/engine.h"
#include "fault/inject.h"
#include "object/qp.h"
#include "object/receives.h"
#include "object/show.h"
#include "object/srq.h"
#include "port/faults.h"
#include "port/local.h"
#include "port/ports.h"
#include "port/post.h"
#include "port/receive.h"
#include "progress/poll.h"
#include "verbs/context.h"
#include "verbs/remote_qp.h"
#include "verbs/shared_qp.h"
#include "verbs/tuned.h"

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
static struct ibv_qp_attr limit_mtu(struct device *d, const struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr a = *attr;

	if ((mask & IBV_QP_PATH_MTU) && a.path_mtu <= IBV_MTU_4096)
		a.path_mtu = min_of(a.path_mtu, device_active_mtu(d));
	return a;
}

static int resolve(struct device *d, const struct ibv_ah_attr *av, struct path *path)
{
	int err = path_resolve(d, av, path);

	if (!err)
		err = address_is_multicast(&path->dgid) ? -EINVAL : loop_attach(path);
	return -err;
}

/* The paths that a QP is to get, or does not use any more. */
struct paths {
	struct path main, alternate;
};

/* Finds the process of the peer QP. The engine checks later if the attributes may be changed now. */
static void introduce(struct qp *qp, const struct ibv_qp_attr *attr, int mask, struct path *path)
{
	if (path->port && qp->transport != TRANSPORT_UD)
		loop_introduce(path, mask & IBV_QP_DEST_QPN ? attr->dest_qp_num : qp->attr.dest_qp_num);
}

/* Resolves the address vectors that are given. 0 or errno; also on an error the caller detaches *made. */
static int make_paths(struct qp *qp, struct device *d, const struct ibv_qp_attr *a, int mask, struct paths *made)
{
	int error = 0;

	if (mask & IBV_QP_AV)
		error = resolve(d, &a->ah_attr, &made->main);
	if (!error && (mask & IBV_QP_ALT_PATH))
		error = resolve(d, &a->alt_ah_attr, &made->alternate);
	introduce(qp, a, mask, &made->main);
	introduce(qp, a, mask, &made->alternate);
	return error;
}

/* From RTR on a UD QP receives at all addresses of its device, and sends no packet larger than the port's MTU. 0 or
 * errno. */
static int start_listening(struct qp *qp, struct context *c) EXCLUDES(qp->lock)
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

static void stop_listening(struct qp *qp, struct context *c) EXCLUDES(qp->lock)
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

/* If the QP accepts no more requests, waits for the end of one-sided operations that local peers have started. */
static void settle(struct qp *qp) EXCLUDES(qp->lock)
{
	bool closed;

	lock_take(&qp->lock);
	closed = qp->state == IBV_QPS_RESET || qp->state == IBV_QPS_ERR;
	lock_drop(&qp->lock);
	if (closed)
		show_settle(qp->hca);
}

/* Takes in the messages that local peers have delivered, before the QP loses its receives. `resets`: those of its SRQ
 * that were claimed in vain go back there; else the QP flushes them. */
static void take_delivered(struct qp *qp, bool resets) EXCLUDES(qp->lock)
{
	bool settling;

	lock_take(&qp->lock);
	receives_hide(&qp->rq);
	settling = qp->rq.settling;
	lock_drop(&qp->lock);
	if (!settling)
		return;
	show_settle(qp->hca);
	loop_catch_up();
	lock_take(&qp->lock);
	engine_settled(qp);
	if (resets && qp->rq.of_srq)
		srq_return_claimed(qp->srq, qp->index);
	lock_drop(&qp->lock);
}

/* Before moving to ERR at the program's request, wait at most ANSWERS for ACKs. An adapter sends and receives ACKs long
 * before a peer that has all its data can tell this program so over another channel; here an ACK may wait for a
 * processor. If a wait fails, no further QP waits for ANSWERS_VAIN, so that many QPs to one stopped peer do not wait
 * one by one. */
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
	atomic_store_explicit(&hopeless_until, at + ANSWERS_VAIN, memory_order_relaxed);
}

/* For a QP in another process. `error`: 0, or an error that the caller has found. */
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
	enum ibv_qp_state state;
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
	a = limit_mtu(c->device, attr, mask);
	if (qp_is_remote(qp))
		return modify_remote(base, &a, mask, error);
	/* without the QP's lock, because binding a socket and starting a thread take long */
	if (!error)
		error = make_paths(qp, c->device, &a, mask, &paths);
	if (!error && (mask & IBV_QP_STATE) && a.qp_state == IBV_QPS_RTR)
		error = start_listening(qp, c);
	if (error) {
		detach(&paths);
		return modify_fail(error);
	}
	if (mask & IBV_QP_STATE && (a.qp_state == IBV_QPS_ERR || a.qp_state == IBV_QPS_RESET))
		take_delivered(qp, a.qp_state == IBV_QPS_RESET);
	if ((mask & IBV_QP_STATE) && a.qp_state == IBV_QPS_ERR)
		await_answers(qp);
	if (hooks_any() && (mask & IBV_QP_STATE) && a.qp_state == IBV_QPS_RESET)
		check_ends_qp(base, qp_state_now(qp), "moved to RESET");
	lock_take(&qp->lock);
	error = modify(qp, &a, mask, &paths);
	state = base->state = qp->state;
	lock_drop(&qp->lock);
	if (hooks_any() && state == IBV_QPS_RESET)
		check_forget_requests(base);
	if (hooks_any() && !error && mask & IBV_QP_STATE)
		check_moved(base);
	settle(qp);
	detach(&paths);
	stop_listening(qp, c);
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

void qp_silence(struct qp *qp, struct context *c, bool settles)
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
	stop_listening(qp, c);
}
