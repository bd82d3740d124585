/* SPDX-License-Identifier: BSD-2-Clause */
/* Records of ids for `uroce stat` (base/stat.h). */
#include <string.h>

#include "base/stat.h"
#include "cm/address.h"
#include "cm/device.h"
#include "cm/id.h"
#include "verbs/context.h"
#include "device/device.h"

static void put_id(struct id *id, void *arg)
{
	const struct connection *c;
	struct stat_id row = {.device = STAT_UNKNOWN, .port_space = (uint16_t)id->base.ps};

	lock_assert_held(&cm.lock);
	c = id->connection;
	if (id->state == ID_IDLE)
		return;
	row.state = (uint8_t)id->state;
	row.backlog = id->backlog;
	row.local_port = (uint16_t)id->service;
	memcpy(row.local, id->port_address.raw, sizeof(row.local));
	if (id->device) {
		row.device = (uint32_t)context_of(id->device->verbs)->device->number;
		memcpy(row.local, id->address.local.raw, sizeof(row.local));
		memcpy(row.remote, id->address.remote.raw, sizeof(row.remote));
	}
	if (id->state == ID_CONNECTING)
		row.remote_port = address_port(&id->base.route.addr.dst_addr);
	if (c) {
		row.connection = (uint8_t)c->state;
		row.qpn = c->local_qpn;
		row.remote_qpn = c->remote_qpn;
	}
	stat_put(arg, STAT_ID, &row, sizeof(row));
}

static void stat_cm(struct stat_sheet *sheet)
{
	if (!sheet->only_devices)
		ids_each(put_id, sheet);
}

__attribute__((constructor)) static void stat_cm_register(void)
{
	stat_register(stat_cm);
}
