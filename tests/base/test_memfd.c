// SPDX-License-Identifier: BSD-2-Clause
#include "base/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
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
	limit.rlim_cur = 4;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	fd = memfd_new("test", MFD_CLOEXEC);
	assert_int_equal(memfd_fill(fd, "12345", 5), -EFBIG);
	assert_int_equal(memfd_fill(fd, "1234", 4), 0);
	close(fd);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
}

static void nobody_changes_its_size(void **state)
{
	int fd = memfd_of_size("test", 0, 65536);

	assert_int_equal(ftruncate(fd, 4096), -1);
	assert_int_equal(ftruncate(fd, 1 << 20), -1);
	assert_true(memfd_is_fixed(fd, 65536));
	assert_false(memfd_is_fixed(fd, 65537));
	close(fd);
	assert_false(memfd_is_fixed(fd, 65536));
	fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, 65536), 0);
	assert_false(memfd_is_fixed(fd, 65536));
	close(fd);
}

/* There may be none when they are accessed. */
static void huge_pages_have_no_fixed_memory(void **state)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
	struct stat st;

	if (fd < 0)
		return; /* a kernel without hugetlbfs; skip() of cmocka is a failure to meson */
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(ftruncate(fd, st.st_blksize), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	assert_false(memfd_is_fixed(fd, (uint64_t)st.st_blksize));
	close(fd);
}

static void who_has_mapped_it_goes_on_to_write(void **state)
{
	int fd = memfd_of_size("test", MFD_ALLOW_SEALING, 65536);
	char *at = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), byte = 1;

	assert_ptr_not_equal(at, MAP_FAILED);
	assert_int_equal(memfd_end_writes(fd), 0);
	at[5] = 42;
	assert_int_equal(pread(fd, &byte, 1, 5), 1);
	assert_int_equal(byte, 42);
	assert_int_equal(pwrite(fd, &byte, 1, 6), -1);
	assert_ptr_equal(mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	munmap(at, 65536);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_has_its_size),
		cmocka_unit_test(a_limit_to_files_is_an_error_and_no_signal),
		cmocka_unit_test(nobody_changes_its_size),
		cmocka_unit_test(huge_pages_have_no_fixed_memory),
		cmocka_unit_test(who_has_mapped_it_goes_on_to_write),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
