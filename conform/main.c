/* SPDX-License-Identifier: BSD-2-Clause */
/* uroce-conform: what an adapter must do, tried on one. Linked with libibverbs and librdmacm only. */
#include <errno.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conform.h"
#include "end.h"

#define PORT 18516

struct options options = {.processes = 2, .gid = -1, .seconds = 10};

static const char help[] = "usage: uroce conform [OPTION...]\n"
			   "Tries what an adapter must do, rule by rule.\n\n"
			   "  -d, --device NAME    the device (the first)\n"
			   "  -g, --gid INDEX      the index of its GID (of RoCE v2, with an IPv4 address)\n"
			   "  -l, --list           print the rules, and try none\n"
			   "  -o, --only RULE      those with this beginning or pattern; may be given again\n"
			   "  -L, --long           also those that take long\n"
			   "  -1, --one-process    both ends in one process, not in two\n"
			   "  -s, --server         serve the other ends of a client on another host\n"
			   "  -c, --client HOST    the other ends are there\n"
			   "  -n, --jobs N         groups of rules at a time (number of processors, at least 4)\n"
			   "  -w, --wait SECONDS   a check that takes longer hangs (10)\n"
			   "  -v, --verbose        print each rule, not only what is not right\n"
			   "  -t, --tap            print TAP\n"
			   "  -j, --json           print JSON, a rule a line\n"
			   "  -a, --adapter NAME   with uroce: a device like this adapter\n"
			   "  -r, --real           without uroce: a device of this machine's own\n\n"
			   "exit status: 0; 1 if a rule is broken; 2 if there is no such device or rule\n";

static void print_list(void)
{
	struct rule rule;

	for (unsigned g = 0; g < group_count; g++) {
		for (unsigned i = 0; i < groups[g]->count; i++) {
			rule_of(groups[g], i, &rule);
			if (is_wanted(groups[g], &rule))
				printf("%s\n    %s\n    expected: %s\n    by: %s\n", rule.id, rule.does, rule.expects,
				       rule.source);
		}
	}
}

/* In a process of its own, as those of the checks must find the libraries unused. 0, or the exit status. */
static int find_device(char name[64])
{
	int pair[2], status, count;
	ssize_t n;

	if (pipe(pair))
		return 2;
	fflush(stdout);
	if (!fork()) {
		struct ibv_device **list = ibv_get_device_list(&count);

		for (int i = 0; list && i < count; i++) {
			const char *found = ibv_get_device_name(list[i]);

			if (options.device && strcmp(options.device, found) != 0)
				continue;
			_exit(write(pair[1], found, strlen(found)) < 0);
		}
		_exit(1);
	}
	close(pair[1]);
	n = read(pair[0], name, 63);
	name[n > 0 ? n : 0] = 0;
	close(pair[0]);
	wait(&status);
	if (n > 0)
		return 0;
	fprintf(stderr, "uroce-conform: there is no RDMA device%s%s\n", options.device ? " " : "",
		options.device ?: "");
	return 2;
}

static int serve(void)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};
	int listener = socket(AF_INET6, SOCK_STREAM, 0), yes = 1;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (listener < 0 || bind(listener, (struct sockaddr *)&any, sizeof(any)) || listen(listener, 64)) {
		perror("uroce-conform: the port of the server");
		return 2;
	}
	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0)
			return 2;
		if (!fork()) {
			close(listener);
			end_serve(fd);
			/* other hosts' requests that this process has got, but not answered yet, would be lost with it
			 */
			usleep(200000);
			_exit(0);
		}
		close(fd);
	}
}

static void add_only(const char *pattern)
{
	options.only = realloc(options.only, (options.only_count + 1) * sizeof(*options.only));
	if (!options.only)
		exit(2);
	options.only[options.only_count++] = pattern;
}

static enum format format = TABLE;
static bool list, server, all;

/* False if the program ends here. */
static bool take_option(int c)
{
	static const struct {
		int letter;
		bool *flag;
		unsigned *number;
		const char **text;
	} simple[] = {
		{'l', .flag = &list},
		{'s', .flag = &server},
		{'L', .flag = &options.long_too},
		{'v', .flag = &all},
		{'n', .number = &options.jobs},
		{'w', .number = &options.seconds},
		{'d', .text = &options.device},
		{'c', .text = &options.server},
		{'a'}, /* `uroce conform` has seen to these */
		{'r'},
	};

	for (size_t i = 0; i < COUNT(simple); i++) {
		if (c != simple[i].letter)
			continue;
		if (simple[i].flag)
			*simple[i].flag = true;
		if (simple[i].number)
			*simple[i].number = (unsigned)atoi(optarg);
		if (simple[i].text)
			*simple[i].text = optarg;
		return true;
	}
	if (c == 'g')
		options.gid = atoi(optarg);
	else if (c == 'o')
		add_only(optarg);
	else if (c == '1')
		options.processes = 1;
	else if (c == 't' || c == 'j')
		format = c == 't' ? TAP : JSON;
	else
		fputs(c == 'h' ? help : "(`uroce conform --help` says more)\n", c == 'h' ? stdout : stderr);
	return strchr("go1tj", c);
}

/* Exit status + 1 if the program ends here, or 0. */
static int take_options(int argc, char **argv)
{
	static const struct option longs[] = {{"device", 1, 0, 'd'},
					      {"gid", 1, 0, 'g'},
					      {"list", 0, 0, 'l'},
					      {"only", 1, 0, 'o'},
					      {"long", 0, 0, 'L'},
					      {"server", 0, 0, 's'},
					      {"client", 1, 0, 'c'},
					      {"jobs", 1, 0, 'n'},
					      {"one-process", 0, 0, '1'},
					      {"wait", 1, 0, 'w'},
					      {"verbose", 0, 0, 'v'},
					      {"tap", 0, 0, 't'},
					      {"json", 0, 0, 'j'},
					      {"real", 0, 0, 'r'},
					      {"adapter", 1, 0, 'a'},
					      {"help", 0, 0, 'h'},
					      {0}};
	int c;

	while ((c = getopt_long(argc, argv, "a:d:g:lo:L1sc:n:w:vtjrh", longs, NULL)) != -1)
		if (!take_option(c))
			return c == 'h' ? 1 : 3;
	if (optind < argc) {
		fprintf(stderr, "uroce-conform: '%s' is no option (`uroce conform --help` says more)\n", argv[optind]);
		return 3;
	}
	if (!options.jobs)
		options.jobs = sysconf(_SC_NPROCESSORS_ONLN) > 4 ? (unsigned)sysconf(_SC_NPROCESSORS_ONLN) : 4;
	if (!options.seconds)
		options.seconds = 1;
	return 0;
}

int main(int argc, char **argv)
{
	int ended = take_options(argc, argv);
	struct outcome **outcomes;
	char device[64];

	if (ended)
		return ended - 1;
	groups_count();
	if (list) {
		print_list();
		return 0;
	}
	if (server)
		return serve();
	if (find_device(device))
		return 2;
	options.device = device;
	outcomes = calloc(group_count, sizeof(*outcomes));
	if (!outcomes)
		return 2;
	run_all(outcomes);
	return report(format, outcomes, device, all) ? 1 : 0;
}
