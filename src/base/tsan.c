// SPDX-License-Identifier: BSD-2-Clause
#include "base/tsan.h"

#include <dlfcn.h>

#include "base/base.h"
#include "base/config.h"

#define RACES 4 /* index of "races" and of "all" behind it in the words of UROCE_CHECK; enum check_class */

bool tsan_sees_peers;

/* Among the first constructors of this library. */
__attribute__((constructor(101))) static void tsan_look(void)
{
#ifndef UNDER_TSAN
	int words[RACES + 2], count = config_words(CONFIG_CHECK, words, ARRAY_SIZE(words));

	for (int i = 0; i < count; i++)
		tsan_sees_peers |= words[i] >= RACES;
	tsan_sees_peers = tsan_sees_peers && !config_string(CONFIG_THROUGH) &&
			  dlsym(RTLD_DEFAULT, "__tsan_create_fiber") && dlsym(RTLD_DEFAULT, "__tsan_switch_to_fiber");
#endif
}
