/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors of our own stand above the program's. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/high_fd.h"

/* Later that would hold up a program that has threads. */
static void there_is_room_for_them_before_main(void **state)
{
	FILE *status = fopen("/proc/self/status", "re");
	char line[256];
	unsigned room = 0;

	assert_non_null(status);
	while (fgets(line, sizeof(line), status))
		if (sscanf(line, "FDSize: %u", &room) == 1)
			break;
	fclose(status);
	assert_true(room > 512);
}

static void the_program_keeps_its_low_numbers(void **state)
{
	int fd = eventfd(0, 0), moved = high_fd(fd);

	assert_true(fd >= 0 && moved >= 512);
	assert_int_equal(fcntl(moved, F_GETFD), FD_CLOEXEC);
	assert_int_equal(eventfd(0, 0), fd);
	close(fd);
	close(moved);
	assert_int_equal(high_fd(-1), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_is_room_for_them_before_main),
		cmocka_unit_test(the_program_keeps_its_low_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
