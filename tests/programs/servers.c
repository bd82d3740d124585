/* SPDX-License-Identifier: BSD-2-Clause */
/* What servers do with connections, and clients: servers PORT WAY COUNT serves so many, one after the other, and sends
 * back what comes; servers PORT ADDRESS COUNT connects so often, and looks whether all comes back; if COUNT is 0,
 * twice, and waits until the other ends are gone. */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	LINES = 20000, /* more than buffers on the way would hold */
	PORTS = 65536,
};

static struct sockaddr_storage address_of(const char *text, uint16_t port)
{
	struct sockaddr_storage a = {0};
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&a;
	struct sockaddr_in *v4 = (struct sockaddr_in *)&a;

	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
	} else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(port);
	} else {
		errx(2, "%s is no address", text);
	}
	return a;
}

static void check_name(int fd, int (*get)(int fd, struct sockaddr *name, socklen_t *room))
{
	struct sockaddr_storage name;
	socklen_t room = sizeof(name);

	if (get(fd, (struct sockaddr *)&name, &room))
		err(1, "name");
	if (name.ss_family != AF_INET && name.ss_family != AF_INET6)
		errx(1, "the name of a connection is of family %d", name.ss_family);
}

static void check(int fd)
{
	int on = 1;

	check_name(fd, getsockname);
	check_name(fd, getpeername);
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
		err(1, "TCP_NODELAY");
}

/* ---- ways to serve ---- */

static void by_calls(int fd)
{
	char bytes[10000];
	ssize_t n;

	while ((n = read(fd, bytes, sizeof(bytes))) > 0)
		for (ssize_t done = 0, k; done < n; done += k)
			if ((k = write(fd, bytes + done, (size_t)(n - done))) < 0)
				err(1, "write");
	if (n < 0)
		err(1, "read");
	check(fd);
	close(fd);
}

/* The last lines are in the buffer when the process ends. */
static void by_files(int fd)
{
	FILE *in = fdopen(fd, "r"), *out = NULL;
	char line[100];

	while (in && fgets(line, sizeof(line), in)) {
		out = out ? out : fdopen(dup(fd), "w");
		if (!out)
			break;
		fputs(line, out);
	}
	if (!in || !out)
		err(1, "fdopen");
	check(fileno(in));
	fclose(in);
}

static void by_program(int fd)
{
	dup2(fd, STDIN_FILENO);
	dup2(fd, STDOUT_FILENO);
	if (fd > STDERR_FILENO)
		close(fd);
	execlp("cat", "cat", NULL);
	err(1, "cat");
}

static void by_no_means(int fd)
{
	printf("accepted all, the last as %d\n", fd);
	fflush(stdout);
	for (;;)
		pause();
}

/* The child has its parent's memory until it executes the other program. */
static pid_t by_vfork(int fd)
{
	pid_t child = vfork();

	if (child == 0)
		by_program(fd);
	return child;
}

static const struct {
	const char *name;
	void (*serve)(int fd); /* NULL: by_vfork() */
	bool forks;
} ways[] = {
	{"files", by_files, false},	 {"fork", by_calls, true},   {"fork-files", by_files, true},
	{"fork-exec", by_program, true}, {"vfork-exec", NULL, true}, {"never", by_no_means, false},
};

static void serve(uint16_t port, const char *name, int count)
{
	struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	int listener = socket(AF_INET6, SOCK_STREAM, 0), on = 1;
	size_t way = 0;

	while (way < sizeof(ways) / sizeof(*ways) && strcmp(ways[way].name, name))
		way++;
	if (way == sizeof(ways) / sizeof(*ways))
		errx(2, "no way is %s", name);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 10))
		err(1, "bind, listen");
	while (count--) {
		int fd = accept(listener, NULL, NULL);
		pid_t child;

		if (fd < 0)
			err(1, "accept");
		if (ways[way].serve == by_no_means && count)
			continue;
		child = !ways[way].serve ? by_vfork(fd) : ways[way].forks ? fork() : 0;
		if (child < 0)
			err(1, "fork");
		if (child == 0) {
			close(listener);
			ways[way].serve(fd);
			exit(0);
		}
		close(fd);
	}
	for (int status; wait(&status) > 0;)
		if (status)
			errx(1, "a child ended by %#x", status);
}

/* ---- clients ---- */

static void write_lines(FILE *out)
{
	for (int i = 0; i < LINES; i++)
		fprintf(out, "line %d of %d\n", i, LINES);
}

static void read_lines(FILE *in)
{
	char line[100], expected[100];

	for (int i = 0; i < LINES; i++) {
		snprintf(expected, sizeof(expected), "line %d of %d\n", i, LINES);
		if (!fgets(line, sizeof(line), in))
			errx(1, "it ended before line %d", i);
		if (strcmp(line, expected))
			errx(1, "%s came back instead of %s", line, expected);
	}
	if (fgets(line, sizeof(line), in))
		errx(1, "%s came after all", line);
}

/* A connection of another's: writes, while this process reads. */
static void talk(const struct sockaddr_storage *to)
{
	int fd = socket(to->ss_family, SOCK_STREAM, 0);
	FILE *in, *out;
	pid_t child;

	if (connect(fd, (const struct sockaddr *)to, sizeof(*to)))
		err(1, "connect");
	check(fd);
	in = fdopen(fd, "r");
	out = fdopen(dup(fd), "w");
	if (!in || !out)
		err(1, "fdopen");
	child = fork();
	if (child < 0)
		err(1, "fork");
	if (child == 0) {
		write_lines(out);
		fflush(out);
		shutdown(fileno(out), SHUT_WR);
		_exit(0);
	}
	fclose(out);
	read_lines(in);
	fclose(in);
	waitpid(child, NULL, 0);
}

static void set_keepalive(int fd)
{
	int on = 1;

	if (setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &on, sizeof(on)))
		err(1, "SO_KEEPALIVE");
}

/* One that says nothing, and whose other end may be gone. */
static void keep_alive(const struct sockaddr_storage *to, bool early)
{
	int fd = socket(to->ss_family, SOCK_STREAM, 0);
	char byte;

	if (early)
		set_keepalive(fd);
	if (connect(fd, (const struct sockaddr *)to, sizeof(*to)))
		err(1, "connect");
	if (!early)
		set_keepalive(fd);
	if (read(fd, &byte, 1) != -1)
		errx(1, "something came");
	printf("gone: %s\n", strerror(errno));
}

static int keep_two_alive(const struct sockaddr_storage *to)
{
	int status = 0;
	pid_t child = fork();

	keep_alive(to, child == 0);
	if (child > 0)
		waitpid(child, &status, 0);
	return child < 0 || status ? 1 : 0;
}

int main(int argc, char **argv)
{
	int port = argc == 4 ? atoi(argv[1]) : 0, count = argc == 4 ? atoi(argv[3]) : -1;
	struct sockaddr_storage to;

	if (port <= 0 || port >= PORTS || count < 0)
		errx(2, "servers PORT WAY|ADDRESS COUNT");
	if (!strpbrk(argv[2], ".:")) {
		serve((uint16_t)port, argv[2], count);
		return 0;
	}
	to = address_of(argv[2], (uint16_t)port);
	if (!count)
		return keep_two_alive(&to);
	while (count--)
		talk(&to);
	puts("all came back");
	return 0;
}
