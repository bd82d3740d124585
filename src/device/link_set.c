/* SPDX-License-Identifier: BSD-2-Clause */
/* Changes the file of ports that are down, and notifies all processes. */

#include "device/link_set.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own_file.h"
#include "device/device.h"
#include "device/device_list.h"
#include "device/front.h"
#include "device/link_state.h"
#include "host/name.h"
#include "host/slot.h"

static int links_socket(void)
{
	return socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* Notifies all processes. A datagram fails for a slot without a process, and for a full queue, whose owner reads the
 * file anyway. Datagrams that another user does not read fill the sending socket's buffer; then another socket is
 * used. */
static void links_tell(void)
{
	struct sockaddr_un address;
	int fd = links_socket();

	for (unsigned slot = 1; fd >= 0 && slot <= SLOTS; slot++) {
		socklen_t size = links_name(&address, slot);

		if (name_send(fd, "", 1, &address, size) > 0 || errno != EAGAIN)
			continue;
		close(fd);
		fd = links_socket();
		if (fd >= 0)
			(void)!name_send(fd, "", 1, &address, size);
	}
	if (fd >= 0)
		close(fd);
}

static void write_line(FILE *out, struct device *d)
{
	char text[INET6_ADDRSTRLEN];
	union ibv_gid gid;

	fputs(d->base.name, out);
	for (uint32_t i = 0; i < DEVICE_GIDS; i++)
		if (device_gid(d, i, &gid))
			fprintf(out, " %s", inet_ntop(AF_INET6, gid.raw, text, sizeof(text)));
	fputc('\n', out);
}

char *links_rewritten(const char *text, struct device *d, bool up, size_t *length)
{
	size_t n = strlen(d->base.name);
	char *changed = NULL;
	FILE *out = open_memstream(&changed, length);

	if (!out)
		return NULL;
	for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
		size_t bytes = strcspn(line, "\n");
		const char *word = line + strspn(line, " "); /* as in parse_line() */

		if (strcspn(word, " \n") != n || strncmp(word, d->base.name, n) != 0)
			fprintf(out, "%.*s\n", (int)bytes, line);
		if (!line[bytes])
			break;
	}
	if (!up)
		write_line(out, d);
	return fclose(out) ? NULL : changed;
}

/* Replaces the file. Readers see the old text or all of the new one. */
static int links_write(const char *path, const char *text, size_t length)
{
	char fresh[PATH_MAX];
	int fd, err = 0;

	if (!length)
		return unlink(path) ? -errno : 0;
	if ((size_t)snprintf(fresh, sizeof(fresh), "%s-XXXXXX", path) >= sizeof(fresh))
		return -ENAMETOOLONG;
	fd = mkostemp(fresh, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	errno = ENOSPC;
	if (write(fd, text, length) != (ssize_t)length || rename(fresh, path)) {
		err = -errno;
		unlink(fresh);
	}
	close(fd);
	return err;
}

PUBLIC int uroce_link_set(const char *device, bool up)
{
	struct device *d = device_named(device);
	char path[PATH_MAX], why[OWN_FILE_WHY], *text, *changed = NULL;
	size_t length = 0;
	int fd, error;

	if (!d)
		return -ENODEV;
	fd = links_open(path, true, why);
	if (fd < 0)
		return fd;
	text = links_text(fd);
	changed = text ? links_rewritten(text, d, up, &length) : NULL;
	error = changed ? links_write(path, changed, length) : -ENOMEM;
	close(fd);
	free(text);
	free(changed);
	if (!error)
		links_tell();
	return error;
}
