/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/pending.h"

#include <stdatomic.h>
#include <string.h>

#include "base/base.h"

#define QPS	 4096u
#define REQUESTS 16384u
#define KEYS	 64u /* bytes of alignment: a bucket of keys is one cache line */

#define FLUSHED		  5	  /* IBV_WC_WR_FLUSH_ERR */
#define NO_RECEIVE	  4	  /* the engine's enum verdict: NOT_READY */
#define OUT_OF_SEQUENCE	  5	  /* BAD_REQUEST */
#define SYNDROME_RESPONSE 0xffffu /* syndrome of an answer that has data, and none of its own */

static struct trace_pending *pending;
static _Atomic uint64_t *qp_keys, *request_keys;
static struct pending_qp *pending_qps;
static struct pending_request *pending_requests;

static size_t pending_align(size_t n)
{
	return (n + KEYS - 1) & ~(size_t)(KEYS - 1);
}

size_t pending_bytes(size_t at)
{
	return pending_align(at) - at + pending_align(sizeof(*pending)) +
	       QPS * (sizeof(uint64_t) + sizeof(struct pending_qp)) +
	       REQUESTS * (sizeof(uint64_t) + sizeof(struct pending_request));
}

void pending_init(struct trace_header *header, size_t at)
{
	char *file = (char *)header;

	at = pending_align(at);
	pending = (struct trace_pending *)(file + at);
	pending->qps = QPS;
	pending->requests = REQUESTS;
	pending->qp_bytes = sizeof(*pending_qps);
	pending->request_bytes = sizeof(*pending_requests);
	pending->qps_at = (uint32_t)(at + pending_align(sizeof(*pending)));
	pending->requests_at = pending->qps_at + QPS * (uint32_t)(sizeof(uint64_t) + sizeof(*pending_qps));
	qp_keys = (_Atomic uint64_t *)(file + pending->qps_at);
	pending_qps = (struct pending_qp *)(qp_keys + QPS);
	request_keys = (_Atomic uint64_t *)(file + pending->requests_at);
	pending_requests = (struct pending_request *)(request_keys + REQUESTS);
	pending->magic = PENDING_MAGIC;
}

static void clear_keys(_Atomic uint64_t *keys, uint32_t slots)
{
	for (uint32_t i = 0; i < slots; i++)
		atomic_store_explicit(&keys[i], 0, memory_order_relaxed);
}

void pending_clear(void)
{
	clear_keys(qp_keys, QPS);
	clear_keys(request_keys, REQUESTS);
	pending->lost_qps = pending->lost_requests = 0;
}

/* ---- slots ---- */

static uint32_t pending_bucket(uint64_t key, uint32_t slots)
{
	return (uint32_t)((key * 0x9e3779b97f4a7c15ull) >> 40) & (slots - 1) & ~(PENDING_BUCKET - 1u);
}

/* The slot of that key; -1: none. */
static int slot_find(_Atomic uint64_t *keys, uint32_t slots, uint64_t key)
{
	uint32_t first = pending_bucket(key, slots);

	for (uint32_t i = first; i < first + PENDING_BUCKET; i++)
		/* relaxed: written under the queue pair's lock, as is this read */
		if (atomic_load_explicit(&keys[i], memory_order_relaxed) == key)
			return (int)i;
	return -1;
}

/* A free slot, which gets the key; -1: the bucket is full. Two queue pairs may want the same one. */
static int slot_make(_Atomic uint64_t *keys, uint32_t slots, uint64_t key)
{
	uint32_t first = pending_bucket(key, slots);

	for (uint32_t i = first; i < first + PENDING_BUCKET; i++) {
		uint64_t none = 0;

		if (atomic_compare_exchange_strong_explicit(&keys[i], &none, key, memory_order_relaxed,
							    memory_order_relaxed))
			return (int)i;
	}
	return -1;
}

static struct pending_qp *pending_qp_of(uint64_t qpn, uint64_t time)
{
	uint64_t key = qpn | 1ull << 32;
	int slot = slot_find(qp_keys, QPS, key);

	if (slot >= 0)
		return &pending_qps[slot];
	slot = slot_make(qp_keys, QPS, key);
	if (slot < 0) {
		atomic_fetch_add_explicit(&pending->lost_qps, 1, memory_order_relaxed);
		return NULL;
	}
	/* one that is only sent to, or has not been connected, is in RTS for all that is known */
	pending_qps[slot] = (struct pending_qp){.qpn = (uint32_t)qpn, .state = 3, .first_at = time};
	return &pending_qps[slot];
}

/* The queue pair with that number, if it is of this process. */
static struct pending_qp *known_qp(uint64_t qpn)
{
	int slot = slot_find(qp_keys, QPS, qpn | 1ull << 32);

	return slot < 0 ? NULL : &pending_qps[slot];
}

static uint64_t request_key(uint64_t qpn, uint64_t wqe)
{
	return qpn << 32 | ((uint32_t)wqe + 1u) | 1ull << 63;
}

static struct pending_request *pending_request_of(uint64_t qpn, uint64_t wqe)
{
	int slot = slot_find(request_keys, REQUESTS, request_key(qpn, wqe));

	return slot < 0 ? NULL : &pending_requests[slot];
}

static void forget_request(uint64_t qpn, uint64_t wqe)
{
	int slot = slot_find(request_keys, REQUESTS, request_key(qpn, wqe));

	if (slot >= 0)
		atomic_store_explicit(&request_keys[slot], 0, memory_order_relaxed);
}

/* Forgets a queue pair that is in RESET, or destroyed. */
static void forget_qp(uint64_t qpn)
{
	int slot = slot_find(qp_keys, QPS, qpn | 1ull << 32);

	if (slot >= 0)
		atomic_store_explicit(&qp_keys[slot], 0, memory_order_relaxed);
	for (uint32_t i = 0; i < REQUESTS; i++) {
		uint64_t key = atomic_load_explicit(&request_keys[i], memory_order_relaxed);

		if (key >> 32 == (qpn | 1u << 31))
			/* no other thread removes it: the lock of this queue pair is held */
			atomic_store_explicit(&request_keys[i], 0, memory_order_relaxed);
	}
}

/* ---- one function for each trace point ---- */

static void note_post_send(uint64_t time, const uint64_t a[TRACE_ARGS])
{
	struct pending_request *r;
	int slot;

	pending_qp_of(a[0], time);
	r = pending_request_of(a[0], a[1]);
	slot = r ? (int)(r - pending_requests) : slot_make(request_keys, REQUESTS, request_key(a[0], a[1]));
	if (slot < 0) {
		atomic_fetch_add_explicit(&pending->lost_requests, 1, memory_order_relaxed);
		return;
	}
	pending_requests[slot] = (struct pending_request){
		.qpn = (uint32_t)a[0],
		.wqe = (uint32_t)a[1],
		.wr_id = a[2],
		.opcode = (uint32_t)a[3],
		.length = (uint32_t)a[4],
		.posted_at = time,
	};
}

static void note_pickup(uint64_t time, const uint64_t a[TRACE_ARGS])
{
	struct pending_request *r = pending_request_of(a[0], a[1]);

	if (!r)
		return;
	r->picked_at = r->picked_at ?: time;
	r->psn = (uint32_t)a[2];
	r->packets = (uint32_t)a[3];
}

/* Responses and ACKs have no request: their opcodes, whatever the transport, are 13 to 18. */
static void note_build(uint64_t time, const uint64_t a[TRACE_ARGS])
{
	uint64_t operation = a[3] & 0x1f;
	struct pending_request *r = operation >= 13 && operation <= 18 ? NULL : pending_request_of(a[0], a[5]);

	if (!r)
		return;
	if (!r->picked_at) { /* by a fast path: the request is one packet */
		r->picked_at = time;
		r->psn = (uint32_t)a[2];
		r->packets = 1;
	}
	r->built_at = time;
	r->built++;
}

static void note_retry(uint64_t time, const uint64_t a[TRACE_ARGS])
{
	struct pending_request *r = pending_request_of(a[0], a[1]);

	if (!r || a[3] >= PENDING_REASONS)
		return;
	r->retries[a[3]]++;
	r->last_reason = (uint32_t)a[3];
	r->retries_left = (uint32_t)a[4];
	r->retried_at = time;
}

static void note_acknowledged(uint64_t time, const uint64_t a[TRACE_ARGS])
{
	bool has_syndrome = (a[4] & 0x1f) == 17; /* an ACK or NAK packet */
	uint32_t syndrome = has_syndrome ? (uint32_t)a[2] : SYNDROME_RESPONSE;
	struct pending_qp *q = pending_qp_of(a[0], time);

	if (!q)
		return;
	q->answers = q->answer_at && q->answer_psn == a[1] && q->answer_syndrome == syndrome ? q->answers + 1 : 1;
	q->answer_psn = (uint32_t)a[1];
	q->answer_syndrome = syndrome;
	q->answer_at = time;
}

static void note_receive(uint64_t time, const uint64_t a[TRACE_ARGS])
{
	struct pending_qp *q = known_qp(a[0]);

	if (q)
		q->heard_at = time;
}

static void note_drop(uint64_t time, const uint64_t a[TRACE_ARGS])
{
	struct pending_qp *q = pending_qp_of(a[0], time);
	unsigned transport = a[2] & 0xe0; /* of the opcode */

	/* of UC, also the rest of a message that was dropped is out of sequence */
	if (!q || (transport == 0x20 && q->drop_reason == NO_RECEIVE && a[3] == OUT_OF_SEQUENCE))
		return;
	q->lost += a[3] == NO_RECEIVE && (transport == 0x20 || transport == 0x60); /* UC, UD */
	q->dropped = q->drop_at && q->drop_psn == a[1] && q->drop_reason == a[3] ? q->dropped + 1 : 1;
	q->drop_psn = (uint32_t)a[1];
	q->drop_reason = (uint32_t)a[3];
	q->drop_at = time;
}

static void note_post_recv(uint64_t time, const uint64_t a[TRACE_ARGS])
{
	struct pending_qp *q = pending_qp_of(a[0], time);

	if (q) {
		q->posted++;
		q->posted_at = time;
	}
}

static void note_match(uint64_t time, const uint64_t a[TRACE_ARGS])
{
	struct pending_qp *q = pending_qp_of(a[0], time);

	if (q) {
		q->used++;
		q->used_at = time;
		q->dropped = 0; /* the message that was refused for want of a receive has come again */
	}
}

static void note_complete(uint64_t time, const uint64_t a[TRACE_ARGS])
{
	struct pending_qp *q = a[3] && a[3] != FLUSHED ? pending_qp_of(a[0], time) : NULL;

	forget_request(a[0], a[1]);
	if (q && !q->failed_status) {
		q->failed_wqe = (uint32_t)a[1];
		q->failed_status = (uint32_t)a[3];
		q->failed_at = time;
	}
}

static void note_qp_state(uint64_t time, const uint64_t a[TRACE_ARGS])
{
	struct pending_qp *q;

	if (a[2] == 0) {
		forget_qp(a[0]);
		return;
	}
	q = pending_qp_of(a[0], time);
	if (q)
		q->state = (uint32_t)a[2];
}

static void note_connect(uint64_t time, const uint64_t a[TRACE_ARGS])
{
	struct pending_qp *q = pending_qp_of(a[0], time);

	if (q)
		q->dest_qpn = (uint32_t)a[1];
}

void pending_note(enum trace_point point, uint64_t time, const uint64_t arg[TRACE_ARGS])
{
	static void (*const notes[TRACE_POINTS])(uint64_t time, const uint64_t a[TRACE_ARGS]) = {
		[TRACE_post_send] = note_post_send, [TRACE_post_recv] = note_post_recv,
		[TRACE_pickup] = note_pickup,	    [TRACE_build] = note_build,
		[TRACE_receive] = note_receive,	    [TRACE_drop] = note_drop,
		[TRACE_match] = note_match,	    [TRACE_acknowledged] = note_acknowledged,
		[TRACE_retry] = note_retry,	    [TRACE_complete] = note_complete,
		[TRACE_qp_state] = note_qp_state,   [TRACE_connect] = note_connect,
	};

	if (notes[point])
		notes[point](time, arg);
}
