/* SPDX-License-Identifier: BSD-2-Clause */
/* sysfs files that programs read through libibverbs. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/msan.h"
#include "device/front.h"
#include "device/tree.h"
#include "device/tree_names.h"

/* Public in the library, but in no header of libibverbs-dev. */
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

PUBLIC const char *ibv_get_sysfs_path(void)
{
	const char *set = getenv("SYSFS_PATH");

	return set && *set ? set : "/sys";
}

/* Removes the newline at the end, and appends a 0 byte if there is room, as libibverbs does. */
static int sysfs_finish(char *buf, size_t size, size_t got)
{
	if (got && buf[got - 1] == '\n')
		buf[--got] = 0;
	else if (got < size)
		buf[got] = 0;
	return (int)got;
}

static int read_ours(struct tree_node node, char *buf, size_t size)
{
	size_t got;

	if (node.kind != TREE_FILE || node.error) {
		free(node.text);
		return fail_minus(EINVAL);
	}
	got = min_of(node.length, size);
	memcpy(buf, node.text, got);
	free(node.text);
	return sysfs_finish(buf, size, got);
}

static int read_theirs(const char *path, char *buf, size_t size)
{
	ssize_t got;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	got = read(fd, buf, size);
	close(fd);
	return got < 0 ? -1 : sysfs_finish(buf, size, (size_t)got);
}

PUBLIC int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[512];
	struct tree_node node;
	int error;

	msan_wrote(buf, size);
	if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, file) >= sizeof(path))
		return fail_minus(ENAMETOOLONG);
	error = uroce_tree_read(path, &node);
	if (error < 0)
		return read_theirs(path, buf, size);
	return error ? fail_minus(error) : read_ours(node, buf, size);
}
