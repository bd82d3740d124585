/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects of processes, for `uroce stat` and `uroce top`. One thread. */
#ifndef UROCE_TOOLS_STAT_STATS_H
#define UROCE_TOOLS_STAT_STATS_H

#include <stdio.h>
#include <sys/types.h>

#include "base/stat_read.h"

struct command;

struct stats {
	struct stat_process *process; /* sorted by process id */
	size_t count;
	struct stats_silent {
		pid_t pid;
		char why[160];
	} * silent; /* processes that do not answer */
	size_t silent_count;
};

/* Asks these processes, or all of this user in this network namespace if there are none. Each is asked once. 0, or
 * an exit status after a message about a named process. */
int stats_gather(const struct command *command, int pids, char **pid, struct stats *s);
void stats_free(struct stats *s);

/* Process of that id, or NULL. */
const struct stat_process *stats_process(const struct stats *s, uint32_t pid);
/* Queue pair of that number, or NULL; also if `p` is NULL. */
const struct stat_qp *stats_qp(const struct stat_process *p, uint32_t qpn);
/* Queue pair that `q` sends to and its process, or NULL: it is of another user or host. */
const struct stat_qp *stats_peer_qp(const struct stats *s, const struct stat_qp *q, const struct stat_process **where);
/* Open device of that number, or NULL. */
const struct stat_device *stats_device(const struct stat_process *p, uint32_t number);

/* Text of an address, or "-" for zeros. In one of several buffers, which later calls overwrite. */
const char *stats_address(const uint8_t gid[16]);
/* Text of an address and port in at most `width` characters, such as "10.0.0.1:7174". Buffer as above. */
const char *stats_end(const uint8_t gid[16], uint32_t port, unsigned width);
/* Such as "1234", "56.7k", "8.9M": at most 5 characters. Buffer as above. */
const char *stats_number(uint64_t n);
/* Peer of a QP in at most `width` characters, such as "10.0.0.1 0x123456". Buffer as above. */
const char *stats_peer(const struct stat_qp *q, unsigned width);
/* Errors of a QP in words; "" if none. Buffer as above. */
const char *stats_trouble(const struct stat_qp *q);
/* Names of enum stat_trouble in JSON and Prometheus. */
extern const char *const stats_trouble_name[STAT_TROUBLES];
/* Prints as JSON. */
void stats_json(const struct stats *s, FILE *to);
/* Prints in Prometheus' text format. */
void stats_prometheus(const struct stats *s, FILE *to);

#endif
