/* SPDX-License-Identifier: BSD-2-Clause */
/* The QPs of ids, as they follow their connections. The thread that uses the id calls. */
#ifndef UROCE_CM_QP_H
#define UROCE_CM_QP_H

#include "cm/id.h"

/* The connection is made: moves the id's QP to RTS. 0, also without a QP; or an errno. */
int id_qp_connect(struct id *id) EXCLUDES(cm.lock);
/* The connection has ended: moves the id's QP to ERR. Nothing without a QP, or if the id is for datagrams. */
void id_qp_fail(struct id *id) EXCLUDES(cm.lock);
/* The Q_Key of the id's datagrams; 0: none was set. */
uint32_t id_qkey(const struct id *id);

#endif
