/* SPDX-License-Identifier: BSD-2-Clause */
/* What `uroce check` looks at, as its calls tell it: the objects of the program, with the stack that made each. Off
 * (UROCE_CHECK is unset), a call costs the branch of hooks_any(). Any thread; keeps errno; `lock`s of objects are never
 * held here. A child of fork() is not checked. */
#ifndef UROCE_CHECK_H
#define UROCE_CHECK_H

#include <infiniband/verbs.h>

#include "base/hooks.h"

enum check_kind {
	CHECK_CONTEXT,
	CHECK_PD,
	CHECK_MR,
	CHECK_CQ,
	CHECK_QP,
	CHECK_SRQ,
	CHECK_AH,
	CHECK_MW,
	CHECK_CHANNEL,
	CHECK_ID,
	CHECK_EVENT_CHANNEL,
	CHECK_KINDS
};

enum { CHECK_USES = 5 };

/* Reads UROCE_CHECK; only the first call has an effect. */
void check_start(void);

void check_add(enum check_kind kind, const void *object, uint64_t size, const void *const uses[CHECK_USES]);
void check_remove(enum check_kind kind, const void *object);
/* The destruction of an object was refused, as others use it. */
void check_refused(enum check_kind kind, const void *object);

/* An object was made; then what it uses. Not called for what failed. */
#define check_made(kind, object, size, ...)                                                          \
	do {                                                                                         \
		if (hooks_any())                                                                     \
			check_add(kind, object, size, (const void *const[CHECK_USES]){__VA_ARGS__}); \
	} while (0)
/* It is about to be freed. */
#define check_gone(kind, object)                    \
	do {                                        \
		if (hooks_any())                    \
			check_remove(kind, object); \
	} while (0)
#define check_busy(kind, object)                     \
	do {                                         \
		if (hooks_any())                     \
			check_refused(kind, object); \
	} while (0)

/* Replaces the operations of a context by those of queues.c. */
void check_operations(struct ibv_context_ops *ops);
/* Behind hooks_any(): a completion was polled one by one, or there was none; a QP was moved to RESET. */
void check_polled_none(const struct ibv_cq *cq);
void check_polled_one(const struct ibv_cq *cq, uint32_t qpn, uint64_t wr_id, bool success, bool is_receive);
void check_forget_requests(const void *qp);
/* An event of the channel is about to be waited for. */
void check_waited(const struct ibv_comp_channel *channel);
/* ibv_fork_init() was called. */
void check_fork_prepared(void);
/* A function is about to wait for so many acknowledgements. */
void check_unacknowledged(const char *what, uint32_t count);
/* These are about to happen. */
void check_destroys_qp(const struct ibv_qp *qp);
void check_deregisters(const struct ibv_mr *mr);

/* Between the two, this thread makes objects of uroce's own. */
void check_pause(void);
void check_resume(void);

#endif
