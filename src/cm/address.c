/* SPDX-License-Identifier: BSD-2-Clause */
/* Socket addresses and GIDs. */
#include "cm/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <rdma/rdma_cma.h>

#include "base/address.h"
#include "link/netif.h"
#include "device/front.h"

bool address_to_gid(const struct sockaddr *a, union ibv_gid *gid)
{
	*gid = (union ibv_gid){0};
	if (a->sa_family == AF_INET)
		gid_set(gid->raw, true, &((const struct sockaddr_in *)a)->sin_addr);
	else if (a->sa_family == AF_INET6)
		gid_set(gid->raw, false, &((const struct sockaddr_in6 *)a)->sin6_addr);
	else
		return false;
	return true;
}

void gid_to_address(const union ibv_gid *gid, uint16_t port, struct sockaddr_storage *a)
{
	gid_to_sockaddr(gid->raw, port, a);
	if (a->ss_family == AF_INET6 && address_is_link_local(gid))
		((struct sockaddr_in6 *)a)->sin6_scope_id = (uint32_t)netif_of_address(gid);
}

/* Both families have the port at the same offset. */
static_assert(offsetof(struct sockaddr_in, sin_port) == offsetof(struct sockaddr_in6, sin6_port), "");

uint16_t address_port(const struct sockaddr *a)
{
	return ntohs(((const struct sockaddr_in *)a)->sin_port);
}

void address_set_port(struct sockaddr *a, uint16_t port)
{
	((struct sockaddr_in *)a)->sin_port = htons(port);
}

socklen_t address_size(const struct sockaddr *a)
{
	return a->sa_family == AF_INET	  ? sizeof(struct sockaddr_in)
	       : a->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					  : 0;
}

bool gid_is_any(const union ibv_gid *gid)
{
	static const union ibv_gid any, any_ipv4 = {.raw = {[10] = 0xff, [11] = 0xff}};

	return !memcmp(gid, &any, sizeof(any)) || !memcmp(gid, &any_ipv4, sizeof(any));
}

bool gid_is_loopback(const union ibv_gid *gid)
{
	static const union ibv_gid one = {.raw = {[15] = 1}};

	return address_is_ipv4(gid) ? gid->raw[12] == 127 : !memcmp(gid, &one, sizeof(one));
}

PUBLIC __be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return htons(address_port(&id->route.addr.src_addr));
}

PUBLIC __be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return htons(address_port(&id->route.addr.dst_addr));
}
