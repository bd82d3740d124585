/* SPDX-License-Identifier: BSD-2-Clause */
/* dlopen() in front of the C library's. Many programs are not linked with libibverbs and librdmacm, but load them at
 * start (NCCL, PyTorch, brpc). Symbols that they look up in that handle would come from the distribution's library even
 * if uroce is preloaded. So they get the handle of this library, which has the functions of both, with their versions.
 * Any thread may call. Not linked into the tests and `uroce`. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "base/base.h"
#include "device/front.h"

/* The library to load in place of `file`. */
static const char *load_stand_in(const char *file)
{
	static const char *const names[] = {"libibverbs.so.1", "libibverbs.so", "librdmacm.so.1", "librdmacm.so"};
	const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
	Dl_info ours;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(name, names[i]) == 0 && dladdr((void *)load_stand_in, &ours))
			return ours.dli_fname;
	return file;
}

typedef void *load_function(const char *file, int mode);

/* The next dlopen(): the C library's, if no other preload has one. Two threads may both store it; the value is the
 * same. */
static load_function *next_dlopen(void)
{
	static _Atomic(load_function *) next;
	load_function *found =
		atomic_load_explicit(&next, memory_order_relaxed); /* relaxed: no other data depends on it */

	if (!found) {
		found = (load_function *)dlsym(RTLD_NEXT, "dlopen");
		atomic_store_explicit(&next, found, memory_order_relaxed);
	}
	return found;
}

/* Other libraries are passed to the C library unchanged and by a tail call, because the search path depends on the
 * caller. */
PUBLIC void *dlopen(const char *file, int mode)
{
	return next_dlopen()(file ? load_stand_in(file) : NULL, mode);
}
