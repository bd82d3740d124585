/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/leaks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/lock.h"
#include "check/finding.h"
#include "check/objects.h"
#include "check/scope.h"

/* Objects of one kind from one place. */
struct group {
	enum check_kind kind;
	const struct stack *made;
	uint64_t count, bytes;
};

static void add_to_group(struct group **groups, size_t *count, const struct object *o)
{
	struct group *g = *groups, *more;
	size_t i;

	for (i = 0; i < *count; i++)
		if (g[i].kind == o->kind && g[i].made == o->made)
			break;
	if (i == *count) {
		more = reallocarray(*groups, *count + 1, sizeof(**groups));
		if (!more)
			return;
		*groups = more;
		more[(*count)++] = (struct group){o->kind, o->made, 0, 0};
	}
	(*groups)[i].count++;
	(*groups)[i].bytes += o->size;
}

static void report_group(const struct group *g)
{
	struct finding f = {.class = CHECK_LEAKS, .name = check_kinds[g->kind].leak, .amount = g->count};
	char remedy[128];
	bool one = g->count == 1;
	int n = snprintf(f.text, sizeof(f.text), "%" PRIu64 " %s left at the end", g->count,
			 one ? check_kinds[g->kind].one : check_kinds[g->kind].many);

	if (g->kind == CHECK_MR)
		snprintf(f.text + n, sizeof(f.text) - (size_t)n, ", with %" PRIu64 " bytes", g->bytes);
	snprintf(remedy, sizeof(remedy), "%s for each that is no longer needed", check_kinds[g->kind].destroy);
	f.remedy = remedy;
	f.at[0].title = check_kinds[g->kind].made;
	f.at[0].stack = g->made;
	finding_report(&f);
}

void leaks_report(void)
{
	struct group *groups = NULL;
	size_t count = 0;

	if (!check_wants(CHECK_LEAKS))
		return;
	lock_take(&objects_lock);
	for (const struct object *o = objects_next(NULL); o; o = objects_next(o))
		add_to_group(&groups, &count, o);
	lock_drop(&objects_lock);
	for (size_t i = 0; i < count; i++)
		report_group(&groups[i]);
	free(groups);
}
