/* SPDX-License-Identifier: BSD-2-Clause */
/* Address handles. */
#include <arpa/inet.h>
#include <netinet/ip.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/msan.h"
#include "check/lifetime.h"
#include "check/qp.h"
#include "check/objects.h"
#include "device/adapter.h"
#include "device/device.h"
#include "device/front.h"
#include "device/listen.h"
#include "device/path.h"
#include "fault/inject.h"
#include "link/next_hop.h"
#include "object/ah.h"
#include "verbs/context.h"

static _Atomic uint32_t ah_count;

PUBLIC struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	static _Atomic uint32_t handles;
	int error = pd_check(pd);
	struct context *c;
	struct path path;
	struct ah *ah;

	if (inject_call(CALL_ibv_create_ah))
		return NULL;
	if (!error)
		error = attr ? -path_resolve(context_of(pd->context)->device, attr, &path) : EINVAL;
	if (error)
		return fail_null(error);
	c = context_of(pd->context);
	if (!adapter_take(&ah_count, HCA_MAX_AH))
		return fail_null(ENOMEM);
	ah = calloc(1, sizeof(*ah));
	error = ah ? listen_at(&c->listen, &path) : -ENOMEM;
	if (error) {
		adapter_give(&ah_count);
		free(ah);
		return fail_null(-error);
	}
	ah->base.context = pd->context;
	ah->base.pd = pd;
	ah->base.handle = ah->handle = atomic_fetch_add_explicit(&handles, 1, memory_order_relaxed);
	ah->pd = pd_domain((struct pd *)pd);
	ah->path = path;
	atomic_fetch_add_explicit(&ah->pd->users, 1, memory_order_relaxed);
	check_made(CHECK_AH, ah, 0, pd);
	return &ah->base;
}

PUBLIC int ibv_destroy_ah(struct ibv_ah *ah)
{
	struct ah *a = (struct ah *)ah;

	if (!ah || ah->handle != a->handle)
		return fail(ah ? ENOENT : EINVAL);
	if (hooks_any())
		check_destroys_ah(ah);
	check_gone(CHECK_AH, ah);
	listen_leave(&context_of(ah->context)->listen);
	atomic_fetch_sub_explicit(&a->pd->users, 1, memory_order_release);
	adapter_give(&ah_count);
	ah->handle = ~a->handle; /* destroyed again, it is refused while the memory is kept */
	check_free(ah);
	return 0;
}

/* Reads the sender and the receiver of a datagram. The 40 bytes are an IPv6 header, or 20 unused bytes and an IPv4
 * header. */
static bool read_grh(const struct ibv_grh *grh, union ibv_gid *from, union ibv_gid *to, uint32_t *flow, uint8_t *class)
{
	uint32_t word = ntohl(grh->version_tclass_flow);
	struct iphdr ip;

	memcpy(&ip, (const char *)grh + 20, sizeof(ip));
	if (ip.version == 4 && ip.ihl == 5 && ip.protocol == IPPROTO_UDP) {
		gid_set(from->raw, true, &ip.saddr);
		gid_set(to->raw, true, &ip.daddr);
		*flow = 0;
		*class = ip.tos;
		return true;
	}
	if (word >> 28 != 6)
		return false;
	*from = grh->sgid;
	*to = grh->dgid;
	*flow = word & 0xfffff;
	*class = (uint8_t)(word >> 20);
	return true;
}

PUBLIC int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc, struct ibv_grh *grh,
			       struct ibv_ah_attr *attr)
{
	union ibv_gid to;
	int index;

	msan_wrote(attr, sizeof(*attr));
	memset(attr, 0, sizeof(*attr)); /* sl, too: wc->sl is not a service level here, see enum grh_kind */
	attr->dlid = wc->slid;
	attr->src_path_bits = wc->dlid_path_bits;
	attr->port_num = port_num;
	if (!(wc->wc_flags & IBV_WC_GRH))
		return 0;
	attr->is_global = 1;
	if (!read_grh(grh, &attr->grh.dgid, &to, &attr->grh.flow_label, &attr->grh.traffic_class))
		return fail_minus(EINVAL);
	index = device_find_gid(context_of(context)->device, &to);
	if (index < 0)
		return fail_minus(ENOENT);
	attr->grh.sgid_index = (uint8_t)index;
	attr->grh.hop_limit = 0xff;
	return 0;
}

PUBLIC struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port_num)
{
	struct ibv_ah_attr attr;

	if (ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr))
		return NULL;
	return ibv_create_ah(pd, &attr);
}

/* The Ethernet address and VLAN that an adapter's driver needs; uroce does not use them. The VLAN is 0xffff: none. */
PUBLIC int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				       uint8_t mac[ETHERNET_LL_SIZE], uint16_t *vlan)
{
	struct device *d = context_of(context)->device;
	uint8_t found[ETHERNET_LL_SIZE];
	struct path path;
	int error = -path_resolve(d, attr, &path);

	device_mac(d, found);
	if (!error)
		error = -next_hop_mac(d->netif_index, &path.dgid, found);
	if (error)
		return fail(error);
	memcpy(mac, found, sizeof(found));
	msan_wrote(mac, sizeof(found));
	if (vlan)
		*vlan = next_hop_vlan(d->netif_name);
	msan_wrote(vlan, sizeof(*vlan));
	return 0;
}
