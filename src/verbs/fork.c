/* fork(): nothing of ours is pinned, so nothing has to be kept from the child. The child's copy of the
 * adapter is inert, see loop/. SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/front.h"

PUBLIC int ibv_fork_init(void)
{
	return 0;
}

PUBLIC enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

/* Of old: for providers. */
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
