/* SPDX-License-Identifier: BSD-2-Clause */
/* Where Yama is at work (kernel.yama.ptrace_scope is 1, as on Ubuntu) a process may be reached by process_vm only by
 * its parents, and by the one that it names with PR_SET_PTRACER. There is one name per process, and whoever names
 * another takes the first's right away: a program with two local peers, or a crash handler or debugger that the program
 * named itself, would suffer. The only name that serves all is "any", which gives every process of the user what Yama
 * was to keep from it. That is not ours to decide, so it is done if UROCE_PTRACER is "any" and else not: local peers
 * then do without process_vm. */
#ifndef UROCE_PTRACER_H
#define UROCE_PTRACER_H

/* As UROCE_PTRACER says. */
void ptracer_allow(void);

#endif
