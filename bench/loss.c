/* SPDX-License-Identifier: BSD-2-Clause */
/* What the engine makes of a bottleneck, by loss, round trip, rate and company, in virtual time: the same on every
 * machine. Beside it go-back-N, as other peers have it, and TCP's CUBIC. */
#include <stdio.h>

#include "base/clock.h"
#include "path/path.h"

#define SHORTEST (300 * MSEC)

static const double losses[] = {0, 0.0001, 0.001, 0.01, 0.05, 0.1};
static const uint64_t round_trips[] = {10 * USEC, 100 * USEC, MSEC, 10 * MSEC, 50 * MSEC};

static const struct kind {
	const char *name;
	bool is_uroce, reads, is_tcp;
	double late; /* of each packet */
} kinds[] = {{"uroce", true, false, false, 0},	    {"1% late", true, false, false, 0.01},
	     {"go-back-N", false, false, false, 0}, {"TCP", false, false, true, 0},
	     {"READs", true, true, false, 0},	    {"READs, gbn", false, true, false, 0}};

static struct path_case ask(double gbps, uint64_t round_trip, double loss)
{
	struct path_case c = path_usual(round_trip, loss);

	c.gbps = gbps;
	c.duration = max_of(60 * round_trip, SHORTEST);
	return c;
}

static void alone(double gbps, uint64_t round_trip, const struct kind *kind)
{
	printf("%4.0f Gb/s %6llu us %-10s", gbps, (unsigned long long)(round_trip / USEC), kind->name);
	for (size_t i = 0; i < ARRAY_SIZE(losses); i++) {
		struct path_case c = ask(gbps, round_trip, losses[i]);
		struct path_result result;

		c.is_uroce = kind->is_uroce;
		c.late = kind->late;
		c.reads = kind->reads;
		c.streams = !kind->is_tcp;
		c.tcps = kind->is_tcp;
		result = path_run(&c);
		if (result.failed)
			printf("    failed");
		else
			printf(" %8.3f", result.total);
		fflush(stdout);
	}
	printf("\n");
}

static void together(uint64_t round_trip, uint32_t streams, uint32_t tcps, double loss)
{
	struct path_case c = ask(10, round_trip, loss);
	struct path_result result;
	double ours = 0, theirs = 0;

	c.streams = streams;
	c.tcps = tcps;
	c.mtu = 1024; /* about a segment of TCP */
	c.duration *= 4;
	result = path_run(&c);
	for (uint32_t i = 0; i < streams + tcps; i++)
		*(i < streams ? &ours : &theirs) += result.goodput[i];
	printf("%6llu us, loss %.1f%%: %u uroce %.3f, %u TCP %.3f; fairness %.3f\n",
	       (unsigned long long)(round_trip / USEC), 100 * loss, streams, ours, tcps, theirs,
	       path_fairness(result.goodput, streams + tcps));
	fflush(stdout);
}

int main(void)
{
	printf("Goodput as a share of the rate: 64 KiB WRITEs, or READs, MTU 4096, queue of a round trip;\n"
	       "late: a packet takes a tenth of a round trip longer, and others overtake it\n\n");
	printf("%30s", "loss");
	for (size_t i = 0; i < ARRAY_SIZE(losses); i++)
		printf("%8.2f%%", 100 * losses[i]);
	printf("\n");
	for (double gbps = 10; gbps <= 100; gbps *= 10)
		for (size_t i = 0; i < ARRAY_SIZE(round_trips); i++)
			for (size_t k = 0; k < ARRAY_SIZE(kinds); k++)
				alone(gbps, round_trips[i], &kinds[k]);
	printf("\nCompany on 10 Gb/s, MTU 1024; fairness is Jain's index\n\n");
	for (size_t i = 1; i + 1 < ARRAY_SIZE(round_trips); i++) {
		together(round_trips[i], 8, 0, 0);
		together(round_trips[i], 8, 0, 0.001);
		together(round_trips[i], 1, 1, 0);
		together(round_trips[i], 4, 4, 0);
	}
	return 0;
}
