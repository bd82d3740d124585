// SPDX-License-Identifier: BSD-2-Clause
// Users: who is this process's, also in a user namespace in which all that it does not map look the same.
#include "base/same_user.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

enum { VICTIM = 12345, OTHER = 12346 };

/* What the victim sees of another process. */
struct sight {
	bool is_there, same_number, peer, sender, file;
};
/* What is seen of a process that this one has forked, of one of another user, of the first after it has ended. */
struct view {
	bool possible;
	struct sight fellow, stranger, ended;
};

static void become(uid_t uid, bool unmapped)
{
	if (setresuid(uid, uid, uid) || (unmapped && unshare(CLONE_NEWUSER)) || prctl(PR_SET_DUMPABLE, 1))
		_exit(0);
}

/* What other processes do: they connect to each socket, and make a file. Until `until` is closed. */
static void call_both(const struct sockaddr_un *stream, const struct sockaddr_un *datagram, const char *file, int until)
{
	int a = socket(AF_UNIX, SOCK_SEQPACKET, 0), b = socket(AF_UNIX, SOCK_DGRAM, 0);
	char byte;

	if (connect(a, (const void *)stream, sizeof(*stream)) || open(file, O_CREAT | O_EXCL, 0666) < 0 ||
	    sendto(b, "", 1, 0, (const void *)datagram, sizeof(*datagram)) != 1)
		_exit(1);
	(void)!read(until, &byte, 1);
	_exit(0);
}

struct ears {
	struct sockaddr_un stream, datagram;
	char file[64];
	int listener, inbox;
};

static void open_ears(struct ears *e, pid_t number)
{
	int one = 1;

	*e = (struct ears){.stream.sun_family = AF_UNIX, .datagram.sun_family = AF_UNIX};
	snprintf(e->stream.sun_path + 1, 64, "uroce-test/same-user/%d/stream", (int)number);
	snprintf(e->datagram.sun_path + 1, 64, "uroce-test/same-user/%d/datagram", (int)number);
	snprintf(e->file, sizeof(e->file), "/tmp/uroce-same-user-%d", (int)number);
	e->listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	e->inbox = socket(AF_UNIX, SOCK_DGRAM, 0);
	if (setsockopt(e->inbox, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) ||
	    bind(e->listener, (void *)&e->stream, sizeof(e->stream)) || listen(e->listener, 9) ||
	    bind(e->inbox, (void *)&e->datagram, sizeof(e->datagram)))
		_exit(0);
}

static struct ucred receive(int fd)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))];
	char byte;
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct ucred who = {0};

	if (recvmsg(fd, &m, 0) == 1 && CMSG_FIRSTHDR(&m))
		memcpy(&who, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(who));
	return who;
}

static struct sight look(const struct ears *e, int *connection)
{
	struct sight s = {0};
	struct ucred peer, sender;
	struct stat st;
	int file;

	*connection = accept(e->listener, NULL, NULL);
	sender = receive(e->inbox);
	file = open(e->file, O_RDONLY);
	s.is_there = *connection >= 0 && file >= 0;
	s.peer = same_user_peer(*connection, &peer);
	s.sender = same_user_sender(&sender);
	s.file = same_user_file(file, &st);
	s.same_number = peer.uid == geteuid() && sender.uid == geteuid() && st.st_uid == geteuid();
	close(file);
	return s;
}

static void be_victim(int tell, bool unmapped)
{
	struct view v = {.possible = true};
	struct ears of_fellow, of_stranger;
	int until[2], connection, memory;
	struct stat st;
	pid_t pid[2];

	if (pipe(until))
		_exit(0);
	open_ears(&of_stranger, getpid() * 2);
	open_ears(&of_fellow, getpid() * 2 + 1);
	unlink(of_fellow.file);
	unlink(of_stranger.file);
	pid[0] = fork();
	if (pid[0] == 0) {
		close(until[1]);
		become(OTHER, unmapped);
		call_both(&of_stranger.stream, &of_stranger.datagram, of_stranger.file, until[0]);
	}
	become(VICTIM, unmapped);
	pid[1] = fork();
	if (pid[1] == 0) {
		close(until[1]);
		call_both(&of_fellow.stream, &of_fellow.datagram, of_fellow.file, until[0]);
	}
	v.fellow = look(&of_fellow, &connection);
	close(until[1]);
	waitpid(pid[1], NULL, 0);
	v.ended.is_there = true;
	v.ended.peer = same_user_peer(connection, NULL);
	v.stranger = look(&of_stranger, &connection);
	memory = memfd_create("test", MFD_CLOEXEC);
	v.fellow.file &= same_user_file(memory, &st);
	unlink(of_fellow.file);
	if (write(tell, &v, sizeof(v)) != sizeof(v))
		_exit(1);
	_exit(0);
}

static struct view victim_view(bool unmapped)
{
	struct view v = {0};
	char file[64];
	int tell[2];
	pid_t pid;

	assert_int_equal(pipe(tell), 0);
	pid = fork();
	if (pid == 0)
		be_victim(tell[1], unmapped);
	close(tell[1]);
	if (read(tell[0], &v, sizeof(v)) != sizeof(v))
		v.possible = false;
	close(tell[0]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	for (int i = 0; i < 2; i++) {
		snprintf(file, sizeof(file), "/tmp/uroce-same-user-%d", (int)pid * 2 + i);
		unlink(file);
	}
	return v;
}

static bool is_told_by_the_kernel(void)
{
	int fd[2], process;
	socklen_t size = sizeof(process);
	bool told;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd), 0);
	told = !getsockopt(fd[0], SOL_SOCKET, SO_PEERPIDFD, &process, &size);
	close(fd[0]);
	close(fd[1]);
	return told;
}

static void users_have_numbers(void **state)
{
	struct view v = victim_view(false);

	if (!v.possible)
		return; /* skip() of cmocka is a failure to meson */
	assert_true(v.fellow.is_there && v.fellow.same_number);
	assert_true(v.fellow.peer && v.fellow.sender && v.fellow.file && v.ended.peer);
	assert_true(v.stranger.is_there && !v.stranger.same_number);
	assert_false(v.stranger.peer || v.stranger.sender || v.stranger.file);
}

static void unmapped_users_share_a_number_and_nothing_else(void **state)
{
	struct view v = victim_view(true);

	if (!v.possible)
		return; /* skip() of cmocka is a failure to meson */
	assert_true(v.fellow.is_there && v.fellow.same_number);
	assert_true(v.fellow.sender && v.fellow.file);
	assert_int_equal(v.fellow.peer, is_told_by_the_kernel());
	assert_false(v.ended.peer); /* another process may have its pid */
	assert_true(v.stranger.is_there && v.stranger.same_number);
	assert_false(v.stranger.peer || v.stranger.sender || v.stranger.file);
}

static void no_connection_is_nobodys(void **state)
{
	struct ucred who;
	struct stat st;

	assert_false(same_user_peer(-1, &who) || who.pid || same_user_file(-1, &st));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(users_have_numbers),
		cmocka_unit_test(unmapped_users_share_a_number_and_nothing_else),
		cmocka_unit_test(no_connection_is_nobodys),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
