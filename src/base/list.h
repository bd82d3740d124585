/* SPDX-License-Identifier: BSD-2-Clause */
/* A circular list whose links are in its members. A link that points to itself is in no list. */
#ifndef UROCE_LIST_H
#define UROCE_LIST_H

#include "base/base.h"

struct list {
	struct list *next, *prev;
};

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_append(struct list *head, struct list *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

static inline void list_remove(struct list *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	list_init(l);
}

static inline struct list *list_pop(struct list *head)
{
	struct list *l = head->next;

	if (l == head)
		return NULL;
	list_remove(l);
	return l;
}

#define list_each(l, head) for (struct list *l = (head)->next; l != (head); l = l->next)
#define list_each_safe(l, head) \
	for (struct list *l = (head)->next, *l##_next = l->next; l != (head); l = l##_next, l##_next = l->next)

#endif
