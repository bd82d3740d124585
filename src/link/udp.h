/* SPDX-License-Identifier: BSD-2-Clause */
/* The udp link: RoCEv2 packets by one UDP socket, bound to a local address and port 4791, and by a connected socket to
 * each peer that much is sent to (udp_way.h). Consecutive packets to one destination travel as a train: one system
 * call, one trip through the network stack (UDP_SEGMENT, UDP_GRO). */
#ifndef UROCE_UDP_H
#define UROCE_UDP_H

#include "link/udp_state.h"

/* Binds port 4791 of `gid` (for a link-local address, of the interface that has it). 0, or -errno with *link
 * untouched: EADDRINUSE (another user has the port, or a program that does not share it), EADDRNOTAVAIL,
 * ENOMEM, or an error of socket(2). */
int link_udp_open(const union ibv_gid *gid, struct link **link);

/* The same for a multicast group, joined on interface `netif`. The link only receives; any number of processes and
 * users may have one, each with its own copy of every packet. */
int link_udp_join(const union ibv_gid *group, int netif, struct link **link);

/* A socket of any port for datagrams to port 4791 whose ICRC was made with identification 0. Its descriptor or -errno.
 */
int link_udp_sender(int family);

const struct udp_counters *link_udp_counters(const struct link *link);

/* Counts one packet as received with a wrong ICRC. */
void link_udp_count_icrc(struct link *link);

/* For tests: sends as on a kernel without UDP_SEGMENT, and on one before 6.9. */
void link_udp_refuse_segments(struct link *link);
void link_udp_refuse_long_trains(struct link *link);

/* For the packet link. Opens a udp link in the caller's memory; `group`: interface of a multicast group, else 0. 0 or
 * -errno. */
int udp_start(struct udp *udp, const union ibv_gid *gid, int group);
void udp_stop(struct udp *udp);
/* Logs the counters. */
void udp_tell(const struct link *link);

#endif
