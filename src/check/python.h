/* SPDX-License-Identifier: BSD-2-Clause */
/* The line of a Python program that calls, through pyverbs or another extension. Any thread. */
#ifndef UROCE_CHECK_PYTHON_H
#define UROCE_CHECK_PYTHON_H

#include <stddef.h>

enum { PYTHON_TEXT = 256 };

/* Text "function (file:line)" of this thread's current line; empty if there is none. */
void python_frame(char *text, size_t room);

#endif
