/* SPDX-License-Identifier: BSD-2-Clause */
/* The part of the kernel that a fuzz target decides about: what a socket receives, what time it is, and whether other
 * threads of the library run. The linker passes these calls here (--wrap); before kernel_freeze(), and for what nobody
 * gave, they go on to the kernel. So a target uses the whole library, and one input always does the same. */
#ifndef FUZZ_KERNEL_H
#define FUZZ_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* A network namespace of its own with lo up, where that is allowed: nothing reaches another process. */
void kernel_enter_namespace(void);

/* From now on only the calling thread runs: others stop where they wait for events, which is without locks. The clock
 * stands, and moves as kernel_pass() says, and a little with each look. */
void kernel_freeze(void);
uint64_t kernel_now(void);
void kernel_pass(uint64_t ns);

/* A datagram. `segment`: of UDP_GRO; 0: not told. */
struct datagram {
	const uint8_t *bytes;
	size_t size;
	const struct sockaddr *from; /* NULL: a local socket of this user */
	socklen_t from_size;
	int segment, traffic_class;
};

/* The next thing that the socket receives. */
void kernel_give(int fd, const struct datagram *d);
/* Whether it has been received, or nothing was given. */
bool kernel_is_empty(void);

/* Of the packets that the library sends to itself, those with a set bit are lost; the next one has bit 0. */
void kernel_lose(uint32_t which);

#endif
