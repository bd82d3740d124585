/* SPDX-License-Identifier: BSD-2-Clause */
/* The contexts of GPU drivers in which uroce copies, and allocations in them. For gpu.c and gpu_copy.c only. */
#ifndef UROCE_GPU_LANE_H
#define UROCE_GPU_LANE_H

#include <stdatomic.h>

#include "base/lock.h"
#include "memory/gpu_driver.h"

/* A context of a driver, as uroce uses it. It stays, as contexts do. */
struct gpu_lane {
	const struct gpu_driver *driver;
	void *context;
	void *stream[2]; /* the second is only for reads of several pieces */
	char *staging;
	size_t used;  /* bytes of the staging memory that copies under way use */
	bool pending; /* writes are under way, or gathered */
	struct {
		uint64_t at;
		char *staged;
		size_t length; /* 0: none */
	} gathered;	       /* writes, one behind the other, of which the driver does not know yet */
	struct gpu_lane *next;
};

struct gpu_memory {
	struct gpu_lane *lane;
	uint64_t start, length, serial;
	bool imported; /* of another process: it is closed when it is released */
	bool by_fd;    /* and was opened by a descriptor */
};

extern struct lock gpu_lock __attribute__((visibility("hidden")));
extern struct gpu_lane *gpu_lanes __attribute__((visibility("hidden"))) GUARDED_BY(&gpu_lock);

/* Makes the context of the memory current, if these bytes of it are still of the allocation that was found. */
bool gpu_enter(const struct gpu_memory *m, uint64_t at, size_t length, void **before) REQUIRES(gpu_lock);
void gpu_leave(const struct gpu_memory *m, void *before) REQUIRES(gpu_lock);
/* The driver cannot be used: this is a child of fork(). */
bool gpu_is_lost(void);

#endif
