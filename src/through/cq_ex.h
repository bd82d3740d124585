/* SPDX-License-Identifier: BSD-2-Clause */
/* Polls of extended CQs: ibv_start_poll(3). */
#ifndef UROCE_THROUGH_CQ_EX_H
#define UROCE_THROUGH_CQ_EX_H

#include "through/shadow.h"

/* The functions of an extended CQ with these fields are ours from now on; false: its completions do not tell enough. */
bool cq_ex_open(struct shadow *s, struct ibv_cq_ex *cq, uint64_t fields);

#endif
