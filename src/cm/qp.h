/* SPDX-License-Identifier: BSD-2-Clause */
/* QPs of ids, which follow their connections. Only the thread that uses the id calls. */
#ifndef UROCE_CM_QP_H
#define UROCE_CM_QP_H

#include "cm/id.h"

/* Moves the id's QP, if any, to RTS for a new connection. 0 or an errno. */
int id_qp_connect(struct id *id) EXCLUDES(cm.lock);
/* Moves the id's QP to ERR after the end of the connection. Nothing without a QP, or for datagrams. */
void id_qp_fail(struct id *id) EXCLUDES(cm.lock);
/* Q_Key of the id's datagrams; 0 if none was set. */
uint32_t id_qkey(const struct id *id);

#endif
