/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/config_warn.h"

#include <pthread.h>

#include "base/config.h"
#include "base/log.h"

static bool right;

static void config_say(enum config_fault fault, const char *text, void *arg)
{
	uroce_log(fault == CONFIG_WRONG ? LOG_ERROR : LOG_WARN, "%s", text);
}

static void config_check(void)
{
	right = config_is_right(config_say, NULL);
}

bool config_check_once(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, config_check);
	return right;
}
