/* SPDX-License-Identifier: BSD-2-Clause */
/* The Yama setting of this process. With kernel.yama.ptrace_scope 1 (as on Ubuntu), process_vm_readv(2) and
 * process_vm_writev(2) work only for the parents of a process, and for the one process that it names with
 * PR_SET_PTRACER.
 *
 * There is one such name per process, and a new name replaces the old one: this would not work with two local peers,
 * and it would take the permission away from a crash handler or debugger that the program has named. The only name that
 * serves all is "any", which removes the protection of Yama against every process of the user. uroce does not decide
 * that: it names "any" only if UROCE_PTRACER is "any". Otherwise local peers do without process_vm. */
#ifndef UROCE_PTRACER_H
#define UROCE_PTRACER_H

/* Calls PR_SET_PTRACER if UROCE_PTRACER asks for it. */
void ptracer_allow(void);

#endif
