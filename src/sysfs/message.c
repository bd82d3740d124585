/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <rdma/rdma_netlink.h>

#include "sysfs/next.h"

void netlink_begin(struct message *m, const struct asker *to, uint16_t type, uint16_t flags)
{
	m->header = (struct nlmsghdr){.nlmsg_len = NLMSG_HDRLEN,
				      .nlmsg_type = type,
				      .nlmsg_flags = flags,
				      .nlmsg_seq = to->request->nlmsg_seq,
				      .nlmsg_pid = to->address.nl_pid};
}

void netlink_put(struct message *m, uint16_t type, const void *value, size_t size)
{
	struct nlattr a = {.nla_len = (uint16_t)(NLA_HDRLEN + size), .nla_type = type};
	char *at = m->bytes + m->header.nlmsg_len;

	memset(at, 0, NLA_ALIGN(a.nla_len));
	memcpy(at, &a, sizeof(a));
	if (size)
		memcpy(at + NLA_HDRLEN, value, size);
	m->header.nlmsg_len += NLA_ALIGN(a.nla_len);
}

void put_u8(struct message *m, uint16_t type, uint8_t value)
{
	netlink_put(m, type, &value, sizeof(value));
}

void put_u32(struct message *m, uint16_t type, uint32_t value)
{
	netlink_put(m, type, &value, sizeof(value));
}

void put_u64(struct message *m, uint16_t type, uint64_t value)
{
	netlink_put(m, type, &value, sizeof(value));
}

void put_text(struct message *m, uint16_t type, const char *text)
{
	netlink_put(m, type, text, strlen(text) + 1);
}

uint32_t nest_begin(struct message *m, uint16_t type)
{
	uint32_t at = m->header.nlmsg_len;

	netlink_put(m, type, NULL, 0);
	return at;
}

void nest_end(struct message *m, uint32_t nest)
{
	uint16_t length = (uint16_t)(m->header.nlmsg_len - nest);

	memcpy(m->bytes + nest + offsetof(struct nlattr, nla_len), &length, sizeof(length));
}

void netlink_name(struct message *m, const struct device *d)
{
	put_u32(m, RDMA_NLDEV_ATTR_DEV_INDEX, d->index);
	put_text(m, RDMA_NLDEV_ATTR_DEV_NAME, d->name);
}

/* A full socket loses messages. The kernel would pause a long list; here, its end has ENOBUFS. */
void netlink_tell(const struct asker *to, const struct message *m)
{
	if (NEXT(sendto)(to->fd, m, m->header.nlmsg_len, MSG_DONTWAIT, (const struct sockaddr *)&to->address,
			 sizeof(to->address)) < 0)
		*to->full = -ENOBUFS;
}

uint32_t number_in(const struct nlmsghdr *request, uint16_t type)
{
	const char *at = (const char *)request + NLMSG_HDRLEN, *end = (const char *)request + request->nlmsg_len;
	struct nlattr a;
	uint32_t value;

	for (; end - at >= NLA_HDRLEN; at += NLA_ALIGN(a.nla_len)) {
		memcpy(&a, at, sizeof(a));
		if (a.nla_len < NLA_HDRLEN || a.nla_len > end - at)
			break;
		if ((a.nla_type & NLA_TYPE_MASK) == type && a.nla_len == NLA_HDRLEN + sizeof(value)) {
			memcpy(&value, at + NLA_HDRLEN, sizeof(value));
			return value;
		}
		if (NLA_ALIGN(a.nla_len) > end - at)
			break;
	}
	return 0;
}
