/* SPDX-License-Identifier: BSD-2-Clause */
/* A subcommand of `uroce`: one row of the table in main.c, with a file of its own. */
#ifndef UROCE_TOOLS_COMMAND_H
#define UROCE_TOOLS_COMMAND_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct command {
	const char *name;
	const char *usage; /* arguments after "uroce NAME" */
	const char *summary;
	const char *help;						  /* options, one per line */
	int (*run)(const struct command *command, int argc, char **argv); /* returns the exit status */
};

int run_command(const struct command *, int argc, char **argv);
int devices_command(const struct command *, int argc, char **argv);
int link_command(const struct command *, int argc, char **argv);
int doctor_command(const struct command *, int argc, char **argv);
int demo_command(const struct command *, int argc, char **argv);
int pcap_command(const struct command *, int argc, char **argv);
int fault_command(const struct command *, int argc, char **argv);
int pair_command(const struct command *, int argc, char **argv);
int hostile_command(const struct command *, int argc, char **argv);
int explain_command(const struct command *, int argc, char **argv);
int stat_command(const struct command *, int argc, char **argv);
int top_command(const struct command *, int argc, char **argv);
int conform_command(const struct command *, int argc, char **argv);
int check_command(const struct command *, int argc, char **argv);
int trace_command(const struct command *, int argc, char **argv);

enum {
	EXIT_USAGE = 2,
	EXIT_CANNOT_RUN = 126, /* as in shells */
	EXIT_NOT_FOUND = 127,
};

/* getopt_long() for a subcommand. For an unknown option or a missing argument, prints a suggestion and returns '?'. */
int next_option(const struct command *command, int argc, char **argv, const char *letters,
		const struct option *options);
/* Prints the usage to stderr. Returns EXIT_USAGE. */
int show_usage(const struct command *command);

void print_help(const struct command *command, FILE *to);
/* Prints "uroce NAME: message" and a hint at --help. Returns EXIT_USAGE. */
int wrong_usage(const struct command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints "uroce NAME: message". Returns 1. */
int complain(const struct command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
