/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/run/rules.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "fault/rule_parse.h"
#include "fault/rule_text.h"
#include "tools/command.h"

bool rules_add(const struct command *command, const char *given)
{
	char line[RULE_TEXT], complaint[3 * RULE_TEXT], *all = NULL, *text = rules_read(given);
	const char *before = config_string(CONFIG_FAULT), *at = text;
	struct rule_error error;
	struct rule rule;
	int more = -1;

	if (!text) {
		complain(command, "%s: %s", given + (*given == '@'), strerror(errno));
		return false;
	}
	while ((more = rule_next(&at, line)) > 0 && !rule_parse(&rule, line, &error))
		;
	if (more > 0)
		rule_complain(complaint, sizeof(complaint), line, &error);
	if (more)
		complain(command, "%s", more > 0 ? complaint : "a rule is too long");
	if (!more)
		more = asprintf(&all, "%s%s%s", before ? before : "", before ? "\n" : "", text) < 0 ||
		       setenv("UROCE_FAULT", all, 1);
	free(all);
	free(text);
	return !more;
}
