/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors: the kind that bytes go by, their end, and their copies. */
#ifndef UROCE_PRELOAD_DESCRIPTOR_H
#define UROCE_PRELOAD_DESCRIPTOR_H

#include <stdbool.h>

/* True if bytes of the descriptor go by RDMA. Settles a CONNECTING one, and claims an INHERITED one. */
bool is_rdma(int fd);
/* Makes a descriptor PLAIN, which is closed or becomes another file. */
void let_go(int fd);
/* Turns a descriptor whose bytes go by RDMA into a bridge's. */
void bridge_if_rdma(int fd);

#endif
