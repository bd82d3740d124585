/* SPDX-License-Identifier: BSD-2-Clause */
/* A descriptor for which the program waits by itself, in poll(2), select(2) or epoll_wait(2): an epoll instance that
 * holds the eventfd of the events, and of one waitfd of the process also the doorbell and the ports. What a local peer
 * or the network brings then wakes the program's thread at once, which receives in place of the helper.
 *
 * Such a thread is woken for anything that comes, so the descriptor may be readable without an event. Only one waitfd
 * is joined to the doorbell, as all threads that wait would wake for each message otherwise: the one that was armed
 * last of those of one thread. Threads with a waitfd each leave it to the helper, which does not compute in between.
 *
 * Its owner (a completion channel) makes and closes the descriptor. `receive` guards the fields. */
#ifndef UROCE_PROGRESS_WAITFD_H
#define UROCE_PROGRESS_WAITFD_H

#include <stdbool.h>

#include "loop/loop.h"
#include "loop/waiting.h"

struct hca;
struct loop;

/* Sets the fields of a waitfd with the epoll instance `fd`. */
void waitfd_init(struct waitfd *w, int fd, struct hca *hca);
/* Arms the waitfd, when an event is requested: the calling thread may wait for the descriptor next. Joins it, receives
 * what has come, and sends what waits. */
void waitfd_arm(struct waitfd *w);
/* Receives what may have made the descriptor readable. False: the waitfd is not joined. */
bool waitfd_look(struct waitfd *w);
/* Sends what waits, as nothing has come that the thread might answer. */
void waitfd_send(struct waitfd *w);
/* Stops past rings from making the descriptor readable: after waitfd_look(), before the thread waits again. True:
 * something has come, so that another waitfd_look() is due. */
bool waitfd_settle(struct waitfd *w);
/* True if the descriptor may have been readable without an event since the last call. */
bool waitfd_was_rung(struct waitfd *w);
/* True if the descriptor is readable, or may have been since the last call. For programs that do not block: a call of
 * poll(2). */
bool waitfd_is_readable(struct waitfd *w);
/* Forgets rings that were received. True: the descriptor may have been readable for them. */
bool waitfd_forget(struct waitfd *w);
/* Removes the waitfd from the doorbell and forgets rings: the program no longer waits for the descriptor, or closes
 * it. */
void waitfd_part(struct waitfd *w);

/* True if a thread that waits for a descriptor by itself has received since that time, in ns. For the helper. */
bool waitfd_receives(struct loop *l, uint64_t since);

#endif
