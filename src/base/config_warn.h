/* SPDX-License-Identifier: BSD-2-Clause */
/* Wrong variables of uroce in the environment, as messages to the user. Apart from config.c, as log.c reads its level
 * from there. */
#ifndef UROCE_CONFIG_WARN_H
#define UROCE_CONFIG_WARN_H

#include <stdbool.h>

/* False: a variable in the environment has a value that means nothing. Says what is wrong with each, once per process.
 * A child of fork() does not repeat it. Any thread. */
bool config_check_once(void);

#endif
