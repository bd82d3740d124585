/* SPDX-License-Identifier: BSD-2-Clause */
/* Writer of pcapng (draft-ietf-opsawg-pcapng): one section, an interface for each device, packets with comments. One
 * thread. */
#ifndef UROCE_TOOLS_CAPTURE_PCAPNG_H
#define UROCE_TOOLS_CAPTURE_PCAPNG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct pcapng {
	FILE *file;
	uint64_t bytes; /* written so far */
	int error;	/* errno of the first failed write, or 0 */
};

/* Begins the section. */
void pcapng_begin(struct pcapng *w);
/* Adds an interface; numbers count from 0. `snap`: bytes; 0: no limit. */
void pcapng_interface(struct pcapng *w, const char *name, const char *description, uint32_t snap);
/* Adds the first `captured` bytes of a frame of `length` bytes. `time`: ns since 1970. */
void pcapng_packet(struct pcapng *w, uint32_t interface, uint64_t time, bool inbound, const void *frame,
		   uint32_t captured, uint32_t length, const char *comment);
/* Writes buffered data to the file. */
void pcapng_flush(struct pcapng *w);
/* Adds the received and lost packets of an interface, at the end. */
void pcapng_statistics(struct pcapng *w, uint32_t interface, uint64_t time, uint64_t packets, uint64_t dropped);

#endif
