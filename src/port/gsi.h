/* SPDX-License-Identifier: BSD-2-Clause */
/* QP1, the general services interface: management datagrams (MADs) from and to the addresses of this process. For
 * cm/ only; not verbs. A MAD is 256 bytes in one UD packet to QP 1, with Q_Key 0x80010000.
 *
 * All processes on one address share its QP1: the kernel gives a MAD to any of them. The process that gets it asks
 * gsi_ops.owner() for the slot of the process that it is for, and hands it over if that is another one. MADs may be
 * lost, duplicated and reordered, as on any network: a sender that wants an answer must retry.
 *
 * An address takes part from loop_attach() to loop_detach() of a path whose sgid it is (loop.h): to listen at an
 * address, only sgid needs to be set. Any thread may call any function here. */
#ifndef UROCE_PORT_GSI_H
#define UROCE_PORT_GSI_H

#include "host/services.h"
#include "loop/loop.h"
#include "object/qp.h"

#define GSI_QPN	 1u
#define GSI_QKEY 0x80010000u /* IBTA 10.2.5: the well-known Q_Key of QP1 */

enum {
	MAD_BYTES = 256,
};

/* A MAD that has arrived; Q_Key, length and ICRC are right. The pointers are valid until the callback returns. */
struct gsi_mad {
	const uint8_t *bytes;	   /* MAD_BYTES, as on the wire */
	const union ibv_gid *from; /* the sender's address: an answer's path.dgid */
	const union ibv_gid *to;   /* ours: an answer's path.sgid */
	uint32_t src_qpn;	   /* the QP to answer: usually 1 */
	struct loop *loop;	   /* for gsi_answer() and gsi_spread() */
	const struct packet *packet;
	bool handed_over; /* by the process that the kernel gave it to */
};

/* Callbacks. Any thread that receives calls them, the application's own too, with rx ownership. They must not block,
 * nor take a lock under which another thread calls loop_attach(), loop_detach(), loop_get(), loop_put() or waits for a
 * packet. They may call gsi_send(), gsi_owner(), gsi_near_owner() and gsi_slot(), and take a qp->lock. */
struct gsi_ops {
	/* Returns the slot of the process that a MAD is for; 0: none, and the MAD is dropped. Not called for a MAD that
	 * another process has handed over. Must work in a process that makes no connections itself. */
	uint16_t (*owner)(const struct gsi_mad *mad);
	/* Takes a MAD for this process. One call at a time. */
	void (*receive)(const struct gsi_mad *mad);
};

/* Sets the callbacks; `ops` must stay valid for ever. Costs nothing: call it from a constructor, so that a process that
 * uses only verbs hands over the MADs of others. Before this call, MADs are dropped. */
void gsi_serve(const struct gsi_ops *ops);

/* This process's slot, 1..2047, constant while a context is open; 0: no context is open. A communication id should
 * contain it, so that owner() finds it in the answer. */
uint16_t gsi_slot(void);

/* Connects to the process in that slot, if `to` is an address of this host and the process is of this user. Returns a
 * descriptor, which hangs up when the process ends or runs another program; or -errno, also with UROCE_LOCAL=off. Never
 * waits. */
int gsi_call(const union ibv_gid *from, const union ibv_gid *to, uint16_t slot);

/* True if `to` is an address of this host, too. Takes 50 us if it is neither `from` nor a loopback address. */
bool gsi_is_here(const union ibv_gid *from, const union ibv_gid *to);

/* The slot of the local peer (port/local.h) that listens for a service at that address of this host; 0: none. Never
 * blocks. */
uint16_t gsi_near_owner(const union ibv_gid *to, uint64_t service);

/* Sends a MAD now, from path->sgid to QP `qpn` of path->dgid; path->port comes from loop_attach(). `slot`: of the
 * process that it is for, if known, else 0. A local peer gets it through shared memory, all others by UDP. 0, or
 * -EINVAL (the path is not attached, or its context is a parent's from before a fork), -ENOMEM, -EAGAIN (the
 * socket's buffer stays full: the MAD is lost, as any packet may be). Never blocks for longer than a few ms. */
int gsi_send(const struct path *path, uint32_t qpn, const uint8_t mad[MAD_BYTES], uint16_t slot);

/* Sends a MAD back to where `to` comes from, if a port of this process has that address. Call in gsi_ops.receive(). */
void gsi_answer(const struct gsi_mad *to, const uint8_t mad[MAD_BYTES], uint16_t slot);

/* Hands a copy to each process that listens at the MAD's address, but those above SPREAD. Not handed over again, and
 * SPREADS in as many ms at most. Call in gsi_ops.receive(). */
void gsi_spread(const struct gsi_mad *mad);

/* Writes the UDP payload of a MAD to QP 1, with its ICRC, to be sent from this UDP port by a socket of
 * link_udp_sender(). Returns its length in bytes. */
#define GSI_DATAGRAM (PACKET_HEADERS + MAD_BYTES + PACKET_TRAILER)
uint32_t gsi_encode(const union ibv_gid *from, const union ibv_gid *to, uint16_t port, const uint8_t mad[MAD_BYTES],
		    uint8_t out[GSI_DATAGRAM]);

/* ---- Services: which process has which service id, at which address of this network namespace. The processes of one
 * user share the table. Claims of a process end with the process. ---- */

/* Claims a service id at an address. 0 or -errno: EADDRINUSE (another process has it), EADDRNOTAVAIL (so, where one of
 * the addresses is a wildcard), ENODEV (no context is open), or why the table cannot be had. */
int gsi_claim(const union ibv_gid *address, uint64_t service, enum gsi_claim kind);
/* Releases a claim; the arguments are those of gsi_claim(). */
void gsi_release(const union ibv_gid *address, uint64_t service);

/* The slot of the process that listens for a service at exactly this address of ours (gsi_mad.to), or at all; 0:
 * none. Never blocks. */
uint16_t gsi_owner(const union ibv_gid *to, uint64_t service);

/* Receives a packet for QP 1. Returns the slot of the process to which the packet must be handed over, or 0. */
uint16_t gsi_receive(struct loop *l, const struct packet *p, const union ibv_gid *from, bool handed_over)
	REQUIRES(l->receive);

#endif
