/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables of a machine's connections: by the peer's id, the peer's QPN, and our id. With the machine's lock. */
#ifndef UROCE_CM_TABLE_H
#define UROCE_CM_TABLE_H

#include "cm/state.h"

/* Sets the peer's id and QPN (0: unknown), and enters the connection under them. */
void connection_know(struct connection *c, uint32_t remote_id, uint32_t remote_qpn);
/* Removes the connection from both tables. */
void connection_forget(struct connection *c);

/* The connection, or NULL. A QPN belongs to an adapter: two adapters with one address may both use it. */
struct connection *find_by_remote(struct machine *m, const struct cm_address *a, uint32_t remote_id);
struct connection *find_by_qpn(struct machine *m, const struct cm_address *a, const struct cm_mad *req);
struct connection *find_by_id(struct machine *m, uint32_t id);

#endif
