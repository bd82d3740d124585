/* SPDX-License-Identifier: BSD-2-Clause */
/* Each operation of each service: lengths around the path MTU, and lists of SGEs. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "conform.h"
#include "states.h"

#define SOURCE 4096u
#define TARGET ((4u << 20) + 64)
#define GRH    40u
#define GUARD  16u
#define IMM    0x12345678u
#define TRIES  20 /* UC and UD may lose a message */

enum size { ZERO, ONE, MTU_LESS, MTU, MTU_MORE, TWO_MTU, LONG, HUGE, SIZES };

static const char *const size_names[SIZES] = {"0", "1", "mtu-1", "mtu", "mtu+1", "2mtu", "12289", "1m+3"};

static const struct operation {
	const char *name;
	enum ibv_wr_opcode opcode;
	enum ibv_wc_opcode done;
	bool receives, imm, is_atomic;
	const char *source;
} operations[] = {
	{"send", IBV_WR_SEND, IBV_WC_SEND, true, false, false, "IBTA 9.4.1, 10.7.2.1"},
	{"send-imm", IBV_WR_SEND_WITH_IMM, IBV_WC_SEND, true, true, false, "IBTA 9.4.1, 9.2.6"},
	{"write", IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE, false, false, false, "IBTA 9.4.3"},
	{"write-imm", IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE, true, true, false, "IBTA 9.4.3, 9.2.6"},
	{"read", IBV_WR_RDMA_READ, IBV_WC_RDMA_READ, false, false, false, "IBTA 9.4.4"},
	{"fetch-add", IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD, false, false, true, "IBTA 9.4.5"},
	{"compare-swap", IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP, false, false, true, "IBTA 9.4.5"},
};
static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND};
static const int sge_counts[] = {1, 2, 4};

static struct transfer {
	const struct operation *op;
	enum ibv_qp_type type;
	enum size size;
	int sges;
	bool is_inline;
} transfers[1000];

static bool has_operation(enum ibv_qp_type type, const struct operation *op)
{
	if (type == IBV_QPT_UD)
		return op->receives && op->done == IBV_WC_SEND;
	return type != IBV_QPT_UC || (op->opcode != IBV_WR_RDMA_READ && !op->is_atomic);
}

static unsigned count_transfers(void)
{
	unsigned n = 0;

	for (size_t t = 0; t < COUNT(types); t++) {
		for (size_t o = 0; o < COUNT(operations); o++) {
			bool inlines = operations[o].opcode != IBV_WR_RDMA_READ && !operations[o].is_atomic;

			for (int size = 0; has_operation(types[t], &operations[o]) && size < SIZES; size++) {
				if ((operations[o].is_atomic && size) || (types[t] == IBV_QPT_UD && size > MTU))
					continue;
				for (size_t s = 0; s < COUNT(sge_counts); s++)
					if (!operations[o].is_atomic || !s)
						transfers[n++] = (struct transfer){&operations[o], types[t], size,
										   sge_counts[s], false};
				if (inlines && size <= ONE)
					transfers[n++] = (struct transfer){&operations[o], types[t], size, 1, true};
			}
		}
	}
	return n;
}

static void transfer_rule(unsigned i, struct rule *r)
{
	const struct transfer *t = &transfers[i];
	const char *size = t->op->is_atomic ? "8" : size_names[t->size];

	snprintf(r->id, sizeof(r->id), "data/%s/%s-%s-%s%d", type_name(t->type), t->op->name, size,
		 t->is_inline ? "inline" : "sge", t->is_inline ? 1 : t->sges);
	r->source = t->op->source;
	snprintf(r->does, sizeof(r->does), "%s of %s bytes by %s, %d SGEs%s", t->op->name, size, type_name(t->type),
		 t->sges, t->is_inline ? ", inline, and the buffer is changed after the post" : "");
	snprintf(r->expects, sizeof(r->expects),
		 "success at both ends, length, immediate, each byte; none beside them");
}

static uint32_t mtu_of(const struct end *e, enum ibv_qp_type type)
{
	enum ibv_mtu port = e->port.active_mtu;

	return 128u << (type == IBV_QPT_UD || port < IBV_MTU_1024 ? port : IBV_MTU_1024);
}

static uint32_t size_of(const struct transfer *t)
{
	uint32_t mtu = mtu_of(near, t->type);
	const uint32_t sizes[SIZES] = {0, 1, mtu - 1, mtu, mtu + 1, 2 * mtu, 12289, (1u << 20) + 3};

	return t->op->is_atomic ? 8 : sizes[t->size];
}

/* Divides memory among SGEs. */
static void divide(const struct end *e, uint32_t offset, uint32_t size, struct ibv_sge *sges, int count)
{
	uint32_t each = size / (uint32_t)count, at = 0;

	for (int i = 0; i < count; i++) {
		uint32_t length = i == count - 1 ? size - at : each;

		sges[i] = (struct ibv_sge){.addr = e->arena + offset + at, .length = length, .lkey = e->lkey};
		at += length;
	}
}

/* Connected ends; the far one of XRC receives by an SRQ. */
struct ends {
	struct pair p;
	struct ibv_srq *srq;
	uint32_t srq_num;
	struct ibv_cq *far_cq;
	struct ibv_ah *ah;
};

static struct ends make_ends(const struct transfer *t)
{
	struct ends e = {0};
	struct ibv_qp_init_attr init = small_qp(near, t->type);
	struct ibv_ah_attr there = address_of(near, far);
	struct ibv_srq_attr srq = {.max_wr = 16, .max_sge = 1};

	init.cap.max_inline_data = t->is_inline ? 8 : 0;
	e.p.a = make_qp_as(near, &init);
	e.p.b = make_qp(far, t->type == IBV_QPT_XRC_SEND ? IBV_QPT_XRC_RECV : t->type);
	connect_pair(&e.p);
	e.far_cq = e.p.b.rcq;
	if (t->type == IBV_QPT_UD)
		expect_errno("ibv_create_ah", try_ah(near, &there, &e.ah), 0);
	if (t->type == IBV_QPT_XRC_SEND) {
		expect_errno("ibv_create_cq", try_cq(far, 64, &e.far_cq), 0);
		expect_errno("ibv_create_srq_ex", try_xrc_srq(far, &srq, e.far_cq, &e.srq, &e.srq_num), 0);
	}
	return e;
}

static int receive(struct ends *e, const struct transfer *t, uint64_t wr_id, uint32_t size)
{
	struct ibv_sge sges[4];
	uint32_t grh = t->type == IBV_QPT_UD ? GRH : 0;

	if (e->srq)
		return post_srq(far, e->srq, wr_id, TARGET, size);
	divide(far, TARGET - grh, size + grh, sges, t->sges);
	return post_receive_sges(&e->p.b, wr_id, sges, t->sges);
}

static void expect_receive(const struct ends *e, const struct transfer *t, uint32_t size, const struct ibv_wc *wc)
{
	expect("byte_len", (long)wc->byte_len, (long)size + (t->type == IBV_QPT_UD ? GRH : 0));
	expect("wc.opcode", wc->opcode,
	       t->op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
	expect("wc.wr_id", (long)wc->wr_id, 21);
	expect("IBV_WC_WITH_IMM", wc->wc_flags & IBV_WC_WITH_IMM, t->op->imm ? IBV_WC_WITH_IMM : 0);
	if (t->op->imm)
		expect("imm_data", (long)ntohl(wc->imm_data), IMM);
	if (t->type == IBV_QPT_UD) {
		expect("src_qp", (long)wc->src_qp, (long)e->p.a.num);
		expect("IBV_WC_GRH", wc->wc_flags & IBV_WC_GRH,
		       near->port.link_layer == IBV_LINK_LAYER_ETHERNET ? IBV_WC_GRH : wc->wc_flags & IBV_WC_GRH);
	}
	if (!e->srq)
		expect("wc.qp_num", (long)wc->qp_num, (long)e->p.b.num);
}

static void expect_bytes(const struct transfer *t, uint32_t size)
{
	struct end *at = t->op->opcode == IBV_WR_RDMA_READ ? near : far;
	uint32_t place = at == near ? SOURCE : TARGET;
	uint8_t guard[GUARD];

	if (!has_pattern(at, place, size, 1))
		wrong("the bytes that arrive are not those that were sent");
	peek(at, place + size, GUARD, guard);
	for (uint32_t i = 0; i < GUARD; i++)
		if (guard[i] != 0xee)
			wrong("byte %u behind the message is written", i);
}

static void expect_atomic(const struct transfer *t)
{
	uint64_t was, is;

	peek(near, SOURCE, 8, &was);
	peek(far, TARGET, 8, &is);
	expect("the value that was", (long)was, 41);
	expect("the value that is", (long)is, t->op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 43 : 2);
}

static void prepare(const struct transfer *t, uint32_t size)
{
	static uint8_t blank[GUARD];
	uint64_t value = 41;
	bool reads = t->op->opcode == IBV_WR_RDMA_READ;

	memset(blank, 0xee, sizeof(blank));
	fill(near, SOURCE, size, reads ? 2 : 1);
	fill(far, TARGET, size, reads ? 1 : 2);
	poke(near, SOURCE + size, GUARD, blank);
	poke(far, TARGET + size, GUARD, blank);
	if (t->op->is_atomic)
		poke(far, TARGET, 8, &value);
}

/* False if the message was lost. */
static bool try_transfer(const struct transfer *t)
{
	struct ends e = make_ends(t);
	uint32_t size = size_of(t);
	struct ibv_sge sges[4];
	bool reliable = t->type == IBV_QPT_RC || t->type == IBV_QPT_XRC_SEND;
	struct ibv_send_wr wr = {.wr_id = 11,
				 .opcode = t->op->opcode,
				 .sg_list = sges,
				 .num_sge = t->sges,
				 .send_flags = IBV_SEND_SIGNALED | (t->is_inline ? IBV_SEND_INLINE : 0u)};
	struct ibv_send_wr last = {.wr_id = 12, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_wc wc;
	int error;

	prepare(t, size);
	divide(near, SOURCE, size, sges, t->sges);
	wr.imm_data = htonl(IMM);
	if (t->op->is_atomic) {
		wr.wr.atomic.remote_addr = far->arena + TARGET;
		wr.wr.atomic.rkey = far->rkey;
		wr.wr.atomic.compare_add = t->op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 2 : 41;
		wr.wr.atomic.swap = 2;
	} else if (t->type == IBV_QPT_UD) {
		wr.wr.ud.ah = e.ah;
		wr.wr.ud.remote_qpn = e.p.b.num;
		wr.wr.ud.remote_qkey = 0x11111111;
	} else {
		wr.wr.rdma.remote_addr = far->arena + TARGET;
		wr.wr.rdma.rkey = far->rkey;
	}
	wr.qp_type.xrc.remote_srqn = last.qp_type.xrc.remote_srqn = e.srq_num;
	if (t->op->receives)
		expect_errno("ibv_post_recv", receive(&e, t, 21, size), 0);
	else if (t->op->opcode == IBV_WR_RDMA_WRITE)
		expect_errno("ibv_post_recv", receive(&e, t, 22, 0), 0);
	error = post(&e.p.a, &wr);
	if (error && (t->op->is_atomic || t->op->opcode != IBV_WR_SEND))
		lacking("%s: %s", t->op->name, strerror(error));
	expect_errno("ibv_post_send", error, 0);
	if (t->is_inline)
		fill(near, SOURCE, size, 3);
	wc = expect_status(near, e.p.a.scq, 11, IBV_WC_SUCCESS);
	expect("opcode of the completion", wc.opcode, t->op->done);
	if (t->op->receives) {
		if (!poll_cq(far, e.far_cq, reliable ? 5000 : 200, &wc)) {
			if (!reliable)
				return false;
			wrong("no completion of the receive");
		}
		expect("status of the receive", wc.status, IBV_WC_SUCCESS);
		expect_receive(&e, t, size, &wc);
	} else if (t->op->opcode == IBV_WR_RDMA_WRITE && !reliable) {
		/* what comes behind it tells that it has arrived */
		expect_errno("ibv_post_send", post(&e.p.a, &last), 0);
		expect_status(near, e.p.a.scq, 12, IBV_WC_SUCCESS);
		if (!poll_cq(far, e.far_cq, 200, &wc) || !has_pattern(far, TARGET, size, 1))
			return false;
	}
	if (t->op->is_atomic)
		expect_atomic(t);
	else
		expect_bytes(t, size);
	return true;
}

static void check_transfer(unsigned i)
{
	const struct transfer *t = &transfers[i];

	if (t->sges > near->attr.max_sge ||
	    (t->sges > 1 && t->op->opcode == IBV_WR_RDMA_READ && t->sges > near->attr.max_sge_rd))
		lacking("%d SGEs", t->sges);
	if (t->op->is_atomic && near->attr.atomic_cap == IBV_ATOMIC_NONE)
		lacking("atomics");
	for (int n = 0; n < TRIES; n++) {
		if (try_transfer(t))
			return;
		end_reset(near);
		end_reset(far);
	}
	wrong("none of %d messages arrives", TRIES);
}

struct group data_group = {"data", .counted = count_transfers, .rule = transfer_rule, .check = check_transfer};
