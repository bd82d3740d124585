/* SPDX-License-Identifier: BSD-2-Clause */
/* Waits of the program for events. Behind hooks_any(). Any thread. */
#ifndef UROCE_CHECK_EVENTS_H
#define UROCE_CHECK_EVENTS_H

#include <pthread.h>
#include <infiniband/verbs.h>

/* Acknowledgements that a destroying function waits for. */
struct awaited {
	const uint32_t *given;
	uint32_t wanted;
	pthread_cond_t *given_more; /* condition signalled with `mutex`, which the caller holds, when more are given;
				       NULL: none */
	pthread_mutex_t *mutex;
};

/* Looks for an event that will never come, before this thread sleeps until the channel has one. */
void check_waited(const struct ibv_comp_channel *channel);
void check_blocks(const struct ibv_comp_channel *channel);
/* Notes that an event of the CQ was fetched. */
void check_fetched(const struct ibv_cq *cq);
/* Waits at most 1 s for acknowledgements that another thread may be about to give, then reports those that are
 * missing. `what`: name of the waiting function. */
void check_unacknowledged(const char *what, const struct awaited *a);

#endif
