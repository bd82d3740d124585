/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce trace`: prints the life of each work request. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/own_file.h"
#include "base/plural.h"
#include "tools/command.h"
#include "tools/map.h"
#include "tools/names.h"
#include "tools/paragraph.h"
#include "tools/terminal.h"
#include "tools/trace/views.h"
#include "tools/trace/life.h"
#include "tools/trace/live.h"
#include "tools/trace/summary.h"

#define DEFAULT_LIMIT 10

struct wish {
	struct filter filter;
	bool json, summary, requests, ladder;
	const char *html, *perfetto; /* output files */
	bool live;
	double seconds; /* 0: until Ctrl-C */
};

static bool to_number(const char *text, int64_t *n)
{
	char *end;
	unsigned long long v;

	errno = 0;
	v = strtoull(text, &end, 0);
	if (errno || *text == '-' || end == text || *end || v > UINT32_MAX)
		return false;
	*n = (int64_t)v;
	return true;
}

static bool to_seconds(const char *text, double *seconds)
{
	char *end;

	*seconds = strtod(text, &end);
	return !*end && end != text && *seconds >= 0.1 && *seconds <= 86400;
}

static int wrong_operation(const struct command *command, const char *name)
{
	char names[512] = "";
	const char *next;

	for (unsigned i = 0; (next = operation_next(&i));)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), " %s", next);
	return wrong_usage(command, "'%s' is not an operation; these are:%s", name, names);
}

/* 0, or the exit status. */
static int read_options(const struct command *command, int argc, char **argv, struct wish *w)
{
	static const struct option options[] = {
		{"qpn", required_argument, NULL, 'q'},
		{"wqe", required_argument, NULL, 'w'},
		{"opcode", required_argument, NULL, 'o'},
		{"limit", required_argument, NULL, 'l'},
		{"summary", no_argument, NULL, 's'},
		{"requests", no_argument, NULL, 'r'},
		{"json", no_argument, NULL, 'j'},
		{"html", required_argument, NULL, 'H'},
		{"perfetto", required_argument, NULL, 'P'},
		{"live", no_argument, NULL, 'L'},
		{"seconds", required_argument, NULL, 'S'},
		{"ladder", no_argument, NULL, 'D'},
		{0},
	};
	int64_t limit = -1;
	int c;

	*w = (struct wish){.filter = {.qpn = -1, .wqe = -1}};
	while ((c = next_option(command, argc, argv, "q:w:o:l:srj", options)) != -1) {
		int64_t *n = c == 'q' ? &w->filter.qpn : c == 'w' ? &w->filter.wqe : c == 'l' ? &limit : NULL;

		if (c == '?')
			return show_usage(command);
		if (n && !to_number(optarg, n))
			return wrong_usage(command, "'%s' is not a number", optarg);
		w->json |= c == 'j';
		w->summary |= c == 's';
		w->requests |= c == 'r';
		w->ladder |= c == 'D';
		w->html = c == 'H' ? optarg : w->html;
		w->perfetto = c == 'P' ? optarg : w->perfetto;
		w->live |= c == 'L' || c == 'S';
		if (c == 'S' && !to_seconds(optarg, &w->seconds))
			return wrong_usage(command, "'%s' is not a number of seconds from 0.1 to 86400", optarg);
		if (c == 'o' && operation_find(optarg) < 0)
			return wrong_operation(command, optarg);
		if (c == 'o')
			w->filter.operation = optarg;
	}
	if (optind == argc)
		return wrong_usage(command,
				   w->live ? "which processes?"
					   : "no file named: UROCE_TRACE=FILE or `uroce run -t FILE` makes one");
	w->filter.limit = limit >= 0 ? (uint32_t)limit : w->json || (w->perfetto && !w->html) ? 0 : DEFAULT_LIMIT;
	w->requests |= w->ladder;
	if (!w->summary && !w->requests)
		w->summary = w->requests = true;
	return 0;
}

static uint32_t count_requests(const struct joined *j, struct filter f)
{
	uint32_t *which, n;

	f.limit = 0;
	n = filter_requests(j, &f, &which);
	free(which);
	return n;
}

static void print_nothing_posted(const struct joined *j)
{
	char text[256];

	if (!j->partial)
		snprintf(text, sizeof(text), "No work request was posted in this time.");
	else
		snprintf(text, sizeof(text),
			 "No work request was posted in this time: %u record%s of requests that were posted before it. "
			 "`uroce explain` says what a process waits for.",
			 j->partial, j->partial == 1 ? " is" : "s are");
	print_wrapped(stdout, text, 0, 0);
	putchar('\n');
}

static void print_requests(const struct joined *j, const struct filter *f, bool ladder)
{
	void (*print)(const struct joined *j, const struct request *q, FILE *to) =
		ladder ? print_ladder : print_request;
	uint32_t *which, count = filter_requests(j, f, &which), total = count_requests(j, *f);

	for (uint32_t i = 0; i < count; i++)
		print(j, &j->requests[which[i]], stdout);
	free(which);
	if (!j->request_count)
		print_nothing_posted(j);
	else if (!total)
		printf("None of the %u request%s matches.\n", j->request_count, plural(j->request_count));
	else if (count < total)
		printf("%sShown: the last %u of %u; --limit 0 shows all.%s\n\n", style(DIM), count, total,
		       style(PLAIN));
}

static void print_text(const struct joined *j, const struct wish *w)
{
	struct filter f = w->filter;
	uint32_t *which, count;

	print_sources(j, stdout);
	print_walks(j, w->filter.qpn, stdout);
	putchar('\n');
	if (w->requests)
		print_requests(j, &f, w->ladder);
	if (!w->summary)
		return;
	/* one request gives no table, so the table is for all requests of the queue pair and operation */
	f.wqe = -1;
	f.limit = 0;
	count = filter_requests(j, &f, &which);
	print_summary(j, which, count, stdout);
	free(which);
}

/* Writes a file with `print`. 0, or an exit status. */
static int write_file(const struct command *command, const char *name, const struct joined *j, const struct filter *f,
		      void (*print)(const struct joined *j, const uint32_t *which, uint32_t count, FILE *to))
{
	char why[OWN_FILE_WHY];
	FILE *to = strcmp(name, "-") ? own_file_stream(name, why) : stdout;
	uint32_t *which, count;
	bool failed;

	if (!to)
		return complain(command, "%s: %s", name, why);
	count = filter_requests(j, f, &which);
	print(j, which, count, to);
	free(which);
	failed = fflush(to) || ferror(to);
	if (to != stdout)
		failed |= fclose(to) != 0;
	return failed ? complain(command, "%s: %s", name, strerror(errno)) : 0;
}

static int write_files(const struct command *command, const struct joined *j, const struct wish *w)
{
	int status = w->html ? write_file(command, w->html, j, &w->filter, print_html) : 0;

	return status ?: w->perfetto ? write_file(command, w->perfetto, j, &w->filter, print_perfetto) : status;
}

int trace_command(const struct command *command, int argc, char **argv)
{
	struct records records;
	struct joined joined;
	const char *error;
	struct wish wish;
	char **names;
	uint32_t count;
	int status = read_options(command, argc, argv, &wish);

	if (status)
		return status;
	names = argv + optind;
	count = (uint32_t)(argc - optind);
	status = wish.live ? live_trace(command, &names, &count, wish.seconds) : 0;
	if (status)
		return status;
	error = records_load(&records, names, count);
	if (error)
		return complain(command, "%s", error);
	for (uint32_t i = 0; wish.live && i < records.files; i++)
		records.sources[i].name = "live";
	join(&joined, &records);
	if (wish.html || wish.perfetto) {
		status = write_files(command, &joined, &wish);
	} else if (wish.json) {
		uint32_t *which, count = filter_requests(&joined, &wish.filter, &which);

		print_json(&joined, which, count, wish.requests, wish.summary, stdout);
		free(which);
	} else {
		print_text(&joined, &wish);
	}
	join_free(&joined);
	records_free(&records);
	return status ? EXIT_FAILURE : EXIT_SUCCESS;
}
