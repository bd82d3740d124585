/* SPDX-License-Identifier: BSD-2-Clause */
/* The environment variables: what values mean, and what users are told of those that mean nothing. */
#include "base/config.h"
#include "base/config_warn.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/log.h"
#include "base/nearest.h"

/* What the value of a variable is taken as, of any type. */
static const char *taken_as(enum config variable)
{
	static char text[256];
	int index[3];

	switch (config_row[variable].type) {
	case CONFIG_TYPE_BOOL:
		return config_bool(variable) ? "on" : "off";
	case CONFIG_TYPE_NUMBER:
		snprintf(text, sizeof(text), "%llu", (unsigned long long)config_number(variable));
		return text;
	case CONFIG_TYPE_ENUM:
		snprintf(text, sizeof(text), "%d", config_enum(variable));
		return text;
	case CONFIG_TYPE_WORDS:
		*text = 0;
		for (int i = 0; i < config_words(variable, index, ARRAY_SIZE(index)); i++)
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%d ", index[i]);
		return text;
	default:
		return config_string(variable) ?: "unset";
	}
}

static void a_value_has_a_meaning_or_is_the_default(void **state)
{
	static const struct {
		enum config variable;
		const char *value, *taken_as; /* value NULL: unset */
		bool complaint;
	} rows[] = {
		{CONFIG_LOCAL, NULL, "on", false},
		{CONFIG_LOCAL, "", "on", false},
		{CONFIG_LOCAL, "on", "on", false},
		{CONFIG_LOCAL, "1", "on", false},
		{CONFIG_LOCAL, "off", "off", false},
		{CONFIG_LOCAL, "0", "off", false},
		{CONFIG_LOCAL, "no", "off", false},
		{CONFIG_LOCAL, "false", "off", false},
		{CONFIG_LOCAL, "maybe", "on", true},
		{CONFIG_LOCAL, "o", "on", true},
		{CONFIG_LOCAL, "on|1", "on", true},
		{CONFIG_LOG, NULL, "1", false},
		{CONFIG_LOG, "error", "0", false},
		{CONFIG_LOG, "debug", "3", false},
		{CONFIG_LOG, "bogus", "1", true},
		{CONFIG_PTRACER, NULL, "0", false},
		{CONFIG_PTRACER, "any", "1", false},
		{CONFIG_PTRACER, "all", "0", true},
		{CONFIG_TRACE_SIZE, NULL, "65536", false},
		{CONFIG_TRACE_SIZE, "64", "64", false},
		{CONFIG_TRACE_SIZE, "63", "65536", true},
		{CONFIG_TRACE_SIZE, "1k", "1024", false},
		{CONFIG_TRACE_SIZE, "4M", "4194304", false},
		{CONFIG_TRACE_SIZE, "4097K", "65536", true},
		{CONFIG_TRACE_SIZE, "0x100", "256", false},
		{CONFIG_TRACE_SIZE, "-1", "65536", true},
		{CONFIG_TRACE_SIZE, " 64", "65536", true},
		{CONFIG_TRACE_SIZE, "64 ", "65536", true},
		{CONFIG_TRACE_SIZE, "1kM", "65536", true},
		{CONFIG_TRACE_SIZE, "k", "65536", true},
		{CONFIG_TRACE_SIZE, "99999999999999999999", "65536", true},
		{CONFIG_TRACE_SIZE, "18446744073709551615k", "65536", true},
		{CONFIG_TRACE, NULL, "unset", false},
		{CONFIG_TRACE, "", "unset", false},
		{CONFIG_TRACE, "/tmp/a b", "/tmp/a b", false},
		{CONFIG_GID_ORDER, NULL, "", false},
		{CONFIG_GID_ORDER, "", "", false},
		{CONFIG_GID_ORDER, "local", "2 ", false},
		{CONFIG_GID_ORDER, "local,ipv4,ipv4", "2 0 0 ", false},
		{CONFIG_GID_ORDER, "local,ipv6,ipv4,ipv4", "2 1 0 ", false}, /* more than there is room for */
		{CONFIG_GID_ORDER, "bogus", "", true},
		{CONFIG_GID_ORDER, "ipv4,bogus", "", true},
		{CONFIG_GID_ORDER, "ipv4|ipv6", "", true},
		{CONFIG_GID_ORDER, "ipv4,", "", true},
		{CONFIG_GID_ORDER, ",ipv4", "", true},
		{CONFIG_GID_ORDER, "ipv4,...", "", true},
		{CONFIG_GID_ORDER, "...", "", true},
		{CONFIG_GID_ORDER, "ipv", "", true},
		{CONFIG_DEVICES, "lo=mlx5_0,eth0", "lo=mlx5_0,eth0", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *name = config_row[rows[i].variable].name, *value = rows[i].value;
		char text[256] = "", *assignment;

		assert_true(asprintf(&assignment, "%s=%s", name, value ?: "") > 0);
		if (value)
			setenv(name, value, 1);
		else
			unsetenv(name);
		if (config_complaint(assignment, text, sizeof(text)) !=
		    (rows[i].complaint ? CONFIG_WRONG : CONFIG_FINE))
			fail_msg("%s: complaint '%s'", assignment, text);
		if (strcmp(taken_as(rows[i].variable), rows[i].taken_as))
			fail_msg("%s is taken as %s", assignment, taken_as(rows[i].variable));
		unsetenv(name);
		free(assignment);
	}
}

static void a_complaint_names_what_is_allowed_or_the_nearest_name(void **state)
{
	static const struct {
		const char *assignment, *text; /* NULL: no complaint */
	} rows[] = {
		{"UROCE_LOG=bogus", "UROCE_LOG=bogus means nothing: allowed is error|warn|info|debug"},
		{"UROCE_GID_ORDER=ipv4,ip6", "UROCE_GID_ORDER=ipv4,ip6 means nothing: allowed is ipv4|ipv6|local,..."},
		{"UROCE_LOCAL=maybe", "UROCE_LOCAL=maybe means nothing: allowed is on|off"},
		{"UROCE_TRACE_SIZE=1", "UROCE_TRACE_SIZE=1 means nothing: allowed is 64..4M"},
		{"UROCE_LOCL=off", "UROCE_LOCL is no variable of uroce: did you mean UROCE_LOCAL?"},
		{"UROCE_local=off", "UROCE_local is no variable of uroce: did you mean UROCE_LOCAL?"},
		{"UROCE_DEVICE=lo", "UROCE_DEVICE is no variable of uroce: did you mean UROCE_DEVICES?"},
		{"UROCE_TRACESIZE=1k", "did you mean UROCE_TRACE_SIZE?"},
		{"UROCE_TRCAE=x", "did you mean UROCE_TRACE?"},
		{"UROCE_QUIK=1", "did you mean UROCE_"}, /* not UROCE_QUICK, which is the tests' */
		{"UROCE_=", "UROCE_ is no variable of uroce (`uroce help environment` lists all)"},
		{"UROCE_QUICK=1", NULL},
		{"UROCE", NULL},
		{"UROC_LOCL=off", NULL},
		{"MY_UROCE_LOCL=off", NULL},
		{"PATH=UROCE_LOCL=off", NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[256] = "";
		bool complaint = config_complaint(rows[i].assignment, text, sizeof(text));

		if (complaint != (rows[i].text != NULL) || (complaint && !strstr(text, rows[i].text)))
			fail_msg("%s: '%s'", rows[i].assignment, text);
		assert_null(strstr(text, "UROCE_QUICK"));
	}
}

static void a_long_name_and_value_are_cut_to_the_room_that_there_is(void **state)
{
	char assignment[4096], text[64];

	memset(assignment, 'X', sizeof(assignment));
	assignment[sizeof(assignment) - 1] = 0;
	memcpy(assignment, "UROCE_", 6);
	assert_false(config_complaint(assignment, text, sizeof(text))); /* no '=' */
	assignment[2000] = '=';
	assert_true(config_complaint(assignment, text, sizeof(text)));
	assert_true(strlen(text) < sizeof(text));
	memcpy(assignment, "UROCE_LOG=", 10);
	assert_true(config_complaint(assignment, text, sizeof(text)));
	assert_true(strlen(text) < sizeof(text));
}

/* The number of lines that a process says in a child of its own; `then` what it does. */
static int lines_said(void (*then)(void))
{
	char said[4096];
	int pipes[2], lines = 0;
	ssize_t got;
	pid_t pid;

	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	if (!pid) {
		dup2(pipes[1], STDERR_FILENO);
		close(pipes[0]);
		close(pipes[1]);
		then();
		_exit(0);
	}
	close(pipes[1]);
	while ((got = read(pipes[0], said, sizeof(said))) > 0)
		for (ssize_t i = 0; i < got; i++)
			lines += said[i] == '\n';
	close(pipes[0]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return lines;
}

static void nothing(void)
{
}

static void warn_twice(void)
{
	config_check_once();
	config_check_once();
}

static void warn_and_fork(void)
{
	pid_t pid;

	config_check_once();
	pid = fork();
	config_check_once();
	if (pid)
		waitpid(pid, NULL, 0);
}

static void each_is_warned_of_once_and_not_by_children(void **state)
{
	setenv("UROCE_LOCL", "off", 1);
	setenv("UROCE_LOCAL", "maybe", 1);
	assert_int_equal(lines_said(nothing), 0);
	assert_int_equal(lines_said(warn_twice), 2);
	assert_int_equal(lines_said(warn_and_fork), 2);
	setenv("UROCE_LOG", "error", 1);
	assert_int_equal(lines_said(warn_twice), 1); /* the value */
	unsetenv("UROCE_LOG");
	unsetenv("UROCE_LOCL");
	unsetenv("UROCE_LOCAL");
	assert_int_equal(lines_said(warn_twice), 0);
}

static void the_table_is_sound(void **state)
{
	char text[256], assignment[256];

	for (size_t i = 0; i < CONFIG_VARIABLES; i++) {
		const struct config_row *row = &config_row[i];

		assert_true(strlen(row->help) > 10 && strlen(row->help) <= 74);
		assert_true(*row->values);
		/* the default is among what is allowed */
		snprintf(assignment, sizeof(assignment), "%s=%s", row->name, row->initial);
		assert_false(config_complaint(assignment, text, sizeof(text)));
		if (row->type < CONFIG_TYPE_WORDS)
			assert_true(*row->initial);
		assert_true(i == 0 || row->for_tests != row[-1].for_tests || strcmp(row[-1].name, row->name) < 0);
	}
	/* log.c takes the index for the level */
	setenv("UROCE_LOG", "info", 1);
	assert_int_equal(config_enum(CONFIG_LOG), LOG_INFO);
	unsetenv("UROCE_LOG");
	assert_int_equal(config_enum(CONFIG_LOG), LOG_WARN);
}

static void words_have_distances(void **state)
{
	static const struct {
		const char *a, *b;
		unsigned distance;
	} rows[] = {
		{"", "", 0},
		{"a", "", 1},
		{"", "abc", 3},
		{"LOCL", "LOCAL", 1},
		{"LCOAL", "LOCAL", 1},
		{"local", "LOCAL", 0},
		{"kitten", "sitting", 3},
		{"ab", "ba", 1},
		{"doctro", "doctor", 1},
	};
	static const char *const words[] = {"run", "demo", "doctor"};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(word_distance(rows[i].a, rows[i].b), rows[i].distance);
		assert_int_equal(word_distance(rows[i].b, rows[i].a), rows[i].distance);
	}
	assert_string_equal(nearest_word("dcotor", words, ARRAY_SIZE(words)), "doctor");
	assert_null(nearest_word("x", words, 0));
	assert_null(nearest_word("xyzzy", words, ARRAY_SIZE(words)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_value_has_a_meaning_or_is_the_default),
		cmocka_unit_test(a_complaint_names_what_is_allowed_or_the_nearest_name),
		cmocka_unit_test(a_long_name_and_value_are_cut_to_the_room_that_there_is),
		cmocka_unit_test(each_is_warned_of_once_and_not_by_children),
		cmocka_unit_test(the_table_is_sound),
		cmocka_unit_test(words_have_distances),
	};

	for (char **variable = environ; *variable;)
		if (!strncmp(*variable, CONFIG_PREFIX, strlen(CONFIG_PREFIX)))
			unsetenv(strndupa(*variable, strcspn(*variable, "=")));
		else
			variable++;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
