/* SPDX-License-Identifier: BSD-2-Clause */
/* A double of NVIDIA's driver library, libcuda.so.1, for tests on hosts without a GPU. Its device memory cannot be
 * touched by the CPU: an allocation is a memfd that is mapped nowhere, and its device address lies in a range that is
 * reserved without access, so that a stray load or store is a fault. The double copies by pread() and pwrite().
 *
 * An asynchronous copy is late on purpose: it waits in its stream until somebody synchronises the stream, or until
 * more than QUEUE are waiting there. So a missing synchronisation shows. A process that has initialised the double
 * cannot use it in a child of fork(), as with the real library.
 *
 * CUDA_DOUBLE_DEVICES in the environment is the number of devices (default 1, at most DEVICES). With CUDA_DOUBLE_NO_IPC
 * its memory has no handles for other processes, as that of pools. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef API /* the double of HIP has these functions for itself */
#define API __attribute__((visibility("default")))
#endif

/* The values of cuda.h. */
typedef enum {
	SUCCESS = 0,
	INVALID_VALUE = 1,
	OUT_OF_MEMORY = 2,
	NOT_INITIALIZED = 3,
	INVALID_DEVICE = 101,
	INVALID_CONTEXT = 201,
	INVALID_HANDLE = 400,
	NOT_FOUND = 500,
} CUresult;

enum { ATTRIBUTE_CONTEXT = 1, ATTRIBUTE_MEMORY_TYPE, ATTRIBUTE_BUFFER_ID = 7, ATTRIBUTE_ORDINAL = 9 };
enum { TYPE_HOST = 1, TYPE_DEVICE };
enum { HANDLE_DMA_BUF = 1 };
enum { DEVICES = 4, QUEUE = 8, STACK = 32, KERNEL_BYTES = 72 };

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct context *CUcontext;
typedef struct stream *CUstream;
typedef struct module *CUmodule;
typedef struct kernel *CUfunction;
typedef struct {
	char reserved[64];
} CUipcMemHandle;

/* What a handle for another process holds. */
struct handle {
	pid_t pid;
	int fd;
	uint64_t size, id;
};
_Static_assert(sizeof(struct handle) <= sizeof(CUipcMemHandle), "a handle has 64 bytes");

struct work {
	enum { TO_DEVICE, TO_HOST, IN_DEVICE, KERNEL } kind;
	CUdeviceptr to, from, expected;
	void *host;
	size_t size;
};

struct stream {
	struct stream *next;
	struct context *context;
	int queued;
	struct work queue[QUEUE + 1];
};

/* Never freed: programs may ask about a context that is no more. */
struct context {
	int device, references; /* 0 references: it is no more */
	struct stream stream;	/* the default stream */
};

struct memory {
	struct memory *next;
	uintptr_t base;
	size_t size, pages; /* what was asked for, and that in whole pages */
	uint64_t id;
	int fd; /* -1: host memory */
	struct context *context;
	int device;
	bool pooled;	      /* of no context, and without a handle */
	bool reserved;	      /* its addresses are those of a reservation */
	bool no_access;	      /* so far */
	struct physical *of;  /* in a reservation */
	struct handle source; /* pid 0: of this process */
	int opened;	      /* how often the handle was opened */
};

/* Memory that is mapped into reservations. */
struct physical {
	int fd, references;
	size_t size;
};

/* What follows is for who holds the mutex, if nothing else is said. */

/* cuda_devices.c */
extern int devices;

/* Takes the mutex if the double may be used in this process; and if this thread has a context. */
CUresult double_begin(void);
CUresult double_begin_in_context(void);
CUresult double_end(CUresult result);
struct context *context_current(void);

/* cuda_memory.c */
extern struct memory *memory_list;
extern uint64_t memory_ids;

struct memory *memory_find(uintptr_t address, size_t size);
struct memory *memory_find_device(CUdeviceptr address, size_t size);
size_t whole_pages(size_t size);

/* A memfd has a name by which others know it. */
void memory_name(uint64_t id, pid_t pid, char name[static 64]);

/* Adds memory with its addresses: those of device memory without access. Takes the descriptor over. */
CUresult memory_add(struct memory what, struct memory **result);
void memory_drop(struct memory *memory);

/* All of it or an error: either side of a copy may be no memory at all. */
CUresult memory_put(CUdeviceptr to, const void *from, size_t size);
CUresult memory_get(void *to, CUdeviceptr from, size_t size);
CUresult memory_move(CUdeviceptr to, CUdeviceptr from, size_t size);

/* cuda_streams.c */
extern struct stream *stream_list;

/* In the default stream, and done on return. Other streams are not waited for. Without the mutex. */
CUresult stream_do(struct work work);

CUresult stream_drain(struct stream *stream);
void stream_drop(struct stream *stream);

/* Those that the double of HIP calls; without the mutex. */
API CUresult cuCtxSetCurrent(CUcontext context);
API CUresult cuDeviceGetCount(int *count);
API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
API CUresult cuInit(unsigned flags);
API CUresult cuIpcCloseMemHandle(CUdeviceptr address);
API CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address);
API CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags);
API CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size);
API CUresult cuMemFree_v2(CUdeviceptr address);
API CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address);
API CUresult cuMemHostAlloc(void **address, size_t size, unsigned flags);
API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream);
API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream);
API CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size);
API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream stream);
API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size);
API CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr address);
API CUresult cuStreamCreate(CUstream *stream, unsigned flags);
API CUresult cuStreamSynchronize(CUstream handle);
