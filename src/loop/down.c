/* SPDX-License-Identifier: BSD-2-Clause */
#include "loop/down.h"

#include <stdlib.h>
#include <string.h>

#include "loop/internal.h"

static struct lock down_lock; /* a leaf */
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

static bool path_is_down(const struct path *path)
{
	return address_is_down(&path->sgid) || address_is_down(&path->dgid);
}

void down_renew(struct qp *qp)
{
	bool severed = path_is_down(&qp->path);

	qp->alternate.severed = path_is_down(&qp->alternate);
	if (qp->path.severed == severed)
		return;
	qp->path.severed = severed;
	if (qp->path.local_peer)
		local_meet(qp);
}

bool down_drops(const struct link *link, const struct link_tx *tx)
{
	return address_is_down(tx->sgid ?: &link->gid) || (tx->dgid && address_is_down(tx->dgid));
}

static void down_renew_all(struct loop *l)
{
	struct qp *qp;

	for (uint32_t i = 0; (qp = pool_next(&l->hca.qps, &i)); i++) {
		lock_take(&qp->lock);
		if (qp->alive) {
			down_renew(qp);
			run_qp(l, qp, clock_now(), false);
		}
		lock_drop(&qp->lock);
	}
}

void loop_set_down(const union ibv_gid *list, uint32_t count)
{
	union ibv_gid *copy = count ? malloc(count * sizeof(*copy)) : NULL, *old;

	if (count && !copy)
		return; /* no memory: the next change tells it again */
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

void loop_renew_down(void)
{
	/* acquire pairs with the release in loop_get() */
	struct loop *l = atomic_load_explicit(&loop_current, memory_order_acquire);

	if (l && !loop_is_inert(l))
		down_renew_all(l);
}
