/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce run`: a program with liburoce.so.1 in front of its libraries. */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/command.h"
#include "tools/library.h"
#include "tools/program.h"

/* The program may change its directory before it opens a device. */
static int set_trace(const char *file)
{
	char path[2 * PATH_MAX], here[PATH_MAX];

	if (file[0] == '/')
		return setenv("UROCE_TRACE", file, 1);
	if (!getcwd(here, sizeof(here)))
		return -1;
	snprintf(path, sizeof(path), "%s/%s", here, file);
	return setenv("UROCE_TRACE", path, 1);
}

int run_command(const struct command *command, int argc, char **argv)
{
	static const struct option options[] = {{"adapter", required_argument, NULL, 'a'},
						{"rsocket", no_argument, NULL, 'r'},
						{"trace", required_argument, NULL, 't'},
						{0}};
	const char *trace = NULL, *why;
	char path[PATH_MAX];
	bool rsocket = false;
	int c;

	while ((c = next_option(command, argc, argv, "+a:rt:", options)) != -1) {
		if (c == 'a')
			setenv("UROCE_ADAPTER", optarg, 1);
		else if (c == 'r')
			rsocket = true;
		else if (c == 't')
			trace = optarg;
		else
			return show_usage(command);
	}
	if (optind == argc)
		return wrong_usage(command, "which program?");
	argv += optind;
	if (!program_find(argv[0], path, sizeof(path))) {
		int error = errno;

		complain(command, "%s: %s", argv[0],
			 error == EACCES	? "is not executable"
			 : strchr(argv[0], '/') ? strerror(error)
						: "is not in PATH (is its package installed?)");
		return error == EACCES ? EXIT_CANNOT_RUN : EXIT_NOT_FOUND;
	}
	why = program_refuses_preload(path);
	if (why) {
		complain(command, "%s %s", path, why);
		return EXIT_CANNOT_RUN;
	}
	if (library_preload() || (rsocket && library_preload_rsocket())) {
		complain(command, "liburoce.so.1 is neither beside this program nor in %s", UROCE_LIBDIR);
		return EXIT_CANNOT_RUN;
	}
	if (trace && set_trace(trace))
		return complain(command, "%s: %s", trace, strerror(errno));
	execv(path, argv);
	complain(command, "%s: %s", path, strerror(errno));
	return EXIT_CANNOT_RUN;
}
