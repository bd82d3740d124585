/* SPDX-License-Identifier: BSD-2-Clause */
/* The names of numbers in records. */
#ifndef UROCE_TOOLS_NAMES_H
#define UROCE_TOOLS_NAMES_H

#include <stdint.h>

const char *operation_name(uint64_t wr_opcode);	 /* of a work request: "SEND", "WRITE" ... */
int operation_find(const char *name);		 /* its wr_opcode, -1: there is none of that name */
const char *operation_next(unsigned *wr_opcode); /* the names, one a call, from *wr_opcode on; NULL: no more */
const char *packet_name(uint64_t opcode);	 /* of a packet: "RC SEND ONLY" ... */
const char *status_name(uint64_t wc_status);	 /* "IBV_WC_SUCCESS" ... */
/* ACK, or which NAK. */
const char *syndrome_name(uint64_t syndrome);
const char *retry_name(uint64_t reason); /* the engine's enum retry_reason */
const char *drop_name(uint64_t reason);	 /* the responder's enum verdict, or DROP_BY_FAULT */

const char *qp_type_name(uint64_t type);	   /* enum ibv_qp_type: "RC", "UD" ... */
const char *qp_state_name(uint64_t state);	   /* enum ibv_qp_state: "RTS" ... */
const char *lane_name(uint64_t lane);		   /* enum lane of object/qp.h: "udp", "ring" ... */
const char *id_state_name(uint64_t state);	   /* enum id_state of cm/id.h: "LISTENING" ... */
const char *connection_state_name(uint64_t state); /* enum connection_state of cm/machine.h */
const char *port_space_name(uint64_t port_space);  /* enum rdma_port_space: "TCP", "UDP" ... */

#endif
