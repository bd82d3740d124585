/* SPDX-License-Identifier: BSD-2-Clause */
/* /dev/infiniband/umad*: management datagrams in the format of the kernel's ib_umad (rdma/ib_user_mad.h). Such a
 * file is one end of a socket pair; a thread at the other end answers subnet management requests to the own port, as
 * ibaddr and smpquery need. A request to another port gets no answer; as in the kernel, it returns with ETIMEDOUT.
 * Any thread may call. */
#ifndef UROCE_SYSFS_UMAD_H
#define UROCE_SYSFS_UMAD_H

/* As open(2). `name`: such as umad0. */
int umad_open(const char *name, int flags);

#endif
