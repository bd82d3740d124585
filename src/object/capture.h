/* SPDX-License-Identifier: BSD-2-Clause */
/* Records of a capture (base/capture.h) for packets and one-sided operations. Payload that cannot be read any more is
 * left out: the packet is cut behind its headers. Any thread may call. */
#ifndef UROCE_OBJECT_CAPTURE_H
#define UROCE_OBJECT_CAPTURE_H

#include <infiniband/verbs.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/capture.h"
#include "wire/packet.h"

struct capture_seen {
	const union ibv_gid *from, *to;
	uint8_t traffic_class, hop_limit;
	uint32_t flow_label;
	uint32_t qpn; /* QPN in this process of the receiver of a packet that arrives; else 0 */
	uint32_t mtu;
	enum capture_link link;
	bool inbound;
	const struct iovec *iov; /* payload, or the pieces of a packet */
	uint32_t iovs;
	pid_t owner; /* process whose memory has the pieces; 0: this process */
};

__attribute__((cold)) void capture_packet(const struct packet *p, const struct capture_seen *s);

/* Records a one-sided operation. `e`: complete except head, addresses and `captured`. iov: the local memory. */
__attribute__((cold)) void capture_onesided(const struct capture_onesided *e, const union ibv_gid *from,
					    const union ibv_gid *to, const struct iovec *iov, uint32_t iovs);

#endif
