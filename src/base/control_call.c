/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/control_call.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/proc_state.h"
#include "base/rights.h"
#include "base/same_user.h"
#include "base/tuned.h"

#define STOPPED	  "it is stopped, and cannot answer: kill -CONT PID"
#define HAS_ENDED "it refused the request: it belongs to another user, has no descriptor left, or is ending"
#define NO_ANSWER "it does not answer (it may be stopped: kill -CONT PID)"

/* True if a line of /proc/net/unix has __SO_ACCEPTCON in its flags. */
static bool is_listening(const char *line)
{
	unsigned long flags;

	return sscanf(line, "%*[^:]: %*x %*x %lx", &flags) == 1 && flags & 0x10000;
}

/* The id of a process in its own PID namespace: the last number of the line NSpid. */
static pid_t pid_inside(pid_t pid)
{
	char name[64], line[256];
	int inside = pid;
	FILE *f;

	snprintf(name, sizeof(name), "/proc/%d/status", (int)pid);
	f = fopen(name, "rce");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "NSpid:", 6))
			sscanf(strrchr(line, '\t') + 1, "%d", &inside);
	if (f)
		fclose(f);
	return inside;
}

/* Sets the time-out of a socket: until `deadline`, and at least `least`. */
static void set_patience(int fd, int option, uint64_t deadline, uint64_t least)
{
	uint64_t now = clock_now(), left = max_of(deadline > now ? deadline - now : 0, least);
	const struct timeval patience = {.tv_sec = (time_t)(left / SEC), .tv_usec = (suseconds_t)(left % SEC / USEC)};

	setsockopt(fd, SOL_SOCKET, option, &patience, sizeof(patience));
}

/* Connects to a name. *pid 0: of any process of this user, whose id is stored. Root may connect to those of others. -1
 * and EAGAIN: the queue of connections is full. */
static int connect_to_name(const char *name, pid_t *pid, uint64_t deadline)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct ucred peer;
	bool ours;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	memcpy(address.sun_path + 1, name + 1, strlen(name) - 1);
	set_patience(fd, SO_SNDTIMEO, deadline, MSEC);
	if (connect(fd, (struct sockaddr *)&address,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name)))) {
		int error = errno;

		close(fd);
		errno = error;
		return -1;
	}
	ours = same_user_peer(fd, &peer);
	if (*pid ? peer.pid != *pid || !(ours || !geteuid()) : !ours) {
		close(fd);
		errno = EPERM;
		return -1;
	}
	*pid = peer.pid;
	return fd;
}

/* The name in a line of /proc/net/unix at which the process may listen; any process can bind such a name. NULL:
 * none. */
static const char *control_name_in(char *line, const char *prefix)
{
	char *at = strstr(line, prefix);

	line[strcspn(line, "\n")] = 0;
	/* only of a socket that listens: its connections have the same name */
	return at && strlen(at) < sizeof(((struct sockaddr_un *)0)->sun_path) && is_listening(line) ? at : NULL;
}

/* Connects to a process. -1 and errno: ENOENT: no name; or as connect_to_name(). A name that accepts no connection is
 * tried once more, with all the patience that is left. */
static int connect_to_process(pid_t pid, uint64_t deadline)
{
	int fd = -1, error = ENOENT;
	char file[64], prefix[64];

	snprintf(file, sizeof(file), "/proc/%d/net/unix", (int)pid);
	snprintf(prefix, sizeof(prefix), "@uroce/control/%d/", (int)pid_inside(pid));
	/* The list skips entries while other sockets come and go. The second round waits for sockets that did not
	 * answer. */
	for (int round = 0;
	     fd < 0 && round < CONTROL_ROUNDS && (round == 0 || error == ENOENT || (round == 1 && error == EAGAIN));
	     round++) {
		FILE *f = fopen(file, "rce");
		char line[512];

		while (f && fd < 0 && fgets(line, sizeof(line), f)) {
			const char *name = control_name_in(line, prefix);

			fd = name ? connect_to_name(name, &pid, round ? deadline : 0) : -1;
			if (name && error != EAGAIN)
				error = errno;
		}
		if (f)
			fclose(f);
	}
	errno = error;
	return fd;
}

static int refuse(int fd, char *answer, size_t room, const char *why)
{
	if (fd >= 0)
		close(fd);
	snprintf(answer, room, "%s", why);
	return -1;
}

int control_take_answer(int fd, char *answer, size_t room, int *given, uint64_t deadline)
{
	char reply[4096];
	struct stat st;
	int gift = -1;
	ssize_t n;

	set_patience(fd, SO_RCVTIMEO, deadline, CONTROL_LEAST);
	n = rights_receive(fd, reply, sizeof(reply) - 1, 0, &gift, 1);
	reply[max_of(n, (ssize_t)0)] = 0;
	if (gift >= 0 && (!given || strncmp(reply, "ok ", 3) || fstat(gift, &st) || !S_ISREG(st.st_mode))) {
		close(gift);
		gift = -1;
	}
	if (given)
		*given = gift;
	if (n == -EAGAIN)
		return refuse(fd, answer, room, NO_ANSWER);
	if (n <= 0)
		return refuse(fd, answer, room, HAS_ENDED);
	if (strncmp(reply, "ok ", 3))
		return refuse(fd, answer, room, strncmp(reply, "error ", 6) ? reply : reply + 6);
	snprintf(answer, room, "%s", reply + 3);
	return fd;
}

int control_call(pid_t pid, const char *request, char *answer, size_t room, int *given)
{
	uint64_t deadline = clock_now() + CONTROL_PATIENCE;
	int fd;

	if (given)
		*given = -1;
	if (kill(pid, 0) && errno == ESRCH)
		return refuse(-1, answer, room, "there is no such process");
	if (process_is_stopped(pid))
		return refuse(-1, answer, room, STOPPED);
	fd = connect_to_process(pid, deadline);
	if (fd < 0)
		return refuse(fd, answer, room,
			      errno == ENOENT	? "it has made no connection on a uroce device (was it started with "
						  "`uroce run`?)"
			      : errno == EAGAIN ? NO_ANSWER
						: "its control socket does not answer (it may be in another network "
						  "namespace: try `nsenter -t PID -n`)");
	send(fd, request, strlen(request), MSG_NOSIGNAL); /* on failure there is no answer */
	return control_take_answer(fd, answer, room, given, deadline);
}

/* ---- all processes ---- */

struct ask_all {
	const char *request;
	void (*use)(pid_t pid, int given, void *arg);
	void (*silent)(pid_t pid, const char *why, void *arg);
	void *arg;
	uint64_t deadline;
	int count;
	struct {
		int fd;
		pid_t pid;
	} asked[CONTROL_AT_ONCE];
};

static void say_silent(const struct ask_all *a, pid_t pid, const char *why)
{
	if (a->silent)
		a->silent(pid, why, a->arg);
}

/* Reports a process without an answer. Its name has only the id in its own PID namespace. */
static void say_unconnected(const struct ask_all *a, const char *name)
{
	int pid;

	if (sscanf(name, "@uroce/control/%d/", &pid) == 1 && !kill(pid, 0))
		say_silent(a, pid, process_is_stopped(pid) ? STOPPED : NO_ANSWER);
}

static void send_request(struct ask_all *a, const char *name)
{
	pid_t pid = 0;
	int fd = connect_to_name(name, &pid, a->deadline);

	if (fd < 0 && errno == EAGAIN)
		say_unconnected(a, name);
	if (fd < 0)
		return;
	if (process_is_stopped(pid)) {
		say_silent(a, pid, STOPPED);
		close(fd);
		return;
	}
	send(fd, a->request, strlen(a->request), MSG_NOSIGNAL);
	a->asked[a->count].fd = fd;
	a->asked[a->count++].pid = pid;
}

static void take_answers(struct ask_all *a)
{
	for (int i = 0; i < a->count; i++) {
		char answer[256];
		int given, fd = control_take_answer(a->asked[i].fd, answer, sizeof(answer), &given, a->deadline);

		if (given >= 0) {
			a->use(a->asked[i].pid, given, a->arg);
			close(given);
		}
		if (fd >= 0)
			close(fd);
		else if (strcmp(answer, HAS_ENDED) != 0)
			say_silent(a, a->asked[i].pid, answer);
	}
	a->count = 0;
}

void control_call_all(const char *request, void (*use)(pid_t pid, int given, void *arg),
		      void (*silent)(pid_t pid, const char *why, void *arg), void *arg)
{
	struct ask_all a = {request, use, silent, arg, clock_now() + CONTROL_PATIENCE, 0, {{0}}};
	FILE *f = fopen("/proc/net/unix", "rce");
	const char *name;
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		name = control_name_in(line, "@uroce/control/");
		if (name)
			send_request(&a, name);
		if (a.count == CONTROL_AT_ONCE)
			take_answers(&a);
	}
	take_answers(&a);
	if (f)
		fclose(f);
}
