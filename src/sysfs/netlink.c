/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers to rdma(8) and similar programs that ask the kernel by netlink for devices and ports. They get a
 * NETLINK_USERSOCK socket in place of a NETLINK_RDMA one, which differs only in sending: what is sent to the kernel
 * is answered here, by messages to that socket. Messages and attributes are those of rdma_netlink.h. Other requests
 * get EOPNOTSUPP. */
#include "sysfs/face.h"

#include <linux/netlink.h>
#include <net/if.h>
#include <rdma/rdma_netlink.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "sysfs/message.h"
#include "sysfs/resource.h"

#define VERBS	"/sys/class/infiniband_verbs"
#define REQUEST 8192 /* max bytes of a program's message that are parsed */
/* RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, missing in headers before Linux 5.12. */
#define COPY_ON_FORK 93

/* True once such a socket has been opened: only then can a descriptor be one. */
static _Atomic bool opened;

/* Reads a line of a file, or the first name in a directory. False if there is none. */
static bool netlink_read_line(char *line, size_t size, const char *format, const char *name)
{
	struct tree_node node;
	char path[PATH_MAX];
	bool ok;

	snprintf(path, sizeof(path), format, name);
	if (uroce_tree_read(path, &node))
		return false;
	ok = node.length && node.length < size && (node.kind == TREE_FILE || node.kind == TREE_DIRECTORY);
	if (ok) {
		memcpy(line, node.text, node.length);
		line[node.length] = 0;
		line[strcspn(line, "\n")] = 0;
	}
	free(node.text);
	return ok;
}

static bool find_device(const char *verbs, struct device *d)
{
	unsigned minor;
	char line[64];

	if (strncmp(verbs, "uverbs", 6) || !netlink_read_line(d->name, sizeof(d->name), VERBS "/%s/ibdev", verbs) ||
	    !netlink_read_line(line, sizeof(line), VERBS "/%s/dev", verbs) || sscanf(line, "%*u:%u", &minor) != 1)
		return false;
	d->index = minor - TREE_MINOR + 1; /* as in ibv_get_device_index() */
	return true;
}

/* ---- attributes ---- */

/* Adds a GUID from a file, unless the file is missing. */
static void put_guid(struct message *m, uint16_t type, const char *path, const struct device *d)
{
	unsigned part[4];
	uint64_t guid = 0;
	char line[64];

	if (!netlink_read_line(line, sizeof(line), path, d->name) ||
	    sscanf(line, "%4x:%4x:%4x:%4x", &part[0], &part[1], &part[2], &part[3]) != 4)
		return;
	for (int i = 0; i < 4; i++)
		guid = guid << 16 | part[i];
	netlink_put(m, type, &guid, sizeof(guid));
}

static void put_number(struct message *m, uint16_t type, const char *path, const struct device *d)
{
	char line[64];

	if (netlink_read_line(line, sizeof(line), path, d->name))
		put_u8(m, type, (uint8_t)strtoul(line, NULL, 0));
}

static void tell_error(const struct asker *to, int error)
{
	struct nlmsgerr e = {.error = -error, .msg = *to->request};
	struct message m;

	netlink_begin(&m, to, NLMSG_ERROR, 0);
	memcpy(m.bytes + m.header.nlmsg_len, &e, sizeof(e));
	m.header.nlmsg_len += sizeof(e);
	netlink_tell(to, &m);
}

/* ---- commands ---- */

static void describe_device(struct message *m, const struct device *d)
{
	char line[64];

	put_u32(m, RDMA_NLDEV_ATTR_PORT_INDEX, 1); /* number of ports */
	if (netlink_read_line(line, sizeof(line), "/sys/class/infiniband/%s/fw_ver", d->name))
		put_text(m, RDMA_NLDEV_ATTR_FW_VERSION, line);
	put_guid(m, RDMA_NLDEV_ATTR_NODE_GUID, "/sys/class/infiniband/%s/node_guid", d);
	put_guid(m, RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, "/sys/class/infiniband/%s/sys_image_guid", d);
	put_number(m, RDMA_NLDEV_ATTR_DEV_NODE_TYPE, "/sys/class/infiniband/%s/node_type", d);
	put_text(m, RDMA_NLDEV_ATTR_DEV_PROTOCOL, "roce");
}

static void describe_port(struct message *m, const struct device *d)
{
	char netif[64];

	put_u32(m, RDMA_NLDEV_ATTR_PORT_INDEX, 1);
	put_number(m, RDMA_NLDEV_ATTR_PORT_STATE, "/sys/class/infiniband/%s/ports/1/state", d);
	put_number(m, RDMA_NLDEV_ATTR_PORT_PHYS_STATE, "/sys/class/infiniband/%s/ports/1/phys_state", d);
	if (netlink_read_line(netif, sizeof(netif), "/sys/class/infiniband/%s/device/net", d->name)) {
		put_u32(m, RDMA_NLDEV_ATTR_NDEV_INDEX, if_nametoindex(netif));
		put_text(m, RDMA_NLDEV_ATTR_NDEV_NAME, netif);
	}
}

/* Network namespace mode, and copy-on-fork: devices belong to the network namespace of their interfaces;
 * ibv_fork_init() is not needed. */
static void describe_system(struct message *m, const struct device *d)
{
	put_u8(m, RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 0);
	put_u8(m, COPY_ON_FORK, 1);
}

static const struct command {
	void (*describe)(struct message *m, const struct device *d);
	bool of_device;	 /* false: for no device */
	bool names_port; /* port 1; not for a list of all devices */
	bool dumps_all;	 /* devices, for a list of all; else ports of one device */
} commands[RDMA_NLDEV_NUM_OPS] = {
	[RDMA_NLDEV_CMD_GET] = {describe_device, .of_device = true, .dumps_all = true},
	[RDMA_NLDEV_CMD_PORT_GET] = {describe_port, .of_device = true, .names_port = true},
	[RDMA_NLDEV_CMD_SYS_GET] = {describe_system},
};

static void answer_one(const struct asker *a, const struct command *c, const struct device *d, uint16_t flags)
{
	struct message m;

	netlink_begin(&m, a, a->request->nlmsg_type, flags);
	if (d)
		netlink_name(&m, d);
	c->describe(&m, d);
	netlink_tell(a, &m);
}

/* Answers for the device of that index, or all devices. Returns their number. */
static unsigned answer_devices(const struct asker *a, const struct command *c, uint32_t index, uint16_t flags)
{
	struct tree_node node;
	struct device d;
	unsigned count = 0;

	if (uroce_tree_read(VERBS, &node))
		return 0;
	for (size_t at = 0; at < node.length; at += strlen(node.text + at) + 1)
		if (find_device(node.text + at, &d) && (!index || d.index == index)) {
			answer_one(a, c, &d, flags);
			count++;
		}
	free(node.text);
	return count;
}

/* Waits until the socket has room for `parts` quarters of its max, so that the end of a long list finds room. */
static void netlink_room(const struct asker *a, int parts)
{
	int bytes = INT_MAX / 2; /* the kernel reduces it to the limit, and reports twice that */
	socklen_t size = sizeof(bytes);

	if (setsockopt(a->to, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)) ||
	    getsockopt(a->to, SOL_SOCKET, SO_RCVBUF, &bytes, &size))
		return;
	bytes = bytes / 8 * parts;
	(void)setsockopt(a->to, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

/* Answers a request for objects of one device. */
static int answer_resources(const struct asker *a, uint32_t op, uint32_t index, bool all)
{
	struct tree_node node;
	struct device d;
	int err = EINVAL;

	if (!index)
		return resource_is(op) ? EINVAL : EOPNOTSUPP;
	if (uroce_tree_read(VERBS, &node))
		return EINVAL;
	for (size_t at = 0; at < node.length; at += strlen(node.text + at) + 1)
		if (find_device(node.text + at, &d) && d.index == index) {
			netlink_room(a, 3);
			err = resource_answer(a, op, &d, all);
			netlink_room(a, 4);
		}
	free(node.text);
	return err;
}

static int answer_command(const struct asker *a)
{
	bool all = (a->request->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
	uint32_t index = number_in(a->request, RDMA_NLDEV_ATTR_DEV_INDEX), op = RDMA_NL_GET_OP(a->request->nlmsg_type);
	const struct command *c = &commands[op];
	uint16_t flags = all ? NLM_F_MULTI : 0;

	if (RDMA_NL_GET_CLIENT(a->request->nlmsg_type) != RDMA_NL_NLDEV || op >= RDMA_NLDEV_NUM_OPS)
		return EOPNOTSUPP;
	if (!c->describe)
		return resource_is(op) ? answer_resources(a, op, index, all) : EOPNOTSUPP;
	if (!c->of_device) {
		answer_one(a, c, NULL, flags);
		return 0;
	}
	if (c->names_port && !all && number_in(a->request, RDMA_NLDEV_ATTR_PORT_INDEX) != 1)
		return EINVAL;
	if (all && c->dumps_all)
		answer_devices(a, c, 0, flags);
	else if (!index || !answer_devices(a, c, index, flags))
		return EINVAL;
	return 0;
}

static void netlink_end(const struct asker *a, struct message *m)
{
	int error = *a->full;

	memcpy(m->bytes + NLMSG_HDRLEN, &error, sizeof(error));
	m->header.nlmsg_len += sizeof(error);
	netlink_tell(a, m);
}

static void netlink_answer(const struct asker *a)
{
	int error = answer_command(a);
	struct message m;

	if (!error && (a->request->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP) {
		netlink_begin(&m, a, NLMSG_DONE, NLM_F_MULTI);
		netlink_end(a, &m);
	} else if (error || a->request->nlmsg_flags & NLM_F_ACK) {
		tell_error(a, error);
	}
}

/* ---- the socket ---- */

static inline bool may_be_ours(void)
{
	return unlikely(atomic_load_explicit(&opened, memory_order_relaxed));
}

/* True if data sent by the socket to that address (NULL: the connected one) is for us. */
static bool is_for_us(int fd, const struct sockaddr_nl *to)
{
	int domain = 0, protocol = 0, error = errno;
	socklen_t size = sizeof(int);
	bool ours;

	ours = (!to || (to->nl_family == AF_NETLINK && !to->nl_pid)) &&
	       !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) && domain == AF_NETLINK &&
	       !getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) && protocol == NETLINK_USERSOCK;
	errno = error;
	return ours;
}

/* Gets the socket's address, after binding it if needed. */
static bool find_address(int fd, struct sockaddr_nl *address)
{
	struct sockaddr_nl any = {.nl_family = AF_NETLINK};
	socklen_t size = sizeof(*address);

	if (getsockname(fd, (struct sockaddr *)address, &size))
		return false;
	if (address->nl_pid)
		return true;
	return !bind(fd, (struct sockaddr *)&any, sizeof(any)) && !getsockname(fd, (struct sockaddr *)address, &size);
}

/* As a send call: all bytes have been taken. */
static ssize_t netlink_take(int fd, const struct iovec *iov, size_t count)
{
	_Alignas(struct nlmsghdr) char request[REQUEST];
	int full = 0;
	struct asker a = {.request = (const struct nlmsghdr *)request, .full = &full, .to = fd};
	size_t all = 0, left = 0;

	for (size_t i = 0; i < count; all += iov[i++].iov_len) {
		size_t part = min_of(iov[i].iov_len, sizeof(request) - left);

		memcpy(request + left, iov[i].iov_base, part);
		left += part;
	}
	if (!find_address(fd, &a.address))
		return -1;
	a.fd = NEXT(socket)(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK);
	if (a.fd < 0)
		return -1;
	while (left >= sizeof(struct nlmsghdr) && a.request->nlmsg_len >= sizeof(struct nlmsghdr) &&
	       a.request->nlmsg_len <= left) {
		size_t whole = min_of((size_t)NLMSG_ALIGN(a.request->nlmsg_len), left);

		full = 0;
		if (a.request->nlmsg_flags & NLM_F_REQUEST)
			netlink_answer(&a);
		a.request = (const struct nlmsghdr *)((const char *)a.request + whole);
		left -= whole;
	}
	close(a.fd);
	return (ssize_t)all;
}

PUBLIC int socket(int domain, int type, int protocol)
{
	if (domain == AF_NETLINK && protocol == NETLINK_RDMA && uroce_tree_read) {
		atomic_store_explicit(&opened, true,
				      memory_order_relaxed); /* relaxed: a thread with the descriptor knows */
		protocol = NETLINK_USERSOCK;
	}
	return NEXT(socket)(domain, type, protocol);
}

PUBLIC ssize_t send(int fd, const void *data, size_t size, int flags)
{
	struct iovec iov = {(void *)data, size};

	return may_be_ours() && is_for_us(fd, NULL) ? netlink_take(fd, &iov, 1) : NEXT(send)(fd, data, size, flags);
}

PUBLIC ssize_t sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *to, socklen_t to_size)
{
	struct iovec iov = {(void *)data, size};

	return may_be_ours() && is_for_us(fd, (const struct sockaddr_nl *)to)
		       ? netlink_take(fd, &iov, 1)
		       : NEXT(sendto)(fd, data, size, flags, to, to_size);
}

PUBLIC ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	return may_be_ours() && message && is_for_us(fd, message->msg_name)
		       ? netlink_take(fd, message->msg_iov, message->msg_iovlen)
		       : NEXT(sendmsg)(fd, message, flags);
}

/* Looks functions up early, rather than in a signal handler. */
__attribute__((constructor)) static void netlink_find_early(void)
{
	(void)NEXT(send);
	(void)NEXT(sendto);
	(void)NEXT(sendmsg);
}
