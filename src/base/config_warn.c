/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/config_warn.h"

#include <pthread.h>
#include <unistd.h>

#include "base/config.h"
#include "base/log.h"

static void config_warn(void)
{
	char text[512];

	for (char **assignment = environ; assignment && *assignment; assignment++)
		if (config_complaint(*assignment, text, sizeof(text)))
			log_warn("%s", text);
}

void config_warn_once(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, config_warn);
}
