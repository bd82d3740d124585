// SPDX-License-Identifier: BSD-2-Clause
#include "base/memfd.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void it_has_its_size(void **state)
{
	int fd = memfd_of_size("test", 0, 123456);
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 123456);
	close(fd);
}

static void a_limit_to_files_is_an_error_and_no_signal(void **state)
{
	struct rlimit old, limit;
	int fd;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	limit = (struct rlimit){65536, old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(memfd_of_size("test", 0, 65537), -EFBIG);
	fd = memfd_of_size("test", 0, 65536);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_has_its_size),
		cmocka_unit_test(a_limit_to_files_is_an_error_and_no_signal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
