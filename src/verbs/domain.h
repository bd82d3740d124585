/* SPDX-License-Identifier: BSD-2-Clause */
/* Parent domains. */
#ifndef UROCE_VERBS_DOMAIN_H
#define UROCE_VERBS_DOMAIN_H

struct pd;

/* ibv_dealloc_pd(3) of a parent domain. 0 or errno. */
int dealloc_parent_domain(struct pd *pd);

#endif
