/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/control.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/base.h"

/* The process id in its own PID namespace, which is the one that it knows: the last of the line NSpid. */
static pid_t pid_inside(pid_t pid)
{
	char name[64], line[256];
	int inside = pid;
	FILE *f;

	snprintf(name, sizeof(name), "/proc/%d/status", (int)pid);
	f = fopen(name, "re");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "NSpid:", 6))
			sscanf(strrchr(line, '\t') + 1, "%d", &inside);
	if (f)
		fclose(f);
	return inside;
}

/* The name that the process listens at; false: none. */
static bool find_name(pid_t pid, char *out, size_t room)
{
	char file[64], prefix[64], line[512];
	bool found = false;
	const char *at;
	FILE *f;

	snprintf(file, sizeof(file), "/proc/%d/net/unix", (int)pid);
	snprintf(prefix, sizeof(prefix), "@uroce/control/%d/", (int)pid_inside(pid));
	f = fopen(file, "re");
	while (f && !found && fgets(line, sizeof(line), f)) {
		at = strstr(line, prefix);
		if (at && strcspn(at, "\n") < room) {
			snprintf(out, room, "%.*s", (int)strcspn(at, "\n"), at);
			found = true;
		}
	}
	if (f)
		fclose(f);
	return found;
}

static int connect_to_name(const char *name, pid_t pid)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct ucred peer;
	socklen_t size = sizeof(peer);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	memcpy(address.sun_path + 1, name + 1, strlen(name) - 1);
	if (connect(fd, (struct sockaddr *)&address,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))) ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) || peer.pid != pid) {
		close(fd);
		return -1;
	}
	return fd;
}

static int refuse(int fd, char *answer, size_t room, const char *why)
{
	if (fd >= 0)
		close(fd);
	snprintf(answer, room, "%s", why);
	return -1;
}

int control_call(pid_t pid, const char *request, char *answer, size_t room)
{
	char name[108], reply[4096];
	ssize_t n;
	int fd;

	if (kill(pid, 0) && errno == ESRCH)
		return refuse(-1, answer, room, "there is no such process");
	if (!find_name(pid, name, sizeof(name)))
		return refuse(-1, answer, room,
			      "it has made no connection on a uroce device (was it started with `uroce run`?)");
	fd = connect_to_name(name, pid);
	if (fd < 0)
		return refuse(fd, answer, room,
			      "its control socket does not answer (it may be in another network "
			      "namespace: try `nsenter -t PID -n`)");
	if (send(fd, request, strlen(request), MSG_NOSIGNAL) < 0 || (n = recv(fd, reply, sizeof(reply) - 1, 0)) <= 0)
		return refuse(fd, answer, room, "it refused the request: it belongs to another user, or is ending");
	reply[n] = 0;
	if (!strncmp(reply, "ok ", 3)) {
		snprintf(answer, room, "%s", reply + 3);
		return fd;
	}
	return refuse(fd, answer, room, strncmp(reply, "error ", 6) ? reply : reply + 6);
}
