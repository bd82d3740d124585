/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes what applications make, as a patient one does: a call that fails for want of memory is made again. Such a call
 * must have been refused an allocation, say ENOMEM, and leave the adapter as it was. */
#ifndef SIM_OBJECTS_H
#define SIM_OBJECTS_H

#include "object/srq.h"
#include "world.h"

struct qp_needs {
	struct pd *pd;
	struct cq *send_cq, *recv_cq;
	struct srq *srq;
	enum ibv_qp_type type;
	struct ibv_qp_cap cap;
	bool sig_all;
};

void objects_hca(struct world *w, struct node *n, const struct hca_ops *ops);
void objects_cq(struct world *w, struct node *n, struct cq *cq, uint32_t depth);
struct mr *objects_region(struct world *w, struct node *n, struct pd *pd, void *at, uint32_t length, uint64_t iova,
			  unsigned access);
struct qp *objects_qp(struct world *w, struct node *n, const struct qp_needs *needs);
struct srq *objects_srq(struct world *w, struct node *n, struct xrcd *xrcd, struct cq *cq, uint32_t depth);
/* What engine_modify() says, but not -ENOMEM. */
int objects_modify(struct world *w, struct qp *qp, const struct ibv_qp_attr *attr, int mask);

/* In a run that is short of memory, now and then: a region and a queue pair, which an application has for a while
 * beside what the run is about, or another size of a CQ or of the SRQ, if there is one. */
void objects_more(struct world *w, struct node *n, struct srq *srq);

#endif
