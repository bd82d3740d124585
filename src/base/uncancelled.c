/* SPDX-License-Identifier: BSD-2-Clause */
/* The C library's cancellation points, without cancellation: uncancelled.h. meson.build names those that --wrap
 * replaces; tests/abi/test_symbols.py finds one that is missing. */
#include "base/uncancelled.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>

/* ---- hot paths: the system call ---- */

#define CALL(type, name, parameters, ...)          \
	type __wrap_##name parameters;             \
	type __wrap_##name parameters              \
	{                                          \
		return (type)syscall(__VA_ARGS__); \
	}

CALL(ssize_t, read, (int fd, void *to, size_t size), SYS_read, fd, to, size)
CALL(ssize_t, write, (int fd, const void *from, size_t size), SYS_write, fd, from, size)
CALL(ssize_t, recv, (int fd, void *to, size_t size, int flags), SYS_recvfrom, fd, to, size, flags, NULL, NULL)
CALL(ssize_t, send, (int fd, const void *from, size_t size, int flags), SYS_sendto, fd, from, size, flags, NULL, 0)
CALL(ssize_t, recvfrom, (int fd, void *to, size_t size, int flags, struct sockaddr *address, socklen_t *length),
     SYS_recvfrom, fd, to, size, flags, address, length)
CALL(ssize_t, sendto,
     (int fd, const void *from, size_t size, int flags, const struct sockaddr *address, socklen_t length), SYS_sendto,
     fd, from, size, flags, address, length)
CALL(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), SYS_recvmsg, fd, message, flags)
CALL(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), SYS_sendmsg, fd, message, flags)
CALL(int, epoll_wait, (int fd, struct epoll_event *events, int count, int ms), SYS_epoll_pwait, fd, events, count, ms,
     NULL, (size_t)(_NSIG / 8))

CALL(pid_t, waitpid, (pid_t child, int *status, int options), SYS_wait4, child, status, options, NULL)

int __wrap_poll(struct pollfd *fds, nfds_t count, int ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int ms)
{
	const struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};

	return uncancelled_ppoll(fds, count, ms < 0 ? NULL : &time, NULL);
}

int __wrap_eventfd_read(int fd, eventfd_t *count);
int __wrap_eventfd_read(int fd, eventfd_t *count)
{
	return syscall(SYS_read, fd, count, sizeof(*count)) == sizeof(*count) ? 0 : -1;
}

int __wrap_eventfd_write(int fd, eventfd_t count);
int __wrap_eventfd_write(int fd, eventfd_t count)
{
	return syscall(SYS_write, fd, &count, sizeof(count)) == sizeof(count) ? 0 : -1;
}

/* ---- others: the C library's, with cancellation put off ---- */

#define PUT_OFF(type, name, parameters, arguments)                       \
	type __real_##name parameters;                                   \
	type __wrap_##name parameters;                                   \
	type __wrap_##name parameters                                    \
	{                                                                \
		type result;                                             \
		int before;                                              \
                                                                         \
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before); \
		result = __real_##name arguments;                        \
		pthread_setcancelstate(before, NULL);                    \
		return result;                                           \
	}

PUT_OFF(int, accept4, (int fd, struct sockaddr *address, socklen_t *length, int flags), (fd, address, length, flags))
PUT_OFF(int, close, (int fd), (fd))
PUT_OFF(int, connect, (int fd, const struct sockaddr *address, socklen_t length), (fd, address, length))
PUT_OFF(int, fallocate64, (int fd, int mode, off64_t offset, off64_t length), (fd, mode, offset, length))
PUT_OFF(ssize_t, getrandom, (void *to, size_t size, unsigned flags), (to, size, flags))
PUT_OFF(int, msync, (void *from, size_t size, int flags), (from, size, flags))
PUT_OFF(int, nanosleep, (const struct timespec *time, struct timespec *left), (time, left))
PUT_OFF(ssize_t, pread64, (int fd, void *to, size_t size, off64_t offset), (fd, to, size, offset))
PUT_OFF(ssize_t, pwrite64, (int fd, const void *from, size_t size, off64_t offset), (fd, from, size, offset))
PUT_OFF(int, pthread_cond_timedwait, (pthread_cond_t * cond, pthread_mutex_t *mutex, const struct timespec *end),
	(cond, mutex, end))
PUT_OFF(int, pthread_cond_wait, (pthread_cond_t * cond, pthread_mutex_t *mutex), (cond, mutex))
PUT_OFF(int, pthread_join, (pthread_t thread, void **returned), (thread, returned))

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
	mode_t mode = 0;
	int before, fd;
	va_list ap;

	va_start(ap, flags);
	if (flags & O_CREAT)
		mode = va_arg(ap, mode_t);
	va_end(ap);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	fd = __real_open64(path, flags, mode);
	pthread_setcancelstate(before, NULL);
	return fd;
}
