/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls by which `uroce check` learns of queue pairs at work: src/check/arrivals.c. Made with qp->lock held, while
 * HOOK_CHECK is on and `checker` is set. */
#ifndef UROCE_CHECKER_H
#define UROCE_CHECKER_H

#include "base/hooks.h"

struct qp;
struct packet;

struct checker {
	/* Before a packet is taken. */
	void (*arrives)(const struct qp *qp, const struct packet *p);
	/* Before a READ or an atomic is done as a one-sided operation. */
	void (*begins)(const struct qp *qp, uint64_t wr_id);
	/* Before the completion of a receive, a READ or an atomic of `length` bytes is written. */
	void (*completes)(const struct qp *qp, uint64_t wr_id, uint32_t length, bool is_send);
	/* After a one-sided operation. */
	void (*accessed)(const struct qp *qp, unsigned opcode, uint64_t address, uint64_t length);
};

/* The calls, set once, before HOOK_CHECK; NULL: none. */
extern const struct checker *checker __attribute__((visibility("hidden")));

static inline bool checker_listens(void)
{
	return hook_is_on_acquire(HOOK_CHECK) && checker;
}

#endif
