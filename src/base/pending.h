/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables of a trace file that keep what is not finished (trace_file.h). Called with each record, by its thread.
 * Records of one queue pair are made under its lock, so its slots have one writer at a time. */
#ifndef UROCE_PENDING_H
#define UROCE_PENDING_H

#include <stddef.h>

#include "base/trace_file.h"
#include "base/trace_point.h"

/* Bytes of a file from the struct trace_pending on, which is at `at`. */
size_t pending_bytes(size_t at);
/* Makes the tables empty. `header`: the mapped file, zeros at `at` and behind. */
void pending_init(struct trace_header *header, size_t at);
/* Empties the tables again, while no thread records. */
void pending_clear(void);
/* Updates the tables with a record. */
void pending_note(enum trace_point point, uint64_t time, const uint64_t arg[TRACE_ARGS]);

#endif
