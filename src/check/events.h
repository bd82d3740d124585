/* SPDX-License-Identifier: BSD-2-Clause */
/* Waits of the program for events. Behind hooks_any(). Any thread. */
#ifndef UROCE_CHECK_EVENTS_H
#define UROCE_CHECK_EVENTS_H

#include <pthread.h>
#include <infiniband/verbs.h>

/* Acknowledgements that a function needs before it goes on. */
struct awaited {
	const uint32_t *given;
	uint32_t wanted;
	pthread_cond_t
		*given_more; /* condition that more are given, with `mutex`, which the caller holds; NULL: none */
	pthread_mutex_t *mutex;
};

/* An event of the channel is about to be waited for; this thread is about to sleep, as there is none. */
void check_waited(const struct ibv_comp_channel *channel);
void check_blocks(const struct ibv_comp_channel *channel);
/* An event of the CQ was fetched. */
void check_fetched(const struct ibv_cq *cq);
/* Waits a second at most for acknowledgements, as another thread may be about to give them; then reports that they are
 * missing. `what`: the function that waits for them. */
void check_unacknowledged(const char *what, const struct awaited *a);

#endif
