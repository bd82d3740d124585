/* SPDX-License-Identifier: BSD-2-Clause */
/* What `uroce check` is told of queue pairs at work: src/check/arrivals.c. Called with qp->lock held, where HOOK_CHECK
 * is on and `checker` is set. */
#ifndef UROCE_CHECKER_H
#define UROCE_CHECKER_H

#include "base/hooks.h"

struct qp;
struct packet;

struct checker {
	/* A packet is about to be taken. */
	void (*arrives)(const struct qp *qp, const struct packet *p);
	/* A READ or an atomic is about to be done as a one-sided operation. */
	void (*begins)(const struct qp *qp, uint64_t wr_id);
	/* The completion of a receive, a READ or an atomic of so many bytes is about to be written. */
	void (*completes)(const struct qp *qp, uint64_t wr_id, uint32_t length, bool is_send);
	/* A one-sided operation was done. */
	void (*accessed)(const struct qp *qp, unsigned opcode, uint64_t address, uint64_t length);
};

/* Set before HOOK_CHECK, once. NULL: nobody wants to know. */
extern const struct checker *checker __attribute__((visibility("hidden")));

static inline bool checker_listens(void)
{
	return hook_is_on_acquire(HOOK_CHECK) && checker;
}

#endif
