/* SPDX-License-Identifier: BSD-2-Clause */
#include "loop/name_owner.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <string.h>
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
	uid_t uid;
	bool found;
};

/* One socket of the answer. */
static void name_owner_look(void *arg, const struct nlmsghdr *h)
{
	const struct rtattr *name = netlink_find(h, sizeof(struct unix_diag_msg), UNIX_DIAG_NAME);
	const struct rtattr *uid = netlink_find(h, sizeof(struct unix_diag_msg), ATTRIBUTE_UID);
	struct name_search *s = arg;

	if (h->nlmsg_type != SOCK_DIAG_BY_FAMILY || !name || !uid || RTA_PAYLOAD(uid) < sizeof(s->uid) ||
	    RTA_PAYLOAD(name) != s->length || memcmp(RTA_DATA(name), s->name, s->length))
		return;
	memcpy(&s->uid, RTA_DATA(uid), sizeof(s->uid));
	s->found = true;
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
	int fd = netlink_open(NETLINK_SOCK_DIAG), err;

	if (fd < 0)
		return fd;
	err = netlink_dump(fd, &ask.header, name_owner_look, &s);
	close(fd);
	*uid = s.uid;
	return err ?: s.found ? 0 : -ENOENT;
}

bool name_is_foreign(const struct sockaddr_un *address, socklen_t size, uid_t *uid)
{
	return !name_owner(address, size, uid) && *uid != geteuid();
}
