/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce pcap`: captures the packets of running processes for Wireshark. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/control_call.h"
#include "tools/capture/collect.h"
#include "tools/capture/collect_program.h"
#include "tools/command.h"
#include "tools/program.h"

/* Options that take a number. */
static const struct pcap_option {
	int letter;
	uint32_t least;
	const char *what;
} pcap_numbers[] = {
	{'s', SNAP_LEAST, "snap length: bytes, at least 110"},
	{'q', 0, "queue pair number"},
	{'C', 1, "size of a file: MiB, at least 1"},
	{'W', 1, "number of files: at least 1"},
};

static_assert(SNAP_LEAST == 110, "the text above");

/* 0, or the exit status. */
static int set_number(const struct command *command, struct collect_options *o, int letter)
{
	const struct pcap_option *row = pcap_numbers;
	uint32_t n;

	while (row->letter != letter)
		row++;
	if (!collect_number(optarg, row->least, &n))
		return wrong_usage(command, "'%s' is not a %s", optarg, row->what);
	if (letter == 'q')
		o->qpn = n;
	else
		*(letter == 's' ? &o->snap : letter == 'C' ? &o->file_size : &o->files) = n;
	return 0;
}

/* 0, or the exit status. */
static int pcap_options(const struct command *command, int argc, char **argv, struct collect_options *o)
{
	static const struct option options[] = {
		{"write", required_argument, NULL, 'w'},
		{"snap", required_argument, NULL, 's'},
		{"qpn", required_argument, NULL, 'q'},
		{"address", required_argument, NULL, 'a'},
		{"file-size", required_argument, NULL, 'C'},
		{"files", required_argument, NULL, 'W'},
		{0},
	};
	uint8_t gid[16];
	int c, status = 0;

	*o = (struct collect_options){.qpn = -1};
	while (!status && (c = next_option(command, argc, argv, "w:s:q:a:C:W:", options)) != -1) {
		if (c == '?')
			status = show_usage(command);
		else if (c == 'w')
			o->file = optarg;
		else if (c == 'a')
			o->address = optarg;
		else
			status = set_number(command, o, c);
	}
	if (status)
		return status;
	if (!o->file)
		return wrong_usage(command, "no file named: -w FILE, or -w - for standard output");
	if (o->address && !collect_address(o->address, gid))
		return wrong_usage(command, "'%s' is not an IP address", o->address);
	if (o->files && !o->file_size)
		return wrong_usage(command, "--files needs --file-size: how large each of them becomes");
	return optind == argc ? wrong_usage(command, "which processes? (`uroce pcap -w FILE -- PROGRAM` begins with "
						     "the program)")
			      : 0;
}

/* Sends a request to a process. The capture ends with the connection, which ends with this command. 0, or an exit
 * status after a message. */
static int call_process(const struct command *command, const char *word, const char *request)
{
	char answer[256];
	uint32_t pid;
	int fd;

	if (!collect_number(word, 1, &pid))
		return wrong_usage(command, "'%s' is not a process id", word);
	fd = control_call((pid_t)pid, request, answer, sizeof(answer), NULL);
	if (fd < 0)
		return complain(command, "process %s: %s", word, answer);
	if (!strcmp(request, "version"))
		close(fd);
	return 0;
}

/* 0, or the exit status. */
static int call_all(const struct command *command, char **words, const char *request)
{
	int status = 0;

	while (!status && *words)
		status = call_process(command, *words++, request);
	return status;
}

int pcap_command(const struct command *command, int argc, char **argv)
{
	struct collect_options o;
	int status = pcap_options(command, argc, argv, &o);
	struct collector *c;
	char request[256], path[PATH_MAX];

	if (status)
		return status;
	if (!strcmp(argv[optind - 1], "--"))
		return program_prepare(command, argv[optind], path)
			       ?: collect_program(command, &o, path, argv + optind);
	status = call_all(command, argv + optind, "version"); /* before the file is overwritten */
	if (status)
		return status;
	c = collect_open(&o, command->name);
	if (!c)
		return EXIT_FAILURE;
	snprintf(request, sizeof(request), "pcap %s", collect_name(c));
	status = call_all(command, argv + optind, request);
	if (status)
		return status;
	collect_run(c, 0);
	return collect_close(c) ? EXIT_SUCCESS : EXIT_FAILURE;
}
