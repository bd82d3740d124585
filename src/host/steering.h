/* SPDX-License-Identifier: BSD-2-Clause */
/* Steering: sends each packet to the process that it is for. Processes of one user that use one address have a
 * SO_REUSEPORT socket each. A classic BPF program on the group sends each packet to the socket of the process that
 * its destination QPN names, and a connection management message (QP 1) to the process whose communication id it
 * carries, or that listens for its service. The program returns a socket's place in the group. Sockets stand in the
 * order in which they were bound, and when one is closed the last one moves into its place: a registry in shared
 * memory mirrors that.
 *
 * The registry is a memfd, which a new process gets from any process that has it: a crash leaves no file behind. To
 * change the registry, a group or its program, a process holds a lock: the binding of an abstract name, which the
 * kernel drops when the process dies (or a file's lock, if another user has bound that name: name.h). A
 * process that is killed leaves the mirror wrong until another process receives packets that are not its own, and
 * repairs it. Wrong steering costs time, never a packet (handover.h). */
#ifndef UROCE_HOST_STEERING_H
#define UROCE_HOST_STEERING_H

#include <linux/filter.h>
#include <stdatomic.h>

#include "host/registry.h"
#include "link/link.h"

/* The place of a link in its group. */
struct steered {
	struct steering *steering;
	struct link *link;
	uint32_t generation; /* generation of the group when this process last read it */
	bool settled;	     /* all packets that older programs steered have been received */
	uint32_t strays;     /* count of packets for other processes since then */
	uint64_t repaired;   /* ns: time of the last repair */
};

/* Opens the link with `open` (link_open) and gives it a place in its group. 0 or the error of `open`. */
typedef int steering_opener(const union ibv_gid *gid, uint16_t slot, struct link **link);
int steering_open(struct steering *s, struct steered *place, const union ibv_gid *gid, steering_opener *open,
		  struct link **link);
/* Adds a further slot, whose packets come to this process from now on. With the lock held. Call steering_renew() for
 * each link afterwards. */
void steering_own(struct steering *s, uint16_t further);
/* The table of owners, by slot: hca_owner(). NULL: this process does not have the registry. */
const _Atomic uint16_t *steering_owners(struct steering *s);

/* Closes the link: later packets go to other sockets. Calls `drain` before that, to hand over the remaining packets. */
void steering_close(struct steered *place, void (*drain)(void *arg), void *arg);

/* Repairs the steering if needed, as a packet for `slot` came to this link. `now`: ns. Needs rx ownership. */
void steering_stray(struct steered *place, uint16_t slot, uint64_t now);

/* Looks for dead processes, as a request got no answer. Its target may be in our group: if a process died, the last
 * socket moved into its place, and the kernel gives that one's packets to a process that may be stopped and hand
 * nothing over. Needs rx ownership. */
void steering_silence(struct steered *place, uint64_t now);

/* Takes the lock of the shared memory, and maps that memory if this process does not have it yet. Removes the entries
 * of an earlier process in this slot from the table of services. Returns a lock for steering_leave(), or -EAGAIN (its
 * holder does not release it) or -EACCES (the memory cannot be had). */
int steering_enter(struct steering *s, struct services **services);
void steering_leave(int lock); /* lock < 0: does nothing */
/* The table of services, to be read without the lock; NULL: this process does not have it. */
struct services *steering_services(struct steering *s);

/* Sets whether requests for a service come to this process. With the lock held. Call steering_renew() for each link
 * afterwards. */
void steering_listen(struct steering *s, uint64_t service, bool listens);
void steering_renew(struct steered *place);

#endif
