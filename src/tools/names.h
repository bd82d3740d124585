/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of numbers in records. */
#ifndef UROCE_TOOLS_NAMES_H
#define UROCE_TOOLS_NAMES_H

#include <stdbool.h>
#include <stdint.h>

const char *operation_name(uint64_t wr_opcode);	 /* of a work request, such as "SEND" */
int operation_find(const char *name);		 /* wr_opcode of that name, or -1 */
const char *operation_next(unsigned *wr_opcode); /* names, one per call, from *wr_opcode on; NULL after the last */
const char *packet_name(uint64_t opcode);	 /* of a packet, such as "RC SEND ONLY" */
const char *status_name(uint64_t wc_status);	 /* such as "IBV_WC_SUCCESS" */
/* ACK, or the kind of NAK. */
const char *syndrome_name(uint64_t syndrome);
const char *retry_name(uint64_t reason); /* the engine's enum retry_reason */
const char *drop_name(uint64_t reason);	 /* the responder's enum verdict, or a DROP_ */

const char *qp_type_name(uint64_t type);	   /* enum ibv_qp_type, such as "RC" */
const char *qp_state_name(uint64_t state);	   /* enum ibv_qp_state, such as "RTS" */
const char *lane_name(uint64_t lane);		   /* enum lane of object/qp.h, such as "udp" */
bool lane_is_shared(uint64_t lane);		   /* true of the lanes by shared memory */
const char *id_state_name(uint64_t state);	   /* enum id_state of cm/id.h, such as "LISTENING" */
const char *connection_state_name(uint64_t state); /* enum connection_state of cm/state.h */
const char *port_space_name(uint64_t port_space);  /* enum rdma_port_space, such as "TCP" */

#endif
