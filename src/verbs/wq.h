/* SPDX-License-Identifier: BSD-2-Clause */
/* What a queue pair that hashes needs of its table of work queues. */
#ifndef UROCE_WQ_H
#define UROCE_WQ_H

#include <infiniband/verbs.h>

struct rss;

/* For IBV_QP_INIT_ATTR_RX_HASH and _IND_TABLE. 0, EINVAL, EOPNOTSUPP or ENOMEM. */
int rss_create(const struct ibv_qp_init_attr_ex *attr, const struct rss **rss);
void rss_destroy(const struct rss *rss);

#endif
