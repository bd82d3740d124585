/* SPDX-License-Identifier: BSD-2-Clause */
/* A vendor's driver library: one file for each (cuda.c, hip.c). The functions are looked up in the library that the
 * program has loaded; types are those of its public headers, as integers and pointers. Called with gpu_lock held.
 */
#ifndef UROCE_GPU_DRIVER_H
#define UROCE_GPU_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gpu_export;

/* What an address is. */
struct gpu_address {
	uint64_t start, length; /* of the allocation */
	uint64_t serial;	/* of the allocation: no later one has the same */
};

struct gpu_driver {
	const char *name;
	const char *const *libraries; /* file names, the newest first; NULL ends */
	const char *const *symbols;   /* names, NULL ends */
	void **functions;	      /* of these names: filled in by gpu.c */
	size_t required;	      /* so many have to be there; those that follow may be NULL */

	int (*count)(void); /* of GPUs */
	/* False: not memory of a GPU that the processor cannot access. */
	bool (*find)(uint64_t address, struct gpu_address *a);
	/* True if it is still that allocation. */
	bool (*is_same)(const struct gpu_address *a);
	/* Called when it is registered; or NULL. */
	void (*prepare)(uint64_t address);
	/* The context that copies have to be made in. */
	bool (*context)(uint64_t address, void **context);
	/* Makes the context current in this thread, and what was current again. */
	bool (*enter)(void *context, void **before);
	void (*leave)(void *before);
	bool (*stream)(void **made);
	void *(*pinned)(size_t length);
	/* Asynchronous, in the order of the stream; `from` and `to` are pinned. */
	bool (*to_gpu)(uint64_t to, const void *from, size_t length, void *stream);
	bool (*to_host)(void *to, uint64_t from, size_t length, void *stream);
	bool (*within)(uint64_t to, uint64_t from, size_t length, void *stream);
	bool (*wait)(void *stream);
	/* What other processes open the allocation e->start by: fills in `fd` or `handle`. */
	bool (*export)(struct gpu_export *e);
	bool (*import)(uint64_t *start, const struct gpu_export *e); /* in the current context */
	void (*close)(uint64_t start, uint64_t length, bool by_fd);
};

/* As drivers take it: by value. */
struct gpu_handle {
	char bytes[64];
};

/* How such a file calls its library: from a list X(name, arguments), a number, a name and a type for each function, and
 * CALL(name, ...). All of them return int, 0: success. */
#define GPU_NUMBER(name, arguments) F_##name,
#define GPU_NAME(name, arguments)   #name,
#define GPU_TYPE(name, arguments)   typedef int t_##name arguments;
#define CALL(name, ...)		    ((t_##name *)functions[F_##name])(__VA_ARGS__)

extern const struct gpu_driver gpu_cuda, gpu_hip;

#endif
