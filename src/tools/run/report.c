/* SPDX-License-Identifier: BSD-2-Clause */
/* Each process adds its findings, lines of JSON, to one file (UROCE_CHECK_REPORT); they are read when no process has it
 * open any more. */
#include "tools/run/report.h"

#include <cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/own_file.h"
#include "tools/command.h"
#include "tools/program.h"
#include "tools/tuned.h"

struct report {
	char *program;	 /* its command line */
	cJSON *findings; /* one for each name and place; "processes": how many had it */
	uint64_t failed; /* requests */
	unsigned cause;	 /* of the first one */
	int status;	 /* as from waitpid() */
};

/* ---- text ---- */

/* Bytes of the UTF-8 sequence at `s`; 0 if it is none. */
static size_t utf8_length(const char *s)
{
	unsigned char c = (unsigned char)*s;
	size_t n = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;

	for (size_t i = 1; i < n; i++)
		if (((unsigned char)s[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

/* Replaces what neither JSON nor XML can have: names of files and functions are any bytes. */
static void make_text(char *s)
{
	for (size_t n; *s; s += n ?: 1) {
		n = utf8_length(s);
		if (!n || ((unsigned char)*s < ' ' && *s != '\n'))
			*s = '?';
	}
}

static const char *string_of(const cJSON *o, const char *name)
{
	return cJSON_GetStringValue(cJSON_GetObjectItem(o, name)) ?: "";
}

static int number_of(const cJSON *o, const char *name)
{
	const cJSON *number = cJSON_GetObjectItem(o, name);

	return number ? number->valueint : 0;
}

/* The stack of the place. */
static const cJSON *place_of(const cJSON *finding)
{
	return cJSON_GetArrayItem(cJSON_GetObjectItem(finding, "stacks"), 0);
}

/* Path of a finding's source file: relative if it lies in the job's folder, or in this one. A program that was compiled
 * elsewhere names paths of that place: the longest end of the path that exists here is meant. NULL: unknown. */
static const char *file_of(const cJSON *finding, char path[PATH_MAX])
{
	const char *folder = getenv("GITHUB_WORKSPACE"), *file = string_of(place_of(finding), "file");
	char root[PATH_MAX], name[2 * PATH_MAX];
	size_t n = realpath(folder && *folder ? folder : ".", root) ? strlen(root) : 0;

	if (!*file)
		return NULL;
	snprintf(name, sizeof(name), "%s", file);
	for (const char *end = file; n && end; end = strchr(end + 1, '/')) {
		if (realpath(name, path) && !strncmp(path, root, n) && path[n] == '/')
			return path + n + 1;
		snprintf(name, sizeof(name), "%s/%s", root, end);
	}
	return realpath(file, path) ?: file;
}

/* The whole finding, as lines. */
static char *text_of(const cJSON *finding)
{
	const cJSON *stack, *frame;
	int processes = number_of(finding, "processes");
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	fprintf(to, "%s", string_of(finding, "text"));
	if (processes > 1)
		fprintf(to, " (in %d processes)", processes);
	cJSON_ArrayForEach(stack, cJSON_GetObjectItem(finding, "stacks"))
	{
		fprintf(to, "\n%s", string_of(stack, "title"));
		if (*string_of(stack, "python"))
			fprintf(to, "\n    %s, by way of:", string_of(stack, "python"));
		cJSON_ArrayForEach(frame, cJSON_GetObjectItem(stack, "frames"))
			fprintf(to, "\n    %s", cJSON_GetStringValue(frame) ?: "");
	}
	fprintf(to, "\nwhat to do: %s", string_of(finding, "remedy"));
	fclose(to);
	return text;
}

/* ---- what was found ---- */

static void add_finding(struct report *r, cJSON *finding)
{
	cJSON *known;

	cJSON_ArrayForEach(known, r->findings) if (!strcmp(string_of(known, "name"), string_of(finding, "name")) &&
						   cJSON_Compare(cJSON_GetObjectItem(known, "stacks"),
								 cJSON_GetObjectItem(finding, "stacks"), true))
	{
		cJSON_SetIntValue(cJSON_GetObjectItem(known, "processes"), number_of(known, "processes") + 1);
		cJSON_Delete(finding);
		return;
	}
	cJSON_AddNumberToObject(finding, "processes", 1);
	cJSON_AddItemToArray(r->findings, finding);
}

/* False: a process still runs that may find more. */
static bool read_findings(struct report *r, FILE *from)
{
	bool all = !own_file_lock(fileno(from), REPORT_PATIENCE);
	char *line = NULL;
	size_t room = 0;

	while (getline(&line, &room, from) > 0) {
		cJSON *o;

		make_text(line);
		o = cJSON_Parse(line);
		if (*string_of(o, "name")) {
			add_finding(r, o);
			continue;
		}
		r->failed += (uint64_t)number_of(o, "failed");
		r->cause = r->cause ?: (unsigned)number_of(o, "cause");
		cJSON_Delete(o);
	}
	free(line);
	return all;
}

static int exit_status(const struct report *r)
{
	return WIFEXITED(r->status) ? WEXITSTATUS(r->status) : 128 + WTERMSIG(r->status);
}

/* Exit status that findings ask for, and requests that failed; 0: none. */
static int status_of_findings(const struct report *r)
{
	bool found = cJSON_GetArraySize(r->findings) || (r->failed && config_bool(CONFIG_CHECK_FAILED));

	return found ? (int)config_number(CONFIG_CHECK_EXIT) : 0;
}

/* How the program failed, apart from its findings; false: it did not. */
static bool has_failed(const struct report *r, char how[128])
{
	bool of_requests = r->failed && config_bool(CONFIG_CHECK_FAILED);
	int n = 0, status = exit_status(r);

	*how = 0;
	if (WIFSIGNALED(r->status))
		n = snprintf(how, 128, "ended by signal %d (%s)", WTERMSIG(r->status), strsignal(WTERMSIG(r->status)));
	else if (status && status != status_of_findings(r))
		n = snprintf(how, 128, "ended with status %d", status);
	if (r->failed && (n || of_requests))
		n += snprintf(how + n, 128 - (size_t)n, "%s%ju request%s failed", n ? "; " : "", (uintmax_t)r->failed,
			      r->failed > 1 ? "s" : "");
	if (r->failed && n && r->cause)
		snprintf(how + n, 128 - (size_t)n, " (cause 0x%x)", r->cause);
	return *how;
}

/* ---- JUnit ---- */

static void xml_text(FILE *to, const char *text)
{
	static const char special[] = "<>&\"";
	static const char *const names[] = {"&lt;", "&gt;", "&amp;", "&quot;"};

	for (; *text; text++) {
		const char *at = strchr(special, *text);

		if (at)
			fputs(names[at - special], to);
		else
			fputc(*text, to);
	}
}

static void xml_attribute(FILE *to, const char *name, const char *text)
{
	fprintf(to, " %s=\"", name);
	xml_text(to, text);
	fputc('"', to);
}

static void junit_program(FILE *to, const struct report *r)
{
	char how[128];

	fputs("<testcase classname=\"program\"", to);
	xml_attribute(to, "name", r->program);
	fputs(">\n", to);
	if (has_failed(r, how)) {
		fputs("<failure type=\"program\"", to);
		xml_attribute(to, "message", how);
		fputs("/>\n", to);
	}
	fputs("</testcase>\n", to);
}

static void junit_finding(FILE *to, const cJSON *finding)
{
	const char *name = string_of(finding, "name");
	const char *frame =
		cJSON_GetStringValue(cJSON_GetArrayItem(cJSON_GetObjectItem(place_of(finding), "frames"), 0));
	char path[PATH_MAX], *text = text_of(finding), *title = NULL;
	const char *file = file_of(finding, path);

	fputs("<testcase", to);
	xml_attribute(to, "classname", string_of(finding, "class"));
	if (asprintf(&title, "%s%s%s", name, frame ? ": " : "", frame ?: "") >= 0)
		xml_attribute(to, "name", title);
	if (file) {
		xml_attribute(to, "file", file);
		fprintf(to, " line=\"%d\"", number_of(place_of(finding), "line"));
	}
	fputs(">\n<failure", to);
	xml_attribute(to, "type", name);
	xml_attribute(to, "message", string_of(finding, "text"));
	fputc('>', to);
	xml_text(to, text);
	fputs("</failure>\n</testcase>\n", to);
	free(title);
	free(text);
}

/* The program is a test, too: what reads such a file takes one without tests for a mistake. */
static void write_junit(FILE *to, const struct report *r)
{
	const cJSON *finding;
	char how[128];
	int findings = cJSON_GetArraySize(r->findings);

	fprintf(to,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
		"<testsuite name=\"uroce check\" tests=\"%d\" failures=\"%d\" errors=\"0\" skipped=\"0\">\n",
		findings + 1, findings + has_failed(r, how));
	junit_program(to, r);
	cJSON_ArrayForEach(finding, r->findings) junit_finding(to, finding);
	fputs("</testsuite>\n</testsuites>\n", to);
}

/* ---- SARIF ---- */

/* Adds the text as an object: {"text": TEXT}. */
static void sarif_message(cJSON *to, const char *name, const char *text)
{
	cJSON_AddStringToObject(cJSON_AddObjectToObject(to, name), "text", text);
}

/* The path as a URI: of SARIF's base if it is relative. */
static void sarif_file(cJSON *to, const char *path)
{
	static const char plain[] = "/-._~ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
	char uri[3 * PATH_MAX + 8];
	int n = snprintf(uri, sizeof(uri), "%s", *path == '/' ? "file://" : "");

	if (*path != '/')
		cJSON_AddStringToObject(to, "uriBaseId", "%SRCROOT%");
	for (; *path; path++)
		n += snprintf(uri + n, sizeof(uri) - (size_t)n, strchr(plain, *path) ? "%c" : "%%%02X",
			      (unsigned char)*path);
	cJSON_AddStringToObject(to, "uri", uri);
}

/* Index of the rule that a finding breaks; adds it to the rules. */
static int sarif_rule(cJSON *rules, const cJSON *finding)
{
	cJSON *rule;
	int index = 0;

	cJSON_ArrayForEach(rule, rules)
	{
		if (!strcmp(string_of(rule, "id"), string_of(finding, "name")))
			return index;
		index++;
	}
	rule = cJSON_CreateObject();
	cJSON_AddStringToObject(rule, "id", string_of(finding, "name"));
	sarif_message(rule, "help", string_of(finding, "remedy"));
	cJSON_AddItemToArray(rules, rule);
	return index;
}

static void sarif_finding(cJSON *results, cJSON *rules, const cJSON *finding)
{
	cJSON *result = cJSON_CreateObject(), *location = cJSON_CreateObject(), *physical;
	char path[PATH_MAX], *text = text_of(finding);
	const char *file = file_of(finding, path);

	cJSON_AddStringToObject(result, "ruleId", string_of(finding, "name"));
	cJSON_AddNumberToObject(result, "ruleIndex", sarif_rule(rules, finding));
	cJSON_AddStringToObject(result, "level", "error");
	sarif_message(result, "message", text);
	cJSON_AddItemToArray(cJSON_AddArrayToObject(result, "locations"), location);
	if (file) {
		physical = cJSON_AddObjectToObject(location, "physicalLocation");
		sarif_file(cJSON_AddObjectToObject(physical, "artifactLocation"), file);
		cJSON_AddNumberToObject(cJSON_AddObjectToObject(physical, "region"), "startLine",
					number_of(place_of(finding), "line"));
	}
	cJSON_AddItemToArray(results, result);
	free(text);
}

static void write_sarif(FILE *to, const struct report *r)
{
	cJSON *log = cJSON_CreateObject(), *run = cJSON_CreateObject(), *driver, *rules, *results, *invocation;
	const cJSON *finding;
	char how[128], *text;

	cJSON_AddStringToObject(log, "$schema", "https://json.schemastore.org/sarif-2.1.0.json");
	cJSON_AddStringToObject(log, "version", "2.1.0");
	cJSON_AddItemToArray(cJSON_AddArrayToObject(log, "runs"), run);
	driver = cJSON_AddObjectToObject(cJSON_AddObjectToObject(run, "tool"), "driver");
	cJSON_AddStringToObject(driver, "name", "uroce check");
	rules = cJSON_AddArrayToObject(driver, "rules");
	invocation = cJSON_CreateObject();
	cJSON_AddItemToArray(cJSON_AddArrayToObject(run, "invocations"), invocation);
	cJSON_AddStringToObject(invocation, "commandLine", r->program);
	cJSON_AddNumberToObject(invocation, "exitCode", exit_status(r));
	cJSON_AddBoolToObject(invocation, "executionSuccessful", !has_failed(r, how));
	results = cJSON_AddArrayToObject(run, "results");
	cJSON_ArrayForEach(finding, r->findings) sarif_finding(results, rules, finding);
	text = cJSON_Print(log);
	fprintf(to, "%s\n", text ?: "");
	free(text);
	cJSON_Delete(log);
}

/* ---- annotations ---- */

static void annotation_text(const char *text, const char *special)
{
	for (; *text; text++)
		fprintf(stderr, strchr(special, *text) ? "%%%02X" : "%c", (unsigned char)*text);
}

/* To stderr, which the runner reads too, as stdout is the program's. */
static void annotate(const struct report *r)
{
	static const char in_text[] = "%\r\n", in_property[] = "%\r\n:,";
	const cJSON *finding;

	cJSON_ArrayForEach(finding, r->findings)
	{
		char path[PATH_MAX], *text = text_of(finding);
		const char *file = file_of(finding, path);

		fputs("::error ", stderr);
		if (file) {
			fputs("file=", stderr);
			annotation_text(file, in_property);
			fprintf(stderr, ",line=%d,", number_of(place_of(finding), "line"));
		}
		fprintf(stderr, "title=uroce check%%3A %s::", string_of(finding, "name"));
		annotation_text(text, in_text);
		fputc('\n', stderr);
		free(text);
	}
}

static bool is_in_actions(void)
{
	const char *is = getenv("GITHUB_ACTIONS");

	return is && !strcmp(is, "true");
}

bool report_is_annotated(void)
{
	return is_in_actions() && !config_string(CONFIG_CHECK_REPORT);
}

/* ---- the run ---- */

static const struct format {
	const char *ending;
	void (*write)(FILE *to, const struct report *r);
} formats[] = {{".xml", write_junit}, {".sarif", write_sarif}};

static const struct format *format_of(const char *file)
{
	size_t length = strlen(file);

	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		size_t n = strlen(formats[i].ending);

		if (length > n && !strcmp(file + length - n, formats[i].ending))
			return &formats[i];
	}
	return NULL;
}

bool report_has_format(const char *file)
{
	return format_of(file);
}

static pid_t running;

static void pass_on(int number)
{
	kill(running, number);
}

/* The status of the program, as from waitpid(). A terminal sends SIGINT and SIGQUIT to the child as well. */
static int run_child(const struct command *command, const char *path, char **argv)
{
	sigset_t ends, old;
	int status;

	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGQUIT);
	sigprocmask(SIG_BLOCK, &ends, &old);
	running = fork();
	if (running < 0)
		return complain(command, "fork: %s", strerror(errno)) << 8;
	if (!running) {
		sigprocmask(SIG_SETMASK, &old, NULL);
		_exit(program_execute(command, path, argv));
	}
	/* without SA_RESTART: ThreadSanitizer calls handlers when waitpid() has returned */
	sigaction(SIGTERM, &(struct sigaction){.sa_handler = pass_on}, NULL);
	sigaction(SIGHUP, &(struct sigaction){.sa_handler = pass_on}, NULL);
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	sigprocmask(SIG_SETMASK, &old, NULL);
	while (waitpid(running, &status, 0) < 0 && errno == EINTR)
		;
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	return status;
}

static char *command_line(char **argv)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	for (char **word = argv; *word; word++)
		fprintf(to, "%s%s", word == argv ? "" : " ", *word);
	fclose(to);
	make_text(text);
	return text;
}

/* Writes the report; without one, empties the file. 0, or an exit status after a message. */
static int write_report(const struct command *command, const char *file, const struct report *r)
{
	char why[OWN_FILE_WHY];
	FILE *to = own_file_stream(file, why);

	if (!to)
		return complain(command, "%s: %s", file, why);
	if (r)
		format_of(file)->write(to, r);
	if (fclose(to))
		return complain(command, "%s: %s", file, strerror(errno));
	return 0;
}

int report_run(const struct command *command, const char *file, char **argv)
{
	struct report r = {.findings = cJSON_CreateArray(), .program = command_line(argv)};
	const char *folder = getenv("TMPDIR");
	char found[PATH_MAX], path[PATH_MAX];
	int status, fd;
	FILE *from;

	snprintf(found, sizeof(found), "%s/uroce-check.XXXXXX", folder && *folder == '/' ? folder : "/tmp");
	status = program_prepare(command, argv[0], path) ?: (file ? write_report(command, file, NULL) : 0);
	if (status)
		return status;
	fd = mkostemp(found, O_CLOEXEC);
	from = fd < 0 ? NULL : fdopen(fd, "r");
	if (!from || setenv("UROCE_CHECK_REPORT", found, 1))
		return complain(command, "%s: %s", found, strerror(errno));
	r.status = run_child(command, path, argv);
	if (!read_findings(&r, from))
		complain(command, "a process that %s has started still runs: the report lacks what it finds", argv[0]);
	unlink(found);
	fclose(from);
	if (is_in_actions())
		annotate(&r);
	status = file ? write_report(command, file, &r) : 0;
	status = status ?: exit_status(&r) ?: (file ? status_of_findings(&r) : 0);
	cJSON_Delete(r.findings);
	free(r.program);
	return status;
}
