/* SPDX-License-Identifier: BSD-2-Clause */
/* Table of subcommands, and the help. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/config.h"
#include "base/nearest.h"
#include "tools/command.h"

static const struct command commands[] = {
	{"run", "[OPTION...] [--] PROGRAM [ARGUMENT...]", "run a program on uroce's devices",
	 "  -a, --adapter NAME  devices like this adapter (see UROCE_ADAPTER in uroce(7))\n"
	 "  -r, --rsocket       its TCP connections by RDMA, if the peer does the same\n"
	 "  -f, --fault RULES   inject faults: see uroce-fault(5); @FILE: a file of\n"
	 "                      rules; may be given several times\n"
	 "  -s, --fault-seed N  repeat the faults of a run with this seed\n"
	 "  -l, --fault-log FILE\n"
	 "                      add each fault to FILE, as a rule that repeats it\n"
	 "  -e, --fault-expect  a rule that never fires makes the exit status 99\n"
	 "  -H, --hostile[=SEED]\n"
	 "                      the faults of this seed of uroce hostile, or of any\n"
	 "  -t, --trace FILE    record the steps of each work request, for uroce trace;\n"
	 "                      %p in the name becomes the process id\n"
	 "  -p, --pcap FILE     capture its packets and its children's, for Wireshark\n"
	 "  -S, --snap BYTES    with -p: bytes of each frame to keep, at least 110\n",
	 run_command},
	{"check", "[OPTION...] [--] PROGRAM [ARGUMENT...]", "run a program and look for its mistakes",
	 "  -o, --only CLASS    leaks, habits, buffers, mappings, races or all; may be\n"
	 "                      given several times; default: the first three\n"
	 "  -p, --pages         name the instruction that writes to memory in flight, by\n"
	 "                      protecting its pages\n"
	 "  -S, --strict-polling\n"
	 "                      the same, and the one that reads memory of a receive, READ\n"
	 "                      or an atomic before its completion was polled\n"
	 "  -e, --error-exitcode N\n"
	 "                      exit status with findings (98); 0: the program's\n"
	 "  -f, --failed        the same exit status if requests have failed\n"
	 "  -r, --report FILE   what all processes have found, as JUnit (.xml) or SARIF\n"
	 "                      (.sarif)\n"
	 "  -l, --log-file FILE where findings go; %p in the name becomes the process id\n"
	 "  -j, --json          findings as JSON, one a line\n"
	 "  -s, --suppressions FILE\n"
	 "                      findings not to report: lines \"FINDING FUNCTION\"\n"
	 "  -g, --gen-suppressions\n"
	 "                      print the line that suppresses each finding\n"
	 "  -t, --through DEVICE\n"
	 "                      the program uses this device of another adapter\n",
	 check_command},
	{"conform", "[OPTION...]", "try on a device what an adapter must do, rule by rule",
	 "  -d, --device NAME   the device (the first)\n"
	 "  -a, --adapter NAME  a device like this adapter (see UROCE_ADAPTER in uroce(7))\n"
	 "  -r, --real          a device of this machine's own, without uroce\n"
	 "  -l, --list          print the rules, and try none\n"
	 "  -o, --only RULE     rules with this beginning or pattern; may be given again\n"
	 "  -L, --long          also rules that take long\n"
	 "  -1, --one-process   both ends in one process, not in two\n"
	 "  -s, --server        serve the other ends of a client on another host\n"
	 "  -c, --client HOST   the other ends are there\n"
	 "  -g, --gid INDEX     index of the GID to use\n"
	 "  -n, --jobs N        groups of rules tried at a time\n"
	 "  -w, --wait SECONDS  a rule whose check takes longer is broken: it hangs (10)\n"
	 "  -v, --verbose       print all rules, not only what is not right\n"
	 "  -t, --tap           as TAP\n"
	 "  -j, --json          as JSON, a rule a line\n"
	 "  exit status: 0, or 1 if a rule is broken, 2 without such a device\n",
	 conform_command},
	{"demo", "[-k] [-d DIRECTORY] [faults | check | mistakes | mended]",
	 "watch two unmodified programs do RDMA, and what happens inside",
	 "faults: watch them meet faults that a seed repeats.\n"
	 "check: see what uroce check says of a program with three mistakes. mistakes is\n"
	 "that program, for uroce run and uroce check; mended is the same without them.\n"
	 "  -k, --keep          keep the traces and logs\n"
	 "  -d, --directory DIR look for the programs there and not in PATH\n",
	 demo_command},
	{"devices", "", "list the devices that programs see, and their path on this host", "", devices_command},
	{"link", "[down|up DEVICE...]", "take the ports of devices down or up, or show which are",
	 "  exit status: 0, or 1 if there is no such device\n", link_command},
	{"doctor", "[-j]", "check what uroce needs of this machine, and say what to do about it",
	 "  -j, --json          as JSON\n"
	 "  exit status: 0, or 1 if something that uroce needs is missing\n",
	 doctor_command},
	{"explain", "CODE | --list | [-p] PID... | FILE...", "say what a cause means, or what a program waits for",
	 "CODE is the vendor_err of a completion, or that of a message, \"(cause 0x...)\",\n"
	 "or a name of --list; or the status of a completion: 12, IBV_WC_RETRY_EXC_ERR.\n"
	 "PID is a process that runs on uroce's devices; no trace is needed.\n"
	 "FILE is a trace, of a program that runs or has ended; ./1 is a file, 1 a code.\n"
	 "  -l, --list          the codes and names of all causes\n"
	 "  -p, --pid           each number is a process, also one that is a code\n"
	 "  exit status: 0, or 1 if there is no such code, process or trace\n",
	 explain_command},
	{"fault", "PID [list | add RULE | remove N | clear]",
	 "show or change the faults that a process that runs injects",
	 "RULE is one of uroce-fault(5), in quotes; for example\n"
	 "  uroce fault 4711 add \"out SEND every 30: drop\"\n"
	 "  exit status: 0, or 1 if there is no such process or rule\n",
	 fault_command},
	{"hostile", "[OPTION...] [--] PROGRAM [ARGUMENT...]",
	 "run a program under the faults that IB permits, seed by seed",
	 "  -n, --times N       number of seeds, one after the other (20)\n"
	 "  -s, --seed N        the first of them (1)\n"
	 "  -t, --timeout SECONDS\n"
	 "                      a run that takes longer has failed: it hangs (60)\n"
	 "  -p, --print         show the rules of the seed and what permits them\n"
	 "  exit status: 0, or 1 if the program failed under a seed\n",
	 hostile_command},
	{"pair", "[OPTION...] 'SERVER' 'CLIENT'", "run a server, and its client when the server listens",
	 "Each is a command as in sh -c. The lines of both are printed with their names.\n"
	 "`uroce check uroce pair ...`, `uroce hostile uroce pair ...` look at both.\n"
	 "  -f, --fault RULES   inject faults into the client, see uroce-fault(5)\n"
	 "  -s, --serves        the server does not end by itself: end it with its client\n"
	 "  -t, --timeout SECONDS\n"
	 "                      end both then, and fail (60)\n"
	 "  exit status: the client's; if that is 0, the server's; 124: the time is over\n",
	 pair_command},
	{"pcap", "-w FILE [OPTION...] PID... | -- PROGRAM [ARGUMENT...]",
	 "capture the packets of processes that run, for Wireshark",
	 "PROGRAM is run, as uroce run --pcap does, and captured from its start.\n"
	 "  -w, --write FILE    pcapng; -: standard output, for | wireshark -k -i -\n"
	 "  -s, --snap BYTES    bytes of each frame to keep, at least 110\n"
	 "  -q, --qpn QPN       only packets to or from this queue pair\n"
	 "  -a, --address IP    only packets to or from this address\n"
	 "  -C, --file-size N   after N MiB begin another file: FILE.0, FILE.1 ...\n"
	 "  -W, --files N       and keep the last N of them\n",
	 pcap_command},
	{"stat", "[OPTION...] [PID...]", "show the devices, QPs, CQs, regions and ids of processes that run",
	 "  -a, --all           each region, PD, SRQ and context too\n"
	 "  -b, --bytes SECONDS count the bytes of each queue pair for that time\n"
	 "  -j, --json          as JSON\n"
	 "  -p, --prometheus    in Prometheus' format\n",
	 stat_command},
	{"top", "[OPTION...] [PID...]", "watch the busiest queue pairs of processes that run",
	 "  -b, --bytes         also bytes per second, which slows the processes\n"
	 "  -d, --delay SECONDS time between two updates (1)\n"
	 "  -n, --times N       end after N updates\n"
	 "  -s, --sort KEY      b busy, s sent, r received, o open, e resent, p process\n"
	 "keys: the same letters; q ends it\n",
	 top_command},
	{"trace", "[OPTION...] FILE... | --live PID...", "show the steps of each work request, from traces of its ends",
	 "  -q, --qpn QPN       only requests posted to this queue pair\n"
	 "  -w, --wqe N         only the request with this number\n"
	 "  -o, --opcode NAME   only this operation: SEND, WRITE, READ and so on\n"
	 "  -l, --limit N       the last N of them; 0: all (10; with --json all)\n"
	 "  -s, --summary       only the table of times\n"
	 "  -r, --requests      only the requests\n"
	 "  -j, --json          as JSON\n"
	 "      --ladder        each as a ladder diagram of text\n"
	 "      --live          of processes that run, until Ctrl-C\n"
	 "      --seconds N     for N seconds (implies --live)\n"
	 "      --html FILE     a page of ladder diagrams; -: standard output\n"
	 "      --perfetto FILE as JSON for ui.perfetto.dev (all requests)\n",
	 trace_command},
};

static int help(void)
{
	printf("uroce: RDMA without RDMA hardware\n\nusage: uroce COMMAND ...\n\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		printf("  %-9s %s\n", commands[i].name, commands[i].summary);
	printf("\n`uroce COMMAND --help` says more, as do the manual pages uroce(1) and uroce(7).\n"
	       "`uroce help environment` lists the environment variables.\n");
	return EXIT_SUCCESS;
}

/* max 15 lines, 80 columns. */
static int say_what_to_do_next(void)
{
	fprintf(stderr, "usage: uroce COMMAND ...\n\n"
			"  uroce demo           see two unmodified programs do RDMA on this machine\n"
			"  uroce devices        list the devices that programs will see\n"
			"  uroce run PROGRAM    run a program of your own with these devices; for example\n"
			"                         uroce run ibv_rc_pingpong -g 0              here, and\n"
			"                         uroce run ibv_rc_pingpong -g 0 HOST         elsewhere\n"
			"  uroce run -t FILE PROGRAM, then uroce trace FILE\n"
			"                       see the steps of each of its work requests\n"
			"  uroce doctor         if something does not work: find out why\n\n"
			"`uroce --help` lists all commands, `uroce help environment` the settings.\n");
	return EXIT_USAGE;
}

/* Prints two lines for each variable, of at most 80 columns where its values leave room. */
static int help_environment(bool all)
{
	for (size_t i = 0; i < CONFIG_VARIABLES; i++) {
		const struct config_row *row = &config_row[i];
		const char *initial = row->for_tests ? "(tests)" : *row->initial ? row->initial : "unset";
		int width;

		if (row->for_tests && !all)
			continue;
		width = printf("%s=%s", row->name, row->values);
		printf("%*s\n    %s\n", max_of(76 - width, (int)strlen(initial) + 1), initial, row->help);
	}
	return EXIT_SUCCESS;
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(name, commands[i].name))
			return &commands[i];
	return NULL;
}

static int say_unknown(const char *name)
{
	const char *names[ARRAY_SIZE(commands) + 3] = {"help", "--help", "--version"};
	char hint[64];

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		names[3 + i] = commands[i].name;
	fprintf(stderr, "uroce: there is no command '%s'%s (`uroce --help` lists all)\n", name,
		nearest_hint(hint, sizeof(hint), name, names, ARRAY_SIZE(names)));
	return EXIT_USAGE;
}

static int help_on(int argc, char **argv)
{
	const struct command *command = argc ? find_command(argv[0]) : NULL;

	if (!argc || !strcmp(argv[0], "--help") || !strcmp(argv[0], "-h"))
		return help();
	if (!strcmp(argv[0], "environment") || !strcmp(argv[0], "env"))
		return help_environment(argc > 1 && !strcmp(argv[1], "--all"));
	if (!command)
		return say_unknown(argv[0]);
	print_help(command, stdout);
	return EXIT_SUCCESS;
}

static int run_subcommand(int argc, char **argv)
{
	const struct command *command;

	if (argc < 2)
		return say_what_to_do_next();
	if (!strcmp(argv[1], "--version")) {
		printf("uroce %s\n", UROCE_VERSION);
		return EXIT_SUCCESS;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
		return help_on(argc - 2, argv + 2);
	command = find_command(argv[1]);
	if (!command)
		return say_unknown(argv[1]);
	if (argc > 2 && (!strcmp(argv[2], "--help") || !strcmp(argv[2], "-h"))) {
		print_help(command, stdout);
		return EXIT_SUCCESS;
	}
	return command->run(command, argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	int status = run_subcommand(argc, argv);

	errno = 0;
	if ((!fflush(stdout) && !ferror(stdout)) || status)
		return status;
	fprintf(stderr, "uroce: standard output: %s\n", errno ? strerror(errno) : "not all of it could be written");
	return EXIT_FAILURE;
}
