/* SPDX-License-Identifier: BSD-2-Clause */
/* /dev/infiniband/umad*: management datagrams, as the kernel's ib_umad takes and gives them (rdma/ib_user_mad.h). Such
 * a file is one end of a pair of sockets; a thread at the other answers what subnet management asks of the own port, as
 * the adapter does: ibaddr and smpquery need that. Whatever goes to another port gets no answer, which the kernel tells
 * by returning it with ETIMEDOUT. Any thread may call. */
#ifndef UROCE_SYSFS_UMAD_H
#define UROCE_SYSFS_UMAD_H

/* As open(2). `name`: umad0, ... */
int umad_open(const char *name, int flags);

#endif
