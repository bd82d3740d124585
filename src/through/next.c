// SPDX-License-Identifier: BSD-2-Clause
#include "through/next.h"

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

void *through_next(const char *name, const char *version)
{
	void *next = dlvsym(RTLD_NEXT, name, version);

	if (next)
		return next;
	log_error("--through: libibverbs has no %s@%s", name, version);
	abort();
}

bool through_is_of_program(const void *caller)
{
	Dl_info info, next;

	if (!dladdr(caller, &info) || !info.dli_fname)
		return true;
	return !strstr(info.dli_fname, "librdmacm") &&
	       !(dladdr((const void *)NEXT(ibv_open_device, "IBVERBS_1.1"), &next) && next.dli_fbase == info.dli_fbase);
}
