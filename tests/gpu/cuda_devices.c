// SPDX-License-Identifier: BSD-2-Clause
/* The devices and the contexts of the double. */
#include "cuda_double.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_int initialized; /* the process that has done so */
int devices;
static struct context primary[DEVICES];
static __thread struct context *stack[STACK];
static __thread int depth;

CUresult double_begin(void)
{
	if (atomic_load(&initialized) != getpid())
		return NOT_INITIALIZED;
	pthread_mutex_lock(&mutex);
	return SUCCESS;
}

CUresult double_end(CUresult result)
{
	pthread_mutex_unlock(&mutex);
	return result;
}

struct context *context_current(void)
{
	return depth && stack[depth - 1]->references ? stack[depth - 1] : NULL;
}

CUresult double_begin_in_context(void)
{
	CUresult result = double_begin();

	if (result)
		return result;
	return context_current() ? SUCCESS : double_end(INVALID_CONTEXT);
}

static CUresult context_push(struct context *context)
{
	if (depth == STACK)
		return OUT_OF_MEMORY;
	stack[depth++] = context;
	return SUCCESS;
}

API CUresult cuInit(unsigned flags)
{
	const char *text = getenv("CUDA_DOUBLE_DEVICES");
	int none = 0;

	if (flags)
		return INVALID_VALUE;
	if (!atomic_compare_exchange_strong(&initialized, &none, getpid()))
		return none == getpid() ? SUCCESS : NOT_INITIALIZED;
	pthread_mutex_lock(&mutex);
	devices = text ? atoi(text) : 1;
	devices = devices > DEVICES ? DEVICES : devices;
	for (int i = 0; i < DEVICES; i++)
		primary[i].device = i;
	return double_end(SUCCESS);
}

API CUresult cuDeviceGetCount(int *count)
{
	CUresult result = double_begin();

	if (result)
		return result;
	*count = devices;
	return double_end(SUCCESS);
}

API CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	CUresult result = double_begin();

	if (result)
		return result;
	if (ordinal < 0 || ordinal >= devices)
		return double_end(INVALID_DEVICE);
	*device = ordinal;
	return double_end(SUCCESS);
}

API CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
	CUresult result = double_begin();

	if (result)
		return result;
	if (device < 0 || device >= devices)
		return double_end(INVALID_DEVICE);
	snprintf(name, length, "double of a GPU");
	return double_end(SUCCESS);
}

/* With a context end its stream_list and its memory. */
static void release(struct context *context)
{
	if (--context->references)
		return;
	context->stream.queued = 0;
	for (struct stream *each = stream_list, *next; each; each = next) {
		next = each->next;
		if (each->context == context)
			stream_drop(each);
	}
	for (struct memory *each = memory_list, *next; each; each = next) {
		next = each->next;
		if (each->context == context)
			memory_drop(each);
	}
}

API CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
	CUresult result = double_begin();

	if (result)
		return result;
	if (device < 0 || device >= devices)
		return double_end(INVALID_DEVICE);
	*context = calloc(1, sizeof(**context));
	if (!*context)
		return double_end(OUT_OF_MEMORY);
	(*context)->device = device;
	(*context)->references = 1;
	return double_end(context_push(*context));
}

API CUresult cuCtxDestroy_v2(CUcontext context)
{
	CUresult result = double_begin();

	if (result)
		return result;
	if (!context || !context->references || context == &primary[context->device])
		return double_end(INVALID_CONTEXT);
	if (context == context_current())
		depth--;
	release(context);
	return double_end(SUCCESS);
}

API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	CUresult result = double_begin();

	if (result)
		return result;
	if (device < 0 || device >= devices)
		return double_end(INVALID_DEVICE);
	*context = &primary[device];
	(*context)->references++;
	return double_end(SUCCESS);
}

API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	CUresult result = double_begin();

	if (result)
		return result;
	if (device < 0 || device >= devices)
		return double_end(INVALID_DEVICE);
	if (!primary[device].references)
		return double_end(INVALID_CONTEXT);
	release(&primary[device]);
	return double_end(SUCCESS);
}

API CUresult cuCtxGetCurrent(CUcontext *context)
{
	CUresult result = double_begin();

	if (result)
		return result;
	*context = depth ? stack[depth - 1] : NULL;
	return double_end(SUCCESS);
}

API CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	CUresult result = double_begin();

	if (result)
		return result;
	return double_end(context && context->references ? context_push(context) : INVALID_CONTEXT);
}

API CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
	CUresult result = double_begin();

	if (result)
		return result;
	if (!depth)
		return double_end(INVALID_CONTEXT);
	depth--;
	if (context)
		*context = stack[depth];
	return double_end(SUCCESS);
}

/* Replaces the top of the stack; NULL takes it away. */
API CUresult cuCtxSetCurrent(CUcontext context)
{
	CUresult result = double_begin();

	if (result)
		return result;
	if (context && !context->references)
		return double_end(INVALID_CONTEXT);
	if (depth)
		depth--;
	return double_end(context ? context_push(context) : SUCCESS);
}

API CUresult cuCtxGetDevice(CUdevice *device)
{
	CUresult result = double_begin_in_context();

	if (result)
		return result;
	*device = context_current()->device;
	return double_end(SUCCESS);
}
