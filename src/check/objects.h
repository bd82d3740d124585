/* SPDX-License-Identifier: BSD-2-Clause */
/* Table of the program's objects, with the stack that created each. Guarded by objects_lock. */
#ifndef UROCE_CHECK_OBJECTS_H
#define UROCE_CHECK_OBJECTS_H

#include <infiniband/verbs.h>

#include "base/lock.h"

enum check_kind {
	CHECK_CONTEXT,
	CHECK_PD,
	CHECK_MR,
	CHECK_CQ,
	CHECK_QP,
	CHECK_SRQ,
	CHECK_AH,
	CHECK_MW,
	CHECK_CHANNEL,
	CHECK_ID,
	CHECK_EVENT_CHANNEL,
	CHECK_PARENT,
	CHECK_TD,
	CHECK_DM,
	CHECK_XRCD,
	CHECK_WQ,
	CHECK_WQ_TABLE,
	CHECK_FLOW,
	CHECK_COUNTERS,
	CHECK_KINDS
};

enum { CHECK_USES = 5 };

/* Guarded by objects_lock. */
struct object {
	struct object *next; /* next of the same hash */
	enum check_kind kind;
	const void *object; /* the program's pointer */
	uint64_t size;
	const void *uses[CHECK_USES]; /* objects that this one uses, and that cannot be destroyed before it */
	const struct stack *made;     /* stack of the creating call */
	struct queues *queues;	      /* queues.h: of a QP or an SRQ; else NULL */
	struct watch *watch;	      /* queues.h: of a CQ; else NULL */
};

/* Words of findings about objects of a kind. */
struct kind_words {
	const char *leak; /* name of the finding */
	const char *one, *many, *made, *destroy;
};
extern const struct kind_words check_kinds[CHECK_KINDS] __attribute__((visibility("hidden")));

extern struct lock objects_lock;
/* An object of the table, or NULL. */
struct object *object_find(enum check_kind kind, const void *object) REQUIRES(objects_lock);
/* The object after `o`, or NULL after the last. NULL gives the first. */
struct object *objects_next(const struct object *o) REQUIRES(objects_lock);
/* Adds an object; removes one and returns it, or NULL if it was not known. The caller allocates and frees. */
void object_add(struct object *o) REQUIRES(objects_lock);
struct object *object_remove(enum check_kind kind, const void *object) REQUIRES(objects_lock);

#endif
