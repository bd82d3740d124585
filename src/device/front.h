/* SPDX-License-Identifier: BSD-2-Clause */
/* Export of public functions, and error returns. */
#ifndef UROCE_DEVICE_FRONT_H
#define UROCE_DEVICE_FRONT_H

#include <errno.h>
#include <infiniband/verbs.h>

#include "base/base.h"

/* Exported symbol; uroce.map has its version. */
#define PUBLIC __attribute__((visibility("default")))

enum {
	PORT = 1, /* the only port */
};

/* Error returns that set errno: fail(E) returns the error, fail_null(E) NULL, fail_minus(E) -1. */
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
