/* SPDX-License-Identifier: BSD-2-Clause */
/* Reports of findings: once for each place, and a summary at the end. */
#include "check/finding.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/cause.h"
#include "base/config.h"
#include "base/high_fd.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/own_file.h"
#include "base/wrap.h"
#include "check/scope.h"
#include "check/stack.h"
#include "check/tuned.h"

#define NAMES 128

/* A finding that was reported. */
struct told {
	struct told *next;
	const char *name;
	enum check_class class;
	const struct stack *stack;
	uint64_t count;
	bool suppressed;
};

/* A line of the suppressions file: NAME PATTERN. */
struct suppression {
	struct suppression *next;
	char *name, *pattern;
};

static const char *const class_names[] = {[CHECK_LEAKS] = "leaks",
					  [CHECK_HABITS] = "habits",
					  [CHECK_BUFFERS] = "buffers",
					  [CHECK_MAPPINGS] = "mappings",
					  [CHECK_RACES] = "races"};
static_assert(ARRAY_SIZE(class_names) == CHECK_CLASSES, "each has its name");

static struct lock report_lock = LOCK_RANKED(CHECK_REPORT); /* guards all below */
static struct told *all_told;
static struct suppression *suppressions;
static int log_fd = STDERR_FILENO, report_fd = -1;
static bool as_json, generates;
static pid_t process;		      /* that is checked; a copy of it may report */
static uint32_t failed, failed_cause; /* requests polled with an error; the first cause that is known */

/* ---- suppressions ---- */

static void add_suppression(const char *name, const char *pattern)
{
	struct suppression *s = calloc(1, sizeof(*s));

	if (!s)
		return;
	s->name = strdup(name);
	s->pattern = strdup(pattern);
	s->next = suppressions;
	suppressions = s;
}

static void read_suppressions(const char *path)
{
	FILE *file = fopen(path, "rce");
	char line[512], name[NAMES], pattern[NAMES];
	unsigned number = 0;

	if (!file) {
		log_error("UROCE_CHECK_SUPPRESSIONS=%s: %s: nothing is suppressed", path, strerror(errno));
		return;
	}
	while (fgets(line, sizeof(line), file)) {
		int n = (number++, sscanf(line, "%127s %127s", name, pattern));

		if (n < 1 || *name == '#')
			continue;
		if (n == 2)
			add_suppression(name, pattern);
		else
			log_error("%s:%u: a suppression is a name and a pattern: leak-region main", path, number);
	}
	fclose(file);
}

/* True if the pattern matches the function or the code file of a frame. */
static bool fits(const struct suppression *s, const struct finding *f)
{
	char function[NAMES], module[NAMES];
	const struct stack *stack = f->at[0].stack;

	if (fnmatch(s->name, f->name, 0))
		return false;
	for (uint32_t i = 0; stack && i < stack->depth; i++) {
		stack_frame_names(stack->frame[i], function, module, NAMES);
		if (!fnmatch(s->pattern, function, 0) || !fnmatch(s->pattern, module, 0))
			return true;
	}
	return !strcmp(s->pattern, "*");
}

static bool is_suppressed(const struct finding *f)
{
	for (const struct suppression *s = suppressions; s; s = s->next)
		if (fits(s, f))
			return true;
	return false;
}

/* ---- one finding ---- */

/* True of a function that called main() or a thread's function. */
static bool is_start(const char *text)
{
	static const char *const starts[] = {"__libc_start", "start_thread", "_start ("};

	for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
		if (!strncmp(text, starts[i], strlen(starts[i])))
			return true;
	return false;
}

static void print_stack(FILE *to, const char *title, const struct stack *stack)
{
	char text[320];

	fprintf(to, "    %s\n", title);
	if (stack->python)
		fprintf(to, "        %s, by way of:\n", stack->python);
	for (uint32_t i = 0; i < stack->depth; i++) {
		stack_frame_text(stack->frame[i], text, sizeof(text));
		if (i && is_start(text))
			break;
		fprintf(to, "        %s\n", text);
	}
}

static void print_suppression(FILE *to, const struct finding *f)
{
	char function[NAMES], module[NAMES];

	stack_frame_names(f->at[0].stack->frame[0], function, module, NAMES);
	fprintf(to, "    to suppress it: %s %s\n", f->name, *function ? function : module);
}

static void print_finding(FILE *to, const struct finding *f)
{
	fprintf(to, "uroce check: %s: %s\n", f->name, f->text);
	for (int i = 0; i < FINDING_STACKS; i++)
		if (f->at[i].stack)
			print_stack(to, f->at[i].title, f->at[i].stack);
	fprintf(to, "    what to do: %s\n", f->remedy);
	if (generates && f->at[0].stack)
		print_suppression(to, f);
}

static void json_string(FILE *to, const char *text)
{
	fputc('"', to);
	for (; *text; text++)
		if (*text == '"' || *text == '\\')
			fprintf(to, "\\%c", *text);
		else if ((unsigned char)*text < ' ')
			fprintf(to, "\\u%04x", *text);
		else
			fputc(*text, to);
	fputc('"', to);
}

static void json_field(FILE *to, const char *name, const char *text)
{
	json_string(to, name);
	fputc(':', to);
	json_string(to, text);
}

static void json_stack(FILE *to, const char *title, const struct stack *stack)
{
	char text[320], path[512];
	int line = 0; /* of the innermost frame that has one */

	fputc('{', to);
	json_field(to, "title", title);
	if (stack->python) {
		fputc(',', to);
		json_field(to, "python", stack->python);
	}
	fputs(",\"frames\":[", to);
	for (uint32_t i = 0; i < stack->depth; i++) {
		stack_frame_text(stack->frame[i], text, sizeof(text));
		if (i && is_start(text))
			break;
		fputs(i ? "," : "", to);
		json_string(to, text);
		if (!line)
			line = stack_frame_place(stack->frame[i], path, sizeof(path));
	}
	fputc(']', to);
	if (line) {
		fputc(',', to);
		json_field(to, "file", path);
		fprintf(to, ",\"line\":%d", line);
	}
	fputc('}', to);
}

/* Prints a finding as one line of JSON. */
static void json_finding(FILE *to, const struct finding *f)
{
	const char *comma = "";

	fprintf(to, "{\"pid\":%d,", (int)process);
	json_field(to, "class", class_names[f->class]);
	fputc(',', to);
	json_field(to, "name", f->name);
	fputc(',', to);
	json_field(to, "text", f->text);
	fputc(',', to);
	json_field(to, "remedy", f->remedy);
	fputs(",\"stacks\":[", to);
	for (int i = 0; i < FINDING_STACKS; i++) {
		if (!f->at[i].stack)
			continue;
		fputs(comma, to);
		json_stack(to, f->at[i].title, f->at[i].stack);
		comma = ",";
	}
	fputs("]}\n", to);
}

/* Writes in one call, so that lines of several processes do not mix. */
static void put(int fd, const char *text, size_t size)
{
	ssize_t n;

	do
		n = write(fd, text, size);
	while (n < 0 && errno == EINTR);
}

/* Writes text for people: at a terminal, lines of its width. */
static void put_lines(const char *text)
{
	unsigned columns = wrap_columns(log_fd);
	size_t room = columns ? 2 * strlen(text) + 64 : 0;
	char *lines = columns ? malloc(room) : NULL;

	if (lines)
		put(log_fd, lines, wrap_lines(lines, room, text, columns));
	else
		put(log_fd, text, strlen(text));
	free(lines);
}

/* The text that `print` writes; the caller frees it. NULL without memory. */
static char *printed(void (*print)(FILE *to, const struct finding *f), const struct finding *f)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	if (!to)
		return NULL;
	print(to, f);
	fclose(to);
	return text;
}

static void tell(const struct finding *f)
{
	char *text = printed(as_json ? json_finding : print_finding, f);
	char *report = report_fd < 0 ? NULL : printed(json_finding, f);

	if (text && as_json)
		put(log_fd, text, strlen(text));
	else if (text)
		put_lines(text);
	if (report)
		put(report_fd, report, strlen(report));
	free(text);
	free(report);
}

static struct told *find_told(const struct finding *f)
{
	struct told *t = all_told;

	while (t && (t->stack != f->at[0].stack || strcmp(t->name, f->name)))
		t = t->next;
	return t;
}

void finding_report(const struct finding *f)
{
	int saved = errno;
	struct told *t;

	lock_take(&report_lock);
	t = find_told(f);
	if (!t && (t = calloc(1, sizeof(*t)))) {
		t->name = f->name;
		t->class = f->class;
		t->stack = f->at[0].stack;
		t->suppressed = is_suppressed(f);
		t->next = all_told;
		all_told = t;
		if (!t->suppressed)
			tell(f);
	}
	if (t)
		t->count += f->amount ?: 1;
	lock_drop(&report_lock);
	errno = saved;
}

/* ---- the end ---- */

void finding_count_failed(uint32_t cause)
{
	lock_take(&report_lock);
	failed++;
	if (!failed_cause && !check_is_through)
		failed_cause = cause;
	lock_drop(&report_lock);
}

static void sum_up_text(uint32_t places, uint64_t times, uint32_t suppressed)
{
	uint64_t dropped = cause_times(CAUSE_MESSAGE_LOST);
	char text[384];
	int n = snprintf(text, sizeof(text), "uroce check: process %d: ", (int)process);

	if (places)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%u finding%s", places, places > 1 ? "s" : "");
	else
		n += snprintf(text + n, sizeof(text) - (size_t)n, "no mistakes found");
	if (times > places)
		n += snprintf(text + n, sizeof(text) - (size_t)n, ", %" PRIu64 " times in all", times);
	if (suppressed)
		n += snprintf(text + n, sizeof(text) - (size_t)n, ", %u suppressed", suppressed);
	if (failed)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "; %u request%s failed", failed,
			      failed > 1 ? "s" : "");
	if (failed && failed_cause)
		n += snprintf(text + n, sizeof(text) - (size_t)n, " (cause 0x%x)", failed_cause);
	if (dropped)
		n += snprintf(text + n, sizeof(text) - (size_t)n,
			      "; %" PRIu64 " message%s found no receive, and %s dropped (cause 0x%x)", dropped,
			      dropped > 1 ? "s" : "", dropped > 1 ? "were" : "was", CAUSE_MESSAGE_LOST);
	text[n++] = '\n';
	text[n] = 0;
	put_lines(text);
}

static void sum_up_json(int fd, uint32_t places, uint64_t times, uint32_t suppressed)
{
	char text[256];
	int n = snprintf(text, sizeof(text),
			 "{\"pid\":%d,\"findings\":%u,\"times\":%" PRIu64
			 ",\"suppressed\":%u,\"failed\":%u,\"cause\":%u,\"dropped\":%" PRIu64 "}\n",
			 (int)process, places, times, suppressed, failed, failed_cause,
			 cause_times(CAUSE_MESSAGE_LOST));

	put(fd, text, (size_t)n);
}

void finding_descriptors(int fd[FINDING_FDS])
{
	fd[0] = log_fd;
	fd[1] = report_fd;
}

int finding_sum_up(void)
{
	uint32_t places = 0, suppressed = 0;
	uint64_t times = 0;

	lock_take(&report_lock);
	for (const struct told *t = all_told; t; t = t->next) {
		places += !t->suppressed;
		suppressed += t->suppressed;
		times += t->suppressed ? 0 : t->count;
	}
	if (as_json)
		sum_up_json(log_fd, places, times, suppressed);
	else
		sum_up_text(places, times, suppressed);
	if (report_fd >= 0)
		sum_up_json(report_fd, places, times, suppressed);
	lock_drop(&report_lock);
	return places || (failed && config_bool(CONFIG_CHECK_FAILED)) ? (int)config_number(CONFIG_CHECK_EXIT) : 0;
}

/* Opens the file that a variable names. -1: it names none, or a message tells why not. */
static int open_file(enum config variable, int flags, const char *instead)
{
	char path[4096], why[OWN_FILE_WHY];
	int fd;

	if (!config_file(variable, path, sizeof(path)))
		return -1;
	fd = high_fd(own_file_open(path, O_WRONLY | O_APPEND | flags, 0666, why));
	if (fd < 0)
		log_error("%s=%s: %s: %s", config_row[variable].name, path, why, instead);
	return max_of(fd, -1);
}

void finding_start(void)
{
	process = getpid();
	as_json = config_bool(CONFIG_CHECK_JSON);
	generates = config_bool(CONFIG_CHECK_GENERATE);
	log_fd = open_file(CONFIG_CHECK_LOG, O_CREAT, "findings go to standard error");
	if (log_fd < 0)
		log_fd = STDERR_FILENO;
	report_fd = open_file(CONFIG_CHECK_REPORT, 0, "no report tells of this process");
	if (report_fd >= 0)
		flock(report_fd, LOCK_SH); /* `uroce check` waits until no process has it */
	if (config_string(CONFIG_CHECK_SUPPRESSIONS))
		read_suppressions(config_string(CONFIG_CHECK_SUPPRESSIONS));
}
