/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/stat_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/base.h"
#include "base/memfd.h"

static const size_t row_size[] = {
	[STAT_DEVICE] = sizeof(struct stat_device), [STAT_CONTEXT] = sizeof(struct stat_context),
	[STAT_PD] = sizeof(struct stat_pd),	    [STAT_CQ] = sizeof(struct stat_cq),
	[STAT_QP] = sizeof(struct stat_qp),	    [STAT_SRQ] = sizeof(struct stat_srq),
	[STAT_MR] = sizeof(struct stat_mr),	    [STAT_ID] = sizeof(struct stat_id),
	[STAT_CAUSE] = sizeof(struct stat_cause),
};
static_assert(ARRAY_SIZE(row_size) == STAT_KINDS, "each kind has its row");

/* A new row. The array's length is a power of two, so that it is seldom moved. */
static void *new_row(struct stat_rows *rows, size_t size)
{
	if (!(rows->count & (rows->count - 1))) {
		void *more = realloc(rows->row, max_of(2 * rows->count, (size_t)1) * size);

		if (!more)
			return NULL;
		rows->row = more;
	}
	return memset((char *)rows->row + rows->count++ * size, 0, size);
}

static int take_record(struct stat_process *p, const struct stat_record *r, const char *row)
{
	size_t size = r->kind < STAT_KINDS ? row_size[r->kind] : 0;
	void *at;

	if (!size)
		return 0; /* a kind of a later version */
	at = new_row(&p->rows[r->kind], size);
	if (!at)
		return -ENOMEM;
	memcpy(at, row, min_of(size, r->bytes - sizeof(*r)));
	return 0;
}

/* Ends all texts with a zero, as the file is not trusted. */
static void end_texts(struct stat_process *p)
{
	struct stat_device *d = p->rows[STAT_DEVICE].row;

	p->head.program[sizeof(p->head.program) - 1] = 0;
	for (size_t i = 0; i < p->rows[STAT_DEVICE].count; i++)
		d[i].name[sizeof(d->name) - 1] = d[i].interface[sizeof(d->interface) - 1] = 0;
}

int stat_parse(const void *bytes, size_t length, struct stat_process *p)
{
	const char *at = bytes, *end = at + length;
	int err = 0;

	memset(p, 0, sizeof(*p));
	if (length < sizeof(p->head))
		return -EPROTO;
	memcpy(&p->head, at, sizeof(p->head));
	if (p->head.magic != STAT_MAGIC || p->head.bytes != length)
		return -EPROTO;
	at += sizeof(p->head);
	while (!err && at < end) {
		struct stat_record r;

		if (end - at < (ptrdiff_t)sizeof(r))
			return -EPROTO;
		memcpy(&r, at, sizeof(r));
		if (r.bytes < sizeof(r) || r.bytes > (size_t)(end - at))
			return -EPROTO;
		err = take_record(p, &r, at + sizeof(r));
		at += r.bytes;
	}
	end_texts(p);
	return err;
}

int stat_read(int fd, struct stat_process *p)
{
	struct stat st;
	size_t size;
	void *bytes;
	int err;

	memset(p, 0, sizeof(*p));
	if (fstat(fd, &st) || st.st_size <= 0)
		return -EPROTO;
	size = (size_t)st.st_size;
	if (!memfd_is_fixed(fd, size))
		return -EPROTO;
	bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return -errno;
	err = stat_parse(bytes, size, p);
	munmap(bytes, size);
	return err;
}

void stat_free(struct stat_process *p)
{
	for (size_t i = 0; i < STAT_KINDS; i++)
		free(p->rows[i].row);
	memset(p->rows, 0, sizeof(p->rows));
}
