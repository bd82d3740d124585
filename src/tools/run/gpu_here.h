/* SPDX-License-Identifier: BSD-2-Clause */
/* GPUs of this machine, for what the tools say about their memory. */
#ifndef UROCE_TOOLS_RUN_GPU_HERE_H
#define UROCE_TOOLS_RUN_GPU_HERE_H

struct gpu_here {
	const char *vendor; /* name of the driver's interface; NULL: no driver library here that has a GPU */
	int gpus;
};

/* Loads the driver library, which programs that use none do not. */
struct gpu_here gpu_here_look(void);

#endif
