/* SPDX-License-Identifier: BSD-2-Clause */
/* Any files as traces: `uroce trace` and `uroce explain` read them, or refuse them, and each text in them ends. Behind
 * the word "SECOND.." in the input begins another file. Seeds: corpus/trace, made by trace-seeds.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memfd.h"
#include "tools/trace/join.h"
#include "tools/trace/records.h"
#include "tools/trace/waits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_records(char **name, uint32_t count)
{
	struct records r;
	struct joined j;

	if (records_load(&r, name, count))
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

static int make_file(const uint8_t *data, size_t size, char name[64])
{
	int fd = memfd_new("trace", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(name, 64, "/proc/self/fd/%d", fd);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *second = memmem(data, size, "SECOND..", 8);
	size_t first = second ? (size_t)(second - data) : size;
	char text[2][64], *name[2] = {text[0], text[1]};
	int fd[2] = {make_file(data, first, text[0]), -1};
	struct waits w;

	if (second)
		fd[1] = make_file(second + 8, size - first - 8, text[1]);
	read_records(name, second ? 2 : 1);
	(void)waits_load(text[0], &w);
	waits_free(&w);
	close(fd[0]);
	if (second)
		close(fd[1]);
	return 0;
}
