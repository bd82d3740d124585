/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/rule_text.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault/rule_words.h"

#define FILE_LARGEST 65536 /* max bytes of a file of rules */

void rule_complain(char *out, size_t room, const char *text, const struct rule_error *error)
{
	static const char carets[] = "^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^";

	snprintf(out, room, "%s\n  %s\n  %*s%.*s", error->text, text, (int)error->at, "",
		 (int)min_of(error->length, (uint32_t)sizeof(carets) - 1), carets);
}

int rule_next(const char **at, char out[RULE_TEXT])
{
	const char *s = *at;
	size_t n;

	for (;;) {
		s += strspn(s, " \t\r\n;");
		if (*s != '#')
			break;
		s += strcspn(s, "\n");
	}
	n = strcspn(s, ";\n#");
	*at = s + n;
	while (n && isspace((unsigned char)s[n - 1]))
		n--;
	if (n >= RULE_TEXT)
		return -E2BIG;
	memcpy(out, s, n);
	out[n] = 0;
	return n > 0;
}

char *rules_read(const char *given)
{
	char *text;
	ssize_t n;
	int fd;

	if (*given != '@')
		return strdup(given);
	fd = open(given + 1, O_RDONLY | O_CLOEXEC);
	text = fd < 0 ? NULL : calloc(1, FILE_LARGEST);
	n = text ? read(fd, text, FILE_LARGEST - 1) : -1;
	if (n < 0) {
		free(text);
		text = NULL;
	}
	if (fd >= 0)
		close(fd);
	return text;
}

/* Writes the action with the values that were decided. As snprintf(). */
static int write_action(char *out, size_t room, const struct rule *r, const uint64_t value[2])
{
	const char *name = rule_action_name[r->action];
	unsigned long long number = value[0];

	switch (r->action) {
	case DO_DELAY:
	case DO_LAST_FIRST:
	case DO_STOP:
		return snprintf(out, room, "%s %lluns", name, number);
	case DO_PORT_DOWN:
	case DO_GID_GONE:
		return number == UINT64_MAX ? snprintf(out, room, "%s", name)
					    : snprintf(out, room, "%s %lluns", name, number);
	case DO_CORRUPT:
		if (value[0] == PART_ICRC)
			return snprintf(out, room, "%s icrc", name);
		return snprintf(out, room, "%s %s bit %llu", name, rule_word_of(&rule_parts, value[0]),
				(unsigned long long)value[1]);
	case DO_NAK:
		return snprintf(out, room, "%s %s", name, rule_word_of(&rule_naks, value[0]));
	case DO_REFUSE:
		if (r->event == RULE_ONESIDED || r->event == RULE_MEMORY)
			return snprintf(out, room, "%s", name);
		return snprintf(out, room, "%s %s", name, rule_word_of(&rule_errnos, value[0]));
	case DO_STATUS:
		return snprintf(out, room, "%s %s", name, rule_word_of(&rule_statuses, value[0]));
	case DO_REORDER:
	case DO_TRUNCATE:
	case DO_RATE:
	case DO_RNR:
	case DO_REJECT:
		return snprintf(out, room, "%s %llu", name, number);
	default:
		return snprintf(out, room, "%s", name);
	}
}

int rule_write(char *out, size_t room, const struct rule *rule, uint64_t qp, uint64_t count, const uint64_t value[2])
{
	int at = snprintf(out, room, "%s", rule->what);

	if (qp)
		at += snprintf(out + at, room - (size_t)at, " qp %llu", (unsigned long long)qp);
	if (rule->event == RULE_TIME)
		at += snprintf(out + at, room - (size_t)at, " after %lluns", (unsigned long long)rule->between.from);
	else
		at += snprintf(out + at, room - (size_t)at, "%s nth %llu",
			       rule->repeats && rule->event == RULE_PACKET ? " repeats" : "",
			       (unsigned long long)count);
	at += snprintf(out + at, room - (size_t)at, ": ");
	return at + write_action(out + at, room - (size_t)at, rule, value);
}
