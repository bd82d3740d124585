/* SPDX-License-Identifier: BSD-2-Clause */
/* Any requests to the control socket of a process, one in each line; and in a line that begins with '<', any answer to
 * a request, as a command reads it. Each request has one answer, and what came with it can be read. What a connection
 * has begun ends with it, and no descriptor is left. Seeds: corpus/control, made by control-seeds.py. */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/capture_file.h"
#include "base/clock.h"
#include "base/control_call.h"
#include "base/hooks.h"
#include "base/memfd.h"
#include "base/rights.h"
#include "base/stat_read.h"
#include "base/trace.h"
#include "fault/inject.h"
#include "loop/control.h"
#include "require.h"
#include "tools/trace/records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct control control;
static int listener = -1; /* at "collector"; -1: names are not this process's alone, and none is called */
static int lowest;	  /* descriptor that is free between two inputs */

static int lowest_free(void)
{
	int fd = fcntl(0, F_DUPFD_CLOEXEC, 0);

	close(fd);
	return fd;
}

static void begin(void)
{
	static const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "\0collector"};

	if (!unshare(CLONE_NEWNET)) {
		listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		require(!bind(listener, (const struct sockaddr *)&address,
			      offsetof(struct sockaddr_un, sun_path) + 10));
		require(!listen(listener, 4));
	}
}

/* Two ends of a connection: the process serves the first. */
static int connect_to_control(void)
{
	int s[2];

	require(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, s));
	control.is_open = true;
	control.listener = dup(0); /* control_close() closes it */
	control.connection[0] = (struct control_connection){.fd = s[0], .used = true};
	return s[1];
}

static void read_trace(int fd)
{
	char name[32], *names[] = {name};
	struct records r;

	trace_record(TRACE_build, 1, 2, 3, 4, 5, 6);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	require(!records_load(&r, names, 1) && r.count);
	records_free(&r);
}

static void read_stat(int fd)
{
	struct stat_process p;

	require(!stat_read(fd, &p) && p.head.pid == (uint32_t)getpid());
	stat_free(&p);
}

/* A capture has begun: the collector gets a ring and a doorbell. */
static void accept_capture(void)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC), fds[2];
	struct capture_hello hello;

	require(fd >= 0 && rights_receive(fd, &hello, sizeof(hello), MSG_DONTWAIT, fds, 2) == sizeof(hello));
	require(hello.magic == CAPTURE_MAGIC && memfd_is_fixed(fds[0], hello.bytes) && rights_is_doorbell(fds[1]));
	for (int i = 0; i < 2; i++)
		close(fds[i]);
	close(fd);
}

/* The end of the connection, as the process sees it. */
static void hang_up(int *end)
{
	close(*end);
	*end = -1;
	control_serve(&control, control.connection[0].fd);
	require(!control.connection[0].used);
	control_close(&control);
	require(!hook_is_on(HOOK_TRACE) && !hook_is_on(HOOK_CAPTURE) && !hook_is_on(HOOK_COUNT));
}

static void request(int *end, const char *text)
{
	char answer[CONTROL_MESSAGE];
	const struct control_verb *before;
	int given, fd;

	if (listener < 0 && !strncmp(text, "pcap", 4))
		return;
	if (*end < 0)
		*end = connect_to_control();
	before = control.connection[0].verb;
	require(send(*end, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text));
	control_serve(&control, control.connection[0].fd);
	fd = control_take_answer(dup(*end), answer, sizeof(answer), &given, clock_now() + SEC);
	require(strlen(answer) < sizeof(answer) && (fd >= 0 || (*answer && given < 0)));
	if (fd >= 0) {
		close(fd);
		if (!before && hook_is_on(HOOK_CAPTURE) && !strncmp(text, "pcap ", 5))
			accept_capture();
	}
	if (given >= 0) {
		if (!strncmp(text, "trace", 5))
			read_trace(given);
		else if (!strncmp(text, "stat", 4))
			read_stat(given);
		close(given);
	}
}

static void take_any_answer(const char *text, size_t size)
{
	char answer[256];
	int s[2], given, fd;

	require(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s));
	require(send(s[0], text, size, MSG_NOSIGNAL) == (ssize_t)size);
	close(s[0]);
	fd = control_take_answer(s[1], answer, sizeof(answer), &given, clock_now() + SEC);
	require(given < 0 && strlen(answer) < sizeof(answer) && (fd < 0 || !strncmp(text, "ok ", 3)));
	if (fd >= 0)
		close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool begun;
	char line[CONTROL_MESSAGE + 64];
	int end = -1;

	if (!begun)
		begin();
	begun = true;
	for (const uint8_t *at = data, *stop = data + size; at < stop;) {
		const uint8_t *newline = memchr(at, '\n', (size_t)(stop - at));
		size_t length = min_of((size_t)((newline ?: stop) - at), sizeof(line) - 1);

		memcpy(line, at, length);
		line[length] = 0;
		if (*line == '<')
			take_any_answer(line + 1, length - 1);
		else if (!strcmp(line, "end") && end >= 0)
			hang_up(&end);
		else if (*line)
			request(&end, line);
		at = newline ? newline + 1 : stop;
	}
	if (end >= 0)
		hang_up(&end);
	inject_clear();
	if (!lowest) /* the first trace keeps its file */
		lowest = lowest_free();
	require(lowest_free() <= lowest + 4);
	return 0;
}
