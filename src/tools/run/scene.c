/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/run/scene.h"

#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
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
#include "tools/program.h"
#include "tools/run/ending.h"
#include "tools/terminal.h"
#include "tools/tuned.h"

#define SEED "7" /* of the faults */

struct stage stage;

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

/* ---- commands ---- */

static void add_quoted(FILE *to, const char *word)
{
	fputc('\'', to);
	for (; *word; word++)
		fprintf(to, *word == '\'' ? "'\\''" : "%c", *word);
	fputs("' ", to);
}

/* The command of one end, for a shell; free(3) it. */
static char *command_of(const struct scene *scene, const char *role, const char *path, char **argv)
{
	bool has_rule = scene->rule && !strcmp(role, "client");
	char file[PATH_MAX + 64], *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	if (!to)
		return NULL;
	if (scene->traced) {
		snprintf(file, sizeof(file), "%s/%s.%s", stage.directory, scene->program, role);
		fputs("UROCE_TRACE=", to);
		add_quoted(to, file);
	}
	if (has_rule) {
		snprintf(file, sizeof(file), "%s/%s", stage.directory, scene->log);
		fputs("UROCE_FAULT_SEED=" SEED " UROCE_FAULT_LOG=", to);
		add_quoted(to, file);
	}
	fputs("exec ", to);
	add_quoted(to, path);
	for (int i = 1; argv[i]; i++)
		add_quoted(to, argv[i]);
	fclose(to);
	return text;
}

static void show_command(const struct scene *scene, const char *role, char **argv)
{
	printf("  %s%-7s%s $ %suroce run", style(CYAN), role, style(PLAIN), style(BOLD));
	if (scene->rule && !strcmp(role, "client"))
		printf(" --fault-seed " SEED " --fault '%s' \\\n             ", scene->rule);
	for (int i = 0; argv[i]; i++)
		printf(" %s", argv[i]);
	printf("%s\n", style(PLAIN));
	fflush(stdout);
}

/* Runs `uroce pair`, whose output goes to `output`. Returns its status as from waitpid(). */
static int run_pair(const struct scene *scene, char *server, char *client, int output)
{
	char *argv[9] = {"uroce", "pair", "--timeout", SCENE_SECONDS}, **end = argv + 4;
	pid_t parent = getpid(), pid;

	if (scene->rule) {
		*end++ = "--fault";
		*end++ = (char *)scene->rule;
	}
	*end++ = server;
	*end++ = client;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() != parent)
			_exit(EXIT_FAILURE);
		ending_forget();
		unsetenv("UROCE_TRACE");
		unsetenv("UROCE_FAULT");
		dup2(output, STDOUT_FILENO);
		dup2(output, STDERR_FILENO);
		execv("/proc/self/exe", argv);
		_exit(EXIT_NOT_FOUND);
	}
	return pid > 0 ? ending_wait(pid) : 1 << 8;
}

/* ---- output ---- */

static void show_line(const char *role, const char *line)
{
	size_t n = strlen(line);
	char text[1024];

	printf("  %s%-7s%s   ", style(CYAN), role, style(PLAIN));
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
static void show_table(const char *role, const char *heading, const char *row)
{
	unsigned columns = terminal_columns() ?: UINT_MAX;
	char tops[256] = "", cells[256] = "";

	heading += strspn(heading, " \t");
	row += strspn(row, " \t");
	while (*heading && *row) {
		size_t top = heading_bytes(heading), cell = strcspn(row, " \t"), width = max_of(top, cell);

		if (12 + strlen(tops) + width > columns || strlen(tops) + width + 3 > sizeof(tops)) {
			show_line(role, tops);
			show_line(role, cells);
			*tops = *cells = 0;
		}
		snprintf(tops + strlen(tops), sizeof(tops) - strlen(tops), "%-*.*s  ", (int)width, (int)top, heading);
		snprintf(cells + strlen(cells), sizeof(cells) - strlen(cells), "%-*.*s  ", (int)width, (int)cell, row);
		heading += top + strspn(heading + top, " \t");
		row += cell + strspn(row + cell, " \t");
	}
	show_line(role, tops);
	show_line(role, cells);
}

FILE *scene_output(int output)
{
	FILE *file = fdopen(dup(output), "r");

	if (file)
		rewind(file);
	return file;
}

/* What that end has printed, of a line of `uroce pair`; NULL: it is not of that end. */
static char *line_of(const char *role, char *line)
{
	size_t begin = strlen(role);

	return !strncmp(line, role, begin) && !strncmp(line + begin, " | ", 3) ? line + begin + 3 : NULL;
}

/* Prints the lines of that end which `wanted` accepts; NULL: all. */
static void show_output(int output, const char *role, bool (*wanted)(const char *line))
{
	FILE *file = scene_output(output);
	char text[1024], heading[1024] = "", *line;

	while (file && fgets(text, sizeof(text), file)) {
		text[strcspn(text, "\n")] = 0;
		line = line_of(role, text);
		if (!line || !*line || (wanted && !wanted(line)))
			continue;
		if (wanted == scene_is_row && line[strspn(line, " ")] == '#')
			strcpy(heading, line);
		else if (*heading)
			show_table(role, heading, line);
		else
			show_line(role, line);
	}
	if (file)
		fclose(file);
}

/* Prints what `uroce pair` says itself. */
static void show_reasons(int output)
{
	FILE *file = scene_output(output);
	char line[1024];

	while (file && fgets(line, sizeof(line), file))
		if (!line_of("server", line) && !line_of("client", line))
			printf("  %s%.*s%s\n", style(RED), (int)strcspn(line, "\n"), line, style(PLAIN));
	if (file)
		fclose(file);
}

static void show_scene(const struct scene *scene, int output, bool ok)
{
	if (!ok || !scene->worth_showing || scene->fails)
		show_output(output, "server", ok ? scene->worth_showing : NULL);
	show_output(output, "client", ok ? scene->worth_showing : NULL);
	if (ok)
		return;
	show_reasons(output);
	printf("\n  Run `uroce doctor` for a reason.\n");
}

/* True if the two end as they should. */
static bool play_pair(const struct scene *scene, const char *path, int output)
{
	char port[16], *argv[SCENE_ARGUMENTS + 4] = {0}, *server, *client;
	int n = 0, status;

	snprintf(port, sizeof(port), "%d", free_port());
	argv[n++] = (char *)scene->program;
	argv[n++] = (char *)scene->port_option;
	argv[n++] = port;
	for (int i = 0; scene->argv[i]; i++)
		argv[n++] = (char *)scene->argv[i];
	show_command(scene, "server", argv);
	server = command_of(scene, "server", path, argv);
	argv[n] = "127.0.0.1"; /* no name, as a minimal system may not know localhost */
	show_command(scene, "client", argv);
	client = command_of(scene, "client", path, argv);
	status = server && client ? run_pair(scene, server, client, output) : 1 << 8;
	free(server);
	free(client);
	return WIFEXITED(status) && WEXITSTATUS(status) == (scene->fails ? EXIT_FAILURE : EXIT_SUCCESS);
}

int scene_play(const struct command *command, const struct scene *scene)
{
	char path[PATH_MAX], name[PATH_MAX];
	const char *why;
	int output;
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
	output = memfd_new("output", MFD_CLOEXEC);
	if (output < 0)
		return complain(command, "%s", strerror(-output));
	ok = play_pair(scene, path, output);
	if (!ending_signal())
		show_scene(scene, output, ok);
	close(output);
	if (ending_signal())
		return 128 + ending_signal();
	return ok ? 0 : EXIT_FAILURE;
}
