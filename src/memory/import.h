/* SPDX-License-Identifier: BSD-2-Clause */
/* Files that a local peer lends (export.h), mapped here. A part of struct reach: made when it is first asked for, and
 * unmapped when the local peer has no region in it any more. */
#ifndef UROCE_IMPORT_H
#define UROCE_IMPORT_H

#include "memory/share.h"

struct imported {
	_Atomic uint64_t serial; /* of the file that we have, or could not have; 0: none */
	_Atomic(char *) at;	 /* NULL: we could not */
	_Atomic uint64_t bytes;
	bool segment;
};

struct importer {
	struct share_table *table;
	pid_t pid;	       /* the local peer's */
	struct lock lock;      /* guards the making and giving back of mappings */
	_Atomic uint32_t seen; /* of table->files_closed */
	struct imported file[SHARE_FILES];
};

/* Where these bytes of a file are here, during a visit of a region in it. NULL: nowhere. */
char *import_at(struct importer *b, uint32_t file, uint64_t offset, uint64_t length);

/* What the local peer has closed is unmapped. Any thread, at any time: nobody is there any more, since the local peer
 * waited for that. */
void import_release(struct importer *b);

/* When nobody visits any more. */
void import_close(struct importer *b);

#endif
