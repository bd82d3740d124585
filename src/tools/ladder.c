/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce trace --html`: each request as a ladder diagram. Two vertical lines are the two ends; time goes down, one
 * event in a row; an arrow is a packet. The page needs nothing from elsewhere, and follows the browser's light or dark.
 */
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/life.h"
#include "tools/names.h"
#include "tools/terminal.h"
#include "wire/packet.h"

static const char *const style_sheet =
	":root{color-scheme:light "
	"dark;--paper:#fff;--ink:#1b1f24;--dim:#667085;--rule:#d5dae1;--end:#3b5bdb;--arrow:#0b7285;"
	"--back:#7048e8;--bad:#c92a2a;--warn:#b25e00;--shade:#f5f7fa}"
	"@media(prefers-color-scheme:dark){:root{--paper:#14171c;--ink:#e6e9ee;--dim:#98a2b3;--rule:#343b45;--end:#"
	"91a7ff;"
	"--arrow:#66d9e8;--back:#b197fc;--bad:#ff8787;--warn:#ffc078;--shade:#1c2027}}"
	"*{box-sizing:border-box}body{margin:0 "
	"auto;max-width:68rem;padding:1rem;background:var(--paper);color:var(--ink);"
	"font:15px/1.4 system-ui,sans-serif}h1{font-size:1.3rem;margin:.2rem 0}h2{font-size:1.05rem;margin:2rem 0 "
	".2rem}"
	"p{margin:.3rem 0}.dim{color:var(--dim)}.bad{color:var(--bad)}.warn{color:var(--warn)}"
	"table{border-collapse:collapse;margin:.5rem 0}td,th{padding:.15rem .8rem .15rem "
	"0;text-align:right;font-variant-numeric:"
	"tabular-nums}td:first-child,th:first-child,td:nth-child(2),th:nth-child(2){text-align:left}th{color:var(--dim)"
	";"
	"font-weight:normal}.scroll{overflow-x:auto}"
	".row{display:grid;grid-template-columns:5.2rem minmax(0,1fr) minmax(0,1.3fr) "
	"minmax(0,1fr);align-items:stretch}"
	".row>*{padding:.2rem .5rem;min-width:0;overflow-wrap:anywhere}"
	".row:nth-child(even){background:var(--shade)}.at{color:var(--dim);text-align:right;font-variant-numeric:"
	"tabular-nums;"
	"white-space:nowrap;font-size:.85rem}.left{text-align:right}.small{display:block;color:var(--dim);font-size:."
	"8rem}"
	".wire{position:relative;border-left:3px solid var(--end);border-right:3px solid var(--end);text-align:center;"
	"font-size:.85rem}.head .wire{border-color:transparent}.head{font-weight:600;position:sticky;top:0;"
	"background:var(--paper)!important;z-index:1;border-bottom:1px solid var(--rule)}"
	".wire svg{display:block;margin:0 -.5rem;width:calc(100% + 1rem);height:1.1rem;overflow:visible}.wire "
	"line{stroke:var(--arrow);stroke-width:2;"
	"vector-effect:non-scaling-stroke}.back .wire "
	"line{stroke:var(--back)}.tip{position:absolute;bottom:.15rem;width:0;"
	"height:0;border:.36rem solid transparent}.out .tip{right:0;border-left:.6rem solid "
	"var(--arrow);border-right:0}"
	".back .tip{left:0;border-right:.6rem solid var(--back);border-left:0}.lost .wire line{stroke:var(--bad);"
	"stroke-dasharray:5 4}.cross{position:absolute;bottom:-.1rem;color:var(--bad);font-weight:700;font-size:1.1rem;"
	"line-height:1}.out .cross{left:62%}.back .cross{right:62%}.direct .wire line{stroke-dasharray:2 4}"
	".dot{position:absolute;top:.55rem;width:.62rem;height:.62rem;border-radius:50%;background:var(--end)}"
	".dot.l{left:-.42rem}.dot.r{right:-.42rem}.badrow .dot{background:var(--warn)}"
	"@media(max-width:40rem){body{padding:.5rem;font-size:13px}.row{grid-template-columns:minmax(0,1fr) "
	"minmax(0,1.1fr) "
	"minmax(0,1fr);position:relative}.row>*{padding:.1rem .3rem}.row:not(.head)>*{padding-top:1.15rem}"
	".row>.at.at{position:absolute;left:.2rem;top:0;padding:0;font-size:.75rem}.head .at{display:none}"
	".wire svg{margin:0 -.3rem;width:calc(100% + .6rem)}.dot{top:1.4rem}}";

/* A row's parts. */
struct ladder {
	const struct joined *j;
	const struct request *q;
	const struct conn *conn;
	FILE *to;
	uint64_t syndrome; /* of the last answer that was built */
	bool *taken;	   /* of each step, in order: a receive that belongs to a send before it */
};

static void html_text(FILE *to, const char *text)
{
	for (; *text; text++) {
		if (*text == '<')
			fputs("&lt;", to);
		else if (*text == '>')
			fputs("&gt;", to);
		else if (*text == '&')
			fputs("&amp;", to);
		else if (*text == '"')
			fputs("&quot;", to);
		else
			fputc(*text, to);
	}
}

static const struct record *ladder_record(const struct ladder *l, uint32_t step)
{
	return &l->j->records->all[l->j->steps[step].record];
}

static void html_time(const struct ladder *l, const struct record *e)
{
	fprintf(l->to, "<span class=at>%s µs</span>", micros((int64_t)(e->time - l->q->when[POSTED])));
}

/* Towards the requester: an answer. */
static bool goes_back(const struct ladder *l, const struct record *e)
{
	bool response = opcode_info[e->arg[2] & 0xff].flags & IS_RESPONSE || OPERATION(e->arg[2]) == OP_ACKNOWLEDGE;

	if (l->conn->qpn == l->conn->dest_qpn)
		return response;
	return e->arg[0] == l->conn->qpn;
}

/* ---- rows ---- */

/* The step at which that packet arrived, which no other send has; NO_STEP: none. */
static uint32_t find_arrival(const struct ladder *l, uint32_t from, uint32_t number, uint32_t *at)
{
	const struct record *sent = ladder_record(l, from);

	for (uint32_t s = from; s != NO_STEP; s = l->j->steps[s].next, number++) {
		const struct record *e = ladder_record(l, s);

		if (e->point == TRACE_receive && !l->taken[number] && e->arg[0] == sent->arg[0] &&
		    e->arg[1] == sent->arg[1] && e->arg[2] == sent->arg[2]) {
			*at = number;
			return s;
		}
	}
	return NO_STEP;
}

static void html_arrow(const struct ladder *l, const char *label, const struct record *e, bool back, bool lost)
{
	int length = lost ? 62 : 100;

	fputs("<span class=wire>", l->to);
	html_text(l->to, label);
	if (e->repeats)
		fprintf(l->to, " <b class=warn>sent %u times</b>", e->repeats + 1);
	if (back)
		fprintf(l->to,
			"<svg viewBox='0 0 100 18' preserveAspectRatio=none><line x1=100 y1=2 x2=%d y2=%d /></svg>",
			100 - length, lost ? 11 : 15);
	else
		fprintf(l->to,
			"<svg viewBox='0 0 100 18' preserveAspectRatio=none><line x1=0 y1=2 x2=%d y2=%d /></svg>",
			length, lost ? 11 : 15);
	fputs(lost ? "<i class=cross>✕</i></span>" : "<i class=tip></i></span>", l->to);
}

/* A packet: an arrow from the end that sent it; where it arrives, how long that took. */
static void html_packet(struct ladder *l, uint32_t step, uint32_t number)
{
	const struct record *e = ladder_record(l, step);
	uint32_t at = 0, arrival = find_arrival(l, step, number, &at);
	bool back = goes_back(l, e), lost = arrival == NO_STEP && l->conn->peer != NO_CONN;
	char label[128], took[64] = "";

	snprintf(label, sizeof(label), "%s, PSN 0x%06x%s",
		 OPERATION(e->arg[2]) == OP_ACKNOWLEDGE ? syndrome_name(l->syndrome) : packet_name(e->arg[2]),
		 (unsigned)(e->arg[1] & PSN_MASK), e->arg[5] ? ", by shared memory" : "");
	for (char *c = label; (c = strchr(c, '_'));) /* so that a narrow page can break it */
		*c = ' ';

	if (arrival != NO_STEP) {
		l->taken[at] = true;
		snprintf(took, sizeof(took), "arrives after %s µs",
			 micros((int64_t)(ladder_record(l, arrival)->time - e->time)));
	}
	fprintf(l->to, "<div class='row %s%s'>", back ? "back" : "out", lost ? " lost" : "");
	html_time(l, e);
	fprintf(l->to, "<span class=left>%s%s%s</span>", back ? "<span class=small>" : "", back ? took : "",
		back ? "</span>" : "");
	html_arrow(l, label, e, back, lost);
	if (lost)
		fputs("<span class=bad>did not arrive</span></div>\n", l->to);
	else
		fprintf(l->to, "<span>%s%s%s</span></div>\n", back ? "" : "<span class=small>", back ? "" : took,
			back ? "" : "</span>");
}

/* A one-sided operation: an arrow without a packet. */
static void html_onesided(const struct ladder *l, const struct record *e)
{
	fputs("<div class='row out direct'>", l->to);
	html_time(l, e);
	fprintf(l->to, "<span class=left>done by this end</span>");
	html_arrow(l, "no packet: in the peer's memory", e, false, false);
	fprintf(l->to, "<span><span class=small>%u bytes at 0x%" PRIx64 "</span></span></div>\n", (unsigned)e->arg[4],
		e->arg[3]);
}

/* What happens at one end. */
static void html_event(const struct ladder *l, const struct record *e)
{
	bool left = e->arg[0] == l->conn->qpn, bad = e->point == TRACE_retry || e->point == TRACE_drop;
	struct told told;

	life_tell(l->j, l->q, e, &told);
	if (!*told.what)
		return;
	bad |= e->point == TRACE_complete && e->arg[3];
	fprintf(l->to, "<div class='row%s'>", bad ? " badrow" : "");
	html_time(l, e);
	for (int side = 0; side < 2; side++) {
		if (side)
			fprintf(l->to, "<span class=wire><i class='dot %c'></i></span>", left ? 'l' : 'r');
		fprintf(l->to, "<span class='%s%s'>", side ? "" : "left", bad ? " warn" : "");
		if (left == !side) {
			html_text(l->to, told.what);
			fputs("<span class=small>", l->to);
			html_text(l->to, told.text);
			fputs("</span>", l->to);
		}
		fputs("</span>", l->to);
	}
	fputs("</div>\n", l->to);
}

static void html_between(const struct ladder *l, uint32_t *count)
{
	if (*count)
		fprintf(l->to,
			"<div class=row><span class=at></span><span></span><span class='wire dim'>⋮ %u packets in "
			"between"
			"</span><span></span></div>\n",
			*count);
	*count = 0;
}

/* Whether a packet that was built was handed to a link, before it was built again. */
static bool was_sent(const struct ladder *l, uint32_t step)
{
	const struct record *built = ladder_record(l, step);

	for (uint32_t s = l->j->steps[step].next; s != NO_STEP; s = l->j->steps[s].next) {
		const struct record *e = ladder_record(l, s);

		if (e->point == TRACE_send && e->arg[0] == built->arg[1] && e->arg[1] == built->arg[2] &&
		    e->arg[2] == built->arg[3])
			return true;
		if (e->point == TRACE_build && e->arg[0] == built->arg[0] && e->arg[2] == built->arg[2])
			return false;
	}
	return false;
}

/* A packet that a fault took away, or that found the socket full. */
static void html_unsent(const struct ladder *l, const struct record *e)
{
	const struct record as_sent = {.arg = {e->arg[1], e->arg[2], e->arg[3]}};
	bool back = goes_back(l, &as_sent);
	char label[128];

	snprintf(label, sizeof(label), "%s, PSN 0x%06x", packet_name(e->arg[3]), (unsigned)(e->arg[2] & PSN_MASK));
	for (char *c = label; (c = strchr(c, '_'));)
		*c = ' ';
	fprintf(l->to, "<div class='row lost %s'>", back ? "back" : "out");
	html_time(l, e);
	fprintf(l->to, "<span class='left bad'>%s</span>", back ? "" : "did not leave");
	html_arrow(l, label, e, back, true);
	fprintf(l->to, "<span class=bad>%s</span></div>\n", back ? "did not leave" : "");
}

static void html_step(struct ladder *l, uint32_t step, uint32_t number)
{
	const struct record *e = ladder_record(l, step);

	switch ((enum trace_point)e->point) {
	case TRACE_send:
		html_packet(l, step, number);
		return;
	case TRACE_onesided:
		html_onesided(l, e);
		return;
	case TRACE_acknowledge:
		l->syndrome = e->arg[3];
		return;
	case TRACE_build:
		if (!was_sent(l, step))
			html_unsent(l, e);
		return;
	case TRACE_receive:	 /* the end of an arrow, and */
	case TRACE_acknowledged: /* what follows from it */
		return;
	default:
		html_event(l, e);
	}
}

/* ---- the page ---- */

static char html_letter(uint32_t file)
{
	return file < 26 ? (char)('A' + file) : '*';
}

static void html_end(const struct ladder *l, const char *side, const struct conn *c)
{
	const struct source *s = c ? &l->j->records->sources[c->file] : NULL;

	fprintf(l->to, "<span class='%s'>", side);
	if (s) {
		fprintf(l->to, "%c ", html_letter(c->file));
		html_text(l->to, s->program);
		fprintf(l->to, "<span class=small>process %u, QP 0x%06x</span></span>", s->pid, c->qpn);
	} else {
		fprintf(l->to, "peer<span class=small>QP 0x%06x, its trace is not here</span></span>",
			l->conn->dest_qpn);
	}
}

static void html_title(const struct ladder *l)
{
	const struct request *q = l->q;

	fprintf(l->to, "<h2>%s of %u bytes</h2>\n<p class=dim>request %u of QP 0x%06x, wr_id 0x%" PRIx64,
		operation_name(q->opcode), q->length, q->wqe, l->conn->qpn, q->wr_id);
	if (q->when[POLLED] != NEVER)
		fprintf(l->to, ", %s µs from post to poll", micros((int64_t)(q->when[POLLED] - q->when[POSTED])));
	if (q->retries)
		fprintf(l->to, ", <b class=warn>sent again %u time%s</b>", q->retries, q->retries == 1 ? "" : "s");
	if (q->status > 0)
		fprintf(l->to, ", <b class=bad>%s</b>", status_name((uint64_t)q->status));
	if (q->status < 0)
		fputs(", <b class=warn>not complete</b>", l->to);
	fputs("</p>\n", l->to);
}

static void html_request(const struct joined *j, const struct request *q, FILE *to)
{
	struct ladder l = {j, q, &j->conns[q->conn], to, 0, NULL};
	uint32_t steps = 0, between = 0, number = 0;

	for (uint32_t s = q->first; s != NO_STEP; s = j->steps[s].next)
		steps++;
	l.taken = grow(NULL, steps, sizeof(*l.taken));
	memset(l.taken, 0, steps * sizeof(*l.taken));
	html_title(&l);
	fputs("<div class=ladder><div class='row head'><span class=at></span>", to);
	html_end(&l, "left", l.conn);
	fputs("<span class=wire></span>", to);
	html_end(&l, "", l.conn->peer == NO_CONN ? NULL : &j->conns[l.conn->peer]);
	fputs("</div>\n", to);
	for (uint32_t s = q->first; s != NO_STEP; s = j->steps[s].next, number++) {
		const struct record *e = ladder_record(&l, s);

		if (life_is_between(q, e)) {
			between += e->point == TRACE_send;
			continue;
		}
		html_between(&l, &between);
		html_step(&l, s, number);
	}
	html_between(&l, &between);
	fputs("</div>\n", to);
	free(l.taken);
}

static void html_sources(const struct joined *j, FILE *to)
{
	for (uint32_t i = 0; i < j->records->files; i++) {
		const struct source *s = &j->records->sources[i];

		fprintf(to, "<p class=dim><b>%c</b> ", html_letter(i));
		html_text(to, s->program);
		fprintf(to, ", process %u on ", s->pid);
		html_text(to, s->host);
		fputs(": ", to);
		html_text(to, s->name);
		fprintf(to, ", %" PRIu64 " records</p>\n", s->records);
	}
}

static void html_summary(const struct joined *j, const uint32_t *which, uint32_t count, FILE *to)
{
	fputs("<h2>Times, in µs</h2><div "
	      "class=scroll><table><tr><th>operation<th>step<th>count<th>median<th>p99<th>most</tr>\n",
	      to);
	for (uint32_t opcode = 0; opcode < 16; opcode++)
		for (unsigned i = 0; i < span_count; i++) {
			struct spread s = measure(j, which, count, opcode, &spans[i]);

			if (s.count)
				fprintf(to, "<tr><td>%s<td>%s<td>%u<td>%s<td>%s<td>%s</tr>\n", operation_name(opcode),
					spans[i].name, s.count, micros(s.median), micros(s.p99), micros(s.most));
		}
	fputs("</table></div>\n", to);
}

void print_html(const struct joined *j, const uint32_t *which, uint32_t count, FILE *to)
{
	fprintf(to,
		"<!doctype html>\n<html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width,"
		"initial-scale=1'><title>uroce trace</title><style>%s</style>\n<h1>%u request%s</h1>\n",
		style_sheet, count, count == 1 ? "" : "s");
	html_sources(j, to);
	if (count < j->request_count)
		fprintf(to, "<p class=dim>Of %u requests in these files.</p>\n", j->request_count);
	for (uint32_t i = 0; i < count; i++)
		html_request(j, &j->requests[which[i]], to);
	html_summary(j, which, count, to);
	fputs("</html>\n", to);
}
