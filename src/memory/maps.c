/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/types.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool maps_old;

int maps_open(struct maps *maps)
{
	maps->fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	maps->begin = maps->end = 0;
	return maps->fd < 0 ? -errno : 0;
}

void maps_close(struct maps *maps)
{
	close(maps->fd);
}

/* Linux 6.11: queries one mapping without listing all. The headers of Debian 12 do not have it. */
struct map_query {
	__u64 size, flags, address;
	__u64 start, end, found_flags, page_size, offset, inode;
	__u32 device_major, device_minor, name_size, build_id_size;
	__u64 name, build_id;
};
#define MAP_QUERY	   _IOWR('f', 17, struct map_query)
#define MAP_QUERY_READABLE 0x01
#define MAP_QUERY_WRITABLE 0x02
#define MAP_QUERY_SHARED   0x08
#define MAP_QUERY_OR_NEXT  0x10

/* "[heap]" and names that programs give ("[anon:...]", "[anon_shmem:...]") are ordinary memory. */
static bool is_special(const char *name)
{
	return *name == '[' && strncmp(name, "[heap]", 6) && strncmp(name, "[anon", 5);
}

static bool is_segment(const char *name)
{
	return !strncmp(name, "/SYSV", 5);
}

/* 0, -ENOENT, or another -errno if the kernel does not support it. */
static int maps_query(int fd, uint64_t address, struct mapping *m)
{
	char name[32] = "";
	struct map_query q = {
		.size = sizeof(q),
		.flags = MAP_QUERY_OR_NEXT,
		.address = address,
	};

	if (ioctl(fd, MAP_QUERY, &q))
		return -errno;
	*m = (struct mapping){
		.start = q.start,
		.end = q.end,
		.offset = q.offset,
		.inode = q.inode,
		.device_major = q.device_major,
		.device_minor = q.device_minor,
		.readable = q.found_flags & MAP_QUERY_READABLE,
		.writable = q.found_flags & MAP_QUERY_WRITABLE,
		.shared = q.found_flags & MAP_QUERY_SHARED,
	};
	if (m->inode && !m->shared)
		return 0;
	/* a second query for the name, since a name that does not fit is an error */
	q = (struct map_query){.size = sizeof(q), .address = m->start, .name_size = sizeof(name)};
	q.name = (uintptr_t)name;
	if (ioctl(fd, MAP_QUERY, &q))
		return 0;
	m->special = !m->inode && is_special(name);
	m->segment = m->inode && is_segment(name);
	return 0;
}

/* Reads the next line, truncated if it is too long. False: there is none. */
static bool next_line(struct maps *maps, char *line, size_t room)
{
	size_t length = 0;

	for (;;) {
		if (maps->begin == maps->end) {
			ssize_t n = read(maps->fd, maps->text, sizeof(maps->text));

			if (n <= 0)
				return false;
			maps->begin = 0;
			maps->end = (size_t)n;
		}
		line[length] = maps->text[maps->begin++];
		if (line[length] == '\n') {
			line[length] = 0;
			return true;
		}
		length += length + 1 < room;
	}
}

/* maps_query() for older kernels, which reads the list: each call continues where the last one stopped. */
static int read_on(struct maps *maps, uint64_t address, struct mapping *m)
{
	unsigned long start, end, offset, inode;
	unsigned major, minor;
	char r, w, x, shared, name[32], line[256];

	while (next_line(maps, line, sizeof(line))) {
		*name = 0;
		if (sscanf(line, "%lx-%lx %c%c%c%c %lx %x:%x %lu %31s", &start, &end, &r, &w, &x, &shared, &offset,
			   &major, &minor, &inode, name) < 10)
			break;
		if (end <= address)
			continue;
		*m = (struct mapping){
			.start = start,
			.end = end,
			.offset = offset,
			.inode = inode,
			.device_major = major,
			.device_minor = minor,
			.readable = r == 'r',
			.writable = w == 'w',
			.shared = shared == 's',
			.special = is_special(name),
			.segment = shared == 's' && is_segment(name),
		};
		return 0;
	}
	return -ENOENT;
}

int maps_find(struct maps *maps, uint64_t address, struct mapping *m)
{
	int err = maps_old ? -ENOTTY : maps_query(maps->fd, address, m);

	return err && err != -ENOENT ? read_on(maps, address, m) : err;
}
