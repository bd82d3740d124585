/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/target.h"

#include "object/mr.h"
#include "object/qp.h"
#include "object/window.h"
#include "wire/packet.h"

bool target_is_plain(const struct mr *mr)
{
	return mr->kind == MEMORY_PLAIN || mr->kind == MEMORY_PAGED;
}

struct mr *target_of(const struct qp *qp, const struct packet *p, uint64_t length, unsigned access, char **at)
{
	struct mr *mr = mr_get(qp->hca, p->rkey);

	if (!mr)
		return NULL;
	if (!length || (mr->access & access) != access || length > mr->length ||
	    p->va - mr->iova > mr->length - length) {
		mr_put(mr);
		return NULL;
	}
	*at = mr_at(mr, p->va);
	if (mr->type)
		mr = window_enter(mr, qp->serial);
	if (mr && !target_is_plain(mr)) {
		mr_put(mr);
		return NULL;
	}
	return mr;
}

char *target_of_sge(struct hca *hca, const struct ibv_sge *sge)
{
	struct mr *mr = hca ? mr_get_local(hca, sge->lkey) : NULL;
	char *at = NULL;

	if (!mr)
		return NULL;
	if (!mr->type && target_is_plain(mr) && sge->length <= mr->length &&
	    sge->addr - mr->iova <= mr->length - sge->length)
		at = mr_at(mr, sge->addr);
	mr_put(mr);
	return at;
}
