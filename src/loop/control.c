/* SPDX-License-Identifier: BSD-2-Clause */
#include "loop/control.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "base/capture.h"
#include "base/config.h"
#include "base/high_fd.h"
#include "base/hooks.h"
#include "base/rights.h"
#include "base/stat.h"
#include "base/trace.h"
#include "host/callers.h"
#include "host/slot.h"
#include "loop/control_fault.h"

static int begin_version(const char *argument, char *answer, size_t room, int *give)
{
	(void)argument;
	(void)give;
	snprintf(answer, room, "%d", CONTROL_VERSION);
	return 0;
}

/* Does not wait for the collector, which is the caller and waits for this answer. */
static int begin_pcap(const char *argument, char *answer, size_t room, int *give)
{
	int err = capture_connect(argument, false);

	(void)give;
	if (err == -EBUSY)
		snprintf(answer, room, "its packets are captured already: one capture at a time");
	else if (err == -EAGAIN)
		snprintf(answer, room, "the collector accepts no more connections");
	return err;
}

/* Answers with a file of all objects (base/stat_file.h). */
static int begin_stat(const char *argument, char *answer, size_t room, int *give)
{
	int fd = stat_take(argument);

	if (fd == -EFBIG)
		snprintf(answer, room, "its limit on the size of files (ulimit -f) is too low for the answer");
	*give = max_of(fd, -1);
	return min_of(fd, 0);
}

static int begin_trace(const char *argument, char *answer, size_t room, int *give)
{
	int fd = trace_live();

	(void)argument;
	if (fd == -EBUSY)
		snprintf(answer, room,
			 "it is traced already, by UROCE_TRACE or another command: see `uroce trace FILE`");
	*give = max_of(fd, -1);
	return min_of(fd, 0);
}

static unsigned counting; /* connections that want bytes to be counted. The helper thread's */

static int begin_count(const char *argument, char *answer, size_t room, int *give)
{
	(void)argument;
	(void)answer;
	(void)room;
	(void)give;
	if (!counting++)
		hook_set(HOOK_COUNT, true);
	return 0;
}

static void end_count(void)
{
	if (!--counting && !config_enum(CONFIG_COUNT))
		hook_set(HOOK_COUNT, false);
}

static const struct control_verb control_verbs[] = {
	{"version", begin_version, NULL},	{"pcap", begin_pcap, capture_end}, {"stat", begin_stat, NULL},
	{"trace", begin_trace, trace_live_end}, {"fault", control_fault, NULL},	   {"count", begin_count, end_count},
};

int control_open(struct control *c)
{
	struct sockaddr_un address;
	socklen_t size;
	uint64_t random;
	int err;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	c->listener = high_fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	if (c->listener < 0)
		return -errno;
	size = slot_abstract(&address, "control/%d/%016lx", (int)getpid(), (unsigned long)random);
	if (!bind(c->listener, (struct sockaddr *)&address, size) && !listen(c->listener, CONTROL_CONNECTIONS)) {
		c->is_open = true;
		return 0;
	}
	err = -errno;
	close(c->listener);
	return err;
}

/* Ends a connection. What it asked for ends first, so a command that sees the end can rely on that. */
static void end_connection(struct control_connection *n)
{
	if (n->verb)
		n->verb->end();
	close(n->fd);
	*n = (struct control_connection){0};
}

void control_close(struct control *c)
{
	if (!c->is_open)
		return;
	for (int i = 0; i < CONTROL_CONNECTIONS; i++)
		if (c->connection[i].used)
			end_connection(&c->connection[i]);
	close(c->listener);
	c->is_open = false;
}

void control_abandon(struct control *c)
{
	for (int i = 0; i < CONTROL_CONNECTIONS; i++)
		c->connection[i].verb = NULL;
	control_close(c);
}

int control_accept(struct control *c)
{
	int fd = callers_accept(c->listener);

	if (fd < 0)
		return fd;
	for (int i = 0; i < CONTROL_CONNECTIONS; i++)
		if (!c->connection[i].used) {
			c->connection[i] = (struct control_connection){.fd = fd, .used = true};
			return fd;
		}
	close(fd);
	return -EMFILE;
}

static const struct control_verb *find_verb(const char *request, const char **argument)
{
	for (size_t i = 0; i < ARRAY_SIZE(control_verbs); i++) {
		size_t n = strlen(control_verbs[i].name);

		if (strncmp(request, control_verbs[i].name, n) || (request[n] && request[n] != ' '))
			continue;
		*argument = request + n + (request[n] == ' ');
		return &control_verbs[i];
	}
	return NULL;
}

/* Makes the answer to a request; returns the verb that it has begun, or NULL. */
static const struct control_verb *answer_request(const char *request, char *answer, size_t room, int *give)
{
	char words[CONTROL_MESSAGE - 16] = "";
	const char *argument;
	const struct control_verb *verb = find_verb(request, &argument);
	int err;

	if (!verb) {
		snprintf(answer, room, "error its version of uroce knows no request '%.64s'", request);
		return NULL;
	}
	err = verb->begin(argument, words, sizeof(words), give);
	snprintf(answer, room, "%s %s", err ? "error" : "ok", !err || *words ? words : strerror(-err));
	return err ? NULL : verb;
}

static void serve_request(struct control_connection *n, const char *request)
{
	char answer[CONTROL_MESSAGE];
	const struct control_verb *verb;
	int give = -1;

	if (n->verb) /* one request at a time */
		snprintf(answer, sizeof(answer), "error this connection has begun '%s' already", n->verb->name);
	else if ((verb = answer_request(request, answer, sizeof(answer), &give)) && verb->end)
		n->verb = verb;
	if (rights_send(n->fd, answer, strlen(answer), &give, give >= 0))
		end_connection(n);
	if (give >= 0)
		close(give);
}

void control_serve(struct control *c, int fd)
{
	char request[CONTROL_MESSAGE + 1];

	for (int i = 0; i < CONTROL_CONNECTIONS; i++) {
		struct control_connection *n = &c->connection[i];
		ssize_t size;

		if (!n->used || n->fd != fd)
			continue;
		size = recv(fd, request, sizeof(request) - 1, MSG_DONTWAIT);
		if (size < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (size <= 0) {
			end_connection(n);
			return;
		}
		request[size] = 0;
		serve_request(n, request);
		return;
	}
}
