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
#include <dlfcn.h>

#include "across_hosts.h"

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

static gpu_address mine; /* struct memory */
static void *gpu;	 /* the CUDA context: our use of the GPU */

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

static void client(void)
{
	gpu_address my_text = mine + offsetof(struct memory, text);
	gpu_address my_number = mine + offsetof(struct memory, number);
	uint64_t text = peer.address + offsetof(struct memory, text);
	uint64_t number = peer.address + offsetof(struct memory, number);
	uint64_t received = peer.address + offsetof(struct memory, received);
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
	struct ibv_send_wr read = {.opcode = IBV_WR_RDMA_READ, .wr.rdma = {.remote_addr = received, .rkey = peer.rkey}};
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
	const char *server = begin(argc, argv);
	FILE *tcp;

	gpu_open(gpu_number);
	create(mine); /* the driver of the HCA sees that the address is the GPU's, and asks the GPU's for the way there
		       */

	/* The server's receive request must be there before the client's message comes. (If it were not, its
	 * HCA would answer "receiver not ready" and ours would try again.) */
	set_number(40);
	if (!server)
		post_receive(mine + offsetof(struct memory, received), sizeof((struct memory){0}.received));

	tcp = meet(server);
	if (server) {
		client();
	} else {
		complete(IBV_WC_RECV);
		printf("received:         \"%s\"\n", copy_of_mine().received);
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

	end(tcp);
	CUDA(cuMemFree(mine)); /* after ibv_dereg_mr(): until then the HCA may use it */
	CUDA(cuCtxDestroy(gpu));
	return 0;
}
