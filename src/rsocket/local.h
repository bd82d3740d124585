/* SPDX-License-Identifier: BSD-2-Clause */
/* An address of ours that sends and receives datagrams: its UD queue pair. */
#ifndef UROCE_RSOCKET_LOCAL_H
#define UROCE_RSOCKET_LOCAL_H

#include "rsocket/rsocket.h"

enum {
	RS_DATAGRAM_MOST = 2048, /* bytes */
	RS_MOST_IOVS = 16,
};

/* Of a socket; IPv4 as ::ffff:a.b.c.d. */
struct name {
	uint8_t ip[16];
	uint16_t port; /* as on the wire */
	uint32_t scope;
};

/* 0, -EINVAL or -EAFNOSUPPORT. */
int name_get(struct name *name, const struct sockaddr *from, socklen_t length);
/* The size of it. */
socklen_t name_put(const struct name *name, int domain, struct sockaddr_storage *to);
bool name_is_any(const struct name *name);
bool name_is_v4(const struct name *name);
bool name_is(const struct name *a, const struct name *b);

/* A datagram that has come. */
struct arrival {
	struct list link;
	struct local *local; /* in a receive of its; NULL: by UDP, and on the heap */
	struct name name;    /* from whom */
	const uint8_t *data;
	uint32_t length;
};

struct local {
	struct list link;
	struct name name;
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	struct ibv_mr *mr; /* of `memory`: slots of receives, then of sends */
	uint8_t *memory;
	size_t bytes;
	uint32_t receives, sends, mtu;
	int gid_index;
	struct arrival *arrivals; /* one for each receive */
	uint32_t *free, frees;	  /* sends that may be used */
};

#define LOCAL_SEND (1ull << 32) /* of a work request's id, whose low bits are the slot */

int local_make(struct rsocket *rs, const struct name *own, struct local **to) REQUIRES(rs->lock);
void local_free(struct local *local);
/* NULL: there is none. */
struct ibv_ah *local_ah(struct local *local, const struct name *to, uint8_t tos);
/* Whether a datagram of that length can go by the QP. */
bool local_fits(const struct local *local, size_t length);
/* There is a free slot. 0 or -errno. */
int local_send(struct local *local, struct ibv_ah *ah, uint32_t qpn, const struct iovec *iov, int count);
void local_post_receive(struct local *local, uint32_t slot);
/* Fills what a completed receive of so many bytes is about. False: nonsense. */
bool local_parse(struct local *local, struct arrival *a, uint32_t bytes);

#endif
