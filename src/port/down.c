/* SPDX-License-Identifier: BSD-2-Clause */
#include "port/down.h"

#include <stdlib.h>
#include <string.h>

#include "base/hooks.h"

static struct lock down_lock = LOCK_RANKED(DOWN);
static union ibv_gid *down GUARDED_BY(down_lock);
static uint32_t downs GUARDED_BY(down_lock);

bool address_is_down(const union ibv_gid *address)
{
	bool found = false;

	if (!hook_is_on(HOOK_PORT_DOWN))
		return false;
	lock_take(&down_lock);
	for (uint32_t i = 0; i < downs && !found; i++)
		found = memcmp(&down[i], address, sizeof(*address)) == 0;
	lock_drop(&down_lock);
	return found;
}

bool path_is_down(const struct path *path)
{
	return address_is_down(&path->sgid) || address_is_down(&path->dgid);
}

bool down_drops(const struct link *link, const struct link_tx *tx)
{
	return address_is_down(tx->sgid ?: &link->gid) || (tx->dgid && address_is_down(tx->dgid));
}

void loop_set_down(const union ibv_gid *list, uint32_t count)
{
	union ibv_gid *copy = count ? malloc(count * sizeof(*copy)) : NULL, *old;

	if (count && !copy)
		return; /* no memory: the next change calls again */
	if (count)
		memcpy(copy, list, count * sizeof(*copy));
	lock_take(&down_lock);
	old = down;
	down = copy;
	downs = count;
	hook_set(HOOK_PORT_DOWN, count);
	lock_drop(&down_lock);
	free(old);
}
