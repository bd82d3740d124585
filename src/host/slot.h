/* SPDX-License-Identifier: BSD-2-Clause */
/* A slot: the number, 1..2047, of a process among all that run uroce in this network namespace; the top bits of its
 * QPNs (base/qpn.h). A process claims it by binding an abstract AF_UNIX datagram socket, whose name has the network
 * namespace as its scope, like UDP port 4791; or, if other users have bound all of them, a name in the user's folder
 * (name.h). The kernel makes the claim atomic, and drops it when the process dies. The same socket receives packets
 * that reached the wrong process (handover.h). */
#ifndef UROCE_HOST_SLOT_H
#define UROCE_HOST_SLOT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "base/qpn.h"

#define SLOTS SLOT_LAST

struct slot {
	uint16_t number; /* first slot; 0: none */
	int fd;
	int more[SLOT_PARTS]; /* sockets of further slots, plus 1; 0: none. They receive nothing */
};

/* Claims a slot. 0, -EUSERS (all slots are taken) or the error of socket(2). */
int slot_claim(struct slot *slot);
/* Claims a further slot of that part. Returns its number, or -errno, as above. Packets for it go to the first slot's
 * socket. */
int slot_claim_more(struct slot *slot, uint32_t part);
void slot_release(struct slot *slot);

/* The socket address of the process that has that slot. */
socklen_t slot_address(struct sockaddr_un *address, uint16_t number);

/* True if a process of this user has that slot. */
bool slot_is_alive(uint16_t number);
/* The same for many slots. slots_probe(): a socket for slots_have(), which the caller closes; -1: slots_have() may say
 * that all are alive, as are slots of other users. `in_folder`: name_has_folder(). */
int slots_probe(void);
bool slots_have(int probe, uint16_t number, bool in_folder);

/* An abstract name: "uroce/" and the formatted text. */
socklen_t slot_abstract(struct sockaddr_un *address, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
