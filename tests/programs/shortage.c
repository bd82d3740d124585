// SPDX-License-Identifier: BSD-2-Clause
/* To be preloaded before liburoce.so.1: of the calls by which that asks for SHORTAGE (memory, map, descriptor or
 * thread), the one with the number SHORTAGE_AT fails, and is told. At the end the file SHORTAGE_LOG gets the number of
 * calls. */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum kind { MEMORY, MAP, DESCRIPTOR, THREAD, KINDS };

static const char *const names[KINDS] = {"memory", "map", "descriptor", "thread"};
static uintptr_t base, low, high; /* of the library, and of its code */
static unsigned wanted = KINDS, at;
static _Atomic unsigned calls;

static int look(struct dl_phdr_info *i, size_t size, void *arg)
{
	if (!strstr(i->dlpi_name, "liburoce.so"))
		return 0;
	for (int p = 0; p < i->dlpi_phnum; p++)
		if (i->dlpi_phdr[p].p_type == PT_LOAD && i->dlpi_phdr[p].p_flags & PF_X) {
			base = i->dlpi_addr;
			low = base + i->dlpi_phdr[p].p_vaddr;
			high = low + i->dlpi_phdr[p].p_memsz;
		}
	return 1;
}

__attribute__((constructor)) static void begin(void)
{
	const char *kind = getenv("SHORTAGE"), *number = getenv("SHORTAGE_AT");

	dl_iterate_phdr(look, NULL);

	at = number ? (unsigned)atoi(number) : 0;
	for (unsigned k = 0; k < KINDS; k++)
		if (kind && !strcmp(kind, names[k]))
			wanted = k;
}

__attribute__((destructor)) static void end(void)
{
	const char *log = getenv("SHORTAGE_LOG");
	FILE *f = log ? fopen(log, "w") : NULL;

	if (f) {
		fprintf(f, "%u\n", atomic_load(&calls));
		fclose(f);
	}
}

static int refused(enum kind kind, void *caller, int error)
{
	unsigned n;

	if (kind != wanted || (uintptr_t)caller < low || (uintptr_t)caller >= high)
		return 0;
	n = atomic_fetch_add(&calls, 1) + 1;
	if (n != at)
		return 0;
	fprintf(stderr, "refused what liburoce.so.1+0x%lx asked for\n", (unsigned long)((uintptr_t)caller - base - 1));
	errno = error;
	return 1;
}

#define NEXT(name)	     ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define REFUSED(kind, error) refused(kind, __builtin_return_address(0), error)

/* glibc's own: dlsym() allocates */
extern void *__libc_malloc(size_t size), *__libc_calloc(size_t n, size_t size), *__libc_realloc(void *p, size_t size),
	*__libc_memalign(size_t alignment, size_t size);
void *malloc(size_t size)
{
	return REFUSED(MEMORY, ENOMEM) ? NULL : __libc_malloc(size);
}
void *calloc(size_t n, size_t size)
{
	return REFUSED(MEMORY, ENOMEM) ? NULL : __libc_calloc(n, size);
}
void *realloc(void *p, size_t size)
{
	return REFUSED(MEMORY, ENOMEM) ? NULL : __libc_realloc(p, size);
}
void *aligned_alloc(size_t a, size_t size)
{
	return REFUSED(MEMORY, ENOMEM) ? NULL : __libc_memalign(a, size);
}
int posix_memalign(void **p, size_t a, size_t size)
{
	if (REFUSED(MEMORY, ENOMEM))
		return ENOMEM;
	*p = __libc_memalign(a, size);
	return *p ? 0 : ENOMEM;
}
char *strdup(const char *s)
{
	char *p = REFUSED(MEMORY, ENOMEM) ? NULL : __libc_malloc(strlen(s) + 1);
	return p ? strcpy(p, s) : NULL;
}
void *mmap64(void *a, size_t l, int p, int f, int fd, off_t o)
{
	return REFUSED(MAP, ENOMEM) ? MAP_FAILED : NEXT(mmap64)(a, l, p, f, fd, o);
}
int memfd_create(const char *n, unsigned f)
{
	return REFUSED(DESCRIPTOR, EMFILE) ? -1 : NEXT(memfd_create)(n, f);
}
int socket(int d, int t, int p)
{
	return REFUSED(DESCRIPTOR, EMFILE) ? -1 : NEXT(socket)(d, t, p);
}
int eventfd(unsigned n, int f)
{
	return REFUSED(DESCRIPTOR, EMFILE) ? -1 : NEXT(eventfd)(n, f);
}
int timerfd_create(int c, int f)
{
	return REFUSED(DESCRIPTOR, EMFILE) ? -1 : NEXT(timerfd_create)(c, f);
}
int epoll_create1(int f)
{
	return REFUSED(DESCRIPTOR, EMFILE) ? -1 : NEXT(epoll_create1)(f);
}
int accept4(int fd, struct sockaddr *a, socklen_t *l, int f)
{
	return REFUSED(DESCRIPTOR, EMFILE) ? -1 : NEXT(accept4)(fd, a, l, f);
}
int open64(const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
	va_end(args);
	return REFUSED(DESCRIPTOR, EMFILE) ? -1 : NEXT(open64)(path, flags, mode);
}
int fcntl64(int fd, int what, ...)
{
	va_list args;
	void *arg;

	va_start(args, what);
	arg = va_arg(args, void *);
	va_end(args);
	return (what == F_DUPFD_CLOEXEC || what == F_DUPFD) && REFUSED(DESCRIPTOR, EMFILE)
		       ? -1
		       : NEXT(fcntl64)(fd, what, arg);
}
int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *arg)
{
	return REFUSED(THREAD, EAGAIN) ? EAGAIN : NEXT(pthread_create)(t, a, f, arg);
}
