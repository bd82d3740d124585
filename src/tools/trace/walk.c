/* SPDX-License-Identifier: BSD-2-Clause */
/* The states that each queue pair went through. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "tools/names.h"
#include "tools/terminal.h"
#include "tools/trace/life.h"
#include "tools/trace/views.h"

enum { WALKS = 8 }; /* queue pairs that are shown: a program may have thousands */

/* Prints the line of the queue pair whose first change of state this is. */
static void print_walk(const struct joined *j, const struct record *first, FILE *to)
{
	const struct records *r = j->records;
	uint32_t c = map_get(&j->by_qpn, (uint64_t)first->file << 32 | first->arg[0]);
	const struct record *end = r->all + r->count;
	uint64_t before = first->time, peer = 0;
	char *text = NULL;
	size_t size;
	FILE *line = open_memstream(&text, &size);

	for (const struct record *e = first; e < end; e++)
		if (e->point == TRACE_connect && e->file == first->file && e->arg[0] == first->arg[0])
			peer = e->arg[1];
	fprintf(line, "%c  QP 0x%06" PRIx64, end_letter(c == MAP_NONE ? first->file : j->conns[c].end), first->arg[0]);
	if (peer)
		fprintf(line, ", peer 0x%06" PRIx64, peer);
	fprintf(line, ": %s", qp_state_name(first->arg[1]));
	for (const struct record *e = first; e < end; e++) {
		if (e->point != TRACE_qp_state || e->file != first->file || e->arg[0] != first->arg[0])
			continue;
		fprintf(line, ", %s", qp_state_name(e->arg[2]));
		if (e != first && e->time - before >= 10 * MSEC)
			fprintf(line, " after %.1f ms", (double)(e->time - before) / MSEC);
		else if (e != first)
			fprintf(line, " after %s us", micros((int64_t)(e->time - before)));
		before = e->time;
	}
	fclose(line);
	print_wrapped(to, text, 0, 5);
	fputc('\n', to);
	free(text);
}

void print_walks(const struct joined *j, int64_t qpn, FILE *to)
{
	const struct records *r = j->records;
	const struct record *shown[WALKS];
	uint32_t count = 0;
	bool more = false;

	for (const struct record *e = r->all; e < r->all + r->count && !more; e++) {
		uint32_t i = 0;

		if (e->point != TRACE_qp_state || (qpn >= 0 && e->arg[0] != (uint64_t)qpn))
			continue;
		while (i < count && (shown[i]->file != e->file || shown[i]->arg[0] != e->arg[0]))
			i++;
		more = i == WALKS;
		if (i == count && !more)
			shown[count++] = e;
	}
	for (uint32_t i = 0; i < count; i++)
		print_walk(j, shown[i], to);
	if (more)
		fprintf(to, "   More queue pairs are in the trace; -q shows one.\n");
}
