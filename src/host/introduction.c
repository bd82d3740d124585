/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/introduction.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "base/high_fd.h"
#include "base/rights.h"
#include "base/same_user.h"
#include "host/name.h"
#include "host/slot.h"

#define CALLERS SLOTS

static socklen_t introduction_name_of(struct sockaddr_un *address, uint16_t slot)
{
	return slot_abstract(address, "%u/local-%u/%u", geteuid(), INTRODUCTION_VERSION, slot);
}

static int new_socket(void)
{
	int fd = high_fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));

	return fd < 0 ? -errno : fd;
}

static int close_with(int fd, int err)
{
	close(fd);
	return err;
}

int introduction_listen(uint16_t slot)
{
	struct sockaddr_un address;
	int fd = new_socket(), err;

	if (fd < 0)
		return fd;
	err = name_bind(fd, &address, introduction_name_of(&address, slot));
	if (!err && listen(fd, CALLERS))
		err = -errno;
	return err ? close_with(fd, err) : fd;
}

static int send_greeting(int to, const struct greeting *greeting, const int fd[GREETING_FDS])
{
	struct greeting g = *greeting;
	int sent[GREETING_FDS];
	unsigned n = 0;

	g.fds = 0;
	for (int i = 0; i < GREETING_FDS; i++) {
		if (fd[i] < 0)
			continue;
		g.fds |= 1u << i;
		sent[n++] = fd[i];
	}
	return rights_send(to, &g, sizeof(g), sent, n);
}

int introduction_call(uint16_t slot, const struct greeting *greeting, const int fd[GREETING_FDS], pid_t *pid)
{
	struct sockaddr_un address;
	int to = new_socket(), err;
	struct ucred who;

	if (to < 0)
		return to;
	/* non-blocking: -EAGAIN if the process has too many pending calls */
	if (name_connect(to, &address, introduction_name_of(&address, slot)))
		return close_with(to, -errno);
	err = same_user_peer(to, &who) ? 0 : -EACCES;
	if (pid)
		*pid = who.pid;
	if (!err && greeting)
		err = send_greeting(to, greeting, fd);
	return err ? close_with(to, err) : to;
}

int greeting_check(const void *bytes, size_t size, const int fd[GREETING_FDS])
{
	struct greeting g;
	bool tables;

	if (size != sizeof(g))
		return -EBADMSG;
	memcpy(&g, bytes, sizeof(g));
	if (g.magic != GREETING_MAGIC || g.bytes != sizeof(g) || g.slot == 0 || g.slot > SLOTS)
		return -EBADMSG;
	for (int i = 0; i < GREETING_FDS; i++)
		if (!(g.fds & 1u << i) != (fd[i] < 0))
			return -EBADMSG;
	tables = g.flags & GREETING_HAS_TABLES;
	if (g.fds >> GREETING_FDS || fd[GREETING_RING] < 0 || fd[GREETING_DOORBELL] < 0)
		return -EBADMSG;
	return tables != (fd[GREETING_TABLES] >= 0) || tables != (fd[GREETING_VISITOR] >= 0) ? -EBADMSG : 0;
}

/* Puts the received descriptors, in order, into their fields. False: some had no field, and were closed. */
static bool place_descriptors(struct introduction *in, const int came[GREETING_FDS])
{
	bool fit = true;
	int at = 0;

	for (int i = 0; i < GREETING_FDS; i++)
		in->fd[i] = in->greeting.fds & 1u << i ? came[at++] : -1;
	for (; at < GREETING_FDS; at++)
		if (came[at] >= 0) {
			close(came[at]);
			fit = false;
		}
	return fit;
}

int introduction_receive(int connection, struct introduction *in)
{
	int came[GREETING_FDS];
	struct ucred who;
	ssize_t n;
	bool fit;

	*in = (struct introduction){0};
	n = rights_receive(connection, &in->greeting, sizeof(in->greeting), MSG_DONTWAIT, came, GREETING_FDS);
	fit = place_descriptors(in, came);
	if (n < 0)
		return n == -EAGAIN || n == -EINTR ? -EAGAIN : -EBADMSG;
	if (fit && same_user_peer(connection, &who) && !greeting_check(&in->greeting, (size_t)n, in->fd)) {
		in->pid = who.pid;
		return 0;
	}
	introduction_close(in);
	return -EBADMSG;
}

void introduction_close(struct introduction *in)
{
	for (int i = 0; i < GREETING_FDS; i++)
		if (in->fd[i] >= 0)
			close(in->fd[i]);
	for (int i = 0; i < GREETING_FDS; i++)
		in->fd[i] = -1;
}
