/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/lifetime.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hooks.h"
#include "base/lock.h"
#include "check/finding.h"
#include "check/objects.h"
#include "check/outstanding.h"
#include "check/peers.h"
#include "check/queues.h"
#include "check/scope.h"
#include "check/stack.h"
#include "check/tuned.h"

/* The objects destroyed last. Guarded by objects_lock. */
static struct {
	enum check_kind kind;
	const void *object; /* NULL: another object has the memory now */
	const struct stack *destroyed;
} gone[DESTROYED_MOST];
static uint32_t gone_count;

static const struct stack **gone_find(enum check_kind kind, const void *object) REQUIRES(objects_lock)
{
	for (uint32_t i = 0; i < DESTROYED_MOST; i++)
		if (gone[i].object == object && gone[i].kind == kind)
			return &gone[i].destroyed;
	return NULL;
}

static void gone_add(const struct object *o, const struct stack *destroyed) REQUIRES(objects_lock)
{
	uint32_t i = gone_count++ % DESTROYED_MOST;

	gone[i].kind = o->kind;
	gone[i].object = o->object;
	gone[i].destroyed = destroyed;
}

/* Forgets a destroyed object whose memory a new one has. */
static void gone_forget(const void *object)
{
	lock_take(&objects_lock);
	for (uint32_t i = 0; i < DESTROYED_MOST; i++)
		if (gone[i].object == object)
			gone[i].object = NULL;
	lock_drop(&objects_lock);
}

void check_add(enum check_kind kind, const void *object, uint64_t size, const void *const uses[CHECK_USES])
{
	int saved = errno;
	const struct stack *made = check_is_paused() ? NULL : stack_here();
	struct object *o = made ? calloc(1, sizeof(*o)) : NULL;

	peers_settle();
	gone_forget(object);
	if (o) {
		*o = (struct object){.kind = kind, .object = object, .size = size, .made = made};
		memcpy(o->uses, uses, sizeof(o->uses));
		lock_take(&objects_lock);
		object_add(o);
		queues_open(o);
		lock_drop(&objects_lock);
	}
	errno = saved;
}

void check_remove(enum check_kind kind, const void *object)
{
	const struct stack *here;
	struct object *o;

	if (!hook_is_on(HOOK_CHECK))
		return;
	peers_settle();
	here = check_wants(CHECK_HABITS) ? stack_here() : NULL;
	lock_take(&objects_lock);
	o = object_remove(kind, object);
	if (o) {
		if (o->queues)
			requests_forget(o->queues);
		queues_close(o);
		if (here)
			gone_add(o, here);
	}
	lock_drop(&objects_lock);
	free(o);
}

void check_remade(enum check_kind kind, const void *object, uint64_t size, const void *used)
{
	const struct stack *here = check_is_paused() ? NULL : stack_here();
	struct object *o;

	if (!here)
		return;
	lock_take(&objects_lock);
	o = object_find(kind, object);
	if (o) {
		o->made = here;
		o->size = size;
		o->uses[0] = used;
	}
	lock_drop(&objects_lock);
}

void check_uses(enum check_kind kind, const void *object, const void *used)
{
	struct object *o;

	lock_take(&objects_lock);
	o = object_find(kind, object);
	if (o)
		o->uses[0] = used;
	lock_drop(&objects_lock);
}

static bool object_uses(const struct object *o, const void *used)
{
	for (int i = 0; i < CHECK_USES; i++)
		if (o->uses[i] == used)
			return true;
	return false;
}

/* Number of users of an object; stack and kind of the newest. */
static uint32_t find_users(const void *object, enum check_kind *kind, const struct stack **made)
{
	uint32_t count = 0;

	lock_take(&objects_lock);
	for (const struct object *o = objects_next(NULL); o; o = objects_next(o))
		if (object_uses(o, object)) {
			*kind = o->kind;
			*made = o->made;
			count++;
		}
	lock_drop(&objects_lock);
	return count;
}

void check_refused(enum check_kind kind, const void *object, const char *reason)
{
	struct finding f = {
		.class = CHECK_HABITS,
		.name = "destroyed-in-use",
		.remedy = "destroy its users first: the object still exists, and leaks if nothing destroys it later"};
	enum check_kind user = CHECK_KINDS;
	const struct stack *made = NULL;
	uint32_t count;

	if (check_is_paused() || !check_wants(CHECK_HABITS))
		return;
	count = find_users(object, &user, &made);
	if (count)
		snprintf(f.text, sizeof(f.text),
			 "the %s cannot be destroyed (EBUSY): %u object%s use%s it, among them a %s",
			 check_kinds[kind].one, count, count > 1 ? "s" : "", count > 1 ? "" : "s",
			 check_kinds[user].one);
	else if (reason)
		snprintf(f.text, sizeof(f.text), "the %s cannot be destroyed (EBUSY): %s", check_kinds[kind].one,
			 reason);
	else
		return;
	f.at[0].title = "destroyed at";
	f.at[0].stack = stack_here();
	f.at[1].title = "its user was created at";
	f.at[1].stack = made;
	finding_report(&f);
}

bool check_knows(enum check_kind kind, const void *object)
{
	bool known;

	lock_take(&objects_lock);
	known = object_find(kind, object);
	lock_drop(&objects_lock);
	return known;
}

void check_free(void *memory)
{
	static void *kept[KEPT_MOST]; /* guarded by objects_lock */
	static uint32_t count;

	if (hook_is_on(HOOK_CHECK)) {
		lock_take(&objects_lock);
		void *old = kept[count % KEPT_MOST];
		kept[count++ % KEPT_MOST] = memory;
		lock_drop(&objects_lock);
		memory = old;
	}
	free(memory);
}

bool check_dead(enum check_kind kind, const void *object, const char *use)
{
	struct finding f = {.class = CHECK_HABITS,
			    .name = "used-destroyed",
			    .remedy =
				    "set the pointer to NULL where the object is destroyed, and let other threads end "
				    "before that",
			    .at = {{"used", NULL}, {"destroyed", NULL}}};
	const struct stack **destroyed;

	if (check_is_paused() || !check_wants(CHECK_HABITS))
		return false;
	lock_take(&objects_lock);
	destroyed = gone_find(kind, object);
	f.at[1].stack = destroyed ? *destroyed : NULL;
	lock_drop(&objects_lock);
	if (!f.at[1].stack)
		return false;
	snprintf(f.text, sizeof(f.text), "the %s has been destroyed, and is %s", check_kinds[kind].one, use);
	f.at[0].stack = stack_here();
	finding_report(&f);
	return true;
}

/* librdmacm's calls do not refuse, so remaining users refer to freed memory. */
void check_orphaned(enum check_kind kind, const void *object)
{
	struct finding f = {.class = CHECK_HABITS,
			    .name = "destroyed-in-use",
			    .remedy = "destroy its users first: they refer to freed memory, and crash or wait forever",
			    .at = {{"destroyed at", NULL}, {"its user was created at", NULL}}};
	enum check_kind user = CHECK_KINDS;
	uint32_t count;

	if (check_is_paused() || !check_wants(CHECK_HABITS))
		return;
	count = find_users(object, &user, &f.at[1].stack);
	if (!count)
		return;
	snprintf(f.text, sizeof(f.text), "the %s is destroyed, and %u %s still use%s it", check_kinds[kind].one, count,
		 count > 1 ? check_kinds[user].many : check_kinds[user].one, count > 1 ? "" : "s");
	f.at[0].stack = stack_here();
	finding_report(&f);
}
