/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of GPUs, which the processor cannot access: the GPU's driver copies. uroce uses the driver library that the
 * program has loaded (gpu_driver.h) and neither links nor loads one. Copies go by a stream of uroce's own, which does
 * not wait for the program's streams, through pinned staging memory.
 *
 * Writes are asynchronous: gpu_settle() waits for all. While some are under way HOOK_GPU is set (base/hooks.h), so that
 * it is called before a completion is written or a packet leaves, and nobody can know of bytes that are not there yet.
 * The program must not have changed the memory before the request completes, as always; it is visible to kernels that
 * begin after the completion was polled. Atomics are atomic towards others of this process's adapter, not towards
 * kernels (IBV_ATOMIC_HCA), as with adapters. Any thread may call. A child of fork() cannot use the driver: all copies
 * fail there. */
#ifndef UROCE_GPU_H
#define UROCE_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gpu_memory;
struct memory_atomic;

/* The name of the driver library that the program has loaded, "CUDA" or "HIP", if it has a GPU; else NULL. */
const char *gpu_works(void);

/* True once gpu_find() or gpu_works() has found a driver library. */
bool gpu_is_loaded(void);

/* True from the first gpu_find() that found something. */
bool gpu_in_use(void);

/* What copies to and from [address, address + length) need: 0 and *found; NULL if it is not memory of a GPU (pinned
 * host memory is not). -EFAULT: the allocation ends before. -ENOMEM. Release it by gpu_release(). */
int gpu_find(struct gpu_memory **found, uint64_t address, uint64_t length);
void gpu_release(struct gpu_memory *m);

/* False: the memory has been freed since, or the driver failed. Nothing is read or written outside the allocation. */
bool gpu_read(struct gpu_memory *m, void *to, uint64_t at, size_t length);
bool gpu_write(struct gpu_memory *m, uint64_t at, const void *from, size_t length);
bool gpu_atomic(struct gpu_memory *m, struct memory_atomic *a);
/* False: a copy failed. */
bool gpu_settle(void);

/* Copies without a buffer between: `mover` is called for one part after the other, with GPU memory staged in `bytes`,
 * and must neither block nor call anything here. False: stop. gpu_write_from(): it fills `bytes`; gpu_read_to(): it
 * takes them away. */
typedef bool gpu_mover(void *arg, size_t offset, void *bytes, size_t length);
bool gpu_write_from(struct gpu_memory *m, uint64_t at, size_t length, gpu_mover *source, void *arg);
bool gpu_read_to(struct gpu_memory *m, uint64_t at, size_t length, gpu_mover *sink, void *arg);
/* These return when the bytes are there, and copy as fast as the driver can. The last bytes are stored last. */
bool gpu_put(struct gpu_memory *m, uint64_t at, const void *from, size_t length);
bool gpu_get(struct gpu_memory *m, void *to, uint64_t at, size_t length);
bool gpu_copy(struct gpu_memory *to, uint64_t to_at, struct gpu_memory *from, uint64_t from_at, size_t length);

/* An allocation as another process of this host opens it. */
struct gpu_export {
	uint64_t start, length, serial;
	int fd;		 /* of memory in a virtual reservation; else -1, and: */
	char handle[64]; /* cuIpcGetMemHandle(), hipIpcGetMemHandle() */
};
/* False: others cannot open this kind of allocation (pools, managed memory). The caller closes the descriptor. */
bool gpu_export(const struct gpu_memory *m, struct gpu_export *e);
/* Opens it in this process, at *start; NULL: that is not possible, or the program has not registered memory of a GPU so
 * far. `fd`: that descriptor in this process, which stays the caller's. Release it by gpu_release() when nobody uses
 * it, before its process frees the allocation. */
struct gpu_memory *gpu_import(const struct gpu_export *e, uint64_t *start);
/* The same in the process that has it. */
struct gpu_memory *gpu_find_again(const struct gpu_export *e);

/* memcpy() from an address of the program that may be memory of a GPU: inline data. False: it cannot be read. */
bool gpu_read_any(void *to, const void *from, size_t length);

#endif
