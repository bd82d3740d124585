/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce run`: runs a program with liburoce.so.1 in front of its libraries. */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/capture/collect.h"
#include "tools/capture/collect_program.h"
#include "tools/command.h"
#include "tools/library.h"
#include "tools/program.h"
#include "tools/run/devices.h"
#include "tools/run/hostile.h"
#include "tools/run/rules.h"

/* Sets the library's variable of an option. False if the value is wrong. */
static bool set_variable(const struct command *command, int option, const char *value)
{
	switch (option) {
	case 't':
		return !program_set_file(command, "UROCE_TRACE", value, false);
	case 'f':
		return rules_add(command, value);
	case 's':
		return !setenv("UROCE_FAULT_SEED", value, 1);
	case 'l':
		return !program_set_file(command, "UROCE_FAULT_LOG", value, false);
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
			return wrong_usage(command, "'%s' is not a snap length: at least %u bytes", optarg, SNAP_LEAST);
		else if (!strchr("SfsletH", c))
			return show_usage(command);
		else if (c != 'S' && !set_variable(command, c, optarg))
			return EXIT_USAGE;
	}
	return optind == argc ? wrong_usage(command, "which program?") : 0;
}

/* True for a command typed in a shell, which gets its own process group; a script's commands have the script's. */
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

	/* variables of the program's own */
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

/* Prints the devices that the program will see, if at a terminal. Another process looks at them, as this one becomes
 * the program. */
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
	status = program_prepare(command, argv[0], path);
	if (status)
		return status;
	if (o.rsocket && library_preload_rsocket())
		return program_has_no_library(command);
	tell_devices();
	if (is_typed() && program_set_explain())
		return EXIT_FAILURE;
	return o.pcap.file ? collect_program(command, &o.pcap, path, argv) : program_execute(command, path, argv);
}
