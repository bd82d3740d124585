/* SPDX-License-Identifier: BSD-2-Clause */
/* Creation of ids. */
#ifndef UROCE_CM_FRONT_H
#define UROCE_CM_FRONT_H

#include "cm/id.h"

/* rdma_create_id() without a channel. 0, or -1 and errno. */
int id_create(struct rdma_cm_id **out, enum rdma_port_space ps, enum ibv_qp_type type) EXCLUDES(cm.lock);

#endif
