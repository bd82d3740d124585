/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/control_call.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/base.h"

#define PATIENCE 3 /* s: how long an answer may take */

/* A line of /proc/net/unix: its flags have __SO_ACCEPTCON. */
static bool is_listening(const char *line)
{
	unsigned long flags;

	return sscanf(line, "%*[^:]: %*x %*x %lx", &flags) == 1 && flags & 0x10000;
}

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

/* `pid` 0: whatever process of this user; *pid becomes which. */
static int connect_to_name(const char *name, pid_t *pid)
{
	const struct timeval patience = {.tv_sec = PATIENCE};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct ucred peer;
	socklen_t size = sizeof(peer);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	memcpy(address.sun_path + 1, name + 1, strlen(name) - 1);
	if (connect(fd, (struct sockaddr *)&address,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))) ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) ||
	    (*pid ? peer.pid != *pid : peer.uid != geteuid())) {
		close(fd);
		return -1;
	}
	*pid = peer.pid;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

static int refuse(int fd, char *answer, size_t room, const char *why)
{
	if (fd >= 0)
		close(fd);
	snprintf(answer, room, "%s", why);
	return -1;
}

/* A message and the descriptor with it. Its length, or -1 and errno. */
static ssize_t receive_answer(int from, char *reply, size_t room, int *given)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {reply, room - 1};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(from, &m, MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;

	*given = -1;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(given, CMSG_DATA(c), sizeof(int));
	reply[max_of(n, (ssize_t)0)] = 0;
	return n;
}

/* As control_call(), over a connection. */
static int control_ask(int fd, const char *request, char *answer, size_t room, int *given)
{
	char reply[4096];
	int gift = -1;
	ssize_t n = send(fd, request, strlen(request), MSG_NOSIGNAL);

	if (n >= 0)
		n = receive_answer(fd, reply, sizeof(reply), &gift);
	if (gift >= 0 && (!given || strncmp(reply, "ok ", 3))) {
		close(gift);
		gift = -1;
	}
	if (given)
		*given = gift;
	if (n < 0 && errno == EAGAIN)
		return refuse(fd, answer, room, "it does not answer (it may be stopped: kill -CONT PID)");
	if (n <= 0)
		return refuse(fd, answer, room, "it refused the request: it belongs to another user, or is ending");
	if (strncmp(reply, "ok ", 3))
		return refuse(fd, answer, room, strncmp(reply, "error ", 6) ? reply : reply + 6);
	snprintf(answer, room, "%s", reply + 3);
	return fd;
}

int control_call(pid_t pid, const char *request, char *answer, size_t room, int *given)
{
	char name[108];
	int fd;

	if (given)
		*given = -1;
	if (kill(pid, 0) && errno == ESRCH)
		return refuse(-1, answer, room, "there is no such process");
	if (!find_name(pid, name, sizeof(name)))
		return refuse(-1, answer, room,
			      "it has made no connection on a uroce device (was it started with `uroce run`?)");
	fd = connect_to_name(name, &pid);
	if (fd < 0)
		return refuse(fd, answer, room,
			      "its control socket does not answer (it may be in another network "
			      "namespace: try `nsenter -t PID -n`)");
	return control_ask(fd, request, answer, room, given);
}

static void call_name(const char *name, const char *request, void (*use)(pid_t pid, int given, void *arg), void *arg)
{
	char answer[256];
	pid_t pid = 0;
	int fd = connect_to_name(name, &pid), given;

	if (fd < 0)
		return;
	fd = control_ask(fd, request, answer, sizeof(answer), &given);
	if (given >= 0) {
		use(pid, given, arg);
		close(given);
	}
	if (fd >= 0)
		close(fd);
}

void control_call_all(const char *request, void (*use)(pid_t pid, int given, void *arg), void *arg)
{
	FILE *f = fopen("/proc/net/unix", "re");
	char line[512];
	char *at;

	while (f && fgets(line, sizeof(line), f)) {
		at = strstr(line, "@uroce/control/");
		line[strcspn(line, "\n")] = 0;
		/* of a socket that listens: a connection to it has the same name, and is no more than that */
		if (at && strlen(at) < 108 && is_listening(line))
			call_name(at, request, use, arg);
	}
	if (f)
		fclose(f);
}
