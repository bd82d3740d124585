/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/trace/summary.h"

#include <stdlib.h>

#include "base/base.h"
#include "tools/map.h"
#include "tools/names.h"
#include "tools/terminal.h"

const struct span spans[] = {
	{"waits for the requester", POSTED, PICKED_UP},
	{"packets are built", PICKED_UP, BUILT},
	{"handed to the link", BUILT, SENT},
	{"in transit", SENT, ARRIVED},
	{"done at the peer", ARRIVED, EXECUTED},
	{"response is built", EXECUTED, ANSWERED},
	{"response handed to the link", ANSWERED, ANSWER_SENT},
	{"response in transit", ANSWER_SENT, ANSWER_ARRIVED},
	{"completion written", ANSWER_ARRIVED, COMPLETED},
	{"completion polled", COMPLETED, POLLED},
	{"post to poll", POSTED, POLLED},
	{"post to done at the peer", POSTED, EXECUTED},
	{"peer: receive completed", EXECUTED, RECEIVE_COMPLETED},
	{"peer: receive polled", RECEIVE_COMPLETED, RECEIVE_POLLED},
	{"post to receive polled", POSTED, RECEIVE_POLLED},
};

const unsigned span_count = ARRAY_SIZE(spans);

#define OPCODES 16 /* enum ibv_wr_opcode, rounded up */

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

struct spread measure(const struct joined *j, const uint32_t *which, uint32_t count, uint32_t opcode,
		      const struct span *span)
{
	int64_t *time = grow(NULL, count, sizeof(*time));
	struct spread spread = {0};
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct request *q = &j->requests[which[i]];

		if (q->opcode == opcode && q->when[span->from] != NEVER && q->when[span->to] != NEVER)
			time[n++] = (int64_t)(q->when[span->to] - q->when[span->from]);
	}
	if (n) {
		qsort(time, n, sizeof(*time), by_value);
		/* nearest rank */
		spread = (struct spread){n, time[(n - 1) / 2], time[(uint32_t)(((uint64_t)n * 99 + 99) / 100) - 1],
					 time[0], time[n - 1]};
	}
	free(time);
	return spread;
}

static uint32_t count_of(const struct joined *j, const uint32_t *which, uint32_t count, uint32_t opcode)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i++)
		n += j->requests[which[i]].opcode == opcode;
	return n;
}

void print_summary(const struct joined *j, const uint32_t *which, uint32_t count, FILE *to)
{
	for (uint32_t opcode = 0; opcode < OPCODES; opcode++) {
		uint32_t n = count_of(j, which, count, opcode);

		if (!n)
			continue;
		fprintf(to, "%s%-30s%s %9s %10s %10s %10s\n", style(BOLD), operation_name(opcode), style(PLAIN),
			"count", "median, us", "p99, us", "max, us");
		for (unsigned i = 0; i < span_count; i++) {
			struct spread s = measure(j, which, count, opcode, &spans[i]);

			if (s.count)
				fprintf(to, "  %-28s %9u %10s %10s %10s\n", spans[i].name, s.count, micros(s.median),
					micros(s.p99), micros(s.max));
		}
		fputc('\n', to);
	}
}
