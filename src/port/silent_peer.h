/* SPDX-License-Identifier: BSD-2-Clause */
/* A peer that has not answered to the last retry. */
#ifndef UROCE_PORT_SILENT_PEER_H
#define UROCE_PORT_SILENT_PEER_H

#include "object/qp.h"

/* Writes what this host knows of the QP's peer to text[0..room-1], as in "its process has ended". False: nothing, as it
 * is on another host. It reads /proc, so only for a QP that fails. */
bool silent_peer_tell(const struct qp *qp, char *text, size_t room);

#endif
