/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/netlink.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/high_fd.h"

int netlink_open(int protocol)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);

	return fd < 0 ? -errno : fd;
}

int netlink_watch(uint32_t groups)
{
	struct sockaddr_nl a = {.nl_family = AF_NETLINK, .nl_groups = groups};
	int fd = high_fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE)), err;

	if (fd < 0)
		return -errno;
	if (!bind(fd, (struct sockaddr *)&a, sizeof(a)))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

const struct rtattr *netlink_find(const struct nlmsghdr *h, size_t fixed, uint16_t type)
{
	const struct rtattr *a = (const void *)((const char *)NLMSG_DATA(h) + NLMSG_ALIGN(fixed));
	int left = (int)h->nlmsg_len - (int)NLMSG_SPACE(fixed);

	for (; RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == type)
			return a;
	return NULL;
}

void netlink_add(struct nlmsghdr *h, uint16_t type, const void *data, uint16_t bytes)
{
	struct rtattr *a = (struct rtattr *)((char *)h + NLMSG_ALIGN(h->nlmsg_len));

	*a = (struct rtattr){(uint16_t)RTA_LENGTH(bytes), type};
	memcpy(RTA_DATA(a), data, bytes);
	h->nlmsg_len = NLMSG_ALIGN(h->nlmsg_len) + RTA_ALIGN(a->rta_len);
}

/* Receives one page. Returns its bytes, or -errno. */
static ssize_t receive_page(int fd, void *page, size_t room)
{
	ssize_t n;

	do
		n = recv(fd, page, room, 0);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* The error of an answer that says NLMSG_ERROR. */
static int error_of(const struct nlmsghdr *h)
{
	return ((const struct nlmsgerr *)NLMSG_DATA(h))->error ?: -EPROTO;
}

int netlink_ask(int fd, struct nlmsghdr *h, size_t room)
{
	ssize_t n = send(fd, h, h->nlmsg_len, 0) < 0 ? -errno : receive_page(fd, h, room);

	if (n < 0)
		return (int)n;
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(int)) || !NLMSG_OK(h, (size_t)n))
		return -EPROTO;
	return h->nlmsg_type == NLMSG_ERROR ? error_of(h) : 0;
}

/* Reads one page of a dump. 1: more to come; 0 or -errno: done. */
static int read_rows(int fd, void (*row)(void *arg, const struct nlmsghdr *h), void *arg)
{
	_Alignas(struct nlmsghdr) char page[32768];
	ssize_t n = receive_page(fd, page, sizeof(page));
	uint32_t left = (uint32_t)n;

	if (n <= 0)
		return n ? (int)n : -EPROTO;
	for (const struct nlmsghdr *h = (void *)page; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
		if (h->nlmsg_type == NLMSG_DONE)
			return 0;
		if (h->nlmsg_type == NLMSG_ERROR)
			return error_of(h);
		row(arg, h);
	}
	return 1;
}

int netlink_dump(int fd, const struct nlmsghdr *h, void (*row)(void *arg, const struct nlmsghdr *h), void *arg)
{
	int err = send(fd, h, h->nlmsg_len, 0) < 0 ? -errno : 1;

	while (err > 0)
		err = read_rows(fd, row, arg);
	return err;
}
