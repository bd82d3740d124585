// SPDX-License-Identifier: BSD-2-Clause
#include "base/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"

static int lowest_free(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

static void pair(int s[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s), 0);
}

static void descriptors_come_in_order(void **state)
{
	int s[2], sent[3], came[5];
	struct stat a, b;
	char text[8];

	pair(s);
	for (int i = 0; i < 3; i++)
		sent[i] = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(rights_send(s[0], "text", 4, sent, 3), 0);
	assert_int_equal(rights_receive(s[1], text, sizeof(text), 0, came, 5), 4);
	for (int i = 0; i < 3; i++) {
		assert_true(!fstat(sent[i], &a) && !fstat(came[i], &b));
		assert_int_equal(a.st_ino, b.st_ino);
		assert_true(fcntl(came[i], F_GETFD) & FD_CLOEXEC);
		close(sent[i]);
		close(came[i]);
	}
	assert_true(came[3] == -1 && came[4] == -1);
	assert_int_equal(rights_send(s[0], "", 1, NULL, 0), 0);
	assert_int_equal(rights_receive(s[1], text, sizeof(text), 0, came, 1), 1);
	assert_int_equal(came[0], -1);
	assert_int_equal(rights_receive(s[1], text, sizeof(text), MSG_DONTWAIT, came, 1), -EAGAIN);
	close(s[0]);
	assert_int_equal(rights_receive(s[1], text, sizeof(text), 0, came, 1), 0);
	assert_int_equal(rights_send(s[1], "", 1, NULL, 0), -EPIPE);
	close(s[1]);
}

/* More descriptors than are expected, in all numbers; or more bytes. */
static void nothing_stays_open_of_what_is_refused(void **state)
{
	int s[2], sent[RIGHTS_MOST], came[RIGHTS_MOST], before;
	char text[8];

	pair(s);
	before = lowest_free();
	for (unsigned most = 0; most < RIGHTS_MOST; most++)
		for (unsigned count = 1; count <= RIGHTS_MOST; count++) {
			bool fits = count <= most;

			for (unsigned i = 0; i < count; i++)
				sent[i] = s[0];
			assert_int_equal(rights_send(s[0], "longer text", fits ? 11 : 8, sent, count), 0);
			assert_int_equal(rights_receive(s[1], text, sizeof(text), 0, came, most), -EBADMSG);
			for (unsigned i = 0; i < most; i++)
				assert_int_equal(came[i], -1);
			assert_int_equal(lowest_free(), before);
		}
	close(s[0]);
	close(s[1]);
}

static void only_an_eventfd_that_does_not_block_is_a_doorbell(void **state)
{
	int s[2], pipes[2];
	struct {
		int fd;
		bool is;
	} rows[] = {
		{eventfd(0, EFD_NONBLOCK), true},   {eventfd(0, 0), false},
		{memfd_create("test", 0), false},   {open("/dev/zero", O_RDWR | O_NONBLOCK), false},
		{open("/", O_RDONLY | O_NONBLOCK)}, {-1, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(rights_is_doorbell(rows[i].fd), rows[i].is);
		if (rows[i].fd >= 0)
			close(rows[i].fd);
	}
	assert_int_equal(pipe2(pipes, O_NONBLOCK), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s), 0);
	for (int i = 0; i < 2; i++) {
		assert_false(rights_is_doorbell(pipes[i]) || rights_is_doorbell(s[i]));
		close(pipes[i]);
		close(s[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(descriptors_come_in_order),
		cmocka_unit_test(nothing_stays_open_of_what_is_refused),
		cmocka_unit_test(only_an_eventfd_that_does_not_block_is_a_doorbell),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
