/* SPDX-License-Identifier: BSD-2-Clause */
/* Imported files: files that a local peer exports (export.h), mapped here. A part of struct reach: a file is mapped at
 * its first use, and unmapped when the local peer has no region in it any more. */
#ifndef UROCE_IMPORT_H
#define UROCE_IMPORT_H

#include "memory/share.h"

struct imported {
	_Atomic uint64_t serial; /* of the file that is mapped, or could not be mapped; 0: none */
	_Atomic(char *) at;	 /* NULL: it could not be mapped. Of a GPU: its address there */
	_Atomic uint64_t bytes;
	uint8_t kind;		/* enum share_kind */
	struct gpu_memory *gpu; /* of that kind */
	bool may_shrink;	/* an access may raise SIGBUS, as its seals and its pages say: the local peer may lie */
};

struct importer {
	struct share_table *table;
	pid_t pid;	       /* of the local peer; 0: it is this process */
	struct lock lock;      /* guards mapping and unmapping */
	_Atomic uint32_t seen; /* of table->files_closed */
	struct imported file[SHARE_FILES];
};

/* The address of these bytes of a file in this process, during an access to a region in it. NULL: not mapped.
 * `may_shrink` is set if it is not NULL that is returned. */
char *import_at(struct importer *b, uint32_t file, uint64_t offset, uint64_t length, bool *may_shrink);

/* The same for an allocation of a GPU: *gpu, and the address here. 0: it is not possible. */
uint64_t import_gpu_at(struct importer *b, uint32_t file, uint64_t offset, uint64_t length, struct gpu_memory **gpu);

/* Unmaps the files that the local peer has closed. Any thread, at any time: no thread accesses them any more, since the
 * local peer has waited for that. */
void import_release(struct importer *b);

/* Unmaps all. Call it when no thread accesses the local peer. */
void import_close(struct importer *b);

#endif
