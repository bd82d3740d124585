/* SPDX-License-Identifier: BSD-2-Clause */
/* Any text: each rule in it parses or is refused at a place within it, and a firing of one that parses is a rule.
 * Seeds: corpus/fault, made by fault-seeds.py. */
#include <stdlib.h>
#include <string.h>

#include "fault/rule_parse.h"
#include "fault/rule_text.h"
#include "require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_one_rule(const char *text)
{
	struct rule_error error;
	struct rule rule, again;
	char out[4 * RULE_TEXT];
	uint64_t value[2];

	if (rule_parse(&rule, text, &error)) {
		require(error.at <= strlen(text) && *error.text);
		rule_complain(out, sizeof(out), text, &error);
		return;
	}
	memcpy(value, rule.value, sizeof(value));
	if (rule.action == DO_CORRUPT && value[1] == UINT64_MAX)
		value[1] = 0;
	rule_write(out, sizeof(out), &rule, rule.event == RULE_CALL || rule.event == RULE_MAD ? 0 : rule.qp.from, 1,
		   value);
	require(strlen(out) >= RULE_TEXT || rule.event == RULE_TIME || !rule_parse(&again, out, &error));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), rule[RULE_TEXT];
	const char *at = text;

	memcpy(text, data, size);
	text[size] = 0;
	while (rule_next(&at, rule) > 0)
		fuzz_one_rule(rule);
	free(text);
	return 0;
}
