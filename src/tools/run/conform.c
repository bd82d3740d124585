/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce conform`: runs uroce-conform on uroce's devices or, with --real, on the machine's own. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/command.h"
#include "tools/library.h"
#include "tools/program.h"

#define PROGRAM "uroce-conform"

/* Finds the program beside this one, in a build directory's folder, or in PATH. 0, or an exit status. */
static int find(const struct command *command, char path[PATH_MAX])
{
	static const char *const places[] = {"", "conform/"};
	char own[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);

	own[n > 0 ? n : 0] = 0;
	for (size_t i = 0; strrchr(own, '/') && i < 2; i++) {
		int length =
			snprintf(path, PATH_MAX, "%.*s%s" PROGRAM, (int)(strrchr(own, '/') + 1 - own), own, places[i]);

		if (length < PATH_MAX && access(path, X_OK) == 0)
			return 0;
	}
	if (program_find(PROGRAM, path, PATH_MAX))
		return 0;
	complain(command, PROGRAM " is neither beside this program nor in PATH");
	return EXIT_NOT_FOUND;
}

int conform_command(const struct command *command, int argc, char **argv)
{
	char path[PATH_MAX];
	bool real = false;
	int status;

	for (int i = 1; i < argc; i++) {
		real |= !strcmp(argv[i], "-r") || !strcmp(argv[i], "--real");
		if ((!strcmp(argv[i], "-a") || !strcmp(argv[i], "--adapter")) && i + 1 < argc)
			setenv("UROCE_ADAPTER", argv[i + 1], 1);
		else if (!strncmp(argv[i], "--adapter=", 10))
			setenv("UROCE_ADAPTER", argv[i] + 10, 1);
	}
	status = find(command, path);
	if (!status && !real && library_preload())
		status = program_has_no_library(command);
	return status ?: program_execute(command, path, argv);
}
