/* SPDX-License-Identifier: BSD-2-Clause */
/* Sending by the udp link: a train (link/train.h) is what one sendmsg() with UDP_SEGMENT takes. One train for each
 * system call, not several by sendmmsg(): that is no faster (a system call is a tenth of the cost of a train), and the
 * first train is on its way while the ICRCs of the next one are computed. */
#ifndef UROCE_UDP_SEND_H
#define UROCE_UDP_SEND_H

#include "link/udp_state.h"

/* The functions of struct link_ops. */
uint32_t udp_send(struct link *link, const struct link_tx *tx, uint32_t count);
void *udp_room(struct link *link, uint32_t *most);
uint32_t udp_capacity(struct link *link);
/* The capacity, asked from the kernel; `queued`: bytes that wait in another socket of the link. */
uint32_t udp_capacity_of(struct udp *udp, uint32_t queued);
/* So many bytes of the capacity are used. */
void udp_spend(struct udp *udp, uint32_t bytes);

#endif
