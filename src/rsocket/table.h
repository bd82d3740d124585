/* SPDX-License-Identifier: BSD-2-Clause */
/* The table from descriptors to rsockets, and their references. */
#ifndef UROCE_RSOCKET_TABLE_H
#define UROCE_RSOCKET_TABLE_H

#include "rsocket/rsocket.h"

/* One reference; the descriptor becomes the rsocket's. NULL: no memory. */
struct rsocket *rsocket_make(int fd, int domain, int type, void (*destroy)(struct rsocket *rs));
/* Enters it under its descriptor, with a reference of the table. 0 or -errno. */
int rsocket_install(struct rsocket *rs);
/* Enters it under another descriptor as well. 0 or -errno. */
int rsocket_install_at(struct rsocket *rs, int fd);
/* With a reference. NULL: the descriptor is no rsocket. */
struct rsocket *rsocket_get(int fd);
void rsocket_ref(struct rsocket *rs);
/* For lists without references. False: the last reference is gone. */
bool rsocket_try_ref(struct rsocket *rs);
void rsocket_put(struct rsocket *rs);
/* Takes a descriptor out of the table. The rsocket with the table's reference, or NULL: the descriptor is no rsocket,
 * or the rsocket has another one still. */
struct rsocket *rsocket_remove(int fd);
/* Calls `use` on each rsocket that has a descriptor, without locks. */
void rsocket_each(void (*use)(struct rsocket *rs));

/* Calls an inner function on the rsocket of a descriptor, locked. What it returned, or -1 and errno. */
#define WITH_RSOCKET(fd, rs, type, call)              \
	({                                            \
		struct rsocket *rs = rsocket_get(fd); \
		type result_ = -EBADF;                \
                                                      \
		if (rs) {                             \
			lock_take(&rs->lock);         \
			result_ = call;               \
			lock_drop(&rs->lock);         \
			rsocket_put(rs);              \
		}                                     \
		if (result_ < 0) {                    \
			errno = (int)-result_;        \
			result_ = -1;                 \
		}                                     \
		result_;                              \
	})

#endif
