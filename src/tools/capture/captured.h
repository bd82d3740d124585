/* SPDX-License-Identifier: BSD-2-Clause */
/* The collector's side of a capture's ring (base/capture_file.h). The writing process may be broken or hostile, and
 * may write at any time: each word is read once, and a record is copied before it is parsed. One thread. */
#ifndef UROCE_TOOLS_CAPTURE_CAPTURED_H
#define UROCE_TOOLS_CAPTURE_CAPTURED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/capture_file.h"

struct captured {
	struct capture_header *ring;
	uint32_t bytes; /* size of the records' part */
	uint64_t read;
	bool broken;		       /* invalid from `read` on: nothing more is read */
	struct capture_record *record; /* copy of the current record */
	size_t room;		       /* bytes of the copy */
};

/* Maps a memfd of `bytes` bytes whose size is sealed, and closes the descriptor. False if it is no ring. */
bool captured_open(struct captured *c, int memory, uint32_t bytes);
void captured_close(struct captured *c);

/* Position up to which the ring is written. */
uint64_t captured_written(const struct captured *c);

/* The next record before position `written`, or NULL. Has all fields of its kind, and a known link; valid until the
 * next call. */
const struct capture_record *captured_next(struct captured *c, uint64_t written);

#endif
