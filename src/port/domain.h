/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC domains that are open in this process and in others of its user and network namespace. A domain begins when the
 * first process opens it, and ends when the last one has closed it or died. Any thread may call; may block for a
 * moment, as gsi_claim(). */
#ifndef UROCE_PORT_DOMAIN_H
#define UROCE_PORT_DOMAIN_H

#include <stdbool.h>

#include "object/xrcd.h"

/* Opens the domain of a file, also a second time. 0; -EAGAIN: the domain does not exist and `create` is false; -EINVAL:
 * the domain exists and `exclusive` is true; -ENOMEM, or an error of gsi_claim(). */
int domain_open(const struct xrcd_name *name, bool create, bool exclusive);
/* Undoes one domain_open(). */
void domain_close(const struct xrcd_name *name);

/* Forgets all open domains, in a child of fork(). */
void domains_forget(void);

#endif
