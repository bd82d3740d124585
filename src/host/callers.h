/* SPDX-License-Identifier: BSD-2-Clause */
/* Accepts connections of other processes. If no descriptor is left, a connection is accepted in place of a spare
 * descriptor, and closed, which tells the caller. A listener is watched by EPOLLET and accepted from until there is no
 * more, so a connection that accept4(2) cannot take does not wake the helper again. */
#ifndef UROCE_HOST_CALLERS_H
#define UROCE_HOST_CALLERS_H

#include <sys/epoll.h>

#define CALLERS_EVENTS (EPOLLIN | EPOLLET) /* epoll events of a listener */

/* callers_begin(): opens the spare descriptor, without which a caller may have to wait. callers_end(): closes it. */
void callers_begin(void);
void callers_end(void);

/* Accepts the next caller of this user, as a non-blocking descriptor. -EAGAIN: there is none. -EMFILE, -ENFILE,
 * -ENOBUFS, -ENOMEM: a caller was turned away for want of a descriptor; call again. -EBUSY: a caller waits that not
 * even the spare descriptor can turn away; only the end of the listener tells it. Any thread may call. */
int callers_accept(int listener);

#endif
