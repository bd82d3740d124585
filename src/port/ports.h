/* SPDX-License-Identifier: BSD-2-Clause */
/* The ports of a process: one UDP socket, or frames, for each address that its queue pairs use. With loop_life. */
#ifndef UROCE_PORT_PORTS_H
#define UROCE_PORT_PORTS_H

#include "loop/loop.h"
#include "port/tuned.h"

/* Fills path->port for path->sgid: binds UDP port 4791 of that address if this is the first QP to use it, and
 * starts the helper thread. 0 or -errno: EADDRINUSE (another user or the kernel's rxe holds the port; a message
 * that says so and names the remedy has been logged), EADDRNOTAVAIL, ENOMEM ... loop_detach() undoes it. */
int loop_attach(struct path *path);
void loop_detach(struct path *path);

/* There is room for one more QP and SRQ, if there can be: claims a further slot when the numbers of those that this
 * process has are used up (host/slot.h). Call it before one is created. 0; -EUSERS: other processes have all such
 * slots (which has been logged); or why the table of slots cannot be had: -EAGAIN, -EACCES ... */
int loop_make_room(struct hca *hca);
/* hca_owner() knows the slots of other processes from now on, if it can be. */
void loop_learn_slots(struct hca *hca);

/* For group.c, between loop_hold() and loop_release(). port_start(): a new port receives from now on. port_stop():
 * closes the link and frees the port. */
int port_start(struct loop *l, struct port *port);
void port_stop(struct loop *l, struct port *port);

#endif
