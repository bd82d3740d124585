/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests to a process that runs. */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/control_call.h"
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(requests_are_answered, opens, closes),
		cmocka_unit_test_setup_teardown(caller_of_too_many_is_refused, opens, closes),
		cmocka_unit_test_setup_teardown(names_of_others_do_not_hide_it, opens, closes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
