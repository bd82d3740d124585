/* SPDX-License-Identifier: BSD-2-Clause */
/* Classic BPF programs that part what comes in between a packet socket's ring and the UDP socket of the same address:
 * whatever the ring takes the UDP socket drops, and what neither was made for (packets to QP 1, through another
 * interface, with IP options) comes to the UDP socket. No I/O; any thread may call. */
#ifndef UROCE_PACKET_FILTER_H
#define UROCE_PACKET_FILTER_H

#include <infiniband/verbs.h>
#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

#define PACKET_FILTER_LENGTH 48

/* The ring's: unfragmented packets for this host to that address, port 4791 and a QP of those slots, in no VLAN.
 * Returns the length. */
uint16_t packet_filter_ring(const union ibv_gid *to, const uint16_t *slots, uint32_t count,
			    struct sock_filter out[PACKET_FILTER_LENGTH]);
/* The UDP socket's: all but these, if they came by that interface. */
uint16_t packet_filter_socket(bool is_ipv4, int netif, const uint16_t *slots, uint32_t count,
			      struct sock_filter out[PACKET_FILTER_LENGTH]);

#endif
