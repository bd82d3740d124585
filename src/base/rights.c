/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

int rights_send(int socket, const void *bytes, size_t size, const int *fd, unsigned count)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * RIGHTS_MOST)] = {0};
	struct iovec iov = {(void *)bytes, size};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c = (struct cmsghdr *)control;

	if (count) {
		*c = (struct cmsghdr){
			.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int) * count)};
		memcpy(CMSG_DATA(c), fd, sizeof(int) * count);
		m.msg_control = control;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * count);
	}
	return sendmsg(socket, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Takes the descriptors of a message, in order. False: there were too many, and the rest were closed. */
static bool take_descriptors(struct msghdr *m, int *fd, unsigned most)
{
	unsigned count = 0;
	bool fit = true;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t n = c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS
				   ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int)
				   : 0;

		for (size_t i = 0; i < n; i++) {
			int taken;

			memcpy(&taken, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (count < most) {
				fd[count++] = taken;
			} else {
				close(taken);
				fit = false;
			}
		}
	}
	return fit;
}

ssize_t rights_receive(int socket, void *bytes, size_t size, int flags, int *fd, unsigned most)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * RIGHTS_MOST)];
	struct iovec iov = {bytes, size};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(socket, &m, flags | MSG_CMSG_CLOEXEC);

	for (unsigned i = 0; i < most; i++)
		fd[i] = -1;
	if (n < 0)
		return -errno;
	if (take_descriptors(&m, fd, most) && !(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return n;
	for (unsigned i = 0; i < most; i++) {
		if (fd[i] >= 0)
			close(fd[i]);
		fd[i] = -1;
	}
	return -EBADMSG;
}

/* Tests by writing: the kernel's anonymous files have no type, and of those only an eventfd can be written. */
bool rights_is_doorbell(int fd)
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && flags & O_NONBLOCK && !fstat(fd, &st) && !(st.st_mode & S_IFMT);
}
