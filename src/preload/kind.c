/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/kind.h"

_Atomic uint8_t kinds[1 << 16];
_Thread_local int inside;
struct lock move_lock = LOCK_RANKED(PRELOAD_MOVE);

bool kind_settle(int fd)
{
	if (!OPS.is_plain(fd)) {
		if (OPS.is_settled(fd))
			set_kind(fd, RDMA);
		return true;
	}
	INSIDE((OPS.detach(fd), 0));
	set_kind(fd, PLAIN);
	return false;
}
