/* SPDX-License-Identifier: BSD-2-Clause */
/* The call that loads a library. Many programs are linked with neither libibverbs nor librdmacm, but load them when
 * they start (NCCL, PyTorch, brpc): what they then look up by that handle would be the distribution's, whatever is
 * preloaded. So theirs is the handle of this library, which has the functions of both, in their versions. Any thread
 * may call. Not part of what the tests and `uroce` are linked with. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "base/base.h"
#include "verbs/front.h"

/* What to load in its place. */
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

/* The C library's, if no other preload has one. Two threads that both find none yet will store the same. */
static load_function *next_dlopen(void)
{
	static _Atomic(load_function *) next;
	load_function *found = atomic_load_explicit(&next, memory_order_relaxed); /* it is all there is */

	if (!found) {
		found = (load_function *)dlsym(RTLD_NEXT, "dlopen");
		atomic_store_explicit(&next, found, memory_order_relaxed);
	}
	return found;
}

/* Every other library goes to the C library as it came, and by a jump: where it looks for one depends on who calls. */
PUBLIC void *dlopen(const char *file, int mode)
{
	return next_dlopen()(file ? load_stand_in(file) : NULL, mode);
}
