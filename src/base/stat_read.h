/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the file in which a process has told of its objects (stat_file.h). Nothing in the file is trusted. */
#ifndef UROCE_STAT_READ_H
#define UROCE_STAT_READ_H

#include <stdbool.h>
#include <stddef.h>

#include "base/stat_file.h"

struct stat_process {
	struct stat_head head;
	struct stat_rows {
		void *row; /* array of the struct of this kind */
		size_t count;
	} rows[STAT_KINDS];
};

/* Parses the file, in memory or from a descriptor. 0 or -errno; -EPROTO: no such file, or of an unknown version. In
 * either case *p needs stat_free(). */
int stat_parse(const void *bytes, size_t length, struct stat_process *p);
int stat_read(int fd, struct stat_process *p);
void stat_free(struct stat_process *p);

#define STAT_ROWS(type, kind)                                                             \
	static inline const struct type *type##s(const struct stat_process *p, size_t *n) \
	{                                                                                 \
		*n = p->rows[kind].count;                                                 \
		return p->rows[kind].row;                                                 \
	}
STAT_ROWS(stat_device, STAT_DEVICE)
STAT_ROWS(stat_context, STAT_CONTEXT)
STAT_ROWS(stat_pd, STAT_PD)
STAT_ROWS(stat_cq, STAT_CQ)
STAT_ROWS(stat_qp, STAT_QP)
STAT_ROWS(stat_srq, STAT_SRQ)
STAT_ROWS(stat_mr, STAT_MR)
STAT_ROWS(stat_id, STAT_ID)
STAT_ROWS(stat_cause, STAT_CAUSE)

#endif
