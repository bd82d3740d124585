/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that adapters access. */
#ifndef UROCE_CHECK_TARGET_H
#define UROCE_CHECK_TARGET_H

#include <infiniband/verbs.h>

#include "base/base.h"

struct hca;
struct mr;
struct packet;
struct qp;

/* True if the program reaches the memory by a pointer. */
bool target_is_plain(const struct mr *mr);
/* The region that the peer's request may access, held until mr_put(), and *at, the address. NULL if access is not
 * permitted, or the program has no pointer to the memory. */
struct mr *target_of(const struct qp *qp, const struct packet *p, uint64_t length, unsigned access, char **at);
/* The memory of an SGE; NULL if that is in no region, or the program has no pointer to it. `hca`: NULL of another
 * adapter, whose regions are not known. */
char *target_of_sge(struct hca *hca, const struct ibv_sge *sge);

#endif
