/* SPDX-License-Identifier: BSD-2-Clause */
/* What a program can ask of uroce itself: uroce.h, which says what each function does. */
#define UROCE_IMPLEMENTS
#include "uroce.h"

#include <stdio.h>

#include "fault/inject.h"
#include "fault/rule_text.h"
#include "device/faults.h"
#include "device/front.h"
#include "device/link_set.h"

PUBLIC const char *uroce_version(void)
{
	return UROCE_VERSION;
}

PUBLIC int uroce_fault_add(const char *text, char *why, size_t room)
{
	struct rule_error error = {.text = "UROCE_FAULT of this process does not parse"};
	char ignored[1];
	int number = faults_read();

	if (!why || !room) {
		why = ignored;
		room = sizeof(ignored);
	}
	*why = 0;
	if (!number)
		number = inject_add(text, &error);
	if (number == -EINVAL)
		rule_complain(why, room, text, &error);
	else if (number == -ENOSPC)
		snprintf(why, room, "there are as many rules as there is room for, %d: remove some", INJECT_RULES);
	return number;
}

PUBLIC int uroce_fault_remove(int number)
{
	return inject_remove(number);
}

PUBLIC int uroce_fault_clear(void)
{
	inject_clear();
	return 0;
}

struct listing {
	uroce_fault_show *show;
	void *arg;
	int count;
};

static void list_rule(void *arg, int number, const char *text, uint64_t could, uint64_t did)
{
	struct listing *l = arg;

	l->count++;
	if (l->show)
		l->show(l->arg, number, text, could, did);
}

PUBLIC int uroce_fault_list(uroce_fault_show *show, void *arg)
{
	struct listing l = {show, arg, 0};

	faults_read();
	inject_list(list_rule, &l);
	return l.count;
}

PUBLIC int64_t uroce_fault_fired(int number)
{
	return inject_fired(number);
}

PUBLIC int64_t uroce_fault_seed(void)
{
	faults_read();
	return (int64_t)inject_seed();
}

PUBLIC int uroce_link_down(const char *device)
{
	return uroce_link_set(device, false);
}

PUBLIC int uroce_link_up(const char *device)
{
	return uroce_link_set(device, true);
}
