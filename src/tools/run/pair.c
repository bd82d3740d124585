/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce pair`: a server, and its client when that can begin. Each is a shell with a process group of its own. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/high_fd.h"
#include "tools/command.h"
#include "tools/library.h"
#include "tools/program.h"
#include "tools/run/ending.h"
#include "tools/run/group.h"
#include "tools/run/rules.h"
#include "tools/terminal.h"
#include "tools/tuned.h"

enum { EXIT_TIME_OUT = 124 }; /* as of timeout(1) */

struct end {
	const char *role, *text;
	pid_t pid;
	int pidfd, output; /* its end, and the pipe of what it prints; -1: it has ended */
	int status;	   /* as from waitpid() */
	uint64_t printed;  /* when it has printed first; 0: it has not */
	size_t length;	   /* of the line that has begun */
	char line[4096];
};

struct pair {
	const struct command *command;
	struct end server, client;
	const char *server_faults; /* UROCE_FAULT without rules for the client; NULL: unset */
	uint64_t seconds, deadline;
	bool serves; /* the server does not end by itself */
};

/* ---- an end ---- */

static void end_execute(const struct pair *p, const struct end *e, int output)
{
	ending_forget();
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (e == &p->server && p->server_faults)
		setenv("UROCE_FAULT", p->server_faults, 1);
	else if (e == &p->server)
		unsetenv("UROCE_FAULT");
	dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
	dup2(output, STDOUT_FILENO);
	dup2(output, STDERR_FILENO);
	execl("/bin/sh", "sh", "-c", e->text, NULL);
	_exit(EXIT_CANNOT_RUN);
}

/* 0, or an exit status after a message. */
static int end_start(const struct pair *p, struct end *e)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return complain(p->command, "%s", strerror(errno));
	fflush(NULL);
	e->pid = fork();
	if (!e->pid)
		end_execute(p, e, ends[1]);
	close(ends[1]);
	e->output = ends[0];
	e->pidfd = e->pid > 0 ? (int)syscall(SYS_pidfd_open, e->pid, 0) : -1;
	if (e->pidfd < 0)
		return complain(p->command, "%s: %s", e->role, strerror(errno));
	setpgid(e->pid, e->pid);
	fcntl(e->output, F_SETFL, O_NONBLOCK);
	return 0;
}

static void end_print_line(struct end *e)
{
	printf("%s%s%s | %.*s\n", style(CYAN), e->role, style(PLAIN), (int)e->length, e->line);
	fflush(stdout);
	e->length = 0;
}

static void end_read(struct end *e)
{
	char text[4096];
	ssize_t n = -1;

	while (e->output >= 0 && (n = read(e->output, text, sizeof(text))) > 0) {
		e->printed = e->printed ?: clock_now();
		for (ssize_t i = 0; i < n; i++) {
			if (text[i] != '\n')
				e->line[e->length++] = text[i];
			if (text[i] == '\n' || e->length == sizeof(e->line))
				end_print_line(e);
		}
	}
	if (n == 0)
		fd_close(&e->output);
}

/* Takes the status, and what was printed until then: a process that it has left may have the pipe for ever. */
static void end_reap(struct end *e)
{
	if (waitpid(e->pid, &e->status, WNOHANG) != e->pid)
		return;
	end_read(e);
	if (e->length)
		end_print_line(e);
	fd_close(&e->pidfd);
	fd_close(&e->output);
}

static int end_status(const struct end *e)
{
	return WIFEXITED(e->status) ? WEXITSTATUS(e->status) : 128 + WTERMSIG(e->status);
}

static void end_tell(const struct pair *p, const struct end *e)
{
	if (WIFSIGNALED(e->status))
		complain(p->command, "the %s was ended by signal %d (%s)", e->role, WTERMSIG(e->status),
			 strsignal(WTERMSIG(e->status)));
	else if (WEXITSTATUS(e->status))
		complain(p->command, "the %s ended with status %d", e->role, WEXITSTATUS(e->status));
}

/* ---- both ---- */

/* Waits for output or an end, at most until the deadline, or for `most` ms; `asked`: or until the end is asked for. */
static void pair_wait(struct pair *p, uint64_t deadline, int most, int asked)
{
	struct end *ends[] = {&p->server, &p->client};
	struct pollfd fds[5] = {[4] = {.fd = asked, .events = POLLIN}};
	uint64_t now = clock_now();
	int left = deadline > now ? (int)min_of((deadline - now) / MSEC + 1, (uint64_t)most) : 0;

	for (int i = 0; i < 2; i++) {
		fds[i] = (struct pollfd){.fd = ends[i]->output, .events = POLLIN};
		fds[2 + i] = (struct pollfd){.fd = ends[i]->pidfd, .events = POLLIN};
	}
	poll(fds, ARRAY_SIZE(fds), left);
	for (int i = 0; i < 2; i++) {
		end_read(ends[i]);
		if (fds[2 + i].fd >= 0 && fds[2 + i].revents)
			end_reap(ends[i]);
	}
}

/* True until the time is over, or a signal asks for the end. */
static bool pair_goes_on(const struct pair *p)
{
	return !ending_signal() && clock_now() < p->deadline;
}

/* Ends what still runs of it: by SIGTERM, so that it can report, then by SIGKILL. */
static void pair_stop(struct pair *p, struct end *e)
{
	uint64_t deadline = clock_now() + STOP_PATIENCE;

	if (e->pid <= 0)
		return;
	kill(-e->pid, SIGTERM);
	kill(-e->pid, SIGCONT);
	while (e->pidfd >= 0 && clock_now() < deadline)
		pair_wait(p, deadline, INT32_MAX, -1);
	kill(-e->pid, SIGKILL);
	while (e->pidfd >= 0)
		pair_wait(p, UINT64_MAX, INT32_MAX, -1);
}

/* True if the client can begin. What listens can only be polled; a server without a port has some time from what it
 * prints first. */
static bool server_is_ready(const struct end *server)
{
	return group_listens(server->pid) || (server->printed && clock_now() - server->printed > PRINTED_PATIENCE);
}

/* Exit status of the two, after a message if it is not 0. */
static int pair_play(struct pair *p)
{
	struct end *server = &p->server, *client = &p->client;
	int status = end_start(p, server);
	uint64_t until;

	while (!status && server->pidfd >= 0 && pair_goes_on(p) && !server_is_ready(server))
		pair_wait(p, p->deadline, READY_MS, ending_fd());
	if (status)
		return status;
	if (server->pidfd < 0) {
		complain(p->command, "the server ended with status %d before its client could begin",
			 end_status(server));
		return end_status(server) ?: EXIT_FAILURE;
	}
	if (pair_goes_on(p))
		status = end_start(p, client);
	while (!status && client->pidfd >= 0 && pair_goes_on(p))
		pair_wait(p, p->deadline, INT32_MAX, ending_fd());
	until = client->status ? min_of(p->deadline, clock_now() + STOP_PATIENCE) : p->deadline;
	while (!status && !p->serves && server->pidfd >= 0 && !ending_signal() && clock_now() < until)
		pair_wait(p, until, INT32_MAX, ending_fd());
	return status ?: ending_signal() ? 128 + ending_signal() : 0;
}

/* Says what the processes of an end wait for; of those that do not run on uroce's devices, nothing. */
static void end_explain(const struct end *e)
{
	pid_t pid[64];
	size_t n = e->pidfd >= 0 ? group_processes(e->pid, pid, ARRAY_SIZE(pid)) : 0;
	char text[16];

	for (size_t i = 0; i < n; i++) {
		snprintf(text, sizeof(text), "%d", (int)pid[i]);
		ending_run_self((const char *[]){"uroce", "explain", "-p", text, NULL}, true);
	}
}

static int pair_end(struct pair *p, int status)
{
	bool late = !status && !pair_goes_on(p) && (p->client.pidfd >= 0 || p->server.pidfd >= 0);
	bool serves = p->server.pidfd >= 0 && !late; /* its end is none of its own */

	if (late && p->client.pid <= 0)
		complain(p->command, "the server has neither listened nor printed in %ju s", (uintmax_t)p->seconds);
	else if (late)
		complain(p->command, "the %s had not ended after %ju s%s", p->client.pidfd >= 0 ? "client" : "server",
			 (uintmax_t)p->seconds, p->client.pidfd >= 0 ? "" : "; -s ends a server that serves for ever");
	if (late) {
		end_explain(&p->client);
		end_explain(&p->server);
	}
	pair_stop(p, &p->client);
	pair_stop(p, &p->server);
	if (status || late)
		return status ?: EXIT_TIME_OUT;
	end_tell(p, &p->client);
	if (serves)
		return end_status(&p->client);
	end_tell(p, &p->server);
	return end_status(&p->client) ?: end_status(&p->server);
}

int pair_command(const struct command *command, int argc, char **argv)
{
	static const struct option options[] = {{"fault", required_argument, NULL, 'f'},
						{"serves", no_argument, NULL, 's'},
						{"timeout", required_argument, NULL, 't'},
						{0}};
	static struct pair pair = {.seconds = 60,
				   .server = {.role = "server", .pidfd = -1, .output = -1},
				   .client = {.role = "client", .pidfd = -1, .output = -1}};
	const char *faults = config_string(CONFIG_FAULT);
	char *end = "";
	int c;

	pair.command = command;
	pair.server_faults = faults ? strdup(faults) : NULL;
	while ((c = next_option(command, argc, argv, "+f:st:", options)) != -1) {
		if (c == '?')
			return show_usage(command);
		if (c == 'f' && !rules_add(command, optarg))
			return EXIT_USAGE;
		if (c == 't')
			pair.seconds = strtoul(optarg, &end, 10);
		if (c == 't' && (*end || end == optarg || !pair.seconds || pair.seconds > 1000000))
			return wrong_usage(command, "'%s' is no time: seconds, from 1 to 1000000", optarg);
		pair.serves |= c == 's';
	}
	if (argc - optind != 2)
		return wrong_usage(command, "which server, and which client? Two commands, each in quotes");
	if (library_preload())
		return program_has_no_library(command);
	pair.server.text = argv[optind];
	pair.client.text = argv[optind + 1];
	pair.deadline = clock_now() + pair.seconds * SEC;
	ending_begin();
	return pair_end(&pair, pair_play(&pair));
}
