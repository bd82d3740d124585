/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests to a process that runs. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/control_call.h"
#include "base/trace.h"
#include "host/slot.h"
#include "loop/control.h"
#include "loop/squatter.h"

static struct control control;

static int opens(void **state)
{
	(void)state;
	return control_open(&control);
}

static int closes(void **state)
{
	(void)state;
	control_close(&control);
	return 0;
}

static int caller(void)
{
	struct sockaddr_un address;
	socklen_t size = sizeof(address);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_return_code(getsockname(control.listener, (struct sockaddr *)&address, &size), 0);
	assert_return_code(connect(fd, (struct sockaddr *)&address, size), 0);
	return fd;
}

static void await_input(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	assert_int_equal(poll(&p, 1, -1), 1);
}

static void request_is_answered(const char *request, const char *answer)
{
	char got[CONTROL_MESSAGE] = "";
	int fd = caller(), served = control_accept(&control);

	assert_true(served >= 0);
	assert_return_code(send(fd, request, strlen(request), 0), 0);
	await_input(served);
	control_serve(&control, served);
	assert_return_code(recv(fd, got, sizeof(got) - 1, 0), 0);
	assert_string_equal(got, answer);
	close(fd);
	await_input(served);
	control_serve(&control, served);
}

static void requests_are_answered(void **state)
{
	(void)state;
	request_is_answered("version", "ok 1");
	request_is_answered("versions", "error its version of uroce knows no request 'versions'");
	request_is_answered("version of what", "ok 1");
}

static void caller_of_too_many_is_refused(void **state)
{
	int fd[CONTROL_CONNECTIONS + 1], served[CONTROL_CONNECTIONS];
	char byte;

	(void)state;
	for (int i = 0; i < CONTROL_CONNECTIONS; i++) {
		fd[i] = caller();
		served[i] = control_accept(&control);
		assert_true(served[i] >= 0);
	}
	fd[CONTROL_CONNECTIONS] = caller();
	assert_true(control_accept(&control) < 0);
	assert_int_equal(recv(fd[CONTROL_CONNECTIONS], &byte, 1, 0), 0);
	close(fd[CONTROL_CONNECTIONS]);
	for (int i = 0; i < CONTROL_CONNECTIONS; i++) {
		close(fd[i]);
		await_input(served[i]);
		control_serve(&control, served[i]);
	}
	request_is_answered("version", "ok 1");
}

/* Another user's names: as many as make it likely that the kernel lists one of them first. */
static void squat_names(pid_t victim, int ready)
{
	for (unsigned long i = 0; i < 64; i++) {
		struct sockaddr_un address;
		socklen_t size = slot_abstract(&address, "control/%d/%016lx", (int)victim, i * 0x9e3779b97f4a7c15);
		int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

		if (bind(fd, (struct sockaddr *)&address, size) || listen(fd, 0))
			_exit(1);
	}
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || write(ready, "", 1) != 1)
		_exit(1);
	pause();
}

static void names_of_others_do_not_hide_it(void **state)
{
	pid_t squatter, asker;
	char answer[64];
	struct pollfd asks[2] = {{.events = POLLIN}, {.events = POLLIN}}; /* or has given up */
	int ready[2], ended[2], status, fd;

	(void)state;
	if (!squatter_is_possible())
		return; /* skip() of cmocka is a failure to meson */
	assert_return_code(pipe(ready), 0);
	squatter = fork();
	if (squatter == 0)
		squat_names(setuid(12345) ? -1 : getppid(), ready[1]);
	assert_int_equal(read(ready[0], answer, 1), 1);
	assert_return_code(pipe(ended), 0);
	asker = fork();
	if (asker == 0)
		_exit(control_call(getppid(), "version", answer, sizeof(answer), NULL) < 0);
	close(ended[1]);
	asks[0].fd = control.listener;
	asks[1].fd = ended[0];
	assert_true(poll(asks, 2, -1) > 0 && asks[0].revents);
	fd = control_accept(&control);
	await_input(fd);
	control_serve(&control, fd);
	close(ended[0]);
	assert_int_equal(waitpid(asker, &status, 0), asker);
	assert_int_equal(status, 0);
	squatter_end(squatter);
}

/* It is hung up on, whatever it asks for. */
static void another_user_is_not_answered(void **state)
{
	int ready[2], status;
	char byte;
	pid_t pid;

	(void)state;
	if (!squatter_is_possible())
		return;
	assert_return_code(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		int fd;

		if (setuid(12345))
			_exit(1);
		fd = caller();
		if (send(fd, "version", 7, MSG_NOSIGNAL) != 7 || write(ready[1], "", 1) != 1)
			_exit(2);
		_exit(recv(fd, &byte, 1, 0) > 0);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(control_accept(&control), -EAGAIN);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(ready[0]);
	close(ready[1]);
	request_is_answered("version", "ok 1");
}

/* What it listens at gets no packets, though the process is asked to send them there. */
static void another_user_is_no_collector(void **state)
{
	static const struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0uroce-test-collector"};
	const socklen_t size = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name.sun_path + 1);
	int ready[2], fd;
	char byte;
	pid_t pid;

	(void)state;
	if (!squatter_is_possible())
		return;
	assert_return_code(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		if (setuid(12345) || prctl(PR_SET_PDEATHSIG, SIGKILL))
			_exit(1);
		fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
		if (bind(fd, (const struct sockaddr *)&name, size) || listen(fd, 4) || write(ready[1], "", 1) != 1)
			_exit(1);
		pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	request_is_answered("pcap uroce-test-collector", "error Permission denied");
	squatter_end(pid);
	close(ready[0]);
	close(ready[1]);
}

/* Who asks for it could be broken, and must not change what the process writes by. */
static void a_live_trace_is_for_reading(void **state)
{
	int fd = trace_live();

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "", 1, 0), -1);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	close(fd);
	trace_live_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(requests_are_answered, opens, closes),
		cmocka_unit_test_setup_teardown(caller_of_too_many_is_refused, opens, closes),
		cmocka_unit_test_setup_teardown(names_of_others_do_not_hide_it, opens, closes),
		cmocka_unit_test_setup_teardown(another_user_is_not_answered, opens, closes),
		cmocka_unit_test_setup_teardown(another_user_is_no_collector, opens, closes),
		cmocka_unit_test(a_live_trace_is_for_reading),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
