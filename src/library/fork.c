/* SPDX-License-Identifier: BSD-2-Clause */
/* fork(): no memory is pinned, so the child needs no protection. The adapter in the child is inactive: loop/. */
#include "base/fork.h"
#include "check/start.h"
#include "device/devices.h"
#include "device/front.h"
#include "device/link_state.h"
#include "device/monitor.h"
#include "verbs/cq.h"
#include "verbs/dm.h"
#include "verbs/pd.h"
#include "verbs/remote_qp.h"

static void before_fork(void) ACQUIRE(monitor_lock, remote_lock, devices_lock, cqs_lock, pds_lock, dms_lock)
{
	lock_take(&monitor_lock);
	lock_take(&remote_lock);
	lock_take(&devices_lock);
	lock_take(&cqs_lock);
	lock_take(&pds_lock);
	lock_take(&dms_lock);
}

static void after_fork(void) RELEASE(monitor_lock, remote_lock, devices_lock, cqs_lock, pds_lock, dms_lock)
{
	lock_drop(&dms_lock);
	lock_drop(&pds_lock);
	lock_drop(&cqs_lock);
	lock_drop(&devices_lock);
	lock_drop(&remote_lock);
	lock_drop(&monitor_lock);
}

static void in_child(void) RELEASE(monitor_lock, remote_lock, devices_lock, cqs_lock, pds_lock, dms_lock)
{
	monitor_forget();
	remote_forget();
	cqs_forget();
	after_fork();
}

__attribute__((constructor)) static void watch_forks(void)
{
	static const struct fork_handlers handlers = {before_fork, after_fork, in_child};

	fork_watch(FORK_VERBS, &handlers);
}

PUBLIC int ibv_fork_init(void)
{
	check_fork_prepared();
	return 0;
}

PUBLIC enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

/* Old functions for providers. */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

PUBLIC int ibv_dontfork_range(void *base, size_t size)
{
	return 0;
}

PUBLIC int ibv_dofork_range(void *base, size_t size)
{
	return 0;
}
