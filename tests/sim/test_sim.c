/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs of simulated connections: thousands of short ones, each a seed. Same seed, same run, bit for bit.
 *
 *     test_sim [--seed N] [--runs N] [--loss P] [--duplicate P] [--corrupt P] [--reorder P]
 *              [--shortage P] [--scenario NAME] [--list] [--verbose]
 *
 * --list prints a line for each run. Prints TAP; when a run fails, its seed and the command that shows it
 * again. */
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/hazard.h"
#include "services.h"
#include "shortage.h"
#include "strangers.h"
#include "world.h"

#define RUNS_DEFAULT 12000
#ifdef __SANITIZE_THREAD__
#define RUNS_QUICK 300 /* there is but one thread */
#else
#define RUNS_QUICK 1500 /* with another sanitizer */
#endif

#define SERVICES_EVERY	4  /* one seed in so many is a run of UC, UD, SRQs and XRC as well */
#define STRANGERS_EVERY 32 /* one in so many is run with strangers as well */

/* What a seed stands for. */
static const struct kind {
	void (*init)(struct world *w, uint64_t seed, const struct options *options);
	void (*run)(struct world *w);
	void (*fini)(struct world *w);
} kinds[] = {
	{world_init, world_run, world_fini},
	{services_init, services_run, services_fini},
};

static char replay[512];
static struct world *world;

static void print_replay(FILE *f, uint64_t seed)
{
	fprintf(f, "# seed %lu; to see it again:\n#   %s --seed %lu --runs 1 --verbose\n", seed, replay, seed);
}

void failed(struct world *w, const struct end *e, const char *format, ...)
{
	va_list args;

	printf("not ok 1 - simulated connections\n# at %llu.%09llu, scenario %s", w->now / SEC, w->now % SEC,
	       w->scenario ? w->scenario->name : "?");
	if (e)
		printf(", end %u (QP %06x, peer %u)", e->number, e->qpn, e->peer->number);
	printf(":\n# ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	print_replay(stdout, w->seed);
	fflush(stdout);
	_exit(1);
}

void say(struct world *w, const struct end *e, const char *format, ...)
{
	va_list args;

	if (likely(!w->verbose))
		return;
	printf("# %llu.%09llu ", w->now / SEC, w->now % SEC);
	if (e)
		printf("end %u: ", e->number);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
}

/* An assertion or a sanitizer ends the run: which one it was must be known all the same. */
static void crashed(int signal)
{
	fflush(stdout);
	if (world)
		print_replay(stderr, world->seed);
	raise(signal); /* SA_RESETHAND: this time for good */
}

static void watch_crashes(void)
{
	static const int signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE};
	struct sigaction action = {.sa_handler = crashed, .sa_flags = SA_RESETHAND};

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaction(signals[i], &action, NULL);
}

static void usage(void)
{
	fprintf(stderr, "usage: test_sim [--seed N] [--runs N] [--loss P] [--duplicate P] [--corrupt P] "
			"[--reorder P] [--shortage P] "
			"[--scenario NAME] [--list] [--verbose]\n");
	exit(2);
}

static void parse(int argc, char **argv, struct options *o, uint64_t *seed, uint64_t *runs)
{
	static const struct option longs[] = {
		{"seed", required_argument, NULL, 's'},
		{"runs", required_argument, NULL, 'r'},
		{"loss", required_argument, NULL, 'l'},
		{"duplicate", required_argument, NULL, 'd'},
		{"corrupt", required_argument, NULL, 'c'},
		{"reorder", required_argument, NULL, 'o'},
		{"scenario", required_argument, NULL, 'n'},
		{"verbose", no_argument, NULL, 'v'},
		{"list", no_argument, NULL, 'i'},
		{"shortage", required_argument, NULL, 'm'},
		{0},
	};
	size_t at = (size_t)snprintf(replay, sizeof(replay), "%s", argv[0]);

	for (int c, i; (c = getopt_long(argc, argv, "", longs, &i)) != -1;) {
		switch (c) {
		case 's':
			*seed = strtoull(optarg, NULL, 0);
			continue;
		case 'r':
			*runs = strtoull(optarg, NULL, 0);
			continue;
		case 'v':
			o->verbose = true;
			continue;
		case 'i':
			o->list = true;
			continue;
		case 'l':
			o->loss = atof(optarg);
			break;
		case 'd':
			o->duplicate = atof(optarg);
			break;
		case 'c':
			o->corrupt = atof(optarg);
			break;
		case 'o':
			o->reorder = atof(optarg);
			break;
		case 'm':
			o->shortage = atof(optarg);
			break;
		case 'n':
			o->scenario = optarg;
			break;
		default:
			usage();
		}
		at += (size_t)snprintf(replay + at, sizeof(replay) - at, " --%s %s", longs[i].name, optarg);
	}
}

int main(int argc, char **argv)
{
	const char *quick = getenv("UROCE_QUICK");
	struct options options = {.loss = -1, .duplicate = -1, .corrupt = -1, .reorder = -1, .shortage = -1};
	uint64_t seed = 1, runs = quick && *quick ? RUNS_QUICK : RUNS_DEFAULT;
	uint64_t ops = 0, bytes = 0, packets = 0, lost = 0, digest = 0, refused = 0, forged = 0, pieces;

	parse(argc, argv, &options, &seed, &runs);
	/* runs are short and alike: keep their memory */
	mallopt(M_MMAP_THRESHOLD, 256 << 20);
	mallopt(M_TRIM_THRESHOLD, 512 << 20);
	watch_crashes();
	hazards_begin(); /* of this thread: it stays */
	world = aligned_alloc(64, (sizeof(*world) + 63) & ~63ul);
	if (!world)
		return 1;
	printf("1..1\n");
	for (uint64_t i = 0; i < 2 * runs; i++) {
		if (i % 2 && (options.scenario || (seed + i / 2) % SERVICES_EVERY))
			continue;
		memset(world, 0, sizeof(*world));
		shortage_begin(2 * (seed + i / 2) + i % 2, options.shortage);
		pieces = shortage.pieces;
		kinds[i % 2].init(world, seed + i / 2, &options);
		kinds[i % 2].run(world);
		shortage_end();
		ops += world->ops;
		bytes += world->bytes;
		packets += world->network.sent;
		lost += world->network.lost + world->network.damaged;
		digest = digest * 31 + world->network.digest;
		if (options.list)
			printf("# seed %lu %s: %lu requests, %lu bytes, %lu packets, %lu events, %llu us\n",
			       seed + i / 2, world->scenario->name, world->ops, world->bytes, world->network.sent,
			       world->events, world->now / USEC);
		kinds[i % 2].fini(world);
		refused += shortage.refused;
		if (i % 2 == 0 && (seed + i / 2) % STRANGERS_EVERY == 1)
			forged += strangers_run(world, seed + i / 2, &options);
		expect(world, NULL, shortage.pieces == pieces, "%ld pieces of memory are left when all is over",
		       (long)(shortage.pieces - pieces));
	}
	printf("ok 1 - simulated connections\n# %lu runs from seed %lu: %lu requests, %lu bytes, %lu packets "
	       "(%lu lost), %lu allocations refused, %lu packets forged, digest %016lx\n",
	       runs, seed, ops, bytes, packets, lost, refused, forged, digest);
	free(world);
	return 0;
}
