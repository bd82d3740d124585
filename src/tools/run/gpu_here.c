/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/run/gpu_here.h"

#include <dlfcn.h>
#include <stddef.h>

#include "base/base.h"

static const struct {
	const char *vendor, *library, *begin, *count; /* begin, count: names of two functions of the library */
} drivers[] = {
	{"CUDA", "libcuda.so.1", "cuInit", "cuDeviceGetCount"},
	{"HIP", "libamdhip64.so.7", "hipInit", "hipGetDeviceCount"},
	{"HIP", "libamdhip64.so.6", "hipInit", "hipGetDeviceCount"},
};

static int count_gpus(const char *library, const char *begin, const char *count)
{
	void *driver = dlopen(library, RTLD_NOW);
	int (*begins)(unsigned) = driver ? (int (*)(unsigned))dlsym(driver, begin) : NULL;
	int (*counts)(int *) = driver ? (int (*)(int *))dlsym(driver, count) : NULL;
	int gpus = 0;

	return !begins || !counts || begins(0) || counts(&gpus) ? 0 : gpus;
}

struct gpu_here gpu_here_look(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(drivers); i++) {
		int gpus = count_gpus(drivers[i].library, drivers[i].begin, drivers[i].count);

		if (gpus)
			return (struct gpu_here){drivers[i].vendor, gpus};
	}
	return (struct gpu_here){0};
}
