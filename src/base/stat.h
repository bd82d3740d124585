/* SPDX-License-Identifier: BSD-2-Clause */
/* The process's side of `uroce stat`: layers tell their objects, each by a source that it registers; stat_take() asks
 * all sources and makes the file (stat_file.h). */
#ifndef UROCE_STAT_H
#define UROCE_STAT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/stat_file.h"

/* Records so far. Without memory the sheet is lost, and stat_take() tells. */
struct stat_sheet {
	char *bytes;
	size_t used, size;
	int err;
	bool only_devices;
};

/* Appends a record; `row` is a struct of stat_file.h. */
void stat_put(struct stat_sheet *s, enum stat_kind kind, const void *row, size_t bytes);

/* A source. Called by stat_take() without locks. May take the locks of its layer, and holds none for longer than a copy
 * takes. */
typedef void stat_source(struct stat_sheet *s);

/* Registers a source, in a constructor. */
void stat_register(stat_source *source);

/* Makes the file. Returns a descriptor that the caller closes, or -errno. `only`: "devices", or all. */
int stat_take(const char *only);

#endif
