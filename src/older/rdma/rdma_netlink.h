/* SPDX-License-Identifier: BSD-2-Clause */
/* In front of the header of an rdma-core older than 44: those messages of rdma(8) that it does not have yet. */
#include_next <rdma/rdma_netlink.h>

#ifndef UROCE_OLDER_RDMA_NETLINK_H
#define UROCE_OLDER_RDMA_NETLINK_H

#if RDMA_CORE < 39
#define RDMA_NLDEV_CMD_RES_CTX_GET    22
#define RDMA_NLDEV_CMD_RES_SRQ_GET    23
#define RDMA_NLDEV_NUM_OPS	      24
#define RDMA_NLDEV_ATTR_RES_CTX	      86
#define RDMA_NLDEV_ATTR_RES_CTX_ENTRY 87
#define RDMA_NLDEV_ATTR_RES_SRQ	      88
#define RDMA_NLDEV_ATTR_RES_SRQ_ENTRY 89
#define RDMA_NLDEV_ATTR_RES_SRQN      90
#endif

#endif
