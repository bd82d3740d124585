/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs a suite by each CRC engine, the best on this machine or not. Those that it lacks are skipped, by name. */
#ifndef UROCE_TESTS_ENGINES_H
#define UROCE_TESTS_ENGINES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "wire/crc.h"

static crc_function *engine_selected; /* by the library */

static inline int engine_use(void **state)
{
	crc_best = ((const struct crc_engine *)*state)->find();
	return 0;
}

static inline int engine_restore(void **state)
{
	crc_best = engine_selected;
	return 0;
}

/* cmocka's skip() prints "not ok", which meson takes for a failure. */
static inline void engine_is_not_here(void **state)
{
	print_message("# skipped: this machine lacks it\n");
}

static inline struct CMUnitTest engine_test(const struct CMUnitTest *test, const struct crc_engine *e)
{
	char *name = NULL;

	if (asprintf(&name, "%s, by %s", test->name, e->name) < 0)
		abort();
	if (!e->find())
		return (struct CMUnitTest){.name = name, .test_func = engine_is_not_here};
	return (struct CMUnitTest){name, test->test_func, engine_use, engine_restore, (void *)(uintptr_t)e};
}

/* The names live as long as the process. Returns the number of failed tests. */
static inline int engines_run(const struct CMUnitTest *tests, size_t count, CMFixtureFunction begin)
{
	struct CMUnitTest *all = calloc(count * crc_engine_count, sizeof(*all));
	size_t n = 0;
	int failed;

	crc_init();
	engine_selected = crc_best;
	for (const struct crc_engine *e = crc_engines; e < crc_engines + crc_engine_count; e++)
		for (size_t i = 0; i < count; i++)
			all[n++] = engine_test(&tests[i], e);
	failed = _cmocka_run_group_tests("by each CRC engine", all, n, begin, NULL);
	free(all);
	return failed;
}

#endif
