/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/name_owner.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/netlink.h"

#ifndef UDIAG_SHOW_UID
#define UDIAG_SHOW_UID 0x40
#endif
#define ATTRIBUTE_UID 7 /* UNIX_DIAG_UID */

struct name_search {
	const char *name;
	size_t length;
	bool is_prefix;
	uid_t uid; /* owner of one of the sockets found; another user, if there is any */
	unsigned found, foreign;
};

/* Looks at one socket of the answer. */
static void look(void *arg, const struct nlmsghdr *h)
{
	const struct rtattr *name = netlink_find(h, sizeof(struct unix_diag_msg), UNIX_DIAG_NAME);
	const struct rtattr *uid = netlink_find(h, sizeof(struct unix_diag_msg), ATTRIBUTE_UID);
	struct name_search *s = arg;
	uid_t user;

	if (h->nlmsg_type != SOCK_DIAG_BY_FAMILY || !name || !uid || RTA_PAYLOAD(uid) < sizeof(user) ||
	    RTA_PAYLOAD(name) < s->length || (RTA_PAYLOAD(name) > s->length && !s->is_prefix) ||
	    memcmp(RTA_DATA(name), s->name, s->length))
		return;
	memcpy(&user, RTA_DATA(uid), sizeof(user));
	s->found++;
	s->foreign += user != geteuid();
	if (!s->foreign || user != geteuid())
		s->uid = user;
}

/* Looks at all sockets. 0 or -errno. */
static int search(struct name_search *s)
{
	struct {
		struct nlmsghdr header;
		struct unix_diag_req what;
	} ask = {
		.header = {.nlmsg_len = sizeof(ask),
			   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			   .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		.what = {.sdiag_family = AF_UNIX,
			 .udiag_states = UINT32_MAX,
			 .udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_UID},
	};
	int fd = netlink_open(NETLINK_SOCK_DIAG), err;

	if (fd < 0)
		return fd;
	err = netlink_dump(fd, &ask.header, look, s);
	close(fd);
	return err;
}

int name_owner(const struct sockaddr_un *address, socklen_t size, uid_t *uid)
{
	struct name_search s = {.name = address->sun_path, .length = size - offsetof(struct sockaddr_un, sun_path)};
	int err = search(&s);

	*uid = s.uid;
	return err ?: s.found ? 0 : -ENOENT;
}

struct one_socket {
	struct nlmsghdr header;
	struct unix_diag_req what;
	char answer[1024];
};

/* An attribute, of 32 bits, of the socket with that inode. 0 or -errno. */
static int socket_attribute(int netlink, uint32_t inode, uint32_t show, uint16_t type, uint32_t *value)
{
	struct one_socket ask = {
		.header = {.nlmsg_len = offsetof(struct one_socket, answer),
			   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			   .nlmsg_flags = NLM_F_REQUEST},
		.what = {.sdiag_family = AF_UNIX,
			 .udiag_states = UINT32_MAX,
			 .udiag_ino = inode,
			 .udiag_show = show,
			 .udiag_cookie = {UINT32_MAX, UINT32_MAX}}, /* of any socket */
	};
	int err = netlink_ask(netlink, &ask.header, sizeof(ask));
	const struct rtattr *found = err ? NULL : netlink_find(&ask.header, sizeof(struct unix_diag_msg), type);

	if (err)
		return err;
	if (!found || RTA_PAYLOAD(found) < sizeof(*value))
		return -ENOENT;
	memcpy(value, RTA_DATA(found), sizeof(*value));
	return 0;
}

int name_owner_of_peer(int fd, uid_t *uid)
{
	int netlink = netlink_open(NETLINK_SOCK_DIAG), err;
	uint32_t inode = 0;
	struct stat own;

	if (netlink < 0)
		return netlink;
	err = fstat(fd, &own) ? -errno : 0;
	err = err ?: socket_attribute(netlink, (uint32_t)own.st_ino, UDIAG_SHOW_PEER, UNIX_DIAG_PEER, &inode);
	err = err ?: socket_attribute(netlink, inode, UDIAG_SHOW_UID, ATTRIBUTE_UID, uid);
	close(netlink);
	return err;
}

unsigned names_foreign(const char *prefix, uid_t *uid)
{
	char name[sizeof(((struct sockaddr_un *)0)->sun_path)] = "";
	struct name_search s = {.name = name, .length = 1 + strlen(prefix), .is_prefix = true};

	assert(s.length < sizeof(name));
	strcpy(name + 1, prefix);
	if (search(&s))
		return 0;
	*uid = s.uid;
	return s.foreign;
}

bool name_is_foreign(const struct sockaddr_un *address, socklen_t size, uid_t *uid)
{
	return !name_owner(address, size, uid) && *uid != geteuid();
}
