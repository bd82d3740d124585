/* `uroce trace`: the life of each work request.
 * SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "tools/command.h"
#include "tools/life.h"

#define DEFAULT_LIMIT 10

struct wish {
	struct filter filter;
	bool json, summary, requests;
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

/* 0, or the exit status. */
static int read_options(const struct command *command, int argc, char **argv, struct wish *w)
{
	static const struct option options[] = {
		{"qpn", required_argument, NULL, 'q'},	   {"wqe", required_argument, NULL, 'w'},
		{"opcode", required_argument, NULL, 'o'},  {"limit", required_argument, NULL, 'l'},
		{"summary", no_argument, NULL, 's'},	   {"requests", no_argument, NULL, 'r'},
		{"json", no_argument, NULL, 'j'},	   {0},
	};
	int64_t limit = -1;
	int c;

	*w = (struct wish){.filter = {.qpn = -1, .wqe = -1}};
	while ((c = getopt_long(argc, argv, "q:w:o:l:srj", options, NULL)) != -1) {
		int64_t *n = c == 'q' ? &w->filter.qpn : c == 'w' ? &w->filter.wqe : c == 'l' ? &limit : NULL;

		if (c == '?')
			return wrong_usage(command, "%s", "");
		if (n && !to_number(optarg, n))
			return wrong_usage(command, "'%s' is not a number", optarg);
		w->json |= c == 'j';
		w->summary |= c == 's';
		w->requests |= c == 'r';
		if (c == 'o')
			w->filter.operation = optarg;
	}
	if (optind == argc)
		return wrong_usage(command, "no file named: UROCE_TRACE=FILE or `uroce run -t FILE` makes one");
	w->filter.limit = limit >= 0 ? (uint32_t)limit : w->json ? 0 : DEFAULT_LIMIT;
	if (!w->summary && !w->requests)
		w->summary = w->requests = true;
	return 0;
}

/* The summary is of all requests that the filter lets through, however few of them are shown. */
static void print_text(const struct joined *j, const struct wish *w)
{
	struct filter unlimited = w->filter;
	uint32_t *shown, *all, count, total;

	unlimited.limit = 0;
	total = filter_requests(j, &unlimited, &all);
	count = filter_requests(j, &w->filter, &shown);
	print_sources(j->records, stdout);
	putchar('\n');
	if (!j->request_count)
		printf("No work request was posted in this time.\n");
	else if (!total)
		printf("No such request among %u.\n", j->request_count);
	if (w->requests) {
		for (uint32_t i = 0; i < count; i++)
			print_request(j, &j->requests[shown[i]], stdout);
		if (count < total)
			printf("These are the last %u of %u requests; --limit 0 shows all.\n\n", count, total);
	}
	if (w->summary)
		print_summary(j, all, total, stdout);
	free(shown);
	free(all);
}

int trace_command(const struct command *command, int argc, char **argv)
{
	struct records records;
	struct joined joined;
	const char *error;
	struct wish wish;
	int status = read_options(command, argc, argv, &wish);

	if (status)
		return status;
	error = records_load(&records, argv + optind, (uint32_t)(argc - optind));
	if (error)
		return complain(command, "%s", error);
	join(&joined, &records);
	if (wish.json) {
		uint32_t *which, count = filter_requests(&joined, &wish.filter, &which);

		print_json(&joined, which, count, wish.requests, wish.summary, stdout);
		free(which);
	} else {
		print_text(&joined, &wish);
	}
	join_free(&joined);
	records_free(&records);
	return fflush(stdout) || ferror(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
