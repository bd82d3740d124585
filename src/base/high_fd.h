/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors of our own stand above those of the program: it gets the lowest free number for each of its own, and has
 * tables for them, or fd_sets, that end early. */
#ifndef UROCE_HIGH_FD_H
#define UROCE_HIGH_FD_H

/* Moves a descriptor up, and has execve(2) close it. The new number, or where that cannot be, the old one; a negative
 * one is returned as it is. errno stays. */
int high_fd(int fd);

#endif
