/* SPDX-License-Identifier: BSD-2-Clause */
/* Where liburoce.so.1 is, and its use from this program. */
#ifndef UROCE_TOOLS_LIBRARY_H
#define UROCE_TOOLS_LIBRARY_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>

/* The library beside this program (build tree), in ../lib of it, or where it was installed to. NULL: nowhere. */
const char *library_path(void);

/* Puts it, and liburoce-sysfs.so, first into LD_PRELOAD (behind the sanitizer's run-time library in a sanitizer
 * build). On a machine without libibverbs, the directory of ours goes into LD_LIBRARY_PATH. 0 or -1. */
int library_preload(void);
/* From now on, library_preload() puts only liburoce-through.so there, for another adapter. */
void library_go_through(void);
/* Puts liburoce-rsocket.so first into LD_PRELOAD. 0 or -1. */
int library_preload_rsocket(void);

/* The verbs that the tools call; all NULL but after library_open() returned NULL (else it returns why not). */
struct library {
	struct ibv_device **(*get_device_list)(int *count);
	void (*free_device_list)(struct ibv_device **list);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*close_device)(struct ibv_context *context);
	int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attr);
	int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
	int (*link_set)(const char *device, bool up); /* device/link_state.h */
	ssize_t (*query_gid_table)(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
				   uint32_t flags, size_t entry_size);
};
extern struct library library;
const char *library_open(void);

#endif
