// SPDX-License-Identifier: BSD-2-Clause
/* The two programs of qp_across_hosts.c with their memory on a GPU. To RDMA nothing changes but the address: what is
 * registered, and what the two tell each other, is an address of the GPU's memory (GPUDirect RDMA). Hardware reads and
 * writes there by itself, and the bytes do not pass through host memory. The CPU cannot follow such a pointer: this
 * program copies to the GPU what it wants to send, copies from the GPU what it wants to print, and lets a kernel, a
 * small program on the GPU, check what the server's memory holds at the end.
 *
 * It needs NVIDIA's driver, but no CUDA to build it: it looks up the driver's library when it runs.
 *
 *	cc qp_across_hosts_gpu.c -o qp_across_hosts_gpu -libverbs -ldl
 *	uroce run ./qp_across_hosts_gpu [-d DEVICE] [-g GID_INDEX] [-p TCP_PORT] [-c GPU]          the server
 *	uroce run ./qp_across_hosts_gpu [-d DEVICE] [-g GID_INDEX] [-p TCP_PORT] [-c GPU] SERVER   the client
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

/* Verbs that make something return NULL and set errno; the others return 0 or the error number itself. */
#define MUST(x) ((x) ? (void)0 : fail(__LINE__, #x))
#define ZERO(x) MUST(!(errno = (x)))

static void fail(int line, const char *what)
{
	fprintf(stderr, "line %d: %s: %s\n", line, what, strerror(errno));
	exit(1);
}

/* What lies in the GPU's memory. */
struct memory {
	char text[64];
	uint64_t number; /* atomics want 8 bytes at an address that 8 divides */
};

/* The functions of the CUDA driver that we use. (Of some the library has a second version, _v2: cuda.h
 * renames them for programs that include it.) They return 0 or the number of an error. */
typedef unsigned long long gpu_address;

static int (*cuInit)(unsigned flags);
static int (*cuDeviceGet)(int *device, int number);
static int (*cuDeviceGetName)(char *name, int size, int device);
static int (*cuCtxCreate)(void **context, unsigned flags, int device);
static int (*cuCtxDestroy)(void *context);
static int (*cuMemAlloc)(gpu_address *address, size_t size);
static int (*cuMemFree)(gpu_address address);
static int (*cuMemsetD8)(gpu_address address, unsigned char byte, size_t size);
static int (*cuMemcpyHtoD)(gpu_address to, const void *from, size_t size);
static int (*cuMemcpyDtoH)(void *to, gpu_address from, size_t size);
static int (*cuStreamSynchronize)(void *stream);
static int (*cuModuleLoadData)(void **module, const void *image);
static int (*cuModuleGetFunction)(void **function, void *module, const char *name);
static int (*cuLaunchKernel)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
			     unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **arguments,
			     void **extra);

#define CUDA(x) cuda(__LINE__, #x, x)

static void cuda(int line, const char *what, int error)
{
	if (!error)
		return;
	fprintf(stderr, "line %d: %s: CUDA error %d\n", line, what, error);
	exit(1);
}

/* The kernel, in the assembler of NVIDIA's GPUs. The driver translates it for the GPU that is there. As C it reads:
 *
 *	for (int left = 9; left > 0; left--) // 9 words: 64 bytes of text and the number
 *		if (*memory++ != *expected++)
 *			return;
 *	*flag = 1;
 */
static const char kernel[] = ".version 6.0\n"
			     ".target sm_50\n"
			     ".address_size 64\n"
			     ".visible .entry check(.param .u64 memory, .param .u64 expected, .param .u64 flag)\n"
			     "{\n"
			     "	.reg .pred %again, %differ;\n"
			     "	.reg .u32 %left, %one;\n"
			     "	.reg .u64 %memory, %expected, %flag, %is, %should;\n"
			     "	ld.param.u64 %memory, [memory];\n"
			     "	ld.param.u64 %expected, [expected];\n"
			     "	ld.param.u64 %flag, [flag];\n"
			     "	cvta.to.global.u64 %memory, %memory;\n"
			     "	cvta.to.global.u64 %expected, %expected;\n"
			     "	cvta.to.global.u64 %flag, %flag;\n"
			     "	mov.u32 %left, 9;\n"
			     "next:\n"
			     "	ld.global.u64 %is, [%memory];\n"
			     "	ld.global.u64 %should, [%expected];\n"
			     "	setp.ne.u64 %differ, %is, %should;\n"
			     "	@%differ bra done;\n"
			     "	add.u64 %memory, %memory, 8;\n"
			     "	add.u64 %expected, %expected, 8;\n"
			     "	sub.u32 %left, %left, 1;\n"
			     "	setp.ne.u32 %again, %left, 0;\n"
			     "	@%again bra next;\n"
			     "	mov.u32 %one, 1;\n"
			     "	st.global.u32 [%flag], %one;\n"
			     "done:\n"
			     "	ret;\n"
			     "}\n";

/* All that the other end must know of us. */
struct card {
	union ibv_gid gid;	/* in RoCEv2: the IP address */
	uint32_t qpn, psn, mtu; /* the queue pair, the number of its first packet, its largest packet */
	uint32_t rkey;		/* the key to our memory */
	uint64_t address;	/* where our memory begins, as we see it */
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static gpu_address mine; /* struct memory */
static void *gpu;	 /* the CUDA context: our use of the GPU */
static struct card me, peer;

static void *look_up(void *library, const char *name)
{
	void *function = dlsym(library, name);

	if (!function) {
		fprintf(stderr, "%s: this driver is too old\n", dlerror());
		exit(1);
	}
	return function;
}

static void cuda_load(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library) {
		fprintf(stderr, "%s: NVIDIA's driver is not installed here\n", dlerror());
		exit(1);
	}
	cuInit = look_up(library, "cuInit");
	cuDeviceGet = look_up(library, "cuDeviceGet");
	cuDeviceGetName = look_up(library, "cuDeviceGetName");
	cuCtxCreate = look_up(library, "cuCtxCreate_v2");
	cuCtxDestroy = look_up(library, "cuCtxDestroy_v2");
	cuMemAlloc = look_up(library, "cuMemAlloc_v2");
	cuMemFree = look_up(library, "cuMemFree_v2");
	cuMemsetD8 = look_up(library, "cuMemsetD8_v2");
	cuMemcpyHtoD = look_up(library, "cuMemcpyHtoD_v2");
	cuMemcpyDtoH = look_up(library, "cuMemcpyDtoH_v2");
	cuStreamSynchronize = look_up(library, "cuStreamSynchronize");
	cuModuleLoadData = look_up(library, "cuModuleLoadData");
	cuModuleGetFunction = look_up(library, "cuModuleGetFunction");
	cuLaunchKernel = look_up(library, "cuLaunchKernel");
}

/* Memory on the GPU, all zeros. */
static void gpu_open(int number)
{
	char name[128];
	int device;

	cuda_load();
	CUDA(cuInit(0));
	CUDA(cuDeviceGet(&device, number));
	CUDA(cuDeviceGetName(name, sizeof(name), device));
	CUDA(cuCtxCreate(&gpu, 0, device));
	CUDA(cuMemAlloc(&mine, sizeof(struct memory)));
	CUDA(cuMemsetD8(mine, 0, sizeof(struct memory)));
	printf("GPU %d:            %s\n", number, name);
}

/* A copy to the GPU can still be under way when the call returns. The HCA does not wait for it, so we do. */
static void copy_to_mine(size_t offset, const void *from, size_t size)
{
	CUDA(cuMemcpyHtoD(mine + offset, from, size));
	CUDA(cuStreamSynchronize(NULL));
}

static void set_text(const char *text)
{
	char all[sizeof((struct memory){0}.text)] = "";

	strcpy(all, text);
	copy_to_mine(offsetof(struct memory, text), all, sizeof(all));
}

static void set_number(uint64_t number)
{
	copy_to_mine(offsetof(struct memory, number), &number, sizeof(number));
}

/* A copy of our memory that the CPU can look at. */
static struct memory copy_of_mine(void)
{
	struct memory copy;

	CUDA(cuMemcpyDtoH(&copy, mine, sizeof(copy)));
	return copy;
}

/* Starts the kernel, one thread of it, and waits for its end. Returns 1 if our memory holds what is expected. */
static uint32_t gpu_check(struct memory expected)
{
	gpu_address should, flag;
	void *module, *function, *arguments[] = {&mine, &should, &flag};
	uint32_t right = 0;

	CUDA(cuMemAlloc(&should, sizeof(expected)));
	CUDA(cuMemcpyHtoD(should, &expected, sizeof(expected)));
	CUDA(cuMemAlloc(&flag, sizeof(right)));
	CUDA(cuMemcpyHtoD(flag, &right, sizeof(right)));
	CUDA(cuModuleLoadData(&module, kernel));
	CUDA(cuModuleGetFunction(&function, module, "check"));
	CUDA(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
	CUDA(cuMemcpyDtoH(&right, flag, sizeof(right))); /* comes after the kernel: both go to the default stream */
	CUDA(cuMemFree(flag));
	CUDA(cuMemFree(should));
	return right;
}

/* The TCP connection: the client's, or the first that a client makes to us. */
static FILE *tcp_open(const char *server, const char *port)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				 .ai_family = server ? AF_UNSPEC : AF_INET6,
				 .ai_flags = AI_PASSIVE},
			*list;
	int error, listener, fd;
	FILE *tcp;

	if ((error = getaddrinfo(server, port, &hints, &list))) {
		fprintf(stderr, "%s port %s: %s\n", server ? server : "*", port, gai_strerror(error));
		exit(1);
	}
	MUST((fd = socket(list->ai_family, SOCK_STREAM, 0)) >= 0);
	if (server) {
		MUST(!connect(fd, list->ai_addr, list->ai_addrlen));
	} else {
		listener = fd;
		MUST(!setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)));
		MUST(!bind(listener, list->ai_addr, list->ai_addrlen));
		MUST(!listen(listener, 1));
		MUST((fd = accept(listener, NULL, NULL)) >= 0);
		close(listener);
	}
	freeaddrinfo(list);
	MUST(tcp = fdopen(fd, "r"));
	return tcp;
}

/* Each end tells its card and hears the other's: one line of text. */
static void tcp_exchange(FILE *tcp)
{
	char gid[INET6_ADDRSTRLEN];

	MUST(inet_ntop(AF_INET6, &me.gid, gid, sizeof(gid)));
	MUST(dprintf(fileno(tcp), "%s %x %x %x %x %" PRIx64 "\n", gid, me.qpn, me.psn, me.mtu, me.rkey, me.address) >
	     0);
	MUST(fscanf(tcp, "%45s %x %x %x %x %" SCNx64, gid, &peer.qpn, &peer.psn, &peer.mtu, &peer.rkey,
		    &peer.address) == 6);
	MUST(fgetc(tcp) == '\n');
	MUST(inet_pton(AF_INET6, gid, &peer.gid) == 1);
}

/* Returns when the other end has come to the same point. */
static void tcp_barrier(FILE *tcp)
{
	MUST(write(fileno(tcp), ".", 1) == 1);
	MUST(fgetc(tcp) == '.');
}

static void create(int gid_index)
{
	struct ibv_port_attr port;

	/* Memory that the HCA may use, ours by its lkey and for the peer by its rkey. The driver of the HCA sees
	 * that the address is the GPU's, and asks the GPU's driver for the way there. */
	MUST(pd = ibv_alloc_pd(context));
	MUST(mr = ibv_reg_mr(pd, (void *)(uintptr_t)mine, sizeof(struct memory),
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				     IBV_ACCESS_REMOTE_ATOMIC));

	/* A queue of completions, and a pair of queues of work. */
	MUST(cq = ibv_create_cq(context, 16, NULL, NULL, 0));
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1, /* every send request writes a completion */
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};
	MUST(qp = ibv_create_qp(pd, &attr));

	ZERO(ibv_query_port(context, 1, &port));
	ZERO(ibv_query_gid(context, 1, gid_index, &me.gid));
	srand48(time(NULL) ^ getpid());
	me.qpn = qp->qp_num;
	me.psn = lrand48() & 0xffffff;
	me.mtu = port.active_mtu;
	me.rkey = mr->rkey;
	me.address = mine;

	/* RESET -> INIT: receive requests may be posted from here on. */
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};
	ZERO(ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

/* Both ends do the same, each with the other's card. */
static void connect_to_peer(int gid_index)
{
	/* RTR, ready to receive: the HCA knows the peer's address (its GID, which in RoCEv2 is its IP
	 * address) and QP number, and which packet to expect first. From now on it answers what the peer
	 * sends. */
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = me.mtu < peer.mtu ? me.mtu : peer.mtu,
		.dest_qp_num = peer.qpn,
		.rq_psn = peer.psn,
		.max_dest_rd_atomic = 1, /* how many READs and atomics the peer may have under way */
		.min_rnr_timer = 12,	 /* "no receive is posted: try again in 0.64 ms" */
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = peer.gid, .sgid_index = gid_index, .hop_limit = 64}},
	};
	ZERO(ibv_modify_qp(qp, &rtr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));

	/* RTS, ready to send: the HCA knows the number of its own first packet, how long to wait for an
	 * acknowledgement (4.096 us * 2^14 = 67 ms) and how often to try again before it gives up. */
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = me.psn,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,	    /* 7: as often as it takes */
		.max_rd_atomic = 1, /* how many READs and atomics we may have under way */
	};
	ZERO(ibv_modify_qp(qp, &rts,
			   IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				   IBV_QP_MAX_QP_RD_ATOMIC));
}

/* Waits for the next completion and checks that it is the one that we expect. */
static void complete(enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc;
	int n;

	do
		MUST((n = ibv_poll_cq(cq, 1, &wc)) >= 0);
	while (n == 0);
	if (wc.status == IBV_WC_SUCCESS && wc.opcode == opcode)
		return;
	fprintf(stderr, "completion: %s, opcode %d\n", ibv_wc_status_str(wc.status), wc.opcode);
	exit(1);
}

/* Posts one send request with one piece of our memory. The request is read before the call returns; the
 * memory belongs to the HCA until the completion. */
static void post(struct ibv_send_wr wr, gpu_address local, uint32_t length)
{
	struct ibv_sge piece = {.addr = local, .length = length, .lkey = mr->lkey};
	struct ibv_send_wr *bad;

	wr.sg_list = &piece;
	wr.num_sge = 1;
	ZERO(ibv_post_send(qp, &wr, &bad));
}

static void post_receive(gpu_address local, uint32_t length)
{
	struct ibv_sge piece = {.addr = local, .length = length, .lkey = mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &piece, .num_sge = 1}, *bad;

	ZERO(ibv_post_recv(qp, &wr, &bad));
}

static void client(void)
{
	gpu_address my_text = mine + offsetof(struct memory, text);
	gpu_address my_number = mine + offsetof(struct memory, number);
	uint64_t text = peer.address + offsetof(struct memory, text);
	uint64_t number = peer.address + offsetof(struct memory, number);
	struct memory now;

	/* SEND: our HCA cuts the message into packets of the path MTU; the server's HCA puts them into the
	 * memory of its oldest receive request and acknowledges. The acknowledgement makes our completion. */
	set_text("hello, server");
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND};
	post(send, my_text, sizeof(now.text));
	complete(IBV_WC_SEND);
	printf("send:             \"%s\"\n", copy_of_mine().text);

	/* READ: our HCA asks, the server's HCA answers from its memory; the server's program takes no part.
	 * It puts the answer into the memory of our GPU. */
	set_text("");
	struct ibv_send_wr read = {.opcode = IBV_WR_RDMA_READ, .wr.rdma = {.remote_addr = text, .rkey = peer.rkey}};
	post(read, my_text, sizeof(now.text));
	complete(IBV_WC_RDMA_READ);
	now = copy_of_mine();
	MUST(!strcmp(now.text, "hello, server"));
	printf("read:             \"%s\" is what the server's memory holds\n", now.text);

	/* WRITE: the server's HCA checks key and bounds and stores the bytes; its program is told nothing. */
	set_text("written by the client");
	struct ibv_send_wr write = {.opcode = IBV_WR_RDMA_WRITE, .wr.rdma = {.remote_addr = text, .rkey = peer.rkey}};
	post(write, my_text, sizeof(now.text));
	complete(IBV_WC_RDMA_WRITE);
	printf("write:            \"%s\"\n", copy_of_mine().text);

	/* COMPARE AND SWAP: the server's HCA does `if (number == 40) number = 41` as one step that no other
	 * request can come between, and answers with what was there before. */
	struct ibv_send_wr swap = {
		.opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
		.wr.atomic = {.remote_addr = number, .rkey = peer.rkey, .compare_add = 40, .swap = 41}};
	post(swap, my_number, sizeof(now.number));
	complete(IBV_WC_COMP_SWAP);
	now = copy_of_mine();
	MUST(now.number == 40);
	printf("compare and swap: it was %" PRIu64 "\n", now.number);

	/* FETCH AND ADD: the same with `number += 1`. */
	struct ibv_send_wr add = {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				  .wr.atomic = {.remote_addr = number, .rkey = peer.rkey, .compare_add = 1}};
	post(add, my_number, sizeof(now.number));
	complete(IBV_WC_FETCH_ADD);
	now = copy_of_mine();
	MUST(now.number == 41);
	printf("fetch and add:    it was %" PRIu64 "\n", now.number);
}

int main(int argc, char **argv)
{
	const char *name = NULL, *port = "18515", *server;
	int option, gid_index = 0, found = 0, number = 0;
	struct ibv_device **list;
	FILE *tcp;

	while ((option = getopt(argc, argv, "c:d:g:p:")) != -1) {
		if (option == 'c')
			number = atoi(optarg);
		else if (option == 'd')
			name = optarg;
		else if (option == 'g')
			gid_index = atoi(optarg);
		else if (option == 'p')
			port = optarg;
		else
			return 1;
	}
	server = argv[optind];

	list = ibv_get_device_list(NULL);
	while (name && list && list[found] && strcmp(ibv_get_device_name(list[found]), name))
		found++;
	if (!list || !list[found]) {
		fprintf(stderr, "no RDMA device%s%s: did you start this with \"uroce run\"?\n", name ? " " : "",
			name ? name : "");
		return 1;
	}
	MUST(context = ibv_open_device(list[found]));
	ibv_free_device_list(list);

	gpu_open(number);
	create(gid_index);

	/* The server's receive request must be there before the client's message comes. (If it were not, its
	 * HCA would answer "receiver not ready" and ours would try again.) */
	set_number(40);
	if (!server)
		post_receive(mine + offsetof(struct memory, text), sizeof((struct memory){0}.text));

	tcp = tcp_open(server, port);
	tcp_exchange(tcp);
	connect_to_peer(gid_index);
	tcp_barrier(tcp); /* both are ready to receive */
	printf("%s: our QP %06x, peer's QP %06x\n", ibv_get_device_name(context->device), me.qpn, peer.qpn);

	if (server) {
		client();
	} else {
		complete(IBV_WC_RECV);
		printf("received:         \"%s\"\n", copy_of_mine().text);
	}
	tcp_barrier(tcp); /* the client is done */
	if (!server) {
		struct memory expected = {.text = "written by the client", .number = 42}, now = copy_of_mine();

		printf("our memory:       \"%s\" and %" PRIu64 "\n", now.text, now.number);
		if (!gpu_check(expected)) {
			fprintf(stderr, "the kernel found something else than \"%s\" and %" PRIu64 "\n", expected.text,
				expected.number);
			return 1;
		}
		printf("the kernel:       found the same\n");
	}

	fclose(tcp);
	ZERO(ibv_destroy_qp(qp));
	ZERO(ibv_destroy_cq(cq));
	ZERO(ibv_dereg_mr(mr));
	ZERO(ibv_dealloc_pd(pd));
	ZERO(ibv_close_device(context));
	CUDA(cuMemFree(mine)); /* after ibv_dereg_mr(): until then the HCA may use it */
	CUDA(cuCtxDestroy(gpu));
	return 0;
}
