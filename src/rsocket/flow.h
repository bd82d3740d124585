/* SPDX-License-Identifier: BSD-2-Clause */
/* Completions of a stream, its buffers and its credits. */
#ifndef UROCE_RSOCKET_FLOW_H
#define UROCE_RSOCKET_FLOW_H

#include "rsocket/rsocket.h"

/* Takes what has completed, and grants credits. */
void stream_process(struct rsocket *rs) REQUIRES(rs->lock);
/* Ends the connection; `error`: errno, or 0 for one that ends in good order. */
void stream_fail(struct rsocket *rs, int error) REQUIRES(rs->lock);
/* Whether there are slots, credits, ring space and a target for one message. */
bool stream_can_send(struct rsocket *rs);
/* Whether a write of some KiB would not wait, as a program expects after POLLOUT of TCP. True where the peer has read
 * all. */
bool stream_has_room(struct rsocket *rs);
/* Whether the peer has acknowledged all, or the connection is over. */
bool stream_is_drained(struct rsocket *rs) REQUIRES(rs->lock);
/* What close(2) tells the peer: RS_RESET with SO_LINGER of 0 s, else RS_DISCONNECT. */
enum rs_control stream_last_word(const struct rsocket *rs) REQUIRES(rs->lock);
/* Posts a control message. 0, -EAGAIN: RS_CONTROLS are under way, or -errno. */
int stream_control(struct rsocket *rs, enum rs_control what) REQUIRES(rs->lock);
/* Reserves `length` bytes of the send ring. The number of pieces: 1 or 2. */
int stream_place(struct stream *s, uint32_t length, struct ibv_sge sge[2]);
/* Posts a message that counts as one of RS_CONTROLS. 0 or -errno. */
int stream_post_control(struct rsocket *rs, struct ibv_sge *sge, int sges, enum ibv_wr_opcode opcode, uint32_t imm,
			unsigned flags, uint64_t address, uint32_t key) REQUIRES(rs->lock);
/* Posts data: takes a slot; `bytes` of the send ring are free when it completes. 0 or -errno. */
int stream_post_data(struct rsocket *rs, struct ibv_sge *sge, int sges, enum ibv_wr_opcode opcode, uint32_t imm,
		     uint32_t bytes, unsigned flags, uint64_t address, uint32_t key) REQUIRES(rs->lock);
/* Posts data of many packets, as a WRITE and an empty WRITE with immediate: with immediate data of its own, its first
 * and last packets would be of other sizes than the rest, and a train has one size. Takes two slots. 0 or -errno. */
int stream_post_much(struct rsocket *rs, struct ibv_sge *sge, int sges, uint32_t bytes, uint64_t address, uint32_t key)
	REQUIRES(rs->lock);
int stream_post_receives(struct rsocket *rs, uint32_t count) REQUIRES(rs->lock);

#endif
