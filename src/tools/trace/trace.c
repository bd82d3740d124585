/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce trace`: prints the life of each work request. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/control_call.h"
#include "base/own_file.h"
#include "tools/command.h"
#include "tools/map.h"
#include "tools/names.h"
#include "tools/terminal.h"
#include "tools/trace/views.h"
#include "tools/trace/life.h"
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

static void print_requests(const struct joined *j, const struct filter *f, bool ladder)
{
	void (*print)(const struct joined *j, const struct request *q, FILE *to) =
		ladder ? print_ladder : print_request;
	uint32_t *which, count = filter_requests(j, f, &which), total = count_requests(j, *f);

	for (uint32_t i = 0; i < count; i++)
		print(j, &j->requests[which[i]], stdout);
	free(which);
	if (!j->request_count)
		printf("No work request was posted in this time.\n");
	else if (!total)
		printf("None of the %u requests matches.\n", j->request_count);
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

/* ---- live ---- */

static void end_live(int signal)
{
}

/* Waits for Ctrl-C, the time limit, or the end of all processes. */
static void live_wait(struct pollfd *connection, int count, double seconds)
{
	struct sigaction end = {.sa_handler = end_live, .sa_flags = (int)SA_RESETHAND};
	uint64_t until = seconds > 0 ? clock_now() + (uint64_t)(seconds * SEC) : NEVER, now;
	int open = count;

	sigaction(SIGINT, &end, NULL);
	sigaction(SIGTERM, &end, NULL);
	if (seconds <= 0)
		fprintf(stderr, "Tracing %d process%s; Ctrl-C ends it.\n", count, count == 1 ? "" : "es");
	while (open && (now = clock_now()) < until) {
		int left = until == NEVER ? -1 : (int)min_of((until - now + MSEC - 1) / MSEC, (uint64_t)INT_MAX);

		if (poll(connection, (nfds_t)count, left) < 0)
			return;
		for (int i = 0; i < count; i++)
			if (connection[i].revents) { /* process ended */
				close(connection[i].fd);
				connection[i].fd = -1;
				connection[i].revents = 0;
				open--;
			}
	}
}

/* Waits until the processes have stopped tracing: their rings would change while being read. A process that does not
 * answer for a second is stopped, or gets no processor. */
static void live_end(struct pollfd *connection, int count)
{
	for (int i = 0; i < count; i++)
		shutdown(connection[i].fd, SHUT_WR);
	for (int i = 0; i < count; i++) {
		if (connection[i].fd < 0)
			continue;
		poll(&connection[i], 1, 1000);
		close(connection[i].fd);
	}
}

/* Traces running processes into files of our own; `names` are process ids before, and paths afterwards. 0, or an
 * exit status. */
static int live_trace(const struct command *command, char **names, int count, double seconds)
{
	struct pollfd *connection = grow(NULL, (size_t)count, sizeof(*connection));
	char answer[256];
	int64_t pid;
	int given, status = 0, open = 0;

	for (; open < count && !status; open += !status) {
		if (!to_number(names[open], &pid) || pid <= 0 || pid > INT_MAX) {
			status = wrong_usage(command, "'%s' is not a process id", names[open]);
			break;
		}
		connection[open].fd = control_call((pid_t)pid, "trace", answer, sizeof(answer), &given);
		connection[open].events = POLLIN;
		if (connection[open].fd < 0)
			status = complain(command, "process %s: %s", names[open], answer);
		else if (given < 0 || asprintf(&names[open], "/proc/self/fd/%d", given) < 0)
			status = complain(command, "process %s sent no trace", names[open]);
	}
	if (!status)
		live_wait(connection, count, seconds);
	live_end(connection, open);
	free(connection);
	return status;
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
	status = wish.live ? live_trace(command, argv + optind, argc - optind, wish.seconds) : 0;
	if (status)
		return status;
	error = records_load(&records, argv + optind, (uint32_t)(argc - optind));
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
