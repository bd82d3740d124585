// SPDX-License-Identifier: BSD-2-Clause
/* The mistakes of check_me: a table of each file, whose last row has no name. */
#ifndef TEST_CHECK_ROWS_H
#define TEST_CHECK_ROWS_H

#include <pthread.h>
#include <stdbool.h>

#include <infiniband/verbs.h>

struct row {
	const char *name;
	void (*run)(bool wrong);
	const char *finding, *place;
};

extern const struct row cm_rows[], early_rows[], flight_rows[], kind_rows[], page_rows[], peer_rows[], race_rows[],
	reuse_rows[], thread_rows[], unset_rows[], watch_rows[], way_rows[];

extern const bool lists_early_rows;
bool lists_watch_rows(void);

/* What is wrong and would wait for ever is ended by another thread when the finding has been told. */
struct help {
	const char *finding;
	void (*end)(void *arg);
	void *arg;
	pthread_t thread;
	int from, to; /* standard error is read here, and goes on there */
};
void help_begin(struct help *h, const char *finding, void (*end)(void *arg), void *arg);
void help_end(struct help *h);

#endif
