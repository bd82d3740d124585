/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening and closing of devices, and the table of verbs that a context gets. */
#include "base/capture.h"
#include "base/config.h"
#include "base/trace.h"
#include "check/lifetime.h"
#include "check/objects.h"
#include "check/operations.h"
#include "check/start.h"
#include "verbs/context.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/refused.h"
#include "fault/inject.h"
#include "progress/life.h"
#include "device/adapter.h"
#include "device/device.h"
#include "device/faults.h"
#include "device/front.h"
#include "device/listen.h"
#include "device/monitor.h"
#include "verbs/context.h"
#include "verbs/remote_qp.h"

static const struct hca_ops hca_ops = {
	.cq_event = channel_cq_event,
	.cq_error = async_cq_error,
	.qp_event = async_qp_event,
	.srq_event = async_srq_event,
	.cq_delayed = cq_delayed,
};

static void fill_ops(struct verbs_context *v)
{
	*v = unsupported_ops;
	v->sz = sizeof(*v);
	v->query_port = query_port;
	v->advise_mr = advise_mr;
	v->alloc_null_mr = alloc_null_mr;
	v->ibv_create_flow = create_flow;
	v->ibv_destroy_flow = destroy_flow;
	v->create_counters = create_counters;
	v->destroy_counters = destroy_counters;
	v->attach_counters_point_flow = attach_counters;
	v->read_counters = read_counters;
	v->create_wq = create_wq;
	v->modify_wq = modify_wq;
	v->destroy_wq = destroy_wq;
	v->create_rwq_ind_table = create_rwq_ind_table;
	v->destroy_rwq_ind_table = destroy_rwq_ind_table;
	v->alloc_dm = alloc_dm;
	v->free_dm = free_dm;
	v->reg_dm_mr = reg_dm_mr;
	v->alloc_td = alloc_td;
	v->dealloc_td = dealloc_td;
	v->alloc_parent_domain = alloc_parent_domain;
	v->query_device_ex = query_device_ex;
	v->query_rt_values = query_rt_values;
	v->create_cq_ex = create_cq_ex;
	v->modify_cq = modify_cq;
	v->create_qp_ex = create_qp_ex;
	v->open_qp = open_qp;
	v->create_srq_ex = create_srq_ex;
	v->get_srq_num = get_srq_num;
	v->open_xrcd = open_xrcd;
	v->close_xrcd = close_xrcd;
	v->context.ops.poll_cq = poll_cq;
	v->context.ops.req_notify_cq = req_notify_cq;
	v->context.ops.post_send = adapter()->lacks ? post_send_lacking : post_send;
	v->context.ops.post_recv = post_recv;
	v->context.ops.post_srq_recv = post_srq_recv;
	v->context.ops.alloc_mw = alloc_mw;
	v->context.ops.bind_mw = bind_mw;
	v->context.ops.dealloc_mw = dealloc_mw;
	check_operations(&v->context.ops);
	v->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
}

/* Logs why a device was not opened, because few programs do. Keeps errno. */
static void say_not_opened(const struct ibv_device *device)
{
	static const struct {
		int error;
		const char *says;
	} reason[] = {
		{EMFILE, "too many open files: allow this process more (ulimit -n)"},
		{ENFILE, "too many open files in the whole system (sysctl fs.file-max)"},
		{ENOMEM, "too little memory, or address space (ulimit -v)"},
		{EUSERS, "no slot is left for this process, as said before"},
	};
	const char *says = strerror(errno);

	for (size_t i = 0; i < ARRAY_SIZE(reason); i++)
		if (reason[i].error == errno)
			says = reason[i].says;
	log_error("%s cannot be opened: %s", device->name, says);
}

static const struct {
	unsigned change;
	enum ibv_event_type event;
} news[] = {
	{DEVICE_PORT_UP, IBV_EVENT_PORT_ACTIVE},
	{DEVICE_PORT_DOWN, IBV_EVENT_PORT_ERR},
	{DEVICE_GID_CHANGED, IBV_EVENT_GID_CHANGE},
	{DEVICE_GONE, IBV_EVENT_DEVICE_FATAL},
};

/* Reports changes as asynchronous events. A removed interface is handled as an unplugged adapter: its queue pairs send
 * nothing, and their requests are flushed. */
static void context_changed(struct monitor_user *u, struct device *d, unsigned changes)
{
	struct context *c = container_of(u, struct context, user);

	if (c->device != d)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(news); i++)
		if (changes & news[i].change)
			async_event(c, news[i].event);
	if (changes & DEVICE_GONE)
		qps_fail(c);
}

PUBLIC struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct context *c;
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	int refused;

	if (!device)
		return fail_null(EINVAL);
	trace_start();
	check_start();
	capture_start();
	if (config_enum(CONFIG_COUNT))
		hook_set(HOOK_COUNT, true);
	if (faults_read())
		return fail_null(EINVAL);
	if (inject_call(CALL_ibv_open_device))
		return NULL;
	refused = refused_say("a device cannot be opened");
	if (refused)
		return fail_null(-refused);
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->device = c->listen.device = device_of(device);
	fill_ops(&c->verbs);
	list_init(&c->events);
	c->verbs.context.device = device;
	c->verbs.context.num_comp_vectors = processors > 0 ? (int)processors : 1;
	pthread_mutex_init(&c->verbs.context.mutex, NULL);
	c->verbs.context.async_fd = eventfd(0, EFD_CLOEXEC);
	if (c->verbs.context.async_fd < 0)
		goto err;
	errno = -context_label(c);
	if (errno)
		goto err_fd;
	c->hca = loop_get(&hca_ops);
	if (!c->hca)
		goto err_label;
	c->user.changed = context_changed;
	monitor_join(&c->user, c->hca->slot);
	faults_begin();
	check_made(CHECK_CONTEXT, &c->verbs.context, 0);
	return &c->verbs.context;

err_label:
	close(c->verbs.context.cmd_fd);
err_fd:
	close(c->verbs.context.async_fd);
err:
	say_not_opened(device);
	free(c);
	return NULL;
}

PUBLIC int ibv_close_device(struct ibv_context *context)
{
	struct context *c = context_of(context);

	check_gone(CHECK_CONTEXT, context);
	faults_end();
	if (hca_is_inert(c->hca)) {
		close(context->async_fd);
		close(context->cmd_fd);
		return 0;
	}
	monitor_leave(&c->user);
	remote_bury(c);
	async_forget_all(c);
	/* The man page lets the objects of a closed device exist further. If there are any, the context is not freed,
	 * since they may be used; but it sends and receives no packets any more. */
	if (atomic_load_explicit(&c->objects, memory_order_acquire)) {
		qps_abandon(c);
		listen_end(&c->listen);
		close(context->async_fd);
		context->async_fd = -1;
		return 0;
	}
	loop_put(c->hca);
	close(context->async_fd);
	close(context->cmd_fd);
	pthread_mutex_destroy(&context->mutex);
	free(c);
	return 0;
}
