/* SPDX-License-Identifier: BSD-2-Clause */
/* Outcomes as a table for people, as TAP, and as JSON. */
#include <stdio.h>
#include <string.h>

#include "conform.h"

static const char *const words[] = {"untried", "right", "unusual", "not offered", "wrong"};
_Static_assert(COUNT(words) == VERDICTS, "each verdict has its word");

/* Prints text within 80 columns, the following lines with that indentation. */
static void wrap(const char *text, int indent)
{
	int room = 79 - indent;

	while (*text) {
		int n = (int)strlen(text);

		if (n > room) {
			for (n = room; n > room / 2 && text[n] != ' '; n--)
				;
			n = text[n] == ' ' ? n : room;
		}
		printf("%*s%.*s\n", indent, "", n, text);
		text += n + (text[n] == ' ');
	}
}

static void explain(const struct rule *rule, const struct outcome *o)
{
	printf("%-11s  %s\n", words[o->verdict], rule->id);
	if (o->verdict == LACKING || o->verdict == RIGHT) {
		wrap(o->seen, 13);
		return;
	}
	wrap(rule->does, 13);
	printf("             expected: ");
	wrap(rule->expects, 0);
	printf("             seen:     ");
	wrap(o->seen, 0);
	printf("             by:       %s\n", rule->source);
}

static void print_json_text(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		if ((unsigned char)*text >= ' ')
			putchar(*text);
	}
	putchar('"');
}

static void print_json(const struct rule *rule, const struct outcome *o)
{
	const char *const fields[][2] = {{"rule", rule->id},	     {"verdict", words[o->verdict]},
					 {"seen", o->seen},	     {"does", rule->does},
					 {"expects", rule->expects}, {"source", rule->source}};

	for (size_t i = 0; i < COUNT(fields); i++) {
		printf("%s\"%s\": ", i ? ", " : "{", fields[i][0]);
		print_json_text(fields[i][1]);
	}
	printf(", \"ms\": %u}\n", o->ms);
}

static void print_tap(unsigned number, const struct rule *rule, const struct outcome *o)
{
	printf("%s %u - %s: %s", o->verdict == WRONG ? "not ok" : "ok", number, rule->id, rule->expects);
	if (o->verdict == LACKING)
		printf(" # SKIP not offered: %s", o->seen);
	printf("\n");
	if (o->verdict == WRONG || o->verdict == UNUSUAL)
		printf("# %s: %s (%s)\n", words[o->verdict], o->seen, rule->source);
}

struct count {
	unsigned of[VERDICTS];
};

static void print_count(const char *name, int length, const struct count *c)
{
	printf("%-30.*s %8u %8u %12u %8u\n", length, name, c->of[RIGHT], c->of[UNUSUAL], c->of[LACKING], c->of[WRONG]);
}

/* One line for each family. */
static void print_families(struct outcome **outcomes, struct count *all)
{
	char family[sizeof(((struct rule *)0)->id)] = "";
	struct count count = {0};
	struct rule rule;

	printf("%-30s %8s %8s %12s %8s\n", "rules", "right", "unusual", "not offered", "wrong");
	for (unsigned g = 0; g < group_count; g++) {
		for (unsigned i = 0; i < groups[g]->count; i++) {
			if (!outcomes[g][i].verdict)
				continue;
			rule_of(groups[g], i, &rule);
			if (*family && ((int)strlen(family) != family_length(rule.id) ||
					strncmp(family, rule.id, strlen(family)) != 0)) {
				print_count(family, 30, &count);
				memset(&count, 0, sizeof(count));
			}
			snprintf(family, sizeof(family), "%.*s", family_length(rule.id), rule.id);
			count.of[outcomes[g][i].verdict]++;
			all->of[outcomes[g][i].verdict]++;
		}
	}
	if (*family)
		print_count(family, 30, &count);
	print_count("all", 30, all);
}

unsigned report(enum format format, struct outcome **outcomes, const char *device, bool everything)
{
	struct count all = {0};
	unsigned number = 0;
	struct rule rule;

	if (format == TAP)
		printf("TAP version 13\n# device %s\n", device);
	for (unsigned g = 0; g < group_count; g++) {
		for (unsigned i = 0; i < groups[g]->count; i++) {
			const struct outcome *o = &outcomes[g][i];

			if (!o->verdict)
				continue;
			rule_of(groups[g], i, &rule);
			number++;
			all.of[o->verdict]++;
			if (format == TAP)
				print_tap(number, &rule, o);
			else if (format == JSON)
				print_json(&rule, o);
			else if (everything || o->verdict == WRONG || o->verdict == UNUSUAL)
				explain(&rule, o);
		}
	}
	if (format == TAP)
		printf("1..%u\n", number);
	if (format == TABLE) {
		memset(&all, 0, sizeof(all));
		printf("device %s\n", device);
		print_families(outcomes, &all);
	}
	return all.of[WRONG];
}
