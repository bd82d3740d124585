/* SPDX-License-Identifier: BSD-2-Clause */
/* Any file as a trace: `uroce trace` and `uroce explain` read it, or refuse it, and each text in it ends. Seeds:
 * corpus/trace, made by trace-seeds.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memfd.h"
#include "tools/join.h"
#include "tools/records.h"
#include "tools/waits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_records(char *name)
{
	struct records r;
	struct joined j;

	if (records_load(&r, &name, 1))
		return;
	if (strlen(r.sources->host) >= sizeof(r.sources->host) || strlen(r.sources->boot) >= sizeof(r.sources->boot))
		abort();
	for (uint32_t i = 0; i < r.count; i++)
		if (r.all[i].point >= TRACE_POINTS || (i && r.all[i].time < r.all[i - 1].time))
			abort();
	join(&j, &r);
	join_free(&j);
	records_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_new("trace", MFD_CLOEXEC);
	struct waits w;
	char name[64];

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	read_records(name);
	(void)waits_load(name, &w);
	waits_free(&w);
	close(fd);
	return 0;
}
