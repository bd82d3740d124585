/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions of vendor libraries that programs call for any device, also for ours. */
#include <stdint.h>

#include "base/msan.h"
#include "device/front.h"

/* mlx5dv_query_device(3), the part of struct mlx5dv_context that all versions have. */
struct mlx5_abilities {
	uint8_t version;
	uint64_t flags;
	uint64_t comp_mask; /* in: fields requested; out: fields that are valid */
};

/* libmlx5 returns EOPNOTSUPP for another vendor's device, and perftest 25.01 (Debian 13) reports that as a failure of
 * the device. So this returns success, with no field valid. Programs find out if a device is mlx5 by
 * mlx5dv_is_supported(3). */
PUBLIC int mlx5dv_query_device(struct ibv_context *context, struct mlx5_abilities *a)
{
	*a = (struct mlx5_abilities){0};
	msan_wrote(a, sizeof(*a));
	return 0;
}
