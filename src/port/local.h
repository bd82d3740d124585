/* SPDX-License-Identifier: BSD-2-Clause */
/* The local link: the processes of one user on one host exchange packets through shared memory. The scope is the
 * network namespace, as that of UDP port 4791. UROCE_LOCAL=off turns it off. The loop owns it.
 *
 * A QP starts by udp. When it learns its peer (RTR), loop_introduce() checks whether that is a local peer. When the
 * two have met, the QP changes over as soon as it has nothing in flight (engine_change_link()), or for UC, before
 * its first packet. A process can be called once its device is open. So of two connected QPs the first one's
 * process calls, the second one's process sees the call when it connects its own QP, and they have met before
 * either sends. When the local peer is gone, the QP changes back, and its time-outs resend what was lost.
 *
 * Waking: a thread that sleeps says so in its rx rings (ring_sleep). A producer that sees this rings the doorbell:
 * the eventfd of the process that sleeps. A consumer that has made room in a ring whose
 * producer waits for it does the same (ring_want). A thread that polls needs no doorbell. */
#ifndef UROCE_PORT_LOCAL_H
#define UROCE_PORT_LOCAL_H

#include "base/list.h"
#include "base/lock.h"
#include "loop/loop.h"
#include "object/qp.h"

/* Opens the listener: others may call from now on, and calls are answered once there is a port. On failure everything
 * goes by udp. */
void local_init(struct loop *l);
/* True if UROCE_LOCAL allows the local link. */
bool local_is_wanted(void);
/* Turns the local link on, when a port has been opened. With loop_life. local_fini(): frees everything, when the loop
 * ends. */
void local_open(struct loop *l);
void local_fini(struct loop *l);
void local_in_child(struct loop *l); /* in a child of fork(): closes the descriptors */

/* Called by the helper when a descriptor of the local link that it watches is readable. */
void local_serve_listener(struct loop *l);
void local_serve_connection(struct loop *l, int fd);
/* Answers a call that is expected, for threads that poll; the helper may take long to answer it. `now`: ns, about the
 * time. */
void local_look(struct loop *l, uint64_t now);
/* Calls the processes for which datagrams wait: local.wanted. Called by the helper. */
void local_serve_wanted(struct loop *l);

/* Callback of share_on_release(): memory that local peers have mapped is to be given back. Wakes sleeping local peers,
 * so that they see it. */
void local_released(void *loop);

/* Drops path->local_peer, when the path is no longer used. */
void local_forget(struct path *path);

/* Sets path->local_peer, if the QP `dest_qpn` is in a local peer: a process of this user on this host. Called when the
 * peer's QP number is known; the path is attached, and not in use yet. loop_detach() undoes it. */
void loop_introduce(struct path *path, uint32_t dest_qpn);

#endif
