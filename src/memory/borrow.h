/* Files that a neighbour lends (lend.h), mapped here. A part of struct reach: made when it is first asked for, and unmapped
 * when the neighbour has no region in it any more.
 * SPDX-License-Identifier: BSD-2-Clause */
#ifndef UROCE_BORROW_H
#define UROCE_BORROW_H

#include "memory/share.h"

struct borrowed {
	_Atomic uint64_t serial; /* of the file that we have, or could not have; 0: none */
	_Atomic(char *) at;	 /* NULL: we could not */
	_Atomic uint64_t bytes;
	bool segment;
};

struct borrower {
	struct share_table *table;
	pid_t pid; /* the neighbour's */
	struct lock lock; /* guards the making and giving back of mappings */
	_Atomic uint32_t seen; /* of table->files_closed */
	struct borrowed file[SHARE_FILES];
};

/* Where these bytes of a file are here, during a visit of a region in it. NULL: nowhere. */
char *borrow_at(struct borrower *b, uint32_t file, uint64_t offset, uint64_t length);

/* What the neighbour has closed is unmapped. Any thread, at any time: nobody is there any more, since the neighbour waited
 * for that. */
void borrow_release(struct borrower *b);

/* When nobody visits any more. */
void borrow_close(struct borrower *b);

#endif
