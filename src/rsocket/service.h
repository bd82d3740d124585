/* SPDX-License-Identifier: BSD-2-Clause */
/* The service thread: it answers and closes connections while the program computes. */
#ifndef UROCE_RSOCKET_SERVICE_H
#define UROCE_RSOCKET_SERVICE_H

struct rdma_event_channel;

/* The event channel of all rsockets, opened with the thread when first needed. NULL and errno. */
struct rdma_event_channel *service_channel(void);

#endif
