/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables of a trace file that keep what is not finished (trace_file.h). Called with each record, by its thread;
 * what belongs to one queue pair is recorded under its lock, so its slots have one writer at a time. */
#ifndef UROCE_PENDING_H
#define UROCE_PENDING_H

#include <stddef.h>

#include "base/trace_file.h"
#include "base/trace_point.h"

/* Bytes of a file from the struct trace_pending on, if that is at `at`. */
size_t pending_bytes(size_t at);
/* Makes the tables empty. `header`: the mapped file, zeros at `at` and behind. */
void pending_init(struct trace_header *header, size_t at);
/* Empties them again, while nobody records. */
void pending_clear(void);
void pending_note(enum trace_point point, uint64_t time, const uint64_t arg[TRACE_ARGS]);

#endif
