/* SPDX-License-Identifier: BSD-2-Clause */
/* One pass over all records in order of time. A record names a work request by (queue pair, WQE), by the PSN of one
 * of its packets, or not at all (an ACK covers all requests before it); here each record finds its request. */
#include "tools/trace/join.h"

#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "wire/packet.h"

#define WC_RECEIVE 128	 /* IBV_WC_RECV, which is set in every opcode of a receive's completion */
#define SCAN	   65536 /* max requests to search for one record */

/* ACKs that cover earlier requests too: index into conn->covered. */
enum cover {
	COVER_BUILT,
	COVER_SENT,
	COVER_RECEIVED,
	COVER_USED,
};

bool request_reads(const struct request *q)
{
	return q->opcode == IBV_WR_RDMA_READ || q->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       q->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || q->opcode == IBV_WR_ATOMIC_WRITE;
}

static uint64_t wqe_key(uint32_t conn, uint32_t epoch, uint64_t wqe)
{
	return (uint64_t)conn << 48 ^ (uint64_t)(epoch & 0xffff) << 32 ^ (wqe & UINT32_MAX);
}

static uint64_t join_packet_key(uint16_t file, uint64_t dest_qpn, uint64_t psn, uint64_t opcode)
{
	return (uint64_t)file << 56 | (dest_qpn & QPN_MASK) << 32 | (psn & PSN_MASK) << 8 | (opcode & 0xff);
}

static uint32_t conn_of(struct joined *j, uint16_t file, uint64_t qpn)
{
	uint64_t key = (uint64_t)file << 32 | (qpn & UINT32_MAX);
	uint32_t c = map_get(&j->by_qpn, key);

	if (c != MAP_NONE)
		return c;
	c = j->conn_count++;
	j->conns = room_for(j->conns, c, sizeof(*j->conns));
	j->conns[c] = (struct conn){
		.file = file, .qpn = (uint32_t)qpn, .peer = NO_CONN, .namesake = map_get(&j->by_number, (uint32_t)qpn)};
	map_put(&j->by_qpn, key, c);
	map_put(&j->by_number, (uint32_t)qpn, c);
	return c;
}

/* Links the two ends of a connection. If several files have a queue pair of that number, the PSNs given to both ends
 * decide. */
static void find_peer(struct joined *j, uint32_t c)
{
	struct conn *conn = &j->conns[c];
	int best = 0;

	for (uint32_t i = map_get(&j->by_number, conn->dest_qpn); i != NO_CONN; i = j->conns[i].namesake) {
		struct conn *other = &j->conns[i];
		int score;

		if (other->dest_qpn && other->dest_qpn != conn->qpn)
			continue;
		score = 1 + 2 * (other->dest_qpn == conn->qpn) + (other->file != conn->file) +
			4 * (conn->sq_psn && conn->sq_psn == other->rq_psn) +
			4 * (conn->rq_psn && conn->rq_psn == other->sq_psn);
		if (score < best) /* of equally likely ones, the earliest */
			continue;
		best = score;
		conn->peer = i;
	}
}

static void connect_conn(struct joined *j, const struct record *e, bool only_if_unknown)
{
	uint32_t c = conn_of(j, e->file, e->arg[0]); /* may move j->conns */
	struct conn *conn = &j->conns[c];

	if (only_if_unknown && conn->dest_qpn)
		return;
	conn->dest_qpn = (uint32_t)e->arg[1];
	if (e->point != TRACE_connect)
		return;
	if (e->arg[2])
		conn->sq_psn = (uint32_t)e->arg[2];
	if (e->arg[3])
		conn->rq_psn = (uint32_t)e->arg[3];
	conn->mtu = (uint32_t)e->arg[4];
}

/* Finds connections that were made before the oldest record, from packets built. */
static void find_connections(struct joined *j)
{
	for (uint32_t i = 0; i < j->records->count; i++) {
		const struct record *e = &j->records->all[i];

		if (e->point == TRACE_connect)
			connect_conn(j, e, false);
		else if (e->point == TRACE_build || e->point == TRACE_acknowledge)
			connect_conn(j, e, true);
		else if (e->point == TRACE_post_send || e->point == TRACE_post_recv || e->point == TRACE_match)
			conn_of(j, e->file, e->arg[0]);
	}
	for (uint32_t c = 0; c < j->conn_count; c++)
		find_peer(j, c);
}

static void add_step(struct joined *j, uint32_t q, uint32_t record)
{
	struct request *request = &j->requests[q];
	uint32_t s = j->step_count;

	j->steps = room_for(j->steps, s, sizeof(*j->steps));
	j->steps[s] = (struct step){record, NO_STEP};
	if (request->last == NO_STEP)
		request->first = s;
	else
		j->steps[request->last].next = s;
	request->last = s;
	j->step_count++;
}

static void reach(struct request *q, enum milestone m, uint64_t time)
{
	if (q->when[m] == NEVER)
		q->when[m] = time;
}

static uint32_t request_by_wqe(struct joined *j, uint32_t c, uint64_t wqe)
{
	return map_get(&j->by_wqe, wqe_key(c, j->conns[c].epoch, wqe));
}

/* The request of `conn` that a PSN belongs to. Searches start where the last one ended, as packets come in order. */
static uint32_t request_by_psn(struct joined *j, struct conn *conn, uint32_t *near, uint64_t number)
{
	uint32_t at = *near < conn->sents ? *near : conn->sents - 1;
	psn_t p = psn((uint32_t)number);

	if (!conn->sents)
		return MAP_NONE;
	for (uint32_t i = 0; i < SCAN; i++) {
		const struct request *q = &j->requests[conn->sent[at]];

		if (psn_before(p, q->psn)) {
			if (at-- == 0)
				return MAP_NONE;
		} else if (!psn_before(p, psn_add(q->psn, q->packets))) {
			if (++at == conn->sents)
				return MAP_NONE;
			if (psn_before(p, j->requests[conn->sent[at]].psn))
				return MAP_NONE;
		} else {
			*near = at;
			return conn->sent[at];
		}
	}
	return MAP_NONE;
}

/* The request that a packet at (or to) queue pair `c` serves: requests are the peer's, responses answer our own. */
static uint32_t request_of_packet(struct joined *j, uint32_t c, uint64_t number, uint64_t opcode)
{
	struct conn *conn = &j->conns[c];

	if (opcode_info[opcode & 0xff].flags & IS_RESPONSE)
		return request_by_psn(j, conn, &conn->near, number);
	if (conn->peer == NO_CONN)
		return MAP_NONE;
	conn = &j->conns[conn->peer];
	return request_by_psn(j, conn, &conn->peer_near, number);
}

/* Marks all earlier requests that have no such ACK yet. */
static void cover(struct joined *j, struct conn *conn, enum cover kind, uint64_t number, enum milestone m,
		  uint32_t record)
{
	const struct record *e = &j->records->all[record];
	psn_t p = psn((uint32_t)number);

	while (conn->covered[kind] < conn->sents) {
		uint32_t q = conn->sent[conn->covered[kind]];
		struct request *request = &j->requests[q];

		if (psn_before(p, request->psn))
			return;
		if (psn_before(p, psn_add(request->psn, request->packets - 1)))
			return; /* part of the request */
		conn->covered[kind]++;
		/* responses answer a READ; a later ACK only shows that they came. A complete request was
		 * acknowledged by a request of the peer, and not by a later packet. */
		if (request_reads(request) || (request->when[COMPLETED] != NEVER && kind != COVER_USED))
			continue;
		add_step(j, q, record);
		reach(request, m, e->time);
	}
}

/* Joins an ACK, or a NAK, which concerns only the request that it names. */
static void join_answer(struct joined *j, uint32_t requester, enum cover kind, uint64_t number, uint64_t syndrome,
			enum milestone m, uint32_t record)
{
	struct conn *conn;
	uint32_t q;

	if (requester == NO_CONN)
		return;
	conn = &j->conns[requester];
	if ((syndrome & SYNDROME_KIND) == SYNDROME_ACK) {
		cover(j, conn, kind, number, m, record);
		return;
	}
	q = request_by_psn(j, conn, &conn->near, number);
	if (q != MAP_NONE)
		add_step(j, q, record);
}

static psn_t last_psn(const struct request *q)
{
	return psn_add(q->psn, q->packets - 1);
}

/* True if the packet is the one whose time counts for its request. */
static bool ends_request(const struct request *q, uint64_t number, uint64_t opcode)
{
	if (!q->packets)
		return false;
	if (request_reads(q) && !(opcode_info[opcode & 0xff].flags & IS_RESPONSE))
		return psn_equal(psn((uint32_t)number), q->psn); /* the only request packet */
	return psn_equal(psn((uint32_t)number), last_psn(q));
}

static void on_post_send(struct joined *j, uint32_t i, const struct record *e)
{
	uint32_t c = conn_of(j, e->file, e->arg[0]), q = j->request_count++;

	j->requests = room_for(j->requests, q, sizeof(*j->requests));
	j->requests[q] = (struct request){.conn = c,
					  .wqe = (uint32_t)e->arg[1],
					  .wr_id = e->arg[2],
					  .opcode = (uint32_t)e->arg[3],
					  .length = (uint32_t)e->arg[4],
					  .signaled = e->arg[5] & IBV_SEND_SIGNALED,
					  .status = -1,
					  .receive_posted = NEVER,
					  .first = NO_STEP,
					  .last = NO_STEP};
	for (int m = 0; m < MILESTONES; m++)
		j->requests[q].when[m] = NEVER;
	reach(&j->requests[q], POSTED, e->time);
	map_put(&j->by_wqe, wqe_key(c, j->conns[c].epoch, e->arg[1]), q);
	add_step(j, q, i);
}

static void on_post_recv(struct joined *j, uint32_t i, const struct record *e)
{
	uint32_t c = conn_of(j, e->file, e->arg[0]);

	map_put(&j->receive_posts, wqe_key(c, j->conns[c].epoch, e->arg[1]), i);
}

static void on_pickup(struct joined *j, uint32_t i, const struct record *e)
{
	uint32_t c = conn_of(j, e->file, e->arg[0]), q = request_by_wqe(j, c, e->arg[1]);
	struct conn *conn = &j->conns[c];
	struct request *request;

	if (q == MAP_NONE) {
		j->partial++;
		return;
	}
	request = &j->requests[q];
	add_step(j, q, i);
	if (request->packets)
		return; /* picked up again, after a loss */
	request->psn = psn((uint32_t)e->arg[2]);
	request->packets = e->arg[3] ? (uint32_t)e->arg[3] : 1;
	reach(request, PICKED_UP, e->time);
	conn->sent = room_for(conn->sent, conn->sents, sizeof(*conn->sent));
	conn->sent[conn->sents++] = q;
}

static void on_build(struct joined *j, uint32_t i, const struct record *e)
{
	uint32_t c = conn_of(j, e->file, e->arg[0]), q, peer = j->conns[c].peer;
	bool response = opcode_info[e->arg[3] & 0xff].flags & IS_RESPONSE;

	if (!response)
		q = request_by_wqe(j, c, e->arg[5]);
	else
		q = peer == NO_CONN ? MAP_NONE
				    : request_by_psn(j, &j->conns[peer], &j->conns[peer].peer_near, e->arg[2]);
	if (q == MAP_NONE) {
		j->partial++;
		return;
	}
	map_put(&j->packets, join_packet_key(e->file, e->arg[1], e->arg[2], e->arg[3]), q);
	add_step(j, q, i);
	if (ends_request(&j->requests[q], e->arg[2], e->arg[3]))
		reach(&j->requests[q], response ? ANSWERED : BUILT, e->time);
}

/* Our queue pair that sent an ACK: only its destination is recorded. */
static uint32_t requester_at(struct joined *j, uint16_t from, uint64_t dest_qpn)
{
	uint32_t found = NO_CONN;

	for (uint32_t c = map_get(&j->by_number, dest_qpn); c != NO_CONN; c = j->conns[c].namesake) {
		uint32_t peer = j->conns[c].peer;

		if (peer != NO_CONN && j->conns[peer].file == from)
			found = c; /* earliest one */
	}
	return found;
}

static void on_send(struct joined *j, uint32_t i, const struct record *e)
{
	uint32_t q;

	if (OPERATION(e->arg[2]) == OP_ACKNOWLEDGE) {
		uint32_t syndrome = map_get(&j->packets, join_packet_key(e->file, e->arg[0], e->arg[1], e->arg[2]));

		if (syndrome != MAP_NONE)
			join_answer(j, requester_at(j, e->file, e->arg[0]), COVER_SENT, e->arg[1], syndrome,
				    ANSWER_SENT, i);
		return;
	}
	q = map_get(&j->packets, join_packet_key(e->file, e->arg[0], e->arg[1], e->arg[2]));
	if (q == MAP_NONE)
		return;
	add_step(j, q, i);
	if (ends_request(&j->requests[q], e->arg[1], e->arg[2]))
		reach(&j->requests[q], opcode_info[e->arg[2] & 0xff].flags & IS_RESPONSE ? ANSWER_SENT : SENT, e->time);
}

static void on_receive(struct joined *j, uint32_t i, const struct record *e)
{
	uint32_t c = map_get(&j->by_qpn, (uint64_t)e->file << 32 | e->arg[0]), q;

	if (c == MAP_NONE)
		return;
	if (OPERATION(e->arg[2]) == OP_ACKNOWLEDGE) {
		uint32_t peer = j->conns[c].peer, syndrome = MAP_NONE;

		if (peer != NO_CONN)
			syndrome = map_get(&j->packets,
					   join_packet_key(j->conns[peer].file, e->arg[0], e->arg[1], e->arg[2]));
		if (syndrome != MAP_NONE)
			join_answer(j, c, COVER_RECEIVED, e->arg[1], syndrome, ANSWER_ARRIVED, i);
		return;
	}
	q = request_of_packet(j, c, e->arg[1], e->arg[2]);
	if (q == MAP_NONE)
		return;
	add_step(j, q, i);
	if (ends_request(&j->requests[q], e->arg[1], e->arg[2]))
		reach(&j->requests[q], opcode_info[e->arg[2] & 0xff].flags & IS_RESPONSE ? ANSWER_ARRIVED : ARRIVED,
		      e->time);
}

static void on_drop(struct joined *j, uint32_t i, const struct record *e)
{
	uint32_t c = map_get(&j->by_qpn, (uint64_t)e->file << 32 | e->arg[0]), q;

	if (c == MAP_NONE)
		return;
	q = request_of_packet(j, c, e->arg[1], e->arg[2]);
	if (q != MAP_NONE)
		add_step(j, q, i);
}

static void on_match(struct joined *j, uint32_t i, const struct record *e)
{
	uint32_t c = conn_of(j, e->file, e->arg[0]), posted, q;
	uint64_t key = wqe_key(c, j->conns[c].epoch, e->arg[1]);

	q = request_of_packet(j, c, e->arg[3], OP_SEND_ONLY);
	if (q == MAP_NONE)
		return;
	add_step(j, q, i);
	map_put(&j->receive_users, key, q);
	posted = map_get(&j->receive_posts, key);
	if (posted != MAP_NONE)
		j->requests[q].receive_posted = j->records->all[posted].time;
}

/* Joins an execution: a milestone at the responder (for READs too), a step at the requester, which stores response
 * data. Both have the response's PSN: if both ends have such a READ, the answered one is being stored. */
static void on_execute(struct joined *j, uint32_t i, const struct record *e)
{
	uint32_t c = conn_of(j, e->file, e->arg[0]), peer = j->conns[c].peer, q = MAP_NONE, own = MAP_NONE;

	if (peer != NO_CONN)
		q = request_by_psn(j, &j->conns[peer], &j->conns[peer].peer_near, e->arg[1]);
	if (opcode_info[e->arg[2] & 0xff].flags & IS_RESPONSE) {
		own = request_by_psn(j, &j->conns[c], &j->conns[c].near, e->arg[1]);
		if (own != MAP_NONE && !request_reads(&j->requests[own]))
			own = MAP_NONE;
		if (q != MAP_NONE && !request_reads(&j->requests[q]))
			q = MAP_NONE;
	}
	if (own != MAP_NONE && (q == MAP_NONE || j->requests[own].when[ANSWER_SENT] != NEVER)) {
		add_step(j, own, i);
		return;
	}
	if (q == MAP_NONE)
		return;
	add_step(j, q, i);
	if (psn_equal(psn((uint32_t)e->arg[1]), last_psn(&j->requests[q])))
		reach(&j->requests[q], EXECUTED, e->time);
}

static void on_acknowledge(struct joined *j, uint32_t i, const struct record *e)
{
	uint32_t c = conn_of(j, e->file, e->arg[0]);

	/* "send" and "receive" do not tell an ACK from a NAK, so they look here */
	map_put(&j->packets, join_packet_key(e->file, e->arg[1], e->arg[2], OP_ACKNOWLEDGE), (uint32_t)e->arg[3]);
	join_answer(j, j->conns[c].peer, COVER_BUILT, e->arg[2], e->arg[3], ANSWERED, i);
}

static void on_acknowledged(struct joined *j, uint32_t i, const struct record *e)
{
	uint32_t c = conn_of(j, e->file, e->arg[0]);

	/* ACK seen by the requester, in any packet; a milestone without "receive" */
	join_answer(j, c, COVER_USED, e->arg[1], e->arg[2], ANSWER_ARRIVED, i);
}

static void on_retry(struct joined *j, uint32_t i, const struct record *e)
{
	uint32_t q = request_by_wqe(j, conn_of(j, e->file, e->arg[0]), e->arg[1]);

	if (q == MAP_NONE)
		return;
	j->requests[q].retries += 1 + e->repeats;
	add_step(j, q, i);
}

static void on_complete(struct joined *j, uint32_t i, const struct record *e)
{
	uint32_t c = conn_of(j, e->file, e->arg[0]), q = request_by_wqe(j, c, e->arg[1]);
	struct conn *conn = &j->conns[c];

	if (q == MAP_NONE) {
		j->partial++;
		return;
	}
	add_step(j, q, i);
	reach(&j->requests[q], COMPLETED, e->time);
	j->requests[q].status = (int)e->arg[3];
	if (!j->requests[q].signaled && e->arg[3] == IBV_WC_SUCCESS)
		return; /* no CQE */
	conn->done = room_for(conn->done, conn->dones, sizeof(*conn->done));
	conn->done[conn->dones++] = q;
}

static void on_complete_recv(struct joined *j, uint32_t i, const struct record *e)
{
	uint32_t c = conn_of(j, e->file, e->arg[0]);
	struct conn *conn = &j->conns[c];
	uint32_t q = map_get(&j->receive_users, wqe_key(c, conn->epoch, e->arg[1]));

	conn->received = room_for(conn->received, conn->receiveds, sizeof(*conn->received));
	conn->received_id = room_for(conn->received_id, conn->receiveds, sizeof(*conn->received_id));
	conn->received[conn->receiveds] = q;
	conn->received_id[conn->receiveds++] = e->arg[2];
	if (q == MAP_NONE)
		return;
	add_step(j, q, i);
	reach(&j->requests[q], RECEIVE_COMPLETED, e->time);
}

/* Completions of one queue are polled in order. */
/* Posting and execution were one step. */
static void on_onesided(struct joined *j, uint32_t i, const struct record *e)
{
	uint32_t q = request_by_wqe(j, conn_of(j, e->file, e->arg[0]), e->arg[1]);

	if (q == MAP_NONE) {
		j->partial++;
		return;
	}
	add_step(j, q, i);
	reach(&j->requests[q], EXECUTED, e->time);
}

static void on_poll(struct joined *j, uint32_t i, const struct record *e)
{
	uint32_t c = conn_of(j, e->file, e->arg[0]); /* may move j->conns */
	struct conn *conn = &j->conns[c];
	bool receive = e->arg[3] & WC_RECEIVE;
	uint32_t *next = receive ? &conn->rpolled : &conn->polled;
	uint32_t end = receive ? conn->receiveds : conn->dones;

	for (uint32_t n = *next; n < end && n - *next < SCAN; n++) {
		uint32_t q = receive ? conn->received[n] : conn->done[n];
		uint64_t wr_id = receive ? conn->received_id[n] : j->requests[q].wr_id;

		if (wr_id != e->arg[1])
			continue;
		*next = n + 1;
		if (q == MAP_NONE)
			return;
		add_step(j, q, i);
		reach(&j->requests[q], receive ? RECEIVE_POLLED : POLLED, e->time);
		return;
	}
}

static void on_qp_state(struct joined *j, uint32_t i, const struct record *e)
{
	uint32_t c = conn_of(j, e->file, e->arg[0]);

	if (e->arg[1] == IBV_QPS_RESET && e->arg[2] == IBV_QPS_INIT) {
		struct conn *conn = &j->conns[c];

		/* the number's new life: requests before are not searched any more */
		conn->epoch++;
		conn->sents = conn->near = conn->peer_near = 0;
		conn->polled = conn->dones;
		conn->rpolled = conn->receiveds;
		memset(conn->covered, 0, sizeof(conn->covered));
		free(conn->sent);
		conn->sent = NULL;
	}
}

static void on_connect(struct joined *j, uint32_t i, const struct record *e)
{
	connect_conn(j, e, false);
	find_peer(j, conn_of(j, e->file, e->arg[0]));
}

/* NULL: belongs to no request. */
static void (*const handler[TRACE_POINTS])(struct joined *, uint32_t, const struct record *) = {
	[TRACE_post_send] = on_post_send,
	[TRACE_post_recv] = on_post_recv,
	[TRACE_pickup] = on_pickup,
	[TRACE_build] = on_build,
	[TRACE_send] = on_send,
	[TRACE_receive] = on_receive,
	[TRACE_drop] = on_drop,
	[TRACE_match] = on_match,
	[TRACE_execute] = on_execute,
	[TRACE_onesided] = on_onesided,
	[TRACE_acknowledge] = on_acknowledge,
	[TRACE_acknowledged] = on_acknowledged,
	[TRACE_retry] = on_retry,
	[TRACE_complete] = on_complete,
	[TRACE_complete_recv] = on_complete_recv,
	[TRACE_poll] = on_poll,
	[TRACE_qp_state] = on_qp_state,
	[TRACE_connect] = on_connect,
};

/* Each file is an end; of two queue pairs of one file that are connected to each other, the later is another one. */
static void name_ends(struct joined *j)
{
	uint32_t ends = j->records->files;

	j->second = grow(NULL, ends, sizeof(*j->second));
	memset(j->second, 0, ends * sizeof(*j->second));
	for (uint32_t c = 0; c < j->conn_count; c++)
		j->conns[c].end = j->conns[c].file;
	for (uint32_t c = 0; c < j->conn_count; c++) {
		const struct conn *conn = &j->conns[c];
		struct conn *peer = conn->peer == NO_CONN ? NULL : &j->conns[conn->peer];

		if (!peer || peer->file != conn->file || conn->peer <= c || conn->end != conn->file)
			continue;
		if (!j->second[conn->file])
			j->second[conn->file] = (uint16_t)ends++;
		peer->end = j->second[conn->file];
	}
}

uint16_t join_end(const struct joined *j, const struct request *q, const struct record *e)
{
	const struct conn *conn = &j->conns[q->conn], *peer = conn->peer == NO_CONN ? NULL : &j->conns[conn->peer];
	bool names_peer = e->point == TRACE_send; /* the others name the queue pair where they were made */

	if (!peer || peer->end == conn->end || peer->file != conn->file)
		return e->file;
	return (e->arg[0] == conn->qpn) != names_peer ? conn->end : peer->end;
}

void join(struct joined *j, const struct records *records)
{
	*j = (struct joined){.records = records};
	find_connections(j);
	for (uint32_t i = 0; i < records->count; i++)
		if (handler[records->all[i].point])
			handler[records->all[i].point](j, i, &records->all[i]);
	name_ends(j);
}

void join_free(struct joined *j)
{
	for (uint32_t c = 0; c < j->conn_count; c++) {
		free(j->conns[c].sent);
		free(j->conns[c].done);
		free(j->conns[c].received);
		free(j->conns[c].received_id);
	}
	free(j->conns);
	free(j->requests);
	free(j->steps);
	free(j->second);
	map_free(&j->by_number);
	map_free(&j->by_qpn);
	map_free(&j->by_wqe);
	map_free(&j->receive_posts);
	map_free(&j->receive_users);
	map_free(&j->packets);
	*j = (struct joined){0};
}
