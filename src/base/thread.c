/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/thread.h"

#include <pthread.h>
#include <signal.h>

int thread_start(void *(*run)(void *), void *arg)
{
	pthread_attr_t detached;
	sigset_t all, before;
	pthread_t thread;
	int error;

	sigfillset(&all);
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, &detached, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&detached);
	return -error;
}
