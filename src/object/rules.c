/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/rules.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <string.h>

static bool copy_at(void *to, const uint8_t *frame, size_t length, size_t at, size_t size)
{
	if (at > length || size > length - at)
		return false;
	memcpy(to, frame + at, size);
	return true;
}

static void read_ports(struct frame_key *key, uint8_t protocol, const uint8_t *frame, size_t length, size_t at)
{
	uint16_t port[2];

	if ((protocol != IPPROTO_TCP && protocol != IPPROTO_UDP) || !copy_at(port, frame, length, at, sizeof(port)))
		return;
	key->ports.src_port = port[0];
	key->ports.dst_port = port[1];
	key->layers |= protocol == IPPROTO_TCP ? FLOW_TCP : FLOW_UDP;
}

static void read_ipv4(struct frame_key *key, const uint8_t *frame, size_t length, size_t at)
{
	struct iphdr ip;
	uint16_t fragment;

	if (!copy_at(&ip, frame, length, at, sizeof(ip)) || ip.version != 4 || ip.ihl < 5)
		return;
	fragment = ntohs(ip.frag_off);
	key->layers |= FLOW_IPV4;
	key->ipv4 = (struct ibv_flow_ipv4_ext_filter){
		.src_ip = ip.saddr,
		.dst_ip = ip.daddr,
		.proto = ip.protocol,
		.tos = ip.tos,
		.ttl = ip.ttl,
		.flags = (fragment & IP_DF ? 2 : 0) | (fragment & IP_MF ? 4 : 0), /* as in the kernel's interface */
	};
	if (!(fragment & IP_OFFMASK))
		read_ports(key, ip.protocol, frame, length, at + ip.ihl * 4u);
}

static void read_ipv6(struct frame_key *key, const uint8_t *frame, size_t length, size_t at)
{
	struct ip6_hdr ip;
	uint32_t flow;

	if (!copy_at(&ip, frame, length, at, sizeof(ip)) || ip.ip6_vfc >> 4 != 6)
		return;
	flow = ntohl(ip.ip6_flow);
	key->layers |= FLOW_IPV6;
	key->ipv6 = (struct ibv_flow_ipv6_filter){
		.flow_label = htonl(flow & 0xfffff),
		.next_hdr = ip.ip6_nxt,
		.traffic_class = (uint8_t)(flow >> 20),
		.hop_limit = ip.ip6_hlim,
	};
	memcpy(key->ipv6.src_ip, &ip.ip6_src, 16);
	memcpy(key->ipv6.dst_ip, &ip.ip6_dst, 16);
	read_ports(key, ip.ip6_nxt, frame, length, at + sizeof(ip));
}

void frame_read(struct frame_key *key, const uint8_t *frame, size_t length)
{
	size_t at = sizeof(struct ethhdr);
	struct ethhdr eth;
	uint16_t tag[2];

	memset(key, 0, sizeof(*key));
	if (!copy_at(&eth, frame, length, 0, sizeof(eth)))
		return;
	key->layers = FLOW_ETH;
	memcpy(key->eth.dst_mac, eth.h_dest, ETH_ALEN);
	memcpy(key->eth.src_mac, eth.h_source, ETH_ALEN);
	key->eth.ether_type = eth.h_proto;
	if (eth.h_proto == htons(ETH_P_8021Q) && copy_at(tag, frame, length, at, sizeof(tag))) {
		key->eth.vlan_tag = tag[0];
		key->eth.ether_type = tag[1];
		at += sizeof(tag);
	}
	if (key->eth.ether_type == htons(ETH_P_IP))
		read_ipv4(key, frame, length, at);
	else if (key->eth.ether_type == htons(ETH_P_IPV6))
		read_ipv6(key, frame, length, at);
}

/* For each spec: the place of its filters, and the field of struct frame_key that they apply to. */
#define ROW(number, bit, spec_type, filter, field)                                                  \
	{                                                                                           \
		.type = (number), .layer = (bit), .bytes = sizeof(struct spec_type),                \
		.value = offsetof(struct spec_type, val), .mask = offsetof(struct spec_type, mask), \
		.size = sizeof(struct filter), .offset = offsetof(struct frame_key, field)          \
	}
static const struct {
	uint32_t type, layer;
	uint16_t bytes, value, mask, size, offset;
} kinds[] = {
	ROW(IBV_FLOW_SPEC_ETH, FLOW_ETH, ibv_flow_spec_eth, ibv_flow_eth_filter, eth),
	ROW(IBV_FLOW_SPEC_IPV4, FLOW_IPV4, ibv_flow_spec_ipv4, ibv_flow_ipv4_filter, ipv4), /* the first two fields */
	ROW(IBV_FLOW_SPEC_IPV4_EXT, FLOW_IPV4, ibv_flow_spec_ipv4_ext, ibv_flow_ipv4_ext_filter, ipv4),
	ROW(IBV_FLOW_SPEC_IPV6, FLOW_IPV6, ibv_flow_spec_ipv6, ibv_flow_ipv6_filter, ipv6),
	ROW(IBV_FLOW_SPEC_TCP, FLOW_TCP, ibv_flow_spec_tcp_udp, ibv_flow_tcp_udp_filter, ports),
	ROW(IBV_FLOW_SPEC_UDP, FLOW_UDP, ibv_flow_spec_tcp_udp, ibv_flow_tcp_udp_filter, ports),
};
static_assert(sizeof(struct ibv_flow_ipv6_filter) <= FLOW_FILTER_BYTES, "the largest filter");

static int parse_filter(struct flow_rule *rule, uint32_t type, const char *at, uint16_t bytes)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct flow_spec *spec = &rule->spec[rule->specs];

		if (kinds[i].type != type)
			continue;
		if (bytes != kinds[i].bytes || rule->specs == FLOW_SPECS)
			return EINVAL;
		spec->layer = kinds[i].layer;
		spec->offset = kinds[i].offset;
		spec->size = kinds[i].size;
		memcpy(spec->value, at + kinds[i].value, spec->size);
		memcpy(spec->mask, at + kinds[i].mask, spec->size);
		rule->specs++;
		return 0;
	}
	return EOPNOTSUPP;
}

static int parse_spec(struct flow_rule *rule, const char *at, uint32_t type, uint16_t bytes)
{
	switch (type) {
	case IBV_FLOW_SPEC_ACTION_TAG:
		if (bytes != sizeof(struct ibv_flow_spec_action_tag))
			return EINVAL;
		memcpy(&rule->tag, at + offsetof(struct ibv_flow_spec_action_tag, tag_id), sizeof(rule->tag));
		return 0;
	case IBV_FLOW_SPEC_ACTION_DROP:
		rule->drops = true;
		return bytes == sizeof(struct ibv_flow_spec_action_drop) ? 0 : EINVAL;
	case IBV_FLOW_SPEC_ACTION_COUNT:
		if (bytes != sizeof(struct ibv_flow_spec_counter_action))
			return EINVAL;
		memcpy(&rule->counters, at + offsetof(struct ibv_flow_spec_counter_action, counters),
		       sizeof(rule->counters));
		return rule->counters ? 0 : EINVAL;
	default:
		return parse_filter(rule, type, at, bytes);
	}
}

/* Uses the number of specs and the size of each, as the libraries of hardware do: programs disagree about what
 * attr->size counts. */
int flow_parse(struct flow_rule *rule, const struct ibv_flow_attr *attr)
{
	const char *at = (const char *)(attr + 1);

	if (attr->type > IBV_FLOW_ATTR_SNIFFER || attr->port != 1)
		return EINVAL;
	if (attr->comp_mask || (attr->flags & ~(uint32_t)IBV_FLOW_ATTR_FLAGS_DONT_TRAP))
		return EOPNOTSUPP;
	/* the other types have no specs */
	if (attr->type != IBV_FLOW_ATTR_NORMAL && attr->num_of_specs)
		return EINVAL;
	rule->type = (uint8_t)attr->type;
	rule->priority = attr->priority;
	rule->shares = attr->type == IBV_FLOW_ATTR_SNIFFER || (attr->flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP);
	for (int i = 0; i < attr->num_of_specs; i++) {
		uint32_t type;
		uint16_t bytes;
		int error;

		memcpy(&type, at, sizeof(type));
		memcpy(&bytes, at + sizeof(type), sizeof(bytes));
		if (bytes < sizeof(type) + sizeof(bytes))
			return EINVAL;
		error = parse_spec(rule, at, type, bytes);
		if (error)
			return error;
		at += bytes;
	}
	return 0;
}

static bool spec_matches(const struct flow_spec *spec, const struct frame_key *key)
{
	const uint8_t *have = (const uint8_t *)key + spec->offset;

	if (!(key->layers & spec->layer))
		return false;
	for (uint16_t i = 0; i < spec->size; i++)
		if ((have[i] ^ spec->value[i]) & spec->mask[i])
			return false;
	return true;
}

bool flow_matches(const struct flow_rule *rule, const struct frame_key *key)
{
	if (!(key->layers & FLOW_ETH) || (rule->type == IBV_FLOW_ATTR_MC_DEFAULT && !frame_is_multicast(key)))
		return false;
	for (uint32_t i = 0; i < rule->specs; i++)
		if (!spec_matches(&rule->spec[i], key))
			return false;
	return true;
}
