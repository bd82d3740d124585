/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests to the kernel by netlink. Any thread may call; the descriptors are the caller's. */
#ifndef UROCE_BASE_NETLINK_H
#define UROCE_BASE_NETLINK_H

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stddef.h>
#include <stdint.h>

/* Opens a socket of that protocol. Returns it, or -errno. */
int netlink_open(int protocol);
/* Opens a non-blocking socket that becomes readable when rtnetlink has news of these groups (RTMGRP_*). Returns it, or
 * -errno. */
int netlink_watch(uint32_t groups);

/* The attribute of that type behind the `fixed` bytes of a message; NULL: none. */
const struct rtattr *netlink_find(const struct nlmsghdr *h, size_t fixed, uint16_t type);
/* Appends an attribute. The caller has checked the room. */
void netlink_add(struct nlmsghdr *h, uint16_t type, const void *data, uint16_t bytes);

/* Sends a request with one answer, which replaces it in `room` bytes. 0 or -errno, also the kernel's. */
int netlink_ask(int fd, struct nlmsghdr *h, size_t room);
/* Sends a request (NLM_F_DUMP) that is answered by any number of rows. 0 or -errno. */
int netlink_dump(int fd, const struct nlmsghdr *h, void (*row)(void *arg, const struct nlmsghdr *h), void *arg);

#endif
