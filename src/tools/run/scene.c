/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/run/scene.h"

#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/memfd.h"
#include "tools/command.h"
#include "tools/library.h"
#include "tools/program.h"
#include "tools/run/listens.h"
#include "tools/terminal.h"
#include "tools/tuned.h"

#define SEED "7" /* of the faults */

/* A program of a pair, with its output in an unnamed file. */
struct actor {
	const char *role; /* "server", "client" */
	pid_t pid;	  /* 0: not running */
	int output;
	int status; /* as from waitpid() */
};

struct stage stage;

void scene_interrupt(int signal)
{
	stage.interrupted = signal;
}

/* A TCP port without a listener. */
static int free_port(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
	socklen_t length = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = -1;

	if (fd >= 0 && bind(fd, (struct sockaddr *)&a, length) == 0 &&
	    getsockname(fd, (struct sockaddr *)&a, &length) == 0)
		port = ntohs(a.sin_port);
	if (fd >= 0)
		close(fd);
	return port;
}

static bool has_ended(struct actor *a)
{
	if (a->pid && waitpid(a->pid, &a->status, WNOHANG) == a->pid)
		a->pid = 0;
	return a->pid == 0;
}

static void stop(struct actor *a)
{
	if (!a->pid)
		return;
	kill(a->pid, SIGKILL);
	waitpid(a->pid, &a->status, 0);
	a->pid = 0;
}

static void set_faults(const struct scene *scene)
{
	static const char *const names[] = {"UROCE_FAULT", "UROCE_FAULT_SEED", "UROCE_FAULT_LOG"};
	char log[PATH_MAX + 64];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		unsetenv(names[i]);
	if (!scene)
		return;
	setenv(names[0], scene->rule, 1);
	setenv(names[1], SEED, 1);
	snprintf(log, sizeof(log), "%s/%s", stage.directory, scene->log);
	setenv(names[2], log, 1);
}

static void start_program(struct actor *a, const struct scene *scene, const char *path, char **argv)
{
	char trace[PATH_MAX + 64];
	pid_t parent = getpid();

	a->output = memfd_new(a->role, MFD_CLOEXEC);
	a->pid = fork();
	if (a->pid)
		return;
	/* kills the program if this process dies */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_FAILURE);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	snprintf(trace, sizeof(trace), "%s/%s.%s", stage.directory, scene->program, a->role);
	if (scene->traced)
		setenv("UROCE_TRACE", trace, 1);
	else
		unsetenv("UROCE_TRACE");
	set_faults(scene->rule && !strcmp(a->role, "client") ? scene : NULL);
	dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
	dup2(a->output, STDOUT_FILENO);
	dup2(a->output, STDERR_FILENO);
	if (library_preload() == 0)
		execv(path, argv);
	perror(path);
	_exit(EXIT_NOT_FOUND);
}

static void show_command(const struct actor *a, const struct scene *scene, char **argv)
{
	printf("  %s%-7s%s $ %suroce run", style(CYAN), a->role, style(PLAIN), style(BOLD));
	if (scene->rule && !strcmp(a->role, "client"))
		printf(" --fault-seed " SEED " --fault '%s' \\\n             ", scene->rule);
	for (int i = 0; argv[i]; i++)
		printf(" %s", argv[i]);
	printf("%s\n", style(PLAIN));
	fflush(stdout);
}

static void show_line(const struct actor *a, const char *line)
{
	size_t n = strlen(line);
	char text[1024];

	printf("  %s%-7s%s   ", style(CYAN), a->role, style(PLAIN));
	while (n && line[n - 1] == ' ')
		n--;
	snprintf(text, sizeof(text), "%.*s", (int)n, line);
	print_wrapped(stdout, text, 12, 14);
	putchar('\n');
}

bool scene_is_row(const char *line)
{
	line += strspn(line, " ");
	return !strncmp(line, "#bytes", 6) || (*line >= '0' && *line <= '9');
}

/* Length of a heading of perftest, such as "#bytes", "t_min[usec]" or, with two words, "99% percentile[usec]". */
static size_t heading_bytes(const char *heading)
{
	size_t n = strcspn(heading, " \t");

	if (*heading != '#' && !memchr(heading, '[', n) && heading[n])
		n += 1 + strcspn(heading + n + 1, " \t");
	return n;
}

/* Prints perftest's table of one row, in as many lines as needed. */
static void show_table(const struct actor *a, const char *heading, const char *row)
{
	unsigned columns = terminal_columns() ?: UINT_MAX;
	char tops[256] = "", cells[256] = "";

	heading += strspn(heading, " \t");
	row += strspn(row, " \t");
	while (*heading && *row) {
		size_t top = heading_bytes(heading), cell = strcspn(row, " \t"), width = max_of(top, cell);

		if (12 + strlen(tops) + width > columns || strlen(tops) + width + 3 > sizeof(tops)) {
			show_line(a, tops);
			show_line(a, cells);
			*tops = *cells = 0;
		}
		snprintf(tops + strlen(tops), sizeof(tops) - strlen(tops), "%-*.*s  ", (int)width, (int)top, heading);
		snprintf(cells + strlen(cells), sizeof(cells) - strlen(cells), "%-*.*s  ", (int)width, (int)cell, row);
		heading += top + strspn(heading + top, " \t");
		row += cell + strspn(row + cell, " \t");
	}
	show_line(a, tops);
	show_line(a, cells);
}

/* Prints the lines that `wanted` accepts, with the program's role. */
static void show_output(const struct actor *a, bool (*wanted)(const char *line))
{
	FILE *file = a->output >= 0 ? fdopen(dup(a->output), "r") : NULL;
	char line[1024], heading[1024] = "";

	if (!file)
		return;
	rewind(file);
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = 0;
		if (!*line || (wanted && !wanted(line)))
			continue;
		if (wanted == scene_is_row && line[strspn(line, " ")] == '#')
			strcpy(heading, line);
		else if (*heading)
			show_table(a, heading, line);
		else
			show_line(a, line);
	}
	fclose(file);
}

static bool ended_well(const struct actor *a)
{
	return WIFEXITED(a->status) && WEXITSTATUS(a->status) == 0;
}

static void tell_end(const struct actor *a)
{
	if (WIFEXITED(a->status))
		printf("  %sthe %s ended with status %d%s\n", style(RED), a->role, WEXITSTATUS(a->status),
		       style(PLAIN));
	else if (WIFSIGNALED(a->status))
		printf("  %sthe %s was ended by signal %d (%s)%s\n", style(RED), a->role, WTERMSIG(a->status),
		       strsignal(WTERMSIG(a->status)), style(PLAIN));
}

/* Waits for a port that another process opens, which can only be polled, or for the end of a process. */
static bool wait_for(struct actor *server, struct actor *client, bool both)
{
	for (int waited = 0; waited < SCENE_MS && !stage.interrupted; waited += LOOK_MS) {
		if (client ? has_ended(client) && (has_ended(server) || (!both && !ended_well(client)))
			   : has_ended(server) || process_listens(server->pid))
			return true;
		poll(NULL, 0, LOOK_MS);
	}
	return false;
}

static bool play_pair(const struct scene *scene, const char *path, struct actor *server, struct actor *client)
{
	char port_text[16], *argv[SCENE_ARGUMENTS + 4] = {0};
	int port = free_port(), n = 0;

	snprintf(port_text, sizeof(port_text), "%d", port);
	argv[n++] = (char *)scene->program;
	argv[n++] = (char *)scene->port_option;
	argv[n++] = port_text;
	for (int i = 0; scene->argv[i]; i++)
		argv[n++] = (char *)scene->argv[i];
	show_command(server, scene, argv);
	start_program(server, scene, path, argv);
	if (!wait_for(server, NULL, false) || server->pid == 0)
		return false;
	argv[n] = "127.0.0.1"; /* no name, as a minimal system may not know localhost */
	show_command(client, scene, argv);
	start_program(client, scene, path, argv);
	if (!wait_for(server, client, scene->fails))
		return false;
	if (scene->fails)
		return WIFEXITED(client->status) && !ended_well(client);
	return !server->pid && ended_well(server) && ended_well(client);
}

int scene_play(const struct command *command, const struct scene *scene)
{
	struct actor server = {.role = "server", .output = -1}, client = {.role = "client", .output = -1};
	char path[PATH_MAX], name[PATH_MAX];
	const char *why;
	bool ok;

	snprintf(name, sizeof(name), "%s%s%s", stage.programs ? stage.programs : "", stage.programs ? "/" : "",
		 scene->program);
	if (!program_find(name, path, sizeof(path))) {
		complain(command, "%s is missing: install ibverbs-utils and perftest%s", name,
			 stage.programs ? ", or name the directory that has their programs" : " (make demo does)");
		return EXIT_NOT_FOUND;
	}
	why = program_refuses_preload(path);
	if (why) {
		complain(command, "%s %s", path, why);
		return EXIT_CANNOT_RUN;
	}
	ok = play_pair(scene, path, &server, &client);
	if (!ok && !stage.interrupted && server.pid && !client.pid)
		printf("  the server is stopped: its client has failed\n");
	else if (!ok && !stage.interrupted && (server.pid || client.pid))
		printf("  %sno end after %d s%s\n", style(RED), SCENE_MS / 1000, style(PLAIN));
	stop(&server);
	stop(&client);
	if (!stage.interrupted) {
		if (!ok || !scene->worth_showing || scene->fails)
			show_output(&server, ok ? scene->worth_showing : NULL);
		show_output(&client, ok ? scene->worth_showing : NULL);
	}
	if (!ok && !stage.interrupted) {
		tell_end(&server);
		tell_end(&client);
		printf("\n  Run `uroce doctor` for a reason.\n");
	}
	close(server.output);
	close(client.output);
	return ok ? 0 : stage.interrupted ? 128 + stage.interrupted : EXIT_FAILURE;
}
