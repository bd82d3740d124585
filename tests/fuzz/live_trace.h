/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes as the trace of a process that goes on, as `uroce trace` and `uroce explain` read it. */
#ifndef TESTS_LIVE_TRACE_H
#define TESTS_LIVE_TRACE_H

#include <stddef.h>
#include <stdint.h>

void live_trace_read(const uint8_t *bytes, size_t length);
/* Full rings; each record names a queue pair of its own, and a peer that is none. */
void live_trace_fill(uint8_t *to, size_t size);

#endif
