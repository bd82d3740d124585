/* SPDX-License-Identifier: BSD-2-Clause */
/* Whatever a program asks rdma's netlink: all of it is taken, and each answer is one whole message to that socket.
 * Seeds: corpus/netlink, made by netlink-seeds.py. */
#include <errno.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/control_call.h"
#include "base/memfd.h"
#include "base/stat.h"
#include "require.h"
#include "device/tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A process with some of each, in place of those that run. */
static void made_up(struct stat_sheet *s)
{
	struct stat_device d = {.name = "uroce0", .number = 1};
	struct stat_qp q = {.device = 1, .qpn = 0x123456, .remote_qpn = 1, .type = 2, .state = 3};
	struct stat_cq c = {.device = 1, .handle = 1};
	struct stat_mr r = {.device = 1, .key = 0x12345678};
	struct stat_pd pd = {.device = 1, .handle = 1};
	struct stat_context c1 = {.device = 1, .objects = 2, .number = 3};
	struct stat_srq srq = {.device = 1, .number = 5, .pd = 1, .cq = STAT_UNKNOWN};
	struct stat_id i = {.device = 1, .state = 2}, v4 = {.device = 1, .connection = 2, .qpn = 0x123456};
	struct stat_id v6 = {.device = 1, .state = 3, .local = {0xfd, [15] = 1}, .remote = {0xfd, [15] = 2}};

	memcpy(v4.local, (uint8_t[16]){[10] = 0xff, 0xff, 127, [15] = 1}, 16);
	memcpy(v4.remote, v4.local, 16);
	v4.remote_port = v6.remote_port = 7200;
	q.srq = srq.number;
	stat_put(s, STAT_DEVICE, &d, sizeof(d));
	stat_put(s, STAT_CONTEXT, &c1, sizeof(c1));
	stat_put(s, STAT_SRQ, &srq, sizeof(srq));
	stat_put(s, STAT_ID, &v4, sizeof(v4));
	stat_put(s, STAT_ID, &v6, sizeof(v6));
	for (int n = 0; n < 50; n++) {
		stat_put(s, STAT_QP, &q, sizeof(q));
		stat_put(s, STAT_CQ, &c, sizeof(c));
		stat_put(s, STAT_MR, &r, sizeof(r));
		stat_put(s, STAT_PD, &pd, sizeof(pd));
		stat_put(s, STAT_ID, &i, sizeof(i));
	}
}

void control_call_all(const char *request, void (*use)(pid_t pid, int given, void *arg),
		      void (*silent)(pid_t pid, const char *why, void *arg), void *arg)
{
	struct stat_sheet s = {.used = sizeof(struct stat_head), .size = 65536, .bytes = calloc(1, 65536)};
	struct stat_head *head = (struct stat_head *)s.bytes;
	int fd;

	require(head);
	made_up(&s);
	head = (struct stat_head *)s.bytes;
	head->magic = STAT_MAGIC;
	head->bytes = s.used;
	fd = memfd_of_size("stat", 0, s.used);
	require(fd >= 0 && !memfd_fill(fd, s.bytes, s.used));
	use(getpid() + 1, fd, arg);
	close(fd);
	free(s.bytes);
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
