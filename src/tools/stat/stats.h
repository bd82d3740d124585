/* SPDX-License-Identifier: BSD-2-Clause */
/* What processes tell of their objects, for `uroce stat` and `uroce top`. One thread. */
#ifndef UROCE_TOOLS_STAT_STATS_H
#define UROCE_TOOLS_STAT_STATS_H

#include <sys/types.h>

#include "base/stat_read.h"

struct command;

struct stats {
	struct stat_process *process; /* sorted by process id */
	size_t count;
	struct stats_silent {
		pid_t pid;
		char why[160];
	} * silent; /* those of all processes that do not answer */
	size_t silent_count;
};

/* Asks these processes, or all of this user in this network namespace if there are none. 0; or an exit status, after
 * a complaint about a process that was named. Each is asked once. */
int stats_gather(const struct command *command, int pids, char **pid, struct stats *s);
void stats_free(struct stats *s);

/* The device with that number; NULL: it is not among the open ones. */
const struct stat_device *stats_device(const struct stat_process *p, uint32_t number);

/* "10.0.0.1", an IPv6 address, or "-" for zeros: into a buffer of several, which a later call uses again. */
const char *stats_address(const uint8_t gid[16]);
/* An address and a port in at most `width` characters, "10.0.0.1:7174", "[::1]:7174"; likewise. */
const char *stats_end(const uint8_t gid[16], uint32_t port, unsigned width);
/* "1234", "56.7k", "8.9M": at most 5 characters; likewise. */
const char *stats_number(uint64_t n);
/* The peer of a QP in at most `width` characters, "10.0.0.1 0x123456"; likewise. */
const char *stats_peer(const struct stat_qp *q, unsigned width);
/* What has gone wrong at a QP, in words; "" if nothing has; likewise. */
const char *stats_trouble(const struct stat_qp *q);
/* The names of enum stat_trouble, as JSON and Prometheus have them. */
extern const char *const stats_trouble_name[STAT_TROUBLES];

#endif
