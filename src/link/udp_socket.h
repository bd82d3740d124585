/* SPDX-License-Identifier: BSD-2-Clause */
/* Sockets of the udp link: addresses, options, buffers. */
#ifndef UROCE_UDP_SOCKET_H
#define UROCE_UDP_SOCKET_H

#include "link/udp_state.h"

/* The address with this port. Its length. */
socklen_t udp_address_of(const struct udp *udp, const union ibv_gid *gid, uint16_t port, union udp_address *a);
/* The options of a socket that receives packets, for `group` those of multicast. 0 or -errno. */
int udp_set_receiving(const struct udp *udp, int fd, bool group);
/* The options of a socket that sends packets. 0 or -errno. */
int udp_set_sending(int family, int fd);
/* As large a buffer as may be had: SO_RCVBUF or SO_SNDBUF, or the option that forces it. */
void udp_set_buffer(int fd, int force, int plain);
uint32_t udp_buffer_of(int fd, int which);
/* Bytes, as the kernel counts them, that wait in the send buffer. */
uint32_t udp_queued(int fd);

#endif
