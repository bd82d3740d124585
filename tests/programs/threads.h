// SPDX-License-Identifier: BSD-2-Clause
/* What the tables of threads share: a row is a function that starts its threads and sees that the counts add up. */
#ifndef TEST_THREADS_H
#define TEST_THREADS_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "rc.h"

enum { MOST = 1 << 16, CREW = 8 };

struct row {
	const char *name;
	void (*run)(void);
};

static atomic_uchar times[MOST]; /* that something has happened */
static atomic_int at_line;	 /* threads that have begun: they go on together */
static int crew;

static inline void exactly_once(int count)
{
	for (int i = 0; i < count; i++)
		if (times[i] != 1) {
			fprintf(stderr, "%d: %d times\n", i, times[i]);
			exit(1);
		}
	memset(times, 0, sizeof(times));
}

static inline void line_up(void)
{
	atomic_fetch_add(&at_line, 1);
	while (atomic_load(&at_line) < crew)
		sched_yield();
}

struct hands {
	void *(*work)(void *);
	int count;
};

/* The workers of all kinds at the same time, each with its number among those of its kind. */
static inline void together(const struct hands *kinds, int count)
{
	pthread_t thread[CREW];
	int n = 0;

	at_line = crew = 0;
	for (int k = 0; k < count; k++)
		crew += kinds[k].count;
	MUST(crew <= CREW);
	for (int k = 0; k < count; k++)
		for (intptr_t i = 0; i < kinds[k].count; i++)
			ZERO(pthread_create(&thread[n++], NULL, kinds[k].work, (void *)i));
	while (n)
		ZERO(pthread_join(thread[--n], NULL));
}

#define TOGETHER(...)                                 \
	together((const struct hands[]){__VA_ARGS__}, \
		 sizeof((const struct hands[]){__VA_ARGS__}) / sizeof(struct hands))

/* Of a sanitizer's build a tenth. */
static inline int rounds(int full)
{
	const char *quick = getenv("UROCE_QUICK");

	return quick && *quick ? full / 10 : full;
}

/* [ROW]: only that one. */
static inline int run_rows(const struct row *rows, int count, int argc, char **argv)
{
	bool any = false;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 0; i < count; i++) {
		if (argc > 1 && strcmp(argv[1], rows[i].name))
			continue;
		any = true;
		rows[i].run();
		printf("%s: adds up\n", rows[i].name);
	}
	return !any;
}

#endif
