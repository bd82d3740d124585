/* SPDX-License-Identifier: BSD-2-Clause */
#include "loop/name_owner.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

#ifndef UDIAG_SHOW_UID
#define UDIAG_SHOW_UID 0x40
#endif
#define ATTRIBUTE_UID 7 /* UNIX_DIAG_UID */

struct name_search {
	const char *name;
	size_t length;
	uid_t uid;
	bool found;
};

/* One socket of the answer. */
static void name_owner_look(const struct nlmsghdr *h, struct name_search *s)
{
	const struct unix_diag_msg *m = NLMSG_DATA(h);
	const struct rtattr *a = (const struct rtattr *)(m + 1), *name = NULL, *uid = NULL;
	int left = (int)h->nlmsg_len - (int)NLMSG_LENGTH(sizeof(*m));

	for (; RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		if (a->rta_type == UNIX_DIAG_NAME)
			name = a;
		if (a->rta_type == ATTRIBUTE_UID && RTA_PAYLOAD(a) >= sizeof(s->uid))
			uid = a;
	}
	if (!name || !uid || RTA_PAYLOAD(name) != s->length || memcmp(RTA_DATA(name), s->name, s->length))
		return;
	memcpy(&s->uid, RTA_DATA(uid), sizeof(s->uid));
	s->found = true;
}

/* 1: there is more to come. */
static int name_owner_read(int fd, struct name_search *s)
{
	_Alignas(struct nlmsghdr) char bytes[32768];
	ssize_t n = recv(fd, bytes, sizeof(bytes), 0);
	int left = (int)n;

	if (n <= 0)
		return n ? -errno : -EPROTO;
	for (const struct nlmsghdr *h = (void *)bytes; NLMSG_OK(h, (unsigned)left); h = NLMSG_NEXT(h, left)) {
		if (h->nlmsg_type == NLMSG_DONE)
			return 0;
		if (h->nlmsg_type == NLMSG_ERROR)
			return ((const struct nlmsgerr *)NLMSG_DATA(h))->error ?: -EPROTO;
		if (h->nlmsg_type == SOCK_DIAG_BY_FAMILY)
			name_owner_look(h, s);
	}
	return 1;
}

int name_owner(const struct sockaddr_un *address, socklen_t size, uid_t *uid)
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
	struct name_search s = {.name = address->sun_path, .length = size - offsetof(struct sockaddr_un, sun_path)};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG), err;

	if (fd < 0)
		return -errno;
	err = send(fd, &ask, sizeof(ask), 0) == sizeof(ask) ? 1 : -errno;
	while (err > 0)
		err = name_owner_read(fd, &s);
	close(fd);
	*uid = s.uid;
	return err ?: s.found ? 0 : -ENOENT;
}

bool name_is_foreign(const struct sockaddr_un *address, socklen_t size, uid_t *uid)
{
	return !name_owner(address, size, uid) && *uid != geteuid();
}
