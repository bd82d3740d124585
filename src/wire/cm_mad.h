/* SPDX-License-Identifier: BSD-2-Clause */
/* Connection management datagrams as values (IBTA 12.6, 12.11): the common MAD header, the eleven messages, and the
 * header that the RDMA IP CM service (annex A11) puts at the start of their private data. Nothing above wire/ uses byte
 * offsets. A struct cm_mad belongs to its caller. */
#ifndef UROCE_CM_MAD_H
#define UROCE_CM_MAD_H

#include <infiniband/verbs.h>

#include "base/base.h"

enum {
	CM_MAD_BYTES = 256,
	CM_PRIVATE_MAX = 224,
	CM_INFO_MAX = 72, /* additional reject, SIDR or alternate path information */
};

/* The message types: values of the attribute id. */
enum cm_message {
	CM_REQ = 0x10,
	CM_MRA,
	CM_REJ,
	CM_REP,
	CM_RTU,
	CM_DREQ,
	CM_DREP,
	CM_SIDR_REQ,
	CM_SIDR_REP,
	CM_LAP,
	CM_APR,
};
#define CM_FIRST    CM_REQ
#define CM_MESSAGES (CM_APR - CM_FIRST + 1)

/* The message that an MRA or a REJ refers to (12.6.6, 12.6.7). */
enum cm_about {
	CM_ABOUT_REQ = 0,
	CM_ABOUT_REP = 1,
	CM_ABOUT_OTHER = 2, /* MRA: a LAP; REJ: none, as no message came in time */
};

/* IBTA 12.6.7.2: the reasons that uroce sends or explains. */
enum cm_reason {
	CM_REASON_NO_QP = 1,
	CM_REASON_NO_RESOURCES = 3,
	CM_REASON_TIMEOUT = 4,
	CM_REASON_UNSUPPORTED = 5,
	CM_REASON_INVALID_ID = 6,
	CM_REASON_INVALID_SERVICE = 8,
	CM_REASON_INVALID_TRANSPORT = 9,
	CM_REASON_STALE = 10,
	CM_REASON_CONSUMER = 28,
	CM_REASON_VENDOR_OPTION = 35,
};

/* IBTA 12.11.2.1 */
enum cm_sidr_status {
	CM_SIDR_VALID = 0,
	CM_SIDR_UNSUPPORTED = 1,
	CM_SIDR_REJECT = 2,
	CM_SIDR_NO_QP = 3,
};

/* IBTA 12.8.2 */
enum cm_path_status {
	CM_PATH_INVALID_ID = 1,
	CM_PATH_UNSUPPORTED = 2,
};

struct cm_route {
	uint16_t local_lid, remote_lid;
	union ibv_gid local_gid, remote_gid;
	uint32_t flow_label;
	uint8_t rate, traffic_class, hop_limit, sl, subnet_local, ack_timeout;
};

/* One struct for all messages: a field is valid in the messages that its comment names. Numbers in host byte order. */
struct cm_mad {
	enum cm_message message;
	uint16_t status;
	uint64_t transaction;
	uint32_t modifier;

	uint32_t local_id; /* id of the sender; SIDR: of the request */
	uint32_t remote_id;

	uint64_t service;   /* REQ, SIDR_REQ, SIDR_REP */
	uint64_t ca_guid;   /* REQ, REP: adapter of the sender */
	uint32_t qkey;	    /* REQ, REP, SIDR_REP */
	uint32_t qpn;	    /* REQ, REP, SIDR_REP: of the sender; DREQ, LAP: of the receiver */
	uint32_t psn;	    /* REQ, REP: first PSN that the receiver of the message sends */
	uint32_t vendor_id; /* REQ, REP: for enhanced connection establishment */
	uint32_t local_eecn, remote_eecn;
	uint8_t responder_resources, initiator_depth; /* REQ, REP */
	uint8_t flow_control, rnr_retry, srq;	      /* REQ, REP */
	uint8_t transport, extended_transport;	      /* REQ: 0 RC, 1 UC, 3 see extended: 1 XRC */
	uint8_t retry, remote_timeout, local_timeout, max_retries, mtu, rdc_exists; /* REQ; remote_timeout: LAP too */
	uint16_t pkey;								    /* REQ, SIDR_REQ */
	struct cm_route primary;						    /* REQ */
	struct cm_route alternate;						    /* REQ, LAP */
	uint8_t ack_delay, failover;						    /* REP */
	uint8_t about;								    /* MRA, REJ: enum cm_about */
	uint8_t service_timeout;						    /* MRA */
	uint16_t reason;							    /* REJ: enum cm_reason */
	uint8_t answer;								    /* SIDR_REP, APR: the status */

	uint8_t info_length; /* REJ, SIDR_REP, APR */
	uint8_t info[CM_INFO_MAX];
	uint8_t private_data[CM_PRIVATE_MAX]; /* cm_private_bytes() bytes are valid */
};

/* Parses a message. 0, or -EBADMSG: not a connection management message, or inconsistent. */
int cm_mad_parse(struct cm_mad *m, const uint8_t bytes[CM_MAD_BYTES]);
void cm_mad_encode(const struct cm_mad *m, uint8_t bytes[CM_MAD_BYTES]);

/* The fixed length of the private data of that message, in bytes. */
uint32_t cm_private_bytes(enum cm_message message);

/* The name of a message, as "REQ". */
const char *cm_message_name(enum cm_message message);

/* Annex A11: the header of the private data of a REQ or SIDR_REQ to an IP service. */
enum {
	CM_IP_BYTES = 36,
	CM_IP_VERSION = 0,
};

struct cm_ip {
	union ibv_gid from, to; /* IPv4 as ::ffff:a.b.c.d */
	uint16_t from_port;
};

/* Parses the header. 0, or -EBADMSG: unknown version of the header or of IP. */
int cm_ip_parse(struct cm_ip *ip, const uint8_t bytes[CM_IP_BYTES]);
void cm_ip_encode(const struct cm_ip *ip, uint8_t bytes[CM_IP_BYTES]);

/* Converts a time of the CM, 4.096 us << exponent (IBTA 12.6), to ns. */
static inline uint64_t cm_time(uint8_t exponent)
{
	return 4096ull << (exponent & 31);
}

#endif
