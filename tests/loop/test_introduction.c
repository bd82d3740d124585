// SPDX-License-Identifier: BSD-2-Clause
// Two processes meet: a greeting brings descriptors, and anything else that comes does no harm.
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/callers.h"
#include "host/introduction.h"
#include "host/name.h"
#include "host/slot.h"
#include "loop/netns.h"
#include "loop/squatter.h"

enum { SLOT = 7, OTHER = 9 };

static const struct greeting good = {.magic = GREETING_MAGIC, .bytes = sizeof(good), .slot = OTHER, .probe = 0x1234};

static int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static uint64_t inode(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_ino;
}

static void a_greeting_brings_descriptors(void **state)
{
	int before = descriptors(), listener = introduction_listen(SLOT), memory = memfd_create("a", 0),
	    tables = memfd_create("b", 0), bell = eventfd(0, EFD_NONBLOCK);

	assert_true(listener >= 0);
	for (int with = 0; with < 2; with++) {
		struct greeting g = good;
		int fd[GREETING_FDS] = {memory, with ? tables : -1, -1, with ? tables : -1, bell}, out, in;
		struct introduction got;
		pid_t pid;

		g.flags = with ? GREETING_HAS_TABLES : 0;
		out = introduction_call(SLOT, &g, fd, &pid);
		assert_true(out >= 0);
		assert_int_equal(pid, getpid());
		in = callers_accept(listener);
		assert_true(in >= 0);
		assert_int_equal(introduction_receive(in, &got), 0);
		assert_int_equal(got.greeting.slot, OTHER);
		assert_int_equal(got.greeting.probe, 0x1234);
		assert_int_equal(got.pid, getpid());
		assert_int_equal(inode(got.fd[GREETING_RING]), inode(memory));
		assert_int_equal(got.fd[GREETING_TABLES] >= 0, with);
		assert_true(got.fd[GREETING_DOORBELL] >= 0);
		introduction_close(&got);
		assert_int_equal(introduction_receive(in, &got), -EAGAIN);
		close(out);
		assert_int_equal(introduction_receive(in, &got), -EBADMSG); /* gone */
		close(in);
	}
	close(memory);
	close(tables);
	close(bell);
	close(listener);
	assert_int_equal(descriptors(), before);
}

static void who_is_not_there_is_not_met(void **state)
{
	int fd[GREETING_FDS] = {STDIN_FILENO, -1};

	assert_int_equal(introduction_call(SLOT, &good, fd, NULL), -ECONNREFUSED);
}

/* Neither by an abstract name nor by one in the folder of names, which both see. */
static void another_network_namespace_is_another_host(void **state)
{
	int fd[GREETING_FDS] = {STDIN_FILENO, -1}, listener = introduction_listen(SLOT), status;
	int named = socket(AF_UNIX, SOCK_DGRAM, 0);
	struct sockaddr_un address;
	socklen_t size = slot_address(&address, OTHER);
	pid_t pid;

	names_folder_make();
	assert_true(listener >= 0);
	assert_int_equal(name_bind_in_folder(named, &address, size), 0);
	assert_true(slot_is_alive(OTHER));
	pid = fork();
	if (pid == 0) {
		netns_enter();
		_exit(introduction_call(SLOT, &good, fd, NULL) != -ECONNREFUSED || slot_is_alive(OTHER));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(named);
	close(listener);
	names_folder_remove();
}

/* What a caller of our user may send instead: bytes with so many descriptors. */
static void send_bytes(int to, const void *bytes, size_t n, int descriptors)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * 16)] = {0};
	struct iovec iov = {(void *)bytes, n};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c = (struct cmsghdr *)control;

	if (descriptors) {
		m.msg_control = control;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)descriptors);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)descriptors);
		memset(CMSG_DATA(c), 0, sizeof(int) * (size_t)descriptors); /* standard input, again and again */
	}
	assert_int_equal(sendmsg(to, &m, 0), n);
}

static void whatever_else_is_said_is_refused_and_leaves_nothing(void **state)
{
	const struct {
		struct greeting g;
		size_t size;
		int descriptors;
	} rows[] = {
		{{.magic = GREETING_MAGIC, .bytes = sizeof(good), .slot = OTHER, .fds = 1},
		 sizeof(good),
		 1},			 /* no doorbell */
		{good, 0, 0},		 /* an empty message */
		{good, sizeof(good), 1}, /* says that none comes */
		{good, 1, 1},
		{good, sizeof(good) - 1, 1},
		{{.magic = GREETING_MAGIC, .bytes = sizeof(good), .slot = OTHER, .fds = 17}, sizeof(good), 1},
		{{.magic = GREETING_MAGIC, .bytes = sizeof(good), .slot = OTHER, .fds = 19}, sizeof(good), 2},
		{{.magic = GREETING_MAGIC, .bytes = sizeof(good), .slot = OTHER, .fds = 19}, sizeof(good), 3},
		{{.magic = GREETING_MAGIC, .bytes = sizeof(good), .slot = OTHER, .fds = 17}, sizeof(good), 3},
		{{.magic = GREETING_MAGIC, .bytes = sizeof(good), .slot = OTHER, .fds = 17}, sizeof(good), 9},
		{{.magic = GREETING_MAGIC, .bytes = sizeof(good), .slot = OTHER, .fds = 23}, sizeof(good), 4},
		{{.magic = GREETING_MAGIC,
		  .bytes = sizeof(good),
		  .slot = OTHER,
		  .fds = 17,
		  .flags = GREETING_HAS_TABLES},
		 sizeof(good),
		 2},
		{{.magic = GREETING_MAGIC,
		  .bytes = sizeof(good),
		  .slot = OTHER,
		  .fds = 19, /* without the visitors' part */
		  .flags = GREETING_HAS_TABLES},
		 sizeof(good),
		 3},
		{{.magic = 1, .bytes = sizeof(good), .slot = OTHER, .fds = 17}, sizeof(good), 2},
		{{.magic = GREETING_MAGIC, .bytes = 4, .slot = OTHER, .fds = 17}, sizeof(good), 2},
		{{.magic = GREETING_MAGIC, .bytes = sizeof(good), .slot = 0, .fds = 17}, sizeof(good), 2},
		{{.magic = GREETING_MAGIC, .bytes = sizeof(good), .slot = 2048, .fds = 17}, sizeof(good), 2},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct introduction got;
		int pair[2], before = descriptors();

		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
		send_bytes(pair[0], &rows[i].g, rows[i].size, rows[i].descriptors);
		if (introduction_receive(pair[1], &got) != -EBADMSG)
			fail_msg("row %zu was accepted", i);
		close(pair[0]);
		close(pair[1]);
		assert_int_equal(descriptors(), before);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_greeting_brings_descriptors),
		cmocka_unit_test(who_is_not_there_is_not_met),
		cmocka_unit_test(another_network_namespace_is_another_host),
		cmocka_unit_test(whatever_else_is_said_is_refused_and_leaves_nothing),
	};

	netns_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
