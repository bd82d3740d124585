/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/hooks.h"

uint32_t hooks;
_Atomic(void (*)(void)) hook_exit;
