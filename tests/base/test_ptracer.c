/* SPDX-License-Identifier: BSD-2-Clause */
/* Who is let in where Yama is at work; prctl() is this file's, as the machine may have no Yama. */
#include "base/ptracer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include <cmocka.h>

static int calls;
static unsigned long named;

int prctl(int option, ...)
{
	va_list args;

	va_start(args, option);
	calls += option == PR_SET_PTRACER;
	named = va_arg(args, unsigned long);
	va_end(args);
	return 0;
}

static void nobody_is_let_in_unasked(void **state)
{
	unsetenv("UROCE_PTRACER");
	ptracer_allow();
	setenv("UROCE_PTRACER", "off", 1);
	ptracer_allow();
	assert_int_equal(calls, 0);
}

static void all_of_the_user_are_if_they_are_to(void **state)
{
	setenv("UROCE_PTRACER", "any", 1);
	ptracer_allow();
	assert_int_equal(calls, 1);
	assert_true(named == PR_SET_PTRACER_ANY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_is_let_in_unasked),
		cmocka_unit_test(all_of_the_user_are_if_they_are_to),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
