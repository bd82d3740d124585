/* SPDX-License-Identifier: BSD-2-Clause */
/* Receive-side scaling: the hash and the table of work queues of a QP. rss_destroy() frees it. */
#ifndef UROCE_WQ_H
#define UROCE_WQ_H

#include <infiniband/verbs.h>

struct rss;

/* From IBV_QP_INIT_ATTR_RX_HASH and IBV_QP_INIT_ATTR_IND_TABLE. Returns 0, EINVAL, EOPNOTSUPP or ENOMEM. */
int rss_create(const struct ibv_qp_init_attr_ex *attr, const struct rss **rss);
void rss_destroy(const struct rss *rss);

#endif
