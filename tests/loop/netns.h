/* SPDX-License-Identifier: BSD-2-Clause */
/* A network namespace for one test program: no other process has port 4791 or a slot there. */
#ifndef TESTS_NETNS_H
#define TESTS_NETNS_H

/* Enters a new namespace with lo up; exits with 77 ("skipped") where that is not allowed. */
void netns_enter(void);
void netns_lo_mtu(int bytes);
/* Allows as many descriptors; exits with 77 where that is not allowed. */
void descriptors_allow(unsigned count);

#endif
