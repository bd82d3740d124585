/* SPDX-License-Identifier: BSD-2-Clause */
/* Whatever a program asks rdma's netlink: all of it is taken, and each answer is one whole message to that socket.
 * Seeds: corpus/netlink, made by netlink-seeds.py. */
#include <errno.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "verbs/tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool hazards)
{
	if (!hazards)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_Alignas(struct nlmsghdr) char answer[4096];
	struct sockaddr_nl own;
	socklen_t own_size = sizeof(own);
	const struct nlmsghdr *m = (const struct nlmsghdr *)answer;
	struct tree_node node;
	ssize_t n;
	int fd;

	require(!uroce_tree_read("/sys/class/infiniband_verbs", &node)); /* the library is there */
	free(node.text);
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
	require(fd >= 0 && send(fd, data, size, 0) == (ssize_t)size);
	require(!getsockname(fd, (struct sockaddr *)&own, &own_size) && own.nl_pid);
	while ((n = recv(fd, answer, sizeof(answer), MSG_DONTWAIT)) >= 0) {
		const char *at = answer + NLMSG_HDRLEN, *end = answer + n;

		require((size_t)n >= sizeof(*m) && m->nlmsg_len == n && m->nlmsg_pid == own.nl_pid);
		if (m->nlmsg_type == NLMSG_ERROR || m->nlmsg_type == NLMSG_DONE)
			continue;
		while (at < end) {
			const struct nlattr *a = (const struct nlattr *)at;

			require(end - at >= NLA_HDRLEN && a->nla_len >= NLA_HDRLEN && a->nla_len <= end - at);
			at += NLA_ALIGN(a->nla_len);
		}
		require(at == end);
	}
	require(errno == EAGAIN || errno == ENOBUFS);
	close(fd);
	return 0;
}
