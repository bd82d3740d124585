// SPDX-License-Identifier: BSD-2-Clause
// Handover of packets to the process that they are for.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/handover.h"
#include "host/slot.h"
#include "loop/netns.h"

enum { MOST = 64 };

static struct handover handover;
static struct slot a, b;
static const union ibv_gid from = {.raw = {[10] = 0xff, [11] = 0xff, 10, 1, 2, 3}};
static const union ibv_gid to = {.raw = {0xfd, [15] = 7}};

static uint32_t seen;
static uint8_t payload[4096];

static uint32_t length_of(uint32_t i)
{
	return i * 4096 / MOST;
}

static bool take(void *arg, const struct packet *p, const union ibv_gid *f)
{
	uint32_t i = p->psn.v;

	assert_int_equal(i, seen++);
	assert_memory_equal(f, &from, sizeof(from));
	assert_int_equal(p->dest_qpn, (uint32_t)b.number << SLOT_SHIFT | i);
	assert_int_equal(p->congestion, i & 1);
	assert_int_equal(p->is_uroce, (i & 2) != 0);
	assert_int_equal(p->traffic_class, i);
	assert_memory_equal(p->to, &to, sizeof(to));
	assert_int_equal(p->length, length_of(i));
	assert_memory_equal(p->payload, payload, p->length);
	return true;
}

static void open_both(void)
{
	assert_int_equal(slot_claim(&a), 0);
	assert_int_equal(slot_claim(&b), 0);
	memset(&handover, 0, sizeof(handover));
	seen = 0;
}

static void close_both(void)
{
	slot_release(&a);
	slot_release(&b);
}

static void add(uint32_t i, uint16_t slot)
{
	struct packet p = {.opcode = OP_SEND_ONLY,
			   .dest_qpn = (uint32_t)slot << SLOT_SHIFT | i,
			   .psn = psn(i),
			   .congestion = i & 1,
			   .is_uroce = i & 2,
			   .traffic_class = i,
			   .to = to.raw,
			   .length = length_of(i),
			   .payload = payload};

	handover_add(&handover, &a, slot, &p, &from);
}

static void packets_of_any_length_arrive_in_order(void **state)
{
	open_both();
	for (uint32_t i = 0; i <= MOST; i++)
		add(i, b.number);
	handover_send(&handover, &a);
	while (handover_receive(&b, &(struct handover_ops){.packet = take}, NULL))
		;
	assert_int_equal(seen, MOST + 1);
	assert_int_equal(handover.lost, 0);
	close_both();
}

static void a_dead_process_costs_nothing_but_its_packets(void **state)
{
	uint8_t dead;

	open_both();
	dead = b.number;
	slot_release(&b);
	add(0, dead);
	handover_send(&handover, &a);
	assert_int_equal(handover.lost, 1);
	assert_int_equal(slot_claim(&b), 0);
	add(0, b.number);
	handover_send(&handover, &a);
	assert_true(handover_receive(&b, &(struct handover_ops){.packet = take}, NULL));
	assert_int_equal(seen, 1);
	close_both();
}

static void a_stopped_process_is_not_waited_for(void **state)
{
	open_both();
	for (uint32_t i = 0; i < 100000 && !handover.lost; i++) {
		add(0, b.number);
		handover_send(&handover, &a);
	}
	assert_true(handover.lost > 0);
	close_both();
}

/* What the memory had before, and what lies between the fields, is no other process's business. */
static void bytes_between_records_are_zeros(void **state)
{
	static uint8_t bytes[HANDOVER_BYTES];
	struct packet p = {.opcode = OP_SEND_ONLY, .to = to.raw, .payload = payload};
	ssize_t n;

	open_both();
	memset(handover.memory, 0xa5, sizeof(handover.memory));
	p.length = 3; /* with its pad and the BTH: 16 */
	handover_add(&handover, &a, b.number, &p, &from);
	p.length = 5; /* 20 */
	handover_add(&handover, &a, b.number, &p, &from);
	handover_report(&handover, &a, b.number, &(struct handover_report){0});
	handover_ask(&handover, &a, b.number, &(struct handover_ask){0});
	handover_send(&handover, &a);
	n = recv(b.fd, bytes, sizeof(bytes), 0);
	assert_true(n > 0);
	for (ssize_t i = 0; i < n; i++)
		assert_int_not_equal(bytes[i], 0xa5);
	close_both();
}

static bool ignore(void *arg, const struct packet *p, const union ibv_gid *f)
{
	++*(uint32_t *)arg;
	return true;
}

static void garbage_does_no_harm(void **state)
{
	static uint8_t bytes[256];
	struct sockaddr_un to;
	socklen_t size;
	uint32_t n = 0;

	open_both();
	size = slot_address(&to, b.number);
	for (uint32_t length = 0; length <= sizeof(bytes); length++) {
		for (uint32_t i = 0; i < length; i++)
			bytes[i] = length * 31 + i * (length & 1);
		assert_int_equal(sendto(a.fd, bytes, length, 0, (struct sockaddr *)&to, size), length);
		assert_true(handover_receive(&b, &(struct handover_ops){.packet = ignore}, &n));
	}
	assert_int_equal(n, 0);
	assert_false(handover_receive(&b, &(struct handover_ops){.packet = ignore}, &n));
	close_both();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_of_any_length_arrive_in_order),
		cmocka_unit_test(a_dead_process_costs_nothing_but_its_packets),
		cmocka_unit_test(a_stopped_process_is_not_waited_for),
		cmocka_unit_test(bytes_between_records_are_zeros),
		cmocka_unit_test(garbage_does_no_harm),
	};

	netns_enter();
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = i * 5 + (i >> 8);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
