/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/stat/hangs.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/base.h"
#include "base/cause.h"
#include "base/plural.h"
#include "base/proc_state.h"
#include "tools/names.h"
#include "tools/paragraph.h"
#include "tools/stat/stats.h"
#include "tools/terminal.h"

#define BETWEEN (200 * MSEC) /* ns between the two looks */
#define SHOWN	16	     /* queue pairs that are explained, if a process has more */

/* What is known. */
struct hangs {
	struct stats all; /* first look: all processes of this user */
	struct stats now; /* second look: those that are asked for */
};

static const struct stat_cq *cq_of(const struct stat_process *p, uint32_t handle)
{
	size_t n = 0;
	const struct stat_cq *c = p ? stat_cqs(p, &n) : NULL;

	for (size_t i = 0; i < n; i++)
		if (c[i].handle == handle)
			return &c[i];
	return NULL;
}

/* Receives that are posted for a queue pair, its own or its SRQ's. */
static uint32_t receives_of(const struct stat_process *p, const struct stat_qp *q)
{
	size_t n;
	const struct stat_srq *s = stat_srqs(p, &n);

	for (size_t i = 0; q->srq != STAT_UNKNOWN && i < n; i++)
		if (s[i].number == q->srq)
			return s[i].posted;
	return q->recv_posted;
}

static bool has_moved(const struct stat_qp *before, const struct stat_qp *q)
{
	return before && (before->sent != q->sent || before->received != q->received || before->una != q->una ||
			  before->expected != q->expected);
}

/* True if all that came counted as repeated: cause_repeated() of the engine. */
static bool is_ahead(const struct stat_qp *q)
{
	return q->trouble[STAT_DUPLICATES] && !q->msn && !q->received;
}

static void say_ahead(const struct stat_qp *q, const char *of)
{
	uint32_t n = q->trouble[STAT_DUPLICATES];

	say("It has taken no message: %u packet%s of %s had PSNs before its rq_psn, so they count as repeated, are "
	    "acknowledged and lost (cause 0x%x). What to do: %s. ",
	    n, plural(n), of, CAUSE_PSN_BEFORE, cause_find(CAUSE_PSN_BEFORE)->remedy);
}

/* ---- requests that are not complete ---- */

/* Prints the state of the peer's process. True if that explains a missing answer. */
static bool say_process(const struct stat_qp *q)
{
	pid_t pid = (pid_t)q->peer_pid;

	if (!pid)
		return false;
	if (process_is_stopped(pid)) {
		say("The peer's process %d is stopped: kill -CONT %d. ", pid, pid);
		return true;
	}
	if (!kill(pid, 0) || errno != ESRCH)
		return false;
	say("The peer's process %d has ended. ", pid);
	return true;
}

/* Prints the peer's queue pair. True if that explains a missing answer. */
static bool say_peer(const struct hangs *h, const struct stat_qp *q)
{
	const struct stat_process *where;
	const struct stat_qp *peer = stats_peer_qp(&h->all, q, &where);

	if (!peer)
		return say_process(q);
	say("The peer is queue pair 0x%06x, in %s, of %s (process %u). ", peer->qpn, qp_state_name(peer->state),
	    where->head.program, where->head.pid);
	if (peer->state < IBV_QPS_RTR)
		say("It receives nothing before it is in RTR. ");
	else if (peer->remote_qpn && peer->remote_qpn != q->qpn)
		say("It is connected to queue pair 0x%06x, and not to this one. ", peer->remote_qpn);
	else if (is_ahead(peer))
		say_ahead(peer, "this one");
	else if (q->send_posted && !receives_of(where, peer))
		say("It has no receive posted: if a SEND waits, that program has to post one. ");
	else
		return false;
	return true;
}

static void say_sends(const struct hangs *h, const struct stat_qp *q)
{
	say("%u send request%s %s not complete. ", q->send_posted, plural(q->send_posted),
	    q->send_posted == 1 ? "is" : "are");
	if (q->state < IBV_QPS_RTS) {
		say("Nothing is sent before the queue pair is in RTS. What to do: look at why the program does not "
		    "move it there. ");
		return;
	}
	if (q->in_flight)
		say("%u packet%s from PSN 0x%06x on %s no ACK. ", q->in_flight, plural(q->in_flight), q->una,
		    q->in_flight == 1 ? "has" : "have");
	if (q->rnr_wait)
		say("The peer said last that it has no receive (RNR NAK). ");
	if (q->trouble[STAT_TIMEOUTS])
		say("After %u timeout%s packets were sent again, with %u retr%s left (retry_cnt). ",
		    q->trouble[STAT_TIMEOUTS], plural(q->trouble[STAT_TIMEOUTS]), q->retries,
		    q->retries == 1 ? "y" : "ies");
	if (say_peer(h, q))
		return;
	if (q->rnr_wait)
		say("So the peer program has to post a receive. ");
	else if (q->trouble[STAT_TIMEOUTS])
		say("So the peer does not answer: its program has ended, is stopped or lost the queue pair, or packets "
		    "are lost on the way there or back (uroce doctor; ping). ");
}

/* ---- queue pairs that have nothing outstanding ---- */

static void say_unpolled(const struct stat_process *p, const struct stat_qp *q)
{
	const struct stat_cq *cq = cq_of(p, q->send_cq);

	if (!q->unpolled || !cq)
		return;
	if (cq->filled) {
		say("Completions of its requests are in CQ %u, and the program has not polled them. ", cq->handle);
		return;
	}
	say("Its last ");
	if (q->unpolled == 1)
		say("send request is");
	else
		say("%u send requests are", q->unpolled);
	say(" complete, and unsignalled: CQ %u gets no completion, however often it is polled. If the program waits "
	    "for one: set IBV_SEND_SIGNALED in the last request, and in one of each %u (max_send_wr). ",
	    cq->handle, q->send_depth);
}

static void say_receives(const struct stat_process *p, const struct stat_qp *q)
{
	uint32_t posted = receives_of(p, q);

	if (is_ahead(q))
		say_ahead(q, "the peer");
	else if (posted)
		say("It waits for messages: %u receive%s posted%s. ", posted, posted == 1 ? " is" : "s are",
		    q->received ? "" : ", and none was used");
	else if (q->state >= IBV_QPS_RTR && (!q->send_posted || q->trouble[STAT_NO_RECEIVE]))
		say("It has no receive posted%s. ",
		    q->trouble[STAT_NO_RECEIVE] ? ", and a message of the peer waits for one, or was refused" : "");
}

static void explain_qp(const struct hangs *h, const struct stat_process *p, const struct stat_qp *q)
{
	const struct stat_qp *before = stats_qp(stats_process(&h->all, p->head.pid), q->qpn);

	say("Queue pair 0x%06x, %s, in %s", q->qpn, qp_type_name(q->type), qp_state_name(q->state));
	if (q->remote_qpn)
		say(", connected to %s", stats_peer(q, 60));
	if (has_moved(before, q)) {
		say(", is at work: %u request%s completed in %d ms. ", q->sent - before->sent,
		    plural(q->sent - before->sent), (int)(BETWEEN / MSEC));
		say_end();
		return;
	}
	say(". ");
	if (q->state == IBV_QPS_ERR)
		say("It has failed, or was ended: all its requests are flushed. The first completion with another "
		    "status says why, and its vendor_err (uroce explain CODE). ");
	else if (q->send_posted)
		say_sends(h, q);
	else if (q->sent && !is_ahead(q))
		say_peer(h, q);
	else
		say_process(q);
	say_unpolled(p, q);
	if (q->state != IBV_QPS_ERR)
		say_receives(p, q);
	say_end();
}

/* Of many, those that wait come first. */
static void explain_qps(const struct hangs *h, const struct stat_process *p, const struct stat_qp *q, size_t count)
{
	const struct stat_process *before = stats_process(&h->all, p->head.pid);
	size_t at_work = 0, shown = 0, waiting;

	for (size_t i = 0; i < count; i++) {
		bool moves = has_moved(stats_qp(before, q[i].qpn), &q[i]);

		at_work += moves;
		if (count > SHOWN && (moves || shown == SHOWN))
			continue;
		explain_qp(h, p, &q[i]);
		shown++;
	}
	if (count <= SHOWN)
		return;
	waiting = count - at_work;
	if (waiting > shown)
		say("%zu more queue pairs wait, which `uroce stat` shows. ", waiting - shown);
	if (at_work)
		say("%zu queue pair%s at work. ", at_work, at_work == 1 ? " is" : "s are");
	say_end();
}

/* ---- completion queues ---- */

static bool is_at_work(const struct hangs *h, const struct stat_process *p, const struct stat_cq *c)
{
	size_t n;
	const struct stat_qp *q = stat_qps(p, &n);

	for (size_t i = 0; i < n; i++)
		if ((q[i].send_cq == c->handle || q[i].recv_cq == c->handle) &&
		    has_moved(stats_qp(stats_process(&h->all, p->head.pid), q[i].qpn), &q[i]))
			return true;
	return false;
}

/* True if a queue pair that uses it may get messages. */
static bool is_connected(const struct stat_process *p, const struct stat_cq *c)
{
	size_t n;
	const struct stat_qp *q = stat_qps(p, &n);

	for (size_t i = 0; i < n; i++)
		if ((q[i].send_cq == c->handle || q[i].recv_cq == c->handle) && q[i].state >= IBV_QPS_RTR)
			return true;
	return false;
}

static void explain_cq(const struct hangs *h, const struct stat_process *p, const struct stat_cq *c)
{
	if (!c->users || is_at_work(h, p, c))
		return;
	if (c->overrun)
		say("CQ %u has overrun: a completion was lost, and no more are taken. ", c->handle);
	else if (c->filled)
		say("CQ %u has %u completion%s that the program has not polled. ", c->handle, c->filled,
		    plural(c->filled));
	if (c->has_channel && !c->armed && !c->has_event && is_connected(p, c))
		say("CQ %u has a completion channel and is not armed: no event of it will come. A thread that waits "
		    "for one (ibv_get_cq_event(), or its descriptor) waits for ever. What to do: "
		    "ibv_req_notify_cq() before each wait, then poll once more. ",
		    c->handle);
	say_end();
}

/* Explains a connection of librdmacm that is being made, or ended. */
static void explain_connection(const struct stat_id *id)
{
	static const struct {
		const char *state, *waits_for;
	} rows[] = {
		{"REQ_SENT",
		 "its connection request has no answer: that program has to call rdma_accept() or rdma_reject()"},
		{"REQ_RECEIVED", "the connection request waits for this program: rdma_accept() or rdma_reject()"},
		{"REP_SENT", "its rdma_accept() has no answer yet"},
		{"DREQ_SENT", "its rdma_disconnect() has no answer yet"},
		{"DREQ_RECEIVED", "the peer has disconnected; this program has not: rdma_disconnect()"},
	};
	const char *state = connection_state_name(id->connection);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (!strcmp(rows[i].state, state))
			say("An rdma_cm id at %s is in %s: %s. The other end is %s. ",
			    stats_end(id->local, id->local_port, 46), state, rows[i].waits_for,
			    stats_end(id->remote, id->remote_port, 46));
	say_end();
}

/* Explains an id of librdmacm. */
static void explain_id(const struct stat_id *id)
{
	if (id->connection > 1) {
		explain_connection(id);
		return;
	}
	say("An rdma_cm id is %s at %s", id_state_name(id->state), stats_end(id->local, id->local_port, 46));
	if (id->remote_port)
		say(", to %s", stats_end(id->remote, id->remote_port, 46));
	say(". ");
	say_end();
}

static void explain_cause(const struct stat_cause *c)
{
	const struct cause_row *row = cause_find(c->code);

	if (!row)
		return; /* of a later version */
	say("%" PRIu64 " time%s since it began: %s (cause 0x%x). What to do: %s. ", c->times, plural(c->times),
	    row->meaning, row->code, row->remedy);
	say_end();
}

static void explain_process(const struct hangs *h, const struct stat_process *p)
{
	size_t qps, cqs, ids, causes;
	const struct stat_qp *q = stat_qps(p, &qps);
	const struct stat_cq *c = stat_cqs(p, &cqs);
	const struct stat_id *id = stat_ids(p, &ids);
	const struct stat_cause *cause = stat_causes(p, &causes);

	printf("%s%s%s, process %u, now:\n\n", style(BOLD), p->head.program, style(PLAIN), p->head.pid);
	explain_qps(h, p, q, qps);
	for (size_t i = 0; i < cqs; i++)
		explain_cq(h, p, &c[i]);
	for (size_t i = 0; i < ids; i++)
		explain_id(&id[i]);
	for (size_t i = 0; i < causes; i++)
		explain_cause(&cause[i]);
	if (!qps)
		say("It has no queue pair: it waits for something else than RDMA, or for a connection. ");
	say_end();
}

int hangs_explain(const struct command *command, int pids, char **pid)
{
	struct timespec between = {.tv_nsec = BETWEEN};
	struct hangs h = {0};
	int status;

	stats_gather(command, 0, NULL, &h.all);
	while (nanosleep(&between, &between) && errno == EINTR)
		;
	status = stats_gather(command, pids, pid, &h.now);
	for (size_t i = 0; !status && i < h.now.count; i++)
		explain_process(&h, &h.now.process[i]);
	stats_free(&h.all);
	stats_free(&h.now);
	return status;
}
