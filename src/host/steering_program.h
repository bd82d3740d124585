/* SPDX-License-Identifier: BSD-2-Clause */
/* The program by which the kernel chooses the socket of a packet: see steering.h. */
#ifndef UROCE_HOST_STEERING_PROGRAM_H
#define UROCE_HOST_STEERING_PROGRAM_H

#include <linux/filter.h>
#include <stdint.h>

struct steering_listener {
	uint32_t service; /* lower half of the service id */
	uint16_t slot;
};

/* Makes the program for sockets in this order, and for the listeners among their processes. Returns its length in
 * instructions. */
#define STEERING_LISTENERS 256u
#define STEERING_PROGRAM   BPF_MAXINSNS
#define STEERING_SLOTS	   1500u /* slots for which the longest program has room */
struct steering_order {
	const uint16_t *slots;	/* first slot of each process, by place */
	const uint16_t *owners; /* by slot: first slot of the process; 0: a first slot, or free. NULL: all are */
	const struct steering_listener *listener;
	uint32_t count, listeners;
	uint32_t most; /* slots that are steered at most; packets for others are handed over */
};
uint16_t steering_program(const struct steering_order *o, struct sock_filter out[STEERING_PROGRAM]);

#endif
