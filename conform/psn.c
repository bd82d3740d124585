/* SPDX-License-Identifier: BSD-2-Clause */
/* Packet sequence numbers: where they wrap, and what a query tells; and timers. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "conform.h"
#include "states.h"

#define PLACE 65536u
#define PSNS  (1u << 24)

static struct pair connect_at(enum ibv_qp_type type, uint32_t a_psn, uint32_t b_psn, uint8_t retries,
			      uint8_t rnr_retries, uint8_t timeout, uint8_t rnr_timer)
{
	struct pair p = {make_qp(near, type), make_qp(far, type)};
	struct ibv_qp_attr a, b;

	p.a.psn = a_psn;
	p.b.psn = b_psn;
	a = attributes(&p.a, &p.b);
	b = attributes(&p.b, &p.a);
	a.retry_cnt = retries;
	a.rnr_retry = rnr_retries;
	a.timeout = timeout;
	b.min_rnr_timer = rnr_timer;
	for (enum ibv_qp_state s = IBV_QPS_RESET; s < IBV_QPS_RTS; s++) {
		int mask = IBV_QP_STATE | transition(type, s, s + 1).required;

		a.qp_state = b.qp_state = s + 1;
		expect_errno("ibv_modify_qp", modify(&p.a, &a, mask), 0);
		expect_errno("ibv_modify_qp", modify(&p.b, &b, mask), 0);
	}
	return p;
}

static uint32_t packet(const struct end *e)
{
	return 128u << (IBV_MTU_1024 < e->port.active_mtu ? IBV_MTU_1024 : e->port.active_mtu);
}

/* A message of that many packets. */
static void transfer(struct pair *p, uint64_t wr_id, enum ibv_wr_opcode opcode, uint32_t packets)
{
	uint32_t length = packets * packet(near);
	struct ibv_sge sge = {.addr = near->arena + PLACE, .length = length, .lkey = near->lkey};
	struct ibv_send_wr wr = {
		.wr_id = wr_id, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1};
	bool reads = opcode == IBV_WR_RDMA_READ;
	int error;

	wr.wr.rdma.remote_addr = far->arena + PLACE;
	wr.wr.rdma.rkey = far->rkey;
	fill(reads ? far : near, PLACE, length, (unsigned)wr_id);
	fill(reads ? near : far, PLACE, length, 99);
	if (opcode == IBV_WR_SEND)
		expect_errno("ibv_post_recv", post_receive(&p->b, wr_id, PLACE, length), 0);
	error = post(&p->a, &wr);
	if (error)
		lacking("the operation: %s", errno_name(error));
	expect_status(near, p->a.scq, wr_id, IBV_WC_SUCCESS);
	if (p->a.type == IBV_QPT_RC && opcode == IBV_WR_SEND) /* before, the memory is the adapter's */
		expect_status(far, p->b.rcq, wr_id, IBV_WC_SUCCESS);
	if (p->a.type == IBV_QPT_RC && !has_pattern(reads ? near : far, PLACE, length, (unsigned)wr_id))
		wrong("message %d arrives with other bytes", (int)wr_id);
}

/* First PSN of the near end, or of both; a message crosses 2^24 in each of its packets. */
static const struct wrap {
	const char *name;
	enum ibv_wr_opcode opcode;
} wraps[] = {{"send", IBV_WR_SEND}, {"write", IBV_WR_RDMA_WRITE}, {"read", IBV_WR_RDMA_READ}};
static const uint32_t firsts[] = {PSNS - 1, PSNS - 2, PSNS - 3, PSNS - 4, 0, PSNS / 2 - 1, PSNS / 2};

/* Queries: the state, and whether messages went first. */
enum { QUERIES = 6 };
static const char *const queries[QUERIES] = {"rtr-rq",	       "rts-sq",	 "rts-sq-after-9",
					     "rts-rq-after-9", "err-sq-after-9", "err-rq-after-9"};

/* Transport timers and RNR timers. */
static const struct {
	uint8_t timer, count;
	bool is_rnr;
} timers[] = {{12, 0, false}, {12, 1, false}, {12, 3, false}, {14, 0, false}, {14, 1, false}, {16, 0, false},
	      {20, 1, true},  {20, 3, true},  {23, 1, true},  {23, 2, true},  {25, 1, true}};

static unsigned count_rows(void)
{
	return COUNT(wraps) * COUNT(firsts) + QUERIES + COUNT(timers);
}

static void psn_rule(unsigned i, struct rule *r)
{
	if (i < COUNT(wraps) * COUNT(firsts)) {
		const struct wrap *w = &wraps[i % COUNT(wraps)];

		snprintf(r->id, sizeof(r->id), "psn/wrap/%s-from-%06x", w->name, firsts[i / COUNT(wraps)]);
		r->source = "IBTA 9.2.1, 9.7.2: PSNs are modulo 2^24";
		snprintf(r->does, sizeof(r->does), "4 messages of 3 packets by rc, %s, from PSN 0x%06x", w->name,
			 firsts[i / COUNT(wraps)]);
		snprintf(r->expects, sizeof(r->expects), "success, each byte");
		return;
	}
	i -= COUNT(wraps) * COUNT(firsts);
	if (i < QUERIES) {
		snprintf(r->id, sizeof(r->id), "psn/query/%s", queries[i]);
		r->source = "ibv_query_qp(3); Linux sw/rxe/rxe_qp.c: rxe_qp_to_attr(); IBTA 11.2.5.3";
		snprintf(r->does, sizeof(r->does), "query %s_psn in %.3s%s", strstr(queries[i], "sq") ? "sq" : "rq",
			 queries[i], strstr(queries[i], "after") ? " after 3 SENDs of 3 packets" : "");
		snprintf(r->expects, sizeof(r->expects), "the next PSN%s",
			 strstr(queries[i], "after") ? ", 9 behind the first" : "");
		return;
	}
	i -= QUERIES;
	snprintf(r->id, sizeof(r->id), "timer/%s/%d-count-%d", timers[i].is_rnr ? "rnr" : "transport", timers[i].timer,
		 timers[i].count);
	r->source = timers[i].is_rnr ? "IBTA 9.7.5.2.8, table 45" : "IBTA 9.7.6.1.3: from T to 4 T";
	snprintf(r->does, sizeof(r->does),
		 timers[i].is_rnr ? "a SEND without a receive: min_rnr_timer %d, rnr_retry %d"
				  : "a SEND to nobody: timeout %d, retry_cnt %d",
		 timers[i].timer, timers[i].count);
	snprintf(r->expects, sizeof(r->expects), "the error, not before the time (much later is permitted)");
}

static void check_wrap(unsigned i)
{
	uint32_t first = firsts[i / COUNT(wraps)];
	struct pair p = connect_at(IBV_QPT_RC, first, 5, 7, 7, 14, 1);

	for (uint64_t n = 1; n <= 4; n++)
		transfer(&p, n, wraps[i % COUNT(wraps)].opcode, 3);
}

static void check_query(unsigned i)
{
	struct pair p;
	struct ibv_qp_attr attr, err = {.qp_state = IBV_QPS_ERR};
	bool is_far = strstr(queries[i], "rq");
	uint32_t first = PSNS - 4, expected = i < 2 ? first : 5, seen;
	struct qp *qp;

	if (i == 0) {
		p = (struct pair){make_qp(near, IBV_QPT_RC), make_qp(far, IBV_QPT_RC)};
		p.a.psn = first;
		bring(&p.b, &p.a, IBV_QPS_RESET, IBV_QPS_RTR);
	} else {
		p = connect_at(IBV_QPT_RC, first, 5, 7, 7, 14, 1);
	}
	for (uint64_t n = 1; i > 1 && n <= 3; n++)
		transfer(&p, n, IBV_WR_SEND, 3);
	qp = is_far ? &p.b : &p.a;
	if (i > 3)
		expect_errno("ibv_modify_qp", modify(qp, &err, IBV_QP_STATE), 0);
	expect_errno("ibv_query_qp", query(qp, &attr), 0);
	seen = is_far ? attr.rq_psn : attr.sq_psn;
	if (i > 1 && seen == ((first + 3) & (PSNS - 1)))
		unusual("3 behind the first: a message is one packet of any length");
	expect(is_far ? "rq_psn" : "sq_psn", (long)seen, (long)expected);
}

static uint64_t rnr_time(uint8_t code)
{
	/* microseconds by code, IBTA table 45 */
	static const uint32_t times[32] = {655360, 10,	  20,	 30,	 40,	 60,	 80,	 120,
					   160,	   240,	  320,	 480,	 640,	 960,	 1280,	 1920,
					   2560,   3840,  5120,	 7680,	 10240,	 15360,	 20480,	 30720,
					   40960,  61440, 81920, 122880, 163840, 245760, 327680, 491520};

	return times[code] * 1000ull;
}

static void check_timer(unsigned i)
{
	uint8_t timer = timers[i].timer, count = timers[i].count;
	bool is_rnr = timers[i].is_rnr;
	struct pair p = connect_at(IBV_QPT_RC, 100, 200, is_rnr ? 7 : count, is_rnr ? count : 7, is_rnr ? 14 : timer,
				   is_rnr ? timer : 1);
	uint64_t least = is_rnr ? count * rnr_time(timer) : (count + 1u) * (4096ull << timer), start, took;
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

	if (!is_rnr)
		expect_errno("ibv_destroy_qp", destroy(far, p.b.ptr), 0);
	start = now();
	expect_errno("ibv_post_send", post(&p.a, &wr), 0);
	expect_status(near, p.a.scq, 1, is_rnr ? IBV_WC_RNR_RETRY_EXC_ERR : IBV_WC_RETRY_EXC_ERR);
	took = now() - start;
	if (took < least)
		wrong("after %u ms, which is before %u ms", (unsigned)(took / 1000000), (unsigned)(least / 1000000));
	if (took > 4 * least + 2000000000)
		unusual("after %u ms, of %u ms", (unsigned)(took / 1000000), (unsigned)(least / 1000000));
}

static void check_row(unsigned i)
{
	const unsigned wrapped = COUNT(wraps) * COUNT(firsts);

	if (i < wrapped)
		check_wrap(i);
	else if (i < wrapped + QUERIES)
		check_query(i - wrapped);
	else
		check_timer(i - wrapped - QUERIES);
}

struct group psn_group = {"psn", .counted = count_rows, .rule = psn_rule, .check = check_row};
