/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors: whether their bytes go by RDMA, their end, and their copies. */
#ifndef UROCE_PRELOAD_DESCRIPTOR_H
#define UROCE_PRELOAD_DESCRIPTOR_H

#include <stdbool.h>

/* Whether bytes of the descriptor go by RDMA. Settles a CONNECTING one, and claims an INHERITED one. */
bool is_rdma(int fd);
/* Makes it PLAIN: it is closed, or becomes another file. */
void let_go(int fd);
/* If bytes of it go by RDMA, they go by a bridge from now on. */
void bridge_if_rdma(int fd);

#endif
