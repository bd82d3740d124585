/* SPDX-License-Identifier: BSD-2-Clause */
/* The helper thread's function: helper->main. */
#ifndef UROCE_PROGRESS_HELPER_THREAD_H
#define UROCE_PROGRESS_HELPER_THREAD_H

void *helper_main(void *loop);

#endif
