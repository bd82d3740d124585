/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce explain CODE`: explains a cause, from vendor_err of a completion or from a message. `uroce explain FILE`:
 * prints what a program waits for. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/cause.h"
#include "tools/command.h"
#include "tools/map.h"
#include "tools/trace/waits.h"

static void explain_one(const struct cause_row *row)
{
	printf("  0x%03x  %s\n", row->code, row->name);
}

static void explain_all(void)
{
	for (const struct cause_row *row = cause_next(NULL); row; row = cause_next(row))
		explain_one(row);
}

/* Explains traces: arguments that are no number. */
static int explain_files(const struct command *command, char **names, int count)
{
	struct waits *w = grow(NULL, (size_t)count, sizeof(*w));
	const char *error = NULL;
	int loaded = 0;

	for (; loaded < count && !error; loaded++)
		error = waits_load(names[loaded], &w[loaded]);
	if (error)
		complain(command, "%s", error);
	for (int i = 0; i < count && !error; i++)
		waits_explain(&w[i], w, (size_t)count);
	while (loaded)
		waits_free(&w[--loaded]);
	free(w);
	return error ? EXIT_FAILURE : EXIT_SUCCESS;
}

int explain_command(const struct command *command, int argc, char **argv)
{
	static const struct option options[] = {{"list", no_argument, NULL, 'l'}, {0}};
	const struct cause_row *row;
	unsigned long code;
	char *end;
	int c;

	while ((c = next_option(command, argc, argv, "l", options)) != -1) {
		if (c != 'l')
			return show_usage(command);
		explain_all();
		return EXIT_SUCCESS;
	}
	if (optind == argc)
		return wrong_usage(command, "give the code of a cause, or the trace of a program");
	if (!isdigit((unsigned char)*argv[optind]))
		return explain_files(command, argv + optind, argc - optind);
	if (optind + 1 != argc)
		return wrong_usage(command, "give one code at a time");
	code = strtoul(argv[optind], &end, 0);
	row = !*end && code <= UINT16_MAX ? cause_find((uint32_t)code) : NULL;
	if (!row)
		return complain(command, "there is no cause %s: `uroce explain --list` shows all", argv[optind]);
	if (code & CAUSE_FLUSHED)
		printf("The request was flushed, as the queue pair had failed before. Why it had failed:\n");
	printf("0x%03x %s: %s.\nWhat to do: %s.\n", row->code, row->name, row->meaning, row->remedy);
	return EXIT_SUCCESS;
}
