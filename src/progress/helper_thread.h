/* SPDX-License-Identifier: BSD-2-Clause */
/* What the helper thread does: helper->main. */
#ifndef UROCE_PROGRESS_HELPER_THREAD_H
#define UROCE_PROGRESS_HELPER_THREAD_H

void *helper_main(void *loop);

#endif
