/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce hostile`: runs a program under one seed after another. Each seed stands for a few faults that an adapter or
 * a network may show at any time. */
#include "tools/run/hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/config.h"
#include "base/high_fd.h"
#include "fault/rule.h"
#include "tools/command.h"
#include "tools/program.h"
#include "tools/run/ending.h"
#include "tools/terminal.h"

#define END_PATIENCE 2000 /* ms that a program which hangs has to end by SIGTERM */
#define SHOWN	     4096 /* bytes of a failed run's last output to show */

static const struct manner {
	const char *rule, *permitted;
} manners[] = {
#define MANNER(rule, permitted) {rule, permitted},
#include "tools/run/hostile.def"
#undef MANNER
};

#define MANNERS ARRAY_SIZE(manners)
#define NO_RULE (MANNERS + 1)

/* Rules of one seed; "": not drawn. */
struct hostile_rules {
	char rule[MANNERS][RULE_TEXT];
};

struct hostile_run {
	int status;   /* as from waitpid() */
	bool hangs;   /* killed at its time limit */
	FILE *output; /* output of the run; NULL: no file could be made */
};

struct hostile_options {
	uint64_t seed, times, seconds;
	bool print;
	char **argv;
};

/* ---- seeds ---- */

static int hostile_number(const struct command *command, const char *text, uint64_t least, uint64_t *n)
{
	char *end;

	errno = 0;
	*n = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || *n < least || *n > UINT32_MAX)
		return wrong_usage(command, "'%s' is not a number from %" PRIu64 " to 4294967295", text, least);
	return 0;
}

/* SplitMix64 (Steele, Lea, Flood). */
static uint64_t hostile_draw(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* Draws a value for {A..B} or {A,B} at the start of `text`; returns the length of that, or 0 if there is neither. */
static int fill_place(char *out, size_t room, const char *text, uint64_t *state)
{
	unsigned long from, to;
	char word[2][16];
	int length = 0;

	if (sscanf(text, "{%lu..%lu}%n", &from, &to, &length) == 2 && length)
		snprintf(out, room, "%lu", from + hostile_draw(state) % (to - from + 1));
	else if (sscanf(text, "{%15[a-z],%15[a-z]}%n", word[0], word[1], &length) == 2 && length)
		snprintf(out, room, "%s", word[hostile_draw(state) % 2]);
	return length;
}

/* Copies the text with drawn values. */
static void fill_rule(char out[RULE_TEXT], const char *text, uint64_t *state)
{
	size_t at = 0;

	while (*text && at < RULE_TEXT - 1) {
		int length = fill_place(out + at, RULE_TEXT - at, text, state);

		if (length)
			at += strlen(out + at);
		else
			out[at++] = *text;
		text += length ?: 1;
	}
	out[at] = 0;
}

/* Draws half of the rules, and at least one. */
static void rules_of_seed(struct hostile_rules *rules, uint64_t seed)
{
	uint64_t state = seed, chosen = hostile_draw(&state) & ((1u << MANNERS) - 1);

	if (!chosen)
		chosen = 1u << hostile_draw(&state) % MANNERS;
	for (size_t i = 0; i < MANNERS; i++) {
		fill_rule(rules->rule[i], manners[i].rule, &state);
		if (!(chosen >> i & 1))
			rules->rule[i][0] = 0;
	}
}

static bool is_variable(const char *rule)
{
	return !strncmp(rule, CONFIG_PREFIX, strlen(CONFIG_PREFIX));
}

/* Sets the variables among a seed's rules, and writes the others to `out`, one per line. `only`: index of one rule;
 * MANNERS: all; NO_RULE: none. */
static int join_rules(char out[MANNERS * RULE_TEXT], uint64_t seed, size_t only)
{
	struct hostile_rules rules;
	size_t at = 0;
	int err = 0;

	rules_of_seed(&rules, seed);
	out[0] = 0;
	for (size_t i = 0; i < MANNERS; i++) {
		char *rule = rules.rule[i];

		if (!*rule || (only != MANNERS && only != i))
			continue;
		if (is_variable(rule)) {
			const char *name = strsep(&rule, "=");

			err |= setenv(name, rule, 1);
		} else {
			at += (size_t)snprintf(out + at, MANNERS * RULE_TEXT - at, "%s\n", rule);
		}
	}
	return err;
}

/* Sets the library's variables for a run under these rules, behind rules already in UROCE_FAULT. 0 or -1. */
static int set_hostile(uint64_t seed, size_t only)
{
	const char *before = config_string(CONFIG_FAULT);
	char rules[MANNERS * RULE_TEXT], number[24], *all;
	int err;

	if (join_rules(rules, seed, only))
		return -1;
	if (asprintf(&all, "%s%s%s", before ?: "", before ? "\n" : "", rules) < 0)
		return -1;
	snprintf(number, sizeof(number), "%" PRIu64, seed);
	err = setenv("UROCE_FAULT", all, 1) || setenv("UROCE_FAULT_SEED", number, 1) ||
	      setenv("UROCE_PATIENCE", "off", 1) || setenv("UROCE_QUEUES", "exact", 1) ||
	      setenv("UROCE_KEYS", "unlike", 1);
	free(all);
	return err;
}

int hostile_prepare(const struct command *command, const char *text)
{
	uint64_t seed = 0;
	int status = 0;

	if (text)
		status = hostile_number(command, text, 1, &seed);
	while (!seed && !status)
		status = getrandom(&seed, sizeof(uint32_t), 0) == sizeof(uint32_t) ? 0 : EXIT_FAILURE;
	if (status)
		return status;
	fprintf(stderr, "uroce %s: --hostile=%" PRIu64 " repeats this; uroce hostile -p -s %" PRIu64 " shows it\n",
		command->name, seed, seed);
	return set_hostile(seed, MANNERS) ? EXIT_FAILURE : 0;
}

static void print_seed(uint64_t seed)
{
	struct hostile_rules rules;

	rules_of_seed(&rules, seed);
	printf("# seed %" PRIu64 ": uroce run --hostile=%" PRIu64 "\n", seed, seed);
	for (size_t i = 0; i < MANNERS; i++)
		if (*rules.rule[i])
			printf("%s%s%s# %s\n", is_variable(rules.rule[i]) ? "# " : "", rules.rule[i],
			       terminal_columns() ? "\n    " : "\t", /* as a file of rules, it may be either */
			       manners[i].permitted);
}

/* ---- a run ---- */

/* Ends the program and its group. `uroce pair` ends groups of its own, if it is asked. `end`: the program's pidfd. */
static void end_run(pid_t child, struct pollfd *end)
{
	kill(-child, SIGTERM);
	kill(-child, SIGCONT);
	poll(end, end->fd >= 0, END_PATIENCE);
	kill(-child, SIGKILL);
}

/* Prepares and executes the program, in the child. */
static void begin_run(const struct command *command, const struct hostile_options *o, uint64_t seed, size_t only,
		      int output)
{
	int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

	ending_forget();
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (set_hostile(seed, only))
		_exit(EXIT_FAILURE);
	dup2(nothing, STDIN_FILENO);
	if (output >= 0) {
		dup2(output, STDOUT_FILENO);
		dup2(output, STDERR_FILENO);
	}
	_exit(program_run(command, o->argv));
}

/* Waits for the child at most `seconds`. A signal that asks for the end ends both. */
static void await_run(struct hostile_run *run, pid_t child, uint64_t seconds)
{
	struct pollfd fds[] = {{.fd = (int)syscall(SYS_pidfd_open, child, 0), .events = POLLIN},
			       {.fd = ending_fd(), .events = POLLIN}};

	run->hangs = fds[0].fd >= 0 && poll(fds, 2, seconds > 1000000 ? -1 : (int)(1000 * seconds)) == 0;
	if (run->hangs || ending_signal())
		end_run(child, &fds[0]);
	if (ending_signal())
		_exit(128 + ending_signal());
	fd_close(&fds[0].fd);
	waitpid(child, &run->status, 0);
	kill(-child, SIGKILL); /* kills what the program has left running */
}

/* Runs the program under some of the rules. `only`: as in join_rules(). */
static struct hostile_run run_seed(const struct command *command, const struct hostile_options *o, uint64_t seed,
				   size_t only)
{
	struct hostile_run run = {.output = tmpfile()};
	pid_t child;

	fflush(NULL);
	child = fork();
	if (!child)
		begin_run(command, o, seed, only, run.output ? fileno(run.output) : -1);
	if (child < 0) {
		run.status = 1 << 8;
		return run;
	}
	setpgid(child, child);
	await_run(&run, child, o->seconds);
	return run;
}

static bool has_passed(const struct hostile_run *run)
{
	return !run->hangs && WIFEXITED(run->status) && WEXITSTATUS(run->status) == 0;
}

static void close_run(struct hostile_run *run)
{
	if (run->output)
		fclose(run->output);
}

/* ---- reports ---- */

static const char *ending(const struct hostile_run *run, const struct hostile_options *o, char out[64])
{
	if (run->hangs)
		snprintf(out, 64, "had not ended after %" PRIu64 " s", o->seconds);
	else if (WIFSIGNALED(run->status))
		snprintf(out, 64, "was ended by signal %d (%s)", WTERMSIG(run->status),
			 strsignal(WTERMSIG(run->status)));
	else
		snprintf(out, 64, "ended with status %d", WEXITSTATUS(run->status));
	return out;
}

static void print_output(FILE *output)
{
	char text[SHOWN + 1];
	long size;
	size_t n;

	if (!output || fseek(output, 0, SEEK_END) || (size = ftell(output)) <= 0)
		return;
	fseek(output, size > SHOWN ? size - SHOWN : 0, SEEK_SET);
	n = fread(text, 1, SHOWN, output);
	text[n] = 0;
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		printf("  | %s\n", line);
}

static bool passes_under(const struct command *command, const struct hostile_options *o, uint64_t seed, size_t only)
{
	struct hostile_run run = run_seed(command, o, seed, only);
	bool passed = has_passed(&run);

	close_run(&run);
	return passed;
}

/* Prints which rules of a seed make the program fail, each alone. */
static void print_blame(const struct command *command, const struct hostile_options *o, uint64_t seed)
{
	struct hostile_rules rules;
	bool found = false;

	if (!passes_under(command, o, seed, NO_RULE)) {
		printf("  it fails without these rules, too: see UROCE_PATIENCE=off UROCE_QUEUES=exact "
		       "UROCE_KEYS=unlike uroce run PROGRAM\n");
		return;
	}
	rules_of_seed(&rules, seed);
	for (size_t i = 0; i < MANNERS; i++) {
		bool passed = !*rules.rule[i] || passes_under(command, o, seed, i);

		if (!passed)
			printf("  this alone does it:  %s\n  permitted because    %s\n", rules.rule[i],
			       manners[i].permitted);
		found |= !passed;
	}
	if (!found)
		printf("  none of its rules makes it fail alone: uroce hostile -p -s %" PRIu64 " shows them\n", seed);
}

static void print_again(const struct hostile_options *o, uint64_t seed)
{
	printf("  repeat it with:      uroce hostile -n 1 -s %" PRIu64 " --", seed);
	for (char **word = o->argv; *word; word++)
		printf(strpbrk(*word, " \t\n'\"$*?<>|&;()") ? " '%s'" : " %s", *word);
	printf("\n");
}

static void print_progress(uint64_t done, const struct hostile_options *o, uint64_t failed)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " seeds, %" PRIu64 " failed\r", done, o->times, failed);
}

/* True if the program passed. */
static bool try_seed(const struct command *command, const struct hostile_options *o, uint64_t seed, bool first)
{
	struct hostile_run run = run_seed(command, o, seed, MANNERS);
	bool passed = has_passed(&run);
	char how[64];

	if (!passed) {
		printf("%sseed %" PRIu64 "%s: the program %s\n", style(RED), seed, style(PLAIN), ending(&run, o, how));
		print_output(run.output);
		if (first)
			print_blame(command, o, seed);
		print_again(o, seed);
	}
	close_run(&run);
	return passed;
}

/* 0, or the exit status. */
static int hostile_options(const struct command *command, int argc, char **argv, struct hostile_options *o)
{
	static const struct option options[] = {{"times", required_argument, NULL, 'n'},
						{"seed", required_argument, NULL, 's'},
						{"timeout", required_argument, NULL, 't'},
						{"print", no_argument, NULL, 'p'},
						{0}};
	int c, status = 0;

	*o = (struct hostile_options){.seed = 1, .times = 20, .seconds = 60};
	while (!status && (c = next_option(command, argc, argv, "+n:s:t:p", options)) != -1) {
		if (c == '?')
			return show_usage(command);
		if (c == 'p')
			o->print = true;
		else
			status = hostile_number(command, optarg, 1,
						c == 'n'   ? &o->times
						: c == 's' ? &o->seed
							   : &o->seconds);
	}
	o->argv = argv + optind;
	if (!status && optind == argc && !o->print)
		return wrong_usage(command, "which program? One that runs all its ends: a script, a test");
	return status;
}

int hostile_command(const struct command *command, int argc, char **argv)
{
	struct hostile_options o;
	int status = hostile_options(command, argc, argv, &o);
	uint64_t failed = 0;

	if (status)
		return status;
	if (o.print) {
		print_seed(o.seed);
		return EXIT_SUCCESS;
	}
	ending_begin();
	for (uint64_t i = 0; i < o.times; i++) {
		print_progress(i, &o, failed);
		failed += !try_seed(command, &o, o.seed + i, !failed);
	}
	printf("%" PRIu64 " of %" PRIu64 " seeds passed\n", o.times - failed, o.times);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
