// SPDX-License-Identifier: BSD-2-Clause
/* What ThreadSanitizer of the program sees, as uroce tells it which order verbs give to threads. Other builds have no
 * such rows. */
#include "pair.h"
#include "rows.h"

#include <semaphore.h>

#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define HAS_TSAN
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define HAS_TSAN
#endif

#ifdef HAS_TSAN
struct work {
	struct pair p;
	bool wrong;
	int number;
	volatile int seen;
};

static void work_open(struct work *w, pthread_t *thread, void *(*run)(void *arg), bool wrong)
{
	*w = (struct work){.wrong = wrong};
	pair_open(&w->p, (struct want){0});
	ZERO(pthread_create(thread, NULL, run, w));
}

static void work_close(struct work *w, pthread_t thread)
{
	ZERO(pthread_join(thread, NULL));
	pair_close(&w->p);
}

static void *refill(void *arg)
{
	struct work *w = arg;

	if (w->wrong)
		w->p.a.memory[0] = 2;
	await(&w->p.a);
	if (!w->wrong)
		w->p.a.memory[0] = 2;
	await(&w->p.b);
	return NULL;
}

/* One thread sends, another fills the memory for what comes next. */
static void refilled_by_another_thread(bool wrong)
{
	pthread_t thread;
	struct work w;

	work_open(&w, &thread, refill, wrong);
	receive(&w.p.b, piece(&w.p.b, 0, 64));
	w.p.a.memory[0] = 1;
	post(&w.p.a, IBV_WR_SEND, piece(&w.p.a, 0, 64), &w.p.b, IBV_SEND_SIGNALED);
	work_close(&w, thread);
}

static void *look(void *arg)
{
	struct work *w = arg;

	if (w->wrong)
		w->seen = w->number;
	await(&w->p.b);
	if (!w->wrong)
		w->seen = w->number;
	await(&w->p.a);
	return NULL;
}

/* A message tells another thread that there is something to read. */
static void told_by_a_message(bool wrong)
{
	pthread_t thread;
	struct work w;

	work_open(&w, &thread, look, wrong);
	receive(&w.p.b, piece(&w.p.b, 0, 64));
	w.number = 7;
	post(&w.p.a, IBV_WR_SEND, piece(&w.p.a, 0, 64), &w.p.b, IBV_SEND_SIGNALED);
	work_close(&w, thread);
}

static void *take(void *arg)
{
	struct work *w = arg;

	if (w->wrong)
		w->seen = w->p.b.memory[0];
	await(&w->p.b);
	if (!w->wrong)
		w->seen = w->p.b.memory[0];
	await(&w->p.a);
	return NULL;
}

static sem_t is_there;

static void *look_at_result(void *arg)
{
	struct work *w = arg;

	if (!w->wrong)
		sem_wait(&is_there);
	w->seen = w->p.a.memory[0];
	return NULL;
}

/* One thread READs, and polls; another looks at what has come. */
static void read_by_another_thread(bool wrong)
{
	pthread_t thread;
	struct work w;

	sem_init(&is_there, 0, 0);
	work_open(&w, &thread, look_at_result, wrong);
	post(&w.p.a, IBV_WR_RDMA_READ, piece(&w.p.a, 0, 64), &w.p.b, IBV_SEND_SIGNALED);
	await(&w.p.a);
	sem_post(&is_there);
	work_close(&w, thread);
}

static void *fill(void *arg)
{
	struct work *w = arg;

	w->p.a.memory[0] = 5;
	sem_post(&is_there);
	return NULL;
}

/* One thread fills what another sends. */
static void sent_by_another_thread(bool wrong)
{
	pthread_t thread;
	struct work w;

	sem_init(&is_there, 0, 0);
	work_open(&w, &thread, fill, wrong);
	if (!wrong)
		sem_wait(&is_there);
	receive(&w.p.b, piece(&w.p.b, 0, 64));
	post(&w.p.a, IBV_WR_SEND, piece(&w.p.a, 0, 64), &w.p.b, IBV_SEND_SIGNALED);
	await(&w.p.a);
	await(&w.p.b);
	work_close(&w, thread);
}

/* One thread posts receives, another takes the messages. */
static void taken_by_another_thread(bool wrong)
{
	pthread_t thread;
	struct work w;

	work_open(&w, &thread, take, wrong);
	w.p.b.memory[0] = 1;
	receive(&w.p.b, piece(&w.p.b, 0, 64));
	post(&w.p.a, IBV_WR_SEND, piece(&w.p.a, 0, 64), &w.p.b, IBV_SEND_SIGNALED);
	work_close(&w, thread);
}
#endif

const struct row thread_rows[] = {
#ifdef HAS_TSAN
	{"refilled_by_another_thread", refilled_by_another_thread, "data-race", "refill"},
	{"told_by_a_message", told_by_a_message, "data-race", "look"},
	{"read_by_another_thread", read_by_another_thread, "data-race", "look_at_result"},
	{"sent_by_another_thread", sent_by_another_thread, "data-race", "fill"},
	{"taken_by_another_thread", taken_by_another_thread, "data-race", "take"},
#endif
	{0},
};
