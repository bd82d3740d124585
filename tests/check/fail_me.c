// SPDX-License-Identifier: BSD-2-Clause
/* fail_me CASE: lets one call or request fail. Without arguments it lists the cases: the name, the code of the cause
 * that uroce must tell on standard error, and words of that message. Plain libibverbs. */
#include "pair.h"

#include <sys/mman.h>

#define INIT (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)

static int try_post(struct pair *p, enum ibv_wr_opcode opcode, int sges, uint32_t length, unsigned flags)
{
	struct ibv_sge sge[8];
	struct ibv_send_wr wr = {.opcode = opcode, .sg_list = sge, .num_sge = sges, .send_flags = flags}, *bad;

	for (int i = 0; i < sges; i++)
		sge[i] = piece(&p->a, 0, length);
	wr.wr.rdma.remote_addr = (uintptr_t)p->b.memory;
	wr.wr.rdma.rkey = p->b.mr->rkey;
	return ibv_post_send(p->a.qp, &wr, &bad);
}

/* ---- calls ---- */

static void full_send_queue(struct pair *p)
{
	for (int i = 0; i < DEPTH; i++)
		ZERO(try_post(p, IBV_WR_RDMA_WRITE, 1, 8, 0));
	MUST(try_post(p, IBV_WR_RDMA_WRITE, 1, 8, 0) == ENOMEM);
}

static void many_sges(struct pair *p)
{
	MUST(try_post(p, IBV_WR_SEND, 3, 8, 0) == EINVAL);
}

static void long_inline(struct pair *p)
{
	MUST(try_post(p, IBV_WR_SEND, 1, 999, IBV_SEND_INLINE) == EINVAL);
}

static void inline_read(struct pair *p)
{
	MUST(try_post(p, IBV_WR_RDMA_READ, 1, 8, IBV_SEND_INLINE) == EINVAL);
}

static void full_receive_queue(struct pair *p)
{
	struct ibv_sge sge = piece(&p->b, 0, 8);
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	for (int i = 0; i < DEPTH; i++)
		receive(&p->b, sge);
	MUST(ibv_post_recv(p->b.qp, &wr, &bad) == ENOMEM);
}

static void reset(struct pair *p)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	ZERO(ibv_modify_qp(p->a.qp, &attr, IBV_QP_STATE));
}

static void send_in_reset(struct pair *p)
{
	reset(p);
	MUST(try_post(p, IBV_WR_SEND, 1, 8, 0) == EINVAL);
}

static void straight_to_rts(struct pair *p)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};

	reset(p);
	MUST(ibv_modify_qp(p->a.qp, &attr, IBV_QP_STATE) == EINVAL);
}

static void no_access_flags(struct pair *p)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	reset(p);
	MUST(ibv_modify_qp(p->a.qp, &attr, INIT & ~IBV_QP_ACCESS_FLAGS) == EINVAL);
}

static void port_two(struct pair *p)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 2};

	reset(p);
	MUST(ibv_modify_qp(p->a.qp, &attr, INIT) == EINVAL);
}

static void huge_queue(struct pair *p)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = p->a.cq, .recv_cq = p->a.cq, .qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 1 << 30}};

	MUST(!ibv_create_qp(p->pd, &attr));
}

static void no_cq(struct pair *p)
{
	struct ibv_qp_init_attr attr = {.send_cq = p->a.cq, .qp_type = IBV_QPT_RC};

	MUST(!ibv_create_qp(p->pd, &attr));
}

static void remote_write_alone(struct pair *p)
{
	MUST(!ibv_reg_mr(p->pd, p->a.memory, SIZE, IBV_ACCESS_REMOTE_WRITE));
}

static void nothing_mapped(struct pair *p)
{
	void *at = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	MUST(at != MAP_FAILED);
	ZERO(munmap(at, SIZE));
	MUST(!ibv_reg_mr(p->pd, at, SIZE, 0));
}

/* ---- requests ---- */

static void deregistered(struct pair *p)
{
	uint32_t rkey = p->b.mr->rkey;

	ZERO(ibv_dereg_mr(p->b.mr));
	p->b.mr = &(struct ibv_mr){.rkey = rkey};
	post(&p->a, IBV_WR_RDMA_WRITE, piece(&p->a, 0, 8), &p->b, IBV_SEND_SIGNALED);
	MUST(await(&p->a).status == IBV_WC_REM_ACCESS_ERR);
	p->b.mr = NULL;
}

static void own_deregistered(struct pair *p)
{
	struct ibv_sge sge = piece(&p->a, 0, 8);

	ZERO(ibv_dereg_mr(p->a.mr));
	post(&p->a, IBV_WR_SEND, sge, &p->b, IBV_SEND_SIGNALED);
	MUST(await(&p->a).status == IBV_WC_LOC_PROT_ERR);
	p->a.mr = NULL;
}

static void beyond(struct pair *p)
{
	p->b.memory += 8;
	post(&p->a, IBV_WR_RDMA_WRITE, piece(&p->a, 0, SIZE), &p->b, IBV_SEND_SIGNALED);
	MUST(await(&p->a).status == IBV_WC_REM_ACCESS_ERR);
	p->b.memory -= 8;
}

static void short_receive(struct pair *p)
{
	receive(&p->b, piece(&p->b, 0, 99));
	post(&p->a, IBV_WR_SEND, piece(&p->a, 0, 100), &p->b, IBV_SEND_SIGNALED);
	MUST(await(&p->a).status == IBV_WC_REM_INV_REQ_ERR);
	MUST(await(&p->b).vendor_err == 0x201);
}

/* What is flushed names the failure before it. */
static void flushed(struct pair *p)
{
	short_receive(p);
	post(&p->a, IBV_WR_SEND, piece(&p->a, 0, 100), &p->b, IBV_SEND_SIGNALED);
	MUST(await(&p->a).vendor_err == 0x1124);
}

static const struct row {
	const char *name;
	void (*run)(struct pair *p);
	unsigned cause;
	const char *words;
} rows[] = {
	{"full_send_queue", full_send_queue, 0x401, "of 8 (max_send_wr), 0 are not complete, and 8 are"},
	{"many_sges", many_sges, 0x404, "a SEND of 3 SGEs, more than max_send_sge 2"},
	{"long_inline", long_inline, 0x405, "999 bytes of inline data, more than max_inline_data 64"},
	{"inline_read", inline_read, 0x406, "a READ cannot be inline"},
	{"full_receive_queue", full_receive_queue, 0x411, "of 8, 8 wait for a message"},
	{"send_in_reset", send_in_reset, 0x402, "is in RESET"},
	{"straight_to_rts", straight_to_rts, 0x421, "cannot go from RESET to RTS"},
	{"no_access_flags", no_access_flags, 0x422, "from RESET to INIT: attr_mask lacks IBV_QP_ACCESS_FLAGS"},
	{"port_two", port_two, 0x424, "no port_num of 2"},
	{"huge_queue", huge_queue, 0x431, "max_send_wr is 1073741824, at most"},
	{"no_cq", no_cq, 0x432, "the recv_cq is NULL"},
	{"remote_write_alone", remote_write_alone, 0x441, "lack LOCAL_WRITE"},
	{"nothing_mapped", nothing_mapped, 0x442, "is not mapped"},
	{"deregistered", deregistered, 0x212, "was deregistered 0."},
	{"own_deregistered", own_deregistered, 0x112, "SEND of 8 bytes, wr_id 0x1, failed: the region of the key"},
	{"beyond", beyond, 0x214, "is not inside"},
	{"short_receive", short_receive, 0x201, "with wr_id 0x64 has 99 bytes, the message at least 100"},
	{"flushed", flushed, 0x124, "refused it"},
};

int main(int argc, char **argv)
{
	struct pair p;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (argc < 2) {
			printf("%s\t0x%x\t%s\n", rows[i].name, rows[i].cause, rows[i].words);
		} else if (!strcmp(argv[1], rows[i].name)) {
			pair_open(&p, (struct want){0});
			rows[i].run(&p);
			pair_close(&p);
			return 0;
		}
	return argc < 2 ? 0 : 2;
}
