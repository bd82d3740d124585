// SPDX-License-Identifier: BSD-2-Clause
/* Memory of a GPU for gpu_me.c and gpu_two.c: by CUDA's driver API, with GPU_ME=hip in the environment by HIP. */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MUST(x) ((x) ? (void)0 : fail(__LINE__, #x))

static _Noreturn void fail(int line, const char *what)
{
	printf("# line %d: %s: %s\n", line, what, strerror(errno));
	fflush(stdout);
	_exit(1);
}

/* ---- the GPU ---- */

static void *library;
#define CALL(name, ...) (((int (*)())dlsym(library, name))(__VA_ARGS__))

/* Each returns 0: success. */
struct gpu {
	int (*begin)(void);
	int (*alloc)(uint64_t *at, size_t length);
	int (*free)(uint64_t at);
	int (*device)(int number); /* the GPU that this thread allocates on */
	int (*put)(uint64_t to, const void *from, size_t length);
	int (*get)(void *to, uint64_t from, size_t length);
};

static int cuda_device(int number)
{
	void *gpu_context;
	int ordinal;

	return CALL("cuDeviceGet", &ordinal, number) || CALL("cuDevicePrimaryCtxRetain", &gpu_context, ordinal) ||
	       CALL("cuCtxSetCurrent", gpu_context);
}

static int cuda_begin(void)
{
	return !(library = dlopen("libcuda.so.1", RTLD_NOW)) || CALL("cuInit", 0u) || cuda_device(0);
}

/* GPU_KIND in the environment: how the memory is allocated. */
static bool is_kind(const char *name)
{
	const char *kind = getenv("GPU_KIND");

	return !strcmp(kind ? kind : "plain", name);
}

/* In a virtual reservation, with a handle for other processes. Of these there are few, and they stay. */
static int alloc_virtual(uint64_t *at, size_t length)
{
	struct {
		int type, handles, location, device;
		void *unused;
		unsigned char flags[8];
	} properties = {.type = 1, .handles = 1, .location = 1};
	struct {
		int location, device, flags;
	} access = {.location = 1, .flags = 3};
	uint64_t physical;
	size_t unit;

	if (CALL("cuMemGetAllocationGranularity", &unit, &properties, 0))
		return 1;
	length = (length + unit - 1) / unit * unit;
	return CALL("cuMemCreate", &physical, length, &properties, 0ull) ||
	       CALL("cuMemAddressReserve", at, length, (size_t)0, 0ull, 0ull) ||
	       CALL("cuMemMap", *at, length, (size_t)0, physical, 0ull) ||
	       CALL("cuMemSetAccess", *at, length, &access, (size_t)1) || CALL("cuMemRelease", physical);
}

static int cuda_alloc(uint64_t *at, size_t length)
{
	if (is_kind("virtual"))
		return alloc_virtual(at, length);
	if (is_kind("pool"))
		return CALL("cuMemAllocAsync", at, length, NULL) || CALL("cuCtxSynchronize");
	if (is_kind("managed"))
		return CALL("cuMemAllocManaged", at, length, 1u);
	return CALL("cuMemAlloc_v2", at, length);
}

static int free_virtual(uint64_t at)
{
	uint64_t start;
	size_t length;

	return CALL("cuMemGetAddressRange_v2", &start, &length, at) || CALL("cuMemUnmap", start, length) ||
	       CALL("cuMemAddressFree", start, length);
}

static int cuda_free(uint64_t at)
{
	return is_kind("virtual") ? free_virtual(at) : CALL("cuMemFree_v2", at);
}

static int cuda_put(uint64_t to, const void *from, size_t length)
{
	/* it may return before the bytes are there; adapters and uroce can turn that off for some kinds of memory only
	 */
	return CALL("cuMemcpyHtoD_v2", to, from, length) || CALL("cuCtxSynchronize");
}

static int cuda_get(void *to, uint64_t from, size_t length)
{
	return CALL("cuMemcpyDtoH_v2", to, from, length);
}

static int hip_begin(void)
{
	if (!(library = dlopen("libamdhip64.so.7", RTLD_NOW)))
		library = dlopen("libamdhip64.so.6", RTLD_NOW);
	return !library || CALL("hipInit", 0u) || CALL("hipSetDevice", 0);
}

static int hip_alloc(uint64_t *at, size_t length)
{
	return CALL("hipMalloc", at, length);
}

static int hip_free(uint64_t at)
{
	return CALL("hipFree", at);
}

static int hip_device(int number)
{
	return CALL("hipSetDevice", number);
}

static int hip_put(uint64_t to, const void *from, size_t length)
{
	return CALL("hipMemcpy", to, from, length, 1); /* hipMemcpyHostToDevice */
}

static int hip_get(void *to, uint64_t from, size_t length)
{
	return CALL("hipMemcpy", to, from, length, 2); /* hipMemcpyDeviceToHost */
}

static const struct gpu cuda = {cuda_begin, cuda_alloc, cuda_free, cuda_device, cuda_put, cuda_get};
static const struct gpu hip = {hip_begin, hip_alloc, hip_free, hip_device, hip_put, hip_get};
/* GPU_ME in the environment chooses. */
static const struct gpu *vendor(void)
{
	const char *name = getenv("GPU_ME");

	return name && !strcmp(name, "hip") ? &hip : &cuda;
}
