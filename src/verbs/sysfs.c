/* Files of /sys that programs read through libibverbs. Ours have no files, so the answers are made here.
 * SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verbs/device.h"

/* Public in the library, but in no header of libibverbs-dev. */
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

PUBLIC const char *ibv_get_sysfs_path(void)
{
	const char *set = getenv("SYSFS_PATH");

	return set && *set ? set : "/sys";
}

static const struct {
	const char *file, *text;
} attributes[] = {
	{"fw_ver", DEVICE_FIRMWARE},   {"board_id", DEVICE_BOARD_ID},
	{"hca_type", "uroce"},	       {"hw_rev", "0"},
	{"node_type", "1: CA"},	       {"node_desc", "uroce"},
	{"ports/1/pkeys/0", "0xffff"}, {"ports/1/link_layer", "Ethernet"},
};

static int answer(const char *file, char *buf, size_t size)
{
	for (size_t i = 0; i < ARRAY_SIZE(attributes); i++) {
		if (strcmp(attributes[i].file, file) == 0) {
			snprintf(buf, size, "%s", attributes[i].text);
			return (int)strlen(buf);
		}
	}
	return fail_minus(ENOENT);
}

static int read_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[512];
	ssize_t got;
	int fd;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, file) >= sizeof(path))
		return fail_minus(ENAMETOOLONG);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	got = read(fd, buf, size);
	close(fd);
	if (got > 0 && buf[got - 1] == '\n')
		buf[--got] = 0;
	else if (got >= 0 && (size_t)got < size)
		buf[got] = 0;
	return (int)got;
}

PUBLIC int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	return device_has_path(dir) ? answer(file, buf, size) : read_file(dir, file, buf, size);
}
