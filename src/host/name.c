/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/name.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/own_file.h"
#include "base/same_user.h"
#include "host/name_owner.h"
#include "host/tuned.h"

struct folder {
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* a longer path is no folder */
};

/* ---- the folder ---- */

static bool is_private(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	bool is;

	if (fd < 0)
		return false;
	is = same_user_file(fd, &st) && !(st.st_mode & 077);
	close(fd);
	return is;
}

/* Enters the folder of this network namespace, whose abstract names it replaces. */
static bool enter_namespace(struct folder *f, bool make)
{
	size_t length = strlen(f->path);
	struct stat st;

	if (stat("/proc/thread-self/ns/net", &st))
		st.st_ino = 0;
	if ((size_t)snprintf(f->path + length, sizeof(f->path) - length, "/%llu", (unsigned long long)st.st_ino) >=
	    sizeof(f->path) - length)
		return false;
	if (make)
		mkdir(f->path, 0700);
	return is_private(f->path);
}

static bool try_folder(struct folder *f, bool make, const char *parent, const char *name)
{
	if (!parent || *parent != '/' ||
	    (size_t)snprintf(f->path, sizeof(f->path), "%s/%s", parent, name) >= sizeof(f->path))
		return false;
	if (make)
		mkdir(f->path, 0700);
	return is_private(f->path) && enter_namespace(f, make);
}

static bool find_folder(struct folder *f, bool make)
{
	char run[32], name[32];

	snprintf(run, sizeof(run), "/run/user/%u", geteuid());
	snprintf(name, sizeof(name), "uroce-%u", geteuid());
	return try_folder(f, make, secure_getenv("XDG_RUNTIME_DIR"), "uroce") || try_folder(f, make, run, "uroce") ||
	       try_folder(f, make, "/run", name) || try_folder(f, make, "/tmp", name);
}

/* The path of a name in that folder: the part after "uroce/", with dashes. False: too long. */
static bool name_in(const struct folder *f, struct sockaddr_un *path, const struct sockaddr_un *name, socklen_t size)
{
	const char *text = name->sun_path + 1 + strlen("uroce/");
	int length = (int)(size - offsetof(struct sockaddr_un, sun_path) - 1 - strlen("uroce/"));
	int n = snprintf(path->sun_path, sizeof(path->sun_path), "%s/%.*s", f->path, length, text);

	path->sun_family = AF_UNIX;
	for (char *c = path->sun_path + strlen(f->path) + 1; n < (int)sizeof(path->sun_path) && *c; c++)
		if (*c == '/')
			*c = '-';
	return n < (int)sizeof(path->sun_path);
}

static bool find_name(struct sockaddr_un *path, const struct sockaddr_un *name, socklen_t size)
{
	struct folder f;

	return find_folder(&f, false) && name_in(&f, path, name, size);
}

/* Looks up a name now and then only, for senders of many messages. Meanwhile messages may go to the abstract name. */
static bool find_name_often(struct sockaddr_un *path, const struct sockaddr_un *name, socklen_t size)
{
	static _Atomic uint64_t looked; /* ns: time when there was none. Relaxed: a hint */
	uint64_t now = clock_now();
	bool found;

	if (now - atomic_load_explicit(&looked, memory_order_relaxed) < NAME_INTERVAL)
		return false;
	found = find_name(path, name, size);
	atomic_store_explicit(&looked, found ? 0 : now, memory_order_relaxed);
	return found;
}

/* ---- names ---- */

/* True if a process answers at the path: a dead process's socket refuses. */
static bool answers(const struct sockaddr_un *path)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	bool dead = fd >= 0 && connect(fd, (const struct sockaddr *)path, sizeof(*path)) &&
		    (errno == ECONNREFUSED || errno == ENOENT);

	if (fd >= 0)
		close(fd);
	return !dead;
}

bool name_is_in_folder(const struct sockaddr_un *name, socklen_t size)
{
	struct sockaddr_un path;

	return find_name(&path, name, size) && answers(&path);
}

/* Binds the path if no process that lives has it. */
static int bind_if_dead(int fd, const struct sockaddr_un *path)
{
	if (answers(path))
		return -EADDRINUSE;
	if (unlink(path->sun_path) && errno != ENOENT)
		return -errno;
	return bind(fd, (const struct sockaddr *)path, sizeof(*path)) ? -errno : 0;
}

int name_bind_in_folder(int fd, const struct sockaddr_un *name, socklen_t size)
{
	struct sockaddr_un path;
	struct folder f;
	int lock, err;

	if (!find_folder(&f, true) || !name_in(&f, &path, name, size))
		return -EADDRINUSE;
	/* two processes that find the same dead name must not remove each other's new one */
	lock = open(f.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (lock < 0)
		return -errno;
	err = own_file_lock(lock, LOCK_PATIENCE) ?: bind_if_dead(fd, &path);
	close(lock);
	return err;
}

int name_bind(int fd, const struct sockaddr_un *name, socklen_t size)
{
	uid_t uid;

	if (!bind(fd, (const struct sockaddr *)name, size))
		return 0;
	if (errno != EADDRINUSE)
		return -errno;
	if (!name_is_foreign(name, size, &uid))
		return -EADDRINUSE;
	name_say_foreign(name, size, uid);
	return name_bind_in_folder(fd, name, size);
}

bool name_has_folder(void)
{
	struct folder f;

	return find_folder(&f, false);
}

int name_connect(int fd, const struct sockaddr_un *name, socklen_t size)
{
	struct sockaddr_un path;

	if (find_name(&path, name, size)) {
		if (!connect(fd, (struct sockaddr *)&path, sizeof(path)))
			return 0;
		if (errno != ENOENT && errno != ECONNREFUSED)
			return -1;
	}
	return connect(fd, (const struct sockaddr *)name, size);
}

bool name_is_of_folder(int fd)
{
	struct sockaddr_un name = {0};
	socklen_t size = sizeof(name);

	return !getpeername(fd, (struct sockaddr *)&name, &size) && name.sun_path[0];
}

ssize_t name_send(int fd, const void *bytes, size_t count, const struct sockaddr_un *name, socklen_t size)
{
	const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
	struct sockaddr_un path;

	if (find_name_often(&path, name, size)) {
		ssize_t n = sendto(fd, bytes, count, flags, (struct sockaddr *)&path, sizeof(path));

		if (n >= 0 || (errno != ENOENT && errno != ECONNREFUSED))
			return n;
	}
	return sendto(fd, bytes, count, flags, (const struct sockaddr *)name, size);
}

bool name_folder_file(char *path, size_t room, const char *file, bool make)
{
	struct folder f;

	return find_folder(&f, make) && (size_t)snprintf(path, room, "%s/%s", f.path, file) < room;
}

int name_lock_file(void)
{
	char path[PATH_MAX], why[OWN_FILE_WHY];

	return name_folder_file(path, sizeof(path), "names-lock", true)
		       ? own_file_open(path, O_RDWR | O_CREAT, 0600, why)
		       : -1;
}

void name_say_foreign(const struct sockaddr_un *name, socklen_t size, uid_t uid)
{
	static _Atomic bool said; /* relaxed: one message is enough */
	int length = (int)(size - offsetof(struct sockaddr_un, sun_path) - 1);
	const char *alike = uid != geteuid()
				    ? ""
				    : ". This user namespace does not map that user, nor you, so nobody can tell "
				      "the two apart: if both are you, let it map you (unshare -c), or "
				      "connections fail";
	struct folder f;

	if (atomic_exchange_explicit(&said, true, memory_order_relaxed))
		return;
	if (find_folder(&f, true))
		log_warn("user %u has bound the abstract AF_UNIX name @%.*s, by which processes of user %u find each "
			 "other (ss -xap shows its program): uroce uses names in %s in its place%s",
			 uid, length, name->sun_path + 1, geteuid(), f.path, alike);
	else
		log_warn("user %u has bound the abstract AF_UNIX name @%.*s, by which processes of user %u find each "
			 "other (ss -xap shows its program): uroce goes on by slower ways, unless XDG_RUNTIME_DIR "
			 "names a folder in which only you can write%s",
			 uid, length, name->sun_path + 1, geteuid(), alike);
}
