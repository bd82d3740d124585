/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/trace/views.h"

#include <cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "tools/names.h"
#include "tools/trace/life.h"
#include "tools/trace/summary.h"

#define OPCODES 16

static void life_json_put(cJSON *object, FILE *to)
{
	char *text = cJSON_PrintUnformatted(object);

	fputs(text ? text : "null", to);
	free(text);
	cJSON_Delete(object);
}

static void life_json_number(cJSON *object, const char *name, double value)
{
	cJSON_AddNumberToObject(object, name, value);
}

/* Adds a hexadecimal string: most JSON readers cannot hold 64 bits in a number. */
static void hex(cJSON *object, const char *name, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)value);
	cJSON_AddStringToObject(object, name, text);
}

static cJSON *source_json(const struct source *s)
{
	static const char *const clock[] = {"reference", "shared", "estimated", "one way", "time of day"};
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "file", s->name);
	cJSON_AddStringToObject(o, "program", s->program);
	cJSON_AddStringToObject(o, "host", s->host);
	life_json_number(o, "pid", s->pid);
	life_json_number(o, "records", (double)s->records);
	life_json_number(o, "overwritten", (double)s->overwritten);
	life_json_number(o, "lost", (double)s->lost);
	cJSON_AddStringToObject(o, "clock", clock[s->clock]);
	life_json_number(o, "clock_offset_ns", (double)s->offset);
	return o;
}

/* A step with the argument names of trace.def. */
static cJSON *step_json(const struct record *e, uint64_t start)
{
	const struct trace_point_name *p = &point_name[e->point];
	cJSON *o = cJSON_CreateObject();

	life_json_number(o, "at_ns", (double)(int64_t)(e->time - start));
	life_json_number(o, "file", e->file);
	life_json_number(o, "thread", e->tid);
	cJSON_AddStringToObject(o, "step", p->name);
	if (e->repeats)
		life_json_number(o, "repeats", e->repeats);
	for (int a = 0; a < TRACE_ARGS; a++) {
		if (!strcmp(p->arg[a], "_"))
			continue;
		if (!strcmp(p->arg[a], "wr_id") || !strcmp(p->arg[a], "address"))
			hex(o, p->arg[a], e->arg[a]);
		else
			life_json_number(o, p->arg[a], (double)e->arg[a]);
	}
	return o;
}

static const char *wqe_state(const struct request *q)
{
	if (q->status >= 0)
		return q->status ? "ERROR" : "COMPLETED";
	return q->packets ? "PROCESSING" : "POSTED";
}

static cJSON *request_json(const struct joined *j, const struct request *q)
{
	const struct conn *conn = &j->conns[q->conn];
	cJSON *o = cJSON_CreateObject(), *steps;

	cJSON_AddStringToObject(o, "operation", operation_name(q->opcode));
	life_json_number(o, "file", conn->file);
	life_json_number(o, "qpn", conn->qpn);
	life_json_number(o, "dest_qpn", conn->dest_qpn);
	if (conn->peer != NO_CONN)
		life_json_number(o, "peer_file", j->conns[conn->peer].file);
	life_json_number(o, "wqe", q->wqe);
	hex(o, "wr_id", q->wr_id);
	life_json_number(o, "length", q->length);
	life_json_number(o, "packets", q->packets);
	if (q->packets)
		life_json_number(o, "psn", q->psn.v);
	cJSON_AddStringToObject(o, "wqe_state", wqe_state(q));
	if (q->status >= 0) {
		cJSON_AddStringToObject(o, "status", status_name((uint64_t)q->status));
		if (q->signaled || q->status)
			cJSON_AddStringToObject(o, "cqe_state", q->when[POLLED] != NEVER ? "POLLED" : "PENDING");
	}
	life_json_number(o, "retries", q->retries);
	life_json_number(o, "posted_ns", (double)q->when[POSTED]);
	steps = cJSON_AddArrayToObject(o, "steps");
	for (uint32_t s = q->first; s != NO_STEP; s = j->steps[s].next)
		cJSON_AddItemToArray(steps, step_json(&j->records->all[j->steps[s].record], q->when[POSTED]));
	return o;
}

static cJSON *summary_json(const struct joined *j, const uint32_t *which, uint32_t count)
{
	cJSON *all = cJSON_CreateArray();

	for (uint32_t opcode = 0; opcode < OPCODES; opcode++)
		for (unsigned i = 0; i < span_count; i++) {
			struct spread s = measure(j, which, count, opcode, &spans[i]);
			cJSON *o;

			if (!s.count)
				continue;
			o = cJSON_CreateObject();
			cJSON_AddStringToObject(o, "operation", operation_name(opcode));
			cJSON_AddStringToObject(o, "step", spans[i].name);
			life_json_number(o, "count", s.count);
			life_json_number(o, "median_ns", (double)s.median);
			life_json_number(o, "p99_ns", (double)s.p99);
			life_json_number(o, "min_ns", (double)s.min);
			life_json_number(o, "max_ns", (double)s.max);
			cJSON_AddItemToArray(all, o);
		}
	return all;
}

void print_json(const struct joined *j, const uint32_t *which, uint32_t count, bool requests, bool summary, FILE *to)
{
	fputs("{\"files\":[", to);
	for (uint32_t i = 0; i < j->records->files; i++) {
		fputs(i ? ",\n" : "\n", to);
		life_json_put(source_json(&j->records->sources[i]), to);
	}
	fputs("]", to);
	if (requests) {
		fputs(",\n\"requests\":[", to);
		for (uint32_t i = 0; i < count; i++) {
			fputs(i ? ",\n" : "\n", to);
			life_json_put(request_json(j, &j->requests[which[i]]), to);
		}
		fputs("]", to);
	}
	if (summary) {
		fputs(",\n\"summary\":", to);
		life_json_put(summary_json(j, which, count), to);
	}
	fputs("}\n", to);
}
