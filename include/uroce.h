/* SPDX-License-Identifier: BSD-2-Clause */
/* uroce from inside a program: faults and ports, for tests of programs that use RDMA. A program that includes this
 * needs no library of uroce's, neither to be linked nor to run: each function looks for its counterpart in the process.
 * It is there under `uroce run`; where it is not, the functions return -ENOSYS (uroce_version(): NULL).
 *
 *     if (uroce_fault_add("complete SEND nth 1: status REM_OP_ERR", why, sizeof(why)) < 0) ...
 *
 * Any thread may call, at any time, also before a device is opened; not from a signal handler. Faults are those of this
 * process alone. What fails returns -errno. C99, C++; with glibc before 2.34, link with -ldl.
 * uroce-fault(5) has the language of rules. */
#ifndef UROCE_H
#define UROCE_H

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Room for what is wrong with a rule: four lines. */
#define UROCE_WHY 1024

/* Called for each rule in force. `text`: as it was given, until the call returns. `could`: how often its event has
 * come; `fired`: how often it has fired; of all queue pairs together. */
typedef void uroce_fault_show(void *arg, int number, const char *text, uint64_t could, uint64_t fired);

#ifdef UROCE_IMPLEMENTS /* the library itself */
#define UROCE_CALL(result, name, parameters, arguments, absent) result name parameters;
#else
#define UROCE_CALL(result, name, parameters, arguments, absent)                    \
	static inline result name parameters                                       \
	{                                                                          \
		union {                                                            \
			void *symbol;                                              \
			result(*call) parameters;                                  \
		} found;                                                           \
		found.symbol = dlsym((void *)0 /* of whichever library */, #name); \
		return found.symbol ? found.call arguments : (absent);             \
	}
#endif

/* The version, as "0.1.0"; NULL: uroce is not in this process. */
UROCE_CALL(const char *, uroce_version, (void), (), NULL)

/* One rule comes into force, behind the others. Returns its number, from 1.
 * -EINVAL: it does not parse, or could never fire; or UROCE_FAULT of this process does not parse. Then `why` has, in
 * `room` bytes (UROCE_WHY), the reason, the rule, and a caret under the word that is to blame. NULL: not wanted.
 * -ENOSPC: there are 64 rules; -ENOMEM. */
UROCE_CALL(int, uroce_fault_add, (const char *rule, char *why, size_t room), (rule, why, room), -ENOSYS)

/* The rule with this number is out of force. 0; -ENOENT: there is none. */
UROCE_CALL(int, uroce_fault_remove, (int number), (number), -ENOSYS)

/* All are, those of UROCE_FAULT as well. 0. States that rules have brought about (port-down) end when the rule said. */
UROCE_CALL(int, uroce_fault_clear, (void), (), -ENOSYS)

/* Calls show(arg, ...) for each rule in force, in the order in which they are asked. It must not add or remove rules.
 * Returns how many there are. */
UROCE_CALL(int, uroce_fault_list, (uroce_fault_show * show, void *arg), (show, arg), -ENOSYS)

/* How often a rule has fired, also one that has been removed; -ENOENT: no rule ever had this number. */
UROCE_CALL(int64_t, uroce_fault_fired, (int number), (number), -ENOSYS)

/* The seed by which chance decides, from 1 to 4294967295: UROCE_FAULT_SEED repeats it. */
UROCE_CALL(int64_t, uroce_fault_seed, (void), (), -ENOSYS)

/* As `uroce link down`, and `up`: the port of a device, for all processes of this user and network namespace, until it
 * is taken up. Returns when all of them have been told, which may be before they have noticed. 0; -ENODEV: there is no
 * such device; other -errno: the file that keeps the state cannot be written. */
UROCE_CALL(int, uroce_link_down, (const char *device), (device), -ENOSYS)
UROCE_CALL(int, uroce_link_up, (const char *device), (device), -ENOSYS)

#undef UROCE_CALL

#ifdef __cplusplus
}
#endif

#endif
