// SPDX-License-Identifier: BSD-2-Clause
/* refuse ERRNO CALL[,CALL ...] COMMAND ...: runs the command with a seccomp filter by which system calls fail with
 * ERRNO, as containers' runtimes have it. CALL: a number, or NUMBER:VALUE, only with this first argument. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#define CALLS	   64
#define LOAD(what) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, what))
/* jumps over `others` instructions if the value is not that */
#define IF(value, others) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, others)

static struct sock_filter program[5 * CALLS + 1];
static unsigned short length;

static void put(struct sock_filter f)
{
	program[length++] = f;
}

int main(int argc, char **argv)
{
	struct sock_fprog filter = {.filter = program};

	if (argc < 4)
		return 2;
	for (char *at = argv[2]; *at && length < 5 * CALLS; at += *at == ',') {
		unsigned number = strtoul(at, &at, 10), argument = *at == ':';

		put((struct sock_filter)LOAD(nr));
		put((struct sock_filter)IF(number, 1 + 2 * argument));
		if (argument) {
			put((struct sock_filter)LOAD(args[0]));
			put((struct sock_filter)IF(strtoul(at + 1, &at, 10), 1));
		}
		put((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | atoi(argv[1])));
	}
	put((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	filter.len = length;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) {
		perror("seccomp");
		return 2;
	}
	execvp(argv[3], argv + 3);
	perror(argv[3]);
	return 2;
}
