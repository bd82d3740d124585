/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers to rdma(8) about the objects of the user's processes. */
#ifndef UROCE_SYSFS_RESOURCE_H
#define UROCE_SYSFS_RESOURCE_H

#include "sysfs/message.h"

/* True if the command asks for objects. */
bool resource_is(uint32_t op);
/* Sends the answer. `all`: as a list. 0 or an errno. */
int resource_answer(const struct asker *a, uint32_t op, const struct device *d, bool all);

#endif
