/* SPDX-License-Identifier: BSD-2-Clause */
/* The channel of all rsockets' events of connection management, and the threads that handle them. A thread that waits
 * for a connection is an attendant: it handles the channel's events itself. If there is none, the service thread does
 * (service.c). */
#ifndef UROCE_RSOCKET_ATTEND_H
#define UROCE_RSOCKET_ATTEND_H

#include <stdbool.h>

#include "base/list.h"

struct rdma_event_channel;

/* A thread that calls cm_events_run() often. Before it sleeps it calls attendant_sleeps() and runs once more; the next
 * event then writes its eventfd. */
struct attendant {
	struct list link;
	int fd; /* eventfd; -1: the thread does not sleep */
	bool sleeps;
};
void attendant_join(struct attendant *a, int fd);
void attendant_sleeps(struct attendant *a);
void attendant_leave(struct attendant *a);
bool attendants_are_there(void);

/* The channel if one was opened, else NULL. */
struct rdma_event_channel *attend_channel(void);
/* Whether an event waits there. */
bool attend_has_event(struct rdma_event_channel *ch);
/* `poke`: the service thread's eventfd. */
void attend_open(struct rdma_event_channel *ch, int poke);
/* Wakes the service thread. */
void attend_poke(void);
/* The parent's channel and attendants are not this process's. */
void attend_in_child(void);

#endif
