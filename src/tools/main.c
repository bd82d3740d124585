/* SPDX-License-Identifier: BSD-2-Clause */
/* The `uroce` command: finds the subcommand. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "tools/command.h"

static const struct command commands[] = {
	{"run", "[-r] [-t FILE] [--] PROGRAM [ARGUMENT...]", "run a program on uroce's devices",
	 "  -r, --rsocket       its TCP connections go by RDMA, where the peer does the same\n"
	 "  -t, --trace FILE    record what each work request goes through (see uroce trace);\n"
	 "                      %p in the name becomes the process id\n",
	 run_command},
	{"demo", "[-k] [-d DIRECTORY]", "watch two unmodified programs do RDMA, and what happens inside",
	 "  -k, --keep          keep the traces\n"
	 "  -d, --directory DIR look for the programs there and not in PATH\n",
	 demo_command},
	{"devices", "", "list the devices that programs will see, and how they will talk on this host", "",
	 devices_command},
	{"doctor", "", "check what uroce needs of this machine, and say what to do about it",
	 "  exit status: 0, or 1 if something that uroce needs is missing\n", doctor_command},
	{"trace", "[OPTION...] FILE...", "show the life of each work request, from the traces of one or both ends",
	 "  -q, --qpn QPN       only requests posted to this queue pair\n"
	 "  -w, --wqe N         only the request with this number\n"
	 "  -o, --opcode NAME   only this operation, as the summary names it (SEND, WRITE, READ ...)\n"
	 "  -l, --limit N       the last N of them; 0: all (10; with --json all)\n"
	 "  -s, --summary       only the table of times\n"
	 "  -r, --requests      only the requests\n"
	 "  -j, --json          as JSON\n",
	 trace_command},
};

static void print_usage(const struct command *command, FILE *to)
{
	fprintf(to, "usage: uroce %s%s%s\n", command->name, *command->usage ? " " : "", command->usage);
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
	fprintf(stderr, "uroce %s: ", command->name);
	vfprintf(stderr, format, ap);
	fputc('\n', stderr);
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
	if (*format)
		vcomplain(command, format, ap);
	va_end(ap);
	print_usage(command, stderr);
	return EXIT_USAGE;
}

static int help(FILE *to)
{
	fprintf(to, "uroce: RDMA without RDMA hardware\n\nusage: uroce COMMAND ...\n\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(to, "  %-9s %s\n", commands[i].name, commands[i].summary);
	fprintf(to, "\n`uroce COMMAND --help` says more, as do the manual pages uroce(1) and uroce(7).\n");
	return to == stdout ? EXIT_SUCCESS : EXIT_USAGE;
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(name, commands[i].name))
			return &commands[i];
	return NULL;
}

int main(int argc, char **argv)
{
	const struct command *command;

	if (argc < 2)
		return help(stderr);
	if (!strcmp(argv[1], "--version")) {
		printf("uroce %s\n", UROCE_VERSION);
		return EXIT_SUCCESS;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		command = argc > 2 ? find_command(argv[2]) : NULL;
		if (!command)
			return help(stdout);
		print_help(command, stdout);
		return EXIT_SUCCESS;
	}
	command = find_command(argv[1]);
	if (!command) {
		fprintf(stderr, "uroce: there is no command '%s'\n\n", argv[1]);
		return help(stderr);
	}
	if (argc > 2 && (!strcmp(argv[2], "--help") || !strcmp(argv[2], "-h"))) {
		print_help(command, stdout);
		return EXIT_SUCCESS;
	}
	return command->run(command, argc - 1, argv + 1);
}
