/* SPDX-License-Identifier: BSD-2-Clause */
/* Steering: processes of one user that use one address have a SO_REUSEPORT socket each, and a classic BPF program on
 * the group sends each packet to the socket of the process that its destination QPN names, and a message of connection
 * management (QP 1) to that of the process whose communication id it carries, or who listens for its service. The
 * program returns a socket's place in the group. Sockets stand in the order of their binding, and when one is closed
 * the last one moves into its place: a registry in shared memory mirrors that.
 *
 * The registry is a memfd, which a newcomer gets from any process that has it: no file is left behind by a crash. Who
 * changes the registry, a group or its program holds a lock, which is the binding of an abstract name: the kernel
 * drops it when its holder dies. As another user may have bound that name, the registry is locked as well. A process
 * that is killed leaves the mirror wrong until somebody receives what is not his: he repairs it. Wrong steering costs
 * time, never a packet (handover.h). */
#ifndef UROCE_STEERING_H
#define UROCE_STEERING_H

#include <linux/filter.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "link/link.h"
#include "loop/slot.h"

struct registry;
struct services;

struct steering {
	const struct slot *slot;
	int memory;			     /* the registry's memfd; -1: none yet */
	_Atomic int service;		     /* newcomers connect here to get it: readable when one does; -1: none */
	_Atomic(struct registry *) registry; /* NULL: this process does not have it, and does not steer */
};

/* A link's place in its group. */
struct steered {
	struct steering *steering;
	struct link *link;
	uint32_t generation; /* of the group, when this process last looked */
	bool settled;	     /* all that had been steered by older programs has been received */
	uint32_t strays;     /* packets of others received since */
	uint64_t repaired;   /* ns: when */
};

void steering_init(struct steering *s, const struct slot *slot);
void steering_fini(struct steering *s);

/* Opens the link with `open` (link_udp_open) and gives it its place. 0 or what open said. */
int steering_open(struct steering *s, struct steered *place, const union ibv_gid *gid,
		  int (*open)(const union ibv_gid *gid, struct link **link), struct link **link);
/* Closes it: what arrives from now on goes elsewhere. `drain` is called before it closes, to hand over the rest. */
void steering_close(struct steered *place, void (*drain)(void *arg), void *arg);

/* A packet for `slot` came to this link. Sees to it that it happens less often. */
void steering_stray(struct steered *place, uint8_t slot, uint64_t now);

/* A request has gone unanswered. If its target is of our group, it may be that a process died, that the last socket
 * moved into its place, and that the kernel now gives that one's packets to a process that is stopped and hands
 * nothing over: so looks for the dead. Called with rx ownership, as steering_stray(). */
void steering_silence(struct steered *place, uint64_t now);

/* The process that has that slot; 0: it offers nothing, or is not ours to see. Needs no lock. */
pid_t steering_process(uint8_t slot);

/* Answers a newcomer: when `service` is readable. */
void steering_serve(struct steering *s);

/* Takes the lock of the shared memory, and that memory if this process does not have it yet; sees to it that
 * the table of services in it has no entries of an earlier process in this slot. Returns what
 * steering_leave() wants, or -EAGAIN (its holder does not let go), -EACCES (the memory cannot be had). Locks
 * as steering_open(). */
int steering_enter(struct steering *s, struct services **services);
void steering_leave(int lock); /* -errno: does nothing */
/* The table to be read without the lock; NULL: this process does not have it. */
struct services *steering_services(struct steering *s);

/* With the lock: requests for a service had best come to this process, or no more. Then steering_renew() for each of
 * its links. */
void steering_listen(struct steering *s, uint64_t service, bool listens);
void steering_renew(struct steered *place);

struct steering_listener {
	uint32_t service; /* the lower half of the id */
	uint8_t slot;
};

/* The program for sockets that stand in this order, and those of their processes that listen; returns its length. */
#define STEERING_LISTENERS 256u
#define STEERING_PROGRAM   (2 * SLOTS + 2 * STEERING_LISTENERS + 18)
struct steering_order {
	const uint8_t *slots;
	const struct steering_listener *listener;
	uint32_t count, listeners;
};
uint16_t steering_program(const struct steering_order *o, struct sock_filter out[STEERING_PROGRAM]);

#endif
