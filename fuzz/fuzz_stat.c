/* SPDX-License-Identifier: BSD-2-Clause */
/* Any file as an answer to "stat": it is read, or refused, and each text in it ends. Seeds: corpus/stat, made by
 * stat-seeds.py. */
#include <stdlib.h>
#include <string.h>

#include "base/stat_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stat_process p;

	if (!stat_parse(data, size, &p)) {
		size_t n;
		const struct stat_device *d = stat_devices(&p, &n);

		if (strlen(p.head.program) >= sizeof(p.head.program))
			abort();
		for (size_t i = 0; i < n; i++)
			if (strlen(d[i].name) >= sizeof(d->name) || strlen(d[i].interface) >= sizeof(d->interface))
				abort();
	}
	stat_free(&p);
	return 0;
}
