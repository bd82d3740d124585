/* SPDX-License-Identifier: BSD-2-Clause */
/* What all files of this front share: which functions are public, and how errors are told. */
#ifndef UROCE_FRONT_H
#define UROCE_FRONT_H

#include <errno.h>
#include <infiniband/verbs.h>

#include "base/base.h"

/* In the libibverbs ABI: its version stands in uroce.map. */
#define PUBLIC __attribute__((visibility("default")))

enum {
	PORT = 1, /* the one port of every device */
};

/* `return fail(E)`: for functions that return the error; `return fail_null(E)`, `fail_minus(E)`: for those
 * that return NULL or -1. All leave it in errno. */
static inline int fail(int error)
{
	errno = error;
	return error;
}

static inline void *fail_null(int error)
{
	errno = error;
	return NULL;
}

static inline int fail_minus(int error)
{
	errno = error;
	return -1;
}

#endif
