/* SPDX-License-Identifier: BSD-2-Clause */
/* NVIDIA's driver: CUDA Driver API, chapters "Unified Addressing", "Memory Management", "Stream Management",
 * "Context Management" and "Primary Context Management". */
#include <string.h>

#include "memory/gpu.h"
#include "memory/gpu_driver.h"

enum {
	POINTER_CONTEXT = 1,
	POINTER_MEMORY_TYPE = 2, /* of which: */
	TYPE_DEVICE = 2,
	POINTER_SYNC_MEMOPS = 6,
	POINTER_BUFFER_ID = 7,
	POINTER_DEVICE_ORDINAL = 9,
	STREAM_NON_BLOCKING = 1, /* does not wait for the default stream */
	HOST_PORTABLE = 1,	 /* pinned for all contexts */
	FILE_DESCRIPTOR = 1,	 /* a kind of handle */
	LOCATION_DEVICE = 1,
	ACCESS_READ_WRITE = 3,
	IPC_PEERS = 1, /* from other devices too, where they can reach it */
};

/* CUmemAccessDesc */
struct access_of {
	int location, device, flags;
};

static const char *const libraries[] = {"libcuda.so.1", NULL};

/* name, arguments; each returns CUresult, 0: success */
#define CUDA_FUNCTIONS(X)                                                                                     \
	X(cuDeviceGetCount, (int *))                                                                          \
	X(cuPointerGetAttribute, (void *data, int attribute, uint64_t at))                                    \
	X(cuMemGetAddressRange_v2, (uint64_t * start, size_t * length, uint64_t at))                          \
	X(cuDeviceGet, (int *device, int ordinal))                                                            \
	X(cuDevicePrimaryCtxRetain, (void **context, int device))                                             \
	X(cuCtxPushCurrent_v2, (void *context))                                                               \
	X(cuCtxPopCurrent_v2, (void **context))                                                               \
	X(cuStreamCreate, (void **stream, unsigned flags))                                                    \
	X(cuStreamSynchronize, (void *stream))                                                                \
	X(cuMemHostAlloc, (void **made, size_t length, unsigned flags))                                       \
	X(cuMemcpyHtoDAsync_v2, (uint64_t to, const void *from, size_t, void *stream))                        \
	X(cuMemcpyDtoHAsync_v2, (void *to, uint64_t from, size_t, void *stream))                              \
	X(cuMemcpyAsync, (uint64_t to, uint64_t from, size_t, void *stream))                                  \
	X(cuPointerSetAttribute, (const void *data, int attribute, uint64_t at)) /* may be missing */         \
	X(cuIpcGetMemHandle, (struct gpu_handle *, uint64_t at))                                              \
	X(cuIpcOpenMemHandle_v2, (uint64_t * at, struct gpu_handle, unsigned flags))                          \
	X(cuIpcCloseMemHandle, (uint64_t at))                                                                 \
	X(cuMemRetainAllocationHandle, (uint64_t * physical, uint64_t at))                                    \
	X(cuMemExportToShareableHandle, (int *fd, uint64_t physical, int type, unsigned long long flags))     \
	X(cuMemImportFromShareableHandle, (uint64_t * physical, intptr_t fd, int type))                       \
	X(cuMemRelease, (uint64_t physical))                                                                  \
	X(cuMemAddressReserve,                                                                                \
	  (uint64_t * at, size_t length, size_t alignment, uint64_t wish, unsigned long long flags))          \
	X(cuMemAddressFree, (uint64_t at, size_t length))                                                     \
	X(cuMemMap, (uint64_t at, size_t length, size_t offset, uint64_t physical, unsigned long long flags)) \
	X(cuMemUnmap, (uint64_t at, size_t length))                                                           \
	X(cuMemSetAccess, (uint64_t at, size_t length, const struct access_of *, size_t count))               \
	X(cuCtxGetDevice, (int *device))

enum { CUDA_FUNCTIONS(GPU_NUMBER) FUNCTIONS };
static const char *const symbols[] = {CUDA_FUNCTIONS(GPU_NAME) NULL};
CUDA_FUNCTIONS(GPU_TYPE)
static void *functions[FUNCTIONS];

static int cuda_count(void)
{
	int count = 0;

	return CALL(cuDeviceGetCount, &count) ? 0 : count;
}

/* Memory of a pool or of a virtual reservation belongs to no context: that of the device does. */
static bool find_context(uint64_t at, void **context)
{
	int ordinal, device;

	if (!CALL(cuPointerGetAttribute, context, POINTER_CONTEXT, at) && *context)
		return true;
	return !CALL(cuPointerGetAttribute, &ordinal, POINTER_DEVICE_ORDINAL, at) &&
	       !CALL(cuDeviceGet, &device, ordinal) && !CALL(cuDevicePrimaryCtxRetain, context, device);
}

static bool cuda_find(uint64_t at, struct gpu_address *a)
{
	unsigned long long serial = 0;
	unsigned type = 0;
	size_t length = 0;

	/* managed memory is of type DEVICE too: copies by the driver suit it wherever its pages are */
	if (CALL(cuPointerGetAttribute, &type, POINTER_MEMORY_TYPE, at) || type != TYPE_DEVICE)
		return false;
	*a = (struct gpu_address){0};
	if (CALL(cuMemGetAddressRange_v2, &a->start, &length, at))
		return false;
	/* a kind of memory without one cannot tell that it was freed */
	if (!CALL(cuPointerGetAttribute, &serial, POINTER_BUFFER_ID, at))
		a->serial = serial;
	a->length = length;
	return true;
}

/* A serial number is that of one allocation for as long as the process lives. */
static bool cuda_is_same(const struct gpu_address *a)
{
	unsigned long long serial = 0;
	struct gpu_address now;

	if (a->serial)
		return !CALL(cuPointerGetAttribute, &serial, POINTER_BUFFER_ID, a->start) && serial == a->serial;
	return cuda_find(a->start, &now) && now.start == a->start;
}

/* The program's synchronous copies return when the bytes are in the memory, not before: GPUDirect RDMA,
 * "Synchronization and Memory Ordering". */
static void cuda_prepare(uint64_t at)
{
	unsigned on = 1;

	if (functions[F_cuPointerSetAttribute])
		CALL(cuPointerSetAttribute, &on, POINTER_SYNC_MEMOPS, at);
}

static bool cuda_enter(void *context, void **before)
{
	*before = NULL;
	return !CALL(cuCtxPushCurrent_v2, context);
}

static void cuda_leave(void *before)
{
	CALL(cuCtxPopCurrent_v2, &before);
}

static bool cuda_stream(void **made)
{
	return !CALL(cuStreamCreate, made, STREAM_NON_BLOCKING);
}

static void *cuda_pinned(size_t length)
{
	void *made = NULL;

	return CALL(cuMemHostAlloc, &made, length, HOST_PORTABLE) ? NULL : made;
}

static bool cuda_to_gpu(uint64_t to, const void *from, size_t length, void *stream)
{
	return !CALL(cuMemcpyHtoDAsync_v2, to, from, length, stream);
}

static bool cuda_to_host(void *to, uint64_t from, size_t length, void *stream)
{
	return !CALL(cuMemcpyDtoHAsync_v2, to, from, length, stream);
}

static bool cuda_within(uint64_t to, uint64_t from, size_t length, void *stream)
{
	return !CALL(cuMemcpyAsync, to, from, length, stream);
}

/* Memory that is mapped in a virtual reservation, if its program has asked for a handle when it was made. */
static bool export_descriptor(struct gpu_export *e)
{
	uint64_t physical;
	bool ok;

	if (!functions[F_cuCtxGetDevice] || CALL(cuMemRetainAllocationHandle, &physical, e->start))
		return false;
	ok = !CALL(cuMemExportToShareableHandle, &e->fd, physical, FILE_DESCRIPTOR, 0);
	CALL(cuMemRelease, physical);
	if (!ok)
		e->fd = -1;
	return ok;
}

static bool cuda_export(struct gpu_export *e)
{
	return functions[F_cuIpcCloseMemHandle] &&
	       (!CALL(cuIpcGetMemHandle, (struct gpu_handle *)e->handle, e->start) || export_descriptor(e));
}

static bool map_physical(uint64_t *start, uint64_t length, uint64_t physical)
{
	struct access_of all = {.location = LOCATION_DEVICE, .flags = ACCESS_READ_WRITE};

	if (CALL(cuCtxGetDevice, &all.device) || CALL(cuMemAddressReserve, start, length, 0, 0, 0))
		return false;
	if (!CALL(cuMemMap, *start, length, 0, physical, 0)) {
		if (!CALL(cuMemSetAccess, *start, length, &all, 1))
			return true;
		CALL(cuMemUnmap, *start, length);
	}
	CALL(cuMemAddressFree, *start, length);
	return false;
}

static bool import_descriptor(uint64_t *start, const struct gpu_export *e)
{
	uint64_t physical;
	bool ok;

	if (!functions[F_cuCtxGetDevice] || CALL(cuMemImportFromShareableHandle, &physical, e->fd, FILE_DESCRIPTOR))
		return false;
	ok = map_physical(start, e->length, physical);
	CALL(cuMemRelease, physical); /* the mapping keeps it */
	return ok;
}

static bool cuda_import(uint64_t *start, const struct gpu_export *e)
{
	struct gpu_handle h;

	if (e->fd >= 0)
		return import_descriptor(start, e);
	memcpy(&h, e->handle, sizeof(h));
	return functions[F_cuIpcCloseMemHandle] && !CALL(cuIpcOpenMemHandle_v2, start, h, IPC_PEERS);
}

static void cuda_close(uint64_t start, uint64_t length, bool by_fd)
{
	if (!by_fd) {
		CALL(cuIpcCloseMemHandle, start);
		return;
	}
	CALL(cuMemUnmap, start, length);
	CALL(cuMemAddressFree, start, length);
}

static bool cuda_wait(void *stream)
{
	return !CALL(cuStreamSynchronize, stream);
}

const struct gpu_driver gpu_cuda = {
	.name = "CUDA",
	.libraries = libraries,
	.symbols = symbols,
	.functions = functions,
	.required = F_cuPointerSetAttribute,
	.count = cuda_count,
	.find = cuda_find,
	.is_same = cuda_is_same,
	.prepare = cuda_prepare,
	.context = find_context,
	.enter = cuda_enter,
	.leave = cuda_leave,
	.stream = cuda_stream,
	.pinned = cuda_pinned,
	.to_gpu = cuda_to_gpu,
	.to_host = cuda_to_host,
	.within = cuda_within,
	.wait = cuda_wait,
	.export = cuda_export,
	.import = cuda_import,
	.close = cuda_close,
};
