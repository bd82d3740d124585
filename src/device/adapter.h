/* SPDX-License-Identifier: BSD-2-Clause */
/* The adapter that devices imitate: UROCE_ADAPTER names a row of the table in adapter.c. A row is what such an
 * adapter reports and refuses. Any thread may call. */
#ifndef UROCE_DEVICE_ADAPTER_H
#define UROCE_DEVICE_ADAPTER_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"

struct adapter {
	const char *device; /* device name before the number */
	const char *board;
	struct ibv_device_attr attr; /* GUIDs are replaced by the device's */
	uint32_t inline_most;	     /* bytes */
	uint32_t message_most;	     /* bytes; 0: HCA_MAX_MESSAGE */
	int no_more_qps;	     /* errno beyond max_qp; 0: ENOMEM */
	uint32_t types;		     /* enum ibv_qp_type bits */
	uint32_t lacks;		     /* enum ibv_wr_opcode bits that no queue pair has */
	bool odp;		     /* on-demand paging, and whatever else uroce has beyond `attr` */
	bool infiniband;	     /* link layer */
	bool waits;		     /* a SEND waits for a receive, also without acknowledgements */
};

const struct adapter *adapter(void);

/* Counts an object of a device. False if there are `most` already. */
bool adapter_take(_Atomic uint32_t *count, int most);
void adapter_give(_Atomic uint32_t *count);

/* True if the port is on InfiniBand: the adapter is, or UROCE_ADAPTER has ",ib". */
bool adapter_is_infiniband(void);

/* Queue depth for a request of `asked` entries: rounded up to a power of two, as adapters do (UROCE_QUEUES). Limits
 * are powers of two, so a value above the limit stays above it. */
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
