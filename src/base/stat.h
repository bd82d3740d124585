/* SPDX-License-Identifier: BSD-2-Clause */
/* The process's side of `uroce stat`: layers tell what they have, each by a source that it registers; stat_take() asks
 * them all and makes the file (stat_file.h). */
#ifndef UROCE_STAT_H
#define UROCE_STAT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/stat_file.h"

/* Records so far. Running out of memory loses the sheet: stat_take() says so. */
struct stat_sheet {
	char *bytes;
	size_t used, size;
	int err;
	bool only_devices;
};

/* Appends a record; `row` is a struct of stat_file.h. */
void stat_put(struct stat_sheet *s, enum stat_kind kind, const void *row, size_t bytes);

/* Called by stat_take() without locks. It may take the locks of its layer, and holds none for longer than it takes to
 * copy. */
typedef void stat_source(struct stat_sheet *s);

/* Once for each source, at the start of the program (a constructor). */
void stat_register(stat_source *source);

/* The file: a descriptor that the caller closes, or -errno. `only`: "devices", or all. */
int stat_take(const char *only);

#endif
