/* SPDX-License-Identifier: BSD-2-Clause */
/* GPUs of this machine. */
#ifndef UROCE_TOOLS_RUN_GPU_HERE_H
#define UROCE_TOOLS_RUN_GPU_HERE_H

struct gpu_here {
	const char *vendor; /* name of the driver's API; NULL: no driver library here finds a GPU */
	int gpus;
};

/* Loads the driver library, and looks. */
struct gpu_here gpu_here_look(void);

#endif
