/* SPDX-License-Identifier: BSD-2-Clause */
/* Netlink messages to rdma(8), attribute by attribute. Any thread; a message belongs to its caller. */
#ifndef UROCE_SYSFS_MESSAGE_H
#define UROCE_SYSFS_MESSAGE_H

#include <linux/netlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device {
	char name[64];
	uint32_t index;
};

struct message {
	union {
		struct nlmsghdr header;
		char bytes[3700]; /* rdma(8) has room for 4096; the kernel takes a page for this much */
	};
};

/* The request to answer: its socket and sequence number. */
struct asker {
	const struct nlmsghdr *request;
	struct sockaddr_nl address;
	int fd;	   /* socket to answer from */
	int to;	   /* the program's socket, which has the address */
	int *full; /* set to -ENOBUFS if the socket has lost a message */
};

/* Begins an answer to the request. */
void netlink_begin(struct message *m, const struct asker *to, uint16_t type, uint16_t flags);
/* Adds the device's name, the first attribute of each answer. */
void netlink_name(struct message *m, const struct device *d);
/* Adds an attribute. There must be room. */
void netlink_put(struct message *m, uint16_t type, const void *value, size_t size);
/* Adds an attribute with that value. */
void put_u8(struct message *m, uint16_t type, uint8_t value);
void put_u32(struct message *m, uint16_t type, uint32_t value);
void put_u64(struct message *m, uint16_t type, uint64_t value);
void put_text(struct message *m, uint16_t type, const char *text);
/* Nests the attributes between nest_begin() and nest_end(). */
uint32_t nest_begin(struct message *m, uint16_t type);
void nest_end(struct message *m, uint32_t nest);
/* Sends the message; sets *full if the socket has no room. */
void netlink_tell(const struct asker *to, const struct message *m);
/* Value of an attribute of the request, or 0. */
uint32_t number_in(const struct nlmsghdr *request, uint16_t type);

#endif
