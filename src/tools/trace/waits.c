/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/trace/waits.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "tools/map.h"
#include "tools/trace/records.h"

/* Finds the tables. False if the file has none, or they are cut. */
static bool find_tables(int fd, size_t bytes, struct trace_pending *p)
{
	struct trace_header h;
	size_t at;

	trace_file_read(fd, &h, sizeof(h), 0);
	at = sizeof(h) + (size_t)h.points * h.point_bytes;
	at = (at + 63) & ~(size_t)63;
	if (at + sizeof(*p) > bytes)
		return false;
	trace_file_read(fd, p, sizeof(*p), at);
	return p->magic == PENDING_MAGIC && p->qps <= 1u << 24 && p->requests <= 1u << 24 && p->qp_bytes >= 8 &&
	       p->request_bytes >= 8 && p->qp_bytes <= 4096 && p->request_bytes <= 4096 && p->qps_at % 8 == 0 &&
	       p->requests_at % 8 == 0 && p->qps_at + (uint64_t)p->qps * (8 + p->qp_bytes) <= bytes &&
	       p->requests_at + (uint64_t)p->requests * (8 + p->request_bytes) <= bytes;
}

/* Slots in use, each as long as this version knows it, in an array that the caller frees. */
static void *take_slots(int fd, uint64_t table, uint32_t slots, uint32_t bytes, size_t known, size_t *count)
{
	uint64_t rows = table + (uint64_t)slots * sizeof(uint64_t), key[512];
	char *list = NULL;

	*count = 0;
	for (uint32_t i = 0; i < slots; i++) {
		if (i % ARRAY_SIZE(key) == 0)
			trace_file_read(fd, key, min_of(slots - i, (uint32_t)ARRAY_SIZE(key)) * sizeof(*key),
					table + (uint64_t)i * sizeof(*key));
		if (!key[i % ARRAY_SIZE(key)])
			continue;
		list = room_for(list, *count, known);
		memset(list + *count * known, 0, known);
		trace_file_read(fd, list + (*count)++ * known, min_of((size_t)bytes, known),
				rows + (uint64_t)i * bytes);
	}
	return list;
}

static int by_post(const void *a, const void *b)
{
	const struct pending_request *x = a, *y = b;

	return (x->posted_at > y->posted_at) - (x->posted_at < y->posted_at);
}

static const char *take_tables(const char *name, struct waits *w)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	struct trace_pending p = {0};
	struct stat st;

	if (fd < 0)
		return "the file cannot be opened any more";
	if (!fstat(fd, &st) && find_tables(fd, (size_t)st.st_size, &p)) {
		w->qp = take_slots(fd, p.qps_at, p.qps, p.qp_bytes, sizeof(*w->qp), &w->qps);
		w->request =
			take_slots(fd, p.requests_at, p.requests, p.request_bytes, sizeof(*w->request), &w->requests);
		w->lost = p.lost_qps + p.lost_requests;
	}
	close(fd);
	if (w->requests)
		qsort(w->request, w->requests, sizeof(*w->request), by_post);
	return p.magic == PENDING_MAGIC
		       ? NULL
		       : "written by an earlier version of uroce, which does not record pending requests";
}

/* True if the trace was written on this machine since it booted. */
static bool is_of_this_boot(const struct source *s)
{
	char boot[40] = "";
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (f && fgets(boot, sizeof(boot), f))
		boot[strcspn(boot, "\n")] = 0;
	if (f)
		fclose(f);
	return *boot && !strcmp(boot, s->boot);
}

/* True if the writing process has the file mapped. */
static bool runs_still(const struct source *s)
{
	char path[64], line[4096], real[4096];
	bool found = false;
	FILE *f;

	if (!realpath(s->name, real))
		return false;
	snprintf(path, sizeof(path), "/proc/%u/maps", s->pid);
	f = fopen(path, "re");
	while (f && !found && fgets(line, sizeof(line), f))
		found = strstr(line, real);
	if (f)
		fclose(f);
	return found;
}

static uint64_t last_moment(const struct waits *w, const struct records *r)
{
	uint64_t last = r->count ? r->all[r->count - 1].time : r->sources[0].start_mono;

	for (size_t i = 0; i < w->requests; i++)
		last = max_of(last, max_of(w->request[i].retried_at, w->request[i].built_at));
	for (size_t i = 0; i < w->qps; i++)
		last = max_of(last, max_of(w->qp[i].heard_at, max_of(w->qp[i].answer_at, w->qp[i].drop_at)));
	return last;
}

const char *waits_load(const char *name, struct waits *w)
{
	static char text[512];
	struct records r;
	const char *error = records_load(&r, (char **)&name, 1);

	*w = (struct waits){.name = name};
	if (error)
		return error;
	snprintf(w->host, sizeof(w->host), "%s", r.sources[0].host);
	snprintf(w->program, sizeof(w->program), "%s", r.sources[0].program);
	w->pid = r.sources[0].pid;
	w->wall = (int64_t)(r.sources[0].start_wall - r.sources[0].start_mono);
	error = take_tables(name, w);
	if (is_of_this_boot(&r.sources[0])) {
		w->runs = runs_still(&r.sources[0]);
		w->ended = !w->runs && kill((pid_t)w->pid, 0) && errno == ESRCH;
	}
	w->now = w->runs ? clock_now() : last_moment(w, &r);
	records_free(&r);
	if (error)
		snprintf(text, sizeof(text), "%s: %s", name, error);
	return error ? text : NULL;
}

void waits_free(struct waits *w)
{
	free(w->qp);
	free(w->request);
	w->qp = NULL;
	w->request = NULL;
}
