/* SPDX-License-Identifier: BSD-2-Clause */
/* A paragraph of sentences for the user, of lines of at most 78 columns. One thread. */
#ifndef UROCE_TOOLS_PARAGRAPH_H
#define UROCE_TOOLS_PARAGRAPH_H

/* Adds to the paragraph. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints the paragraph and an empty line to stdout, if it has a word, and begins the next one. */
void say_end(void);

#endif
