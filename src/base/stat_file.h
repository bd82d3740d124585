/* SPDX-License-Identifier: BSD-2-Clause */
/* The file in which a process tells of its objects when `uroce stat` asks ("stat" of loop/control.h): a memfd with a
 * struct stat_head, then records, each a struct stat_record and the struct of its kind. Numbers are in host byte order.
 *
 * A reader takes the fields of a record that it knows, zeros for fields that are missing, and skips kinds that it does
 * not know. So fields are added at the end of a struct, and kinds at the end of the enum; any other change is a new
 * magic. */
#ifndef UROCE_STAT_FILE_H
#define UROCE_STAT_FILE_H

#include <assert.h>
#include <stdint.h>

#define STAT_MAGIC   0x3130544154534355ull /* "UCSTAT01", read as a little-endian number */
#define STAT_UNKNOWN UINT32_MAX		   /* no handle, or no number */

struct stat_head {
	uint64_t magic;
	uint64_t bytes; /* bytes of the file */
	uint64_t time;	/* ns: CLOCK_MONOTONIC */
	uint32_t pid;
	uint32_t counts_bytes; /* 1: bytes of queue pairs are counted now */
	char program[16];
};

enum stat_kind {
	STAT_DEVICE,
	STAT_CONTEXT,
	STAT_PD,
	STAT_CQ,
	STAT_QP,
	STAT_SRQ,
	STAT_MR,
	STAT_ID,
	STAT_CAUSE,
	STAT_KINDS
};

struct stat_record {
	uint32_t kind;	/* enum stat_kind */
	uint32_t bytes; /* bytes with this head: a multiple of 8 */
};

/* A device that the process has open. */
struct stat_device {
	char name[64], interface[16];
	uint32_t number; /* ibv_get_device_index(): other records name the device by it */
	uint32_t is_up;
	/* Counts by UDP, of all contexts of the process, without shared memory. */
	uint64_t tx_packets, tx_bytes, tx_refused, rx_packets, rx_bytes, rx_icrc, rx_errors;
	/* By enum stat_trouble, except STAT_RESENT: counts of all queue pairs that the process has had, on any
	 * device. */
	uint64_t trouble[8];
};

struct stat_context {
	uint32_t device, objects;
	uint32_t number, reserved; /* cmd_fd of the context */
};

struct stat_pd {
	uint32_t device, handle, users, reserved;
};

struct stat_cq {
	uint32_t device, handle;
	uint32_t depth, filled; /* CQEs that fit; CQEs in the queue */
	uint32_t users;		/* number of QPs, once for each queue, and other users */
	uint8_t armed;		/* 1: for solicited completions, 2: for all */
	uint8_t overrun, has_channel;
	uint8_t has_event; /* 1: an event of it waits in the channel */
};

/* Kinds of trouble of a queue pair: the same numbers as enum hca_counter. */
enum stat_trouble {
	STAT_DUPLICATES,
	STAT_GAPS,
	STAT_NO_RECEIVE,
	STAT_RNR_NAKS,
	STAT_SEQUENCE_NAKS,
	STAT_TIMEOUTS,
	STAT_RETRIES_SPENT,
	STAT_RNR_RETRIES_SPENT,
	STAT_RESENT, /* packets sent again */
	STAT_TROUBLES
};

struct stat_qp {
	uint32_t device, qpn;
	uint8_t type;  /* enum ibv_qp_type */
	uint8_t state; /* enum ibv_qp_state */
	uint8_t lane;  /* enum lane */
	uint8_t rnr_wait;
	uint32_t pd, send_cq, recv_cq, srq; /* handles, the number of an SRQ; STAT_UNKNOWN: none */
	uint8_t local[16], remote[16];	    /* GIDs; zeros: not set */
	uint32_t remote_qpn;
	uint32_t peer_pid; /* pid of a local peer, which may have ended; 0: none, or unknown */
	uint32_t mtu;
	uint32_t send_depth, recv_depth;
	uint32_t send_posted; /* work requests that have not completed */
	uint32_t recv_posted; /* receives that wait for messages; 0 with an SRQ */
	uint32_t sent;	      /* work requests that have completed since RESET; wraps */
	uint32_t received;    /* receives that were used, or with an SRQ messages (24 bits), since RESET; wraps */
	uint32_t in_flight;   /* packets without an ACK */
	uint32_t una, next;   /* PSNs: the oldest without an ACK, the next to be sent */
	uint32_t expected;    /* PSN: the next request of the peer */
	uint32_t msn;	      /* MSN of the responder */
	uint32_t retries, rnr_retries; /* retries left */
	uint32_t trouble[STAT_TROUBLES];
	uint32_t rtt;			     /* us, smoothed; 0: not measured */
	uint32_t unpolled;		     /* send requests complete of which no polled completion has told */
	uint64_t sent_bytes, received_bytes; /* bytes of requests that completed while bytes were counted */
};

struct stat_srq {
	uint32_t device, number;
	uint32_t depth, posted, limit, users;
	uint32_t pd, cq;	   /* handles; STAT_UNKNOWN: an SRQ that is not XRC's has no CQ */
	uint8_t type, reserved[7]; /* enum ibv_srq_type */
};

struct stat_mr {
	uint32_t device, pd;
	uint32_t key;	 /* rkey */
	uint32_t access; /* enum ibv_access_flags */
	uint64_t address, length;
	uint8_t is_window, reserved[3];
	uint32_t lkey; /* 0: a window */
};

/* An rdma_cm_id. */
struct stat_id {
	uint32_t device;
	uint8_t state;	    /* enum id_state of cm/id.h */
	uint8_t connection; /* enum connection_state of cm/machine.h; 0: none */
	uint16_t port_space;
	uint8_t local[16], remote[16]; /* GIDs; zeros: any, or none */
	uint16_t local_port, remote_port;
	uint32_t qpn, remote_qpn; /* numbers of the QP and of its peer; 0: none yet */
	uint32_t backlog;
};

/* A cause that the process has met. */
struct stat_cause {
	uint32_t code, reserved;
	uint64_t times; /* since the process began */
};

static_assert(sizeof(struct stat_qp) % 8 == 0 && sizeof(struct stat_id) % 8 == 0 && sizeof(struct stat_mr) % 8 == 0 &&
		      sizeof(struct stat_srq) % 8 == 0 && sizeof(struct stat_context) % 8 == 0 &&
		      sizeof(struct stat_cq) % 8 == 0 && sizeof(struct stat_device) % 8 == 0 &&
		      sizeof(struct stat_cause) % 8 == 0,
	      "records are multiples of 8 bytes");

#endif
