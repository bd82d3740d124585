// SPDX-License-Identifier: BSD-2-Clause
// vendor: what a program built with a vendor's library hears of our device, which is not theirs: nothing, and no error.
#include <infiniband/mlx5dv.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && *list ? ibv_open_device(*list) : NULL;
	struct mlx5dv_context abilities = {.flags = 1, .comp_mask = MLX5DV_CONTEXT_MASK_STRIDING_RQ};
	int err;

	if (!context)
		return EXIT_FAILURE;
	err = mlx5dv_query_device(context, &abilities);
	if (err || abilities.flags || abilities.comp_mask || mlx5dv_is_supported(*list)) {
		fprintf(stderr, "mlx5dv_query_device: %d, flags %#llx, comp_mask %#llx; mlx5dv_is_supported: %d\n", err,
			(unsigned long long)abilities.flags, (unsigned long long)abilities.comp_mask,
			mlx5dv_is_supported(*list));
		return EXIT_FAILURE;
	}
	ibv_close_device(context);
	ibv_free_device_list(list);
	return EXIT_SUCCESS;
}
