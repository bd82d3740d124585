/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports that are down by command. */
#include "device/link_state.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/high_fd.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/own_file.h"
#include "device/device.h"
#include "device/tuned.h"
#include "host/name.h"
#include "host/slot.h"
#include "port/down.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71 /* Linux 5.14 */
#endif

static struct lock links_lock = LOCK_RANKED(LINK_STATE);
static char (*down)[IBV_SYSFS_NAME_MAX] GUARDED_BY(links_lock);
static uint32_t downs GUARDED_BY(links_lock);

static char *last GUARDED_BY(monitor_lock); /* contents of the file; NULL: no file */

/* Cookie of the network namespace, unique until the next boot. */
static uint64_t namespace_number(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof(uint64_t);
	uint64_t cookie = 0;
	struct stat st;

	if (fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size))
		cookie = stat("/proc/self/ns/net", &st) ? 0 : st.st_ino;
	if (fd >= 0)
		close(fd);
	return cookie;
}

/* Opens the file, locked if for writing. -errno with a reason in `why`. */
static int links_open_at(const char *path, bool write, bool make, char why[OWN_FILE_WHY])
{
	int flags = write ? O_RDWR : O_RDONLY, fd, err;
	struct stat st;

	for (;;) {
		fd = high_fd(own_file_open(path, flags | (make ? O_CREAT : 0), 0600, why));
		if (fd < 0)
			return fd;
		if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_mode & 077) { /* others could lock it */
			snprintf(why, OWN_FILE_WHY, "not a file that only this user can read: remove it");
			close(fd);
			return -EPERM;
		}
		err = write ? own_file_lock(fd, LINKS_PATIENCE) : 0;
		/* another file may have taken its place during the wait for the lock */
		if (!err && (!write || (!fstat(fd, &st) && st.st_nlink)))
			return fd;
		close(fd);
		if (err) {
			snprintf(why, OWN_FILE_WHY, "%s",
				 err == -EBUSY ? "another `uroce link` holds its lock and does not finish: end it"
					       : strerror(-err));
			return err;
		}
	}
}

/* Opens the file in /dev/shm, where all containers of the network namespace may see it, or in this user's folder
 * (host/name.h), which is searched first, if another user has taken the name. */
static int links_find(char path[PATH_MAX], bool write, char why[OWN_FILE_WHY])
{
	static const char *const places[] = {"/dev/shm", "/tmp"};
	bool second = access(places[0], W_OK | X_OK) != 0;
	char file[64];
	int fd = -ENOENT;

	snprintf(file, sizeof(file), "links-%" PRIu64, namespace_number());
	if (name_folder_file(path, PATH_MAX, file, false))
		fd = links_open_at(path, write, false, why);
	if (fd != -ENOENT)
		return fd;
	snprintf(path, PATH_MAX, "%s/uroce-links-%u-%s", places[second], geteuid(), strchr(file, '-') + 1);
	fd = links_open_at(path, write, write, why);
	if (fd < 0 && fd != -EBUSY && write && name_folder_file(path, PATH_MAX, file, true))
		fd = links_open_at(path, write, true, why);
	return fd;
}

int links_open(char path[PATH_MAX], bool write, char why[OWN_FILE_WHY])
{
	int fd = links_find(path, write, why);

	if (fd < 0 && write)
		log_error("%s: %s%s", path, why,
			  fd == -EBUSY ? "" : "; or let XDG_RUNTIME_DIR name a folder in which only you can write");
	return fd;
}

char *links_text(int fd)
{
	char *text = calloc(1, LINKS_BYTES + 1);
	ssize_t n = text ? pread(fd, text, LINKS_BYTES, 0) : -1;

	if (text)
		text[max_of(n, (ssize_t)0)] = 0;
	return text;
}

/* Room for one more in `list`, whose size doubles. NULL: no memory. */
static void *links_room(void *list, uint32_t count, size_t size)
{
	return count & (count - 1) ? list : realloc(list, (count ? 2 * (size_t)count : 1) * size);
}

/* Parses a line "NAME ADDRESS ...". */
static void parse_line(char *line, union ibv_gid **gids, uint32_t *count)
{
	char *save, *word = strtok_r(line, " \n", &save);
	void *more;

	if (!word || strlen(word) >= IBV_SYSFS_NAME_MAX)
		return;
	lock_take(&links_lock);
	more = links_room(down, downs, sizeof(*down));
	if (more) {
		down = more;
		strcpy(down[downs++], word);
	}
	lock_drop(&links_lock);
	while ((word = strtok_r(NULL, " \n", &save)) && *count < DEVICE_LIMIT * DEVICE_GIDS) {
		more = links_room(*gids, *count, sizeof(**gids));
		if (!more)
			return;
		*gids = more;
		*count += inet_pton(AF_INET6, word, (*gids)[*count].raw) == 1;
	}
}

void links_parse(FILE *in)
{
	union ibv_gid *gids = NULL;
	uint32_t count = 0;
	char *line = NULL;
	size_t room = 0;

	lock_take(&links_lock);
	free(down);
	down = NULL;
	downs = 0;
	lock_drop(&links_lock);
	while (in && getline(&line, &room, in) > 0)
		parse_line(line, &gids, &count);
	loop_set_down(gids, count);
	free(line);
	free(gids);
}

bool links_read(void)
{
	char path[PATH_MAX], why[OWN_FILE_WHY], *text = NULL;
	bool same;
	FILE *in;
	int fd;

	fd = links_open(path, false, why);
	if (fd >= 0) {
		text = links_text(fd);
		close(fd);
	}
	same = text && last ? strcmp(text, last) == 0 : text == last;
	free(last);
	last = text;
	if (same)
		return false;
	in = text && *text ? fmemopen(text, strlen(text), "r") : NULL;
	links_parse(in);
	if (in)
		fclose(in);
	return true;
}

bool link_is_down(const char *device)
{
	bool found = false;

	lock_take(&links_lock);
	for (uint32_t i = 0; i < downs && !found; i++)
		found = strcmp(down[i], device) == 0;
	lock_drop(&links_lock);
	return found;
}

/* ---- notification ---- */

socklen_t links_name(struct sockaddr_un *address, unsigned slot)
{
	return slot_abstract(address, "%u/link/%u", geteuid(), slot);
}

int links_listen(unsigned slot)
{
	struct sockaddr_un address;
	int fd = high_fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)), err;

	if (fd < 0)
		return -errno;
	err = name_bind(fd, &address, links_name(&address, slot));
	if (err)
		close(fd);
	return err ?: fd;
}

/* Any process may send such a datagram, which only says that the file may have changed. */
bool links_told(int socket)
{
	bool any = false;
	char byte;

	while (recv(socket, &byte, sizeof(byte), 0) >= 0)
		any = true;
	return any;
}
