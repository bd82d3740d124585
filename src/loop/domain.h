/* SPDX-License-Identifier: BSD-2-Clause */
/* Which XRC domains are open, in this process and in the others of its user and network namespace: a domain begins when
 * the first opens it, and ends when the last has closed it or died. Any thread may call; may block for a moment, as
 * gsi_claim() may. */
#ifndef UROCE_DOMAIN_H
#define UROCE_DOMAIN_H

#include <stdbool.h>

#include "object/xrcd.h"

/* Opens the domain of a file once more. 0; -EAGAIN: there is none, and `create` does not say to make it; -EINVAL: there
 * is one, and `exclusive` says that there must not be; -ENOMEM, or what gsi_claim() says. */
int domain_open(const struct xrcd_name *name, bool create, bool exclusive);
void domain_close(const struct xrcd_name *name);

/* In a child of fork(): none is open. */
void domains_forget(void);

#endif
