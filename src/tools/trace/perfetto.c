/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce trace --perfetto`: Chrome's trace events. Each process is a process with a track per queue pair. Each
 * request is a nested asynchronous slice with its steps; each packet a short slice, with a flow to its arrival. */
#include "tools/trace/views.h"

#include <cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "tools/names.h"
#include "tools/trace/life.h"
#include "tools/trace/summary.h"
#include "wire/packet.h"

#define PACKET_US 0.2 /* us: shown width of a packet, which has no duration */

struct perfetto {
	const struct joined *j;
	FILE *to;
	uint64_t start; /* time of the first record */
	bool any;
};

static double event_us(const struct perfetto *p, uint64_t time)
{
	return (double)(int64_t)(time - p->start) / 1000;
}

static cJSON *event_begin(const struct perfetto *p, const char *name, const char *phase, uint16_t file, uint32_t track,
			  uint64_t time)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "name", name);
	cJSON_AddStringToObject(o, "ph", phase);
	cJSON_AddNumberToObject(o, "pid", p->j->records->sources[file].pid);
	cJSON_AddNumberToObject(o, "tid", track);
	cJSON_AddNumberToObject(o, "ts", event_us(p, time));
	return o;
}

static void event_end(struct perfetto *p, cJSON *o)
{
	char *text = cJSON_PrintUnformatted(o);

	fprintf(p->to, "%s%s", p->any ? ",\n" : "\n", text ? text : "{}");
	p->any = true;
	free(text);
	cJSON_Delete(o);
}

/* Names a process, or a track of it. */
static void event_name(struct perfetto *p, const char *kind, uint16_t file, uint32_t track, const char *name)
{
	cJSON *o = event_begin(p, kind, "M", file, track, p->start);

	cJSON_AddStringToObject(cJSON_AddObjectToObject(o, "args"), "name", name);
	event_end(p, o);
}

static void put_names(struct perfetto *p)
{
	char name[128];

	for (uint32_t i = 0; i < p->j->records->files; i++) {
		snprintf(name, sizeof(name), "%.64s on %.60s", p->j->records->sources[i].program,
			 p->j->records->sources[i].host);
		event_name(p, "process_name", (uint16_t)i, 0, name);
	}
	for (uint32_t c = 0; c < p->j->conn_count; c++) {
		snprintf(name, sizeof(name), "QP 0x%06x", p->j->conns[c].qpn);
		event_name(p, "thread_name", p->j->conns[c].file, p->j->conns[c].qpn, name);
	}
}

/* ---- requests ---- */

static void put_slice(struct perfetto *p, const struct request *q, uint32_t id, const char *name, uint64_t from,
		      uint64_t to, bool whole)
{
	const struct conn *c = &p->j->conns[q->conn];
	cJSON *o = event_begin(p, name, "b", c->file, c->qpn, from), *args;

	cJSON_AddStringToObject(o, "cat", "request");
	cJSON_AddNumberToObject(o, "id", id);
	if (whole) {
		args = cJSON_AddObjectToObject(o, "args");
		cJSON_AddNumberToObject(args, "request", q->wqe);
		cJSON_AddNumberToObject(args, "bytes", q->length);
		cJSON_AddNumberToObject(args, "packets", q->packets);
		cJSON_AddNumberToObject(args, "sent again", q->retries);
		cJSON_AddStringToObject(args, "status",
					q->status < 0 ? "not complete" : status_name((uint64_t)q->status));
	}
	event_end(p, o);
	o = event_begin(p, name, "e", c->file, c->qpn, to);
	cJSON_AddStringToObject(o, "cat", "request");
	cJSON_AddNumberToObject(o, "id", id);
	event_end(p, o);
}

/* Last known time of a request. */
static uint64_t request_end(const struct joined *j, const struct request *q)
{
	uint64_t end = q->when[POLLED] != NEVER ? q->when[POLLED] : q->when[COMPLETED];

	return end != NEVER ? end : j->records->all[j->steps[q->last].record].time;
}

/* Adds slices of a request, in order, as they must nest: those up to "completion polled". */
static void put_request(struct perfetto *p, const struct request *q, uint32_t id)
{
	uint64_t end = request_end(p->j, q), at = q->when[POSTED];
	char name[64];

	if (at == NEVER)
		return;
	snprintf(name, sizeof(name), "%s %u B", operation_name(q->opcode), q->length);
	put_slice(p, q, id, name, at, max_of(end, at), true);
	for (unsigned i = 0; i < span_count; i++) {
		uint64_t from = q->when[spans[i].from], to = q->when[spans[i].to];

		if (spans[i].to > POLLED || from == NEVER || to == NEVER || from < at || to < from || to > end ||
		    spans[i].to - spans[i].from != 1)
			continue;
		put_slice(p, q, id, spans[i].name, from, to, false);
		at = to;
	}
}

/* ---- packets ---- */

static uint64_t perfetto_packet_key(const struct record *e)
{
	return (e->arg[0] & 0xffffff) << 32 | (e->arg[1] & 0xffffff) << 8 | (e->arg[2] & 0xff);
}

/* Queue pair that sent the packet: the one that is connected to the destination, in this file. */
static uint32_t sender_of(const struct joined *j, const struct record *e)
{
	for (uint32_t c = 0; c < j->conn_count; c++)
		if (j->conns[c].file == e->file && j->conns[c].dest_qpn == e->arg[0])
			return j->conns[c].qpn;
	return (uint32_t)e->arg[0];
}

static void put_packet(struct perfetto *p, const struct record *e, bool sent, uint32_t flow)
{
	uint32_t track = sent ? sender_of(p->j, e) : (uint32_t)e->arg[0];
	char name[96];
	cJSON *o;

	snprintf(name, sizeof(name), "%s %s", sent ? "send" : "receive", packet_name(e->arg[2]));
	o = event_begin(p, name, "X", e->file, track, e->time);
	cJSON_AddNumberToObject(o, "dur", PACKET_US);
	cJSON_AddNumberToObject(cJSON_AddObjectToObject(o, "args"), "PSN", (double)(e->arg[1] & PSN_MASK));
	event_end(p, o);
	if (flow == MAP_NONE)
		return;
	o = event_begin(p, "packet", sent ? "s" : "f", e->file, track, e->time);
	cJSON_AddStringToObject(o, "cat", "packet");
	cJSON_AddNumberToObject(o, "id", flow);
	if (!sent)
		cJSON_AddStringToObject(o, "bp", "e");
	event_end(p, o);
}

/* Adds packets in order of time: an arrival belongs to the last send of the packet. */
static void put_packets(struct perfetto *p)
{
	struct map sends = {0};

	for (uint32_t i = 0; i < p->j->records->count; i++) {
		const struct record *e = &p->j->records->all[i];

		if (e->point == TRACE_send) {
			map_put(&sends, perfetto_packet_key(e), i);
			put_packet(p, e, true, i);
		} else if (e->point == TRACE_receive) {
			put_packet(p, e, false, map_get(&sends, perfetto_packet_key(e)));
		}
	}
	map_free(&sends);
}

void print_perfetto(const struct joined *j, const uint32_t *which, uint32_t count, FILE *to)
{
	struct perfetto p = {.j = j, .to = to, .start = j->records->count ? j->records->all[0].time : 0};

	fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", to);
	put_names(&p);
	for (uint32_t i = 0; i < count; i++)
		put_request(&p, &j->requests[which[i]], which[i]);
	put_packets(&p);
	fputs("\n]}\n", to);
}
