/* SPDX-License-Identifier: BSD-2-Clause */
/* liburoce-through.so: `uroce check --through DEVICE`. It stands in front of libibverbs, passes each call on to the
 * adapter whose device that is, and tells src/check/ what it would be told inside of uroce's own. That looks into
 * structs of object/, so for each object of the program there is one of those, its shadow: only the fields that
 * src/check/ reads are set. Any thread may call. */
#ifndef UROCE_THROUGH_H
#define UROCE_THROUGH_H

#include "check/objects.h"
#include "object/cq.h"
#include "object/qp.h"
#include "object/srq.h"

struct shadow {
	struct shadow *next;
	const void *real; /* what the program has */
	enum check_kind kind;
	uint32_t fetched, acknowledged; /* of a CQ: its events */
	bool is_extended;		/* of a CQ: it is polled by functions that are not followed */
	/* extended.c: what the adapter's functions were, of a QP; and of a CQ */
	struct batch *batch; /* NULL: none */
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
struct shadow *shadow_make(enum check_kind kind, const void *real);
void shadow_add(struct shadow *s);
void shadow_drop(struct shadow *s);
/* NULL: it is not followed, as its device is another one. */
struct shadow *shadow_of(enum check_kind kind, const void *real);
/* The function that destroys it is about to wait until its events are acknowledged. NULL: nothing is done. */
void shadow_await_acknowledged(const struct shadow *s, const char *function);
static inline struct shadow *shadow_from(const void *as)
{
	return container_of(as, struct shadow, as);
}

/* The function of the next library; the process ends if there is none. */
void *through_next(const char *name, const char *version);
#define NEXT(name, version)                                                            \
	({                                                                             \
		static _Atomic(void *) next_##name;                                    \
		void *n_ = atomic_load_explicit(&next_##name, memory_order_relaxed);   \
                                                                                       \
		if (!n_) {                                                             \
			n_ = through_next(#name, version);                             \
			atomic_store_explicit(&next_##name, n_, memory_order_relaxed); \
		}                                                                      \
		(typeof(&(name)))n_;                                                   \
	})

/* Whether anything is looked at. */
bool through_checks(void);
/* Whether calls on that context are followed. */
bool through_follows(const struct ibv_context *context);
/* The operations of a context that is followed are ours from now on; and what they were. */
void through_take(struct ibv_context *context);
const struct ibv_context_ops *through_ops(const struct ibv_context *context);
void through_leave(const struct ibv_context *context);
/* post.c: those for requests and completions. */
void through_take_requests(struct ibv_context_ops *ops);
/* A post of the shadow of a QP, by way of src/check/. */
int post_checked(struct ibv_qp *as, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* A request has failed, and its QP with it: is it a send? */
bool failed_send(uint32_t qpn, uint64_t wr_id);

/* extended.c: the functions of an extended QP are ours from now on; the shadow is about to be dropped. */
void batch_open(struct shadow *s, struct ibv_qp_ex *qp);
void batch_close(struct shadow *s);
/* If this thread completes a batch: the adapter has posted it. False: it does not. */
bool batch_completes(struct ibv_qp *real, struct ibv_send_wr *wr, struct ibv_send_wr **bad, int *error);
/* Those of an extended CQ with these fields; false: its completions do not tell enough. */
bool cq_ex_open(struct shadow *s, struct ibv_cq_ex *cq, uint64_t fields);

#endif
