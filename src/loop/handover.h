/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets that reached the wrong process are handed to the right one: a fallback, as steering (steering.h) sends nearly
 * all where they belong. Several packets travel in one AF_UNIX datagram. The receiver of a stopped process's packets
 * never waits for it: a full queue drops, as a network does. */
#ifndef UROCE_HANDOVER_H
#define UROCE_HANDOVER_H

#include "link/link.h"
#include "loop/slot.h"
#include "object/xrcd.h"

#define HANDOVER_BYTES 65536

/* What one receiver gathers; one thread at a time. All zeros is empty. */
struct handover {
	uint8_t slot; /* whom it is for */
	uint32_t bytes;
	uint64_t packets, lost;
	uint8_t dead; /* who was no more when something was sent to him last; 0: nobody */
	_Alignas(8) uint8_t memory[HANDOVER_BYTES];
};

/* A message that is passed on from an XRC target of one process to another that has its SRQ: all that this one must
 * know to be its responder, with each packet (target.h). And what it tells of it. */
struct handover_pass {
	struct xrcd_name domain;
	uint64_t incarnation;
	uint32_t epoch, qpn, dest_qpn; /* of the target and of its peer */
	uint32_t begin, begin_msn;     /* where this epoch begins: PSN, MSN */
	uint32_t flow_label;
	union ibv_gid sgid, dgid;
	uint32_t access;
	uint8_t again; /* a duplicate, perhaps of an earlier epoch */
	uint8_t traffic_class, hop_limit, path_mtu, min_rnr_timer, max_dest_rd_atomic;
};
struct handover_report {
	uint64_t incarnation;
	uint32_t epoch, qpn, expected, msn;
	uint8_t slot, rests, failed; /* whom it is from; enum ibv_event_type, if `is_failed` */
	uint8_t is_failed;
};
/* The owner asks for a report. */
struct handover_ask {
	uint64_t incarnation;
	uint32_t qpn;
};

/* What is called for what has come. */
struct handover_ops {
	link_deliver *packet;
	void (*passed)(void *arg, const struct handover_pass *h, const struct packet *p, const union ibv_gid *from);
	void (*report)(void *arg, const struct handover_report *r);
	void (*asked)(void *arg, const struct handover_ask *a);
};

/* The packet is copied; it leaves with the next handover_send(), or before if there is no room or the slot changes. */
void handover_add(struct handover *h, const struct slot *own, uint8_t slot, const struct packet *p,
		  const union ibv_gid *from);
void handover_pass(struct handover *h, const struct slot *own, uint8_t slot, const struct handover_pass *pass,
		   const struct packet *p, const union ibv_gid *from);
void handover_report(struct handover *h, const struct slot *own, uint8_t slot, const struct handover_report *report);
void handover_ask(struct handover *h, const struct slot *own, uint8_t slot, const struct handover_ask *ask);
void handover_send(struct handover *h, const struct slot *own);

/* Calls one of `ops` (packet() is always there) for each record of one datagram that another process of this user sent
 * us. False: none is there. */
bool handover_receive(const struct slot *own, const struct handover_ops *ops, void *arg);

#endif
