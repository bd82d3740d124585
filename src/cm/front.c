/* SPDX-License-Identifier: BSD-2-Clause */
/* Creation of ids; and the operations for the agent and the monitor of devices. Both are in one file, so that a
 * statically linked program that has ids has the operations too. */
#include "cm/front.h"

#include "base/log.h"
#include "base/msan.h"
#include "check/lifetime.h"
#include "check/objects.h"
#include "check/scope.h"
#include "cm/agent.h"
#include "cm/bind.h"
#include "cm/changes.h"
#include "cm/events.h"
#include "cm/id.h"
#include "cm/resolve.h"
#include "fault/inject.h"
#include "device/monitor.h"
#include "device/front.h"
#include "verbs/context.h"

static uint64_t front_look(uint64_t now)
{
	lock_assert_held(&cm.lock);
	return resolve_look(now);
}

static void front_leave(void)
{
	lock_assert_held(&cm.lock);
	ids_release_all();
}

static void front_forget(void)
{
	lock_assert_unshared(&cm.lock);
	ids_forget();
	ports_forget();
}

__attribute__((constructor)) static void front_serve(void)
{
	static const struct agent_ops ops = {
		.machine = &events_ops, .look = front_look, .leave = front_leave, .forget = front_forget};

	agent_serve(&ops);
	monitor_follow(changes_follow);
}

static int cm_id_create(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context,
			enum rdma_port_space ps, enum ibv_qp_type type)
{
	bool sync = !channel;
	struct id *id;

	if (sync) {
		check_pause(); /* the objects are the id's */
		channel = rdma_create_event_channel();
		check_resume();
		if (!channel)
			return -1;
	}
	id = id_make((struct event_channel *)channel, context, ps, type);
	if (!id) {
		log_error("rdma_create_id() fails: there is no memory (ulimit -v)");
		if (sync)
			rdma_destroy_event_channel(channel);
		return fail_minus(ENOMEM);
	}
	id->sync = sync;
	lock_take(&cm.lock);
	id_enlist(id);
	lock_drop(&cm.lock);
	*out = &id->base;
	check_made(CHECK_ID, id, 0, sync ? NULL : channel);
	return 0;
}

int id_create(struct rdma_cm_id **out, enum rdma_port_space ps, enum ibv_qp_type type)
{
	return cm_id_create(NULL, out, NULL, ps, type);
}

PUBLIC int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
			  enum rdma_port_space ps)
{
	if (inject_call(CALL_rdma_create_id))
		return -1;
	msan_wrote(id, sizeof(*id));
	switch (ps) {
	case RDMA_PS_IPOIB:
	case RDMA_PS_UDP:
		return cm_id_create(channel, id, context, ps, IBV_QPT_UD);
	case RDMA_PS_TCP:
	case RDMA_PS_IB:
		return cm_id_create(channel, id, context, ps, IBV_QPT_RC);
	}
	return fail_minus(EINVAL);
}
