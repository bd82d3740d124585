/* SPDX-License-Identifier: BSD-2-Clause */
/* Connection management messages: what two kernels said in the captures means what it should, and encodes
 * back to the same bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "capture.h"
#include "wire/cm_mad.h"
#include "wire/packet.h"

#define HEADERS 20 /* BTH and DETH */

static uint32_t seen[CM_MESSAGES];

static void back_to_the_same(const struct captured *c)
{
	uint8_t bytes[CM_MAD_BYTES];
	struct packet p;
	struct cm_mad m;

	assert_int_equal(packet_parse(&p, c->bytes, c->length - 4), 0);
	if (p.dest_qpn != 1)
		return;
	assert_int_equal(p.length, CM_MAD_BYTES);
	assert_int_equal(cm_mad_parse(&m, p.payload), 0);
	cm_mad_encode(&m, bytes);
	assert_memory_equal(bytes, p.payload, CM_MAD_BYTES);
	seen[m.message - CM_FIRST]++;
}

static void captured_messages_encode_back(void **state)
{
	assert_true(captured_everywhere(back_to_the_same) > 0);
	for (enum cm_message m = CM_REQ; m <= CM_SIDR_REP; m++)
		if (m != CM_MRA) /* the kernels had no need of it */
			assert_true(seen[m - CM_FIRST] >= 2);
}

static void req_of_rping(const struct captured *c)
{
	static const uint8_t client[16] = {[10] = 0xff, 0xff, 10, 77, 0, 2},
			     server[16] = {[10] = 0xff, 0xff, 10, 77, 0, 3};
	struct packet p;
	struct cm_mad m;
	struct cm_ip ip;

	if (!strstr(c->file, "6.12/cm-rping.pcap") || packet_parse(&p, c->bytes, c->length - 4) || p.dest_qpn != 1 ||
	    cm_mad_parse(&m, p.payload) || m.message != CM_REQ)
		return;
	assert_int_equal(m.local_id, 0x2ba81cdb);
	assert_int_equal(m.transaction, 0x2db1ca82b);
	assert_int_equal(m.service, 0x1061c06);
	assert_int_equal(m.ca_guid, 0x505400fffe770002);
	assert_int_equal(m.qpn, 0x35);
	assert_int_equal(m.responder_resources, 1);
	assert_int_equal(m.initiator_depth, 1);
	assert_int_equal(m.remote_timeout, 20);
	assert_int_equal(m.local_timeout, 20);
	assert_int_equal(m.psn, 0xf6233f);
	assert_int_equal(m.retry, 7);
	assert_int_equal(m.rnr_retry, 7);
	assert_int_equal(m.pkey, 0xffff);
	assert_int_equal(m.mtu, 3);
	assert_int_equal(m.max_retries, 15);
	assert_int_equal(m.primary.local_lid, 0xffff);
	assert_memory_equal(m.primary.local_gid.raw, client, 16);
	assert_memory_equal(m.primary.remote_gid.raw, server, 16);
	assert_int_equal(m.primary.flow_label, 0xbd70);
	assert_int_equal(m.primary.rate, 0);
	assert_int_equal(m.primary.hop_limit, 64);
	assert_int_equal(m.primary.ack_timeout, 17);
	assert_int_equal(cm_ip_parse(&ip, m.private_data), 0);
	assert_int_equal(ip.from_port, 0x8956);
	assert_memory_equal(ip.from.raw, client, 16);
	assert_memory_equal(ip.to.raw, server, 16);
	seen[0] = UINT32_MAX;
}

static void fields_are_where_they_should_be(void **state)
{
	assert_true(captured_everywhere(req_of_rping) > 0);
	assert_int_equal(seen[0], UINT32_MAX);
}

/* Any value in any field of any message: what the encoder puts in, the parser finds. */
static void every_field_survives(void **state)
{
	for (enum cm_message message = CM_REQ; message <= CM_APR; message++) {
		uint8_t bytes[CM_MAD_BYTES], again[CM_MAD_BYTES];
		struct cm_mad m, back;

		for (uint32_t round = 0; round < 64; round++) {
			for (uint32_t i = 0; i < sizeof(m); i++)
				((uint8_t *)&m)[i] = (uint8_t)((i * 2654435761u + round * 40503u) >> 13);
			m.message = message;
			m.info_length %= CM_INFO_MAX + 1;
			cm_mad_encode(&m, bytes);
			assert_int_equal(cm_mad_parse(&back, bytes), 0);
			assert_int_equal(back.transaction, m.transaction);
			assert_int_equal(back.local_id, m.local_id);
			assert_memory_equal(back.private_data, m.private_data, cm_private_bytes(message));
			cm_mad_encode(&back, again);
			assert_memory_equal(bytes, again, CM_MAD_BYTES);
		}
	}
}

/* IBTA 12.6 to 12.11: what is left of 232 bytes. */
static void private_data_has_the_size_that_is_written(void **state)
{
	static const uint32_t sizes[CM_MESSAGES] = {92, 222, 148, 196, 224, 220, 224, 216, 136, 168, 148};

	for (enum cm_message m = CM_REQ; m <= CM_APR; m++)
		assert_int_equal(cm_private_bytes(m), sizes[m - CM_FIRST]);
}

static void other_datagrams_are_refused(void **state)
{
	static const struct {
		uint32_t at;
		uint8_t value;
	} wrong[] = {{0, 2}, {1, 3}, {2, 1}, {3, 1}, {17, 0x0f}, {17, 0x1b}, {16, 1}, {24 + 9, 73 << 1}};
	struct cm_mad m = {.message = CM_REJ};
	uint8_t good[CM_MAD_BYTES], bytes[CM_MAD_BYTES];

	cm_mad_encode(&m, good);
	assert_int_equal(cm_mad_parse(&m, good), 0);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		memcpy(bytes, good, sizeof(bytes));
		bytes[wrong[i].at] = wrong[i].value;
		assert_int_not_equal(cm_mad_parse(&m, bytes), 0);
	}
}

static void ip_headers_of_both_families(void **state)
{
	static const union ibv_gid gid[2] = {{.raw = {[10] = 0xff, 0xff, 192, 0, 2, 1}}, {.raw = {0xfd, [15] = 7}}};
	uint8_t bytes[CM_IP_BYTES];
	struct cm_ip ip;

	for (int i = 0; i < 2; i++) {
		cm_ip_encode(&(struct cm_ip){.from = gid[i], .to = gid[i], .from_port = 0x1234}, bytes);
		assert_int_equal(bytes[1], i ? 0x60 : 0x40);
		assert_int_equal(bytes[4], i ? 0xfd : 0);
		assert_int_equal(cm_ip_parse(&ip, bytes), 0);
		assert_int_equal(ip.from_port, 0x1234);
		assert_memory_equal(&ip.from, &gid[i], 16);
		assert_memory_equal(&ip.to, &gid[i], 16);
	}
	bytes[1] = 0x50;
	assert_int_not_equal(cm_ip_parse(&ip, bytes), 0);
	bytes[1] = 0x60;
	bytes[0] = 0x10;
	assert_int_not_equal(cm_ip_parse(&ip, bytes), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(captured_messages_encode_back),
		cmocka_unit_test(fields_are_where_they_should_be),
		cmocka_unit_test(every_field_survives),
		cmocka_unit_test(private_data_has_the_size_that_is_written),
		cmocka_unit_test(other_datagrams_are_refused),
		cmocka_unit_test(ip_headers_of_both_families),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
