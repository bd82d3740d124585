/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce check`: runs a program on uroce's devices, which look for its mistakes (src/check/). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/config.h"
#include "base/nearest.h"
#include "tools/command.h"
#include "tools/library.h"
#include "tools/program.h"
#include "tools/run/report.h"

#define FOUND	 "98" /* exit status if there are findings */
#define USUAL	 "leaks,habits,buffers"
#define ALL_ROOM 256

static const char *const classes[] = {"leaks", "habits", "buffers", "mappings", "races", "all"};

struct check_options {
	char all[ALL_ROOM];
	const char *report; /* NULL: none */
};

/* Adds a class to `all`. 0, or the exit status. */
static int only(const struct command *command, const char *class, char all[ALL_ROOM])
{
	size_t at = strlen(all);
	char hint[100];

	for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
		if (!strcmp(class, classes[i])) {
			snprintf(all + at, ALL_ROOM - at, "%s%s", at ? "," : "", class);
			return 0;
		}
	return wrong_usage(command, "there is no class '%s'%s", class,
			   nearest_hint(hint, sizeof(hint), class, classes, ARRAY_SIZE(classes)));
}

static int set_exit(const struct command *command, const char *text)
{
	char *end;
	unsigned long status = strtoul(text, &end, 10);

	if (*end || end == text || status > 255)
		return wrong_usage(command, "'%s' is not an exit status: 0 to 255", text);
	return setenv("UROCE_CHECK_EXIT", text, 1) ? EXIT_FAILURE : 0;
}

static int set_report(const struct command *command, const char *file)
{
	return report_has_format(file)
		       ? 0
		       : wrong_usage(command, "--report %s: the name has to end in .xml (JUnit) or .sarif", file);
}

static int check_option(const struct command *command, int option, struct check_options *o)
{
	switch (option) {
	case 'o':
		return only(command, optarg, o->all);
	case 'e':
		return set_exit(command, optarg);
	case 'r':
		o->report = optarg;
		return set_report(command, optarg);
	case 'l':
		return program_set_file(command, "UROCE_CHECK_LOG", optarg, false);
	case 's':
		return program_set_file(command, "UROCE_CHECK_SUPPRESSIONS", optarg, true);
	case 'j':
		return setenv("UROCE_CHECK_JSON", "on", 1) ? EXIT_FAILURE : 0;
	case 'p': /* the stronger option counts */
		return setenv("UROCE_CHECK_PAGES", "writes", 0) ? EXIT_FAILURE : 0;
	case 'S':
		return setenv("UROCE_CHECK_PAGES", "touches", 1) ? EXIT_FAILURE : 0;
	case 't':
		return setenv("UROCE_THROUGH", optarg, 1) ? EXIT_FAILURE : 0;
	case 'f':
		return setenv("UROCE_CHECK_FAILED", "on", 1) ? EXIT_FAILURE : 0;
	case 'g':
		return setenv("UROCE_CHECK_GENERATE", "on", 1) ? EXIT_FAILURE : 0;
	default:
		return show_usage(command);
	}
}

/* The words of the program. valgrind gets the option by which memcheck's errors have the exit status of findings, if it
 * has not got it. */
static char **with_status(char **argv, int argc)
{
	const char *name = strrchr(argv[0], '/');
	char **more, option[64];

	if (strcmp(name ? name + 1 : argv[0], "valgrind"))
		return argv;
	for (int i = 1; i < argc && argv[i][0] == '-'; i++)
		if (!strncmp(argv[i], "--error-exitcode", strlen("--error-exitcode")))
			return argv;
	snprintf(option, sizeof(option), "--error-exitcode=%u", (unsigned)config_number(CONFIG_CHECK_EXIT));
	more = calloc((size_t)argc + 2, sizeof(*more));
	if (!more)
		return argv;
	more[0] = argv[0];
	more[1] = strdup(option);
	memcpy(more + 2, argv + 1, (size_t)(argc - 1) * sizeof(*more));
	return more[1] ? more : argv;
}

int check_command(const struct command *command, int argc, char **argv)
{
	static const struct option options[] = {{"only", required_argument, NULL, 'o'},
						{"error-exitcode", required_argument, NULL, 'e'},
						{"report", required_argument, NULL, 'r'},
						{"log-file", required_argument, NULL, 'l'},
						{"suppressions", required_argument, NULL, 's'},
						{"json", no_argument, NULL, 'j'},
						{"pages", no_argument, NULL, 'p'},
						{"strict-polling", no_argument, NULL, 'S'},
						{"gen-suppressions", no_argument, NULL, 'g'},
						{"through", required_argument, NULL, 't'},
						{"failed", no_argument, NULL, 'f'},
						{0}};
	struct check_options o = {0};
	int c, status;

	setenv("UROCE_CHECK_EXIT", FOUND, 1);
	while ((c = next_option(command, argc, argv, "+o:e:fr:l:s:jpSgt:", options)) != -1) {
		status = check_option(command, c, &o);
		if (status)
			return status;
	}
	if (optind == argc)
		return wrong_usage(command, "which program?");
	if (config_string(CONFIG_THROUGH)) {
		if (config_enum(CONFIG_CHECK_PAGES) || strstr(o.all, "races"))
			return wrong_usage(command, "--through: pages and races cannot be checked of another adapter");
		library_go_through();
	}
	if (setenv("UROCE_CHECK", *o.all ? o.all : USUAL, 1))
		return EXIT_FAILURE;
	if (!config_string(CONFIG_THROUGH) && program_set_explain())
		return EXIT_FAILURE;
	argv = with_status(argv + optind, argc - optind);
	return o.report || report_is_annotated() ? report_run(command, o.report, argv) : program_run(command, argv);
}
