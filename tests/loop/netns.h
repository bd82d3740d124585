/* SPDX-License-Identifier: BSD-2-Clause */
/* A network namespace for one test program: no other process has port 4791 or a slot there. */
#ifndef TESTS_NETNS_H
#define TESTS_NETNS_H

#include <stdbool.h>

/* Enters a new namespace with lo up; exits with 77 ("skipped") where that is not allowed. */
void netns_enter(void);
void netns_lo_mtu(int bytes);
/* Whether there is IPv6; says so if not: a kernel may lack it, or give its interfaces no such address. */
bool netns_has_ipv6(void);
/* Allows as many descriptors; exits with 77 where that is not allowed. */
void descriptors_allow(unsigned count);

#endif
