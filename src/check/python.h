/* SPDX-License-Identifier: BSD-2-Clause */
/* The Python program that makes a call, by way of pyverbs or another extension. Any thread. */
#ifndef UROCE_CHECK_PYTHON_H
#define UROCE_CHECK_PYTHON_H

#include <stddef.h>

enum { PYTHON_TEXT = 256 };

/* The line that this thread is in: "function (file:line)"; empty if there is none. */
void python_frame(char *text, size_t room);

#endif
