/* SPDX-License-Identifier: BSD-2-Clause */
/* Order of operations; lists of requests; extended completion queues and ibv_wr_*; threads and fork(). */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conform.h"
#include "states.h"

#define HERE  4096u
#define THERE 65536u
#define LONG  65536u

static void write_then_send(void)
{
	struct pair p = make_pair(IBV_QPT_RC);

	for (unsigned n = 1; n <= 40; n++) {
		fill(near, HERE, LONG, n);
		expect_errno("ibv_post_recv", post_receive(&p.b, n, 0, 64), 0);
		post_op(&p, n, IBV_WR_RDMA_WRITE, HERE, THERE, LONG, 0);
		post_op(&p, n, IBV_WR_SEND, 0, 0, 8, IBV_SEND_SIGNALED);
		expect_status(far, p.b.rcq, n, IBV_WC_SUCCESS);
		if (!has_pattern(far, THERE, LONG, n))
			wrong("round %u: the receive is complete, and the WRITE before it is not", n);
		expect_status(near, p.a.scq, n, IBV_WC_SUCCESS);
	}
}

static void write_then_imm(void)
{
	struct pair p = make_pair(IBV_QPT_RC);

	for (unsigned n = 1; n <= 40; n++) {
		fill(near, HERE, LONG, n);
		expect_errno("ibv_post_recv", post_receive(&p.b, n, 0, 64), 0);
		post_op(&p, n, IBV_WR_RDMA_WRITE, HERE, THERE, LONG - 8, 0);
		post_op(&p, n, IBV_WR_RDMA_WRITE_WITH_IMM, HERE + LONG - 8, THERE + LONG - 8, 8, IBV_SEND_SIGNALED);
		expect_status(far, p.b.rcq, n, IBV_WC_SUCCESS);
		if (!has_pattern(far, THERE, LONG, n))
			wrong("round %u: the immediate is here, and the bytes are not", n);
		expect_status(near, p.a.scq, n, IBV_WC_SUCCESS);
	}
}

static void write_then_write(void)
{
	struct pair p = make_pair(IBV_QPT_RC);

	fill(near, HERE, LONG, 1);
	fill(near, HERE + LONG, LONG, 2);
	for (uint64_t n = 1; n <= 20; n++) {
		post_op(&p, n, IBV_WR_RDMA_WRITE, HERE, THERE, LONG, 0);
		post_op(&p, n, IBV_WR_RDMA_WRITE, HERE + LONG, THERE, LONG, IBV_SEND_SIGNALED);
		expect_status(near, p.a.scq, n, IBV_WC_SUCCESS);
		if (!has_pattern(far, THERE, LONG, 2))
			wrong("bytes of the first WRITE are there after the second");
	}
}

static void write_then_read(void)
{
	struct pair p = make_pair(IBV_QPT_RC);

	for (unsigned n = 1; n <= 20; n++) {
		fill(near, HERE, 8192, n);
		post_op(&p, n, IBV_WR_RDMA_WRITE, HERE, THERE, 8192, 0);
		post_op(&p, n, IBV_WR_RDMA_READ, HERE + LONG, THERE, 8192, IBV_SEND_SIGNALED);
		expect_status(near, p.a.scq, n, IBV_WC_SUCCESS);
		if (!has_pattern(near, HERE + LONG, 8192, n))
			wrong("the READ has bytes of before the WRITE");
	}
}

static void atomic_then_read(void)
{
	struct pair p = make_pair(IBV_QPT_RC);
	uint64_t value = 0, seen;

	need_atomics();
	poke(far, THERE, 8, &value);
	for (uint64_t n = 1; n <= 20; n++) {
		post_op(&p, n, IBV_WR_ATOMIC_FETCH_AND_ADD, HERE, THERE, 8, 0);
		post_op(&p, n, IBV_WR_RDMA_READ, HERE + 64, THERE, 8, IBV_SEND_SIGNALED);
		expect_status(near, p.a.scq, n, IBV_WC_SUCCESS);
		peek(near, HERE + 64, 8, &seen);
		expect("the value that is read", (long)seen, (long)n);
	}
}

static void read_fence_send(void)
{
	struct pair p = make_pair(IBV_QPT_RC);

	fill(far, THERE, LONG, 4);
	for (unsigned n = 1; n <= 8; n++) {
		fill(near, HERE, LONG, 9);
		expect_errno("ibv_post_recv", post_receive(&p.b, n, 4 * THERE, LONG), 0);
		post_op(&p, n, IBV_WR_RDMA_READ, HERE, THERE, LONG, 0);
		post_op(&p, n, IBV_WR_SEND, HERE, 0, LONG, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
		expect_status(far, p.b.rcq, n, IBV_WC_SUCCESS);
		if (!has_pattern(far, 4 * THERE, LONG, 4))
			wrong("the SEND has bytes of before the READ");
		expect_status(near, p.a.scq, n, IBV_WC_SUCCESS);
	}
}

static void atomics_of_two(void)
{
	struct pair p = make_pair(IBV_QPT_RC), q = make_pair(IBV_QPT_RC);
	uint64_t value = 0;

	need_atomics();
	poke(far, THERE, 8, &value);
	for (uint64_t n = 1; n <= 50; n++) {
		post_op(&p, n, IBV_WR_ATOMIC_FETCH_AND_ADD, HERE, THERE, 8, IBV_SEND_SIGNALED);
		post_op(&q, n, IBV_WR_ATOMIC_FETCH_AND_ADD, HERE + 64, THERE, 8, IBV_SEND_SIGNALED);
		expect_status(near, p.a.scq, n, IBV_WC_SUCCESS);
		expect_status(near, q.a.scq, n, IBV_WC_SUCCESS);
	}
	peek(far, THERE, 8, &value);
	expect("the sum", (long)value, 100);
}

static void in_post_order(void)
{
	struct pair p = make_pair(IBV_QPT_RC);
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ,
						     IBV_WR_RDMA_WRITE};

	expect_errno("ibv_post_recv", post_receive(&p.b, 1, 4 * THERE, LONG), 0);
	for (uint64_t n = 0; n < COUNT(opcodes); n++)
		post_op(&p, n, opcodes[n], HERE, THERE, n & 1 ? 8 : LONG, IBV_SEND_SIGNALED);
	for (uint64_t n = 0; n < COUNT(opcodes); n++)
		expect_status(near, p.a.scq, n, IBV_WC_SUCCESS);
}

static void in_send_order(void)
{
	struct pair p = make_pair(IBV_QPT_RC);

	for (uint64_t n = 1; n <= 15; n++)
		expect_errno("ibv_post_recv", post_receive(&p.b, n, THERE, 16384), 0);
	for (uint32_t n = 1; n <= 15; n++)
		post_op(&p, n, IBV_WR_SEND, HERE, 0, n * 1000, IBV_SEND_SIGNALED);
	for (uint32_t n = 1; n <= 15; n++)
		expect("byte_len", (long)expect_status(far, p.b.rcq, n, IBV_WC_SUCCESS).byte_len, n * 1000);
}

static void many_reads(void)
{
	struct pair p = make_pair(IBV_QPT_RC);

	fill(far, THERE, 15 * 4096, 6);
	for (uint32_t n = 0; n < 15; n++)
		post_op(&p, n, IBV_WR_RDMA_READ, HERE + n * 4096, THERE + n * 4096, 4096, IBV_SEND_SIGNALED);
	for (uint32_t n = 0; n < 15; n++)
		expect_status(near, p.a.scq, n, IBV_WC_SUCCESS);
	if (!has_pattern(near, HERE, 15 * 4096, 6))
		wrong("other bytes arrive");
}

static void bad_in_list(void)
{
	struct pair p = make_pair(IBV_QPT_RC);
	struct ibv_sge sge = near_at(HERE, 8), sges[CALL_SGES + 1];
	struct ibv_send_wr wr[3] = {0}, *bad = NULL;
	struct ibv_wc wc;

	for (int i = 0; i < 3; i++) {
		wr[i] = (struct ibv_send_wr){.wr_id = (uint64_t)i,
					     .next = i < 2 ? &wr[i + 1] : NULL,
					     .opcode = IBV_WR_RDMA_WRITE,
					     .send_flags = IBV_SEND_SIGNALED,
					     .sg_list = &sge,
					     .num_sge = 1};
		wr[i].wr.rdma.remote_addr = far->arena + THERE;
		wr[i].wr.rdma.rkey = far->rkey;
	}
	for (int i = 0; i <= CALL_SGES; i++)
		sges[i] = near_at(HERE, 1);
	wr[1].sg_list = sges;
	wr[1].num_sge = (int)p.a.cap.max_send_sge + 1;
	if (wr[1].num_sge > CALL_SGES + 1)
		lacking("fewer than %d SGEs", CALL_SGES);
	if (!ibv_post_send(p.a.ptr, wr, &bad))
		wrong("more SGEs than granted are taken");
	expect("bad_wr", (long)(bad - wr), 1);
	expect_status(near, p.a.scq, 0, IBV_WC_SUCCESS);
	if (poll_cq(near, p.a.scq, 5, &wc))
		wrong("a request behind the refused one is done");
}

/* A near CQ with the extended functions, and a pair. */
static struct pair make_extended(struct ibv_cq_init_attr_ex *init, struct ibv_cq_ex **cq, uint64_t ops)
{
	struct ibv_qp_init_attr_ex ex = {.qp_type = IBV_QPT_RC,
					 .comp_mask =
						 IBV_QP_INIT_ATTR_PD | (ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0u),
					 .pd = near->pd,
					 .send_ops_flags = ops,
					 .cap = small_qp(near, IBV_QPT_RC).cap};
	static uint32_t psn = 77;
	struct pair p = {.b = make_qp(far, IBV_QPT_RC)};
	struct ibv_qp *qp;

	*cq = ibv_create_cq_ex(end_context(near), init);
	if (!*cq)
		lacking("ibv_create_cq_ex: %s", errno_name(errno));
	KEEP(near, ibv_cq_ex_to_cq(*cq), ibv_destroy_cq);
	ex.send_cq = ex.recv_cq = ibv_cq_ex_to_cq(*cq);
	ex.cap.max_inline_data = ops ? 16 : 0;
	qp = ibv_create_qp_ex(end_context(near), &ex);
	if (!qp)
		lacking("ibv_create_qp_ex: %s", errno_name(errno));
	KEEP(near, qp, ibv_destroy_qp);
	p.a = (struct qp){.end = near,
			  .ptr = qp,
			  .type = IBV_QPT_RC,
			  .num = qp->qp_num,
			  .psn = psn++,
			  .scq = ex.send_cq,
			  .rcq = ex.recv_cq};
	connect_pair(&p);
	return p;
}

static int start_poll(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = {0};
	uint64_t until = now() + 5000000000ull;
	int error;

	do
		error = ibv_start_poll(cq, &attr);
	while (error == ENOENT && now() < until);
	return error;
}

static void extended_poll(void)
{
	struct ibv_cq_init_attr_ex init = {.cqe = 32, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM};
	struct ibv_cq_ex *cq;
	struct pair p = make_extended(&init, &cq, 0);
	int error;

	post_op(&p, 5, IBV_WR_RDMA_READ, HERE, THERE, 48, IBV_SEND_SIGNALED);
	post_op(&p, 6, IBV_WR_RDMA_WRITE, HERE, THERE, 48, IBV_SEND_SIGNALED);
	expect_errno("ibv_start_poll", start_poll(cq), 0);
	expect("wr_id", (long)cq->wr_id, 5);
	expect("status", cq->status, IBV_WC_SUCCESS);
	expect("opcode", ibv_wc_read_opcode(cq), IBV_WC_RDMA_READ);
	expect("byte_len", (long)ibv_wc_read_byte_len(cq), 48);
	expect("qp_num", (long)ibv_wc_read_qp_num(cq), (long)p.a.num);
	for (uint64_t until = now() + 5000000000ull; (error = ibv_next_poll(cq)) == ENOENT && now() < until;)
		;
	expect_errno("ibv_next_poll", error, 0);
	expect("wr_id", (long)cq->wr_id, 6);
	expect_errno("ibv_next_poll", ibv_next_poll(cq), ENOENT);
	ibv_end_poll(cq);
	expect_errno("ibv_start_poll", ibv_start_poll(cq, &(struct ibv_poll_cq_attr){0}), ENOENT);
}

static void extended_comp_mask(void)
{
	struct ibv_cq_init_attr_ex init = {.cqe = 32};
	struct ibv_poll_cq_attr attr = {.comp_mask = 1u << 20};
	struct ibv_cq_ex *cq;
	int error;

	make_extended(&init, &cq, 0);
	error = ibv_start_poll(cq, &attr);
	if (error == ENOENT)
		unusual("ENOENT: it is not looked at");
	expect_errno("ibv_start_poll", error, EINVAL);
}

static void extended_unknown(void)
{
	struct ibv_cq_init_attr_ex init = {.cqe = 32, .wc_flags = 1ull << 40};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(end_context(near), &init);

	if (cq) {
		ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
		wrong("wc_flags that there are not are taken");
	}
	if (errno != EOPNOTSUPP && errno != EINVAL && errno != ENOSYS)
		wrong("%s", errno_name(errno));
}

static void extended_time(void)
{
	struct ibv_cq_init_attr_ex init = {.cqe = 32, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
	struct ibv_cq_ex *cq;
	struct pair p = make_extended(&init, &cq, 0);
	uint64_t before = 0;

	for (uint64_t n = 1; n <= 4; n++) {
		post_op(&p, n, IBV_WR_RDMA_WRITE, HERE, THERE, 48, IBV_SEND_SIGNALED);
		expect_errno("ibv_start_poll", start_poll(cq), 0);
		if (ibv_wc_read_completion_ts(cq) < before)
			wrong("time goes back");
		before = ibv_wc_read_completion_ts(cq);
		ibv_end_poll(cq);
	}
}

#define OPS                                                                                     \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ)

static struct pair make_builder(struct ibv_qp_ex **qx)
{
	struct ibv_cq_init_attr_ex init = {.cqe = 32};
	struct ibv_cq_ex *cq;
	struct pair p = make_extended(&init, &cq, OPS);

	*qx = ibv_qp_to_qp_ex(p.a.ptr);
	if (!*qx)
		wrong("ibv_qp_to_qp_ex() returns NULL");
	return p;
}

static void builder_batch(void)
{
	struct ibv_qp_ex *qx;
	struct pair p = make_builder(&qx);
	struct ibv_wc wc;

	fill(near, HERE, 64, 3);
	expect_errno("ibv_post_recv", post_receive(&p.b, 1, THERE, 64), 0);
	expect_errno("ibv_post_recv", post_receive(&p.b, 2, THERE, 64), 0);
	ibv_wr_start(qx);
	qx->wr_id = 1;
	qx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qx, far->rkey, far->arena + 4 * THERE);
	ibv_wr_set_sge(qx, near->lkey, near->arena + HERE, 64);
	qx->wr_id = 2;
	ibv_wr_send_imm(qx, htonl(99));
	ibv_wr_set_inline_data(qx, "0123456789abcdef", 16);
	qx->wr_id = 3;
	ibv_wr_rdma_write_imm(qx, far->rkey, far->arena + THERE, htonl(98));
	ibv_wr_set_sge(qx, near->lkey, near->arena + HERE, 8);
	qx->wr_id = 4;
	ibv_wr_rdma_read(qx, far->rkey, far->arena + 4 * THERE);
	ibv_wr_set_sge(qx, near->lkey, near->arena + HERE + 4096, 64);
	expect_errno("ibv_wr_complete", ibv_wr_complete(qx), 0);
	for (uint64_t n = 1; n <= 4; n++)
		expect_status(near, p.a.scq, n, IBV_WC_SUCCESS);
	wc = expect_status(far, p.b.rcq, 1, IBV_WC_SUCCESS);
	expect("imm_data", (long)ntohl(wc.imm_data), 99);
	expect("byte_len", (long)wc.byte_len, 16);
	wc = expect_status(far, p.b.rcq, 2, IBV_WC_SUCCESS);
	expect("imm_data", (long)ntohl(wc.imm_data), 98);
	if (!has_pattern(near, HERE + 4096, 64, 3))
		wrong("the READ has other bytes than the WRITE");
}

static void builder_abort(void)
{
	struct ibv_qp_ex *qx;
	struct pair p = make_builder(&qx);
	struct ibv_wc wc;

	ibv_wr_start(qx);
	qx->wr_id = 1;
	qx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qx, far->rkey, far->arena + THERE);
	ibv_wr_set_sge(qx, near->lkey, near->arena + HERE, 64);
	ibv_wr_abort(qx);
	if (poll_cq(near, p.a.scq, 5, &wc))
		wrong("a request that was aborted has a completion");
	post_op(&p, 2, IBV_WR_RDMA_WRITE, HERE, THERE, 8, IBV_SEND_SIGNALED);
	expect_status(near, p.a.scq, 2, IBV_WC_SUCCESS);
}

static void builder_full(void)
{
	struct ibv_qp_ex *qx;
	struct pair p = make_builder(&qx);
	int error;

	ibv_wr_start(qx);
	for (int i = 0; i < 3000; i++) {
		qx->wr_id = (uint64_t)i;
		qx->wr_flags = 0;
		ibv_wr_rdma_write(qx, far->rkey, far->arena + THERE);
		ibv_wr_set_sge(qx, near->lkey, near->arena + HERE, 8);
	}
	error = ibv_wr_complete(qx);
	if (error == ENOSPC)
		unusual("ENOSPC");
	expect_errno("ibv_wr_complete", error, ENOMEM);
	post_op(&p, 2, IBV_WR_RDMA_WRITE, HERE, THERE, 8, IBV_SEND_SIGNALED);
	expect_status(near, p.a.scq, 2, IBV_WC_SUCCESS);
}

/* Threads that poll one CQ. */
#define POLLED 2000
static struct polled {
	struct ibv_cq *cq;
	_Atomic int seen[POLLED], total;
	_Atomic bool stop;
} polled;

static void *poll_thread(void *unused)
{
	struct ibv_wc wc[4];

	while (!polled.stop) {
		int n = ibv_poll_cq(polled.cq, 4, wc);

		for (int i = 0; i < n; i++) {
			polled.seen[wc[i].wr_id]++;
			polled.total++;
		}
	}
	return NULL;
}

static void threads_poll(void)
{
	struct pair p = make_pair(IBV_QPT_RC);
	pthread_t threads[4];
	uint64_t until = now() + (uint64_t)options.seconds * 500000000;

	memset(&polled, 0, sizeof(polled));
	polled.cq = p.a.scq;
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, poll_thread, NULL);
	for (int i = 0; i < POLLED && now() < until;) {
		if (i - polled.total < 12)
			post_op(&p, (uint64_t)i++, IBV_WR_RDMA_WRITE, HERE, THERE, 8, IBV_SEND_SIGNALED);
		else
			sched_yield();
	}
	while (polled.total < POLLED && now() < until)
		usleep(100);
	polled.stop = true;
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	expect("completions", polled.total, POLLED);
	for (int i = 0; i < POLLED; i++)
		if (polled.seen[i] != 1)
			wrong("completion %d is polled %d times", i, polled.seen[i]);
}

static void forked(void)
{
	struct pair p = make_pair(IBV_QPT_RC);
	pid_t child;
	int status;

	fill(near, HERE, LONG, 1);
	fflush(stdout);
	child = fork();
	if (!child)
		_exit(7);
	fill(near, HERE, LONG, 2); /* copied on write, if the child still has it */
	post_op(&p, 1, IBV_WR_RDMA_WRITE, HERE, THERE, LONG, IBV_SEND_SIGNALED);
	expect_status(near, p.a.scq, 1, IBV_WC_SUCCESS);
	if (!has_pattern(far, THERE, LONG, 2))
		wrong("bytes of before fork() are sent");
	if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7)
		wrong("the child did not end by _exit()");
	post_op(&p, 2, IBV_WR_RDMA_WRITE, HERE, THERE, LONG, IBV_SEND_SIGNALED);
	expect_status(near, p.a.scq, 2, IBV_WC_SUCCESS);
}

static const struct row rows[] = {
	{"rc/write-send", "IBTA 9.5: a SEND's completion follows earlier WRITEs",
	 "40 times a WRITE of 64 KiB, then a SEND", "the bytes are there when the receive completes", write_then_send},
	{"rc/write-imm", "IBTA 9.5", "40 times a WRITE of 64 KiB less 8, then 8 with immediate",
	 "the bytes are there when the receive completes", write_then_imm},
	{"rc/write-write", "IBTA 9.5, table 79", "20 times two WRITEs to one place", "the second's bytes",
	 write_then_write},
	{"rc/write-read", "IBTA table 79: READ after WRITE", "20 times a WRITE, then a READ of it",
	 "the READ has its bytes", write_then_read},
	{"rc/atomic-read", "IBTA table 79: READ after atomic", "20 times fetch-add, then a READ",
	 "the READ has its sum", atomic_then_read},
	{"rc/read-fence-send", "IBTA 10.8.3.3; ibv_post_send(3): IBV_SEND_FENCE",
	 "a READ of 64 KiB, then a fenced SEND from there", "the SEND has the READ's bytes", read_fence_send},
	{"rc/atomics-of-two", "IBTA 9.4.5: atomic between queue pairs of one adapter",
	 "50 fetch-adds by each of two queue pairs", "100", atomics_of_two},
	{"rc/completions", "IBTA 10.8.3.1", "READs, WRITEs and a SEND, long and short",
	 "completions in the order of the posts", in_post_order},
	{"rc/receives", "IBTA 9.5", "15 SENDs of growing length", "received in order", in_send_order},
	{"rc/many-reads", "IBTA 9.7.3: max_rd_atomic", "15 READs with max_rd_atomic 4 at most", "success, each byte",
	 many_reads},
	{"list/bad", "ibv_post_send(3): bad_wr", "a list whose second request is refused",
	 "the first is done, bad_wr is the second", bad_in_list},
	{"extended/poll", "ibv_create_cq_ex(3)", "two completions by ibv_start_poll() and ibv_next_poll()",
	 "their fields; then ENOENT", extended_poll},
	{"extended/comp-mask", "ibv_create_cq_ex(3); provider libraries: EINVAL", "ibv_start_poll() with a comp_mask",
	 "EINVAL", extended_comp_mask},
	{"extended/unknown", "ibv_create_cq_ex(3)", "wc_flags that there are not", "EOPNOTSUPP or EINVAL",
	 extended_unknown},
	{"extended/time", "ibv_create_cq_ex(3)", "completion timestamps of 4 WRITEs", "they do not go back",
	 extended_time},
	{"builder/batch", "ibv_wr_post(3)",
	 "WRITE, SEND with immediate and inline data, WRITE with immediate, READ in one batch",
	 "4 completions in order, and what they bring", builder_batch},
	{"builder/abort", "ibv_wr_post(3)", "ibv_wr_abort() of a WRITE", "no completion; the next request works",
	 builder_abort},
	{"builder/full", "ibv_wr_post(3): ENOMEM", "a batch of 3000 requests in a queue of 16",
	 "ENOMEM; the next request works", builder_full},
	{"process/threads", "ibv_poll_cq(3): thread-safe", "4 threads poll a CQ, one posts 2000 WRITEs",
	 "each completion once", threads_poll},
	{"process/fork", "ibv_fork_init(3); Linux: copy for the child", "fork(), change a registered buffer, WRITE it",
	 "the parent's bytes, during the child and after it", forked},
	{0},
};

struct group order_group = {"order", .rows = rows};

/* Each of them often, for what is wrong once in a while. */
#define OFTEN 100

static unsigned count_soak(void)
{
	return COUNT(rows) - 1;
}

static void soak_rule(unsigned i, struct rule *r)
{
	snprintf(r->id, sizeof(r->id), "soak/%s", rows[i].id);
	r->source = rows[i].source;
	snprintf(r->does, sizeof(r->does), "%d times: %s", OFTEN, rows[i].does);
	snprintf(r->expects, sizeof(r->expects), "%s", rows[i].expects);
}

static void check_soak(unsigned i)
{
	for (int n = 0; n < OFTEN; n++) {
		rows[i].check();
		end_reset(near);
		end_reset(far);
	}
}

struct group soak_group = {"soak", .counted = count_soak, .rule = soak_rule, .check = check_soak, .is_long = true};
