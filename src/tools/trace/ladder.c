/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce trace --html` and `--ladder`: each request as a ladder diagram. Two vertical lines are the two ends; time
 * goes down, with one event per row; an arrow is a packet. The page is self-contained, and follows the browser's
 * light or dark mode. The text has 80 columns. */
#include "tools/trace/views.h"

#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"
#include "tools/names.h"
#include "tools/paragraph.h"
#include "tools/terminal.h"
#include "tools/trace/life.h"
#include "tools/trace/summary.h"
#include "wire/packet.h"

/* HTML up to the heading. */
static const char *const page =
#include "ladder.html.inc"
	;

/* Text of a row at one end. */
struct said {
	const char *text, *small; /* NULL: none */
	const char *mood;	  /* "", "bad", "warn" */
};

/* A row of the diagram. */
struct rung {
	const struct record *e;
	bool is_arrow, back, lost, direct; /* back: to the left */
	bool left;			   /* row without an arrow: side of its event */
	const char *what;		   /* label of the arrow */
	struct said said[2];
};

struct ladder {
	const struct joined *j;
	const struct request *q;
	const struct conn *conn;
	FILE *to;
	void (*print)(const struct ladder *l, const struct rung *r);
	bool requester_right; /* each end keeps its side, in all diagrams of a trace */
	uint64_t syndrome;    /* syndrome of the last answer built */
	bool *taken;	      /* per step, in order: true for a receive that belongs to an earlier send */
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

static struct ladder ladder_of(const struct joined *j, const struct request *q, FILE *to)
{
	struct ladder l = {.j = j, .q = q, .conn = &j->conns[q->conn], .to = to};

	l.requester_right = l.conn->peer != NO_CONN && j->conns[l.conn->peer].end < l.conn->end;
	return l;
}

/* Connection of a side, or NULL: in none of the files. */
static const struct conn *conn_at(const struct ladder *l, bool right)
{
	if (right == l->requester_right)
		return l->conn;
	return l->conn->peer == NO_CONN ? NULL : &l->j->conns[l->conn->peer];
}

/* True if the packet goes to the left. */
static bool goes_back(const struct ladder *l, const struct record *e)
{
	bool response = opcode_info[e->arg[2] & 0xff].flags & IS_RESPONSE || OPERATION(e->arg[2]) == OP_ACKNOWLEDGE;

	if (l->conn->qpn != l->conn->dest_qpn)
		response = e->arg[0] == l->conn->qpn;
	return response != l->requester_right;
}

/* ---- rows ---- */

static bool is_of_packet(const struct record *e, const struct record *sent)
{
	return e->arg[0] == sent->arg[0] && e->arg[1] == sent->arg[1] && e->arg[2] == sent->arg[2];
}

/* True if, from a send on, a packet was sent more often than it arrived. */
static bool some_were_lost(const struct ladder *l, uint32_t from, uint32_t number)
{
	const struct record *sent = ladder_record(l, from);
	int missing = 0;

	for (uint32_t s = from; s != NO_STEP; s = l->j->steps[s].next, number++) {
		const struct record *e = ladder_record(l, s);

		if (!is_of_packet(e, sent))
			continue;
		missing += e->point == TRACE_send;
		missing -= e->point == TRACE_receive && !l->taken[number];
	}
	return missing > 0;
}

/* Step at which the packet arrived, if no other send has it, or NO_STEP. If packets were lost, an arrival after a
 * retransmission belongs to the retransmission. */
static uint32_t find_arrival(const struct ladder *l, uint32_t from, uint32_t number, uint32_t *at)
{
	const struct record *sent = ladder_record(l, from);
	bool lost = some_were_lost(l, from, number);

	for (uint32_t s = from; s != NO_STEP; s = l->j->steps[s].next, number++) {
		const struct record *e = ladder_record(l, s);

		if (!is_of_packet(e, sent))
			continue;
		if (lost && s != from && e->point == TRACE_send)
			return NO_STEP;
		if (e->point == TRACE_receive && !l->taken[number]) {
			*at = number;
			return s;
		}
	}
	return NO_STEP;
}

/* True if a later event shows that the packet was lost; otherwise it may have been in transit at the end of the
 * trace. */
static bool is_known_lost(const struct ladder *l, uint32_t from)
{
	const struct record *sent = ladder_record(l, from);

	for (uint32_t s = l->j->steps[from].next; s != NO_STEP; s = l->j->steps[s].next) {
		const struct record *e = ladder_record(l, s);

		if (e->point == TRACE_retry || e->point == TRACE_complete ||
		    (e->point == TRACE_send && is_of_packet(e, sent)))
			return true;
	}
	return false;
}

/* Writes a name that a narrow page can break. */
static void put_label(char *label, size_t room, const char *name, uint64_t number, const char *end)
{
	snprintf(label, room, "%s, PSN 0x%06x%s", name, (unsigned)(number & PSN_MASK), end);
	for (char *c = label; (c = strchr(c, '_'));)
		*c = ' ';
}

/* Adds a packet: an arrow from its sender and, at its arrival, the transit time. */
static void packet_rung(struct ladder *l, uint32_t step, uint32_t number)
{
	const struct record *e = ladder_record(l, step);
	uint32_t at = 0, arrival = find_arrival(l, step, number, &at);
	bool back = goes_back(l, e);
	struct rung r = {e, .is_arrow = true, .back = back, .lost = arrival == NO_STEP && l->conn->peer != NO_CONN};
	char label[128], took[64] = "";

	put_label(label, sizeof(label),
		  OPERATION(e->arg[2]) == OP_ACKNOWLEDGE ? syndrome_name(l->syndrome) : packet_name(e->arg[2]),
		  e->arg[1], e->arg[5] ? ", by shared memory" : "");
	if (arrival != NO_STEP) {
		l->taken[at] = true;
		snprintf(took, sizeof(took), "arrives after %s us",
			 micros((int64_t)(ladder_record(l, arrival)->time - e->time)));
		r.said[!back].small = took;
	}
	if (r.lost)
		r.said[!back] =
			(struct said){is_known_lost(l, step) ? "did not arrive" : "not arrived yet", .mood = "bad"};
	r.what = label;
	l->print(l, &r);
}

/* Adds a one-sided operation: an arrow without a packet. */
static void onesided_rung(const struct ladder *l, const struct record *e)
{
	struct rung r = {e, .is_arrow = true, .direct = true, .back = l->requester_right,
			 .what = "no packet: in the peer's memory"};
	char where[64];

	snprintf(where, sizeof(where), "%u bytes at 0x%" PRIx64, (unsigned)e->arg[4], e->arg[3]);
	r.said[l->requester_right].text = "done by the requester";
	r.said[!l->requester_right].small = where;
	l->print(l, &r);
}

/* Adds an event at one end. */
static void event_rung(const struct ladder *l, const struct record *e)
{
	bool bad = e->point == TRACE_retry || e->point == TRACE_drop || (e->point == TRACE_complete && e->arg[3]);
	struct rung r = {e, .left = (e->arg[0] == l->conn->qpn) != l->requester_right};
	struct told told;

	life_tell(l->j, l->q, e, &told);
	if (!*told.what)
		return;
	r.said[!r.left] = (struct said){told.what, told.text, bad ? "warn" : ""};
	l->print(l, &r);
}

/* True if a built packet was handed to a link before it was built again. */
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

/* Adds a packet that a fault dropped, or that the socket did not take. */
static void unsent_rung(const struct ladder *l, const struct record *e)
{
	const struct record as_sent = {.arg = {e->arg[1], e->arg[2], e->arg[3]}};
	struct rung r = {e, .is_arrow = true, .lost = true, .back = goes_back(l, &as_sent)};
	char label[128];

	put_label(label, sizeof(label), packet_name(e->arg[3]), e->arg[2], "");
	r.what = label;
	r.said[r.back] = (struct said){"did not leave", .mood = "bad"};
	l->print(l, &r);
}

static void step_rung(struct ladder *l, uint32_t step, uint32_t number)
{
	const struct record *e = ladder_record(l, step);

	switch ((enum trace_point)e->point) {
	case TRACE_send:
		packet_rung(l, step, number);
		return;
	case TRACE_onesided:
		onesided_rung(l, e);
		return;
	case TRACE_acknowledge:
		l->syndrome = e->arg[3];
		return;
	case TRACE_build:
		if (!was_sent(l, step))
			unsent_rung(l, e);
		return;
	case TRACE_receive:	 /* end of an arrow, and */
	case TRACE_acknowledged: /* its consequences */
		return;
	default:
		event_rung(l, e);
	}
}

/* Adds all rows. Those between the first and the last of many packets are only counted. */
static void all_rungs(struct ladder *l, void (*between)(const struct ladder *l, uint32_t count))
{
	uint32_t steps = 0, left_out = 0, number = 0;

	for (uint32_t s = l->q->first; s != NO_STEP; s = l->j->steps[s].next)
		steps++;
	l->taken = grow(NULL, steps, sizeof(*l->taken));
	memset(l->taken, 0, steps * sizeof(*l->taken));
	for (uint32_t s = l->q->first; s != NO_STEP; s = l->j->steps[s].next, number++) {
		const struct record *e = ladder_record(l, s);

		if (life_is_between(l->q, e)) {
			left_out += e->point == TRACE_send;
			continue;
		}
		if (left_out)
			between(l, left_out);
		left_out = 0;
		step_rung(l, s, number);
	}
	if (left_out)
		between(l, left_out);
	free(l->taken);
}

/* ---- text ---- */

#define LEFT  22 /* columns of the texts at the ends, and of an arrow */
#define WIRE  24
#define RIGHT 23

/* Prints a text within one column, aligned right or left. */
static void text_said(const struct ladder *l, const struct said *s, int width, bool to_right)
{
	const char *colour = !s->mood || !*s->mood ? "" : *s->mood == 'b' ? style(RED) : style(YELLOW);
	char text[64], *address;

	snprintf(text, sizeof(text), "%s", s->text ?: s->small ?: "");
	if (!strncmp(text, "arrives ", 8))
		memmove(text, text + 8, strlen(text + 8) + 1);
	address = strstr(text, " at 0x");
	if (address && strlen(text) > (size_t)width) /* a part of it would mislead */
		*address = 0;
	fprintf(l->to, "%s%*.*s%s", colour, to_right ? width : 0, width, text, *colour ? style(PLAIN) : "");
}

/* Prints "--- SEND ONLY -->": the name without transport and number, centred. */
static void text_arrow(const struct ladder *l, const struct rung *r)
{
	const char *name = strncmp(r->what, "RC ", 3) ? r->what : r->what + 3;
	int room = WIRE - 4, length = min_of((int)strcspn(name, ",(:"), room), before;
	char line[WIRE + 1];

	while (length && name[length - 1] == ' ')
		length--;
	before = (WIRE - length) / 2;
	memset(line, r->direct ? '.' : '-', WIRE);
	line[WIRE] = 0;
	memcpy(line + before, name, (size_t)length);
	line[before - 1] = line[before + length] = ' ';
	if (r->lost)
		line[r->back ? 0 : WIRE - 1] = 'X';
	else
		line[r->back ? 0 : WIRE - 1] = r->back ? '<' : '>';
	fprintf(l->to, "|%s%s%s|", style(r->lost ? RED : CYAN), line, style(PLAIN));
}

static void text_rung(const struct ladder *l, const struct rung *r)
{
	bool right = r->said[1].text || r->said[1].small;

	fprintf(l->to, "%s%8s%s ", style(DIM), micros((int64_t)(r->e->time - l->q->when[POSTED])), style(PLAIN));
	text_said(l, &r->said[0], LEFT, true);
	fputc(' ', l->to);
	if (r->is_arrow)
		text_arrow(l, r);
	else
		fprintf(l->to, "%c%*s%c", r->left ? 'o' : '|', WIRE, "", r->left ? '|' : 'o');
	if (right)
		fputc(' ', l->to);
	text_said(l, &r->said[1], RIGHT, false);
	fputc('\n', l->to);
}

static void text_between(const struct ladder *l, uint32_t count)
{
	char text[WIRE + 1];

	snprintf(text, sizeof(text), "... %u packets ...", count);
	fprintf(l->to, "%*s|%*s|\n", 8 + 1 + LEFT + 1, "", -WIRE, text);
}

static void text_end(const struct joined *j, const struct conn *c, char *text, size_t room)
{
	if (c)
		snprintf(text, room, "%c %.*s", end_letter(c->end), (int)room - 3,
			 j->records->sources[c->file].program);
	else
		snprintf(text, room, "peer");
}

void print_ladder(const struct joined *j, const struct request *q, FILE *to)
{
	struct ladder l = ladder_of(j, q, to);
	char left[LEFT + 1], right[RIGHT + 1];

	l.print = text_rung;
	print_title(j, q, to);
	text_end(j, conn_at(&l, false), left, sizeof(left));
	text_end(j, conn_at(&l, true), right, sizeof(right));
	fprintf(to, "%s%8s%s %s%*s %*s %s%s\n", style(DIM), "us", style(PLAIN), style(BOLD), LEFT, left, WIRE + 2, "",
		right, style(PLAIN));
	all_rungs(&l, text_between);
	fputc('\n', to);
}

/* ---- the page ---- */

static void html_said(const struct ladder *l, const struct said *s, bool left)
{
	fprintf(l->to, "<span class='%s %s'>", left ? "left" : "", s->mood ?: "");
	html_text(l->to, s->text ?: "");
	if (s->small) {
		fputs("<span class=small>", l->to);
		html_text(l->to, s->small);
		fputs("</span>", l->to);
	}
	fputs("</span>", l->to);
}

static void html_arrow(const struct ladder *l, const struct rung *r)
{
	int length = r->lost ? 62 : 100;

	fputs("<span class=wire>", l->to);
	html_text(l->to, r->what);
	if (r->e->repeats)
		fprintf(l->to, " <b class=warn>sent %u times</b>", r->e->repeats + 1);
	fprintf(l->to, "<svg viewBox='0 0 100 18' preserveAspectRatio=none><line x1=%d y1=2 x2=%d y2=%d /></svg>",
		r->back ? 100 : 0, r->back ? 100 - length : length, r->lost ? 11 : 15);
	fputs(r->lost ? "<i class=cross>✕</i></span>" : "<i class=tip></i></span>", l->to);
}

static void html_rung(const struct ladder *l, const struct rung *r)
{
	const char *bad = r->said[0].mood ?: r->said[1].mood ?: "";

	if (r->is_arrow)
		fprintf(l->to, "<div class='row %s%s%s'>", r->back ? "back" : "out", r->lost ? " lost" : "",
			r->direct ? " direct" : "");
	else
		fprintf(l->to, "<div class='row%s'>", *bad ? " badrow" : "");
	fprintf(l->to, "<span class=at>%s us</span>", micros((int64_t)(r->e->time - l->q->when[POSTED])));
	html_said(l, &r->said[0], true);
	if (r->is_arrow)
		html_arrow(l, r);
	else
		fprintf(l->to, "<span class=wire><i class='dot %c'></i></span>", r->left ? 'l' : 'r');
	html_said(l, &r->said[1], false);
	fputs("</div>\n", l->to);
}

static void html_between(const struct ladder *l, uint32_t count)
{
	fprintf(l->to,
		"<div class=row><span class=at></span><span></span><span class='wire dim'>⋮ %u packets in between"
		"</span><span></span></div>\n",
		count);
}

static void html_end(const struct ladder *l, const char *side, const struct conn *c)
{
	const struct source *s = c ? &l->j->records->sources[c->file] : NULL;

	fprintf(l->to, "<span class='%s'>", side);
	if (s) {
		fprintf(l->to, "%c ", end_letter(c->end));
		html_text(l->to, s->program);
		fprintf(l->to, "<span class=small>process %u, QP 0x%06x</span></span>", s->pid, c->qpn);
	} else {
		fprintf(l->to, "peer<span class=small>QP 0x%06x, no trace of this end</span></span>",
			l->conn->dest_qpn);
	}
}

static void html_title(const struct ladder *l)
{
	const struct request *q = l->q;

	fprintf(l->to, "<h2>%s of %u byte%s, ", operation_name(q->opcode), q->length, plural(q->length));
	html_text(l->to, conn_letters(l->j, l->conn));
	fprintf(l->to, "</h2>\n<p class=dim>request %u of QP 0x%06x, wr_id 0x%" PRIx64, q->wqe, l->conn->qpn, q->wr_id);
	if (q->when[POLLED] != NEVER)
		fprintf(l->to, ", %s us from post to poll", micros((int64_t)(q->when[POLLED] - q->when[POSTED])));
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
	struct ladder l = ladder_of(j, q, to);

	l.print = html_rung;
	html_title(&l);
	fputs("<div class=ladder><div class='row head'><span class=at></span>", to);
	html_end(&l, "left", conn_at(&l, false));
	fputs("<span class=wire></span>", to);
	html_end(&l, "", conn_at(&l, true));
	fputs("</div>\n", to);
	all_rungs(&l, html_between);
	fputs("</div>\n", to);
}

static void html_sources(const struct joined *j, FILE *to)
{
	for (uint32_t i = 0; i < j->records->files; i++) {
		const struct source *s = &j->records->sources[i];

		fprintf(to, "<p class=dim><b>%s</b> ", file_letters(j, i));
		html_text(to, s->program);
		fprintf(to, ", process %u on ", s->pid);
		html_text(to, s->host);
		fputs(": ", to);
		html_text(to, s->name);
		fprintf(to, ", %" PRIu64 " record%s</p>\n", s->records, plural(s->records));
	}
}

static void html_summary(const struct joined *j, const uint32_t *which, uint32_t count, FILE *to)
{
	fputs("<h2>Times, in us</h2><div "
	      "class=scroll><table><tr><th>operation<th>step<th>count<th>median<th>p99<th>max</tr>\n",
	      to);
	for (uint32_t opcode = 0; opcode < 16; opcode++)
		for (unsigned i = 0; i < span_count; i++) {
			struct spread s = measure(j, which, count, opcode, &spans[i]);

			if (s.count)
				fprintf(to, "<tr><td>%s<td>%s<td>%u<td>%s<td>%s<td>%s</tr>\n", operation_name(opcode),
					spans[i].name, s.count, micros(s.median), micros(s.p99), micros(s.max));
		}
	fputs("</table></div>\n", to);
}

void print_html(const struct joined *j, const uint32_t *which, uint32_t count, FILE *to)
{
	fprintf(to, "%s<h1>%u request%s</h1>\n", page, count, count == 1 ? "" : "s");
	html_sources(j, to);
	if (count < j->request_count)
		fprintf(to, "<p class=dim>Of %u requests in these files.</p>\n", j->request_count);
	for (uint32_t i = 0; i < count; i++)
		html_request(j, &j->requests[which[i]], to);
	html_summary(j, which, count, to);
	fputs("</html>\n", to);
}
