/* SPDX-License-Identifier: BSD-2-Clause */
/* A completion tells of bytes that are in memory of a GPU: if the copy has failed, it is no success, whatever listens
 * to completions. gpu_settle() is this file's (-Wl,--wrap). */
#include "engine/fixture.h"
#include "engine/requests.h"

#include "base/hooks.h"
#include "fault/inject.h"

bool __wrap_gpu_settle(void);

static bool succeeds;

bool __wrap_gpu_settle(void)
{
	hook_set(HOOK_GPU, false);
	return succeeds;
}

static const struct {
	bool succeeds;
	const char *rule; /* that listens to completions, and has nothing to do with these; NULL: none */
} rows[] = {
	{true, NULL},
	{false, NULL},
	{true, "complete nth 1000: status GENERAL_ERR"},
	{false, "complete nth 1000: status GENERAL_ERR"},
};

static void give(struct fixture *f, struct packet p)
{
	hook_set(HOOK_GPU, true);
	fixture_give(f, p);
}

static void a_copy_that_failed_is_no_success(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		enum ibv_wc_status status = rows[i].succeeds ? IBV_WC_SUCCESS : IBV_WC_FATAL_ERR;
		struct fixture *f = fixture_renew(state);
		struct rule_error error;

		succeeds = rows[i].succeeds;
		assert_true(!rows[i].rule || inject_add(rows[i].rule, &error) > 0);
		fixture_start(f, IBV_QPS_RTS);
		fixture_post(f, send_of(3, 8));
		fixture_run(f);
		give(f, ack(sent_psn(0), ACKED));
		expect_done(f, 3, status);
		fixture_post_recv(f, 7, 64);
		give(f, request(OP_SEND_ONLY, due_psn(0), 8));
		expect_taken(f, 7, status);
		inject_clear();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_copy_that_failed_is_no_success),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
