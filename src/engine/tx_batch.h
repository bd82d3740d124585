/* SPDX-License-Identifier: BSD-2-Clause */
/* A tx batch: the packets that one run of the engine makes, with their payload as pieces of memory. With qp->lock. */
#ifndef UROCE_ENGINE_TX_BATCH_H
#define UROCE_ENGINE_TX_BATCH_H

#include "engine/tuned.h"
#include "object/mr.h"
#include "object/qp.h"
#include "object/sge.h"

enum {
	BATCH_PACKETS = 128,
	BATCH_TRAINS = 64, /* trains of a batch; whole ones, so that no link has to cut one */
	BATCH_IOVECS = 256,
	BATCH_REGIONS = 128,
	BATCH_LARGEST = 65536, /* bytes of a packet at most, by any link */
	BATCH_BOUNCE = 4 * BATCH_LARGEST,
	BATCH_OVERHEAD = 200,
	BATCH_SPARE = 4096, /* bytes of the room that only ACKs may use */
};

/* Calls for the rings of local peers: a UD QP has no peer, so each receiver is looked up. */
struct near_ops {
	/* Returns the local peer that has this QP; NULL: none, or not met yet. */
	struct local_peer *(*find)(struct qp *qp, const struct path *path, uint32_t qpn, uint64_t now);
	/* Reserves room for a datagram of `length` bytes. The datagram (tx->near) then uses it up. */
	enum near_room {
		NEAR_ROOM,
		NEAR_FULL, /* no room; if `waits`, the QP is run when there is some */
		NEAR_GONE,
	} (*reserve)(struct qp *qp, struct local_peer *near, uint32_t length, bool waits);
	void (*release)(struct local_peer *near, uint32_t length);
	/* True if the local peer has yet to read something that it was sent. False if its process has been stopped. */
	bool (*is_behind)(struct local_peer *near);
};

/* A packet to send: header values, and its payload as pieces of the tx batch's iov[]. */
struct tx {
	struct packet packet;
	const struct path *path;
	struct local_peer *near; /* UD: the local peer whose ring has room reserved for it; NULL: it goes by the path */
	uint32_t iov, iovs;	 /* first piece, number of pieces; the pieces add up to packet.length */
	uint32_t position;	 /* request: position in the send queue */
};

/* The result of one engine_run(). The memory that iov[] points to is the application's or the WQE's: valid until
 * batch_done(), and only while qp->lock is held. */
struct tx_batch {
	uint64_t now;	 /* in: ns */
	bool delay_ack;	 /* in: an ACK that is not urgent may wait for a later run */
	uint32_t budget; /* in: limit of a QP's congestion window, in bytes */
	uint32_t room;	 /* in: bytes that the link takes now: payload, and BATCH_OVERHEAD for each packet */
	const struct near_ops *near; /* in: for UD; NULL: there are no local peers */
	bool full; /* out: `room` was not enough. engine_run() then returns false; call it again when there is more room
		    */
	uint32_t packets; /* out: number of tx[] */
	uint32_t iovs, regions;
	struct tx tx[BATCH_PACKETS];
	struct iovec iov[BATCH_IOVECS];
	struct mr *region[BATCH_REGIONS]; /* kept alive by mr_get() until batch_done() */
	uint32_t bounced; /* bytes used of bounce[]: copies of payload for which mr_is_indirect() is true */
	/* Bytes of bounce[] that were read for the packets that follow: those of memory `at`. */
	struct {
		const struct mr *mr;
		const char *at;
		const char *bytes;
		uint32_t length;
	} ahead;
	char bounce[BATCH_BOUNCE];
};

/* Gives up the references to the regions and empties the tx batch. `now`, `delay_ack` and `budget` stay. */
void batch_done(struct tx_batch *batch);

/* Packets in a train. */
static inline uint32_t train_of(uint32_t mtu)
{
	return min_of(max_of(TRAIN / mtu, 1u), (uint32_t)BATCH_TRAINS);
}

/* Fills in a packet in place, so that the compiler need not keep its values in other memory. */
static inline void packet_begin(struct packet *p, uint8_t opcode, uint32_t dest_qpn, psn_t psn)
{
	*p = (struct packet){
		.opcode = opcode,
		.migrated = true, /* set as by adapters that never migrate */
		.pkey = PKEY_DEFAULT,
		.dest_qpn = dest_qpn,
		.psn = psn,
	};
}

/* The next free packet of the tx batch, headers filled as every packet of this QP has them; NULL: the tx batch is
 * full. */
struct tx *batch_packet(struct qp *qp, struct tx_batch *batch, uint8_t opcode, psn_t psn);
/* True if the link takes a packet with that much payload; if not, the tx batch is full. Acknowledgements may take
 * `spare`. */
bool batch_has_room(struct tx_batch *batch, uint32_t length, bool spare);
/* Adds payload to the packet last taken. False: no room, or (gather) an SGE is not memory of the domain. */
void batch_bytes(struct tx_batch *batch, struct tx *tx, const void *bytes, uint32_t length);
bool batch_gather(struct qp *qp, struct tx_batch *batch, struct tx *tx, const struct ibv_sge *sge, uint32_t count,
		  uint64_t offset, uint32_t length);
/* Adds one more packet like the last, with the next PSN: its payload is in one SGE, and in the last one's region. NULL:
 * not so, or the tx batch is full. */
struct tx *batch_repeat(struct qp *qp, struct tx_batch *batch, const struct ibv_sge *sge, uint64_t offset,
			uint32_t length);
/* Adds references in place of payload. */
void batch_refer(struct qp *qp, struct tx_batch *batch, struct tx *tx, const struct ibv_sge *sge, uint32_t count,
		 uint64_t offset, uint32_t length);
/* Adds payload of a region; takes over the caller's reference to it. `follow`: bytes behind these that later packets of
 * the same request will need. False: the memory is not present. */
bool batch_region(struct tx_batch *batch, struct tx *tx, struct mr *mr, const char *at, uint32_t length,
		  uint32_t follow);
void batch_drop_last(struct tx_batch *batch, struct tx *tx);

#endif
