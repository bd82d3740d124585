/* SPDX-License-Identifier: BSD-2-Clause */
/* AMD's ROCm: HIP Runtime API, chapters "Memory Management", "Stream Management" and "Device Management". A context is
 * the number of a device, plus 1. */
#include <string.h>

#include "memory/gpu.h"
#include "memory/gpu_driver.h"

enum {
	TYPE_DEVICE = 2,
	STREAM_NON_BLOCKING = 1,
	HOST_PORTABLE = 1,
	IPC_PEERS = 1,
};

/* hipPointerAttribute_t of ROCm 6 */
struct pointer {
	int type, device;
	void *device_pointer, *host_pointer;
	int managed;
	unsigned flags;
};

static const char *const libraries[] = {"libamdhip64.so.7", "libamdhip64.so.6", NULL};

/* name, arguments; each returns hipError_t, 0: success */
#define HIP_FUNCTIONS(X)                                                          \
	X(hipGetDeviceCount, (int *))                                             \
	X(hipGetDevice, (int *))                                                  \
	X(hipSetDevice, (int))                                                    \
	X(hipPointerGetAttributes, (struct pointer *, const void *at))            \
	X(hipMemGetAddressRange, (void **start, size_t *length, void *at))        \
	X(hipStreamCreateWithFlags, (void **stream, unsigned flags))              \
	X(hipStreamSynchronize, (void *stream))                                   \
	X(hipHostMalloc, (void **made, size_t length, unsigned flags))            \
	X(hipMemcpyHtoDAsync, (void *to, const void *from, size_t, void *stream)) \
	X(hipMemcpyDtoHAsync, (void *to, void *from, size_t, void *stream))       \
	X(hipMemcpyDtoDAsync, (void *to, void *from, size_t, void *stream))       \
	X(hipIpcGetMemHandle, (struct gpu_handle *, void *at))                    \
	X(hipIpcOpenMemHandle, (void **at, struct gpu_handle, unsigned flags))    \
	X(hipIpcCloseMemHandle, (void *at))

enum { HIP_FUNCTIONS(GPU_NUMBER) FUNCTIONS };
static const char *const symbols[] = {HIP_FUNCTIONS(GPU_NAME) NULL};
HIP_FUNCTIONS(GPU_TYPE)
static void *functions[FUNCTIONS];

static void *as_pointer(uint64_t at)
{
	return (void *)(uintptr_t)at;
}

static int hip_count(void)
{
	int count = 0;

	return CALL(hipGetDeviceCount, &count) ? 0 : count;
}

static bool hip_find(uint64_t at, struct gpu_address *a)
{
	struct pointer p = {0};
	void *start = NULL;
	size_t length = 0;

	if (CALL(hipPointerGetAttributes, &p, as_pointer(at)) || p.type != TYPE_DEVICE ||
	    CALL(hipMemGetAddressRange, &start, &length, as_pointer(at)))
		return false;
	*a = (struct gpu_address){.start = (uintptr_t)start, .length = length}; /* HIP has no serial numbers */
	return true;
}

static bool hip_is_same(const struct gpu_address *a)
{
	struct gpu_address now;

	return hip_find(a->start, &now) && now.start == a->start;
}

static bool hip_context(uint64_t at, void **context)
{
	struct pointer p = {0};

	if (CALL(hipPointerGetAttributes, &p, as_pointer(at)))
		return false;
	*context = as_pointer((uint64_t)p.device + 1);
	return true;
}

static bool hip_enter(void *context, void **before)
{
	int device;

	if (CALL(hipGetDevice, &device) || CALL(hipSetDevice, (int)(uintptr_t)context - 1))
		return false;
	*before = as_pointer((uint64_t)device + 1);
	return true;
}

static void hip_leave(void *before)
{
	CALL(hipSetDevice, (int)(uintptr_t)before - 1);
}

static bool hip_stream(void **made)
{
	return !CALL(hipStreamCreateWithFlags, made, STREAM_NON_BLOCKING);
}

static void *hip_pinned(size_t length)
{
	void *made = NULL;

	return CALL(hipHostMalloc, &made, length, HOST_PORTABLE) ? NULL : made;
}

static bool hip_to_gpu(uint64_t to, const void *from, size_t length, void *stream)
{
	return !CALL(hipMemcpyHtoDAsync, as_pointer(to), from, length, stream);
}

static bool hip_to_host(void *to, uint64_t from, size_t length, void *stream)
{
	return !CALL(hipMemcpyDtoHAsync, to, as_pointer(from), length, stream);
}

static bool hip_within(uint64_t to, uint64_t from, size_t length, void *stream)
{
	return !CALL(hipMemcpyDtoDAsync, as_pointer(to), as_pointer(from), length, stream);
}

static bool hip_export(struct gpu_export *e)
{
	return !CALL(hipIpcGetMemHandle, (struct gpu_handle *)e->handle, as_pointer(e->start));
}

static bool hip_import(uint64_t *start, const struct gpu_export *e)
{
	struct gpu_handle h;
	void *at;

	memcpy(&h, e->handle, sizeof(h));
	if (e->fd >= 0 || CALL(hipIpcOpenMemHandle, &at, h, IPC_PEERS))
		return false;
	*start = (uintptr_t)at;
	return true;
}

static void hip_close(uint64_t start, uint64_t length, bool by_fd)
{
	CALL(hipIpcCloseMemHandle, as_pointer(start));
}

static bool hip_wait(void *stream)
{
	return !CALL(hipStreamSynchronize, stream);
}

const struct gpu_driver gpu_hip = {
	.name = "HIP",
	.libraries = libraries,
	.symbols = symbols,
	.functions = functions,
	.required = FUNCTIONS,
	.count = hip_count,
	.find = hip_find,
	.is_same = hip_is_same,
	.context = hip_context,
	.enter = hip_enter,
	.leave = hip_leave,
	.stream = hip_stream,
	.pinned = hip_pinned,
	.to_gpu = hip_to_gpu,
	.to_host = hip_to_host,
	.within = hip_within,
	.wait = hip_wait,
	.export = hip_export,
	.import = hip_import,
	.close = hip_close,
};
