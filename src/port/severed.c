/* SPDX-License-Identifier: BSD-2-Clause */
#include "port/severed.h"

#include <string.h>

#include "base/clock.h"
#include "loop/loop.h"
#include "port/down.h"
#include "port/local_link.h"
#include "port/run.h"

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

void loop_renew_down(void)
{
	/* acquire pairs with the release in loop_get() */
	struct loop *l = atomic_load_explicit(&loop_current, memory_order_acquire);

	if (l && !loop_is_inert(l))
		down_renew_all(l);
}
