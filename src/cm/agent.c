/* SPDX-License-Identifier: BSD-2-Clause */
/* The communication manager of this process: see agent.h. */
#include "cm/agent.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fork.h"
#include "base/high_fd.h"
#include "check/cm.h"
#include "cm/cm.h"
#include "cm/comm_id.h"
#include "cm/device.h"
#include "cm/guardian.h"
#include "cm/liveness.h"
#include "cm/machine.h"
#include "cm/probe.h"
#include "cm/state.h"
#include "cm/tuned.h"
#include "fault/inject.h"
#include "host/slot.h"
#include "loop/helper.h"
#include "port/gsi.h"
#include "port/ports.h"

#define ADDRESSES 1024

static const struct agent_ops *agent_ops;	       /* set once, before the first connection */
static struct lock start_lock = LOCK_RANKED(CM_START); /* held while the agent starts and addresses are attached */
static bool started GUARDED_BY(start_lock), has_been_started GUARDED_BY(start_lock);
static int timer = -1;
static uint64_t timer_at GUARDED_BY(cm.lock) = NEVER;
/* Attached addresses, never detached. Written under start_lock and cm.lock. */
static struct attached {
	struct path path;
	char device[IBV_SYSFS_NAME_MAX]; /* "": no device has the address any more */
} attached[ADDRESSES];
static uint32_t attached_count;

/* ---- messages ---- */

static const struct attached *find_attached(const union ibv_gid *local) REQUIRES(cm.lock)
{
	for (uint32_t i = 0; i < attached_count; i++)
		if (!memcmp(&attached[i].path.sgid, local, sizeof(*local)))
			return &attached[i];
	return NULL;
}

/* Slot of the process of this host that the message is for; 0 if unknown. */
static uint16_t agent_slot_of(const struct cm_address *to, const uint8_t mad[CM_MAD_BYTES])
{
	uint64_t service = 0;
	int slot;

	if (memcmp(&to->local, &to->remote, sizeof(to->local)))
		return 0;
	slot = machine_owner(mad, &service);
	if (slot == 0 && service)
		slot = gsi_near_owner(&to->remote, service);
	return (uint16_t)max_of(slot, 0);
}

/* ---- faults ---- */

/* True if a rule hits the message. */
static bool agent_ask(const struct cm_address *peer, const uint8_t mad[CM_MAD_BYTES], enum rule_direction direction,
		      struct inject_verdict *v) REQUIRES(cm.lock)
{
	const struct attached *at = find_attached(&peer->local);
	const struct inject_event e = {
		.event = RULE_MAD,
		.direction = direction,
		.opcode = mad[17], /* low byte of the attribute */
		.peer = peer->remote.raw,
		.device = at ? at->device : NULL,
	};

	if (inject_is(DO_PORT_DOWN, e.device)) {
		v->action = DO_PARTITION;
		return true;
	}
	return inject_ask(&e, NULL, v);
}

/* Answers a REQ in place of the program. */
static void agent_reject(const struct cm_address *from, const uint8_t bytes[CM_MAD_BYTES], uint16_t reason)
	REQUIRES(cm.lock)
{
	struct cm_mad mad, rej = {.message = CM_REJ, .about = CM_ABOUT_REQ, .reason = reason};
	uint8_t answer[CM_MAD_BYTES];

	if (cm_mad_parse(&mad, bytes) || mad.message != CM_REQ)
		return;
	rej.transaction = mad.transaction;
	rej.remote_id = mad.local_id;
	cm_mad_encode(&rej, answer);
	agent_send(&cm, from, answer);
}

/* Number of times to send or receive the message. */
static uint32_t agent_inject(const struct cm_address *peer, const uint8_t mad[CM_MAD_BYTES],
			     enum rule_direction direction) REQUIRES(cm.lock)
{
	struct inject_verdict v;

	if (!agent_ask(peer, mad, direction, &v))
		return 1;
	switch (v.action) {
	case DO_DROP:
	case DO_PARTITION:
		return 0;
	case DO_DUPLICATE:
		return 2;
	case DO_REJECT:
		agent_reject(peer, mad, (uint16_t)v.value[0]);
		return 0;
	default:
		inject_act(&v);
		return 1;
	}
}

void agent_send(struct machine *m, const struct cm_address *to, const uint8_t mad[CM_MAD_BYTES])
{
	const struct attached *known;
	struct path path;

	lock_assert_held(&cm.lock);
	known = find_attached(&to->local);
	if (!known)
		return; /* no path: that address is not attached */
	path = known->path;
	path.dgid = to->remote;
	path.traffic_class = to->traffic_class;
	if (hooks_any())
		check_tells();
	for (uint32_t n = hooks_any() ? agent_inject(to, mad, RULE_OUT) : 1; n; n--)
		gsi_send(&path, GSI_QPN, mad, agent_slot_of(to, mad)); /* on failure the message is repeated later */
}

static uint16_t owner(const struct gsi_mad *mad)
{
	uint64_t service = 0;
	int slot = machine_owner(mad->bytes, &service);

	if (slot < 0)
		return 0;
	if (slot == 0 && service)
		slot = gsi_owner(mad->to, service);
	/* slot free, or its process dead: this process answers that there is no such connection */
	return slot && (slot == gsi_slot() || slot_is_alive((uint16_t)slot)) ? slot : gsi_slot();
}

/* True for the word of a client that gives up before it has an answer, and so without an id of ours. */
static bool is_given_up(const struct gsi_mad *mad)
{
	struct cm_mad m;

	return !cm_mad_parse(&m, mad->bytes) && m.message == CM_REJ && !m.remote_id && m.reason == CM_REASON_TIMEOUT;
}

static void agent_receive(const struct gsi_mad *mad)
{
	struct cm_address address = {.local = *mad->to, .remote = *mad->from};
	uint8_t answer[CM_MAD_BYTES];

	lock_take(&cm.lock);
	for (uint32_t n = hooks_any() ? agent_inject(&address, mad->bytes, RULE_IN) : 1; n; n--)
		if (cm.ops && find_attached(mad->to))
			machine_receive(&cm, mad->bytes, &address, cm_now());
		else if (machine_refusal(mad->bytes, answer)) /* this process makes no connections at that address */
			gsi_answer(mad, answer, agent_slot_of(&address, answer));
	lock_drop(&cm.lock);
	if (unlikely(is_given_up(mad)))
		gsi_spread(mad);
}

/* ---- time ---- */

static void agent_set_timer(uint64_t when) REQUIRES(cm.lock)
{
	struct itimerspec at = {.it_value = {when / SEC, when % SEC}};

	timer_at = when;
	timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
}

void agent_deadline(struct machine *m, uint64_t when)
{
	lock_assert_held(&cm.lock);
	if (when + TIMEWAIT_SLACK < timer_at)
		agent_set_timer(when + TIMEWAIT_SLACK);
}

static void absent(uint32_t id, int err)
{
	lock_assert_held(&cm.lock);
	machine_absent(&cm, id, err, cm_now());
}

void agent_look_at(uint64_t when)
{
	if (when < timer_at)
		agent_set_timer(when);
}

static void time_has_come(void *arg)
{
	uint64_t expirations, next, look = liveness_look();

	lock_take(&cm.lock);
	if (read(timer, &expirations, sizeof(expirations)) > 0)
		timer_at = NEVER;
	probe_collect(absent);
	machine_expire(&cm, cm_now());
	next = machine_deadline(&cm);
	if (next != NEVER && next + TIMEWAIT_SLACK < timer_at)
		agent_set_timer(next + TIMEWAIT_SLACK);
	agent_look_at(min_of(look, agent_ops->look(cm_now())));
	lock_drop(&cm.lock);
}

/* ---- start and fork ---- */

/* At a fork, start_lock is taken before the locks of loop/ and verbs/, and cm.lock after them: base/fork.def. */

static void agent_before_fork(void) ACQUIRE(start_lock)
{
	lock_take(&start_lock);
}

static void agent_after_fork(void) RELEASE(start_lock)
{
	lock_drop(&start_lock);
}

/* Drops the agent and the ids, which are the parent's. */
static void agent_forget(void) REQUIRES(start_lock)
{
	lock_assert_unshared(&cm.lock);
	if (started)
		close(timer);
	started = false;
	timer = -1;
	timer_at = NEVER;
	attached_count = 0;
	cm.ops = NULL;
	agent_ops->forget();
	devices_forget();
	liveness_forget();
	guardian_forget();
	probe_forget();
}

/* Ids created before a fork without an agent stay valid in the child: some programs create ids before daemon(3). */
static void agent_in_child(void) RELEASE(start_lock)
{
	if (has_been_started)
		agent_forget();
	lock_drop(&start_lock);
}

void agent_serve(const struct agent_ops *above)
{
	static const struct gsi_ops ops = {.owner = owner, .receive = agent_receive};
	static const struct fork_handlers outer = {agent_before_fork, agent_after_fork, agent_in_child};

	agent_ops = above;
	gsi_serve(&ops);
	fork_watch(FORK_CM_START, &outer);
}

static int agent_start(void) REQUIRES(start_lock)
{
	uint16_t slot = gsi_slot();
	int err;

	if (!slot)
		return -ENODEV;
	has_been_started = true;
	timer = high_fd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	if (timer < 0)
		return -errno;
	lock_take(&cm.lock);
	err = machine_init(&cm, agent_ops->machine, slot, (uint64_t)cm_random() << 32 | cm_random());
	lock_drop(&cm.lock);
	if (!err)
		err = loop_watch(timer, time_has_come, NULL);
	if (err) {
		close(timer);
		return err;
	}
	liveness_start();
	started = true;
	return 0;
}

static int cm_agent_attach(const union ibv_gid *local, const struct cm_device *d) REQUIRES(start_lock)
{
	struct attached new = {.path.sgid = *local};
	bool known;
	int err;

	lock_take(&cm.lock);
	known = find_attached(local);
	lock_drop(&cm.lock);
	if (known)
		return 0;
	if (attached_count == ADDRESSES)
		return -ENOSPC;
	err = loop_attach(&new.path);
	if (err)
		return err;
	if (d)
		snprintf(new.device, sizeof(new.device), "%s", d->verbs->device->name);
	lock_take(&cm.lock);
	attached[attached_count++] = new;
	lock_drop(&cm.lock);
	return 0;
}

int agent_attach_of(const union ibv_gid *local, const struct cm_device *d)
{
	int err = 0;

	lock_take(&start_lock);
	if (!started)
		err = agent_start();
	if (!err)
		err = cm_agent_attach(local, d);
	lock_drop(&start_lock);
	return err;
}

int agent_attach(const union ibv_gid *local)
{
	struct cm_device *d;
	int index;

	return agent_attach_of(local, device_of_address(local, &d, &index) ? NULL : d);
}

void agent_guard(void)
{
	lock_take(&start_lock);
	guardian_start();
	lock_drop(&start_lock);
}

/* Disconnects at exit, so that no peer stays connected to a dead process. */
__attribute__((destructor)) static void agent_part(void)
{
	lock_take(&cm.lock);
	if (cm.ops) {
		agent_ops->leave();
		machine_farewell(&cm);
	}
	lock_drop(&cm.lock);
}
