/* SPDX-License-Identifier: BSD-2-Clause */
/* Socket addresses and GIDs. Any thread may call. */
#ifndef UROCE_CM_ADDRESS_H
#define UROCE_CM_ADDRESS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <sys/socket.h>

/* False if the address family is unknown. */
bool address_to_gid(const struct sockaddr *a, union ibv_gid *gid);
/* Adds the interface to a link-local address. `port`: host byte order, as in all functions here. */
void gid_to_address(const union ibv_gid *gid, uint16_t port, struct sockaddr_storage *a);
uint16_t address_port(const struct sockaddr *a);
void address_set_port(struct sockaddr *a, uint16_t port);
/* Tests for the wildcard and the loopback addresses, of IPv4 and IPv6. */
bool gid_is_any(const union ibv_gid *gid);
bool gid_is_loopback(const union ibv_gid *gid);
/* Bytes of an address of that family; 0 if the family is unknown. */
socklen_t address_size(const struct sockaddr *a);

#endif
