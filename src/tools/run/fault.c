/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce fault`: shows and changes the fault rules of a running process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/control_call.h"
#include "tools/command.h"

#define REQUEST 512 /* bytes; a rule has at most 255 */

/* Prints the rules from lines "NUMBER COULD DID RULE" of the process. */
static void print_rules(FILE *in)
{
	unsigned long long could, did;
	char line[REQUEST];
	int number, at, rows = 0;

	while (fgets(line, sizeof(line), in)) {
		if (sscanf(line, "%d %llu %llu %n", &number, &could, &did, &at) != 3)
			continue;
		if (!rows++)
			printf("%3s %12s %12s  %s\n", "no.", "could fire", "fired", "rule");
		printf("%3d %12llu %12llu  %s", number, could, did, line + at);
	}
	if (!rows)
		puts("no rules");
}

static int fault_list(const struct command *command, pid_t pid)
{
	char answer[256];
	int given = -1, connection = control_call(pid, "fault list", answer, sizeof(answer), &given);
	FILE *in;

	if (connection < 0)
		return complain(command, "process %d: %s", (int)pid, answer);
	close(connection);
	in = given >= 0 ? fdopen(given, "r") : NULL;
	if (!in)
		return complain(command, "process %d sent no list: it runs another version of uroce", (int)pid);
	rewind(in);
	print_rules(in);
	fclose(in);
	return EXIT_SUCCESS;
}

/* Sends "add", "remove" or "clear". Prints the answer, if any: the number of the new rule. */
static int fault_change(const struct command *command, pid_t pid, const char *word, const char *argument)
{
	char request[REQUEST], answer[4 * REQUEST];
	int connection;

	if (snprintf(request, sizeof(request), "fault %s %s", word, argument) >= (int)sizeof(request))
		return complain(command, "a rule has at most 255 characters");
	connection = control_call(pid, request, answer, sizeof(answer), NULL);
	if (connection < 0)
		return complain(command, "process %d: %s", (int)pid, answer);
	close(connection);
	if (*answer)
		printf("rule %s\n", answer);
	return EXIT_SUCCESS;
}

static bool is_number(const char *text)
{
	return *text && strspn(text, "0123456789") == strlen(text) && atol(text) > 0;
}

int fault_command(const struct command *command, int argc, char **argv)
{
	static const struct {
		const char *word;
		int arguments;
	} words[] = {{"list", 0}, {"add", 1}, {"remove", 1}, {"clear", 0}};
	const char *word = argc > 2 ? argv[2] : "list";

	if (argc < 2 || !is_number(argv[1]))
		return wrong_usage(command,
				   "give a process id first (to start a program with faults: `uroce run --fault "
				   "RULES PROGRAM`)");
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strcmp(word, words[i].word) != 0)
			continue;
		if (max_of(argc - 3, 0) != words[i].arguments)
			return wrong_usage(command, "%s",
					   words[i].arguments ? "give one rule, in quotes, or one number"
							      : "this takes no argument");
		if (i == 2 && !is_number(argv[3]))
			return wrong_usage(command, "'%s' is not the number of a rule", argv[3]);
		return i ? fault_change(command, (pid_t)atol(argv[1]), word, argc > 3 ? argv[3] : "")
			 : fault_list(command, (pid_t)atol(argv[1]));
	}
	return wrong_usage(command, "'%s' is unknown: use list, add, remove or clear", word);
}
