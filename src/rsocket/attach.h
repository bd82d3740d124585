/* SPDX-License-Identifier: BSD-2-Clause */
/* What liburoce-rsocket.so needs beside the public calls: rsockets on descriptors that exist already. attach.def has
 * the functions. */
#ifndef UROCE_RSOCKET_ATTACH_H
#define UROCE_RSOCKET_ATTACH_H

#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* Numbers from here on are no descriptors. */
#define RSOCKET_NUMBERS (1 << 16)

struct fork_handlers;

#define ATTACH(type, name, arguments) type rsocket_##name arguments;
#include "rsocket/attach.def"
#undef ATTACH

/* Exported by liburoce.so.1. */
extern const struct rsocket_attach_ops {
#define ATTACH(type, name, arguments) type(*name) arguments;
#include "rsocket/attach.def"
#undef ATTACH
} uroce_rsocket_attach;

#endif
