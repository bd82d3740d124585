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
	CHECK_PARENT,
	CHECK_TD,
	CHECK_DM,
	CHECK_XRCD,
	CHECK_WQ,
	CHECK_WQ_TABLE,
	CHECK_FLOW,
	CHECK_COUNTERS,
	CHECK_KINDS
};

enum { CHECK_USES = 5 };

/* This is liburoce-through.so, for other adapters. With it, uroce itself looks at nothing. */
extern bool check_is_through __attribute__((visibility("hidden")));
/* Reads UROCE_CHECK; only the first call has an effect. */
void check_start(void);

void check_add(enum check_kind kind, const void *object, uint64_t size, const void *const uses[CHECK_USES]);
void check_remove(enum check_kind kind, const void *object);
/* The destruction of an object was refused, as others use it; or, if none of these is known, for that reason. */
void check_refused(enum check_kind kind, const void *object, const char *reason);

/* The object was made once more, here: its size and what it uses first have changed. */
void check_remade(enum check_kind kind, const void *object, uint64_t size, const void *used);
/* The object uses another one now, in place of the first. */
void check_uses(enum check_kind kind, const void *object, const void *used);
/* The object is destroyed, though others may use it. */
void check_orphaned(enum check_kind kind, const void *object);

/* The object is not there: has it been destroyed? `use`: "posted to". */
void check_dead(enum check_kind kind, const void *object, const char *use);

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
#define check_busy(kind, object) check_busy_as(kind, object, NULL)
#define check_busy_as(kind, object, reason)                  \
	do {                                                 \
		if (hooks_any())                             \
			check_refused(kind, object, reason); \
	} while (0)

/* Replaces the operations of a context by those of queues.c. */
void check_operations(struct ibv_context_ops *ops);
/* Behind hooks_any(): a completion was polled one by one, or there was none; a QP was moved to RESET. */
void check_polled_none(const struct ibv_cq *cq);
void check_polled_one(const struct ibv_cq *cq, uint32_t qpn, uint64_t wr_id, enum ibv_wc_status status,
		      bool is_receive);
void check_forget_requests(const void *qp);
/* The program has changed the state of the QP. */
void check_moved(const struct ibv_qp *qp);
/* An event of the channel is about to be waited for; there is none, and this thread is about to sleep; one was fetched.
 */
void check_waited(const struct ibv_comp_channel *channel);
void check_blocks(const struct ibv_comp_channel *channel);
void check_fetched(const struct ibv_cq *cq);
/* A message of connection management is about to be sent. */
void check_tells(void);
/* An event of connection management was fetched: its sender may have known of anything. */
void check_heard(void);
/* ibv_fork_init() was called. */
void check_fork_prepared(void);
/* Acknowledgements that a function needs before it goes on. */
struct awaited {
	const uint32_t *given;
	uint32_t wanted;
	pthread_cond_t *given_more; /* with `mutex`, which the caller holds; NULL: nothing tells of them */
	pthread_mutex_t *mutex;
};
/* Waits a second for them at most, as another thread may be about to give them; else they are told to be missing. */
void check_unacknowledged(const char *what, const struct awaited *a);
/* These are about to happen. */
void check_destroys_qp(const struct ibv_qp *qp);
void check_deregisters(const struct ibv_mr *mr);
/* The same for other memory, rights or another domain. */
void check_reregisters(const struct ibv_mr *mr);
/* A region of this memory is about to be made. */
void check_registers(const void *memory, uint64_t length);

/* Between the two, this thread makes objects of uroce's own. */
void check_pause(void);
void check_resume(void);

#endif
