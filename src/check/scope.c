/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/scope.h"

#include "base/hooks.h"

static bool wanted[CHECK_CLASSES];

static _Thread_local uint32_t paused;

bool check_is_through;

bool check_wants(enum check_class class)
{
	return wanted[class];
}

bool check_is_paused(void)
{
	return paused || !hook_is_on(HOOK_CHECK);
}

void check_pause(void)
{
	paused++;
}

void check_resume(void)
{
	paused--;
}

void check_want(enum check_class class, bool is_wanted)
{
	wanted[class] = is_wanted;
}
