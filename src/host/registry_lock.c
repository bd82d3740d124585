/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/registry_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/same_user.h"
#include "host/name.h"
#include "host/name_owner.h"
#include "host/slot.h"
#include "host/tuned.h"

static _Atomic bool names_locked; /* held in this process. Acquire and release pair */
static int locked_memory = -1;	  /* memfd that the holder has locked. Guarded by the lock */

struct patience patience_of(uint64_t patience)
{
	uint64_t now = clock_now();

	return (struct patience){.patience = patience, .began = now, .give_up = now + patience};
}

/* Sleeps between two tries, as nothing signals that the lock is free. False: patience has ended. */
static bool names_wait(struct patience *p)
{
	uint64_t now = clock_now(), most = min_of(LOCK_WAIT_MIN + (now - p->began) / 4, LOCK_WAIT_MAX);

	if (now >= p->give_up)
		return false;
	/* the clock's last digits are random enough */
	nanosleep(&(struct timespec){.tv_nsec = (long)(most / 2 + now % most)}, NULL);
	return true;
}

/* Locks a file that only this user can have, in place of the name that another user has. Without a folder, returns any
 * descriptor: the registry's own lock has to do. -EAGAIN: the holder does not release the lock. */
static int lock_file(int socket, struct patience *p)
{
	int fd = name_lock_file();

	if (fd < 0)
		return socket;
	close(socket);
	while (flock(fd, LOCK_EX | LOCK_NB)) {
		if (!names_wait(p)) {
			close(fd);
			return -EAGAIN;
		}
	}
	return fd;
}

/* True if another user has the name. If a process of this user has it, and not the same as at the last look, the lock
 * changes hands and waiting goes on. */
static bool look_at_holder(const struct sockaddr_un *address, socklen_t size, struct patience *p, uid_t *uid)
{
	struct ucred who;
	uint64_t now = clock_now();
	bool ours;
	int fd;

	if (now < p->look)
		return false;
	p->look = now + (now - p->began) + LOCK_WAIT_MIN;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	if (connect(fd, (const struct sockaddr *)address, size)) {
		close(fd); /* the name is free again, or its owner does not listen, or has no room, as ours do */
		return name_is_foreign(address, size, uid);
	}
	ours = same_user_peer(fd, &who);
	close(fd);
	if (who.pid != p->holder)
		p->give_up = now + p->patience;
	p->holder = who.pid;
	*uid = who.uid;
	return !ours;
}

/* A socket that has the name, or the descriptor of lock_file(); -EAGAIN: the holder does not release the lock. */
static int bind_lock(struct patience *p)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;
	socklen_t size = slot_abstract(&address, "%u/lock", geteuid());
	uid_t uid;

	if (fd < 0)
		return -errno;
	while (bind(fd, (struct sockaddr *)&address, size)) {
		int err = -errno;

		if (err == -EADDRINUSE && look_at_holder(&address, size, p, &uid)) {
			name_say_foreign(&address, size, uid);
			return lock_file(fd, p);
		}
		if (err != -EADDRINUSE || !names_wait(p)) {
			close(fd);
			return err == -EADDRINUSE ? -EAGAIN : err;
		}
	}
	listen(fd, SLOTS); /* lets other processes learn the holder: look_at_holder() */
	return fd;
}

bool lock_memory(int memory, struct patience *p)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	while (memory >= 0 && fcntl(memory, F_SETLK, &whole)) {
		if (errno != EAGAIN && errno != EACCES)
			return true; /* this kernel cannot lock the memory: the name has to do */
		if (!names_wait(p))
			return false;
	}
	locked_memory = memory;
	return true;
}

void registry_unlock(int lock)
{
	struct flock whole = {.l_type = F_UNLCK, .l_whence = SEEK_SET};

	if (lock < 0)
		return;
	if (locked_memory >= 0)
		fcntl(locked_memory, F_SETLK, &whole);
	locked_memory = -1;
	atomic_store_explicit(&names_locked, false, memory_order_release);
	close(lock);
}

int registry_lock(int memory, uint64_t patience)
{
	struct patience p = patience_of(patience);
	int fd = bind_lock(&p);

	if (fd < 0)
		return fd;
	while (atomic_exchange_explicit(&names_locked, true, memory_order_acquire)) {
		if (!names_wait(&p)) {
			close(fd);
			return -EAGAIN;
		}
	}
	if (lock_memory(memory, &p))
		return fd;
	registry_unlock(fd);
	return -EAGAIN;
}
