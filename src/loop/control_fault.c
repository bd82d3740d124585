/* SPDX-License-Identifier: BSD-2-Clause */
#include "loop/control_fault.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/memfd.h"
#include "fault/inject.h"
#include "fault/rule_text.h"

static void print_rule(void *out, int number, const char *text, uint64_t could, uint64_t did)
{
	fprintf(out, "%d %" PRIu64 " %" PRIu64 " %s\n", number, could, did, text);
}

static int list_rules(const char *argument, char *answer, size_t room, int *give)
{
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);
	int fd = -ENOMEM, err;

	(void)argument, (void)answer, (void)room;
	if (!out)
		return -ENOMEM;
	inject_list(print_rule, out);
	if (!fclose(out))
		fd = memfd_of_size("uroce-faults", 0, length);
	err = fd < 0 ? fd : memfd_fill(fd, text, length);
	free(text);
	*give = max_of(fd, -1);
	return err;
}

static int add_rule(const char *rule, char *answer, size_t room, int *give)
{
	struct rule_error error = {.text = "UROCE_FAULT of this process does not parse"};
	int number;

	(void)give;
	if (strlen(rule) >= RULE_TEXT) {
		snprintf(answer, room, "a rule has at most %d characters", RULE_TEXT - 1);
		return -EINVAL;
	}
	number = inject_add(rule, &error);
	if (number == -EINVAL)
		rule_complain(answer, room, rule, &error);
	else if (number == -ENOSPC)
		snprintf(answer, room, "there are as many rules as there is room for; remove some");
	else if (number > 0)
		snprintf(answer, room, "%d", number);
	return min_of(number, 0);
}

static int remove_rule(const char *argument, char *answer, size_t room, int *give)
{
	int err = inject_remove(atoi(argument));

	(void)give;
	if (err)
		snprintf(answer, room, "no rule in force has the number '%s'", argument);
	return err;
}

static int clear_rules(const char *argument, char *answer, size_t room, int *give)
{
	(void)argument, (void)answer, (void)room, (void)give;
	inject_clear();
	return 0;
}

int control_fault(const char *argument, char *answer, size_t room, int *give)
{
	static const struct {
		const char *word;
		int (*begin)(const char *argument, char *answer, size_t room, int *give);
	} words[] = {{"list", list_rules}, {"add", add_rule}, {"remove", remove_rule}, {"clear", clear_rules}};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t n = strlen(words[i].word);

		if (!strncmp(argument, words[i].word, n) && (!argument[n] || argument[n] == ' '))
			return words[i].begin(argument + n + (argument[n] == ' '), answer, room, give);
	}
	snprintf(answer, room, "it knows list, add, remove and clear, not '%.64s'", argument);
	return -EINVAL;
}
