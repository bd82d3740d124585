/* SPDX-License-Identifier: BSD-2-Clause */
/* A memory window: a key to a part of a region, bound and taken back by work requests. It is a struct mr of
 * its own, with the region's memory, and lives in hca->mrs. A region stays as long as windows are bound to
 * it. Type 1 is bound again and again, each time with another key. Type 2 is bound once and must be
 * invalidated before it is bound again; only the QP that bound it can be used to reach it (type 2B of
 * IBTA 10.6.7.2). */
#ifndef UROCE_WINDOW_H
#define UROCE_WINDOW_H

#include "object/mr.h"

/* NULL and errno ENOMEM. Fills window.rkey, pd, context and type. */
struct mr *window_create(struct pd *pd, enum ibv_mw_type type);

/* Unbinds it. */
void window_destroy(struct mr *window);

/* What a bind asks for. */
struct window_bind {
	uint32_t window; /* its index in hca->mrs: it may be gone by now */
	uint32_t lkey;	 /* of the region */
	uint8_t tag;	 /* the low eight bits of the new key: the application chooses */
	unsigned access; /* enum ibv_access_flags */
	uint64_t address, length;
};

/* Binds for a QP of that domain and serial number. False: the rules of IBTA 10.6.7 do not allow it. A window
 * of type 1 that is bound to no bytes is unbound. */
bool window_bind(struct hca *hca, const struct pd *pd, uint64_t qp_serial, const struct window_bind *b);

/* Local or remote invalidation by such a QP: the key dies if it is that of a window of type 2 that this QP
 * has bound. False: it is not. */
bool window_invalidate(struct hca *hca, const struct pd *pd, uint64_t qp_serial, uint32_t key);

/* Trades a hold on a window, as mr_get() gave it, for one on its region: so that windows are held for a
 * moment only, and can be unbound by whoever holds regions. NULL, and the window let go: it is not for this
 * QP. */
struct mr *window_enter(struct mr *window, uint64_t qp_serial);

#endif
