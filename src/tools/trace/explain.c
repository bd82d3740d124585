/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce explain CODE`: explains a cause, from vendor_err of a completion or from a message, or the status of a
 * completion. `uroce explain PID` and `uroce explain FILE`: print what a program waits for. */
#include <ctype.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cause.h"
#include "tools/command.h"
#include "tools/map.h"
#include "tools/names.h"
#include "tools/stat/hangs.h"
#include "tools/terminal.h"
#include "tools/trace/waits.h"

static void explain_one(const struct cause_row *row)
{
	printf("  0x%03x  %s\n", row->code, row->name);
}

static void explain_all(void)
{
	for (const struct cause_row *row = cause_next(NULL); row; row = cause_next(row))
		explain_one(row);
}

enum { STATUS_CAUSES = 8 };

/* What a status means, and the causes that give it. */
static const struct {
	const char *meaning;
	uint16_t cause[STATUS_CAUSES];
} statuses[] = {
	[IBV_WC_SUCCESS] = {"the request is complete"},
	[IBV_WC_LOC_LEN_ERR] = {"a message is too long", {CAUSE_LENGTH, CAUSE_RECEIVE_SHORT, CAUSE_PACKET_LENGTH}},
	[IBV_WC_LOC_QP_OP_ERR] = {"this queue pair cannot do the request",
				  {CAUSE_ATOMIC_LENGTH, CAUSE_NO_READS, CAUSE_AH_DOMAIN}},
	[IBV_WC_LOC_PROT_ERR] = {"an SGE of this end's request or receive may not be used",
				 {CAUSE_LKEY_UNKNOWN, CAUSE_LKEY_GONE, CAUSE_LKEY_DOMAIN, CAUSE_LKEY_BOUNDS,
				  CAUSE_LKEY_RIGHTS, CAUSE_LKEY_UNMAPPED, CAUSE_LKEY_KIND}},
	[IBV_WC_WR_FLUSH_ERR] = {"the queue pair had failed or was ended before: look at the first completion with "
				 "another status",
				 {CAUSE_MOVED}},
	[IBV_WC_MW_BIND_ERR] = {"a memory window cannot be bound so", {CAUSE_BIND}},
	[IBV_WC_BAD_RESP_ERR] = {"the peer answered with what does not fit", {CAUSE_BAD_RESPONSE}},
	[IBV_WC_LOC_ACCESS_ERR] = {"a WRITE with immediate of the peer may not access this end's memory",
				   {CAUSE_QP_RIGHTS, CAUSE_RKEY_UNKNOWN, CAUSE_RKEY_GONE, CAUSE_RKEY_DOMAIN,
				    CAUSE_RKEY_BOUNDS, CAUSE_RKEY_RIGHTS, CAUSE_RKEY_UNMAPPED, CAUSE_RKEY_KIND}},
	[IBV_WC_REM_INV_REQ_ERR] = {"the request is not valid at the peer",
				    {CAUSE_PEER_INVALID, CAUSE_OUT_OF_SEQUENCE, CAUSE_INVALIDATE}},
	[IBV_WC_REM_ACCESS_ERR] = {"the peer's memory may not be accessed so", {CAUSE_PEER_ACCESS}},
	[IBV_WC_REM_OP_ERR] = {"the peer could not do it", {CAUSE_PEER_OPERATION}},
	[IBV_WC_RETRY_EXC_ERR] = {"the peer did not acknowledge, however often it was sent again (retry_cnt)",
				  {CAUSE_NO_ANSWER, CAUSE_PEER_PSN}},
	[IBV_WC_RNR_RETRY_EXC_ERR] = {"the peer had no receive, however long was waited (rnr_retry)",
				      {CAUSE_NO_RECEIVE}},
};

/* Prints a line; on a terminal, in its width. */
static void explain_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void explain_line(const char *format, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	print_wrapped(stdout, text, 0, 2);
	putchar('\n');
}

static void explain_row(const char *what, const struct cause_row *row)
{
	explain_line("%s0x%03x %s: %s.", what, row->code, row->name, row->meaning);
	explain_line("What to do: %s.", row->remedy);
}

static int explain_status(unsigned status)
{
	explain_line("%s (%u): %s.", status_name(status), status, statuses[status].meaning);
	for (size_t i = 0; i < STATUS_CAUSES && statuses[status].cause[i]; i++) {
		putchar('\n');
		explain_row("vendor_err ", cause_find(statuses[status].cause[i]));
	}
	return EXIT_SUCCESS;
}

/* The status of that name, with IBV_WC_ or without; -1: none. */
static int status_named(const char *name)
{
	static const char prefix[] = "IBV_WC_";

	if (!strncmp(name, prefix, strlen(prefix)))
		name += strlen(prefix);
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++)
		if (statuses[i].meaning && !strcmp(status_name(i) + strlen(prefix), name))
			return (int)i;
	return -1;
}

static const struct cause_row *cause_named(const char *name)
{
	const struct cause_row *row = cause_next(NULL);

	while (row && strcmp(row->name, name))
		row = cause_next(row);
	return row;
}

static int explain_cause(const struct cause_row *row)
{
	explain_row("", row);
	return EXIT_SUCCESS;
}

/* Explains traces: arguments that are neither number nor name. */
static int explain_files(const struct command *command, char **names, int count)
{
	struct waits *w = grow(NULL, (size_t)count, sizeof(*w));
	const char *error = NULL;
	int loaded = 0;

	for (; loaded < count && !error; loaded++)
		error = waits_load(names[loaded], &w[loaded]);
	if (error)
		complain(command, "%s", error);
	for (int i = 0; i < count && !error; i++)
		waits_explain(&w[i], w, (size_t)count);
	while (loaded)
		waits_free(&w[--loaded]);
	free(w);
	return error ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Explains a name that is no file. */
static int explain_name(const struct command *command, char **names, int count)
{
	const struct cause_row *row = cause_named(*names);
	int status = status_named(*names);

	if (count == 1 && access(*names, F_OK) && (row || status >= 0))
		return row ? explain_cause(row) : explain_status((unsigned)status);
	return explain_files(command, names, count);
}

/* Explains numbers: a status, a cause, or else processes. */
static int explain_numbers(const struct command *command, char **names, int count)
{
	const struct cause_row *row;
	unsigned long code;
	bool is_number;
	char *end;

	code = strtoul(*names, &end, 0);
	if (count > 1)
		return hangs_explain(command, count, names);
	if (!*end && code < ARRAY_SIZE(statuses) && statuses[code].meaning)
		return explain_status((unsigned)code);
	row = !*end && code <= UINT16_MAX ? cause_find((uint32_t)code) : NULL;
	if (row && code & CAUSE_FLUSHED)
		printf("The request was flushed, as the queue pair had failed before. Why it had failed:\n");
	if (row)
		return explain_cause(row);
	is_number = !*end && **names != '0' && code <= INT32_MAX;
	if (is_number && !kill((pid_t)code, 0))
		return hangs_explain(command, count, names);
	return complain(command, "there is no cause %s%s: `uroce explain --list` shows all", *names,
			is_number ? ", and no such process of yours" : "");
}

int explain_command(const struct command *command, int argc, char **argv)
{
	static const struct option options[] = {{"list", no_argument, NULL, 'l'}, {"pid", no_argument, NULL, 'p'}, {0}};
	bool pids = false;
	int c;

	while ((c = next_option(command, argc, argv, "lp", options)) != -1) {
		if (c == '?')
			return show_usage(command);
		if (c == 'l') {
			explain_all();
			return EXIT_SUCCESS;
		}
		pids = true;
	}
	argv += optind;
	argc -= optind;
	if (!argc)
		return wrong_usage(command, "give the code of a cause, a process, or the trace of one");
	if (pids)
		return hangs_explain(command, argc, argv);
	if (isdigit((unsigned char)**argv))
		return explain_numbers(command, argv, argc);
	return explain_name(command, argv, argc);
}
