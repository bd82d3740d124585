/* SPDX-License-Identifier: BSD-2-Clause */
/* Waits of the program for events. Behind hooks_any(). Any thread. */
#ifndef UROCE_CHECK_EVENTS_H
#define UROCE_CHECK_EVENTS_H

#include <pthread.h>
#include <infiniband/verbs.h>
#include <stdbool.h>

struct stack;

/* Acknowledgements that a destroying function waits for. */
struct awaited {
	const uint32_t *given;
	uint32_t wanted;
	pthread_cond_t *given_more; /* condition signalled with `mutex`, which the caller holds, when more are given;
				       NULL: none */
	pthread_mutex_t *mutex;
};

/* Notes that the program is about to arm the CQ. */
void check_arms(const struct ibv_cq *cq, bool solicited, const struct stack *armed);
/* Looks for completions of which no event need tell, as the program asks for an event of the channel. */
void check_waited(const struct ibv_comp_channel *channel);
/* Looks for an event that will never come, as this thread is about to sleep until the channel has one. */
void check_blocks(const struct ibv_comp_channel *channel);
/* Notes that an event of the CQ was fetched. */
void check_fetched(const struct ibv_cq *cq);
/* Waits at most 1 s for acknowledgements that another thread may be about to give, then reports those that are
 * missing. `what`: name of the waiting function. */
void check_unacknowledged(const char *what, const struct awaited *a);

#endif
