/* SPDX-License-Identifier: BSD-2-Clause */
/* Verbs on memory of a GPU: two queue pairs of one process that are connected to each other. gpu_me CASE, or without an
 * argument all; gpu_me host needs no GPU. It runs on a real GPU too. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

#include <infiniband/verbs.h>

#include "vendor.h"

#define SIZE (1u << 20)
#define ALL  (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static const struct gpu *gpu;

/* ---- verbs ---- */

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp[2];
static union ibv_gid gid;
static uint64_t device[2];		 /* GPU memory of the two ends */
static struct ibv_mr *device_mr[2], *mr; /* mr: host memory */
static unsigned char host[SIZE], seen[SIZE];

static void pattern(unsigned char *to, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		to[i] = (unsigned char)((i * 2654435761u >> 13) + seed);
}

static void put_pattern(uint64_t at, size_t length, unsigned seed)
{
	static unsigned char bytes[SIZE];

	pattern(bytes, length, seed);
	MUST(!gpu->put(at, bytes, length));
}

static void must_hold(uint64_t at, size_t length, unsigned seed)
{
	static unsigned char bytes[SIZE];

	pattern(bytes, length, seed);
	MUST(!gpu->get(seen, at, length));
	MUST(!memcmp(seen, bytes, length));
}

static void connect_end(int end, enum ibv_qp_type type)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 7, .qp_access_flags = ALL};
	int access = type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	int rtr = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	int rts = IBV_QP_SQ_PSN;

	if (type == IBV_QPT_UC)
		a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	MUST(!ibv_modify_qp(qp[end], &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | access));
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
				 .path_mtu = IBV_MTU_1024,
				 .dest_qp_num = qp[!end]->qp_num,
				 .max_dest_rd_atomic = 4,
				 .min_rnr_timer = 1,
				 .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 64}}};
	if (type == IBV_QPT_RC)
		rtr |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	MUST(!ibv_modify_qp(qp[end], &a, IBV_QP_STATE | (type == IBV_QPT_UD ? 0 : rtr)));
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4};
	if (type == IBV_QPT_RC)
		rts |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	MUST(!ibv_modify_qp(qp[end], &a, IBV_QP_STATE | rts));
}

static void make_pair(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = type,
		.cap = {.max_send_wr = 64,
			.max_recv_wr = 64,
			.max_send_sge = 4,
			.max_recv_sge = 4,
			.max_inline_data = 128},
	};

	for (int i = 0; i < 2; i++)
		MUST(qp[i] = ibv_create_qp(pd, &init));
	for (int i = 0; i < 2; i++)
		connect_end(i, type);
}

static struct ibv_wc next_completion(void)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		;
	MUST(n == 1);
	return wc;
}

static void completes(int count)
{
	while (count--) {
		struct ibv_wc wc = next_completion();

		if (wc.status)
			printf("# completion of %d: %s\n", wc.opcode, ibv_wc_status_str(wc.status));
		MUST(!wc.status);
	}
}

static struct ibv_sge piece(uint64_t at, uint32_t length, const struct ibv_mr *region)
{
	return (struct ibv_sge){at, length, region ? region->lkey : 0};
}

static void post(struct ibv_send_wr wr, struct ibv_sge *sge, int count)
{
	struct ibv_send_wr *bad;

	wr.sg_list = sge;
	wr.num_sge = count;
	wr.send_flags |= IBV_SEND_SIGNALED;
	MUST(!(errno = ibv_post_send(qp[0], &wr, &bad)));
}

static void post_receive(struct ibv_sge *sge, int count)
{
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = count}, *bad;

	MUST(!ibv_post_recv(qp[1], &wr, &bad));
}

/* ---- cases ---- */

static void case_send(void)
{
	struct ibv_sge from = piece(device[0], 100001, device_mr[0]), to = piece(device[1], SIZE, device_mr[1]);

	put_pattern(device[0], from.length, 1);
	post_receive(&to, 1);
	post((struct ibv_send_wr){.opcode = IBV_WR_SEND}, &from, 1);
	completes(2);
	must_hold(device[1], from.length, 1);
}

/* SGE lists that mix host and device. */
static void case_mixed(void)
{
	struct ibv_sge from[] = {piece((uintptr_t)host, 100, mr), piece(device[0] + 100, 5000, device_mr[0]),
				 piece((uintptr_t)host + 5100, 7, mr)};
	struct ibv_sge to[] = {piece(device[1], 64, device_mr[1]), piece((uintptr_t)host + 8192, 5043, mr)};
	unsigned char want[5107];

	pattern(host, SIZE, 2);
	put_pattern(device[0], SIZE, 2);
	pattern(want, sizeof(want), 2);
	post_receive(to, 2);
	post((struct ibv_send_wr){.opcode = IBV_WR_SEND}, from, 3);
	completes(2);
	must_hold(device[1], 64, 2);
	MUST(!memcmp(host + 8192, want + 64, 5043));
}

static void case_write(void)
{
	struct ibv_sge from = piece(device[0] + 3, SIZE - 3, device_mr[0]);
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
				 .wr.rdma = {.remote_addr = device[1] + 3, .rkey = device_mr[1]->rkey}};

	put_pattern(device[0] + 3, SIZE - 3, 3);
	post(wr, &from, 1);
	completes(1);
	must_hold(device[1] + 3, SIZE - 3, 3);
}

static void case_write_imm(void)
{
	struct ibv_sge from = piece(device[0], 5000, device_mr[0]), none;
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				 .wr.rdma = {.remote_addr = device[1], .rkey = device_mr[1]->rkey}};

	put_pattern(device[0], 5000, 4);
	post_receive(&none, 0);
	post(wr, &from, 1);
	completes(2);
	must_hold(device[1], 5000, 4);
}

static void case_host_and_device(void)
{
	struct ibv_sge from = piece((uintptr_t)host, 70000, mr), back = piece((uintptr_t)host + 100000, 70000, mr);
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
				 .wr.rdma = {.remote_addr = device[1], .rkey = device_mr[1]->rkey}};

	pattern(host, 70000, 5);
	post(wr, &from, 1);
	completes(1);
	must_hold(device[1], 70000, 5);
	wr.opcode = IBV_WR_RDMA_READ;
	post(wr, &back, 1);
	completes(1);
	MUST(!memcmp(host, host + 100000, 70000));
}

static void case_read(void)
{
	struct ibv_sge to = piece(device[0], SIZE, device_mr[0]);
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_READ,
				 .wr.rdma = {.remote_addr = device[1], .rkey = device_mr[1]->rkey}};

	put_pattern(device[1], SIZE, 6);
	post(wr, &to, 1);
	completes(1);
	must_hold(device[0], SIZE, 6);
}

static void case_atomics(void)
{
	struct ibv_sge to = piece(device[0], 8, device_mr[0]);
	struct ibv_send_wr add = {
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.wr.atomic = {.remote_addr = device[1] + 16, .rkey = device_mr[1]->rkey, .compare_add = 2}};
	struct ibv_send_wr swap = add;
	uint64_t word = 40;

	MUST(!gpu->put(device[1] + 16, &word, 8));
	post(add, &to, 1);
	completes(1);
	MUST(!gpu->get(&word, device[0], 8));
	MUST(word == 40);
	swap.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	swap.wr.atomic.compare_add = 42;
	swap.wr.atomic.swap = 7;
	post(swap, &to, 1);
	completes(1);
	MUST(!gpu->get(&word, device[0], 8));
	MUST(word == 42);
	post(swap, &to, 1); /* it holds 7 by now, so this changes nothing */
	completes(1);
	MUST(!gpu->get(&word, device[1] + 16, 8));
	MUST(word == 7);
}

/* Inline data need no key, and are read by the processor: memory of a GPU as well. */
static void case_inline(void)
{
	struct ibv_sge from[] = {piece(device[0], 60, NULL), piece((uintptr_t)host, 4, NULL)};
	struct ibv_sge to = piece(device[1], 64, device_mr[1]);
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE};

	put_pattern(device[0], 60, 8);
	pattern(host, 4, 9);
	post_receive(&to, 1);
	post(wr, from, 2);
	completes(2);
	must_hold(device[1], 60, 8);
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = device[1] + 100;
	wr.wr.rdma.rkey = device_mr[1]->rkey;
	post(wr, from, 1);
	completes(1);
	must_hold(device[1] + 100, 60, 8);
}

static void case_uc(void)
{
	struct ibv_sge from = piece(device[0], 9000, device_mr[0]), to = piece(device[1] + 20000, 9000, device_mr[1]);
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
				 .wr.rdma = {.remote_addr = device[1], .rkey = device_mr[1]->rkey}};

	put_pattern(device[0], 9000, 10);
	post_receive(&to, 1);
	post(wr, &from, 1);
	wr.opcode = IBV_WR_SEND;
	post(wr, &from, 1);
	completes(3);
	must_hold(device[1], 9000, 10);
	must_hold(device[1] + 20000, 9000, 10);
}

static void case_ud(void)
{
	struct ibv_sge from = piece(device[0], 900, device_mr[0]), to = piece(device[1], 940, device_mr[1]);
	struct ibv_ah_attr a = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 64}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
				 .wr.ud = {.ah = ibv_create_ah(pd, &a), .remote_qpn = qp[1]->qp_num, .remote_qkey = 0}};

	MUST(wr.wr.ud.ah);
	wr.wr.ud.remote_qkey = 7;
	put_pattern(device[0], 900, 11);
	post_receive(&to, 1);
	post(wr, &from, 1);
	completes(2);
	must_hold(device[1] + 40, 900, 11);
}

/* A region ends with its allocation. */
static void case_bounds(void)
{
	errno = 0;
	MUST(!ibv_reg_mr(pd, (void *)(uintptr_t)device[0], 1ul << 40, ALL) && errno == EFAULT);
}

/* Memory that has been freed is an error of the request. */
static void case_freed(void)
{
	struct ibv_sge from = piece(device[0], 64, device_mr[0]), to = piece((uintptr_t)host, 64, mr);
	struct ibv_wc wc;

	MUST(!gpu->free(device[0]));
	post_receive(&to, 1);
	post((struct ibv_send_wr){.opcode = IBV_WR_SEND}, &from, 1);
	wc = next_completion();
	MUST(wc.status == IBV_WC_LOC_PROT_ERR && wc.qp_num == qp[0]->qp_num);
}

/* ibv_reg_dmabuf_mr(), which the libibverbs that this is built with may not have. */
static struct ibv_mr *register_dmabuf(uint64_t length, uint64_t iova, int fd, int access)
{
	struct ibv_mr *(*call)(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int) =
		(struct ibv_mr * (*)(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int))
			dlsym(RTLD_DEFAULT, "ibv_reg_dmabuf_mr");

	MUST(call);
	return call(pd, 0, length, iova, fd, access);
}

/* NCCL takes any errno but EOPNOTSUPP and EPROTONOSUPPORT for a driver that can. */
static void case_probe(void)
{
	errno = 0;
	MUST(!register_dmabuf(0, 0, -1, 0) && errno == EBADF);
}

/* What programs look for before they register memory of NVIDIA's GPUs. */
static bool has_traces(void)
{
	return !access("/sys/module/nvidia_peermem/version", R_OK) &&
	       !access("/sys/kernel/mm/memory_peers/nv_mem/version", R_OK);
}

static void case_traces(void)
{
	char text[32] = "";
	FILE *f = fopen("/sys/module/nvidia_peermem/version", "r");

	if (gpu == &hip) {
		MUST(!f);
		return;
	}
	MUST(f && fgets(text, sizeof(text), f) && text[0] >= '0' && text[0] <= '9');
	fclose(f);
	MUST(has_traces());
}

static void case_dmabuf(void)
{
	struct ibv_sge from, to = piece(device[1], SIZE, device_mr[1]);
	struct ibv_mr *region;
	int fd = -1;

	if (gpu == &hip) {
		printf("# not with HIP\n");
		return;
	}
	if (CALL("cuMemGetHandleForAddressRange", &fd, device[0], (size_t)SIZE, 1, 0ull)) {
		printf("# this GPU's driver exports no dma-bufs\n");
		return;
	}
	MUST(region = register_dmabuf(SIZE, device[0], fd, ALL));
	close(fd);
	from = piece(device[0] + 5, 3000, region);
	put_pattern(device[0] + 5, 3000, 12);
	post_receive(&to, 1);
	post((struct ibv_send_wr){.opcode = IBV_WR_SEND}, &from, 1);
	completes(2);
	must_hold(device[1], 3000, 12);
	MUST(!ibv_dereg_mr(region));
}

/* A child has no driver: nothing hangs, and the parent goes on. */
static void case_fork(void)
{
	pid_t child;
	int status;

	MUST((child = fork()) >= 0);
	if (!child)
		/* managed memory may be there, as plain memory */
		_exit(ibv_reg_mr(pd, (void *)(uintptr_t)device[0], 64, ALL) != NULL && !is_kind("managed"));
	MUST(waitpid(child, &status, 0) == child && status == 0);
	case_send();
}

/* From one GPU to another. */
static void case_devices(void)
{
	uint64_t at;
	struct ibv_mr *region;
	struct ibv_sge from, here = piece(device[0], 3000, device_mr[0]);
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
				 .wr.rdma = {.remote_addr = device[1], .rkey = device_mr[1]->rkey}};

	if (gpu->device(1)) {
		printf("# there is one GPU\n");
		return;
	}
	MUST(!gpu->alloc(&at, SIZE));
	MUST(!gpu->device(0));
	MUST(region = ibv_reg_mr(pd, (void *)(uintptr_t)at, SIZE, ALL));
	from = piece(at, SIZE, region);
	put_pattern(at, SIZE, 13);
	post(wr, &from, 1);
	completes(1);
	must_hold(device[1], SIZE, 13);
	wr.opcode = IBV_WR_RDMA_READ;
	wr.wr.rdma.remote_addr = at + 100;
	wr.wr.rdma.rkey = region->rkey;
	put_pattern(at + 100, 3000, 14);
	post(wr, &here, 1);
	completes(1);
	must_hold(device[0], 3000, 14);
	MUST(!ibv_dereg_mr(region) && !gpu->free(at));
}

/* Threads without a context that register, while the first one sends. */
static atomic_bool threads_end;

static void *register_again(void *arg)
{
	while (!atomic_load(&threads_end)) {
		struct ibv_mr *region = ibv_reg_mr(pd, (void *)(uintptr_t)device[0], SIZE, ALL);

		MUST(region && !ibv_dereg_mr(region));
	}
	return NULL;
}

static void case_threads(void)
{
	pthread_t thread[3];

	for (int i = 0; i < 3; i++)
		MUST(!pthread_create(&thread[i], NULL, register_again, NULL));
	for (int i = 0; i < 20; i++) {
		case_write();
		case_send();
		case_host_and_device();
	}
	atomic_store(&threads_end, true);
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
}

/* ---- bandwidth ---- */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double copies(uint64_t to, uint64_t from, size_t length, int count)
{
	double begin = now();

	for (int i = 0; i < count; i++)
		MUST(!CALL("cuMemcpyDtoD_v2", to, from, length) && !CALL("cuCtxSynchronize"));
	return (double)length * count / (now() - begin) / 1e9;
}

static double writes(uint64_t to, uint64_t from, struct ibv_mr *const region[2], size_t length, int count)
{
	struct ibv_sge sge = piece(from, (uint32_t)length, region[0]);
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .wr.rdma = {.remote_addr = to, .rkey = region[1]->rkey}};
	double begin = now();

	for (int i = 0; i < count; i++) {
		post(wr, &sge, 1);
		completes(1);
	}
	return (double)length * count / (now() - begin) / 1e9;
}

/* On a real GPU: WRITEs beside the driver's own copies. */
static void case_bandwidth(void)
{
	uint64_t at[2];
	struct ibv_mr *region[2];

	for (int i = 0; i < 2; i++) {
		MUST(!gpu->alloc(&at[i], 64u << 20));
		MUST(region[i] = ibv_reg_mr(pd, (void *)(uintptr_t)at[i], 64u << 20, ALL));
	}
	printf("# bytes      copy GB/s  WRITE GB/s  ratio\n");
	for (size_t length = 4096; length <= 64u << 20; length *= 8) {
		int count = (int)((256u << 20) / length) < 500 ? (int)((256u << 20) / length) : 500;
		double copy, write;

		copies(at[1], at[0], length, 10);
		copy = copies(at[1], at[0], length, count);
		write = writes(at[1], at[0], region, length, count);
		printf("# %-10zu %9.2f  %10.2f  %5.3f\n", length, copy, write, write / copy);
	}
}

static const struct {
	const char *name;
	enum ibv_qp_type type;
	void (*run)(void);
} cases[] = {
	{"send", IBV_QPT_RC, case_send},
	{"mixed", IBV_QPT_RC, case_mixed},
	{"write", IBV_QPT_RC, case_write},
	{"write-imm", IBV_QPT_RC, case_write_imm},
	{"host-and-device", IBV_QPT_RC, case_host_and_device},
	{"read", IBV_QPT_RC, case_read},
	{"atomics", IBV_QPT_RC, case_atomics},
	{"inline", IBV_QPT_RC, case_inline},
	{"uc", IBV_QPT_UC, case_uc},
	{"ud", IBV_QPT_UD, case_ud},
	{"bounds", IBV_QPT_RC, case_bounds},
	{"freed", IBV_QPT_RC, case_freed},
	{"probe", IBV_QPT_RC, case_probe},
	{"traces", IBV_QPT_RC, case_traces},
	{"dmabuf", IBV_QPT_RC, case_dmabuf},
	{"fork", IBV_QPT_RC, case_fork},
	{"devices", IBV_QPT_RC, case_devices},
	{"threads", IBV_QPT_RC, case_threads},
	{"bandwidth", IBV_QPT_RC, case_bandwidth}, /* by name only */
};
#define CASES (int)(sizeof(cases) / sizeof(cases[0]) - 1)

static void set_up(enum ibv_qp_type type)
{
	struct ibv_device **list;

	MUST(!gpu->begin());
	MUST((list = ibv_get_device_list(NULL)) && list[0] && (context = ibv_open_device(list[0])));
	MUST(!ibv_query_gid(context, 1, 0, &gid));
	MUST((pd = ibv_alloc_pd(context)) && (cq = ibv_create_cq(context, 256, NULL, NULL, 0)));
	make_pair(type); /* before memory of the GPU is known */
	for (int i = 0; i < 2; i++) {
		MUST(!gpu->alloc(&device[i], SIZE));
		MUST(device_mr[i] = ibv_reg_mr(pd, (void *)(uintptr_t)device[i], SIZE, ALL));
	}
	MUST(mr = ibv_reg_mr(pd, host, SIZE, ALL));
}

static void tear_down(void)
{
	for (int i = 0; i < 2; i++)
		MUST(!ibv_destroy_qp(qp[i]) && !ibv_dereg_mr(device_mr[i]));
	MUST(!ibv_dereg_mr(mr) && !ibv_destroy_cq(cq));
}

/* A process for each case. */
static int run(int i)
{
	int status;
	pid_t child = fork();

	if (!child) {
		set_up(cases[i].type);
		cases[i].run();
		tear_down();
		fflush(stdout);
		_exit(0);
	}
	MUST(child > 0 && waitpid(child, &status, 0) == child);
	printf("%sok %d - %s\n", status ? "not " : "", i + 1, cases[i].name);
	fflush(stdout);
	return status != 0;
}

/* Without a GPU: registers host memory many times. */
static int host_only(void)
{
	struct ibv_device **list;

	MUST((list = ibv_get_device_list(NULL)) && list[0] && (context = ibv_open_device(list[0])));
	MUST(pd = ibv_alloc_pd(context));
	MUST(has_traces() == !access("/proc/driver/nvidia/version", F_OK));
	for (int i = 0; i < 100; i++) {
		MUST(mr = ibv_reg_mr(pd, host, SIZE, ALL));
		MUST(!ibv_dereg_mr(mr));
	}
	return 0;
}

int main(int argc, char **argv)
{
	int failed = 0;

	gpu = vendor();
	if (argc > 1 && !strcmp(argv[1], "host"))
		return host_only();
	if (argc < 2)
		printf("1..%d\n", CASES);
	fflush(stdout);
	for (int i = 0; i < CASES + (argc > 1); i++)
		if (argc < 2 || !strcmp(argv[1], cases[i].name))
			failed |= run(i);
	return failed;
}
