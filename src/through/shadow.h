/* SPDX-License-Identifier: BSD-2-Clause */
/* liburoce-through.so: `uroce check --through DEVICE`. It stands in front of libibverbs, passes each call on to the
 * adapter whose device that is, and tells src/check/ what it would be told inside of uroce's own. That looks into
 * structs of object/, so for each object of the program there is one of those, its shadow: only the fields that
 * src/check/ reads are set. (A struct of those fields alone would have to be filled at each hook of uroce's own.) Any
 * thread may call. */
#ifndef UROCE_THROUGH_SHADOW_H
#define UROCE_THROUGH_SHADOW_H

#include "check/objects.h"
#include "object/cq.h"
#include "object/qp.h"
#include "object/srq.h"

struct shadow {
	struct shadow *next;
	void *real; /* object of the adapter, which the program has */
	enum check_kind kind;
	uint32_t fetched, acknowledged; /* events of a CQ or an id */
	bool is_extended;		/* CQ that is polled by functions that are not followed */
	struct batch *batch;		/* batch.c, of an extended QP; else NULL */
	/* cq_ex.c: functions of the adapter, of an extended CQ */
	int (*start_poll)(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr);
	int (*next_poll)(struct ibv_cq_ex *cq);
	_Alignas(CACHE_LINE) union {
		struct cq cq;
		struct qp qp;
		struct srq srq;
		struct mr mr;
	} as;
};

/* A new one, zeroed; NULL: no memory. It is known from shadow_add() until shadow_drop(), which frees it. */
struct shadow *shadow_make(enum check_kind kind, void *real);
void shadow_add(struct shadow *s);
void shadow_drop(struct shadow *s);
/* NULL: it is not followed, as its device is another one. */
struct shadow *shadow_of(enum check_kind kind, const void *real);
/* The function that destroys it is about to wait until its events are acknowledged. NULL: nothing is done. */
void shadow_await_acknowledged(const struct shadow *s, const char *function);
static inline const struct shadow *shadow_from(const void *as)
{
	return container_of(as, struct shadow, as);
}

#endif
