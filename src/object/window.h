/* SPDX-License-Identifier: BSD-2-Clause */
/* A memory window: a key to a part of a region, bound and invalidated by work requests. It is a struct mr of its own,
 * with the region's memory, and lives in hca->mrs. A region cannot be deregistered while windows are bound to it. Type
 * 1 can be bound repeatedly, each time with another key. Type 2 must be invalidated before it is bound again; only the
 * QP that bound it can be used to access it (type 2B of IBTA 10.6.7.2). hca->window_lock guards binding. */
#ifndef UROCE_WINDOW_H
#define UROCE_WINDOW_H

#include "object/mr.h"

/* Makes a window. Fills window.rkey, pd, context and type. NULL and errno ENOMEM. */
struct mr *window_create(struct pd *pd, enum ibv_mw_type type);

/* Unbinds and frees a window. */
void window_destroy(struct mr *window);

/* The parameters of a bind. */
struct window_bind {
	uint32_t window; /* index in hca->mrs of the window, which may have been freed */
	uint32_t lkey;	 /* lkey of the region */
	uint8_t tag;	 /* low eight bits of the new key, which the application chooses */
	unsigned access; /* enum ibv_access_flags */
	uint64_t address, length;
};

/* Binds a window for a QP of that domain and serial number. False: not allowed by IBTA 10.6.7. Binding a window of type
 * 1 to 0 bytes unbinds it. */
bool window_bind(struct hca *hca, const struct pd *pd, uint64_t qp_serial, const struct window_bind *b);

/* Invalidates a key, locally or remotely, for such a QP. False: the key is of no window of type 2 that this QP has
 * bound. */
bool window_invalidate(struct hca *hca, const struct pd *pd, uint64_t qp_serial, uint32_t key);

/* Replaces the hazard pointer to a window, taken by mr_get(), by one to its region. So a window is protected only for a
 * moment, and can be unbound by a thread that has a hazard pointer to a region. NULL, with the window put: this QP may
 * not use it. */
struct mr *window_enter(struct mr *window, uint64_t qp_serial);

#endif
