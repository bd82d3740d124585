/* SPDX-License-Identifier: BSD-2-Clause */
/* For src/check/: the table of the program's objects. */
#ifndef UROCE_CHECK_OBJECTS_H
#define UROCE_CHECK_OBJECTS_H

#include "base/lock.h"
#include "check/check.h"
#include "check/finding.h"

/* Guarded by objects_lock. */
struct object {
	struct object *next;
	enum check_kind kind;
	const void *object;
	uint64_t size;
	const void *uses[CHECK_USES];
	const struct stack *made;
	struct queues *queues; /* of a QP or an SRQ: queues.h */
	struct watch *watch;   /* of a CQ */
};

extern struct lock objects_lock;
struct object *object_find(enum check_kind kind, const void *object) REQUIRES(objects_lock);

/* Each object; NULL: the first, and behind the last. */
struct object *objects_next(const struct object *o) REQUIRES(objects_lock);

/* True while this thread makes objects of uroce's own, or if nothing is checked. */
bool check_is_paused(void);

#endif
