/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/inherit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/high_fd.h"
#include "base/list.h"
#include "base/thread.h"
#include "base/lock.h"
#include "preload/bridge.h"
#include "preload/kind.h"

struct inherited_fd {
	int fd, number; /* descriptor; number of the rsocket, < 0: claimed or declined */
};

struct family {
	struct list link;
	int fd; /* the parent's end */
	uint32_t count;
	struct inherited_fd inherited[];
};

/* Message of a child. A claim carries a socket, to which the bridge is sent. */
struct request {
	int fd;
	bool claims;
};

static struct lock lock = LOCK_RANKED(PRELOAD_INHERIT); /* guards all below; held around a fork */
static struct list families GUARDED_BY(lock) = {&families, &families};
static int steward_set GUARDED_BY(lock) = -1;	 /* epoll instance of the families. -1: no steward yet */
static struct family *expected GUARDED_BY(lock); /* family of the fork under way */
static int theirs GUARDED_BY(lock) = -1;	 /* end of `expected` for the child */
static int to_parent = -1; /* end of the child's family, in a child. Constant once there are threads */

/* ---- one descriptor through a socket ---- */

union control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(sizeof(int))];
};

static bool send_with(int to, void *bytes, size_t length, int fd)
{
	union control control = {0};
	struct iovec iov = {bytes, length};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd >= 0) {
		m.msg_control = &control;
		m.msg_controllen = sizeof(control);
		control.header = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	}
	return NEXT(sendmsg)(to, &m, MSG_NOSIGNAL) == (ssize_t)length;
}

/* Receives bytes and a descriptor. *fd: -1 if none comes. */
static bool receive_with(int from, void *bytes, size_t length, int *fd)
{
	union control control;
	struct iovec iov = {bytes, length};
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	ssize_t n;

	do
		n = NEXT(recvmsg)(from, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	*fd = -1;
	if (n >= 0 && m.msg_controllen >= CMSG_LEN(sizeof(int)))
		memcpy(fd, CMSG_DATA(&control.header), sizeof(*fd));
	return n == (ssize_t)length;
}

/* ---- the steward ---- */

static int take_number(struct family *f, int fd)
{
	int number = -1;

	lock_take(&lock);
	for (uint32_t i = 0; i < f->count; i++)
		if (f->inherited[i].fd == fd) {
			number = f->inherited[i].number;
			f->inherited[i].number = -1;
		}
	lock_drop(&lock);
	return number;
}

static void serve(struct family *f, const struct request *r, int answer)
{
	int number = take_number(f, r->fd), by = -1;
	char done = 0;

	if (number >= 0 && r->claims)
		by = bridge_build(number);
	if (number >= 0 && by < 0)
		OPS.detach(number);
	if (r->claims)
		send_with(answer, &done, sizeof(done), by);
	if (by >= 0)
		NEXT(close)(by);
}

static void end_family(struct family *f)
{
	lock_take(&lock);
	list_remove(&f->link);
	/* closing alone does not remove it from the set while a forked child has it too */
	NEXT(epoll_ctl)(steward_set, EPOLL_CTL_DEL, f->fd, NULL);
	NEXT(close)(f->fd);
	lock_drop(&lock);
	for (uint32_t i = 0; i < f->count; i++)
		if (f->inherited[i].number >= 0)
			OPS.detach(f->inherited[i].number);
	free(f);
}

static void *be_steward(void *arg)
{
	int set = (int)(intptr_t)arg; /* steward_set */
	struct epoll_event e;

	inside = 1;
	for (;;) {
		struct request r;
		struct family *f;
		int answer;

		if (NEXT(epoll_wait)(set, &e, 1, -1) != 1)
			continue;
		f = e.data.ptr;
		if (receive_with(f->fd, &r, sizeof(r), &answer))
			serve(f, &r, answer);
		else
			end_family(f);
		if (answer >= 0)
			NEXT(close)(answer);
	}
	return NULL;
}

/* ---- a fork ---- */

static uint32_t count_rdma(void)
{
	uint32_t count = 0;

	for (size_t fd = 0; fd < ARRAY_SIZE(kinds); fd++) {
		if (kind_of((int)fd) == CONNECTING)
			kind_settle((int)fd);
		count += kind_of((int)fd) == RDMA;
	}
	return count;
}

static struct family *make_family(uint32_t count) REQUIRES(lock)
{
	struct family *f = malloc(sizeof(*f) + count * sizeof(*f->inherited));
	int pair[2];

	if (!f || NEXT(socketpair)(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		free(f);
		return NULL;
	}
	f->fd = high_fd(pair[0]);
	theirs = high_fd(pair[1]);
	f->count = 0;
	for (size_t fd = 0; fd < ARRAY_SIZE(kinds) && f->count < count; fd++)
		if (kind_of((int)fd) == RDMA)
			f->inherited[f->count++] = (struct inherited_fd){(int)fd, INSIDE(bridge_keep((int)fd))};
	return f;
}

void inherit_before_fork(void) ACQUIRE(lock)
{
	uint32_t count = &OPS ? count_rdma() : 0;

	lock_take(&lock);
	expected = count ? make_family(count) : NULL;
}

static void close_theirs(void) REQUIRES(lock)
{
	if (theirs >= 0)
		NEXT(close)(theirs);
	theirs = -1;
}

static bool watch(struct family *f) REQUIRES(lock)
{
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = f};

	if (steward_set < 0) {
		steward_set = high_fd(NEXT(epoll_create1)(EPOLL_CLOEXEC));
		if (steward_set >= 0 && thread_start(be_steward, (void *)(intptr_t)steward_set)) {
			NEXT(close)(steward_set);
			steward_set = -1;
		}
	}
	return steward_set >= 0 && !NEXT(epoll_ctl)(steward_set, EPOLL_CTL_ADD, f->fd, &e);
}

void inherit_after_fork(void) RELEASE(lock)
{
	struct family *f = expected;
	bool watched = true;

	close_theirs();
	if (f) {
		list_append(&families, &f->link);
		watched = watch(f);
	}
	lock_drop(&lock);
	if (!watched)
		INSIDE((end_family(f), 0));
}

bool inherit_in_child(void) RELEASE(lock)
{
	bool any = expected;
	struct list *l;

	if (any) {
		list_append(&families, &expected->link);
		if (to_parent >= 0)
			NEXT(close)(to_parent);
		to_parent = theirs;
		theirs = -1;
	}
	while ((l = list_pop(&families))) {
		struct family *f = container_of(l, struct family, link);

		NEXT(close)(f->fd);
		free(f);
	}
	if (steward_set >= 0)
		NEXT(close)(steward_set);
	steward_set = -1;
	lock_drop(&lock);
	return any;
}

/* ---- in a child ---- */

static int ask(int fd)
{
	struct request r = {.fd = fd, .claims = true};
	int pair[2], by = -1;
	char done;

	if (NEXT(socketpair)(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -1;
	if (send_with(to_parent, &r, sizeof(r), pair[1])) {
		NEXT(close)(pair[1]); /* lets receive_with() fail if the parent ends */
		pair[1] = -1;
		receive_with(pair[0], &done, sizeof(done), &by);
	}
	if (pair[1] >= 0)
		NEXT(close)(pair[1]);
	NEXT(close)(pair[0]);
	return by;
}

/* Gives all descriptors of the connection the same bridge, as two bridges would share its bytes. */
static void take_along(int fd, ino_t socket)
{
	for (int other = 0; other < (int)ARRAY_SIZE(kinds); other++) {
		struct stat s;

		if (other == fd || kind_of(other) != INHERITED || fstat(other, &s) || s.st_ino != socket)
			continue;
		inherit_decline(other);
		bridge_become(other, NEXT(dup)(fd));
	}
}

void inherit_claim(int fd)
{
	int error = errno, by;
	struct stat s;
	bool known = !fstat(fd, &s);

	by = ask(fd);
	if (by >= 0)
		bridge_become(fd, by);
	else
		set_kind(fd, PLAIN);
	if (by >= 0 && known)
		take_along(fd, s.st_ino);
	errno = error;
}

void inherit_decline(int fd)
{
	struct request r = {.fd = fd};

	set_kind(fd, PLAIN);
	send_with(to_parent, &r, sizeof(r), -1);
}
