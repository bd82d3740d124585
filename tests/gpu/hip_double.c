// SPDX-License-Identifier: BSD-2-Clause
/* A double of AMD's HIP runtime, libamdhip64.so.6 (ROCm 6), for tests on hosts without a GPU: as much of it as uroce
 * and gpu_me call, in front of the double of CUDA's driver, which says what its memory and its streams are like. A
 * device of HIP is one of CUDA with its primary context.
 *
 * As with the real one a thread starts with device 0, and the first call of any function initialises the library. */
#include "cuda_double.h"

#include <string.h>

#define HIP __attribute__((visibility("default")))

/* The values of hip_runtime_api.h. The errors that both have in common have the same numbers. */
typedef CUresult hipError_t;
enum { NO_DEVICE = 100 };
enum { HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, COPY_DEFAULT };
enum { HOST_MALLOC_FLAGS = 0x7 }; /* portable, mapped, write-combined */
enum { NON_BLOCKING = 1 };

typedef struct {
	int type, device;
	void *device_pointer, *host_pointer;
	int managed;
	unsigned flags;
} hipPointerAttribute_t;

static __thread bool has_device;
static __thread int device_here;

/* The CUDA context of the device becomes the one of this thread. */
static hipError_t choose(int device)
{
	CUcontext context;
	hipError_t result = cuDevicePrimaryCtxRetain(&context, device);

	if (!result)
		result = cuCtxSetCurrent(context);
	if (result)
		return result;
	has_device = true;
	device_here = device;
	return SUCCESS;
}

/* What each function does first. */
static hipError_t initialise(void)
{
	hipError_t result = cuInit(0);

	if (result)
		return result;
	if (devices <= 0)
		return (hipError_t)NO_DEVICE;
	return has_device ? SUCCESS : choose(0);
}

/* Devices */

HIP hipError_t hipInit(unsigned flags)
{
	return flags ? INVALID_VALUE : initialise();
}

HIP hipError_t hipGetDeviceCount(int *count)
{
	hipError_t result = initialise();

	if (!count)
		return INVALID_VALUE;
	*count = 0;
	return result ? result : cuDeviceGetCount(count);
}

HIP hipError_t hipGetDevice(int *device)
{
	hipError_t result = initialise();

	if (result || !device)
		return result ? result : INVALID_VALUE;
	*device = device_here;
	return SUCCESS;
}

HIP hipError_t hipSetDevice(int device)
{
	hipError_t result = initialise();

	return result ? result : choose(device);
}

/* Memory */

HIP hipError_t hipMalloc(void **made, size_t size)
{
	CUdeviceptr at = 0;
	hipError_t result = initialise();

	if (result || !made)
		return result ? result : INVALID_VALUE;
	if (size)
		result = cuMemAlloc_v2(&at, size);
	*made = (void *)(uintptr_t)at;
	return result;
}

HIP hipError_t hipFree(void *memory)
{
	hipError_t result = initialise();

	return result ? result : cuMemFree_v2((uintptr_t)memory);
}

HIP hipError_t hipHostMalloc(void **made, size_t size, unsigned flags)
{
	hipError_t result = initialise();

	if (result || !made || flags & ~HOST_MALLOC_FLAGS)
		return result ? result : INVALID_VALUE;
	*made = NULL;
	return size ? cuMemHostAlloc(made, size, flags) : SUCCESS;
}

/* Of any device, whichever is the thread's. Memory that HIP did not make is an error with ROCm 6. */
HIP hipError_t hipPointerGetAttributes(hipPointerAttribute_t *attributes, const void *at)
{
	unsigned type;
	int device;
	hipError_t result = initialise();

	if (result || !attributes || cuPointerGetAttribute(&type, ATTRIBUTE_MEMORY_TYPE, (uintptr_t)at) ||
	    cuPointerGetAttribute(&device, ATTRIBUTE_ORDINAL, (uintptr_t)at))
		return result ? result : INVALID_VALUE;
	*attributes = (hipPointerAttribute_t){
		.type = type,
		.device = device,
		.device_pointer = (void *)at,
		.host_pointer = type == TYPE_HOST ? (void *)at : NULL,
	};
	return SUCCESS;
}

HIP hipError_t hipMemGetAddressRange(void **base, size_t *size, void *at)
{
	CUdeviceptr start;
	hipError_t result = initialise();

	if (result)
		return result;
	if (cuMemGetAddressRange_v2(&start, size, (uintptr_t)at))
		return NOT_FOUND;
	if (base)
		*base = (void *)(uintptr_t)start;
	return SUCCESS;
}

/* Streams and copies */

HIP hipError_t hipStreamCreateWithFlags(CUstream *stream, unsigned flags)
{
	hipError_t result = initialise();

	if (result || !stream || flags & ~NON_BLOCKING)
		return result ? result : INVALID_VALUE;
	return cuStreamCreate(stream, flags);
}

HIP hipError_t hipStreamSynchronize(CUstream stream)
{
	hipError_t result = initialise();

	return result ? result : cuStreamSynchronize(stream);
}

HIP hipError_t hipMemcpyHtoDAsync(void *to, const void *from, size_t size, CUstream stream)
{
	hipError_t result = initialise();

	return result ? result : cuMemcpyHtoDAsync_v2((uintptr_t)to, from, size, stream);
}

HIP hipError_t hipMemcpyDtoDAsync(void *to, void *from, size_t size, CUstream stream)
{
	hipError_t result = initialise();

	return result ? result : cuMemcpyDtoDAsync_v2((uintptr_t)to, (uintptr_t)from, size, stream);
}

/* Other processes */

HIP hipError_t hipIpcGetMemHandle(CUipcMemHandle *handle, void *at)
{
	hipError_t result = initialise();

	return result ? result : cuIpcGetMemHandle(handle, (uintptr_t)at);
}

HIP hipError_t hipIpcOpenMemHandle(void **at, CUipcMemHandle handle, unsigned flags)
{
	CUdeviceptr opened = 0;
	hipError_t result = initialise();

	if (!result)
		result = cuIpcOpenMemHandle_v2(&opened, handle, flags);
	*at = (void *)(uintptr_t)opened;
	return result;
}

HIP hipError_t hipIpcCloseMemHandle(void *at)
{
	hipError_t result = initialise();

	return result ? result : cuIpcCloseMemHandle((uintptr_t)at);
}

HIP hipError_t hipMemcpyDtoHAsync(void *to, void *from, size_t size, CUstream stream)
{
	hipError_t result = initialise();

	return result ? result : cuMemcpyDtoHAsync_v2(to, (uintptr_t)from, size, stream);
}

static bool is_device(const void *at)
{
	unsigned type;

	return !cuPointerGetAttribute(&type, ATTRIBUTE_MEMORY_TYPE, (uintptr_t)at) && type == TYPE_DEVICE;
}

static int kind_of(const void *to, const void *from)
{
	if (is_device(to))
		return is_device(from) ? DEVICE_TO_DEVICE : HOST_TO_DEVICE;
	return is_device(from) ? DEVICE_TO_HOST : HOST_TO_HOST;
}

HIP hipError_t hipMemcpy(void *to, const void *from, size_t size, int kind)
{
	hipError_t result = initialise();

	if (result || !size)
		return result;
	switch (kind == COPY_DEFAULT ? kind_of(to, from) : kind) {
	case HOST_TO_HOST:
		memcpy(to, from, size);
		return SUCCESS;
	case HOST_TO_DEVICE:
		return cuMemcpyHtoD_v2((uintptr_t)to, from, size);
	case DEVICE_TO_HOST:
		return cuMemcpyDtoH_v2(to, (uintptr_t)from, size);
	case DEVICE_TO_DEVICE:
		return stream_do(
			(struct work){.kind = IN_DEVICE, .to = (uintptr_t)to, .from = (uintptr_t)from, .size = size});
	}
	return (hipError_t)21; /* hipErrorInvalidMemcpyDirection */
}
