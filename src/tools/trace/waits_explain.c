/* SPDX-License-Identifier: BSD-2-Clause */
/* Explanation of waits: a paragraph for each queue pair. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/base.h"
#include "base/cause.h"
#include "base/plural.h"
#include "base/proc_state.h"
#include "tools/names.h"
#include "tools/paragraph.h"
#include "tools/terminal.h"
#include "tools/trace/waits.h"
#include "wire/packet.h"

#define NO_SYNDROME  0xffffu /* base/pending.c: the response was data */
#define REASON_PROBE 3
#define REASON_RNR   4
#define REASON_TIMER 2
#define NO_RECEIVE   4 /* the engine's enum verdict: NOT_READY */

static const char *waits_text(void)
{
	static char text[8][64];
	static unsigned next;

	return text[next++ % ARRAY_SIZE(text)];
}

static const char *duration(uint64_t ns)
{
	char *text = (char *)waits_text();

	if (ns < MSEC)
		snprintf(text, 64, "%" PRIu64 " us", (uint64_t)(ns / USEC));
	else if (ns < SEC)
		snprintf(text, 64, "%" PRIu64 " ms", (uint64_t)(ns / MSEC));
	else if (ns < 600 * SEC)
		snprintf(text, 64, "%.1f s", (double)ns / SEC);
	else
		snprintf(text, 64, "%" PRIu64 " minutes", (uint64_t)(ns / SEC / 60));
	return text;
}

/* Text such as "3.2 s ago"; for an ended process, "3.2 s before the end". */
static const char *ago(const struct waits *w, uint64_t time)
{
	char *text = (char *)waits_text();

	if (!w->runs && time >= w->now)
		return "at the end";
	snprintf(text, 64, "%s %s", duration(w->now > time ? w->now - time : 0), w->runs ? "ago" : "before the end");
	return text;
}

static const char *clock_time(const struct waits *w, uint64_t time)
{
	char *text = (char *)waits_text(), day[32];
	uint64_t wall = time + (uint64_t)w->wall;
	time_t seconds = (time_t)(wall / SEC);
	struct tm tm;

	localtime_r(&seconds, &tm);
	strftime(day, sizeof(day), "%H:%M:%S", &tm);
	snprintf(text, 64, "%s.%03u", day, (unsigned)(wall % SEC / MSEC));
	return text;
}

/* ---- the parts of a paragraph ---- */

static void say_request(const struct waits *w, const struct pending_request *r, size_t behind)
{
	if (w->runs)
		say("Queue pair 0x%06x has waited %s for its request %u", r->qpn,
		    duration(w->now > r->posted_at ? w->now - r->posted_at : 0), r->wqe);
	else
		say("Queue pair 0x%06x was waiting for its request %u", r->qpn, r->wqe);
	say(": %s of %u byte%s, wr_id 0x%" PRIx64 ", posted at %s. ", operation_name(r->opcode), r->length,
	    plural(r->length), r->wr_id, clock_time(w, r->posted_at));
	if (behind)
		say("%zu more request%s wait%s behind it. ", behind, plural(behind), behind == 1 ? "s" : "");
}

static void say_retries(const struct waits *w, const struct pending_request *r)
{
	static const char *const because[PENDING_REASONS] = {
		"after a NAK for a packet that was missing",
		"as responses were missing",
		"as no ACK came in time (the transport timer)",
		"as a probe, since no ACK came",
		"as the peer had no receive for it (RNR NAK)",
		"as it was lost: the peer had packets that were sent later"};
	bool first = true;

	for (int i = 0; i < PENDING_REASONS; i++) {
		if (!r->retries[i])
			continue;
		say("%s%u time%s %s", first ? "It was sent again " : ", ", r->retries[i], plural(r->retries[i]),
		    because[i]);
		first = false;
	}
	if (!first)
		say("; last %s, with %u retr%s left (retry_cnt). ", ago(w, r->retried_at), r->retries_left,
		    r->retries_left == 1 ? "y" : "ies");
}

static void say_tried(const struct waits *w, const struct pending_request *r, const struct pending_qp *q)
{
	if (!r->picked_at) {
		say("No packet of it was sent");
		if (q && q->state != 3)
			say(", as the queue pair is in %s and not in RTS", qp_state_name(q->state));
		say(". ");
		return;
	}
	if (!r->built)
		say("The requester took it up %s, and has sent none of its %u packet%s. ", ago(w, r->picked_at),
		    r->packets, plural(r->packets));
	else if (r->packets == 1)
		say("Its packet, PSN 0x%06x, was sent %u time%s, last %s. ", r->psn, r->built, plural(r->built),
		    ago(w, r->built_at));
	else
		say("It takes %u PSNs from 0x%06x on; %u packet%s of it %s sent, the last %s. ", r->packets, r->psn,
		    r->built, plural(r->built), r->built == 1 ? "was" : "were", ago(w, r->built_at));
	say_retries(w, r);
}

static void say_heard(const struct waits *w, const struct pending_qp *q)
{
	if (!q)
		return;
	say("The peer%s", q->dest_qpn ? "" : " ");
	if (q->dest_qpn)
		say(", queue pair 0x%06x, ", q->dest_qpn);
	if (!q->answer_at && !q->heard_at) {
		say("has sent nothing since the queue pair was created. ");
		return;
	}
	if (!q->answer_at) {
		say("has sent no ACK and no response; its last packet came %s. ", ago(w, q->heard_at));
		return;
	}
	say("last sent %s for PSN 0x%06x",
	    q->answer_syndrome == NO_SYNDROME ? "data" : syndrome_name(q->answer_syndrome), q->answer_psn);
	if (q->answers > 1)
		say(", %u times", q->answers);
	say(", %s. ", ago(w, q->answer_at));
	if (q->heard_at > q->answer_at + MSEC)
		say("Its last packet came %s. ", ago(w, q->heard_at));
}

/* Prints what this end refuses or waits for. */
static void say_receives(const struct waits *w, const struct pending_qp *q)
{
	uint64_t open = q->posted > q->used ? q->posted - q->used : 0;

	if (q->lost)
		say("%u message%s of UC or UD found no receive, and %s dropped (cause 0x%x). ", q->lost,
		    plural(q->lost), q->lost == 1 ? "was" : "were", CAUSE_MESSAGE_LOST);
	if (q->dropped && !(q->lost && q->drop_reason == NO_RECEIVE))
		say("It has refused a request of the peer, PSN 0x%06x, %u time%s, last %s: %s. ", q->drop_psn,
		    q->dropped, plural(q->dropped), ago(w, q->drop_at), drop_name(q->drop_reason));
	if (!q->posted)
		return;
	say("Of its %" PRIu64 " receive%s, %" PRIu64 " %s used", q->posted, plural(q->posted), q->used,
	    q->used == 1 ? "was" : "were");
	if (q->used)
		say(", the last %s", ago(w, q->used_at));
	say(open ? "; it waits for messages. " : "; it has none for another message. ");
}

/* ---- conclusions ---- */

static const struct pending_qp *qp_in(const struct waits *w, uint32_t qpn)
{
	for (size_t i = 0; i < w->qps; i++)
		if (w->qp[i].qpn == qpn)
			return &w->qp[i];
	return NULL;
}

/* Queue pair that `q` sends to, if among the files. */
static const struct pending_qp *find_peer(const struct pending_qp *q, const struct waits *all, size_t count,
					  const struct waits **where)
{
	for (size_t i = 0; q->dest_qpn && i < count; i++) {
		const struct pending_qp *p = qp_in(&all[i], q->dest_qpn);

		if (p) {
			*where = &all[i];
			return p;
		}
	}
	return NULL;
}

/* Prints the other end's process, unless it simply runs. True if it cannot answer. */
static bool say_process(const struct waits *where)
{
	bool stopped = where->runs && process_is_stopped((pid_t)where->pid);

	say("The other end is %s (process %u)", where->program, where->pid);
	if (stopped)
		say(", which is stopped: kill -CONT %u", where->pid);
	else if (where->ended)
		say(", which has ended");
	say(". ");
	return stopped || where->ended;
}

/* Prints the other end's queue pair. True if that explains the missing answer. */
static bool say_peer(const struct pending_qp *q, const struct waits *all, size_t count)
{
	const struct waits *where;
	const struct pending_qp *p = find_peer(q, all, count, &where);
	bool known;

	if (!p && count > 1 && q->dest_qpn)
		say("None of the files has that queue pair. ");
	if (!p)
		return false;
	known = say_process(where);
	if (p->dest_qpn != q->qpn && p->dest_qpn) {
		say("Its queue pair is connected to queue pair 0x%06x, and not to this one. ", p->dest_qpn);
		return true;
	}
	if (p->state < 2) { /* RTR */
		say("Its queue pair is in %s, and receives nothing before it is in RTR. ", qp_state_name(p->state));
		return true;
	}
	if (p->posted || p->dropped)
		say_receives(where, p);
	else
		say("It has posted no receive, and refused nothing. ");
	return known;
}

static void say_remedy(const struct pending_request *r, const struct pending_qp *q)
{
	bool answered = q && q->answer_at > r->posted_at;

	if (!r->picked_at && q && q->state != 3)
		say("What to do: look at why the program does not move the queue pair to RTS.");
	else if (!r->picked_at)
		say("What to do: look at the requests before it in the queue, and at the peer's flow control.");
	else if (answered && (q->answer_syndrome & SYNDROME_KIND) == SYNDROME_RNR)
		say("So the peer program has to post a receive; it has none.");
	else if (r->retries[REASON_TIMER] || (r->retries[REASON_PROBE] && q && q->answer_at < r->retried_at))
		say("So the peer does not answer: its program has ended, is stopped or lost the queue pair, or packets "
		    "are "
		    "lost on the way there or back (uroce doctor; ping).");
	else if (r->retries[REASON_RNR])
		say("So the peer program is late in posting receives.");
	else if (q && !answered)
		say("So the peer has not answered yet.");
}

static void explain_request(const struct waits *w, const struct pending_request *r, size_t behind,
			    const struct waits *all, size_t count)
{
	const struct pending_qp *q = qp_in(w, r->qpn);

	say_request(w, r, behind);
	say_tried(w, r, q);
	say_heard(w, q);
	if (!q || !say_peer(q, all, count))
		say_remedy(r, q);
	say_end();
}

/* Explains a queue pair without requests. */
static void explain_idle(const struct waits *w, const struct pending_qp *q)
{
	say("Queue pair 0x%06x, in %s, has no outstanding request. ", q->qpn, qp_state_name(q->state));
	if (q->failed_status)
		say("Its request %u failed %s: %s. ", q->failed_wqe, ago(w, q->failed_at),
		    status_name(q->failed_status));
	say_receives(w, q);
	if (q->heard_at)
		say("The last packet for it came %s. ", ago(w, q->heard_at));
	else
		say("No packet came for it. ");
	say_end();
}

static size_t requests_of(const struct waits *w, uint32_t qpn, const struct pending_request **oldest)
{
	size_t n = 0;

	*oldest = NULL;
	for (size_t i = 0; i < w->requests; i++) {
		if (w->request[i].qpn != qpn)
			continue;
		*oldest = *oldest ?: &w->request[i];
		n++;
	}
	return n;
}

void waits_explain(const struct waits *w, const struct waits *all, size_t count)
{
	const struct pending_request *oldest;

	printf("%s%s%s, process %u on %s, %s %s:\n\n", style(BOLD), w->program, style(PLAIN), w->pid, w->host,
	       w->runs ? "now," : "when it recorded last,", clock_time(w, w->now));
	for (size_t i = 0; i < w->qps; i++) {
		size_t n = requests_of(w, w->qp[i].qpn, &oldest);

		if (n)
			explain_request(w, oldest, n - 1, all, count);
	}
	for (size_t i = 0; i < w->qps; i++)
		if (!requests_of(w, w->qp[i].qpn, &oldest))
			explain_idle(w, &w->qp[i]);
	if (!w->qps)
		printf("It has no queue pair that waits for anything.\n\n");
	if (w->runs)
		printf("`uroce explain %u` says what its completion queues tell, and its peers.\n\n", w->pid);
	if (w->lost)
		printf("%u more requests or queue pairs are not in the file: more were outstanding than it has room "
		       "for.\n\n",
		       w->lost);
}
