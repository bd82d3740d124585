/* SPDX-License-Identifier: BSD-2-Clause */
/* The XRC domains that are open in this process and in the others of its user and network namespace. A domain
 * begins when the first process opens it, and ends when the last one has closed it or died. Any thread may call;
 * may block for a moment, as gsi_claim() may. */
#ifndef UROCE_PORT_DOMAIN_H
#define UROCE_PORT_DOMAIN_H

#include <stdbool.h>

#include "object/xrcd.h"

/* Opens the domain of a file once more. 0; -EAGAIN: there is none, and `create` is false; -EINVAL: there is one,
 * and `exclusive` is true; -ENOMEM, or an error of gsi_claim(). */
int domain_open(const struct xrcd_name *name, bool create, bool exclusive);
void domain_close(const struct xrcd_name *name);

/* In a child of fork(): no domain is open. */
void domains_forget(void);

#endif
