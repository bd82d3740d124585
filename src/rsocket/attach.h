/* What liburoce-rsocket.so needs beside the public calls: rsockets on descriptors that are there already.
 * SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_RSOCKET_ATTACH_H
#define UROCE_RSOCKET_ATTACH_H

#include <stdbool.h>

/* `beneath`: the descriptor is an ordinary socket that matters as well, as a listener's does. 0 or -errno. */
int rsocket_attach(int fd, int domain, int type, bool beneath);

/* The next connection of the listener goes by that descriptor. 0 or -errno. */
int rsocket_accept(int listener, int fd);

#endif
