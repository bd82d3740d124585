/* SPDX-License-Identifier: BSD-2-Clause */
/* What the helper makes of a thread that has not polled for a moment. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/clock.h"
#include "loop/poller.h"

/* A thread that has noted itself, and then computes until the test ends, or sleeps until then. */
struct thread {
	pthread_t thread;
	struct poller *poller; /* NULL: it does not poll */
	int cpu;	       /* -1: any */
	bool yields;	       /* to all others */
	bool sleeps;
	int ends; /* a pipe: it may be read when the thread may end */
	_Atomic bool runs, ended;
};

static void *run(void *arg)
{
	struct thread *t = arg;
	cpu_set_t set;
	char byte;

	CPU_ZERO(&set);
	if (t->cpu >= 0) {
		CPU_SET((unsigned)t->cpu, &set);
		sched_setaffinity(0, sizeof(set), &set);
	}
	if (t->yields)
		sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
	if (t->poller)
		poller_note(t->poller);
	atomic_store(&t->runs, true);
	if (t->sleeps)
		return (void *)read(t->ends, &byte, 1);
	while (!atomic_load(&t->ended))
		;
	return NULL;
}

static void start(struct thread *t)
{
	assert_int_equal(pthread_create(&t->thread, NULL, run, t), 0);
	while (!atomic_load(&t->runs))
		sched_yield();
}

static void end(struct thread *t)
{
	atomic_store(&t->ended, true);
	pthread_join(t->thread, NULL);
}

/* What two looks say of it, the last poll being before both. */
static void look_twice(const struct poller *noted, uint32_t excused[2])
{
	struct poller p = {.thread = noted->thread, .sure = true};

	excused[0] = poller_waits(&p, clock_now(), 1);
	usleep(2000); /* what it does meanwhile is what the second look is about */
	excused[1] = poller_waits(&p, clock_now(), 1);
}

static void one_that_never_polled_is_not_waited_for(void **state)
{
	struct poller p = {.sure = true};

	assert_int_equal(poller_waits(&p, clock_now(), 1), 0);
}

static void one_that_did_not_poll_for_good_is_not_waited_for(void **state)
{
	struct poller p = {0};
	struct thread busy = {.poller = &p, .cpu = -1};

	start(&busy);
	poller_polls(&p, false);
	assert_int_equal(poller_waits(&p, clock_now(), 1), 0);
	end(&busy);
}

/* Others may want its processor as well, so this is repeated until it had that; if it is never found out, for ever. */
static void one_that_computes_is_not_waited_for(void **state)
{
	struct poller p = {.sure = true};
	struct thread busy = {.poller = &p, .cpu = -1};
	uint32_t excused[2];

	start(&busy);
	do
		look_twice(&p, excused);
	while (excused[0] != 1 || excused[1]);
	end(&busy);
}

/* A moment passes until it sleeps. */
static void one_that_sleeps_is_not_waited_for(void **state)
{
	struct poller p = {.sure = true};
	int ends[2];
	struct thread asleep = {.poller = &p, .cpu = -1, .sleeps = true};
	uint32_t excused[2];

	assert_int_equal(pipe(ends), 0);
	asleep.ends = ends[0];
	start(&asleep);
	do
		look_twice(&p, excused);
	while (excused[0]);
	close(ends[1]);
	end(&asleep);
	close(ends[0]);
}

/* A thread that gets next to nothing of its processor, as another one computes there. */
struct without {
	struct thread waits, busy;
};

static void start_without(struct without *w, struct poller *p)
{
	cpu_set_t set;
	int cpu = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
	while (!CPU_ISSET((unsigned)cpu, &set)) /* there may be none with number 0 for us */
		cpu++;
	w->waits = (struct thread){.poller = p, .cpu = cpu, .yields = true};
	w->busy = (struct thread){.cpu = cpu};
	start(&w->waits);
	start(&w->busy);
}

static void end_without(struct without *w)
{
	end(&w->busy);
	end(&w->waits);
}

static void one_that_has_no_processor_is_waited_for(void **state)
{
	struct poller p = {.sure = true};
	struct without w;
	uint32_t excused[2];

	start_without(&w, &p);
	do /* a moment passes until the other one computes */
		look_twice(&p, excused);
	while (excused[0] != 1 || excused[1] != 2);
	end_without(&w);
}

/* What so many looks say of a thread that has polled before each. Returns how many have said that it waits, the last
 * ones in succession. */
static uint32_t look_on(struct poller *p, uint32_t looks)
{
	uint32_t waits = 0;

	for (uint64_t polled = 1; polled <= looks; polled++) {
		waits = poller_waits(p, clock_now(), polled) ? waits + 1 : 0;
		usleep(2000); /* what it does meanwhile is what the next look is about */
	}
	return waits;
}

/* It is the one that polls: the first look only learns how much of a processor it has had. */
static void one_that_polls_without_a_processor_is_waited_for(void **state)
{
	struct without w;
	struct poller p;

	do {
		p = (struct poller){0};
		start_without(&w, &p);
		if (look_on(&p, 6) == 5)
			assert_true(p.sure); /* that it polls for good */
		end_without(&w);
	} while (!p.sure);
}

static void one_that_polls_and_computes_is_not_waited_for(void **state)
{
	struct poller noted = {0}, p;
	struct thread busy = {.poller = &noted, .cpu = -1};

	start(&busy);
	do
		p = (struct poller){.thread = noted.thread};
	while (look_on(&p, 6) || p.sure);
	end(&busy);
}

static void one_that_is_gone_is_not_waited_for(void **state)
{
	struct poller p = {.sure = true};
	struct thread gone = {.poller = &p, .cpu = -1};

	start(&gone);
	end(&gone);
	assert_int_equal(poller_waits(&p, clock_now(), 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_never_polled_is_not_waited_for),
		cmocka_unit_test(one_that_did_not_poll_for_good_is_not_waited_for),
		cmocka_unit_test(one_that_computes_is_not_waited_for),
		cmocka_unit_test(one_that_sleeps_is_not_waited_for),
		cmocka_unit_test(one_that_has_no_processor_is_waited_for),
		cmocka_unit_test(one_that_polls_without_a_processor_is_waited_for),
		cmocka_unit_test(one_that_polls_and_computes_is_not_waited_for),
		cmocka_unit_test(one_that_is_gone_is_not_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
