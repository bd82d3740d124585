/* SPDX-License-Identifier: BSD-2-Clause */
/* Which adapter the devices are like: UROCE_ADAPTER names a row of the table in adapter.c. A row is what such an
 * adapter reports and refuses. Any thread may call. */
#ifndef UROCE_DEVICE_ADAPTER_H
#define UROCE_DEVICE_ADAPTER_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"

struct adapter {
	const char *device; /* what its devices are called, before their number */
	const char *board;
	struct ibv_device_attr attr; /* GUIDs are the device's */
	uint32_t inline_most;	     /* bytes */
	uint32_t message_most;	     /* bytes; 0: HCA_MAX_MESSAGE */
	int no_more_qps;	     /* errno where there are max_qp; 0: ENOMEM */
	uint32_t types;		     /* a bit for each of enum ibv_qp_type */
	uint32_t lacks;		     /* a bit for each of enum ibv_wr_opcode that it has on no queue pair */
	bool odp;		     /* on-demand paging and what else uroce has beyond `attr` */
	bool infiniband;	     /* link layer */
};

const struct adapter *adapter(void);

/* Counts an object of a device. False: there are `most` already. */
bool adapter_take(_Atomic uint32_t *count, int most);
void adapter_give(_Atomic uint32_t *count);

/* Whether the port is on InfiniBand: the adapter is, or UROCE_ADAPTER says ",ib". */
bool adapter_is_infiniband(void);

/* The queue depth that a request for `asked` gets: rounded up to a power of two, as adapters do (UROCE_QUEUES). All
 * limits are powers of two, so a value above the limit stays above it. */
static inline uint32_t depth_granted(uint32_t asked)
{
	uint32_t granted = 1;

	if (asked == 0 || asked > 1u << 31 || config_enum(CONFIG_QUEUES))
		return asked;
	while (granted < asked)
		granted *= 2;
	return granted;
}

#endif
