/* SPDX-License-Identifier: BSD-2-Clause */
/* The ports of a process: one UDP socket, or frames, for each address that its queue pairs use. Guarded by
 * loop_life. */
#ifndef UROCE_PORT_PORTS_H
#define UROCE_PORT_PORTS_H

#include "loop/loop.h"
#include "port/tuned.h"

/* Fills path->port for path->sgid. Binds UDP port 4791 of that address and starts the helper thread, if this is the
 * first QP to use the address. 0 or -errno: EADDRINUSE (another user or the kernel's rxe holds the port; logged, with
 * the remedy), EADDRNOTAVAIL, ENOMEM and others. loop_detach() undoes it. */
int loop_attach(struct path *path);
void loop_detach(struct path *path);

/* Makes room for one more QP and SRQ: claims a further slot when the numbers of the slots that this process has are
 * used up (host/slot.h). Call it before creating one. 0; -EUSERS: other processes have all such slots (logged); or why
 * the table of slots cannot be had: -EAGAIN, -EACCES and others. */
int loop_make_room(struct hca *hca);
/* Lets hca_owner() know the slots of other processes, if the table can be had. */
void loop_learn_slots(struct hca *hca);

/* For group.c, between loop_hold() and loop_release(). port_start(): lets a new port receive; 0, or -errno and the port
 * is freed. port_stop(): closes the link and frees the port. */
int port_start(struct loop *l, struct port *port);
void port_stop(struct loop *l, struct port *port);

#endif
