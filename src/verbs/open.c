/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices: opening, closing and import. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/capture.h"
#include "base/config.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/memfd.h"
#include "base/refused.h"
#include "base/trace.h"
#include "check/lifetime.h"
#include "check/objects.h"
#include "check/start.h"
#include "device/adapter.h"
#include "device/device.h"
#include "device/faults.h"
#include "device/front.h"
#include "device/listen.h"
#include "device/monitor.h"
#include "fault/inject.h"
#include "port/settle.h"
#include "port/silent_peer.h"
#include "progress/life.h"
#include "verbs/async.h"
#include "verbs/channel.h"
#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/qp.h"
#include "verbs/table.h"

static const struct hca_ops hca_ops = {
	.cq_event = channel_cq_event,
	.cq_error = async_cq_error,
	.qp_event = async_qp_event,
	.srq_event = async_srq_event,
	.cq_delayed = cq_delayed,
	.qp_settles = settle_later,
	.silent_peer = silent_peer_tell,
};

#define LABEL_MAGIC 0x6f7263652d637478ull

struct label {
	uint64_t magic, group;
	struct device *device;
	pid_t pid;
	uint32_t zero; /* explicit padding, since the whole struct is written */
};

/* Gives the context its cmd_fd, a small file that identifies it: ibv_import_device(3) takes a duplicate of it. In
 * another process no context matches it, since the objects are in this process's memory. 0 or -errno. */
static int context_label(struct context *c)
{
	static _Atomic uint64_t groups;
	struct label label = {
		.magic = LABEL_MAGIC,
		.group = atomic_fetch_add_explicit(&groups, 1, memory_order_relaxed) + 1,
		.device = c->device,
		.pid = getpid(),
	};
	int fd = memfd_new("uroce context", MFD_CLOEXEC | MFD_ALLOW_SEALING), err;

	if (fd < 0)
		return -errno;
	err = memfd_fill(fd, &label, sizeof(label));
	/* where no file may be that long the context has no label: ibv_import_device() cannot find it */
	if ((err && err != -EFBIG) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		close(fd);
		return -ENOSPC;
	}
	c->group = label.group;
	c->verbs.context.cmd_fd = fd;
	return 0;
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

/* Asynchronous events of changes of a device. */
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
	interrupt_start();
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
	table_fill(&c->verbs);
	list_init(&c->events);
	lock_set_rank(&c->lock, RANK_ASYNC);
	lock_set_rank(&c->listen.lock, RANK_LISTEN);
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
	qps_bury(c);
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
	check_free(c);
	return 0;
}

PUBLIC struct ibv_context *ibv_import_device(int fd)
{
	struct ibv_context *context;
	struct label label;

	errno = 0;
	if (pread(fd, &label, sizeof(label), 0) != sizeof(label) || label.magic != LABEL_MAGIC)
		return fail_null(errno == EBADF ? EBADF : EINVAL);
	if (label.pid != getpid())
		return fail_null(EOPNOTSUPP);
	context = ibv_open_device(&label.device->base);
	if (!context)
		return NULL;
	close(context->cmd_fd);
	context->cmd_fd = fd; /* owned by the context from now on: the man page requires the caller to duplicate it */
	context_of(context)->group = label.group;
	return context;
}
