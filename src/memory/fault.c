/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/fault.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <ucontext.h>

#include "base/lock.h"
#include "memory/copy.h"

/* The setjmp() of the C library is a function call, and mangles the pointers that it stores, so x86 uses the builtin.
 * Sanitizers must see the call, and ThreadSanitizer blocks all signals in a handler. */
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#define BEHIND_A_CALL \
	__attribute__((noinline)) /* else gcc keeps its variables where setjmp()'s return may spoil them */
#if defined(__SANITIZE_ADDRESS__) || defined(UNDER_TSAN) || __has_feature(address_sanitizer)
typedef sigjmp_buf landing_place;
#define land_here(place) sigsetjmp(place, 1)
#define go_to(place)	 siglongjmp(place, 1)
#elif defined(__x86_64__)
typedef void *landing_place[5];
#undef BEHIND_A_CALL
#define BEHIND_A_CALL	 inline
#define land_here(place) __builtin_setjmp(place)
#define go_to(place)	 __builtin_longjmp(place, 1)
#else
typedef sigjmp_buf landing_place;
#define land_here(place) sigsetjmp(place, 0)
#define go_to(place)	 siglongjmp(place, 1)
#endif

/* Where this thread continues after a fault; NULL: it is not in a try. Only the handler in the same thread reads it. */
struct landing {
	landing_place place;
};
static _Thread_local struct landing *volatile landing;
_Thread_local bool fault_unblocked; /* the signals were unblocked in this thread, once; if the program blocks them
				       again, a fault ends it */

bool (*fault_repeats)(const siginfo_t *info, const void *context);

static const int signals[] = {SIGSEGV, SIGBUS};
#define SIGNALS (sizeof(signals) / sizeof(signals[0]))

/* The handlers of the program: those found first, and those found last. `arm_lock` guards writing. Handlers read
 * without it: the values change only while the program registers memory and handlers. */
static struct lock arm_lock = LOCK_RANKED(FAULT_ARM);
static struct sigaction first[SIGNALS], before[SIGNALS];
static bool armed;

static size_t index_of(int signal)
{
	return signal == signals[1];
}

/* The kernel calls a handler with a fresh floating-point environment, and restores it at the return from the signal.
 * The handler does not return, so this restores it. */
static void restore_rounding(const ucontext_t *context)
{
#ifdef __x86_64__
	const struct _libc_fpstate *fp = context->uc_mcontext.fpregs;

	if (!fp)
		return;
	__builtin_ia32_ldmxcsr(fp->mxcsr);
	__asm__ volatile("fldcw %0" : : "m"(fp->cwd));
#else
	(void)context;
#endif
}

/* Passes the signal to the handler that was installed before ours. If that one calls ours again, as its predecessor,
 * passes it to the first. */
static void pass_on(int signal, siginfo_t *info, void *context)
{
	static _Thread_local bool passing;
	struct sigaction *a = passing ? &first[index_of(signal)] : &before[index_of(signal)];

	if (a->sa_handler == SIG_IGN && info->si_code <= 0)
		return;
	if (a->sa_handler == SIG_DFL || a->sa_handler == SIG_IGN) {
		const struct sigaction fallback = {.sa_handler = SIG_DFL};

		sigaction(signal, &fallback, NULL);
		if (info->si_code <= 0) /* sent by a process; a real fault happens again at once */
			raise(signal);
		return;
	}
	passing = true;
	if (a->sa_flags & SA_SIGINFO)
		a->sa_sigaction(signal, info, context);
	else
		a->sa_handler(signal);
	passing = false;
}

#ifdef __x86_64__
/* The table of FAULT_TRY(): an instruction and where to continue, each relative to its own field. */
struct fault_access {
	int32_t from, to;
};
extern const struct fault_access __start_fault_accesses[] __attribute__((weak, visibility("hidden")));
extern const struct fault_access __stop_fault_accesses[] __attribute__((weak, visibility("hidden")));

static bool go_on_behind_access(ucontext_t *context)
{
	greg_t *at = &context->uc_mcontext.gregs[REG_RIP];

	for (const struct fault_access *s = __start_fault_accesses; s < __stop_fault_accesses; s++)
		if (*at == (greg_t)(uintptr_t)&s->from + s->from) {
			*at = (greg_t)(uintptr_t)&s->to + s->to;
			context->uc_mcontext.gregs[REG_RAX] = 1;
			return true;
		}
	return false;
}
#else
static bool go_on_behind_access(ucontext_t *context)
{
	return false;
}
#endif

static void on_fault(int signal, siginfo_t *info, void *context)
{
	struct landing *l = landing;

	if (fault_repeats && fault_repeats(info, context))
		return;
	if (info->si_code > 0 && go_on_behind_access(context))
		return;
	if (!l || info->si_code <= 0) {
		pass_on(signal, info, context);
		return;
	}
	landing = NULL;
	restore_rounding(context);
	go_to(l->place);
}

/* SA_NODEFER, as the handler does not return; SA_ONSTACK, as handlers of the program may need it. */
static void memory_fault_arm(size_t i)
{
	struct sigaction ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK}, now;

	if (sigaction(signals[i], NULL, &now) || ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_fault))
		return;
	before[i] = now;
	if (!armed)
		first[i] = now;
	sigaction(signals[i], &ours, NULL);
}

void fault_arm(void)
{
	if (!lock_try(&arm_lock))
		return; /* another thread is doing it */
	for (size_t i = 0; i < SIGNALS; i++)
		memory_fault_arm(i);
	armed = true;
	lock_drop(&arm_lock);
}

/* Unblocks the signals: a fault with its signal blocked ends the program. Once per thread, as it is a system call. */
__attribute__((noinline, cold)) void fault_unblock(void)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < SIGNALS; i++)
		sigaddset(&set, signals[i]);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	fault_unblocked = true;
}

bool fault_is_armed(void)
{
	struct sigaction now;

	return !sigaction(SIGBUS, NULL, &now) && (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_fault;
}

bool fault_try(void (*access)(void *arg), void *arg)
{
	struct landing here;

	if (unlikely(!fault_unblocked))
		fault_unblock();
	if (land_here(here.place))
		return false;
	landing = &here;
	atomic_signal_fence(memory_order_seq_cst); /* with on_fault(), in this thread */
	access(arg);
	atomic_signal_fence(memory_order_seq_cst);
	landing = NULL;
	return true;
}

static BEHIND_A_CALL void memory_fault_copy(char *to, const void *from, size_t length)
{
	copy_in_order(to, from, length);
}

bool fault_copy_any(char *to, const void *from, size_t length)
{
	struct landing here;

	if (unlikely(!fault_unblocked))
		fault_unblock();
	if (land_here(here.place))
		return false;
	landing = &here;
	atomic_signal_fence(memory_order_seq_cst); /* as above */
	memory_fault_copy(to, from, length);
	atomic_signal_fence(memory_order_seq_cst);
	landing = NULL;
	return true;
}
