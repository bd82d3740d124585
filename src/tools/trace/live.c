/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/trace/live.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/control_call.h"
#include "tools/command.h"
#include "tools/map.h"
#include "tools/stat/stats.h"

static bool to_pid(const char *text, pid_t *pid)
{
	char *end;
	long n = strtol(text, &end, 10);

	*pid = (pid_t)n;
	return end != text && !*end && n > 0 && n <= INT_MAX;
}

static void end_live(int signal)
{
}

/* Waits for Ctrl-C, the time limit, or the end of all processes. */
static void live_wait(struct pollfd *connection, int count, double seconds)
{
	struct sigaction end = {.sa_handler = end_live, .sa_flags = (int)SA_RESETHAND};
	uint64_t until = seconds > 0 ? clock_now() + (uint64_t)(seconds * SEC) : NEVER, now;
	int open = count;

	sigaction(SIGINT, &end, NULL);
	sigaction(SIGTERM, &end, NULL);
	if (seconds <= 0)
		fprintf(stderr, "Tracing %d process%s; Ctrl-C ends it.\n", count, count == 1 ? "" : "es");
	while (open && (now = clock_now()) < until) {
		int left = until == NEVER ? -1 : (int)min_of((until - now + MSEC - 1) / MSEC, (uint64_t)INT_MAX);

		if (poll(connection, (nfds_t)count, left) < 0)
			return;
		for (int i = 0; i < count; i++)
			if (connection[i].revents) { /* process ended */
				close(connection[i].fd);
				connection[i].fd = -1;
				connection[i].revents = 0;
				open--;
			}
	}
}

/* Waits until the processes have stopped tracing: their rings would change while being read. A process that does not
 * answer for a second is stopped, or gets no processor. */
static void live_end(struct pollfd *connection, int count)
{
	for (int i = 0; i < count; i++)
		shutdown(connection[i].fd, SHUT_WR);
	for (int i = 0; i < count; i++) {
		if (connection[i].fd < 0)
			continue;
		poll(&connection[i], 1, 1000);
		close(connection[i].fd);
	}
}

/* Adds the processes of this host that queue pairs of process `pid` are connected to, once each. */
static void add_peers_of(const struct stats *all, pid_t pid, char ***names, uint32_t *count)
{
	const struct stat_process *p = stats_process(all, (uint32_t)pid), *peer;
	size_t qps = 0;
	const struct stat_qp *q = p ? stat_qps(p, &qps) : NULL;

	for (size_t i = 0; i < qps; i++) {
		const struct stat_qp *other = stats_peer_qp(all, &q[i], &peer);
		char text[16];
		uint32_t n = 0;

		if (!other || other->remote_qpn != q[i].qpn)
			continue;
		snprintf(text, sizeof(text), "%u", peer->head.pid);
		while (n < *count && strcmp((*names)[n], text))
			n++;
		if (n < *count)
			continue;
		*names = grow(*names, *count + 1, sizeof(**names));
		(*names)[(*count)++] = strdup(text);
	}
}

/* Begins to trace a process into a file of our own. 0, or an exit status. */
static int live_begin(const struct command *command, char **name, int *connection, bool is_asked_for)
{
	char answer[256];
	pid_t pid;
	int given;

	if (!to_pid(*name, &pid))
		return wrong_usage(command, "'%s' is not a process id", *name);
	*connection = control_call(pid, "trace", answer, sizeof(answer), &given);
	if (*connection >= 0 && (given < 0 || asprintf(name, "/proc/self/fd/%d", given) < 0))
		return complain(command, "process %s sent no trace", *name);
	if (*connection < 0 && is_asked_for)
		return complain(command, "process %s: %s", *name, answer);
	return 0;
}

int live_trace(const struct command *command, char ***names, uint32_t *count, double seconds)
{
	uint32_t asked_for = *count, open = 0;
	struct stats all;
	struct pollfd *connection;
	pid_t pid;
	int status = 0;

	stats_gather(command, 0, NULL, &all);
	*names = memcpy(grow(NULL, *count, sizeof(**names)), *names, *count * sizeof(**names));
	for (uint32_t i = 0; i < asked_for; i++)
		if (to_pid((*names)[i], &pid))
			add_peers_of(&all, pid, names, count);
	stats_free(&all);
	connection = grow(NULL, *count, sizeof(*connection));
	for (uint32_t i = 0; i < *count && !status; i++) {
		connection[open] = (struct pollfd){.fd = -1, .events = POLLIN};
		(*names)[open] = (*names)[i];
		status = live_begin(command, &(*names)[open], &connection[open].fd, i < asked_for);
		open += connection[open].fd >= 0;
	}
	*count = open;
	if (!status)
		live_wait(connection, (int)open, seconds);
	live_end(connection, (int)open);
	free(connection);
	return status;
}
