/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce run`: a program with liburoce.so.1 in front of its libraries. */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/config.h"
#include "fault/rule_parse.h"
#include "fault/rule_text.h"
#include "tools/collect.h"
#include "tools/command.h"
#include "tools/devices.h"
#include "tools/library.h"
#include "tools/program.h"

/* That a file can be read, or made. Not 0: errno. */
static int can_open(const char *path, bool is_read)
{
	char folder[2 * PATH_MAX];
	struct stat st;

	if (!stat(path, &st) && S_ISDIR(st.st_mode)) {
		errno = EISDIR;
		return -1;
	}
	if (is_read || !access(path, F_OK))
		return access(path, is_read ? R_OK : W_OK);
	snprintf(folder, sizeof(folder), "%s", path);
	return access(dirname(folder), W_OK | X_OK);
}

int set_file(const struct command *command, const char *variable, const char *file, bool is_read)
{
	char path[2 * PATH_MAX], here[PATH_MAX] = "";

	if (file[0] == '/' || getcwd(here, sizeof(here))) {
		snprintf(path, sizeof(path), "%s%s%s", here, *here ? "/" : "", file);
		if (!can_open(path, is_read))
			return setenv(variable, path, 1) ? EXIT_FAILURE : 0;
	}
	return complain(command, "%s: %s", file, strerror(errno));
}

/* Checks the rules before the program starts, and adds them to UROCE_FAULT. False: something is wrong, which has been
 * told. */
static bool add_rules(const struct command *command, const char *given)
{
	char line[RULE_TEXT], complaint[3 * RULE_TEXT], *all = NULL, *text = rules_read(given);
	const char *before = config_string(CONFIG_FAULT), *at = text;
	struct rule_error error;
	struct rule rule;
	int more = -1;

	if (!text) {
		complain(command, "%s: %s", given + (*given == '@'), strerror(errno));
		return false;
	}
	while ((more = rule_next(&at, line)) > 0 && !rule_parse(&rule, line, &error))
		;
	if (more > 0)
		rule_complain(complaint, sizeof(complaint), line, &error);
	if (more)
		complain(command, "%s", more > 0 ? complaint : "a rule is too long");
	if (!more)
		more = asprintf(&all, "%s%s%s", before ? before : "", before ? "\n" : "", text) < 0 ||
		       setenv("UROCE_FAULT", all, 1);
	free(all);
	free(text);
	return !more;
}

/* The option, of those that are variables of the library. False: it is wrong. */
static bool set_variable(const struct command *command, int option, const char *value)
{
	switch (option) {
	case 't':
		return !set_file(command, "UROCE_TRACE", value, false);
	case 'f':
		return add_rules(command, value);
	case 's':
		return !setenv("UROCE_FAULT_SEED", value, 1);
	case 'l':
		return !set_file(command, "UROCE_FAULT_LOG", value, false);
	case 'H':
		return !hostile_prepare(command, value);
	default:
		return !setenv("UROCE_FAULT_EXPECT", "on", 1);
	}
}

struct run_options {
	bool rsocket;
	struct collect_options pcap; /* no file: no capture */
};

/* 0, or the exit status. */
static int run_options(const struct command *command, int argc, char **argv, struct run_options *o)
{
	static const struct option options[] = {{"adapter", required_argument, NULL, 'a'},
						{"rsocket", no_argument, NULL, 'r'},
						{"trace", required_argument, NULL, 't'},
						{"fault", required_argument, NULL, 'f'},
						{"fault-seed", required_argument, NULL, 's'},
						{"fault-log", required_argument, NULL, 'l'},
						{"fault-expect", no_argument, NULL, 'e'},
						{"pcap", required_argument, NULL, 'p'},
						{"snap", required_argument, NULL, 'S'},
						{"hostile", optional_argument, NULL, 'H'},
						{0}};
	int c;

	*o = (struct run_options){.pcap.qpn = -1};
	while ((c = next_option(command, argc, argv, "+a:rt:f:s:l:ep:S:H::", options)) != -1) {
		if (c == 'a')
			setenv("UROCE_ADAPTER", optarg, 1);
		else if (c == 'r')
			o->rsocket = true;
		else if (c == 'p')
			o->pcap.file = optarg;
		else if (c == 'S' && !collect_number(optarg, SNAP_LEAST, &o->pcap.snap))
			return wrong_usage(command, "'%s' is no snap length: at least %u bytes", optarg, SNAP_LEAST);
		else if (!strchr("SfsletH", c))
			return show_usage(command);
		else if (c != 'S' && !set_variable(command, c, optarg))
			return EXIT_USAGE;
	}
	return optind == argc ? wrong_usage(command, "which program?") : 0;
}

static int execute_program(const struct command *command, const char *path, char **argv)
{
	execv(path, argv);
	complain(command, "%s: %s", path, strerror(errno));
	return EXIT_CANNOT_RUN;
}

static int complain_of_library(const struct command *command)
{
	complain(command, "liburoce.so.1 is neither beside this program nor in %s", UROCE_LIBDIR);
	return EXIT_CANNOT_RUN;
}

/* The program's path, with the library in front of its libraries from now on. 0, or the exit status. */
static int prepare_program(const struct command *command, const char *name, char path[PATH_MAX])
{
	const char *why;

	if (!program_find(name, path, PATH_MAX)) {
		int error = errno;

		complain(command, "%s: %s", name,
			 error == EACCES     ? "is not executable"
			 : strchr(name, '/') ? strerror(error)
					     : "is not in PATH (is its package installed?)");
		return error == EACCES ? EXIT_CANNOT_RUN : EXIT_NOT_FOUND;
	}
	why = program_refuses_preload(path);
	if (why) {
		complain(command, "%s %s", path, why);
		return EXIT_CANNOT_RUN;
	}
	if (library_preload())
		return complain_of_library(command);
	return 0;
}

int run_program(const struct command *command, char **argv)
{
	char path[PATH_MAX];

	return prepare_program(command, argv[0], path) ?: execute_program(command, path, argv);
}

static int execute_captured(const struct command *command, const struct collect_options *o, const char *path,
			    char **argv)
{
	struct collector *c;
	sigset_t old;
	pid_t child;
	int status;

	sigprocmask(SIG_BLOCK, NULL, &old);
	c = collect_open(o, command->name);
	if (!c || setenv("UROCE_PCAP", collect_name(c), 1))
		return EXIT_FAILURE;
	child = fork();
	if (child < 0)
		return complain(command, "fork: %s", strerror(errno));
	if (!child) {
		sigprocmask(SIG_SETMASK, &old, NULL);
		if (!strcmp(o->file, "-")) /* packets only are to be there */
			dup2(STDERR_FILENO, STDOUT_FILENO);
		_exit(execute_program(command, path, argv));
	}
	status = collect_run(c, child);
	collect_close(c);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int run_captured(const struct command *command, const struct collect_options *o, char **argv)
{
	char path[PATH_MAX];

	return prepare_program(command, argv[0], path) ?: execute_captured(command, o, path, argv);
}

/* A shell gives each command that a person types a process group of its own; a script's commands are in the script's.
 */
static bool is_typed(void)
{
	return isatty(STDERR_FILENO) && getpgrp() == getpid();
}

static _Noreturn void say_devices(void)
{
	struct device_view *views;
	struct winsize size = {0};
	const char *why;
	int count;

	/* these are the program's */
	unsetenv("UROCE_CHECK");
	unsetenv("UROCE_FAULT");
	unsetenv("UROCE_PCAP");
	unsetenv("UROCE_TRACE");
	count = devices_view(&views, &why);
	ioctl(STDERR_FILENO, TIOCGWINSZ, &size);
	if (count >= 0)
		devices_print_line(stderr, views, count, size.ws_col ? size.ws_col : 80);
	fflush(stderr);
	_exit(0);
}

/* The devices that the program will see, for who is at a terminal. Another process looks at them: this one becomes the
 * program. */
static void tell_devices(void)
{
	pid_t child = is_typed() ? fork() : -1;

	if (!child)
		say_devices();
	while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
}

int run_command(const struct command *command, int argc, char **argv)
{
	struct run_options o;
	char path[PATH_MAX];
	int status = run_options(command, argc, argv, &o);

	if (status)
		return status;
	argv += optind;
	status = prepare_program(command, argv[0], path);
	if (status)
		return status;
	if (o.rsocket && library_preload_rsocket())
		return complain_of_library(command);
	tell_devices();
	return o.pcap.file ? execute_captured(command, &o.pcap, path, argv) : execute_program(command, path, argv);
}
