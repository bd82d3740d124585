/* SPDX-License-Identifier: BSD-2-Clause */
/* What else uses epoll instances that have rsockets; the calls themselves are in attach.h. */
#ifndef UROCE_RSOCKET_EPOLL_H
#define UROCE_RSOCKET_EPOLL_H

#include "rsocket/rsocket.h"

/* Takes the rsocket out of all instances. */
void rsocket_epoll_forget(struct rsocket *rs);
/* Instances that have the rsocket as this descriptor get the ordinary descriptor instead. */
void rsocket_epoll_hand_back(struct rsocket *rs, int fd);

#endif
