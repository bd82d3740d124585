/* SPDX-License-Identifier: BSD-2-Clause */
/* Handover: packets that reached the wrong process are sent to the right one. A fallback, as steering (steering.h)
 * sends nearly all to the right one. Several packets travel in one AF_UNIX datagram. The sender never waits for a
 * process that is stopped: a full queue drops packets, as a network does. The sender sends nothing to another user, who
 * may have bound the name of a dead process. */
#ifndef UROCE_HOST_HANDOVER_H
#define UROCE_HOST_HANDOVER_H

#include "host/slot.h"
#include "host/tuned.h"
#include "link/link.h"
#include "object/xrcd.h"

#define HANDOVER_BYTES 65536

struct handover_receiver {
	uint16_t slot;	  /* of the process; 0: none */
	int fd;		  /* connected socket, plus 1; 0: not connected */
	uint64_t refused; /* ns: time when another user had the name; 0: none has */
};

/* Packets that a thread collects for one process. Used by one thread at a time. All zeros is empty; handover_close()
 * ends it. */
struct handover {
	struct handover_receiver receiver[HANDOVER_RECEIVERS];
	uint32_t replaced; /* count of replaced receivers, by turns */
	uint16_t slot;	   /* slot of the process that gets the collected packets */
	uint32_t bytes;
	uint64_t packets, lost;
	uint16_t dead;	    /* slot of the process found dead at the last send; 0: none */
	uint16_t heard_out; /* the same slot, once all that the process had sent has been received; the caller's */
	_Alignas(8) uint8_t memory[HANDOVER_BYTES];
};

/* The part of a message's packet that the process with an XRC target passes on to the process with the SRQ: all that
 * the latter must know to be the responder (target.h). */
struct handover_pass {
	struct xrcd_name domain;
	uint64_t incarnation;
	uint32_t epoch, qpn, dest_qpn; /* epoch; QPNs of the target and of its peer */
	uint32_t begin, begin_msn;     /* PSN and MSN at which this epoch begins */
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
	uint16_t slot; /* slot of the sender */
	uint8_t rests;
	uint8_t failed; /* enum ibv_event_type, if `is_failed` */
	uint8_t is_failed;
	uint8_t reserved[3];
};
/* A request of the owner for a report. */
struct handover_ask {
	uint64_t incarnation;
	uint32_t qpn, reserved;
};

/* Callbacks for received records. */
struct handover_ops {
	link_deliver *packet;
	void (*passed)(void *arg, const struct handover_pass *h, struct packet *p, const union ibv_gid *from);
	void (*report)(void *arg, const struct handover_report *r);
	void (*asked)(void *arg, const struct handover_ask *a);
};

/* Adds a record: handover_add() a packet, handover_pass() a packet for a delegate, handover_report() and handover_ask()
 * no packet. Everything is copied, and leaves with the next handover_send(), or earlier if there is no room or the slot
 * changes. */
void handover_add(struct handover *h, uint16_t slot, const struct packet *p, const union ibv_gid *from);
void handover_pass(struct handover *h, uint16_t slot, const struct handover_pass *pass, const struct packet *p,
		   const union ibv_gid *from);
void handover_report(struct handover *h, uint16_t slot, const struct handover_report *report);
void handover_ask(struct handover *h, uint16_t slot, const struct handover_ask *ask);
void handover_send(struct handover *h);
/* Closes all connections and forgets all packets, also in a child of fork(). */
void handover_close(struct handover *h);

/* Receives one datagram from another process of this user, and calls one of `ops` for each record; packet() is never
 * NULL. False: there was none. */
bool handover_receive(const struct slot *own, const struct handover_ops *ops, void *arg);

#endif
