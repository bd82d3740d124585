/* SPDX-License-Identifier: BSD-2-Clause */
/* A slot is the number, 1..255, of a process among all that run uroce in this network namespace: the top byte of its
 * QPNs. It is claimed by binding an abstract AF_UNIX datagram socket, whose name's scope is the network namespace, as
 * is that of UDP port 4791: the kernel makes the claim atomic, and drops it when the process dies, however it dies.
 * The same socket takes in packets that reached the wrong process (see handover.h). */
#ifndef UROCE_SLOT_H
#define UROCE_SLOT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#define SLOTS 255

struct slot {
	uint8_t number; /* 0: none */
	int fd;
};

/* 0, -EUSERS (255 processes are here already) or what socket(2) said. */
int slot_claim(struct slot *slot);
void slot_release(struct slot *slot);

/* The address of whoever has that slot. */
socklen_t slot_address(struct sockaddr_un *address, uint8_t number);

/* Whether a process has that slot. */
bool slot_is_alive(uint8_t number);
/* The same for who asks after many: a socket to do so, which the caller closes. -1 will do: then all may be alive. */
int slots_probe(void);
bool slots_have(int probe, uint8_t number);

/* Of a connection: 0, or -EACCES: at the other end is another user. `pid` may be NULL. */
int slot_check_user(int connection, pid_t *pid);

/* An abstract name: "uroce/" and what the format says. */
socklen_t slot_abstract(struct sockaddr_un *address, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
