/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests to a process that runs. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "loop/control.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(requests_are_answered, opens, closes),
		cmocka_unit_test_setup_teardown(caller_of_too_many_is_refused, opens, closes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
