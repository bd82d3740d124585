/* SPDX-License-Identifier: BSD-2-Clause */
/* Location of liburoce.so.1, and its use by this program. */
#ifndef UROCE_TOOLS_LIBRARY_H
#define UROCE_TOOLS_LIBRARY_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>

/* The library beside this program (build tree), in ../lib, or where installed. NULL if missing. */
const char *library_path(void);

/* Puts the library and liburoce-sysfs.so first into LD_PRELOAD (behind the sanitizer's run-time library in a
 * sanitizer build). On a machine without libibverbs, also puts the directory of our substitutes into
 * LD_LIBRARY_PATH. 0 or -1. */
int library_preload(void);
/* Makes library_preload() put only liburoce-through.so there, for another adapter. */
void library_go_through(void);
/* Puts liburoce-rsocket.so first into LD_PRELOAD. 0 or -1. */
int library_preload_rsocket(void);

/* Verbs that the tools call, or NULL before library_open(), which returns NULL or the reason of its failure. */
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
