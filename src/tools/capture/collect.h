/* SPDX-License-Identifier: BSD-2-Clause */
/* The collector of a capture: processes connect to it (base/capture.h), it writes the packets of all to one file. */
#ifndef UROCE_TOOLS_CAPTURE_COLLECT_H
#define UROCE_TOOLS_CAPTURE_COLLECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SNAP_LEAST 110u /* bytes: of a frame's headers, all */

struct collect_options {
	const char *file;    /* "-": standard output */
	uint32_t snap;	     /* bytes of a frame; 0: all */
	int64_t qpn;	     /* only packets to or from this QP; -1: all */
	const char *address; /* only packets to or from this one, see collect_address(); NULL: all */
	uint32_t file_size;  /* MiB, after which another file begins; 0: one file */
	uint32_t files;	     /* the number of files kept; 0: all */
};

struct collector;

/* Opens the file and listens. NULL: it has said why, as command `name`. */
struct collector *collect_open(const struct collect_options *o, const char *name);

/* What UROCE_PCAP is to be. */
const char *collect_name(const struct collector *c);

/* Writes until a process of those that have connected is left no more (and one has been), or a signal or the end of
 * `child` (0: none) asks for the end. Call it in a process that has blocked SIGINT, SIGTERM and SIGCHLD. Returns the
 * status of the child, as waitpid(2) has it. */
int collect_run(struct collector *c, pid_t child);

/* Closes the file and tells, to stderr, how many packets it has and how many were dropped. Returns false if it could
 * not be written, which has been told. */
bool collect_close(struct collector *c);

/* An IPv4 or IPv6 address as a GID; false: it is none. */
bool collect_address(const char *text, uint8_t gid[16]);

/* A number of an option, at least `least`; false: it is none. */
bool collect_number(const char *text, uint32_t least, uint32_t *n);

#endif
