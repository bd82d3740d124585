/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce demo`: programs of the distribution's packages do RDMA with each other, and uroce shows what happened. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/memfd.h"
#include "tools/command.h"
#include "tools/library.h"
#include "tools/program.h"
#include "tools/run/ending.h"
#include "tools/run/mistakes.h"
#include "tools/run/scene.h"
#include "tools/terminal.h"

#define FOUND 98 /* exit status of uroce check */

/* True of the program's last messages, and uroce's about the fault. */
static bool tells_outcome(const char *line)
{
	static const char *const others[] = {"address:", "bytes in", "in force", "parse WC"};

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (strstr(line, others[i]))
			return false;
	return true;
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

/* This program as a user types it: by its name, if a shell finds it, or by its path. */
static const char *as_typed(void)
{
	static char own[PATH_MAX];
	char found[PATH_MAX];
	struct stat here, there;

	if (program_find("uroce", found, sizeof(found)) && !stat(found, &there) && !stat("/proc/self/exe", &here) &&
	    here.st_ino == there.st_ino && here.st_dev == there.st_dev)
		return "uroce";
	return readlink("/proc/self/exe", own, sizeof(own) - 1) > 0 ? own : "uroce";
}

static int show_trace(const char *program, const char *operation, bool ladder)
{
	char server[PATH_MAX + 64], client[PATH_MAX + 64], text[256];
	const char *const argv[] = {"uroce", "trace", "-o",   operation, "-w", "500",
				    "-l",    "1",     server, client,	 NULL, NULL};
	const char *drawn[12];

	memcpy(drawn, argv, sizeof(argv));
	drawn[10] = ladder ? "--ladder" : NULL;
	snprintf(server, sizeof(server), "%s/%s.server", stage.directory, program);
	snprintf(client, sizeof(client), "%s/%s.client", stage.directory, program);
	snprintf(text, sizeof(text), "$ %suroce trace %s-o %s -w 500 -l 1 %s.server %s.client", style(BOLD),
		 ladder ? "--ladder " : "", operation, program, program);
	printf("  ");
	print_wrapped(stdout, text, 2, 4);
	printf("%s\n\n", style(PLAIN));
	return ending_run_self(drawn, false);
}

/* Draws the SENDs that were shown as text. */
static void draw_traces(void)
{
	char server[PATH_MAX + 64], client[PATH_MAX + 64], page[PATH_MAX + 64];
	const char *const argv[] = {"uroce", "trace", "-l", "4", "--html", page, server, client, NULL};

	snprintf(server, sizeof(server), "%s/ibv_rc_pingpong.server", stage.directory);
	snprintf(client, sizeof(client), "%s/ibv_rc_pingpong.client", stage.directory);
	snprintf(page, sizeof(page), "%s/ladder.html", stage.directory);
	if (!access(server, R_OK) && !access(client, R_OK) && ending_run_self(argv, false) == EXIT_SUCCESS)
		printf("Some of them as ladder diagrams, for a browser:\n%s\n", page);
}

static void keep_traces(void)
{
	if (rmdir(stage.directory) == 0) { /* removed, as it was empty */
		printf("No trace was made.\n");
		return;
	}
	printf("What was recorded is in %s\n", stage.directory);
	draw_traces();
}

/* Traced operations, and the request of each to show. */
static const struct life {
	const char *program, *operation;
	bool ladder;
	const char *heading;
} lives[] = {
	{"ibv_rc_pingpong", "SEND", false,
	 "The life of one SEND of step 2, of the RECEIVE that it takes, and where the time goes"},
	{"ib_write_lat", "WRITE", false, "The life of one WRITE of step 4"},
	{"ib_read_lat", "READ", false, "The life of one READ of step 4"},
	{"ib_atomic_lat", "FETCH_ADD", false, "The life of one ATOMIC of step 4, a fetch and add"},
	{"ibv_rc_pingpong", "SEND", true, "The SEND of step 5 as a picture; --html draws it for a browser"},
};

static void remove_traces(void)
{
	static const char *const end[] = {"server", "client"}, *const logs[] = {"first.log", "second.log", "third.log"};
	char path[PATH_MAX + 64];

	for (size_t i = 0; i < 2 * ARRAY_SIZE(lives); i++) {
		snprintf(path, sizeof(path), "%s/%s.%s", stage.directory, lives[i / 2].program, end[i % 2]);
		unlink(path);
	}
	for (size_t i = 0; i < ARRAY_SIZE(logs); i++) {
		snprintf(path, sizeof(path), "%s/%s", stage.directory, logs[i]);
		unlink(path);
	}
	rmdir(stage.directory);
}

/* Makes the directory, in memory if possible: a disk that writes back the pages of a trace would show in its times. */
static bool make_directory(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(stage.directory, sizeof(stage.directory), "/dev/shm/uroce-demo-XXXXXX");
	if (!tmp && mkdtemp(stage.directory))
		return true;
	snprintf(stage.directory, sizeof(stage.directory), "%s/uroce-demo-XXXXXX", tmp ? tmp : "/tmp");
	return mkdtemp(stage.directory) != NULL;
}

static int demo_perform(const struct command *command)
{
	static const struct scene pingpong = {"ibv_rc_pingpong", {"-g", "0", "-n", "1000"}, "-p", true, NULL};
	static const struct scene bandwidth = {
		"ib_write_bw", {"-s", "65536", "-n", "20000", "-F"}, "-p", false, scene_is_row};
	static const struct scene latency[] = {
		{"ib_write_lat", {"-s", "4096", "-n", "1000", "-F"}, "-p", true, scene_is_row},
		{"ib_read_lat", {"-s", "4096", "-n", "1000", "-F"}, "-p", true, scene_is_row},
		{"ib_atomic_lat", {"-n", "1000", "-F"}, "-p", true, scene_is_row},
	};
	static const char *const devices[] = {"uroce", "devices", NULL};
	int status;

	heading("1. The devices that programs see on this machine, which needs no RDMA hardware for it");
	status = ending_run_self(devices, false);
	if (status)
		return status;
	heading("2. ibv_rc_pingpong, unmodified from ibverbs-utils: 1000 SENDs each way");
	status = scene_play(command, &pingpong);
	if (status)
		return status;
	heading("3. ib_write_bw, unmodified from perftest: how fast a peer's memory is written");
	status = scene_play(command, &bandwidth);
	if (status)
		return status;
	heading("4. The time that one WRITE and one READ of 4096 bytes take, and one atomic, with the trace on");
	for (size_t i = 0; i < ARRAY_SIZE(latency) && !status; i++)
		status = scene_play(command, &latency[i]);
	for (size_t i = 0; i < ARRAY_SIZE(lives) && !status; i++) {
		heading("%zu. %s", 5 + i, lives[i].heading);
		status = show_trace(lives[i].program, lives[i].operation, lives[i].ladder);
	}
	return status;
}

static FILE *open_log(const char *name)
{
	char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/%s", stage.directory, name);
	return fopen(path, "re");
}

/* Prints the first lines of both logs side by side. False if they differ, or are empty. */
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
		printf("  %sThey should be the same.%s\n", style(RED), style(PLAIN));
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
		status = scene_play(command, &scene);
		if (!status && i == 1 && !show_logs("first.log", "second.log"))
			status = EXIT_FAILURE;
	}
	if (!status)
		printf("\nNext: %s%s run --fault RULES PROGRAM%s; uroce-fault(5) has the rules.\n"
		       "%s%s hostile -n 100 PROGRAM%s takes them from 100 seeds.\n",
		       style(BOLD), as_typed(), style(PLAIN), style(BOLD), as_typed(), style(PLAIN));
	return status;
}

/* Prints a report; continued lines are indented a little more than their line. */
static void print_report(int output)
{
	FILE *file = scene_output(output);
	char line[1024];

	if (!file)
		return;
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = 0;
		printf("  ");
		print_wrapped(stdout, line, 2, 4 + (unsigned)strspn(line, " "));
		putchar('\n');
	}
	fclose(file);
}

/* Runs this program with another subcommand, and its output to a file. Returns the process id, or -1. */
static pid_t start_mistakes(const char *how, const char *which, int *output)
{
	char self[PATH_MAX] = "";
	const char *const argv[] = {"uroce", how, self, "demo", which, NULL};
	pid_t pid;

	fflush(stdout);
	*output = memfd_new("program", MFD_CLOEXEC);
	if (*output < 0 || readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return -1;
	pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ending_forget();
	dup2(*output, STDOUT_FILENO);
	dup2(*output, STDERR_FILENO);
	execv(self, (char **)argv);
	_exit(EXIT_NOT_FOUND);
}

/* True if the program ends with that status. */
static bool play_mistakes(const char *how, const char *which, int expected)
{
	int output, status = 1 << 8;
	pid_t pid;

	printf("  $ %suroce %s uroce demo %s%s\n\n", style(BOLD), how, which, style(PLAIN));
	pid = start_mistakes(how, which, &output);
	if (pid > 0)
		status = ending_wait(pid);
	if (output >= 0)
		print_report(output);
	close(output);
	return WIFEXITED(status) && WEXITSTATUS(status) == expected;
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
		if (ending_signal())
			return 128 + ending_signal();
		return complain(command, "the program should have ended with status %d: run `uroce doctor`",
				acts[i].status);
	}
	printf("\nIts source is src/tools/run/mistakes.c. docs/check.md has the other mistakes.\n"
	       "Next: %s%s check PROGRAM%s for your own programs.\n",
	       style(BOLD), as_typed(), style(PLAIN));
	return EXIT_SUCCESS;
}

/* False with errno. */
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
	const char *word; /* argument; "": none */
	int (*run)(const struct command *command);
	bool is_program; /* program to run under another command */
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
	const struct demo *demo;
	const char *word;
	bool keep = false;
	int c, status;

	while ((c = next_option(command, argc, argv, "kd:", options)) != -1) {
		if (c == '?')
			return show_usage(command);
		keep |= c == 'k';
		if (c == 'd')
			stage.programs = optarg;
	}
	word = optind < argc ? argv[optind++] : "";
	demo = find_demo(word);
	if (optind < argc || !demo)
		return wrong_usage(command, "'%s' is unknown: use faults, check, mistakes, mended or no argument",
				   demo ? argv[optind] : word);
	if (demo->is_program)
		return demo->run(command);
	if (stage.programs && !is_directory(stage.programs))
		return complain(command, "%s is not a directory to take programs from: %s", stage.programs,
				strerror(errno));
	if (!library_path())
		return complain(command, "liburoce.so.1 is neither beside this program nor in %s", UROCE_LIBDIR);
	if (!make_directory())
		return complain(command, "%s: %s", stage.directory, strerror(errno));
	ending_begin();
	if (!terminal_columns())
		setenv("COLUMNS", "80", 1); /* for files as well, and for programs started here */
	status = demo->run(command);
	if (keep)
		keep_traces();
	else
		remove_traces();
	if (!status && !*word)
		printf("Next: %s%s run PROGRAM%s for your own programs,\n"
		       "%s%s run -t FILE PROGRAM%s to look inside them.\n",
		       style(BOLD), as_typed(), style(PLAIN), style(BOLD), as_typed(), style(PLAIN));
	return status;
}
