/* SPDX-License-Identifier: BSD-2-Clause */
/* The trace points of trace.def, by number. */
#ifndef UROCE_TRACE_POINT_H
#define UROCE_TRACE_POINT_H

enum trace_point {
#define POINT(name, ...) TRACE_##name,
#include "base/trace.def"
#undef POINT
	TRACE_POINTS
};

/* Reasons of the point "drop", after those of the engine's enum verdict. */
#define DROP_BY_FAULT  10
#define DROP_REFERENCE 11 /* the payload is asked for, which a packet referred to: onesided.c */

#endif
