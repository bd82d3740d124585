// SPDX-License-Identifier: BSD-2-Clause
/* Two ends of one RC connection that check each other: every opcode, with its data, lengths and completions.
 *
 *   exchange [OPTIONS] SCENARIO            the passive end
 *   exchange [OPTIONS] SCENARIO ADDRESS    the active end
 *
 * -d DEVICE  -g GID-INDEX  -m PATH-MTU  -p FIRST-PSN of the active end  -n OPERATIONS (of "mixed")  -s SEED
 * -t TIMEOUT as the attribute has it
 * -w  wait for READs before what changes memory, instead of asking for a fence ("mixed"): rxe forgets now and
 * then to go on after a fence
 * -r  READs of one packet at the most ("mixed")
 *
 * It is a plain libibverbs program and knows nothing of uroce: so that the kernel's rxe can be the other end.
 * What the ends must know of each other goes over TCP port 18515. Exit status: 0 good, 1 not, 77 one end
 * lacks the operation. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exchange.h"

struct settings settings = {
	.scenario = "",
	.mtu = 1024,
	.operations = 600,
	.timeout = 16, /* 0.27 s: an emulated peer may be slow, and must not look dead */
	.first_psn = 0x100,
	.seed = 1,
};
bool active;

void fail(const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "exchange %s, %s end: ", settings.scenario, active ? "active" : "passive");
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, "\n");
	exit(1);
}

static const struct {
	const char *name;
	void (*run)(void);
	unsigned access; /* that the queue pair allows; 0: all */
} scenarios[] = {
	{"send", scenario_send, 0},
	{"send-imm", scenario_send_imm, 0},
	{"write", scenario_write, 0},
	{"write-imm", scenario_write_imm, 0},
	{"read", scenario_read, 0},
	{"atomic", scenario_atomic, 0},
	{"gather", scenario_gather, 0},
	{"invalidate", scenario_invalidate, 0},
	{"rnr", scenario_rnr, 0},
	{"bad-key", scenario_bad_key, 0},
	{"bad-bounds", scenario_bad_bounds, 0},
	{"bad-access", scenario_bad_access, IBV_ACCESS_LOCAL_WRITE},
	{"bad-length", scenario_bad_length, 0},
	{"stream", scenario_stream, 0},
	{"mixed", scenario_mixed, 0},
};

int main(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "d:g:m:p:n:s:t:wr")) != -1)
		switch (option) {
		case 'd':
			settings.device = optarg;
			break;
		case 'g':
			settings.gid_index = atoi(optarg);
			break;
		case 'm':
			settings.mtu = atoi(optarg);
			break;
		case 'p':
			settings.first_psn = (uint32_t)strtoul(optarg, NULL, 0);
			break;
		case 'n':
			settings.operations = atoi(optarg);
			break;
		case 's':
			settings.seed = (uint32_t)strtoul(optarg, NULL, 0);
			break;
		case 't':
			settings.timeout = atoi(optarg);
			break;
		case 'r':
			settings.short_reads = true;
			break;
		case 'w':
			settings.wait_for_reads = true;
			break;
		default:
			return 2;
		}
	if (optind >= argc)
		return 2;
	settings.scenario = argv[optind];
	active = argv[optind + 1];
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(*scenarios); i++) {
		if (strcmp(settings.scenario, scenarios[i].name))
			continue;
		end_create();
		end_to_init(scenarios[i].access ?: ALL);
		control_meet(argv[optind + 1]);
		control_swap(&me, &peer, sizeof(me));
		scenarios[i].run();
		barrier(); /* neither end takes its queue pair away before the other is done */
		CHECK(!ibv_destroy_qp(qp), "ibv_destroy_qp");
		printf("exchange %s: good\n", settings.scenario);
		return 0;
	}
	fail("no such scenario");
}
