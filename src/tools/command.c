/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/nearest.h"
#include "base/wrap.h"

static void print_usage(const struct command *command, FILE *to)
{
	fprintf(to, "usage: uroce %s%s%s\n", command->name, *command->usage ? " " : "", command->usage);
}

int show_usage(const struct command *command)
{
	print_usage(command, stderr);
	return EXIT_USAGE;
}

void print_help(const struct command *command, FILE *to)
{
	print_usage(command, to);
	fprintf(to, "%c%s.\n", command->summary[0] - 'a' + 'A', command->summary + 1);
	if (*command->help)
		fprintf(to, "\n%s", command->help);
}

static void vcomplain(const struct command *command, const char *format, va_list ap)
{
	char text[4096], lines[sizeof(text) + 1024];
	int n = snprintf(text, sizeof(text), "uroce %s: ", command->name);

	vsnprintf(text + n, sizeof(text) - (size_t)n, format, ap);
	wrap_lines(lines, sizeof(lines), text, wrap_columns(STDERR_FILENO));
	fputs(lines, stderr);
}

int complain(const struct command *command, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vcomplain(command, format, ap);
	va_end(ap);
	return EXIT_FAILURE;
}

int wrong_usage(const struct command *command, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vcomplain(command, format, ap);
	va_end(ap);
	return show_usage(command);
}

/* The option that is meant by `word`, which is "--name", possibly with "=value"; or NULL. */
static const char *nearest_option(const char *word, const struct option *options)
{
	const char *names[16] = {"help"};
	size_t count = 1;

	while (options->name && count < ARRAY_SIZE(names))
		names[count++] = options++->name;
	return nearest_word(strndupa(word + 2, strcspn(word + 2, "=")), names, count);
}

/* Explains what getopt_long() refused: optopt is 0 then if no long option begins so. */
static void complain_of_option(const struct command *command, const char *word, const char *letters,
			       const struct option *options)
{
	const char *letter = optopt ? strchr(letters, optopt) : NULL, *nearest = nearest_option(word, options);
	const struct option *o = options;
	bool is_known, needs;

	while (o->name && o->val != optopt)
		o++;
	is_known = letter || (o->name && !strncmp(word, "--", 2)); /* some long options have no letter */
	needs = letter ? letter[1] == ':' : o->has_arg == required_argument;
	if (optopt && is_known)
		complain(command, "the option '%s' %s", word, needs ? "needs an argument" : "takes no argument");
	else if (optopt)
		complain(command, "there is no option -%c", optopt);
	else
		complain(command, "there is no option '%s'%s%s%s", word, nearest ? ": did you mean --" : "",
			 nearest ?: "", nearest ? "?" : "");
}

int next_option(const struct command *command, int argc, char **argv, const char *letters, const struct option *options)
{
	int c;

	opterr = 0;
	c = getopt_long(argc, argv, letters, options, NULL);
	if (c != '?')
		return c;
	if (!strcmp(argv[optind - 1], "--help")) {
		print_help(command, stdout);
		exit(EXIT_SUCCESS);
	}
	complain_of_option(command, argv[optind - 1], letters, options);
	return c;
}
