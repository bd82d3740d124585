/* SPDX-License-Identifier: BSD-2-Clause */
/* The XDP program of an interface, and its maps. It parts what comes in before the kernel looks at it: packets to an
 * address and a QP that the map names go to a socket of AF_XDP, all else (ARP, TCP, MADs, other processes' packets,
 * what is in a VLAN, in fragments or too long) to the kernel, as ever. It is attached by a bpf_link that is pinned
 * nowhere: when the last descriptor of that is closed, also by SIGKILL, the program is gone from the interface.
 *
 * One thread at a time. */
#ifndef UROCE_XDP_PROGRAM_H
#define UROCE_XDP_PROGRAM_H

#include <infiniband/verbs.h>
#include <stdint.h>

enum {
	XDP_QUEUES = 16, /* rx queues that are served; what comes by others goes to the kernel */
	XDP_ROWS = 64,	 /* one for each address: a socket for each queue */
};

/* Descriptors; -1: none. */
struct xdp_program {
	int sockets; /* row * XDP_QUEUES + queue -> socket */
	int rows;    /* address and slot -> row * XDP_QUEUES */
	int program;
	int link;
};

/* Frames of `longest` bytes at most are for the sockets. 0 or -errno: EPERM without CAP_BPF and CAP_NET_ADMIN. */
int xdp_program_load(struct xdp_program *p, uint32_t longest);
/* By the driver itself. 0 or -errno: EBUSY: the interface has another program; EOPNOTSUPP or what else the driver says:
 * it can have none. */
int xdp_program_attach(struct xdp_program *p, int netif);
void xdp_program_close(struct xdp_program *p);

/* 0 or -errno. */
int xdp_program_set_socket(const struct xdp_program *p, uint32_t row, uint32_t queue, int socket);
/* Packets to that address and to QPs of that slot go to that row's sockets; or to the kernel again. 0 or -errno. */
int xdp_program_set_row(const struct xdp_program *p, const union ibv_gid *to, uint16_t slot, uint32_t row);
void xdp_program_forget(const struct xdp_program *p, const union ibv_gid *to, uint16_t slot);

#endif
