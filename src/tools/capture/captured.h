/* SPDX-License-Identifier: BSD-2-Clause */
/* The collector's side of the ring of a capture (base/capture_file.h). The process that writes the ring may be broken,
 * or hostile, and may write at any time: each word of it is read once, and a record is copied before it is looked at.
 * One thread. */
#ifndef UROCE_TOOLS_CAPTURE_CAPTURED_H
#define UROCE_TOOLS_CAPTURE_CAPTURED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/capture_file.h"

struct captured {
	struct capture_header *ring;
	uint32_t bytes; /* of the records */
	uint64_t read;
	bool broken;		       /* it makes no sense from `read` on: nothing more is read */
	struct capture_record *record; /* the copy */
	size_t room;		       /* of the copy */
};

/* Maps a memfd of `bytes` bytes whose size is sealed, and closes the descriptor. False: it is no ring. */
bool captured_open(struct captured *c, int memory, uint32_t bytes);
void captured_close(struct captured *c);

/* How far the ring is written. */
uint64_t captured_written(const struct captured *c);

/* The next record before byte `written` of the ring. It has all fields of its kind, and its link is known; it stays
 * until the next call. NULL: there is none. */
const struct capture_record *captured_next(struct captured *c, uint64_t written);

#endif
