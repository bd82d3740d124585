/* SPDX-License-Identifier: BSD-2-Clause */
/* Contexts of the device that is followed, and the functions that the adapter has given them. Any thread may call. */
#ifndef UROCE_THROUGH_FOLLOWED_H
#define UROCE_THROUGH_FOLLOWED_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct followed {
	const struct ibv_context *context; /* NULL: free */
	struct ibv_context_ops ops;
	struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
	struct ibv_qp *(*create_qp_ex)(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
	struct ibv_srq *(*create_srq_ex)(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
};

/* The context; NULL: it is not followed. */
struct followed *followed_of(const struct ibv_context *context);
/* Follows the context, and copies its operations. NULL: too many are followed. */
struct followed *followed_add(const struct ibv_context *context);
void followed_drop(const struct ibv_context *context);

/* Whether calls on that context are followed. */
static inline bool through_follows(const struct ibv_context *context)
{
	return context && followed_of(context);
}

/* The adapter's operations of a context that is followed. */
static inline const struct ibv_context_ops *through_ops(const struct ibv_context *context)
{
	return &followed_of(context)->ops;
}

#endif
