/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/trace/life.h"

#include <infiniband/verbs.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"
#include "tools/names.h"
#include "tools/paragraph.h"
#include "tools/terminal.h"
#include "wire/packet.h"

uint32_t filter_requests(const struct joined *j, const struct filter *f, uint32_t **which)
{
	uint32_t *list = grow(NULL, j->request_count, sizeof(*list)), n = 0, skip;

	for (uint32_t q = 0; q < j->request_count; q++) {
		const struct request *r = &j->requests[q];

		if ((f->qpn < 0 || f->qpn == j->conns[r->conn].qpn) && (f->wqe < 0 || f->wqe == r->wqe) &&
		    (!f->operation || !strcasecmp(f->operation, operation_name(r->opcode))))
			list[n++] = q;
	}
	skip = f->limit && n > f->limit ? n - f->limit : 0;
	memmove(list, list + skip, (n - skip) * sizeof(*list));
	*which = list;
	return n - skip;
}

char end_letter(uint32_t end)
{
	return end < 26 ? (char)('A' + end) : '*';
}

const char *file_letters(const struct joined *j, uint32_t file)
{
	static char text[16];

	if (j->second[file])
		snprintf(text, sizeof(text), "%c and %c", end_letter(file), end_letter(j->second[file]));
	else
		snprintf(text, sizeof(text), "%c", end_letter(file));
	return text;
}

const char *conn_letters(const struct joined *j, const struct conn *conn)
{
	static char text[16];

	if (conn->peer == NO_CONN)
		snprintf(text, sizeof(text), "%c", end_letter(conn->end));
	else
		snprintf(text, sizeof(text), "%c -> %c", end_letter(conn->end), end_letter(j->conns[conn->peer].end));
	return text;
}

static const char *const clock_text[] = {
	[CLOCK_REFERENCE] = "",
	[CLOCK_SHARED] = "",
	[CLOCK_ONE_WAY] = "; its clock is set as if the fastest packet took no time: only one direction was recorded",
	[CLOCK_WALL] = "; no packet in common with the others: its clock is set by the time of day",
};

static void print_source(const struct source *s, const char *name, FILE *to)
{
	const char *slash = strrchr(s->name, '/');
	char text[PATH_MAX + 512];
	int n = snprintf(text, sizeof(text), "%s: %s, process %u on %s, %" PRIu64 " record%s",
			 slash ? slash + 1 : s->name, s->program, s->pid, s->host, s->records, plural(s->records));

	if (s->overwritten)
		n += snprintf(text + n, sizeof(text) - n, " (%" PRIu64 " older ones overwritten)", s->overwritten);
	if (s->lost)
		n += snprintf(text + n, sizeof(text) - n, " (%" PRIu64 " lost: too many threads)", s->lost);
	if (s->clock == CLOCK_ESTIMATED)
		snprintf(text + n, sizeof(text) - n,
			 "; its clock is set by the fastest packets, whose way took %s us on average",
			 micros((int64_t)s->fastest));
	else
		snprintf(text + n, sizeof(text) - n, "%s", clock_text[s->clock]);
	fprintf(to, "%s%s%s  ", style(BOLD), name, style(PLAIN));
	print_wrapped(to, text, (unsigned)strlen(name) + 2, 3);
	fputc('\n', to);
}

void print_sources(const struct joined *j, FILE *to)
{
	for (uint32_t i = 0; i < j->records->files; i++)
		print_source(&j->records->sources[i], file_letters(j, i), to);
}

/* A line of a request's life. */
struct line {
	FILE *to;
	const struct joined *j;
	const struct request *q;
	uint64_t start, before;
	struct told *told; /* destination instead of printing */
};

/* Columns of a time, and of an action. */
struct widths {
	int time, what;
};

static struct widths widths_of_lines(void)
{
	unsigned columns = terminal_columns();

	return columns && columns < 110 ? (struct widths){9, 26} : (struct widths){12, 30};
}

static void print_line(struct line *line, const struct record *e, const char *what, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

static void print_line(struct line *line, const struct record *e, const char *what, const char *format, ...)
{
	int64_t at = (int64_t)(e->time - line->start), took = (int64_t)(e->time - line->before);
	int end = join_end(line->j, line->q, e), indent = end < 8 ? 2 * end : 16, pad = indent < 4 ? 4 - indent : 2;
	struct widths w = widths_of_lines();
	int what_width = max_of(w.what, (int)strlen(what) + 1);
	char text[256];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	if (e->repeats)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%sand %u time%s again", *text ? ", " : "",
			 e->repeats, e->repeats == 1 ? "" : "s");
	if (line->told) {
		line->told->what = what;
		snprintf(line->told->text, sizeof(line->told->text), "%s", text);
		return;
	}
	fprintf(line->to, "%s%*s%s %s%*s%s  %*s%s%c%s%*s%-*s%s", style(DIM), w.time, micros(at), style(PLAIN),
		took >= 1000 ? style(BOLD) : "", w.time - 2, micros(took), style(PLAIN), indent, "", style(CYAN),
		end_letter((uint32_t)end), style(PLAIN), pad, "", what_width, what, style(DIM));
	print_wrapped(line->to, text, (unsigned)(2 * w.time + 2 + indent + pad + what_width),
		      (unsigned)(2 * w.time + 6 + w.what));
	fprintf(line->to, "%s\n", style(PLAIN));
	line->before = e->time;
}

/* Text such as "packet 3 of 16, ", or "" for one packet. */
static const char *which_packet(const struct request *q, uint64_t number)
{
	static char text[48];
	int32_t n = psn_diff(psn((uint32_t)number), q->psn);

	text[0] = 0;
	if (q->packets > 1)
		snprintf(text, sizeof(text), "packet %d of %u, ", n + 1, q->packets);
	return text;
}

static bool is_acknowledgement(uint64_t opcode)
{
	return OPERATION(opcode) == OP_ACKNOWLEDGE;
}

static bool is_nak(uint64_t syndrome)
{
	return (syndrome & SYNDROME_KIND) != SYNDROME_ACK;
}

static const char *packet_text(const struct request *q, uint64_t number, uint64_t opcode)
{
	static char text[160];

	snprintf(text, sizeof(text), "%s, %sPSN 0x%06x", packet_name(opcode),
		 is_acknowledgement(opcode) ? "" : which_packet(q, number), (unsigned)(number & PSN_MASK));
	return text;
}

static const char *memory_text(const struct conn *requester, const struct request *q, const struct record *e,
			       const char **what)
{
	static char text[128];
	uint32_t flags = opcode_info[e->arg[2] & 0xff].flags;
	bool placed = flags & IS_RESPONSE && e->arg[0] == requester->qpn; /* by the requester, from responses */

	*what = flags & IS_RESPONSE && !placed ? "memory read" : "memory written";
	/* memory named by a WQE, not by a packet, is shown by offset */
	snprintf(text, sizeof(text), "%s%u bytes at %s0x%" PRIx64, which_packet(q, e->arg[1]), (unsigned)e->arg[4],
		 placed || flags & IS_SEND ? "offset " : "", e->arg[3]);
	return text;
}

static void print_match(struct line *line, const struct request *q, const struct record *e)
{
	unsigned wqe = (unsigned)e->arg[1];

	if (q->receive_posted == NEVER)
		print_line(line, e, "receive matched", "WQE %u of the receive queue", wqe);
	else
		print_line(line, e, "receive matched", "WQE %u of the receive queue, posted %s us before", wqe,
			   micros((int64_t)(e->time - q->receive_posted)));
}

static void print_onesided(struct line *line, const struct record *e)
{
	print_line(line, e, "done in the peer's memory", "%u bytes at 0x%" PRIx64 ", without a packet",
		   (unsigned)e->arg[4], e->arg[3]);
}

static void print_complete(struct line *line, const struct request *q, const struct record *e)
{
	if (e->arg[3])
		print_line(line, e, "completed", "WQE ERROR, %s", status_name(e->arg[3]));
	else
		print_line(line, e, "completed", "WQE COMPLETED, %s",
			   q->signaled ? "CQE PENDING" : "unsignaled: no CQE");
}

static void print_step(struct line *line, const struct joined *j, const struct request *q, const struct record *e)
{
	const struct conn *conn = &j->conns[q->conn];
	const uint64_t *a = e->arg;
	const char *what, *text;

	switch ((enum trace_point)e->point) {
	case TRACE_post_send:
		print_line(line, e, "posted", "WQE POSTED");
		return;
	case TRACE_pickup:
		print_line(line, e, "picked up", "WQE PROCESSING, %u packet%s from PSN 0x%06x", (unsigned)a[3],
			   a[3] == 1 ? "" : "s", (unsigned)a[2]);
		return;
	case TRACE_build:
		print_line(line, e, "packet built", "%s, %u bytes", packet_text(q, a[2], a[3]), (unsigned)a[4]);
		return;
	case TRACE_send:
		print_line(line, e, "packet sent", a[5] ? "%s, by the ring in shared memory" : "%s, %u bytes of UDP",
			   packet_text(q, a[1], a[2]), (unsigned)a[4]);
		return;
	case TRACE_receive:
		print_line(line, e, "packet received", a[5] ? "%s, by the ring" : "%s, ICRC good",
			   packet_text(q, a[1], a[2]));
		return;
	case TRACE_drop:
		print_line(line, e, "packet not used", "%s: %s", packet_text(q, a[1], a[2]), drop_name(a[3]));
		return;
	case TRACE_match:
		print_match(line, q, e);
		return;
	case TRACE_execute:
		text = memory_text(conn, q, e, &what);
		print_line(line, e, what, "%s", text);
		return;
	case TRACE_onesided:
		print_onesided(line, e);
		return;
	case TRACE_acknowledge:
		print_line(line, e, is_nak(a[3]) ? "NAK built" : "ACK built", "%s of PSN 0x%06x, MSN %u",
			   syndrome_name(a[3]), (unsigned)a[2], (unsigned)a[4]);
		return;
	case TRACE_acknowledged:
		print_line(line, e, is_nak(a[2]) ? "NAK received" : "ACK received", "%s of PSN 0x%06x",
			   syndrome_name(a[2]), (unsigned)a[1]);
		return;
	case TRACE_retry:
		print_line(line, e, "sent again", "from PSN 0x%06x: %s; retries left: %u", (unsigned)a[2],
			   retry_name(a[3]), (unsigned)a[4]);
		return;
	case TRACE_complete:
		print_complete(line, q, e);
		return;
	case TRACE_complete_recv:
		print_line(line, e, "receive completed", "CQE PENDING, %u bytes, %s", (unsigned)a[5],
			   status_name(a[3]));
		return;
	case TRACE_poll:
		print_line(line, e, a[3] & IBV_WC_RECV ? "receive polled" : "polled", "CQE POLLED, %s",
			   status_name(a[2]));
		return;
	case TRACE_post_recv:
	case TRACE_qp_state:
	case TRACE_connect:
	case TRACE_migrate:
	case TRACE_POINTS:
		return; /* belongs to no request */
	}
}

void life_tell(const struct joined *j, const struct request *q, const struct record *e, struct told *told)
{
	struct line line = {.j = j, .q = q, .told = told};

	*told = (struct told){.what = ""};
	print_step(&line, j, q, e);
}

/* PSN of a step that happens once per packet; false for other steps. */
static bool step_packet(const struct record *e, uint64_t *number, uint64_t *opcode)
{
	static const struct {
		bool each;
		uint8_t psn, opcode;
	} where[TRACE_POINTS] = {
		[TRACE_build] = {true, 2, 3},	[TRACE_send] = {true, 1, 2},	     [TRACE_receive] = {true, 1, 2},
		[TRACE_execute] = {true, 1, 2}, [TRACE_acknowledged] = {true, 1, 4},
	};

	*number = e->arg[where[e->point].psn];
	*opcode = e->arg[where[e->point].opcode];
	return where[e->point].each;
}

bool life_is_between(const struct request *q, const struct record *e)
{
	uint64_t number, opcode;
	int32_t n;

	if (q->packets < 4 || !step_packet(e, &number, &opcode))
		return false;
	n = psn_diff(psn((uint32_t)number), q->psn);
	return n > 0 && n < (int32_t)q->packets - 1;
}

static void print_between(FILE *to, uint32_t *count)
{
	static const struct {
		enum trace_point point;
		const char *what;
	} kind[] = {
		{TRACE_build, "built"}, {TRACE_send, "sent"}, {TRACE_receive, "received"}, {TRACE_execute, "executed"}};
	struct widths w = widths_of_lines();
	const char *comma = "";
	bool any = false;

	for (size_t i = 0; i < ARRAY_SIZE(kind); i++)
		any |= count[kind[i].point];
	if (any)
		fprintf(to, "%s%*s %*s  ... packets in between: ", style(DIM), w.time, "", w.time - 2, "");
	for (size_t i = 0; i < ARRAY_SIZE(kind); i++) {
		if (!count[kind[i].point])
			continue;
		fprintf(to, "%s%u %s", comma, count[kind[i].point], kind[i].what);
		comma = ", ";
	}
	if (any)
		fprintf(to, "%s\n", style(PLAIN));
	memset(count, 0, TRACE_POINTS * sizeof(*count));
}

void print_title(const struct joined *j, const struct request *q, FILE *to)
{
	const struct conn *conn = &j->conns[q->conn];
	char text[512];
	int n = snprintf(text, sizeof(text), "%s%s of %u byte%s%s, %s: request %u of QP 0x%06x, wr_id 0x%" PRIx64,
			 style(BOLD), operation_name(q->opcode), q->length, plural(q->length), style(PLAIN),
			 conn_letters(j, conn), q->wqe, conn->qpn, q->wr_id);

	if (q->when[POLLED] != NEVER)
		n += snprintf(text + n, sizeof(text) - n, ", %s us from post to poll",
			      micros((int64_t)(q->when[POLLED] - q->when[POSTED])));
	if (q->status > 0)
		n += snprintf(text + n, sizeof(text) - n, ", %s%s%s", style(RED), status_name((uint64_t)q->status),
			      style(PLAIN));
	if (q->retries)
		n += snprintf(text + n, sizeof(text) - n, ", %ssent again %u time%s%s", style(YELLOW), q->retries,
			      q->retries == 1 ? "" : "s", style(PLAIN));
	if (conn->peer == NO_CONN)
		snprintf(text + n, sizeof(text) - n, " (the peer's trace is not among the files)");
	print_wrapped(to, text, 0, 2);
	fputc('\n', to);
}

void print_request(const struct joined *j, const struct request *q, FILE *to)
{
	struct line line = {to, j, q, q->when[POSTED], q->when[POSTED], NULL};
	uint32_t between[TRACE_POINTS] = {0};
	struct widths w = widths_of_lines();

	print_title(j, q, to);
	fprintf(to, "%s%*s %*s%s\n", style(DIM), w.time, "at, us", w.time - 2, "took", style(PLAIN));
	for (uint32_t s = q->first; s != NO_STEP; s = j->steps[s].next) {
		const struct record *e = &j->records->all[j->steps[s].record];

		if (life_is_between(q, e)) {
			between[e->point]++;
			continue;
		}
		print_between(to, between);
		print_step(&line, j, q, e);
	}
	print_between(to, between);
	fputc('\n', to);
}
