// SPDX-License-Identifier: BSD-2-Clause
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
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

enum { ATTRIBUTE_CONTEXT = 1, ATTRIBUTE_MEMORY_TYPE, ATTRIBUTE_BUFFER_ID = 7, ATTRIBUTE_IS_MANAGED, ATTRIBUTE_ORDINAL };
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

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_int initialized; /* the process that has done so */
static int devices;
static uint64_t ids;
static struct context primary[DEVICES];
static struct memory *memories;
static struct stream *streams;
static __thread struct context *stack[STACK];
static __thread int depth;

/* Takes the mutex if the double may be used in this process. */
static CUresult begin(void)
{
	if (atomic_load(&initialized) != getpid())
		return NOT_INITIALIZED;
	pthread_mutex_lock(&mutex);
	return SUCCESS;
}

static CUresult end(CUresult result)
{
	pthread_mutex_unlock(&mutex);
	return result;
}

static struct context *current(void)
{
	return depth && stack[depth - 1]->references ? stack[depth - 1] : NULL;
}

/* The same as begin(), for calls that need a context. */
static CUresult begin_in_context(void)
{
	CUresult result = begin();

	if (result)
		return result;
	return current() ? SUCCESS : end(INVALID_CONTEXT);
}

static CUresult push(struct context *context)
{
	if (depth == STACK)
		return OUT_OF_MEMORY;
	stack[depth++] = context;
	return SUCCESS;
}

/* Memory */

static struct memory *find(uintptr_t address, size_t size)
{
	for (struct memory *memory = memories; memory; memory = memory->next)
		if (address >= memory->base && address - memory->base < memory->size &&
		    size <= memory->size - (address - memory->base))
			return memory;
	return NULL;
}

static struct memory *find_device(CUdeviceptr address, size_t size)
{
	struct memory *memory = find(address, size);

	return memory && memory->fd >= 0 && !memory->no_access ? memory : NULL;
}

/* A memfd has a name by which others know it. */
static void name_of(uint64_t id, pid_t pid, char name[static 64])
{
	snprintf(name, 64, "cuda-double-%d-%llu", (int)pid, (unsigned long long)id);
}

/* Adds memory with its addresses: those of device memory without access. Takes the descriptor over. */
static CUresult add(struct memory what, struct memory **result)
{
	int protection = what.fd < 0 ? PROT_READ | PROT_WRITE : PROT_NONE;
	struct memory *memory = malloc(sizeof(*memory));
	void *base = mmap(NULL, what.pages, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (!memory || base == MAP_FAILED) {
		free(memory);
		if (base != MAP_FAILED)
			munmap(base, what.pages);
		if (what.fd >= 0)
			close(what.fd);
		return OUT_OF_MEMORY;
	}
	*memory = what;
	memory->base = (uintptr_t)base;
	memory->context = what.pooled ? NULL : current();
	memory->device = current()->device;
	memory->next = memories;
	*result = memories = memory;
	return SUCCESS;
}

static void drop(struct memory *memory)
{
	struct memory **place = &memories;

	while (*place != memory)
		place = &(*place)->next;
	*place = memory->next;
	if (!memory->reserved)
		munmap((void *)memory->base, memory->pages);
	if (memory->fd >= 0)
		close(memory->fd);
	free(memory);
}

static size_t whole_pages(size_t size)
{
	size_t page = sysconf(_SC_PAGESIZE);

	return (size + page - 1) / page * page;
}

static CUresult allocate(size_t size, bool host, struct memory **result)
{
	struct memory what = {.size = size, .pages = whole_pages(size), .id = ++ids, .fd = -1};
	char name[64];

	if (!size || what.pages < size)
		return size ? OUT_OF_MEMORY : INVALID_VALUE;
	if (host)
		return add(what, result);
	name_of(what.id, getpid(), name);
	what.fd = memfd_create(name, MFD_CLOEXEC);
	if (what.fd < 0)
		return OUT_OF_MEMORY;
	if (ftruncate(what.fd, what.pages)) {
		close(what.fd);
		return OUT_OF_MEMORY;
	}
	return add(what, result);
}

/* All of it or an error: either side of a copy may be no memory at all. */
static CUresult put(CUdeviceptr to, const void *from, size_t size)
{
	struct memory *memory = find_device(to, size);

	for (size_t done = 0; memory && done < size;) {
		ssize_t n = pwrite(memory->fd, (const char *)from + done, size - done, to - memory->base + done);

		if (n <= 0)
			return INVALID_VALUE;
		done += n;
	}
	return memory ? SUCCESS : INVALID_VALUE;
}

static CUresult get(void *to, CUdeviceptr from, size_t size)
{
	struct memory *memory = find_device(from, size);

	for (size_t done = 0; memory && done < size;) {
		ssize_t n = pread(memory->fd, (char *)to + done, size - done, from - memory->base + done);

		if (n <= 0)
			return INVALID_VALUE;
		done += n;
	}
	return memory ? SUCCESS : INVALID_VALUE;
}

static CUresult move(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	static char buffer[1 << 16]; /* behind the mutex */
	CUresult result = SUCCESS;

	for (size_t done = 0, n; !result && done < size; done += n) {
		n = size - done < sizeof(buffer) ? size - done : sizeof(buffer);
		result = get(buffer, from + done, n);
		if (!result)
			result = put(to + done, buffer, n);
	}
	return result;
}

/* The kernel of examples/qp_across_hosts_gpu.c: sets the flag if both hold the same bytes. */
static CUresult check(CUdeviceptr memory, CUdeviceptr expected, CUdeviceptr flag)
{
	char is[KERNEL_BYTES], should[KERNEL_BYTES];

	if (get(is, memory, sizeof(is)) || get(should, expected, sizeof(should)))
		return INVALID_VALUE;
	return memcmp(is, should, sizeof(is)) ? SUCCESS : put(flag, &(uint32_t){1}, sizeof(uint32_t));
}

/* Streams */

static CUresult execute(const struct work *work)
{
	switch (work->kind) {
	case TO_DEVICE:
		return put(work->to, work->host, work->size);
	case TO_HOST:
		return get(work->host, work->from, work->size);
	case IN_DEVICE:
		return move(work->to, work->from, work->size);
	case KERNEL:
		return check(work->from, work->expected, work->to);
	}
	return INVALID_VALUE;
}

static CUresult drain(struct stream *stream)
{
	CUresult first = SUCCESS, result;

	for (int i = 0; i < stream->queued; i++) {
		result = execute(&stream->queue[i]);
		if (!first)
			first = result;
	}
	stream->queued = 0;
	return first;
}

/* The stream that a call means, NULL if there is none such in this context. */
static struct stream *stream_of(CUstream stream)
{
	struct stream *each = streams;

	if (!stream)
		return &current()->stream;
	while (each && each != stream)
		each = each->next;
	return each && each->context == current() ? each : NULL;
}

static CUresult enqueue(CUstream handle, struct work work)
{
	struct stream *stream = stream_of(handle);
	size_t to = work.kind == KERNEL ? sizeof(uint32_t) : work.size;

	if (!stream)
		return INVALID_HANDLE;
	if (work.kind != TO_HOST && !find_device(work.to, to))
		return INVALID_VALUE;
	if (work.kind != TO_DEVICE && !find_device(work.from, work.size))
		return INVALID_VALUE;
	if (work.kind == KERNEL && !find_device(work.expected, work.size))
		return INVALID_VALUE;
	stream->queue[stream->queued++] = work;
	return stream->queued > QUEUE ? drain(stream) : SUCCESS;
}

static CUresult late(CUstream stream, struct work work)
{
	CUresult result = begin_in_context();

	return result ? result : end(enqueue(stream, work));
}

/* In the default stream, and done on return. Other streams are not waited for. */
static CUresult at_once(struct work work)
{
	CUresult result = begin_in_context();

	if (result)
		return result;
	result = enqueue(NULL, work);
	return end(result ? result : drain(&current()->stream));
}

static void drop_stream(struct stream *stream)
{
	struct stream **place = &streams;

	while (*place != stream)
		place = &(*place)->next;
	*place = stream->next;
	free(stream);
}

API CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
	CUresult result = begin_in_context();

	if (result)
		return result;
	*stream = calloc(1, sizeof(**stream));
	if (!*stream)
		return end(OUT_OF_MEMORY);
	(*stream)->context = current();
	(*stream)->next = streams;
	streams = *stream;
	return end(SUCCESS);
}

API CUresult cuStreamSynchronize(CUstream handle)
{
	CUresult result = begin_in_context();
	struct stream *stream;

	if (result)
		return result;
	stream = stream_of(handle);
	return end(stream ? drain(stream) : INVALID_HANDLE);
}

API CUresult cuCtxSynchronize(void)
{
	CUresult result = begin_in_context();

	if (result)
		return result;
	result = drain(&current()->stream);
	for (struct stream *each = streams; each; each = each->next)
		if (each->context == current() && !result)
			result = drain(each);
	return end(result);
}

API CUresult cuStreamDestroy_v2(CUstream handle)
{
	CUresult result = begin_in_context();
	struct stream *stream;

	if (result)
		return result;
	stream = handle ? stream_of(handle) : NULL;
	if (!stream)
		return end(INVALID_HANDLE);
	result = drain(stream);
	drop_stream(stream);
	return end(result);
}

API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
	return late(stream, (struct work){.kind = TO_DEVICE, .to = to, .host = (void *)from, .size = size});
}

API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
	return late(stream, (struct work){.kind = TO_HOST, .host = to, .from = from, .size = size});
}

API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	return late(stream, (struct work){.kind = IN_DEVICE, .to = to, .from = from, .size = size});
}

/* Only within the GPU. */
API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	return cuMemcpyDtoDAsync_v2(to, from, size, stream);
}

API CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	return at_once((struct work){.kind = IN_DEVICE, .to = to, .from = from, .size = size});
}

API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size)
{
	return at_once((struct work){.kind = TO_DEVICE, .to = to, .host = (void *)from, .size = size});
}

API CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size)
{
	return at_once((struct work){.kind = TO_HOST, .host = to, .from = from, .size = size});
}

API CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char byte, size_t size)
{
	char *bytes = malloc(size ? size : 1);
	CUresult result;

	if (!bytes)
		return OUT_OF_MEMORY;
	memset(bytes, byte, size);
	result = cuMemcpyHtoD_v2(to, bytes, size);
	free(bytes);
	return result;
}

/* Devices and contexts */

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
	return end(SUCCESS);
}

API CUresult cuDeviceGetCount(int *count)
{
	CUresult result = begin();

	if (result)
		return result;
	*count = devices;
	return end(SUCCESS);
}

API CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	CUresult result = begin();

	if (result)
		return result;
	if (ordinal < 0 || ordinal >= devices)
		return end(INVALID_DEVICE);
	*device = ordinal;
	return end(SUCCESS);
}

API CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
	CUresult result = begin();

	if (result)
		return result;
	if (device < 0 || device >= devices)
		return end(INVALID_DEVICE);
	snprintf(name, length, "double of a GPU");
	return end(SUCCESS);
}

/* With a context end its streams and its memory. */
static void release(struct context *context)
{
	if (--context->references)
		return;
	context->stream.queued = 0;
	for (struct stream *each = streams, *next; each; each = next) {
		next = each->next;
		if (each->context == context)
			drop_stream(each);
	}
	for (struct memory *each = memories, *next; each; each = next) {
		next = each->next;
		if (each->context == context)
			drop(each);
	}
}

API CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
	CUresult result = begin();

	if (result)
		return result;
	if (device < 0 || device >= devices)
		return end(INVALID_DEVICE);
	*context = calloc(1, sizeof(**context));
	if (!*context)
		return end(OUT_OF_MEMORY);
	(*context)->device = device;
	(*context)->references = 1;
	return end(push(*context));
}

API CUresult cuCtxDestroy_v2(CUcontext context)
{
	CUresult result = begin();

	if (result)
		return result;
	if (!context || !context->references || context == &primary[context->device])
		return end(INVALID_CONTEXT);
	if (context == current())
		depth--;
	release(context);
	return end(SUCCESS);
}

API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	CUresult result = begin();

	if (result)
		return result;
	if (device < 0 || device >= devices)
		return end(INVALID_DEVICE);
	*context = &primary[device];
	(*context)->references++;
	return end(SUCCESS);
}

API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	CUresult result = begin();

	if (result)
		return result;
	if (device < 0 || device >= devices)
		return end(INVALID_DEVICE);
	if (!primary[device].references)
		return end(INVALID_CONTEXT);
	release(&primary[device]);
	return end(SUCCESS);
}

API CUresult cuCtxGetCurrent(CUcontext *context)
{
	CUresult result = begin();

	if (result)
		return result;
	*context = depth ? stack[depth - 1] : NULL;
	return end(SUCCESS);
}

API CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	CUresult result = begin();

	if (result)
		return result;
	return end(context && context->references ? push(context) : INVALID_CONTEXT);
}

API CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
	CUresult result = begin();

	if (result)
		return result;
	if (!depth)
		return end(INVALID_CONTEXT);
	depth--;
	if (context)
		*context = stack[depth];
	return end(SUCCESS);
}

/* Replaces the top of the stack; NULL takes it away. */
API CUresult cuCtxSetCurrent(CUcontext context)
{
	CUresult result = begin();

	if (result)
		return result;
	if (context && !context->references)
		return end(INVALID_CONTEXT);
	if (depth)
		depth--;
	return end(context ? push(context) : SUCCESS);
}

/* Allocations */

API CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size)
{
	CUresult result = begin_in_context();
	struct memory *memory;

	if (result)
		return result;
	result = allocate(size, false, &memory);
	if (!result)
		*address = memory->base;
	return end(result);
}

/* Waits for what the device still has to do, as the real one does in fact. */
API CUresult cuMemFree_v2(CUdeviceptr address)
{
	CUresult result = begin_in_context();
	struct memory *memory;

	if (result || !address)
		return result ? result : end(SUCCESS);
	memory = find_device(address, 1);
	if (!memory || memory->base != address || memory->source.pid)
		return end(INVALID_VALUE);
	drain(&current()->stream);
	for (struct stream *each = streams; each; each = each->next)
		drain(each);
	drop(memory);
	return end(SUCCESS);
}

/* Of a pool: it belongs to no context. */
API CUresult cuMemAllocAsync(CUdeviceptr *address, size_t size, CUstream stream)
{
	CUresult result = begin_in_context();
	struct memory *memory;

	if (result)
		return result;
	result = allocate(size, false, &memory);
	if (!result) {
		*address = memory->base;
		memory->pooled = true;
		memory->context = NULL;
	}
	return end(result);
}

/* The processor can access it, too. */
API CUresult cuMemAllocManaged(CUdeviceptr *address, size_t size, unsigned flags)
{
	CUresult result = begin_in_context();
	struct memory *memory;

	if (result)
		return result;
	result = allocate(size, false, &memory);
	if (result)
		return end(result);
	memory->pooled = true;
	*address = memory->base;
	return end(mmap((void *)memory->base, memory->pages, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory->fd,
			0) == MAP_FAILED
			   ? OUT_OF_MEMORY
			   : SUCCESS);
}

API CUresult cuMemHostAlloc(void **address, size_t size, unsigned flags)
{
	CUresult result = begin_in_context();
	struct memory *memory;

	if (result)
		return result;
	result = allocate(size, true, &memory);
	if (!result)
		*address = (void *)memory->base;
	return end(result);
}

API CUresult cuMemFreeHost(void *address)
{
	CUresult result = begin_in_context();
	struct memory *memory;

	if (result)
		return result;
	memory = find((uintptr_t)address, 1);
	if (!memory || memory->fd >= 0 || memory->base != (uintptr_t)address)
		return end(INVALID_VALUE);
	drop(memory);
	return end(SUCCESS);
}

API CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
	CUresult result = begin_in_context();
	struct memory *memory;

	if (result)
		return result;
	memory = find_device(address, 1);
	if (!memory)
		return end(INVALID_VALUE);
	if (base)
		*base = memory->base;
	if (size)
		*size = memory->size;
	return end(SUCCESS);
}

static CUresult attribute_of(const struct memory *memory, int attribute, void *data)
{
	switch (attribute) {
	case ATTRIBUTE_CONTEXT:
		*(CUcontext *)data = memory->context;
		return SUCCESS;
	case ATTRIBUTE_MEMORY_TYPE:
		*(unsigned *)data = memory->fd < 0 ? TYPE_HOST : TYPE_DEVICE;
		return SUCCESS;
	case ATTRIBUTE_BUFFER_ID:
		*(unsigned long long *)data = memory->id;
		return SUCCESS;
	case ATTRIBUTE_IS_MANAGED:
		*(unsigned *)data = 0;
		return SUCCESS;
	case ATTRIBUTE_ORDINAL:
		*(int *)data = memory->device;
		return SUCCESS;
	}
	return INVALID_VALUE;
}

API CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr address)
{
	CUresult result = begin();
	struct memory *memory;

	if (result)
		return result;
	memory = find(address, 1);
	return end(memory ? attribute_of(memory, attribute, data) : INVALID_VALUE);
}

/* Virtual reservations. A handle is the address of a struct physical. */

API CUresult cuMemGetAllocationGranularity(size_t *granularity, const void *properties, int option)
{
	*granularity = 2 << 20;
	return SUCCESS;
}

static CUresult add_physical(uint64_t *handle, int fd, size_t size)
{
	struct physical *made = malloc(sizeof(*made));

	if (!made || fd < 0) {
		free(made);
		return OUT_OF_MEMORY;
	}
	*made = (struct physical){fd, 1, size};
	*handle = (uintptr_t)made;
	return SUCCESS;
}

static void put_physical(struct physical *p)
{
	if (--p->references)
		return;
	close(p->fd);
	free(p);
}

API CUresult cuMemCreate(uint64_t *handle, size_t size, const void *properties, unsigned long long flags)
{
	CUresult result = begin();
	int fd;

	if (result)
		return result;
	fd = memfd_create("cuda-double-physical", MFD_CLOEXEC);
	if (size % (2 << 20) || fd < 0 || ftruncate(fd, size))
		return end(INVALID_VALUE);
	return end(add_physical(handle, fd, size));
}

API CUresult cuMemRelease(uint64_t handle)
{
	CUresult result = begin();

	if (result)
		return result;
	put_physical((struct physical *)(uintptr_t)handle);
	return end(SUCCESS);
}

API CUresult cuMemAddressReserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr wish,
				 unsigned long long flags)
{
	void *at = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	*address = (uintptr_t)at;
	return at == MAP_FAILED ? OUT_OF_MEMORY : SUCCESS;
}

API CUresult cuMemAddressFree(CUdeviceptr address, size_t size)
{
	return munmap((void *)(uintptr_t)address, size) ? INVALID_VALUE : SUCCESS;
}

API CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, uint64_t handle, unsigned long long flags)
{
	struct physical *p = (struct physical *)(uintptr_t)handle;
	struct memory *memory = malloc(sizeof(*memory));
	CUresult result = begin();

	if (result || !memory || offset || size > p->size) {
		free(memory);
		return result ? result : end(INVALID_VALUE);
	}
	p->references++;
	*memory = (struct memory){.next = memories,
				  .base = address,
				  .size = size,
				  .pages = size,
				  .id = ++ids,
				  .fd = dup(p->fd),
				  .pooled = true,
				  .reserved = true,
				  .no_access = true,
				  .of = p};
	memories = memory;
	return end(SUCCESS);
}

API CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const void *descriptions, size_t count)
{
	CUresult result = begin();
	struct memory *memory;

	if (result)
		return result;
	memory = find(address, size);
	if (!memory || !memory->reserved)
		return end(INVALID_VALUE);
	memory->no_access = false;
	return end(SUCCESS);
}

API CUresult cuMemUnmap(CUdeviceptr address, size_t size)
{
	CUresult result = begin();
	struct memory *memory;

	if (result)
		return result;
	memory = find(address, size);
	if (!memory || !memory->reserved || memory->size != size)
		return end(INVALID_VALUE);
	put_physical(memory->of);
	drop(memory);
	return end(SUCCESS);
}

API CUresult cuMemRetainAllocationHandle(uint64_t *handle, CUdeviceptr address)
{
	CUresult result = begin();
	struct memory *memory;

	if (result)
		return result;
	memory = find(address, 1);
	if (!memory || !memory->of)
		return end(INVALID_VALUE);
	memory->of->references++;
	*handle = (uintptr_t)memory->of;
	return end(SUCCESS);
}

API CUresult cuMemExportToShareableHandle(int *fd, uint64_t handle, int type, unsigned long long flags)
{
	*fd = type == 1 ? dup(((struct physical *)(uintptr_t)handle)->fd) : -1;
	return *fd < 0 ? INVALID_VALUE : SUCCESS;
}

API CUresult cuMemImportFromShareableHandle(uint64_t *handle, intptr_t fd, int type)
{
	CUresult result = begin();
	struct stat is;

	if (result)
		return result;
	return end(type != 1 || fstat((int)fd, &is) ? INVALID_VALUE : add_physical(handle, dup((int)fd), is.st_size));
}

API CUresult cuCtxGetDevice(CUdevice *device)
{
	CUresult result = begin_in_context();

	if (result)
		return result;
	*device = current()->device;
	return end(SUCCESS);
}

/* Other processes */

API CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
	CUresult result = begin_in_context();
	struct memory *memory;

	if (result)
		return result;
	memory = getenv("CUDA_DOUBLE_NO_IPC") ? NULL : find_device(address, 1);
	if (!memory || memory->source.pid || memory->pooled)
		return end(INVALID_VALUE);
	struct handle ours = {.pid = getpid(), .fd = memory->fd, .size = memory->size, .id = memory->id};
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &ours, sizeof(ours));
	return end(SUCCESS);
}

/* Opens another process's memory, unless that has been freed. */
static int open_source(const struct handle *source)
{
	char path[64], name[64], is[128] = "", should[128];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)source->pid, source->fd);
	name_of(source->id, source->pid, name);
	snprintf(should, sizeof(should), "/memfd:%s (deleted)", name);
	if (readlink(path, is, sizeof(is) - 1) < 0 || strcmp(is, should))
		return -1;
	return open(path, O_RDWR | O_CLOEXEC);
}

static CUresult import(const struct handle *source, struct memory **result)
{
	struct memory what = {.size = source->size, .pages = whole_pages(source->size), .source = *source};

	for (*result = memories; *result; *result = (*result)->next)
		if (!memcmp(&(*result)->source, source, sizeof(*source)))
			return SUCCESS;
	what.fd = open_source(source);
	what.id = ++ids;
	return what.fd < 0 ? INVALID_HANDLE : add(what, result);
}

API CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags)
{
	CUresult result = begin_in_context();
	struct memory *memory;
	struct handle source;

	if (result)
		return result;
	memcpy(&source, &handle, sizeof(source));
	if (source.pid == getpid())
		return end(INVALID_CONTEXT);
	result = source.pid > 0 && source.size ? import(&source, &memory) : INVALID_HANDLE;
	if (result)
		return end(result);
	memory->opened++;
	*address = memory->base;
	return end(SUCCESS);
}

API CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
	CUresult result = begin_in_context();
	struct memory *memory;

	if (result)
		return result;
	memory = find_device(address, 1);
	if (!memory || memory->base != address || !memory->source.pid)
		return end(INVALID_VALUE);
	if (!--memory->opened)
		drop(memory);
	return end(SUCCESS);
}

/* The descriptor begins where the allocation does, so the range must, too. As with the real one it is of whole pages,
 * and those of the allocation count up to their end. */
API CUresult cuMemGetHandleForAddressRange(void *fd, CUdeviceptr address, size_t size, int type,
					   unsigned long long flags)
{
	CUresult result = begin_in_context();
	struct memory *memory;

	if (result)
		return result;
	memory = find_device(address, 1);
	if (!memory || memory->base != address || type != HANDLE_DMA_BUF || flags || !size ||
	    size != whole_pages(size) || size > memory->pages)
		return end(INVALID_VALUE);
	*(int *)fd = fcntl(memory->fd, F_DUPFD_CLOEXEC, 0);
	return end(*(int *)fd < 0 ? OUT_OF_MEMORY : SUCCESS);
}

static bool is_ours(int fd)
{
	char path[64], name[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, name, sizeof(name));
	return n > 0 && !strncmp(name, "/memfd:cuda-double-", strlen("/memfd:cuda-double-"));
}

/* Answers what only a dma-buf knows. It is called if this library is loaded before the C library. */
API int ioctl(int fd, unsigned long request, ...)
{
	int (*next)(int, unsigned long, ...) = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
	va_list list;
	void *argument;

	va_start(list, request);
	argument = va_arg(list, void *);
	va_end(list);
	if (request == DMA_BUF_IOCTL_SYNC && is_ours(fd))
		return 0;
	return next(fd, request, argument);
}

/* Kernels: the one that it knows. */

API CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	CUresult result = begin_in_context();

	if (result)
		return result;
	if (!strstr(image, ".entry check"))
		return end(INVALID_VALUE);
	*module = (CUmodule)&primary;
	return end(SUCCESS);
}

API CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	CUresult result = begin_in_context();

	if (result)
		return result;
	if (module != (CUmodule)&primary)
		return end(INVALID_HANDLE);
	if (strcmp(name, "check"))
		return end(NOT_FOUND);
	*function = (CUfunction)&primary;
	return end(SUCCESS);
}

API CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
			    unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **arguments,
			    void **extra)
{
	if (function != (CUfunction)&primary)
		return INVALID_HANDLE;
	if (!grid_x || !grid_y || !grid_z || !block_x || !block_y || !block_z || !arguments || extra)
		return INVALID_VALUE;
	return late(stream, (struct work){.kind = KERNEL,
					  .from = *(CUdeviceptr *)arguments[0],
					  .expected = *(CUdeviceptr *)arguments[1],
					  .to = *(CUdeviceptr *)arguments[2],
					  .size = KERNEL_BYTES});
}
