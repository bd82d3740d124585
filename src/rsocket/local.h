/* SPDX-License-Identifier: BSD-2-Clause */
/* A local address that sends and receives datagrams: its UD QP. rs->lock guards all. */
#ifndef UROCE_RSOCKET_LOCAL_H
#define UROCE_RSOCKET_LOCAL_H

#include "rsocket/rsocket.h"

enum {
	RS_DATAGRAM_MOST = 2048, /* bytes */
	RS_MOST_IOVS = 16,
};

/* The address of a socket; IPv4 as ::ffff:a.b.c.d. */
struct name {
	uint8_t ip[16];
	uint16_t port; /* as on the wire */
	uint32_t scope;
};

/* 0, -EINVAL or -EAFNOSUPPORT. */
int name_get(struct name *name, const struct sockaddr *from, socklen_t length);
/* The size of the address. */
socklen_t name_put(const struct name *name, int domain, struct sockaddr_storage *to);
bool name_is_any(const struct name *name);
bool name_is_v4(const struct name *name);
bool name_is(const struct name *a, const struct name *b);

/* A datagram received. */
struct arrival {
	struct list link;
	struct local *local; /* the receive belongs to it; NULL: came by UDP, and is on the heap */
	struct name name;    /* its sender */
	const uint8_t *data;
	uint32_t length;
};

struct local {
	struct list link;
	struct name name;
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	struct ibv_mr *mr; /* `memory`: slots of receives, then of sends */
	uint8_t *memory;
	size_t bytes;
	uint32_t receives, sends, mtu;
	int gid_index;
	struct arrival *arrivals; /* one for each receive */
	uint32_t *free, frees;	  /* sends that may be used */
};

#define LOCAL_SEND (1ull << 32) /* wr_id: a send; its low 32 bits are the slot */

/* 0 or -errno. */
int local_make(struct rsocket *rs, const struct name *own, struct local **to) REQUIRES(rs->lock);
void local_free(struct local *local);
/* NULL and errno. */
struct ibv_ah *local_ah(struct local *local, const struct name *to, uint8_t tos);
/* Whether a datagram of that length fits the path MTU. */
bool local_fits(const struct local *local, size_t length);
/* Needs a free slot. 0 or -errno. */
int local_send(struct local *local, struct ibv_ah *ah, uint32_t qpn, const struct iovec *iov, int count);
void local_post_receive(struct local *local, uint32_t slot);
/* Parses a completed receive of so many bytes. False: not valid. */
bool local_parse(struct local *local, struct arrival *a, uint32_t bytes);

#endif
