// SPDX-License-Identifier: BSD-2-Clause
// The table of services: which claims are allowed, and which process is found.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include "base/base.h"
#include "host/services.h"

static struct services *table;
static bool dead[256];

static bool is_alive(uint16_t slot)
{
	return !dead[slot];
}

static union ibv_gid gid(const char *text)
{
	union ibv_gid g;

	assert_int_equal(inet_pton(AF_INET6, text, g.raw), 1);
	return g;
}

static int claim(uint16_t slot, const char *address, uint64_t id, enum gsi_claim kind)
{
	union ibv_gid a = gid(address);

	return services_claim(table, slot, &a, id, kind, is_alive);
}

static void release(uint16_t slot, const char *address, uint64_t id)
{
	union ibv_gid a = gid(address);

	services_release(table, slot, &a, id);
}

static uint16_t owner(const char *address, uint64_t id)
{
	union ibv_gid a = gid(address);

	return services_owner(table, &a, id, is_alive);
}

static int setup(void **state)
{
	memset(dead, 0, sizeof(dead));
	table = calloc(1, sizeof(*table));
	return table ? 0 : -1;
}

static int teardown(void **state)
{
	free(table);
	return 0;
}

#define A    "::ffff:10.0.0.1"
#define B    "::ffff:10.0.0.2"
#define SIX  "fd00::1"
#define ALL  "::"
#define ALL4 "::ffff:0.0.0.0"
#define ALL6 "ff00::"

static void claims_keep_others_out(void **state)
{
	static const struct {
		const char *first, *second;
		enum gsi_claim kind, other;
		int result;
	} rows[] = {
		{A, A, GSI_BOUND, GSI_BOUND, -EADDRINUSE},
		{A, A, GSI_LISTENS, GSI_SHARED, -EADDRINUSE},
		{A, A, GSI_SHARED, GSI_SHARED, 0},
		{A, A, GSI_SHARED, GSI_LISTENS, -EADDRINUSE},
		{A, B, GSI_LISTENS, GSI_LISTENS, 0},
		{A, ALL, GSI_BOUND, GSI_BOUND, -EADDRNOTAVAIL},
		{ALL, A, GSI_BOUND, GSI_BOUND, -EADDRNOTAVAIL},
		{ALL4, A, GSI_BOUND, GSI_BOUND, -EADDRNOTAVAIL},
		{A, ALL4, GSI_BOUND, GSI_BOUND, -EADDRNOTAVAIL},
		{SIX, ALL4, GSI_BOUND, GSI_BOUND, 0},
		{SIX, ALL, GSI_BOUND, GSI_BOUND, -EADDRNOTAVAIL},
		{ALL, ALL4, GSI_LISTENS, GSI_BOUND, -EADDRNOTAVAIL},
		{ALL, A, GSI_SHARED, GSI_SHARED, 0},
		{ALL6, ALL4, GSI_LISTENS, GSI_LISTENS, 0},
		{ALL6, A, GSI_LISTENS, GSI_LISTENS, 0},
		{ALL6, SIX, GSI_BOUND, GSI_BOUND, -EADDRNOTAVAIL},
		{ALL, ALL6, GSI_BOUND, GSI_BOUND, -EADDRNOTAVAIL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(claim(1, rows[i].first, 7, rows[i].kind), 0);
		if (claim(2, rows[i].second, 7, rows[i].other) != rows[i].result)
			fail_msg("row %zu", i);
		assert_int_equal(claim(2, rows[i].second, 8, rows[i].other), 0);
		release(2, rows[i].second, 7);
		release(2, rows[i].second, 8);
		release(1, rows[i].first, 7);
		assert_int_equal(table->used, 0);
		assert_int_equal(claim(2, rows[i].second, 7, rows[i].other), 0);
		release(2, rows[i].second, 7);
	}
}

static void who_listens_is_found(void **state)
{
	assert_int_equal(owner(A, 7), 0);
	assert_int_equal(claim(1, A, 7, GSI_BOUND), 0);
	assert_int_equal(owner(A, 7), 0);
	assert_int_equal(claim(1, A, 7, GSI_LISTENS), 0);
	assert_int_equal(owner(A, 7), 1);
	assert_int_equal(owner(B, 7), 0);
	assert_int_equal(owner(A, 8), 0);
	assert_int_equal(claim(2, ALL, 8, GSI_LISTENS), 0);
	assert_int_equal(owner(A, 8), 2);
	assert_int_equal(owner(SIX, 8), 2);
	assert_int_equal(claim(3, ALL4, 9, GSI_LISTENS), 0);
	assert_int_equal(owner(A, 9), 3);
	assert_int_equal(owner(SIX, 9), 0);
	assert_int_equal(claim(4, ALL6, 9, GSI_LISTENS), 0);
	assert_int_equal(owner(A, 9), 3);
	assert_int_equal(owner(SIX, 9), 4);
	release(1, A, 8); /* not his */
	assert_int_equal(owner(A, 8), 2);
}

static void the_dead_claim_nothing(void **state)
{
	assert_int_equal(claim(1, A, 7, GSI_LISTENS), 0);
	dead[1] = true;
	assert_int_equal(owner(A, 7), 0);
	assert_int_equal(claim(2, ALL, 7, GSI_LISTENS), 0);
	assert_int_equal(owner(A, 7), 2);
	/* a successor in the slot starts with nothing */
	assert_int_equal(claim(1, A, 9, GSI_LISTENS), 0);
	dead[1] = false;
	services_forget(table, 1);
	assert_int_equal(owner(A, 9), 0);
	assert_int_equal(owner(A, 7), 2);
	services_forget(table, 2);
	assert_int_equal(table->used, 0);
}

static void there_is_room_for_so_many(void **state)
{
	const char *quick = getenv("UROCE_QUICK");

	if (quick && *quick) {
		print_message("# skipped: a full table is slow to search, and slower under sanitizers\n");
		return;
	}
	for (uint64_t id = 0; id < GSI_SERVICES; id++)
		assert_int_equal(claim(1, A, id << 16 | 5, GSI_LISTENS), 0);
	assert_int_equal(claim(1, A, 1, GSI_LISTENS), -ENOSPC);
	assert_int_equal(claim(1, A, 5, GSI_BOUND), 0); /* has its place */
	assert_int_equal(owner(A, 5), 0);
	assert_int_equal(owner(A, 1u << 16 | 5), 1);
	release(1, A, 5);
	assert_int_equal(claim(2, A, 1, GSI_LISTENS), 0);
	assert_int_equal(owner(A, 1), 2);
	services_forget(table, 1);
	for (uint64_t id = 0; id < GSI_SERVICES; id++)
		assert_int_equal(owner(A, id << 16 | 5), 0);
	assert_int_equal(owner(A, 1), 2);
	services_forget(table, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(claims_keep_others_out),
		TEST(who_listens_is_found),
		TEST(the_dead_claim_nothing),
		TEST(there_is_room_for_so_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
