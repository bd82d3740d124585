/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce pcap`: the packets of processes that run, as a file for Wireshark. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base.h"
#include "base/control_call.h"
#include "tools/collect.h"
#include "tools/command.h"
#include "tools/map.h"

static bool pcap_number(const char *text, uint32_t least, uint32_t *n)
{
	char *end;
	unsigned long long v;

	errno = 0;
	v = strtoull(text, &end, 0);
	if (errno || *text == '-' || end == text || *end || v < least || v > UINT32_MAX)
		return false;
	*n = (uint32_t)v;
	return true;
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
	uint32_t qpn;
	int c;

	*o = (struct collect_options){.qpn = -1};
	while ((c = next_option(command, argc, argv, "w:s:q:a:C:W:", options)) != -1) {
		uint32_t *n = c == 's' ? &o->snap : c == 'q' ? &qpn : c == 'C' ? &o->file_size : &o->files;

		if (c == '?')
			return show_usage(command);
		if (c == 'w')
			o->file = optarg;
		else if (c == 'a')
			o->address = optarg;
		else if (!pcap_number(optarg, c == 's' ? SNAP_LEAST : c == 'q' ? 0 : 1, n))
			return wrong_usage(command, "'%s' is no number that fits here (a snap length is at least %u)",
					   optarg, SNAP_LEAST);
		if (c == 'q')
			o->qpn = qpn;
	}
	if (!o->file)
		return wrong_usage(command, "no file named: -w FILE, or -w - for standard output");
	if (o->files && !o->file_size)
		return wrong_usage(command, "--files needs --file-size: how large each of them becomes");
	return optind == argc ? wrong_usage(command, "which processes? (`uroce run --pcap FILE PROGRAM` begins with "
						     "the program)")
			      : 0;
}

int pcap_command(const struct command *command, int argc, char **argv)
{
	struct collect_options o;
	int status = pcap_options(command, argc, argv, &o);
	char request[256], answer[256];
	struct collector *c;
	uint32_t pid;

	if (status)
		return status;
	c = collect_open(&o, command->name);
	if (!c)
		return EXIT_FAILURE;
	snprintf(request, sizeof(request), "pcap %s", collect_name(c));
	for (int i = optind; i < argc; i++) {
		if (!pcap_number(argv[i], 1, &pid))
			return wrong_usage(command, "'%s' is no process id", argv[i]);
		/* the capture ends with this connection, and that with this command */
		if (control_call((pid_t)pid, request, answer, sizeof(answer), NULL) < 0)
			return complain(command, "process %s: %s", argv[i], answer);
	}
	collect_run(c, 0);
	collect_close(c);
	return EXIT_SUCCESS;
}
