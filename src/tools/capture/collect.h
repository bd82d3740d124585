/* SPDX-License-Identifier: BSD-2-Clause */
/* The collector of a capture: processes connect to it (base/capture.h), and it writes all their packets to one file. */
#ifndef UROCE_TOOLS_CAPTURE_COLLECT_H
#define UROCE_TOOLS_CAPTURE_COLLECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SNAP_LEAST 110u /* bytes: all headers of a frame */

struct collect_options {
	const char *file;    /* "-": standard output */
	uint32_t snap;	     /* max bytes of a frame; 0: all */
	int64_t qpn;	     /* only packets to or from this QP; -1: all */
	const char *address; /* only packets to or from this address (collect_address()); NULL: all */
	uint32_t file_size;  /* MiB, after which another file begins; 0: one file */
	uint32_t files;	     /* number of files to keep; 0: all */
};

struct collector;

/* Opens the file and listens. NULL after a message, as command `name`. */
struct collector *collect_open(const struct collect_options *o, const char *name);

/* Value of UROCE_PCAP for the processes. */
const char *collect_name(const struct collector *c);

/* Writes until the last connected process (after at least one) has gone, a signal comes, or `child` (0: none) ends.
 * SIGINT, SIGTERM and SIGCHLD must be blocked. Returns the status of the child, as waitpid(2). */
int collect_run(struct collector *c, pid_t child);

/* Closes the file and prints the numbers of written and of dropped packets to stderr. False after a message if the
 * file could not be written. */
bool collect_close(struct collector *c);

/* Parses an IPv4 or IPv6 address to a GID. False if it is none. */
bool collect_address(const char *text, uint8_t gid[16]);

/* Parses an option's number of at least `least`. False if it is none. */
bool collect_number(const char *text, uint32_t least, uint32_t *n);

#endif
