/* SPDX-License-Identifier: BSD-2-Clause */
/* Walks the path component by component, as open(2) itself follows any link on the way. */
#include "base/own_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/same_user.h"
#include "base/tuned.h"

#define LINKS_MOST	 40 /* as the kernel */
#define OTHERS_MAY_WRITE (S_IWGRP | S_IWOTH)

struct walk {
	int dir;		 /* directory that the walk has reached */
	bool is_last;		 /* `name` is the file, not a directory on the way */
	char name[NAME_MAX + 1]; /* component in `dir` */
	char rest[PATH_MAX];	 /* path behind `name` */
	int links;		 /* number of links followed */
	int flags;
	mode_t mode;
	char *why;
};

/* openat(2) as a system call: neither interposed by the preloaded libraries nor a cancellation point. */
static int open_at(const struct walk *w, int flags)
{
	int fd = (int)syscall(SYS_openat, w->dir, w->name, flags | O_CLOEXEC, w->mode);

	return fd < 0 ? -errno : fd;
}

__attribute__((format(printf, 2, 3))) static int own_file_refuse(const struct walk *w, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(w->why, OWN_FILE_WHY, format, args);
	va_end(args);
	return -EPERM;
}

static int close_and(int fd, int result)
{
	close(fd);
	return result;
}

static int refuse_user(const struct walk *w, uid_t uid)
{
	return own_file_refuse(w, "it belongs to user %u: remove it, or name another file", uid);
}

/* Checks the file that was opened. 0 or -errno. */
static int check_file(const struct walk *w, int fd)
{
	struct stat st = {0};
	bool ours = same_user_file(fd, &st);

	if (S_ISCHR(st.st_mode))
		return 0; /* only root makes devices */
	if (!ours)
		return refuse_user(w, st.st_uid);
	if (S_ISREG(st.st_mode) && st.st_nlink > 1)
		return own_file_refuse(w, "it has %lu names (hard links): remove it, or name another file",
				       (unsigned long)st.st_nlink);
	if (st.st_mode & OTHERS_MAY_WRITE & ~w->mode)
		return own_file_refuse(w, "other users can write to it: chmod go-w it, or name another file");
	return 0;
}

/* Clears O_NONBLOCK, with which the file was opened. */
static int ready_file(const struct walk *w, int fd)
{
	struct stat st;

	fcntl(fd, F_SETFL, w->flags & O_APPEND);
	if (w->flags & O_TRUNC && !fstat(fd, &st) && S_ISREG(st.st_mode) && ftruncate(fd, 0))
		return close_and(fd, -errno);
	return fd;
}

/* Opens the last component: a new file, or one that exists and is right. -ELOOP: a symbolic link. */
static int open_last(const struct walk *w)
{
	const int flags = w->flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
	int fd = -ENOENT, err;
	struct stat st;

	for (int i = 0; i < OWN_FILE_TRIES && fd == -ENOENT; i++) {
		if (w->flags & O_CREAT) {
			fd = open_at(w, flags | O_EXCL);
			if (fd != -EEXIST)
				return fd < 0 ? fd : ready_file(w, fd);
		}
		fd = open_at(w, flags & ~(O_CREAT | O_TRUNC));
		if (!(w->flags & O_CREAT))
			break;
	}
	if (fd == -ENXIO)
		own_file_refuse(w, "it is a FIFO that no process reads, or a socket");
	if (fd == -EACCES && !fstatat(w->dir, w->name, &st, AT_SYMLINK_NOFOLLOW) && st.st_uid != geteuid())
		return refuse_user(w, st.st_uid);
	if (fd < 0)
		return fd;
	err = check_file(w, fd);
	return err ? close_and(fd, err) : ready_file(w, fd);
}

/* True if the link is root's or this user's. If root's show as an unmapped user's, links count in directories that no
 * other user can write to. */
static bool link_is_trusted(const struct walk *w, const struct stat *link)
{
	struct stat dir;

	if (user_is_unmapped(link->st_uid))
		return !fstatat(w->dir, ".", &dir, 0) && !(dir.st_mode & OTHERS_MAY_WRITE);
	return link->st_uid == 0 || link->st_uid == geteuid();
}

/* Puts the target of a link in front of the rest. 0 or -errno. */
static int splice_link(struct walk *w, int link)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(link, "", target, sizeof(target));
	size_t rest = strlen(w->rest);

	if (++w->links > LINKS_MOST)
		return -ELOOP;
	if (n <= 0)
		return n ? -errno : -ENOENT;
	if ((size_t)n + 1 + rest >= sizeof(w->rest))
		return -ENAMETOOLONG;
	memmove(w->rest + n + !w->is_last, w->rest, rest + 1);
	memcpy(w->rest, target, (size_t)n);
	if (!w->is_last)
		w->rest[n] = '/';
	return 0;
}

/* Follows a link. Of /proc: its target, which has no path; -EAGAIN: more steps; -ENOTDIR: no link; or another
 * -errno. */
static int follow(struct walk *w)
{
	int link = open_at(w, O_PATH | O_NOFOLLOW), next;
	struct statfs fs;
	struct stat st;

	if (link < 0)
		return link;
	if (fstat(link, &st) || !S_ISLNK(st.st_mode))
		next = -ENOTDIR;
	else if (!link_is_trusted(w, &st))
		next = own_file_refuse(w, "'%.50s' is a symbolic link of user %u: name the file that is meant", w->name,
				       st.st_uid);
	else if (fstatfs(link, &fs) || fs.f_type != PROC_SUPER_MAGIC)
		next = splice_link(w, link) ?: -EAGAIN;
	else
		next = open_at(w, w->is_last ? (w->flags & ~O_TRUNC) | O_NONBLOCK | O_NOCTTY : O_PATH | O_DIRECTORY);
	close(link);
	return next >= 0 && w->is_last ? ready_file(w, next) : next;
}

/* Takes the next component. 0 or -errno. */
static int take_name(struct walk *w)
{
	size_t n = strcspn(w->rest, "/"), slashes = strspn(w->rest + n, "/");

	if (n > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(w->name, w->rest, n);
	w->name[n] = 0;
	memmove(w->rest, w->rest + n + slashes, strlen(w->rest + n + slashes) + 1);
	w->is_last = !*w->rest;
	return !n ? -ENOENT : w->is_last && slashes ? -EISDIR : 0;
}

static int walk_to(struct walk *w, int dir)
{
	if (dir < 0)
		return dir;
	if (w->dir >= 0)
		close(w->dir);
	w->dir = dir;
	return 0;
}

static int walk_to_root(struct walk *w)
{
	strcpy(w->name, "/");
	memmove(w->rest, w->rest + strspn(w->rest, "/"), strlen(w->rest + strspn(w->rest, "/")) + 1);
	return *w->rest ? walk_to(w, open_at(w, O_PATH | O_DIRECTORY)) : -EISDIR;
}

/* One step. Returns the file; -EAGAIN: more steps; or another -errno. */
static int step(struct walk *w)
{
	int err = *w->rest == '/' ? walk_to_root(w) : 0, next;

	err = err ?: take_name(w);
	if (err)
		return err;
	next = w->is_last ? open_last(w) : open_at(w, O_PATH | O_DIRECTORY | O_NOFOLLOW);
	if (next == -ELOOP || next == -ENOTDIR)
		next = follow(w);
	if (w->is_last || next == -EAGAIN)
		return next;
	return walk_to(w, next) ?: -EAGAIN;
}

int own_file_open(const char *path, int flags, mode_t mode, char why[OWN_FILE_WHY])
{
	struct walk w = {.dir = AT_FDCWD, .flags = flags, .mode = mode, .why = why};
	int fd = -ENAMETOOLONG;

	*why = 0;
	if (strlen(path) < sizeof(w.rest)) {
		strcpy(w.rest, path);
		do
			fd = step(&w);
		while (fd == -EAGAIN);
	}
	if (w.dir >= 0)
		close(w.dir);
	if (fd < 0 && !*why)
		snprintf(why, OWN_FILE_WHY, "%s", strerror(-fd));
	return fd;
}

int own_file_lock(int fd, uint64_t patience)
{
	uint64_t give_up = clock_now() + patience;

	while (flock(fd, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (clock_now() >= give_up)
			return -EBUSY;
		nanosleep(&(struct timespec){.tv_nsec = MSEC}, NULL); /* nothing signals that the lock is free */
	}
	return 0;
}

FILE *own_file_stream(const char *path, char why[OWN_FILE_WHY])
{
	int fd = own_file_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666, why);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

	if (fd >= 0 && !f) {
		snprintf(why, OWN_FILE_WHY, "%s", strerror(errno));
		close(fd);
	}
	return f;
}
