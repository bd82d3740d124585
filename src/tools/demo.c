/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce demo`: programs from the distribution's packages do RDMA with each other, and uroce shows what happened. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/memfd.h"
#include "tools/command.h"
#include "tools/library.h"
#include "tools/mistakes.h"
#include "tools/program.h"
#include "tools/terminal.h"

#define PATIENCE_MS 120000 /* a pair that takes longer hangs */
#define LOOK_MS	    5
#define ARGUMENTS   24
#define SEED	    "7" /* of the faults */
#define FOUND	    98	/* exit status of uroce check */

/* A program of a pair. Its output goes to a file without a name. */
struct actor {
	const char *role; /* "server", "client" */
	pid_t pid;	  /* 0: not running */
	int output;
	int status; /* as from waitpid() */
};

struct scene {
	const char *program;
	const char *argv[ARGUMENTS]; /* of both; the client gets the address too */
	const char *port_option;
	bool traced;
	bool (*worth_showing)(const char *line); /* of the output if all goes well; NULL: all of both programs */
	const char *rule;			 /* the client's, of uroce-fault(5); NULL: none */
	const char *log;			 /* of its firings: a file of the directory */
	bool fails;				 /* the rule makes the client fail: that is shown, of both programs */
};

static volatile sig_atomic_t interrupted;
static char directory[PATH_MAX]; /* of the traces */
static const char *program_directory;

static void interrupt(int signal)
{
	interrupted = signal;
}

/* A TCP port that nobody listens to now. */
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

static bool listens_in(const char *path, unsigned wanted)
{
	FILE *file = fopen(path, "re");
	char line[512];
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file)) {
		unsigned port, state;

		found = sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*s %x", &port, &state) == 2 && port == wanted &&
			state == 0x0a; /* TCP_LISTEN */
	}
	if (file)
		fclose(file);
	return found;
}

static bool demo_listens(int port)
{
	return listens_in("/proc/net/tcp", (unsigned)port) || listens_in("/proc/net/tcp6", (unsigned)port);
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
	snprintf(log, sizeof(log), "%s/%s", directory, scene->log);
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
	/* whatever becomes of us, no program is left behind */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_FAILURE);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	snprintf(trace, sizeof(trace), "%s/%s.%s", directory, scene->program, a->role);
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

/* perftest's table: its heading and the rows of numbers. */
static bool is_row(const char *line)
{
	line += strspn(line, " ");
	return !strncmp(line, "#bytes", 6) || (*line >= '0' && *line <= '9');
}

/* A heading of perftest: "#bytes", "t_min[usec]", or of two words, "99% percentile[usec]". */
static size_t heading_bytes(const char *heading)
{
	size_t n = strcspn(heading, " \t");

	if (*heading != '#' && !memchr(heading, '[', n) && heading[n])
		n += 1 + strcspn(heading + n + 1, " \t");
	return n;
}

/* perftest's table of one row, in as many lines as it takes. */
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

/* Each line that `wanted` accepts, marked with who said it. */
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
		if (wanted == is_row && line[strspn(line, " ")] == '#')
			strcpy(heading, line);
		else if (*heading)
			show_table(a, heading, line);
		else
			show_line(a, line);
	}
	fclose(file);
}

/* What the program itself says at its end, and what uroce says of the fault. */
static bool tells_outcome(const char *line)
{
	static const char *const others[] = {"address:", "bytes in", "in force", "parse WC"};

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (strstr(line, others[i]))
			return false;
	return true;
}

static bool ended_well(const struct actor *a)
{
	return WIFEXITED(a->status) && WEXITSTATUS(a->status) == 0;
}

static void demo_explain(const struct actor *a)
{
	if (WIFEXITED(a->status))
		printf("  %sthe %s ended with status %d%s\n", style(RED), a->role, WEXITSTATUS(a->status),
		       style(PLAIN));
	else if (WIFSIGNALED(a->status))
		printf("  %sthe %s was ended by signal %d (%s)%s\n", style(RED), a->role, WTERMSIG(a->status),
		       strsignal(WTERMSIG(a->status)), style(PLAIN));
}

/* Waits for an event that nobody announces (a port that another process opens) or for the end of a process. */
static bool demo_wait_until(struct actor *server, struct actor *client, int port, bool both)
{
	for (int waited = 0; waited < PATIENCE_MS && !interrupted; waited += LOOK_MS) {
		if (client ? has_ended(client) && (has_ended(server) || (!both && !ended_well(client)))
			   : has_ended(server) || demo_listens(port))
			return true;
		poll(NULL, 0, LOOK_MS);
	}
	return false;
}

static bool play_pair(const struct scene *scene, const char *path, struct actor *server, struct actor *client)
{
	char port_text[16], *argv[ARGUMENTS + 4] = {0};
	int port = free_port(), n = 0;

	snprintf(port_text, sizeof(port_text), "%d", port);
	argv[n++] = (char *)scene->program;
	argv[n++] = (char *)scene->port_option;
	argv[n++] = port_text;
	for (int i = 0; scene->argv[i]; i++)
		argv[n++] = (char *)scene->argv[i];
	show_command(server, scene, argv);
	start_program(server, scene, path, argv);
	if (!demo_wait_until(server, NULL, port, false) || server->pid == 0)
		return false;
	argv[n] = "127.0.0.1"; /* no name: a minimal system may not know localhost */
	show_command(client, scene, argv);
	start_program(client, scene, path, argv);
	if (!demo_wait_until(server, client, port, scene->fails))
		return false;
	if (scene->fails)
		return WIFEXITED(client->status) && !ended_well(client);
	return !server->pid && ended_well(server) && ended_well(client);
}

/* 0, or the exit status. */
static int play(const struct command *command, const struct scene *scene)
{
	struct actor server = {.role = "server", .output = -1}, client = {.role = "client", .output = -1};
	char path[PATH_MAX], name[PATH_MAX];
	const char *why;
	bool ok;

	snprintf(name, sizeof(name), "%s%s%s", program_directory ? program_directory : "", program_directory ? "/" : "",
		 scene->program);
	if (!program_find(name, path, sizeof(path))) {
		complain(command, "%s is missing: install ibverbs-utils and perftest%s", name,
			 program_directory ? ", or name the directory that has their programs" : " (make demo does)");
		return EXIT_NOT_FOUND;
	}
	why = program_refuses_preload(path);
	if (why) {
		complain(command, "%s %s", path, why);
		return EXIT_CANNOT_RUN;
	}
	ok = play_pair(scene, path, &server, &client);
	if (!ok && !interrupted && server.pid && !client.pid)
		printf("  the server is stopped: its client has failed\n");
	else if (!ok && !interrupted && (server.pid || client.pid))
		printf("  %sno end after %d s%s\n", style(RED), PATIENCE_MS / 1000, style(PLAIN));
	stop(&server);
	stop(&client);
	if (!interrupted) {
		if (!ok || !scene->worth_showing || scene->fails)
			show_output(&server, ok ? scene->worth_showing : NULL);
		show_output(&client, ok ? scene->worth_showing : NULL);
	}
	if (!ok && !interrupted) {
		demo_explain(&server);
		demo_explain(&client);
		printf("\n  `uroce doctor` may know why.\n");
	}
	close(server.output);
	close(client.output);
	return ok ? 0 : interrupted ? 128 + interrupted : EXIT_FAILURE;
}

static void heading(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void heading(const char *format, ...)
{
	char text[256];
	va_list ap;

	printf("\n%s", style(BOLD));
	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	print_wrapped(stdout, text, 0, 3);
	printf("%s\n\n", style(PLAIN));
	fflush(stdout);
}

/* Runs this program itself: what the demo shows, its reader can do. */
static int ourselves(const char *const *argv)
{
	pid_t pid;
	int status = 1 << 8;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		execv("/proc/self/exe", (char **)argv);
		_exit(EXIT_NOT_FOUND);
	}
	if (pid > 0)
		waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

static int show_trace(const char *program, const char *operation, bool ladder)
{
	char server[PATH_MAX + 64], client[PATH_MAX + 64], text[256];
	const char *const argv[] = {"uroce", "trace", "-o",   operation, "-w", "500",
				    "-l",    "1",     server, client,	 NULL, NULL};
	const char *drawn[12];

	memcpy(drawn, argv, sizeof(argv));
	drawn[10] = ladder ? "--ladder" : NULL;
	snprintf(server, sizeof(server), "%s/%s.server", directory, program);
	snprintf(client, sizeof(client), "%s/%s.client", directory, program);
	snprintf(text, sizeof(text), "$ %suroce trace %s-o %s -w 500 -l 1 %s.server %s.client", style(BOLD),
		 ladder ? "--ladder " : "", operation, program, program);
	printf("  ");
	print_wrapped(stdout, text, 2, 4);
	printf("%s\n\n", style(PLAIN));
	return ourselves(drawn);
}

/* Of the SENDs that were shown as text. */
static void draw_traces(void)
{
	char server[PATH_MAX + 64], client[PATH_MAX + 64], page[PATH_MAX + 64];
	const char *const argv[] = {"uroce", "trace", "-l", "4", "--html", page, server, client, NULL};

	snprintf(server, sizeof(server), "%s/ibv_rc_pingpong.server", directory);
	snprintf(client, sizeof(client), "%s/ibv_rc_pingpong.client", directory);
	snprintf(page, sizeof(page), "%s/ladder.html", directory);
	if (!access(server, R_OK) && !access(client, R_OK) && ourselves(argv) == EXIT_SUCCESS)
		printf("Some of them as ladder diagrams, for a browser:\n%s\n", page);
}

static void keep_traces(void)
{
	if (rmdir(directory) == 0) { /* it was empty */
		printf("No trace was made.\n");
		return;
	}
	printf("What was recorded is in %s\n", directory);
	draw_traces();
}

/* What is traced, and which request of it is shown. */
static const struct life {
	const char *program, *operation;
	bool ladder;
	const char *heading;
} lives[] = {
	{"ibv_rc_pingpong", "SEND", true, "One SEND of step 2 as a picture; --html draws it for a browser"},
	{"ibv_rc_pingpong", "SEND", false,
	 "The life of that SEND and of the RECEIVE that it takes, and where the time goes"},
	{"ib_write_lat", "WRITE", false, "The life of one WRITE of step 4"},
	{"ib_read_lat", "READ", false, "The life of one READ of step 4"},
	{"ib_atomic_lat", "FETCH_ADD", false, "The life of one ATOMIC of step 4, a fetch and add"},
};

static void remove_traces(void)
{
	static const char *const end[] = {"server", "client"}, *const logs[] = {"first.log", "second.log", "third.log"};
	char path[PATH_MAX + 64];

	for (size_t i = 0; i < 2 * ARRAY_SIZE(lives); i++) {
		snprintf(path, sizeof(path), "%s/%s.%s", directory, lives[i / 2].program, end[i % 2]);
		unlink(path);
	}
	for (size_t i = 0; i < ARRAY_SIZE(logs); i++) {
		snprintf(path, sizeof(path), "%s/%s", directory, logs[i]);
		unlink(path);
	}
	rmdir(directory);
}

/* In memory if possible: a disk that writes back the pages of a trace would show in its times. */
static bool make_directory(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(directory, sizeof(directory), "/dev/shm/uroce-demo-XXXXXX");
	if (!tmp && mkdtemp(directory))
		return true;
	snprintf(directory, sizeof(directory), "%s/uroce-demo-XXXXXX", tmp ? tmp : "/tmp");
	return mkdtemp(directory) != NULL;
}

static int demo_perform(const struct command *command)
{
	static const struct scene pingpong = {"ibv_rc_pingpong", {"-g", "0", "-n", "1000"}, "-p", true, NULL};
	static const struct scene bandwidth = {
		"ib_write_bw", {"-s", "65536", "-n", "20000", "-F"}, "-p", false, is_row};
	static const struct scene latency[] = {
		{"ib_write_lat", {"-s", "4096", "-n", "1000", "-F"}, "-p", true, is_row},
		{"ib_read_lat", {"-s", "4096", "-n", "1000", "-F"}, "-p", true, is_row},
		{"ib_atomic_lat", {"-n", "1000", "-F"}, "-p", true, is_row},
	};
	static const char *const devices[] = {"uroce", "devices", NULL};
	int status;

	heading("1. The devices that programs see on this machine, which needs no RDMA hardware for it");
	status = ourselves(devices);
	if (status)
		return status;
	heading("2. ibv_rc_pingpong, unmodified from ibverbs-utils: 1000 SENDs each way");
	status = play(command, &pingpong);
	if (status)
		return status;
	heading("3. ib_write_bw, unmodified from perftest: how fast memory is written from afar");
	status = play(command, &bandwidth);
	if (status)
		return status;
	heading("4. The time that one WRITE and one READ of 4096 bytes take, and one atomic, with the trace on");
	for (size_t i = 0; i < ARRAY_SIZE(latency) && !status; i++)
		status = play(command, &latency[i]);
	for (size_t i = 0; i < ARRAY_SIZE(lives) && !status; i++) {
		heading("%zu. %s", 5 + i, lives[i].heading);
		status = show_trace(lives[i].program, lives[i].operation, lives[i].ladder);
	}
	return status;
}

static FILE *open_log(const char *name)
{
	char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return fopen(path, "re");
}

/* The first lines of both logs, side by side. False: they differ, or are empty. */
static bool show_logs(const char *one, const char *two)
{
	FILE *a = open_log(one), *b = open_log(two);
	char first[256], second[256];
	bool same = a && b, more = same;
	int lines = 0;

	printf("\n  the packets that were lost    ... and the second time\n");
	while (more) {
		more = fgets(first, sizeof(first), a) != NULL;
		same &= more == (fgets(second, sizeof(second), b) != NULL) && (!more || !strcmp(first, second));
		more &= same;
		first[strcspn(first, "\n")] = 0;
		if (more && lines++ < 3)
			printf("  %-29s %s", first, second);
	}
	if (a)
		fclose(a);
	if (b)
		fclose(b);
	if (same && lines)
		printf("  %d in all: each time the same.\n", lines);
	else
		printf("  %sThese should be the same.%s\n", style(RED), style(PLAIN));
	return same && lines;
}

static int demo_faults(const struct command *command)
{
	static const struct {
		const char *heading;
		struct scene scene;
	} acts[] = {
		{"1. One packet in a hundred is lost. The adapter sends it again",
		 {.rule = "out SEND chance 1%: drop", .log = "first.log"}},
		{"2. The same seed: the same packets", {.rule = "out SEND chance 1%: drop", .log = "second.log"}},
		{"3. The port goes down under the 250th request, for 20 ms",
		 {.rule = "post nth 250: port-down 20ms", .log = "third.log"}},
		{"4. The 250th message that comes in is refused. What each end says of it",
		 {.rule = "in SEND nth 250: nak access", .log = "third.log", .fails = true}},
	};
	int status = 0;

	for (size_t i = 0; i < ARRAY_SIZE(acts) && !status; i++) {
		struct scene scene = acts[i].scene;

		scene.program = "ibv_rc_pingpong";
		memcpy(scene.argv, (const char *[]){"-g", "0", "-n", "500"}, 4 * sizeof(char *));
		scene.port_option = "-p";
		scene.worth_showing = tells_outcome;
		heading("%s", acts[i].heading);
		status = play(command, &scene);
		if (!status && i == 1 && !show_logs("first.log", "second.log"))
			status = EXIT_FAILURE;
	}
	if (!status)
		printf("\nNext: %suroce run --fault RULES PROGRAM%s; uroce-fault(5) has the rules.\n"
		       "%suroce hostile -n 100 PROGRAM%s takes them from 100 seeds.\n",
		       style(BOLD), style(PLAIN), style(BOLD), style(PLAIN));
	return status;
}

/* What goes on in a further line is indented like the line, and a little more. */
static void print_report(int output)
{
	FILE *file = fdopen(dup(output), "r");
	char line[1024];

	if (!file)
		return;
	rewind(file);
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = 0;
		printf("  ");
		print_wrapped(stdout, line, 2, 4 + (unsigned)strspn(line, " "));
		putchar('\n');
	}
	fclose(file);
}

/* This program itself, under another command of its own. Its output goes to a file. */
static void start_mistakes(struct actor *a, const char *how, const char *which)
{
	char self[PATH_MAX] = "";
	const char *const argv[] = {"uroce", how, self, "demo", which, NULL};

	fflush(stdout);
	a->output = memfd_new(a->role, MFD_CLOEXEC);
	if (a->output < 0 || readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return;
	a->pid = fork();
	if (a->pid)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	dup2(a->output, STDOUT_FILENO);
	dup2(a->output, STDERR_FILENO);
	execv(self, (char **)argv);
	_exit(EXIT_NOT_FOUND);
}

/* True if it ends with that status. */
static bool play_mistakes(const char *how, const char *which, int expected)
{
	struct actor a = {.role = "program", .status = 1 << 8};

	printf("  $ %suroce %s uroce demo %s%s\n\n", style(BOLD), how, which, style(PLAIN));
	start_mistakes(&a, how, which);
	if (a.pid > 0 && waitpid(a.pid, &a.status, 0) != a.pid)
		stop(&a); /* a signal */
	if (a.output >= 0)
		print_report(a.output);
	close(a.output);
	return WIFEXITED(a.status) && WEXITSTATUS(a.status) == expected;
}

static int demo_check(const struct command *command)
{
	static const struct {
		const char *heading, *how, *which;
		int status;
	} acts[] = {
		{"1. A program with three mistakes, which seems to work", "run", "mistakes", EXIT_SUCCESS},
		{"2. What uroce check says of it", "check", "mistakes", FOUND},
		{"3. The same program, mended", "check", "mended", EXIT_SUCCESS},
	};

	for (size_t i = 0; i < ARRAY_SIZE(acts); i++) {
		heading("%s", acts[i].heading);
		if (play_mistakes(acts[i].how, acts[i].which, acts[i].status))
			continue;
		if (interrupted)
			return 128 + interrupted;
		return complain(command, "that should end with status %d; `uroce doctor` may know why", acts[i].status);
	}
	printf("\nIts source is src/tools/mistakes.c. docs/check.md has the other mistakes.\n"
	       "Next: %suroce check PROGRAM%s for your own programs.\n",
	       style(BOLD), style(PLAIN));
	return EXIT_SUCCESS;
}

/* False, and errno. */
static bool is_directory(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return false;
	errno = ENOTDIR;
	return S_ISDIR(st.st_mode);
}

static int demo_mistakes(const struct command *command)
{
	return mistakes_run(command, false);
}

static int demo_mended(const struct command *command)
{
	return mistakes_run(command, true);
}

static const struct demo {
	const char *word; /* the argument; "": none */
	int (*run)(const struct command *command);
	bool is_program; /* that others run */
} demos[] = {
	{"", demo_perform, false},	   {"faults", demo_faults, false}, {"check", demo_check, false},
	{"mistakes", demo_mistakes, true}, {"mended", demo_mended, true},
};

static const struct demo *find_demo(const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(demos); i++)
		if (!strcmp(word, demos[i].word))
			return &demos[i];
	return NULL;
}

int demo_command(const struct command *command, int argc, char **argv)
{
	static const struct option options[] = {
		{"keep", no_argument, NULL, 'k'}, {"directory", required_argument, NULL, 'd'}, {0}};
	struct sigaction on_signal = {.sa_handler = interrupt};
	const struct demo *demo;
	const char *word;
	bool keep = false;
	int c, status;

	while ((c = next_option(command, argc, argv, "kd:", options)) != -1) {
		if (c == '?')
			return show_usage(command);
		keep |= c == 'k';
		if (c == 'd')
			program_directory = optarg;
	}
	word = optind < argc ? argv[optind++] : "";
	demo = find_demo(word);
	if (optind < argc || !demo)
		return wrong_usage(command, "'%s'? It takes one argument: faults, check, mistakes or mended",
				   demo ? argv[optind] : word);
	if (demo->is_program)
		return demo->run(command);
	if (program_directory && !is_directory(program_directory))
		return complain(command, "%s is no directory to take programs from: %s", program_directory,
				strerror(errno));
	if (!library_path())
		return complain(command, "liburoce.so.1 is neither beside this program nor in %s", UROCE_LIBDIR);
	if (!make_directory())
		return complain(command, "%s: %s", directory, strerror(errno));
	sigaction(SIGINT, &on_signal, NULL);
	sigaction(SIGTERM, &on_signal, NULL);
	sigaction(SIGHUP, &on_signal, NULL);
	if (!terminal_columns())
		setenv("COLUMNS", "80", 1); /* of a file as well, and for those that it starts */
	status = demo->run(command);
	if (keep)
		keep_traces();
	else
		remove_traces();
	if (!status && !*word)
		printf("Next: %suroce run PROGRAM%s for your own programs,\n"
		       "%suroce run -t FILE PROGRAM%s to look inside them.\n",
		       style(BOLD), style(PLAIN), style(BOLD), style(PLAIN));
	return status;
}
