/* SPDX-License-Identifier: BSD-2-Clause */
/* The objects of the program, and those of them that are left at its end. */
#include "check/across.h"
#include "check/asan.h"
#include "check/msan.h"
#include "check/order.h"
#include "check/pages.h"
#include "check/peers.h"
#include "check/placed.h"
#include "check/queues.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/fork.h"
#include "base/msan.h"

#define BUCKETS 4096
#define GONE	256u

static const struct {
	const char *leak; /* name of the finding */
	const char *one, *many, *made, *destroy;
} kinds[] = {
	[CHECK_CONTEXT] = {"leak-context", "device context", "device contexts", "opened", "ibv_close_device()"},
	[CHECK_PD] = {"leak-pd", "protection domain", "protection domains", "allocated", "ibv_dealloc_pd()"},
	[CHECK_MR] = {"leak-region", "memory region", "memory regions", "registered", "ibv_dereg_mr()"},
	[CHECK_CQ] = {"leak-cq", "completion queue", "completion queues", "created", "ibv_destroy_cq()"},
	[CHECK_QP] = {"leak-qp", "queue pair", "queue pairs", "created", "ibv_destroy_qp() or rdma_destroy_qp()"},
	[CHECK_SRQ] = {"leak-srq", "shared receive queue", "shared receive queues", "created", "ibv_destroy_srq()"},
	[CHECK_AH] = {"leak-ah", "address handle", "address handles", "created", "ibv_destroy_ah()"},
	[CHECK_MW] = {"leak-window", "memory window", "memory windows", "allocated", "ibv_dealloc_mw()"},
	[CHECK_CHANNEL] = {"leak-channel", "completion channel", "completion channels", "created",
			   "ibv_destroy_comp_channel()"},
	[CHECK_ID] = {"leak-id", "rdma_cm id", "rdma_cm ids", "created", "rdma_destroy_id() or rdma_destroy_ep()"},
	[CHECK_EVENT_CHANNEL] = {"leak-event-channel", "event channel", "event channels", "created",
				 "rdma_destroy_event_channel()"},
	[CHECK_PARENT] = {"leak-parent-domain", "parent domain", "parent domains", "allocated", "ibv_dealloc_pd()"},
	[CHECK_TD] = {"leak-thread-domain", "thread domain", "thread domains", "allocated", "ibv_dealloc_td()"},
	[CHECK_DM] = {"leak-dm", "piece of device memory", "pieces of device memory", "allocated", "ibv_free_dm()"},
	[CHECK_XRCD] = {"leak-xrcd", "XRC domain", "XRC domains", "opened", "ibv_close_xrcd()"},
	[CHECK_WQ] = {"leak-wq", "work queue", "work queues", "created", "ibv_destroy_wq()"},
	[CHECK_WQ_TABLE] = {"leak-wq-table", "table of work queues", "tables of work queues", "created",
			    "ibv_destroy_rwq_ind_table()"},
	[CHECK_FLOW] = {"leak-flow", "flow", "flows", "created", "ibv_destroy_flow()"},
	[CHECK_COUNTERS] = {"leak-counters", "set of counters", "sets of counters", "created",
			    "ibv_destroy_counters()"},
};
static_assert(ARRAY_SIZE(kinds) == CHECK_KINDS, "each kind has its row");

static struct object *objects[BUCKETS];
struct lock objects_lock;
static bool wanted[CHECK_CLASSES];
static bool fork_is_prepared;
bool check_is_through;
static pid_t checked; /* the process; 0: none */

/* Those that were destroyed last. Guarded by objects_lock. */
static struct {
	enum check_kind kind;
	const void *object; /* NULL: its memory is that of a new one */
	const struct stack *destroyed;
} gone[GONE];
static uint32_t gone_count;
static _Thread_local uint32_t paused;

bool check_wants(enum check_class class)
{
	return wanted[class];
}

bool check_is_paused(void)
{
	return paused || !hook_is_on(HOOK_CHECK);
}

void check_pause(void)
{
	paused++;
}

void check_resume(void)
{
	paused--;
}

/* ---- the table ---- */

static struct object **object_bucket(enum check_kind kind, const void *object)
{
	return &objects[((uintptr_t)object >> 4 ^ (uintptr_t)object >> 16 ^ (uintptr_t)kind << 8) % BUCKETS];
}

static struct object **object_link(enum check_kind kind, const void *object)
{
	struct object **link = object_bucket(kind, object);

	while (*link && ((*link)->object != object || (*link)->kind != kind))
		link = &(*link)->next;
	return link;
}

struct object *object_find(enum check_kind kind, const void *object)
{
	return *object_link(kind, object);
}

struct object *objects_next(const struct object *o)
{
	size_t bucket = o ? (size_t)(object_bucket(o->kind, o->object) - objects) + 1 : 0;

	if (o && o->next)
		return o->next;
	while (bucket < BUCKETS && !objects[bucket])
		bucket++;
	return bucket < BUCKETS ? objects[bucket] : NULL;
}

static const struct stack **gone_find(enum check_kind kind, const void *object) REQUIRES(objects_lock)
{
	for (uint32_t i = 0; i < GONE; i++)
		if (gone[i].object == object && gone[i].kind == kind)
			return &gone[i].destroyed;
	return NULL;
}

static void gone_add(const struct object *o, const struct stack *destroyed) REQUIRES(objects_lock)
{
	uint32_t i = gone_count++ % GONE;

	gone[i].kind = o->kind;
	gone[i].object = o->object;
	gone[i].destroyed = destroyed;
}

/* Its memory is that of a new object. */
static void gone_forget(const void *object)
{
	lock_take(&objects_lock);
	for (uint32_t i = 0; i < GONE; i++)
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
		o->next = *object_bucket(kind, object);
		*object_bucket(kind, object) = o;
		queues_open(o);
		lock_drop(&objects_lock);
	}
	errno = saved;
}

void check_remove(enum check_kind kind, const void *object)
{
	const struct stack *here;
	struct object **link, *o;

	if (!hook_is_on(HOOK_CHECK))
		return;
	peers_settle();
	here = check_wants(CHECK_HABITS) ? stack_here() : NULL;
	lock_take(&objects_lock);
	link = object_link(kind, object);
	o = *link;
	if (o) {
		*link = o->next;
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

/* ---- what is left ---- */

/* Those of one kind that one place has made. */
struct group {
	enum check_kind kind;
	const struct stack *made;
	uint64_t count, bytes;
};

static void add_to_group(struct group **groups, size_t *count, const struct object *o)
{
	struct group *g = *groups, *more;
	size_t i;

	for (i = 0; i < *count; i++)
		if (g[i].kind == o->kind && g[i].made == o->made)
			break;
	if (i == *count) {
		more = reallocarray(*groups, *count + 1, sizeof(**groups));
		if (!more)
			return;
		*groups = more;
		more[(*count)++] = (struct group){o->kind, o->made, 0, 0};
	}
	(*groups)[i].count++;
	(*groups)[i].bytes += o->size;
}

static void report_group(const struct group *g)
{
	struct finding f = {.class = CHECK_LEAKS, .name = kinds[g->kind].leak, .amount = g->count};
	char remedy[128];
	bool one = g->count == 1;
	int n = snprintf(f.text, sizeof(f.text), "%" PRIu64 " %s left at the end", g->count,
			 one ? kinds[g->kind].one : kinds[g->kind].many);

	if (g->kind == CHECK_MR)
		snprintf(f.text + n, sizeof(f.text) - (size_t)n, ", with %" PRIu64 " bytes", g->bytes);
	snprintf(remedy, sizeof(remedy), "%s for each, when it is not needed any more", kinds[g->kind].destroy);
	f.remedy = remedy;
	f.at[0].title = kinds[g->kind].made;
	f.at[0].stack = g->made;
	finding_report(&f);
}

void leaks_report(void)
{
	struct group *groups = NULL;
	size_t count = 0;

	if (!check_wants(CHECK_LEAKS))
		return;
	lock_take(&objects_lock);
	for (const struct object *o = objects_next(NULL); o; o = objects_next(o))
		add_to_group(&groups, &count, o);
	lock_drop(&objects_lock);
	for (size_t i = 0; i < count; i++)
		report_group(&groups[i]);
	free(groups);
}

/* ---- what others use ---- */

static bool object_uses(const struct object *o, const void *used)
{
	for (int i = 0; i < CHECK_USES; i++)
		if (o->uses[i] == used)
			return true;
	return false;
}

/* The user of an object that was made last; its stack and kind, and how many there are. */
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
		.remedy = "destroy what uses it first: it is not destroyed now, and leaks if nothing tries again"};
	enum check_kind user = CHECK_KINDS;
	const struct stack *made = NULL;
	uint32_t count;

	if (check_is_paused() || !check_wants(CHECK_HABITS))
		return;
	count = find_users(object, &user, &made);
	if (count)
		snprintf(f.text, sizeof(f.text),
			 "the %s cannot be destroyed (EBUSY): %u object%s use%s it, among them a %s", kinds[kind].one,
			 count, count > 1 ? "s" : "", count > 1 ? "" : "s", kinds[user].one);
	else if (reason)
		snprintf(f.text, sizeof(f.text), "the %s cannot be destroyed (EBUSY): %s", kinds[kind].one, reason);
	else
		return;
	f.at[0].title = "destroyed at";
	f.at[0].stack = stack_here();
	f.at[1].title = "what uses it was made at";
	f.at[1].stack = made;
	finding_report(&f);
}

void check_dead(enum check_kind kind, const void *object, const char *use)
{
	struct finding f = {.class = CHECK_HABITS,
			    .name = "used-destroyed",
			    .remedy =
				    "set the pointer to NULL where the object is destroyed, and let other threads end "
				    "before that",
			    .at = {{"used", NULL}, {"destroyed", NULL}}};
	const struct stack **destroyed;

	if (check_is_paused() || !check_wants(CHECK_HABITS))
		return;
	lock_take(&objects_lock);
	destroyed = gone_find(kind, object);
	f.at[1].stack = destroyed ? *destroyed : NULL;
	lock_drop(&objects_lock);
	if (!f.at[1].stack)
		return;
	snprintf(f.text, sizeof(f.text), "the %s has been destroyed, and is %s", kinds[kind].one, use);
	f.at[0].stack = stack_here();
	finding_report(&f);
}

/* Those of librdmacm do not refuse: what is left refers to memory that is freed. */
void check_orphaned(enum check_kind kind, const void *object)
{
	struct finding f = {.class = CHECK_HABITS,
			    .name = "destroyed-in-use",
			    .remedy = "destroy what uses it first: that refers to it, and crashes or waits for ever",
			    .at = {{"destroyed at", NULL}, {"what uses it was made at", NULL}}};
	enum check_kind user = CHECK_KINDS;
	uint32_t count;

	if (check_is_paused() || !check_wants(CHECK_HABITS))
		return;
	count = find_users(object, &user, &f.at[1].stack);
	if (!count)
		return;
	snprintf(f.text, sizeof(f.text), "the %s is destroyed, and %u %s still use%s it", kinds[kind].one, count,
		 count > 1 ? kinds[user].many : kinds[user].one, count > 1 ? "" : "s");
	f.at[0].stack = stack_here();
	finding_report(&f);
}

/* ---- beginning and end ---- */

/* Before fork(). */
static void check_fork(void)
{
	struct finding f = {
		.class = CHECK_HABITS,
		.name = "fork-unprepared",
		.remedy = "call ibv_fork_init() before anything is registered, or set RDMAV_FORK_SAFE=1",
		.text = "fork() while memory is registered, without ibv_fork_init(): on kernels before 5.12 a "
			"write of the parent may move its page away from the adapter",
		.at = {{"forks", NULL}, {"registered", NULL}}};

	if (check_is_paused() || !check_wants(CHECK_HABITS) || checked != getpid() || fork_is_prepared ||
	    getenv("RDMAV_FORK_SAFE") || getenv("IBV_FORK_SAFE"))
		return;
	lock_take(&objects_lock);
	for (const struct object *o = objects_next(NULL); o && !f.at[1].stack; o = objects_next(o))
		if (o->kind == CHECK_MR)
			f.at[1].stack = o->made;
	lock_drop(&objects_lock);
	f.at[0].stack = stack_here();
	if (f.at[1].stack)
		finding_report(&f);
}

void check_fork_prepared(void)
{
	fork_is_prepared = true;
}

static void check_forget(void)
{
	hook_set(HOOK_CHECK, false);
	checked = 0;
	pages_forget();
}

static void check_begin(void)
{
	static const struct fork_handlers handlers = {.before = check_fork, .in_child = check_forget};
	int words[CHECK_CLASSES + 1], count = config_words(CONFIG_CHECK, words, ARRAY_SIZE(words));

	if (!check_is_through && config_string(CONFIG_THROUGH))
		count = 0;
	if (!count && !msan_is_there()) /* that has to know what requests bring, and when */
		return;
	for (int i = 0; i < count; i++)
		for (int class = 0; class < CHECK_CLASSES; class ++)
			wanted[class] |= words[i] == class || words[i] == CHECK_CLASSES; /* "all" */
	wanted[CHECK_RACES] &= !check_is_through; /* it has to know what is executed */
	stack_start();
	finding_start();
	order_start();
	if (check_wants(CHECK_BUFFERS) || check_wants(CHECK_RACES) || msan_is_there())
		placed_start();
	if (check_wants(CHECK_RACES))
		peers_start();
	if (check_wants(CHECK_BUFFERS)) {
		asan_start();
		if (!check_is_through)
			pages_start();
	}
	if (count)
		checked = getpid();
	fork_watch(FORK_CHECK, &handlers);
	hook_set(HOOK_CHECK, true);
}

void check_start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, check_begin);
}

/* The last of our destructors: it may end the process. */
__attribute__((destructor(101))) static void check_end(void)
{
	int status;

	if (!checked || checked != getpid())
		return;
	pages_tell();
	msan_tell();
	across_finish();
	leaks_report();
	hook_set(HOOK_CHECK, false);
	status = finding_sum_up();
	if (!status)
		return;
	fflush(NULL);
	_exit(status);
}
