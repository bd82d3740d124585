/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of enums that belong to layers which the tools do not include. */
#include "base/pending.h"
#include "cm/id.h"
#include "engine/checks.h"
#include "engine/cursor.h"
#include "tools/names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#undef fail
#include <cmocka.h>

static void lanes_have_their_names(void **state)
{
	(void)state;
	assert_string_equal(lane_name(LANE_QUEUE), "queue");
	assert_string_equal(lane_name(LANE_UDP), "udp");
	assert_string_equal(lane_name(LANE_RING), "ring");
	assert_string_equal(lane_name(LANE_MEMORY), "memory");
	assert_string_equal(lane_name(LANE_DATAGRAM), "datagram");
	assert_string_equal(lane_name(LANES), "?");
}

static void states_of_ids_have_their_names(void **state)
{
	(void)state;
	assert_string_equal(id_state_name(ID_LISTENING), "LISTENING");
	assert_string_equal(id_state_name(ID_CONNECTING), "CONNECTING");
	assert_string_equal(id_state_name(ID_LOST), "LOST");
	assert_string_equal(connection_state_name(CM_ESTABLISHED), "ESTABLISHED");
	assert_string_equal(connection_state_name(CM_DREQ_SENT), "DREQ_SENT");
	assert_string_equal(connection_state_name(CM_SIDR_REP_SENT), "SIDR_REP_SENT");
	assert_string_equal(connection_state_name(CM_STATES), "?");
}

/* base/pending.c, sysfs/resource.c and tools/trace/waits_explain.c know these by number. */
static void numbers_are_those_that_others_know(void **state)
{
	(void)state;
	assert_int_equal(RETRY_PATH + 1, PENDING_REASONS);
	assert_int_equal(RETRY_TIMEOUT, 2);
	assert_int_equal(RETRY_PROBE, 3);
	assert_int_equal(IBV_WC_WR_FLUSH_ERR, 5);
	assert_int_equal(IBV_QPS_RTS, 3);
	assert_int_equal(CM_DREQ_SENT, 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lanes_have_their_names),
		cmocka_unit_test(states_of_ids_have_their_names),
		cmocka_unit_test(numbers_are_those_that_others_know),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
