/* SPDX-License-Identifier: BSD-2-Clause */
/* The language of faults: what parses, what is refused, where the caret stands, and that a firing is a rule again. */
#include "fault/rule_parse.h"
#include "fault/rule_text.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "wire/packet.h"

static void rules_that_make_sense_are_taken(void **state)
{
	static const char *const rules[] = {
		"out SEND chance 1%: drop",
		"in RC_SEND_ONLY every 10: delay 1ms..5ms",
		"packet peer 127.0.0.1 between 1s..2s: partition",
		"packet peer ::1 : partition",
		"out WRITE qp 1 psn 0..100 size 1..4096 nth 3: corrupt payload bit 7",
		"out READ_RESPONSE repeats chance 1/8: corrupt header",
		"in UD SEND chance 0.5% times 3: reorder 4",
		"in REQUEST RC nth 4: nak operation",
		"in SEND every 7: rnr 12",
		"in WRITE nth 2: revoke",
		"post SEND nth 3: revoke",
		"out: rate 10M",
		"out SEND: truncate 100",
		"post RDMA_WRITE wr_id 7: refuse ENOMEM",
		"complete SEND nth 5: status RETRY_EXC_ERR",
		"complete with WR_FLUSH_ERR nth 1: overrun",
		"onesided WRITE every 2: refuse",
		"call ibv_reg_mr nth 2: refuse ENOMEM",
		"mad out REQ nth 1: drop",
		"mad REQ nth 1: reject 28",
		"time after 2s: port-down 500ms",
		"post nth 100: fatal",
		"out nth 10: stop 20ms",
		"out device mlx5_3 port 1 nth 10: port-down 20ms",
		"time device mlx5_3 after 1s: gid-gone",
		"mad device uroce0 REQ: drop",
		"post while SQD: refuse EIO",
		"out ACK while RTR nth 2: drop",
		"complete with WR_FLUSH_ERR while ERR nth 1: overrun",
		"call rdma_connect while port-down: refuse ENETDOWN",
		"in SEND while gid-gone chance 1/2: drop",
		"memory nth 3: refuse",
		"in SEND: last-first 1ms",
		"in READ_RESPONSE: last-first 1ms",
		"call ibv_get_async_event chance 1/2: duplicate",
		"memory remote WRITE region 2 size 8..4k every 5: revoke",
		"memory local READ region 1..3 wr_id 7: delay 1ms..2ms",
		"memory ATOMIC qp 1 peer 127.0.0.1 nth 1: stop 20ms",
	};
	struct rule_error error;
	struct rule rule;

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		if (rule_parse(&rule, rules[i], &error))
			fail_msg("%s: %s", rules[i], error.text);
}

/* The caret stands under `word`. */
static void others_are_refused_with_the_word_and_the_reason(void **state)
{
	static const struct {
		const char *rule, *word, *reason;
	} rows[] = {
		{"oot SEND: drop", "oot", "did you mean out?"},
		{"out SEMD: drop", "SEMD", "did you mean SEND?"},
		{"out SELECTIVE_ACK: drop", "SELECTIVE_ACK", "there is no filter or opcode"},
		{"out SEND: dorp", "dorp", "did you mean drop?"},
		{"out SEND", "", "a colon and an action are missing"},
		{"out SEND:", "", "an action is missing"},
		{"out SEND: drop it", "it", "should end before this"},
		{"out UD WRITE: drop", "WRITE", "no packet is both"},
		{"out psn 9..3: drop", "9..3", "empty range"},
		{"out psn 20000000: drop", "20000000", "could never fire"},
		{"out size 70000: drop", "70000", "could never fire"},
		{"out chance 0%: drop", "0%", "could never fire"},
		{"out chance 3: drop", "3", "not a probability"},
		{"out nth 0: drop", "0", "could never fire"},
		{"out nth 3..4 every 5: drop", "drop", "is a multiple of 5"},
		{"out ACK: truncate 10", "truncate", "no payload"},
		{"out SEND size 1..10: truncate 10", "truncate", "no longer than that"},
		{"in UD: nak access", "nak", "only requests of RC"},
		{"out SEND: nak access", "nak", "only incoming packets"},
		{"in SEND: revoke", "revoke", "names a region"},
		{"in SEND: nak much", "much", "it is one of "},
		{"in XRC: delay 1ms", "delay", "begin the rule with `out`"},
		{"post psn 3: refuse EIO", "psn", "has no PSN"},
		{"post SEND: drop", "drop", "cannot be done to a"},
		{"post SEND: refuse ENOMEN", "ENOMEN", "did you mean ENOMEM?"},
		{"complete: status SUCCESS", "SUCCESS", "not an error"},
		{"onesided SEND: refuse", "SEND", "without a packet"},
		{"call ibv_reg_mrr: refuse EIO", "ibv_reg_mrr", "did you mean ibv_reg_mr?"},
		{"mad RTU: reject 28", "reject", "only a REQ"},
		{"mad out REQ: reject 28", "reject", "only incoming messages"},
		{"time: fatal", "fatal", "a time is missing"},
		{"time every 3: fatal", "every", "fires once"},
		{"out: delay 1", "1", "not a time"},
		{"out: delay", "", "a time is missing"},
		{"packet peer 300.0.0.1: drop", "300.0.0.1", "not an address"},
		{"", "", "begins with an event"},
		{"out device: drop", "device", "name of a device is missing"},
		{"call ibv_reg_mr device mlx5_3: refuse EIO", "device", "belongs to no device"},
		{"out port 2: drop", "2", "one port"},
		{"out while: drop", "drop", "there is no state"},
		{"out while RTZ: drop", "RTZ", "did you mean RTR?"},
		{"out while port-down: drop", "port-down", "nothing passes"},
		{"out while ERR: drop", "ERR", "sends and receives nothing"},
		{"mad while RTS: drop", "RTS", "no queue pair"},
		{"out SEND while RTR: drop", "drop", "no request is sent while RTR"},
		{"in READ: last-first 1ms", "last-first", "no payload"},
		{"in UC WRITE: last-first 1ms", "last-first", "of RC"},
		{"in UD SEND: last-first 1ms", "last-first", "of RC"},
		{"out WRITE: last-first 1ms", "last-first", "begin the rule with `in`"},
		{"in WRITE size 1: last-first 1ms", "last-first", "less than two bytes"},
		{"in WRITE: last-first", "", "a time is missing"},
		{"complete: delay 1ms", "delay", "cannot be done to a"},
		{"call ibv_reg_mr: wake", "wake", "only `call ibv_req_notify_cq`"},
		{"call ibv_req_notify_cq: refuse EIO", "refuse", "adapters do not refuse this call"},
		{"post: wake", "wake", "cannot be done to a"},
		{"call ibv_reg_mr: duplicate", "duplicate", "only `call ibv_get_async_event`"},
		{"call ibv_get_async_event: refuse EIO", "refuse", "adapters do not refuse this call"},
		{"post while INIT: refuse EIO", "refuse", "no request is posted"},
		{"memory: refuse EIO", "EIO", "should end before this"},
		{"memory: drop", "drop", "cannot be done to a"},
		{"memory region 0: refuse", "0", "could never fire"},
		{"memory local ATOMIC: refuse", "refuse", "accesses the peer's memory"},
		{"memory remote wr_id 7: refuse", "refuse", "has no wr_id"},
		{"memory psn 3: refuse", "psn", "has no PSN"},
		{"out region 2: drop", "region", "accesses no memory"},
	};
	struct rule_error error;
	struct rule rule;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (rule_parse(&rule, rows[i].rule, &error) != -EINVAL)
			fail_msg("%s: is taken", rows[i].rule);
		if (!strstr(error.text, rows[i].reason) ||
		    strncmp(rows[i].rule + error.at, rows[i].word, strlen(rows[i].word)))
			fail_msg("%s: at %u: %s", rows[i].rule, error.at, error.text);
		assert_int_equal(error.length, max_of(strlen(rows[i].word), (size_t)1));
	}
}

static void the_caret_stands_under_the_word(void **state)
{
	struct rule_error error;
	struct rule rule;
	char text[1024];

	assert_int_equal(rule_parse(&rule, "out SEND: dorp", &error), -EINVAL);
	rule_complain(text, sizeof(text), "out SEND: dorp", &error);
	assert_string_equal(text, "there is no action 'dorp': did you mean drop?\n"
				  "  out SEND: dorp\n"
				  "            ^^^^");
}

static void a_class_names_its_opcodes(void **state)
{
	static const struct {
		const char *rule;
		uint8_t opcode;
		bool hit;
	} rows[] = {
		{"out SEND: drop", OP_SEND_FIRST, true},
		{"out SEND: drop", TRANSPORT_UD | OP_SEND_ONLY, true},
		{"out SEND: drop", OP_WRITE_FIRST, false},
		{"out RC SEND: drop", TRANSPORT_UC | OP_SEND_FIRST, false},
		{"out SEND_ONLY: drop", TRANSPORT_UC | OP_SEND_ONLY, true},
		{"out RC_SEND_ONLY: drop", TRANSPORT_UC | OP_SEND_ONLY, false},
		{"out READ: drop", OP_READ_REQUEST, true},
		{"out READ: drop", OP_READ_RESPONSE_ONLY, false},
		{"out ACK: drop", OP_ACKNOWLEDGE, true},
		{"out RESPONSE: drop", OP_ATOMIC_ACKNOWLEDGE, true},
		{"out: drop", OP_ACKNOWLEDGE, true},
	};
	struct rule_error error;
	struct rule rule;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(rule_parse(&rule, rows[i].rule, &error), 0);
		if (rule_has(&rule.opcodes, rows[i].opcode) != rows[i].hit)
			fail_msg("%s, opcode 0x%x", rows[i].rule, rows[i].opcode);
	}
}

static void a_firing_is_a_rule_again(void **state)
{
	static const struct {
		const char *rule, *firing;
		uint64_t qp, n, value[2];
	} rows[] = {
		{"out SEND chance 1%: drop", "out SEND qp 2 nth 57: drop", 2, 57, {0}},
		{"out SEND qp 1..9 every 3: delay 1us..2us", "out SEND qp 2 nth 6: delay 1500ns", 2, 6, {1500}},
		{"out repeats chance 1%: corrupt",
		 "out qp 1 repeats nth 4: corrupt payload bit 9",
		 1,
		 4,
		 {PART_PAYLOAD, 9}},
		{"out device mlx5_3 while RTS every 2: drop", "out device mlx5_3 qp 1 nth 4: drop", 1, 4, {0}},
		{"call ibv_reg_mr: refuse ENOMEM", "call ibv_reg_mr nth 1: refuse ENOMEM", 0, 1, {ENOMEM}},
		{"mad in REQ nth 1..4: reject 28", "mad in REQ nth 3: reject 28", 0, 3, {28}},
		{"in WRITE chance 1%: last-first 1us..2us", "in WRITE qp 2 nth 3: last-first 1500ns", 2, 3, {1500}},
		{"post SEND every 2: delay 1ms", "post SEND qp 2 nth 4: delay 1000000ns", 2, 4, {1000000}},
		{"call ibv_req_notify_cq every 3: wake", "call ibv_req_notify_cq nth 3: wake", 0, 3, {0}},
		{"memory remote region 2 every 2: refuse", "memory remote region 2 qp 1 nth 4: refuse", 1, 4, {0}},
		{"memory READ nth 1..9: revoke", "memory READ qp 1 nth 3: revoke", 1, 3, {0}},
		{"time after 1ms: port-down", "time after 1000000ns: port-down", 0, 1, {UINT64_MAX}},
	};
	struct rule_error error;
	struct rule rule;
	char text[RULE_REPLAYED];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(rule_parse(&rule, rows[i].rule, &error), 0);
		rule_write(text, sizeof(text), &rule, rows[i].qp, rows[i].n, rows[i].value);
		assert_string_equal(text, rows[i].firing);
		assert_int_equal(rule_parse(&rule, text, &error), 0);
	}
}

static void lines_semicolons_and_comments_divide_rules(void **state)
{
	const char *text = "# all\n out: drop ; in: drop # why\n\n;;mad: drop", *at = text;
	char rule[RULE_TEXT], line[RULE_TEXT + 8];

	assert_int_equal(rule_next(&at, rule), 1);
	assert_string_equal(rule, "out: drop");
	assert_int_equal(rule_next(&at, rule), 1);
	assert_string_equal(rule, "in: drop");
	assert_int_equal(rule_next(&at, rule), 1);
	assert_string_equal(rule, "mad: drop");
	assert_int_equal(rule_next(&at, rule), 0);
	memset(line, 'a', sizeof(line) - 1);
	line[sizeof(line) - 1] = 0;
	at = line;
	assert_int_equal(rule_next(&at, rule), -E2BIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_that_make_sense_are_taken),
		cmocka_unit_test(others_are_refused_with_the_word_and_the_reason),
		cmocka_unit_test(the_caret_stands_under_the_word),
		cmocka_unit_test(a_class_names_its_opcodes),
		cmocka_unit_test(a_firing_is_a_rule_again),
		cmocka_unit_test(lines_semicolons_and_comments_divide_rules),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
