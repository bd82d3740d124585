/* SPDX-License-Identifier: BSD-2-Clause */
/* Hosts that do not speak RDMA: connections that may fall back to TCP do so at once. All threads may call. */
#ifndef UROCE_RSOCKET_PEERS_H
#define UROCE_RSOCKET_PEERS_H

#include <stdbool.h>
#include <sys/socket.h>

/* Whether a recent attempt got no answer from the host, and none ever did. */
bool peer_is_silent(const struct sockaddr *address);
void peer_was_silent(const struct sockaddr *address);
void peer_has_answered(const struct sockaddr *address);

#endif
