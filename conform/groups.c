/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of groups. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "conform.h"

extern struct group soak_group, death_group, threads_group, litmus_group, cm6_group, steps_group, messages_group,
	longest_group, cm_group, order_group, datagrams_group, rights_group, memory_group, queues_group, create_group,
	limits_group, psn_group, status_group, access_group, data_group, modify_group, values_group, states_group;

struct group *const groups[] = {&modify_group,	&values_group,	 &states_group,	   &data_group,	  &access_group,
				&status_group,	&psn_group,	 &create_group,	   &limits_group, &queues_group,
				&rights_group,	&memory_group,	 &datagrams_group, &order_group,  &litmus_group,
				&threads_group, &messages_group, &cm_group,	   &cm6_group,	  &steps_group,
				&death_group,	&longest_group,	 &soak_group};
const unsigned group_count = COUNT(groups);

void groups_count(void)
{
	for (unsigned g = 0; g < group_count; g++) {
		groups[g]->count = groups[g]->counted ? groups[g]->counted() : 0;
		while (groups[g]->rows && groups[g]->rows[groups[g]->count].id)
			groups[g]->count++;
	}
}

void rule_of(const struct group *group, unsigned i, struct rule *rule)
{
	const struct row *row = group->rows ? &group->rows[i] : NULL;

	memset(rule, 0, sizeof(*rule));
	if (!row) {
		group->rule(i, rule);
		return;
	}
	snprintf(rule->id, sizeof(rule->id), "%s/%s", group->name, row->id);
	rule->source = row->source;
	snprintf(rule->does, sizeof(rule->does), "%s", row->does);
	snprintf(rule->expects, sizeof(rule->expects), "%s", row->expects);
}

int family_length(const char *id)
{
	const char *first = strchr(id, '/'), *second = first ? strchr(first + 1, '/') : NULL;

	return (int)((second ?: first ?: id + strlen(id)) - id);
}

bool is_wanted(const struct group *group, const struct rule *rule)
{
	if (!options.only_count)
		return !group->is_long || options.long_too;
	for (unsigned i = 0; i < options.only_count; i++)
		if (!strncmp(rule->id, options.only[i], strlen(options.only[i])) ||
		    !fnmatch(options.only[i], rule->id, 0))
			return true;
	return false;
}
