/* SPDX-License-Identifier: BSD-2-Clause */
/* Two processes on one host and memory of a GPU: each operation between memory of GPU and host at either end, with its
 * contents; gpu_two bandwidth: beside the copies of the GPU's driver. The child is the passive end, and does what the
 * parent tells it by a socket. */
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include <infiniband/verbs.h>

#include "vendor.h"

#define MIB	  (1u << 20)
#define MOST	  (64u * MIB) /* with `bandwidth` */
#define DEPTH	  64
#define ARRAY(x)  (int)(sizeof(x) / sizeof(x[0]))
#define OF(kinds) (kinds ? "GPU" : "host")

enum kind { HOST, GPU };

/* What an end has, and tells the other. */
struct end {
	uint32_t qpn;
	union ibv_gid gid;
	struct {
		uint64_t at;
		uint32_t rkey;
	} memory[2]; /* by enum kind */
};

/* What the parent tells the child. */
struct order {
	enum { PUT, HOLDS, RECEIVE, WAIT, FREE, END } what;
	enum kind kind;
	uint64_t offset;
	uint32_t length, seed;
};

static const struct gpu *gpu;
static uint32_t size = 4 * MIB + 4096; /* of the memory of each kind */
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr[2];
static struct end here, there;
static int other; /* the socket */
static unsigned char *bytes;

/* ---- memory ---- */

static void pattern(uint32_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		bytes[i] = (unsigned char)((i * 2654435761u >> 13) + seed);
}

/* To and from memory that adapters access, which the peer has told through the socket: unknown to ThreadSanitizer. */
__attribute__((no_sanitize_thread, noinline)) static void copy_shared(volatile unsigned char *to,
								      const volatile unsigned char *from, size_t length)
{
	for (size_t i = 0; i < length; i++)
		to[i] = from[i];
}

static void put(enum kind kind, uint64_t offset, uint32_t length, unsigned seed)
{
	pattern(length, seed);
	if (kind == GPU)
		MUST(!gpu->put(here.memory[GPU].at + offset, bytes, length));
	else
		copy_shared((unsigned char *)(uintptr_t)here.memory[HOST].at + offset, bytes, length);
}

static bool holds(enum kind kind, uint64_t offset, uint32_t length, unsigned seed)
{
	unsigned char *seen = malloc(length);
	bool same;

	MUST(seen);
	if (kind == GPU)
		MUST(!gpu->get(seen, here.memory[GPU].at + offset, length));
	else
		copy_shared(seen, (unsigned char *)(uintptr_t)here.memory[HOST].at + offset, length);
	pattern(length, seed);
	same = !memcmp(seen, bytes, length);
	free(seen);
	return same;
}

/* ---- verbs ---- */

static void exchange(void)
{
	MUST(write(other, &here, sizeof(here)) == sizeof(here));
	MUST(recv(other, &there, sizeof(there), MSG_WAITALL) == sizeof(there));
}

static void connect_to_other(void)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
				.port_num = 1,
				.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};

	MUST(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_4096,
		.dest_qp_num = there.qpn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = there.gid, .hop_limit = 64}}};
	MUST(!ibv_modify_qp(qp, &a,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4};
	MUST(!ibv_modify_qp(qp, &a,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				    IBV_QP_MAX_QP_RD_ATOMIC));
}

static void set_up(void)
{
	int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	struct ibv_device **list;
	struct ibv_context *context;
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 2, .max_recv_sge = 2}};

	MUST(!gpu->begin());
	MUST((list = ibv_get_device_list(NULL)) && list[0] && (context = ibv_open_device(list[0])));
	MUST((pd = ibv_alloc_pd(context)) && (cq = ibv_create_cq(context, 2 * DEPTH, NULL, NULL, 0)));
	init.send_cq = init.recv_cq = cq;
	MUST(qp = ibv_create_qp(pd, &init));
	MUST(bytes = malloc(size));
	MUST(!gpu->alloc(&here.memory[GPU].at, size));
	here.memory[HOST].at = (uintptr_t)aligned_alloc(4096, size);
	for (int kind = HOST; kind <= GPU; kind++) {
		MUST(mr[kind] = ibv_reg_mr(pd, (void *)(uintptr_t)here.memory[kind].at, size, rights));
		here.memory[kind].rkey = mr[kind]->rkey;
	}
	MUST(!ibv_query_gid(context, 1, 0, &here.gid));
	here.qpn = qp->qp_num;
	exchange();
	connect_to_other();
	exchange(); /* both are connected */
}

static void completes(void)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		;
	if (wc.status)
		printf("# %s\n", ibv_wc_status_str(wc.status));
	MUST(n == 1 && !wc.status);
}

/* ---- the child ---- */

static void post_receive(enum kind kind, uint32_t length)
{
	struct ibv_sge sge = {here.memory[kind].at, length, mr[kind]->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	MUST(!ibv_post_recv(qp, &wr, &bad));
}

static bool obey(const struct order *o)
{
	switch (o->what) {
	case PUT:
		put(o->kind, o->offset, o->length, o->seed);
		return true;
	case HOLDS:
		return holds(o->kind, o->offset, o->length, o->seed);
	case RECEIVE:
		post_receive(o->kind, o->length);
		return true;
	case WAIT:
		completes();
		return true;
	case FREE:
		return !ibv_dereg_mr(mr[GPU]) && !gpu->free(here.memory[GPU].at);
	case END:
		return true;
	}
	return false;
}

static void be_passive(void)
{
	struct order o;

	do {
		bool done;

		MUST(recv(other, &o, sizeof(o), MSG_WAITALL) == sizeof(o));
		done = obey(&o);
		MUST(write(other, &done, sizeof(done)) == sizeof(done));
	} while (o.what != END);
}

/* ---- the parent ---- */

static bool tell(struct order o)
{
	bool done;

	MUST(write(other, &o, sizeof(o)) == sizeof(o));
	MUST(recv(other, &done, sizeof(done), MSG_WAITALL) == sizeof(done));
	return done;
}

static void post(enum ibv_wr_opcode opcode, enum kind from, enum kind to, uint64_t offset, uint32_t length)
{
	struct ibv_sge sge = {here.memory[from].at + offset, length, mr[from]->lkey};
	struct ibv_send_wr wr = {.opcode = opcode,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {there.memory[to].at + offset, there.memory[to].rkey}},
			   *bad;

	MUST(!ibv_post_send(qp, &wr, &bad));
}

/* Each writes the bytes of one end to the other, with other contents each time. */
static bool run_write(enum kind from, enum kind to, uint32_t length, unsigned seed)
{
	put(from, 3, length, seed);
	post(IBV_WR_RDMA_WRITE, from, to, 3, length);
	completes();
	return tell((struct order){HOLDS, to, 3, length, seed});
}

static bool run_read(enum kind to, enum kind from, uint32_t length, unsigned seed)
{
	tell((struct order){PUT, from, 3, length, seed});
	post(IBV_WR_RDMA_READ, to, from, 3, length);
	completes();
	return holds(to, 3, length, seed);
}

static bool run_send(enum kind from, enum kind to, uint32_t length, unsigned seed)
{
	put(from, 0, length, seed);
	tell((struct order){RECEIVE, to, .length = size});
	post(IBV_WR_SEND, from, to, 0, length);
	completes();
	return tell((struct order){WAIT}) && tell((struct order){HOLDS, to, 0, length, seed});
}

static bool run_write_imm(enum kind from, enum kind to, uint32_t length, unsigned seed)
{
	put(from, 0, length, seed);
	tell((struct order){RECEIVE, HOST, .length = 0});
	post(IBV_WR_RDMA_WRITE_WITH_IMM, from, to, 0, length);
	completes();
	return tell((struct order){WAIT}) && tell((struct order){HOLDS, to, 0, length, seed});
}

/* A WRITE of two pieces, of host and GPU. */
static bool run_mixed(enum kind first, enum kind to, uint32_t length, unsigned seed)
{
	uint32_t half = length / 2;
	struct ibv_sge sge[2] = {{here.memory[first].at, half, mr[first]->lkey},
				 {here.memory[!first].at, length - half, mr[!first]->lkey}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
				 .sg_list = sge,
				 .num_sge = 2,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {there.memory[to].at, there.memory[to].rkey}},
			   *bad;

	put(first, 0, half, seed);
	put(!first, 0, length - half, seed + 1);
	MUST(!ibv_post_send(qp, &wr, &bad));
	completes();
	return tell((struct order){HOLDS, to, 0, half, seed}) &&
	       tell((struct order){HOLDS, to, half, length - half, seed + 1});
}

static const struct {
	const char *name;
	bool (*run)(enum kind here, enum kind there, uint32_t length, unsigned seed);
} operations[] = {
	{"WRITE", run_write},
	{"READ", run_read},
	{"SEND", run_send},
	{"WRITE with immediate", run_write_imm},
	{"WRITE of host and GPU", run_mixed},
};

static int check_all(void)
{
	static const uint32_t lengths[] = {1, 8, 1000, 70001, MIB + 3, 4 * MIB};
	int failed = 0, n = 0;

	for (int i = 0; i < ARRAY(operations); i++)
		for (int kinds = 0; kinds < 4; kinds++) {
			enum kind mine = kinds & 1, its = kinds >> 1;
			bool ok = true;

			for (int k = 0; k < ARRAY(lengths); k++)
				ok = ok && operations[i].run(mine, its, lengths[k], (unsigned)(n + k));
			printf("%sok %d - %s, %s here, %s there\n", ok ? "" : "not ", ++n, operations[i].name, OF(mine),
			       OF(its));
			failed |= !ok;
		}
	/* the child may free what this process has opened; then it is another place that is written to */
	if (!tell((struct order){FREE}) || !run_write(GPU, HOST, 5000, 77))
		failed = 1;
	printf("%sok %d - memory of the GPU is deregistered and freed\n", failed ? "not " : "", ++n);
	printf("1..%d\n", n);
	return failed;
}

/* ---- bandwidth ---- */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int compare(const void *a, const void *b)
{
	return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

/* Seconds for one copy by the driver, waited for. */
static double drivers(enum kind from, enum kind to, uint32_t length, int count)
{
	uint64_t half = size / 2;
	void *host = (void *)(uintptr_t)here.memory[HOST].at;
	double begin = now();

	for (int i = 0; i < count; i++) {
		if (from == GPU && to == GPU)
			MUST(!CALL("cuMemcpyDtoD_v2", here.memory[GPU].at + half, here.memory[GPU].at,
				   (size_t)length) &&
			     !CALL("cuCtxSynchronize"));
		else if (from == GPU)
			MUST(!gpu->get(host, here.memory[GPU].at, length));
		else
			MUST(!gpu->put(here.memory[GPU].at, host, length));
	}
	return (now() - begin) / count;
}

static double operation(enum ibv_wr_opcode opcode, enum kind mine, enum kind its, uint32_t length, int count)
{
	double begin;

	if (opcode == IBV_WR_SEND)
		for (int i = 0; i < count; i++)
			tell((struct order){RECEIVE, its, .length = length});
	begin = now();
	for (int i = 0; i < count; i++) {
		post(opcode, mine, its, 0, length);
		completes();
	}
	begin = (now() - begin) / count;
	if (opcode == IBV_WR_SEND)
		for (int i = 0; i < count; i++)
			tell((struct order){WAIT});
	return begin;
}

static void measure(const char *name, enum ibv_wr_opcode opcode, enum kind mine, enum kind its, uint32_t length)
{
	bool read = opcode == IBV_WR_RDMA_READ;
	enum kind from = read ? its : mine, to = read ? mine : its;
	int count = length < MIB ? 50 : 20;
	double copy[5], time[5];

	operation(opcode, mine, its, length, 2);
	drivers(from, to, length, 2);
	for (int i = 0; i < 5; i++) {
		copy[i] = drivers(from, to, length, count);
		time[i] = operation(opcode, mine, its, length, count);
	}
	qsort(copy, 5, sizeof(double), compare);
	qsort(time, 5, sizeof(double), compare);
	printf("%-6s %-4s to %-4s %9u %10.1f %10.1f %9.2f %9.2f   %.2f\n", name, OF(from), OF(to), length,
	       copy[2] * 1e6, time[2] * 1e6, length / copy[2] / 1e9, length / time[2] / 1e9, copy[2] / time[2]);
	fflush(stdout);
}

static int measure_all(void)
{
	static const uint32_t lengths[] = {4096, 65536, MIB, 8 * MIB, 32 * MIB};

	printf("                     bytes    copy us       us   copy GB/s    GB/s  ratio\n");
	for (int k = 0; k < ARRAY(lengths); k++) {
		measure("WRITE", IBV_WR_RDMA_WRITE, GPU, GPU, lengths[k]);
		measure("READ", IBV_WR_RDMA_READ, GPU, GPU, lengths[k]);
		measure("SEND", IBV_WR_SEND, GPU, GPU, lengths[k]);
		measure("WRITE", IBV_WR_RDMA_WRITE, HOST, GPU, lengths[k]);
		measure("READ", IBV_WR_RDMA_READ, HOST, GPU, lengths[k]);
		measure("WRITE", IBV_WR_RDMA_WRITE, GPU, HOST, lengths[k]);
	}
	return 0;
}

int main(int argc, char **argv)
{
	bool bandwidth = argc > 1 && !strcmp(argv[1], "bandwidth");
	int sockets[2], status, failed;
	pid_t child;

	gpu = vendor();
	if (bandwidth)
		size = MOST;
	MUST(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	MUST((child = fork()) >= 0);
	other = sockets[!child];
	close(sockets[child != 0]);
	/* each for itself, after the fork: a driver does not survive one */
	set_up();
	if (!child) {
		be_passive();
		_exit(0);
	}
	failed = bandwidth ? measure_all() : check_all();
	tell((struct order){END});
	MUST(waitpid(child, &status, 0) == child);
	return failed || status;
}
