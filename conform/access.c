/* SPDX-License-Identifier: BSD-2-Clause */
/* Rights, keys and bounds of one-sided operations, local ones too: who gets which status, what is flushed behind it,
 * what the far end is told, and that no byte is touched. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "conform.h"
#include "states.h"

#define REGION 8192u /* offset of the far region, and of the near one */
#define LENGTH 4096u
#define ALL    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static const struct operation {
	const char *name;
	enum ibv_wr_opcode opcode;
	int right;
	bool receives, is_atomic;
} operations[] = {
	{"write", IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE, false, false},
	{"write-imm", IBV_WR_RDMA_WRITE_WITH_IMM, IBV_ACCESS_REMOTE_WRITE, true, false},
	{"read", IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ, false, false},
	{"fetch-add", IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_ATOMIC, false, true},
	{"compare-swap", IBV_WR_ATOMIC_CMP_AND_SWP, IBV_ACCESS_REMOTE_ATOMIC, false, true},
};

enum key { KEY_GOOD, KEY_WRONG, KEY_GONE, KEY_LOCAL_WRONG, KEY_LOCAL_GONE };

static const struct fault {
	const char *name, *says;
	bool no_mr_right, no_qp_right, is_local, no_local_write;
	int64_t from;	 /* of the region's start (negative) or end (positive, with `length` bytes inside) */
	uint32_t length; /* 0: 64 */
	enum key key;
	bool only_atomic, only_long, only_reads, empty;
	enum ibv_wc_status status, also; /* also: permitted as well */
	const char *source;
} faults[] = {
	{"no-mr-right", "a region without the right", .no_mr_right = true, .status = IBV_WC_REM_ACCESS_ERR,
	 .also = IBV_WC_REM_ACCESS_ERR, .source = "IBTA 9.7.4.1.5, 10.6.3.1; table 58"},
	{"no-qp-right", "a queue pair without the right", .no_qp_right = true, .status = IBV_WC_REM_ACCESS_ERR,
	 .also = IBV_WC_REM_INV_REQ_ERR,
	 .source = "IBTA 9.7.4.1.5 (access), 9.7.5.2.6 (invalid request): adapters differ"},
	{"past-end", "a byte past the region's end", .from = 1, .status = IBV_WC_REM_ACCESS_ERR,
	 .also = IBV_WC_REM_ACCESS_ERR, .only_long = true, .source = "IBTA 9.7.4.1.5"},
	{"behind-end", "bytes behind the region", .from = 64, .status = IBV_WC_REM_ACCESS_ERR,
	 .also = IBV_WC_REM_ACCESS_ERR, .source = "IBTA 9.7.4.1.5"},
	{"before-start", "bytes before the region", .from = -64, .status = IBV_WC_REM_ACCESS_ERR,
	 .also = IBV_WC_REM_ACCESS_ERR, .source = "IBTA 9.7.4.1.5"},
	{"far-past-end", "a message longer than the region", .from = 1, .length = 16384, .only_long = true,
	 .status = IBV_WC_REM_ACCESS_ERR, .also = IBV_WC_REM_ACCESS_ERR, .source = "IBTA 9.7.4.1.5"},
	{"wrong-rkey", "an R_Key that there is not", .key = KEY_WRONG, .status = IBV_WC_REM_ACCESS_ERR,
	 .also = IBV_WC_REM_ACCESS_ERR, .source = "IBTA 9.7.4.1.5"},
	{"gone-rkey", "the R_Key of a region that was deregistered", .key = KEY_GONE, .status = IBV_WC_REM_ACCESS_ERR,
	 .also = IBV_WC_REM_ACCESS_ERR, .source = "IBTA 9.7.4.1.5, 10.6.3.4"},
	{"empty-wrong-rkey", "no bytes, with an R_Key that there is not", .key = KEY_WRONG, .empty = true,
	 .only_long = true, .status = IBV_WC_SUCCESS, .also = IBV_WC_SUCCESS,
	 .source = "IBTA 9.7.4.1.5: not checked for requests of no bytes"},
	{"misaligned", "an address that is no multiple of 8", .from = -4, .only_atomic = true,
	 .status = IBV_WC_REM_INV_REQ_ERR, .also = IBV_WC_REM_ACCESS_ERR, .source = "IBTA 9.4.5, 9.7.4.1.5"},
	{"wrong-lkey", "an L_Key that there is not", .is_local = true, .key = KEY_LOCAL_WRONG,
	 .status = IBV_WC_LOC_PROT_ERR, .also = IBV_WC_LOC_PROT_ERR, .source = "IBTA 10.7.3.1, 11.6.2"},
	{"gone-lkey", "the L_Key of a region that was deregistered", .is_local = true, .key = KEY_LOCAL_GONE,
	 .status = IBV_WC_LOC_PROT_ERR, .also = IBV_WC_LOC_PROT_ERR, .source = "IBTA 10.7.3.1, 11.6.2"},
	{"local-past-end", "local memory past its region's end", .is_local = true, .from = 1,
	 .status = IBV_WC_LOC_PROT_ERR, .also = IBV_WC_LOC_PROT_ERR, .source = "IBTA 11.6.2"},
	{"no-local-write", "a place without LOCAL_WRITE", .is_local = true, .no_local_write = true, .only_reads = true,
	 .status = IBV_WC_LOC_PROT_ERR, .also = IBV_WC_LOC_PROT_ERR, .source = "IBTA 11.6.2; ibv_reg_mr(3)"},
};

static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC};

static struct access {
	const struct operation *op;
	const struct fault *fault;
	enum ibv_qp_type type;
} rows[COUNT(operations) * COUNT(faults) * COUNT(types)];

static bool applies(enum ibv_qp_type type, const struct operation *op, const struct fault *f)
{
	bool reads = op->opcode == IBV_WR_RDMA_READ || op->is_atomic;

	return !(type == IBV_QPT_UC && reads) && !(f->only_atomic && !op->is_atomic) &&
	       !(f->only_long && op->is_atomic) && !(f->only_reads && !reads);
}

static unsigned count_rows(void)
{
	unsigned n = 0;

	for (size_t t = 0; t < COUNT(types); t++)
		for (size_t o = 0; o < COUNT(operations); o++)
			for (size_t f = 0; f < COUNT(faults); f++)
				if (applies(types[t], &operations[o], &faults[f]))
					rows[n++] = (struct access){&operations[o], &faults[f], types[t]};
	return n;
}

/* The far end has done an atomic when its answer finds no place here; part of a long WRITE is placed before the region
 * ends. */
static bool may_touch(const struct access *a)
{
	const struct fault *f = a->fault;

	return f->empty || (f->is_local && a->op->is_atomic) || (f->length && a->op->right == IBV_ACCESS_REMOTE_WRITE);
}

static void access_rule(unsigned i, struct rule *r)
{
	const struct access *a = &rows[i];
	bool unseen = a->type == IBV_QPT_UC && !a->fault->is_local;

	snprintf(r->id, sizeof(r->id), "access/%s/%s-%s", type_name(a->type), a->op->name, a->fault->name);
	r->source = unseen ? "IBTA 9.8.2.2.3, 9.9.3 (class D: dropped)" : a->fault->source;
	snprintf(r->does, sizeof(r->does), "%s by %s with %s", a->op->name, type_name(a->type), a->fault->says);
	if (unseen)
		snprintf(r->expects, sizeof(r->expects), "success; the message is dropped, both ends stay in rts");
	else if (a->fault->status == IBV_WC_SUCCESS)
		snprintf(r->expects, sizeof(r->expects), "success");
	else
		snprintf(r->expects, sizeof(r->expects), "%s%s%s; the next is flushed%s", status_name(a->fault->status),
			 a->fault->also != a->fault->status ? " or " : "",
			 a->fault->also != a->fault->status ? status_name(a->fault->also) : "",
			 may_touch(a) ? "" : "; no byte is touched");
}

/* A region at `end`, without rights of `less`. Its key, which is not valid any more if it is `gone`. */
static uint32_t region(struct end *end, int less, bool gone, bool local)
{
	int access = ALL | (end->attr.atomic_cap != IBV_ATOMIC_NONE ? IBV_ACCESS_REMOTE_ATOMIC : 0);
	struct ibv_mr *mr;
	uint32_t lkey, rkey;

	access &= ~less;
	if (less & IBV_ACCESS_LOCAL_WRITE)
		access = IBV_ACCESS_REMOTE_READ;
	expect_errno("ibv_reg_mr", try_mr(end, REGION, LENGTH, access, &mr, &lkey, &rkey), 0);
	if (gone)
		expect_errno("ibv_dereg_mr", destroy(end, mr), 0);
	return local ? lkey : rkey;
}

static struct pair pair_without(const struct access *a)
{
	struct pair p = {make_qp(near, a->type), make_qp(far, a->type)};
	struct ibv_qp_attr attr = attributes(&p.b, &p.a);

	if (a->op->is_atomic && near->attr.atomic_cap == IBV_ATOMIC_NONE)
		lacking("atomics");
	connect_pair(&p);
	if (a->fault->no_qp_right) {
		attr.qp_access_flags &= ~(unsigned)a->op->right;
		expect_errno("ibv_modify_qp", modify(&p.b, &attr, IBV_QP_ACCESS_FLAGS), 0);
	}
	return p;
}

/* The request, and one behind it. */
static void post_both(struct pair *p, const struct access *a)
{
	const struct fault *f = a->fault;
	uint32_t length = f->empty ? 0 : a->op->is_atomic ? 8 : f->length ?: 64;
	uint32_t lkey = region(near, f->no_local_write ? IBV_ACCESS_LOCAL_WRITE : 0, f->key == KEY_LOCAL_GONE, true);
	uint32_t rkey = region(far, f->no_mr_right ? a->op->right : 0, f->key == KEY_GONE, false);
	int64_t at = f->from > 0 ? (int64_t)LENGTH + (f->length ? 0 : f->from - (int64_t)length) : f->from;
	struct ibv_sge sge = {.addr = near->arena + REGION,
			      .length = length,
			      .lkey = f->key == KEY_LOCAL_WRONG ? lkey ^ 0x5a5a5500
				      : f->is_local		? lkey
								: near->lkey};
	struct ibv_send_wr wr = {
		.wr_id = 1, .opcode = a->op->opcode, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1};
	uint64_t remote = far->arena + REGION;
	int error;

	if (f->length && f->from > 0)
		at = 0;
	if (f->from == 64)
		at = LENGTH;
	if (f->is_local && f->from)
		sge.addr += LENGTH - length + 1;
	else if (!f->is_local)
		remote += (uint64_t)at;
	if (f->key == KEY_WRONG)
		rkey ^= 0x5a5a5500;
	if (a->op->is_atomic) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = rkey;
	}
	error = post(&p->a, &wr);
	if (error && f->is_local)
		unusual("it is refused when it is posted: %s", errno_name(error));
	if (error)
		lacking("%s: %s", a->op->name, errno_name(error));
	wr = (struct ibv_send_wr){.wr_id = 2, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	error = post(&p->a, &wr);
	if (error)
		lacking("a second request: %s", errno_name(error));
}

static void expect_state(const char *end, struct qp *qp, enum ibv_qp_state expected)
{
	struct ibv_qp_attr attr;

	expect_errno("ibv_query_qp", query(qp, &attr), 0);
	if (attr.qp_state != expected)
		wrong("the %s queue pair is in %s, expected %s", end, state_name(attr.qp_state), state_name(expected));
}

static void check_access(unsigned i)
{
	const struct access *a = &rows[i];
	struct pair p = pair_without(a);
	bool unseen = a->type == IBV_QPT_UC && !a->fault->is_local;
	bool passes = unseen || a->fault->status == IBV_WC_SUCCESS;
	struct ibv_wc wc;

	fill(far, REGION - 64, LENGTH + 16384, 5);
	expect_errno("ibv_post_recv", post_receive(&p.b, 1, 0, 64), 0);
	expect_errno("ibv_post_recv", post_receive(&p.b, 2, 0, 64), 0);
	post_both(&p, a);
	wc = completion(near, p.a.scq);
	expect("wr_id of the first completion", (long)wc.wr_id, 1);
	if (wc.status != (passes ? IBV_WC_SUCCESS : a->fault->status) && (passes || wc.status != a->fault->also))
		wrong("%s", status_name(wc.status));
	wc = completion(near, p.a.scq);
	expect("wr_id of the second completion", (long)wc.wr_id, 2);
	expect("status of the second request", wc.status, passes ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR);
	if (!may_touch(a) && !has_pattern(far, REGION - 64, LENGTH + 16384, 5))
		wrong("bytes of the far end are changed");
	if (!passes && a->type == IBV_QPT_RC)
		expect_state("near", &p.a, IBV_QPS_ERR);
	if (unseen)
		expect_state("near", &p.a, IBV_QPS_RTS);
}

struct group access_group = {"access", .counted = count_rows, .rule = access_rule, .check = check_access};
