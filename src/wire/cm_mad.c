/* SPDX-License-Identifier: BSD-2-Clause */
/* Connection management datagrams: each message is a table of its fields, used by the parser and the encoder. */
#include "wire/cm_mad.h"

#include <errno.h>
#include <string.h>

#include "base/address.h"
#include "base/be.h"

struct mad_header {
	uint8_t base_version, class, class_version, method;
	be16 status, class_specific;
	be64 transaction;
	be16 attribute, reserved;
	be32 modifier;
};
static_assert(sizeof(struct mad_header) == 24, "IBTA 13.4.2");

enum {
	BASE_VERSION = 1,
	CLASS_CM = 7,
	CLASS_VERSION = 2,
	METHOD_SEND = 3,
	DATA = sizeof(struct mad_header), /* the offsets below are relative to this */
};

struct field {
	uint16_t byte;	 /* first byte in the message */
	uint8_t bit;	 /* first bit in that byte; 0 is the most significant */
	uint8_t bits;	 /* number of bits; 0: `size` bytes, not a number */
	uint16_t member; /* offset in struct cm_mad */
	uint16_t size;	 /* bytes of the member */
};

#define SIZE(name) sizeof(((struct cm_mad *)0)->name)
#define NUMBER(byte, bit, bits, name)                                      \
	{                                                                  \
		byte, bit, bits, offsetof(struct cm_mad, name), SIZE(name) \
	}
#define BYTES(byte, name)                                             \
	{                                                             \
		byte, 0, 0, offsetof(struct cm_mad, name), SIZE(name) \
	}
#define PRIVATE(byte)                                                                           \
	{                                                                                       \
		byte, 0, 0, offsetof(struct cm_mad, private_data), CM_MAD_BYTES - DATA - (byte) \
	}

#define IDS NUMBER(0, 0, 32, local_id), NUMBER(4, 0, 32, remote_id)

/* IBTA 12.6.5. LAP (12.8.1) packs the alternate path differently. */
#define REQ_ROUTE(at, path)                                                                                           \
	NUMBER(at, 0, 16, path.local_lid), NUMBER((at) + 2, 0, 16, path.remote_lid), BYTES((at) + 4, path.local_gid), \
		BYTES((at) + 20, path.remote_gid), NUMBER((at) + 36, 0, 20, path.flow_label),                         \
		NUMBER((at) + 39, 2, 6, path.rate), NUMBER((at) + 40, 0, 8, path.traffic_class),                      \
		NUMBER((at) + 41, 0, 8, path.hop_limit), NUMBER((at) + 42, 0, 4, path.sl),                            \
		NUMBER((at) + 42, 4, 1, path.subnet_local), NUMBER((at) + 43, 0, 5, path.ack_timeout)

static const struct field req[] = {
	NUMBER(0, 0, 32, local_id),
	NUMBER(5, 0, 24, vendor_id),
	NUMBER(8, 0, 64, service),
	NUMBER(16, 0, 64, ca_guid),
	NUMBER(28, 0, 32, qkey),
	NUMBER(32, 0, 24, qpn),
	NUMBER(35, 0, 8, responder_resources),
	NUMBER(36, 0, 24, local_eecn),
	NUMBER(39, 0, 8, initiator_depth),
	NUMBER(40, 0, 24, remote_eecn),
	NUMBER(43, 0, 5, remote_timeout),
	NUMBER(43, 5, 2, transport),
	NUMBER(43, 7, 1, flow_control),
	NUMBER(44, 0, 24, psn),
	NUMBER(47, 0, 5, local_timeout),
	NUMBER(47, 5, 3, retry),
	NUMBER(48, 0, 16, pkey),
	NUMBER(50, 0, 4, mtu),
	NUMBER(50, 4, 1, rdc_exists),
	NUMBER(50, 5, 3, rnr_retry),
	NUMBER(51, 0, 4, max_retries),
	NUMBER(51, 4, 1, srq),
	NUMBER(51, 5, 3, extended_transport),
	REQ_ROUTE(52, primary),
	REQ_ROUTE(96, alternate),
	PRIVATE(140),
};

static const struct field mra[] = {IDS, NUMBER(8, 0, 2, about), NUMBER(9, 0, 5, service_timeout), PRIVATE(10)};

static const struct field rej[] = {
	IDS,	    NUMBER(8, 0, 2, about), NUMBER(9, 0, 7, info_length), NUMBER(10, 0, 16, reason), BYTES(12, info),
	PRIVATE(84)};

static const struct field rep[] = {
	IDS,
	NUMBER(8, 0, 32, qkey),
	NUMBER(12, 0, 24, qpn),
	NUMBER(16, 0, 24, local_eecn),
	NUMBER(20, 0, 24, psn),
	NUMBER(24, 0, 8, responder_resources),
	NUMBER(25, 0, 8, initiator_depth),
	NUMBER(26, 0, 5, ack_delay),
	NUMBER(26, 5, 2, failover),
	NUMBER(26, 7, 1, flow_control),
	NUMBER(27, 0, 3, rnr_retry),
	NUMBER(27, 3, 1, srq),
	NUMBER(28, 0, 64, ca_guid),
	PRIVATE(36),
};

static const struct field rtu[] = {IDS, PRIVATE(8)};
static const struct field dreq[] = {IDS, NUMBER(8, 0, 24, qpn), PRIVATE(12)};
static const struct field drep[] = {IDS, PRIVATE(8)};

static const struct field sidr_req[] = {NUMBER(0, 0, 32, local_id), NUMBER(4, 0, 16, pkey), NUMBER(8, 0, 64, service),
					PRIVATE(16)};

static const struct field sidr_rep[] = {
	NUMBER(0, 0, 32, local_id),
	NUMBER(4, 0, 8, answer),
	NUMBER(5, 0, 8, info_length),
	NUMBER(8, 0, 24, qpn),
	NUMBER(12, 0, 64, service),
	NUMBER(20, 0, 32, qkey),
	BYTES(24, info),
	PRIVATE(96),
};

static const struct field lap[] = {
	IDS,
	NUMBER(12, 0, 24, qpn),
	NUMBER(15, 0, 5, remote_timeout),
	NUMBER(20, 0, 16, alternate.local_lid),
	NUMBER(22, 0, 16, alternate.remote_lid),
	BYTES(24, alternate.local_gid),
	BYTES(40, alternate.remote_gid),
	NUMBER(56, 0, 20, alternate.flow_label),
	NUMBER(59, 0, 8, alternate.traffic_class),
	NUMBER(60, 0, 8, alternate.hop_limit),
	NUMBER(61, 2, 6, alternate.rate),
	NUMBER(62, 0, 4, alternate.sl),
	NUMBER(62, 4, 1, alternate.subnet_local),
	NUMBER(63, 0, 5, alternate.ack_timeout),
	PRIVATE(64),
};

static const struct field apr[] = {IDS, NUMBER(8, 0, 8, info_length), NUMBER(9, 0, 8, answer), BYTES(12, info),
				   PRIVATE(84)};

static const struct layout {
	const char *name;
	const struct field *field;
	uint32_t fields;
} layouts[] = {
#define LAYOUT(NAME, table) [CM_##NAME - CM_FIRST] = {#NAME, table, ARRAY_SIZE(table)}
	LAYOUT(REQ, req), LAYOUT(MRA, mra),	      LAYOUT(REJ, rej),	  LAYOUT(REP, rep),
	LAYOUT(RTU, rtu), LAYOUT(DREQ, dreq),	      LAYOUT(DREP, drep), LAYOUT(SIDR_REQ, sidr_req),
	LAYOUT(LAP, lap), LAYOUT(SIDR_REP, sidr_rep), LAYOUT(APR, apr),
};
static_assert(ARRAY_SIZE(layouts) == CM_MESSAGES, "each message has a layout");

static uint64_t get_bits(const uint8_t *at, uint32_t bit, uint32_t bits)
{
	uint32_t bytes = (bit + bits + 7) / 8;
	uint64_t v = 0;

	for (uint32_t i = 0; i < bytes; i++)
		v = v << 8 | at[i];
	return v << (64 - 8 * bytes + bit) >> (64 - bits);
}

static void put_bits(uint8_t *at, uint32_t bit, uint32_t bits, uint64_t v)
{
	uint32_t bytes = (bit + bits + 7) / 8;

	v = v << (64 - bits) >> bit; /* a value that is too large loses its upper bits */
	for (uint32_t i = 0; i < bytes; i++)
		at[i] |= (uint8_t)(v >> (56 - 8 * i));
}

static uint64_t load(const void *member, uint32_t size)
{
	uint64_t v = 0;

	memcpy((char *)&v + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? sizeof(v) - size : 0), member, size);
	return v;
}

static void cm_mad_store(void *member, uint32_t size, uint64_t v)
{
	memcpy(member, (char *)&v + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? sizeof(v) - size : 0), size);
}

int cm_mad_parse(struct cm_mad *m, const uint8_t bytes[CM_MAD_BYTES])
{
	const struct mad_header *h = (const struct mad_header *)bytes;
	uint32_t message = from_be16(h->attribute);
	const struct layout *l;

	if (h->base_version != BASE_VERSION || h->class != CLASS_CM || h->class_version != CLASS_VERSION ||
	    h->method != METHOD_SEND || message < CM_FIRST || message >= CM_FIRST + CM_MESSAGES)
		return -EBADMSG;
	*m = (struct cm_mad){
		.message = message,
		.status = from_be16(h->status),
		.transaction = from_be64(h->transaction),
		.modifier = from_be32(h->modifier),
	};
	l = &layouts[message - CM_FIRST];
	for (const struct field *f = l->field; f < l->field + l->fields; f++) {
		if (f->bits)
			cm_mad_store((char *)m + f->member, f->size, get_bits(bytes + DATA + f->byte, f->bit, f->bits));
		else
			memcpy((char *)m + f->member, bytes + DATA + f->byte, f->size);
	}
	return m->info_length > CM_INFO_MAX ? -EBADMSG : 0;
}

void cm_mad_encode(const struct cm_mad *m, uint8_t bytes[CM_MAD_BYTES])
{
	const struct layout *l = &layouts[m->message - CM_FIRST];

	memset(bytes, 0, CM_MAD_BYTES);
	*(struct mad_header *)bytes = (struct mad_header){
		.base_version = BASE_VERSION,
		.class = CLASS_CM,
		.class_version = CLASS_VERSION,
		.method = METHOD_SEND,
		.status = to_be16(m->status),
		.transaction = to_be64(m->transaction),
		.attribute = to_be16(m->message),
		.modifier = to_be32(m->modifier),
	};
	for (const struct field *f = l->field; f < l->field + l->fields; f++) {
		if (f->bits)
			put_bits(bytes + DATA + f->byte, f->bit, f->bits, load((char *)m + f->member, f->size));
		else
			memcpy(bytes + DATA + f->byte, (char *)m + f->member, f->size);
	}
}

uint32_t cm_private_bytes(enum cm_message message)
{
	const struct layout *l = &layouts[message - CM_FIRST];

	return l->field[l->fields - 1].size;
}

const char *cm_message_name(enum cm_message message)
{
	return layouts[message - CM_FIRST].name;
}

struct ip_header {
	uint8_t version;    /* major and minor, four bits each */
	uint8_t ip_version; /* the upper four bits */
	be16 from_port;
	uint8_t from[16], to[16]; /* IPv4: the last four bytes */
};
static_assert(sizeof(struct ip_header) == CM_IP_BYTES, "IBTA annex A11");

int cm_ip_parse(struct cm_ip *ip, const uint8_t bytes[CM_IP_BYTES])
{
	const struct ip_header *h = (const struct ip_header *)bytes;
	uint8_t version = h->ip_version >> 4;

	if (h->version >> 4 != CM_IP_VERSION || (version != 4 && version != 6))
		return -EBADMSG;
	*ip = (struct cm_ip){.from_port = from_be16(h->from_port)};
	gid_set(ip->from.raw, version == 4, h->from + (version == 4 ? 12 : 0));
	gid_set(ip->to.raw, version == 4, h->to + (version == 4 ? 12 : 0));
	return 0;
}

void cm_ip_encode(const struct cm_ip *ip, uint8_t bytes[CM_IP_BYTES])
{
	struct ip_header *h = (struct ip_header *)bytes;
	bool is_ipv4 = gid_is_ipv4(ip->to.raw);

	*h = (struct ip_header){.version = CM_IP_VERSION << 4, .from_port = to_be16(ip->from_port)};
	h->ip_version = is_ipv4 ? 4 << 4 : 6 << 4;
	memcpy(h->from + (is_ipv4 ? 12 : 0), ip->from.raw + (is_ipv4 ? 12 : 0), is_ipv4 ? 4 : 16);
	memcpy(h->to + (is_ipv4 ? 12 : 0), ip->to.raw + (is_ipv4 ? 12 : 0), is_ipv4 ? 4 : 16);
}
