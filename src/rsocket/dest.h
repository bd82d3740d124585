/* SPDX-License-Identifier: BSD-2-Clause */
/* Destinations of a datagram rsocket: the addresses it sends to, with what is known of their QPs. rs->lock guards
 * all. */
#ifndef UROCE_RSOCKET_DEST_H
#define UROCE_RSOCKET_DEST_H

#include "rsocket/local.h"
#include "rsocket/rsocket.h"
#include "rsocket/tuned.h"

struct dest {
	struct list link;
	struct name name;
	struct local *local; /* sends to it */
	struct ibv_ah *ah;   /* NULL: the QP is not known yet */
	uint32_t qpn;
};

struct bucket {
	struct list dests;
	uint32_t count;
};

/* What rs->datagram is. */
struct datagram {
	struct list locals;
	struct list arrived;
	uint32_t by_udp; /* of `arrived` */
	uint32_t calls;	 /* of datagram_process() that found completions */
	struct bucket buckets[BUCKETS];
	bool connected;
	struct name peer;
};

/* The destination of that name, made if it is new. 0 or -errno. */
int dest_find(struct rsocket *rs, const struct name *name, struct dest **to) REQUIRES(rs->lock);
/* The local address of that name, made if it is new. 0 or -errno. */
int dest_local(struct rsocket *rs, const struct name *own, struct local **to) REQUIRES(rs->lock);
void dest_forget_all(struct datagram *d);

#endif
