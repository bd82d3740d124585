/* SPDX-License-Identifier: BSD-2-Clause */
/* Accepts connections of other processes, also when no descriptor is left: such a connection is accepted in place of a
 * spare descriptor, and closed, so that the caller learns of it. A listener is watched by EPOLLET and accepted from
 * until there is no more: what accept4(2) cannot take for another reason does not wake the helper again. */
#ifndef UROCE_HOST_CALLERS_H
#define UROCE_HOST_CALLERS_H

#include <sys/epoll.h>

#define CALLERS_EVENTS (EPOLLIN | EPOLLET) /* by which a listener is watched */

/* The spare descriptor. Without one, a caller that no descriptor is left for waits. */
void callers_begin(void);
void callers_end(void);

/* The next caller, of this user and non-blocking; -EAGAIN: there is none. -EMFILE, -ENFILE, -ENOBUFS, -ENOMEM: one was
 * told that there is no descriptor for it; call again. -EBUSY: one waits that cannot be told, as not even the spare
 * descriptor takes it: it learns by the end of the listener, or waits. Any thread. */
int callers_accept(int listener);

#endif
