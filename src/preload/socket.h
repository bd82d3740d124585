/* SPDX-License-Identifier: BSD-2-Clause */
/* Sockets: made, bound, listening, connected; their names and options. */
#ifndef UROCE_PRELOAD_SOCKET_H
#define UROCE_PRELOAD_SOCKET_H

/* Lets the rsocket of a PENDING listener listen too. */
void wake_listener(int fd);

#endif
