/* SPDX-License-Identifier: BSD-2-Clause */
/* Handover: packets that reached the wrong process are sent to the right one. A fallback: steering (steering.h)
 * sends nearly all to the right one. Several packets travel in one AF_UNIX datagram. The sender never waits for a
 * process that is stopped: a full queue drops packets, as a network does. Nor does it send anything to another user,
 * who may have bound the name of a process that is dead. */
#ifndef UROCE_HOST_HANDOVER_H
#define UROCE_HOST_HANDOVER_H

#include "host/slot.h"
#include "host/tuned.h"
#include "link/link.h"
#include "object/xrcd.h"

#define HANDOVER_BYTES 65536

struct handover_receiver {
	uint16_t slot;	  /* 0: none */
	int fd;		  /* connected to that process's socket, plus 1; 0: not connected */
	uint64_t refused; /* ns: when another user had its name; 0: none has */
};

/* What a thread collects for one receiver; used by one thread at a time. All zeros is empty; handover_close() ends
 * it. */
struct handover {
	struct handover_receiver receiver[HANDOVER_RECEIVERS];
	uint32_t replaced; /* how many of these, in turn */
	uint16_t slot;	   /* of the receiver */
	uint32_t bytes;
	uint64_t packets, lost;
	uint16_t dead;	    /* slot of the process that was dead at the last send to it, be its name another user's;
			       0: none */
	uint16_t heard_out; /* for the user: the same, once all that it had sent has been received */
	_Alignas(8) uint8_t memory[HANDOVER_BYTES];
};

/* A message that the process with an XRC target passes on to another process, which has the SRQ: with each packet
 * goes all that the other must know to be its responder (target.h). And the other's report. */
struct handover_pass {
	struct xrcd_name domain;
	uint64_t incarnation;
	uint32_t epoch, qpn, dest_qpn; /* of the target and of its peer */
	uint32_t begin, begin_msn;     /* the PSN and MSN at which this epoch begins */
	uint32_t flow_label;
	union ibv_gid sgid, dgid;
	uint32_t access;
	uint8_t again; /* a duplicate, perhaps of an earlier epoch */
	uint8_t traffic_class, hop_limit, path_mtu, min_rnr_timer, max_dest_rd_atomic;
	uint8_t migration; /* enum ibv_mig_state */
	uint8_t reserved[5];
};
struct handover_report {
	uint64_t incarnation;
	uint32_t epoch, qpn, expected, msn;
	uint16_t slot; /* the sender's */
	uint8_t rests;
	uint8_t failed; /* enum ibv_event_type, if `is_failed` */
	uint8_t is_failed;
	uint8_t reserved[3];
};
/* The owner asks for a report. */
struct handover_ask {
	uint64_t incarnation;
	uint32_t qpn, reserved;
};

/* The callbacks for what has come. */
struct handover_ops {
	link_deliver *packet;
	void (*passed)(void *arg, const struct handover_pass *h, struct packet *p, const union ibv_gid *from);
	void (*report)(void *arg, const struct handover_report *r);
	void (*asked)(void *arg, const struct handover_ask *a);
};

/* The packet is copied; it leaves with the next handover_send(), or earlier if there is no room or the slot
 * changes. */
void handover_add(struct handover *h, uint16_t slot, const struct packet *p, const union ibv_gid *from);
void handover_pass(struct handover *h, uint16_t slot, const struct handover_pass *pass, const struct packet *p,
		   const union ibv_gid *from);
void handover_report(struct handover *h, uint16_t slot, const struct handover_report *report);
void handover_ask(struct handover *h, uint16_t slot, const struct handover_ask *ask);
void handover_send(struct handover *h);
/* Forgets all receivers, for instance in a child. */
void handover_close(struct handover *h);

/* Receives one datagram from another process of this user, and calls one of `ops` for each record (packet() is
 * never NULL). False: no datagram is there. */
bool handover_receive(const struct slot *own, const struct handover_ops *ops, void *arg);

#endif
