/* SPDX-License-Identifier: BSD-2-Clause */
/* Wrong variables of uroce in the environment, as messages to the user. Apart from config.c, as log.c reads its level
 * from there. */
#ifndef UROCE_CONFIG_WARN_H
#define UROCE_CONFIG_WARN_H

/* Warns about each wrong variable in the environment, once per process. A child of fork() does not repeat it. Any
 * thread. */
void config_warn_once(void);

#endif
