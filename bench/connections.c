/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections a second, by ordinary sockets: `connections PORT` serves, `connections PORT ADDRESS COUNT` connects so
 * often, one after the other, and says how many there were in a second. A byte goes to and fro on each. */
#include <arpa/inet.h>
#include <err.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int open_socket(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0)
		err(1, "socket");
	return fd;
}

static void serve(struct sockaddr_in *at)
{
	int listener = open_socket(), on = 1;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listener, (struct sockaddr *)at, sizeof(*at)) || listen(listener, 128))
		err(1, "bind or listen");
	for (;;) {
		int fd = accept(listener, NULL, NULL);
		char byte = 0;

		if (fd < 0)
			err(1, "accept");
		if (read(fd, &byte, 1) == 1 && write(fd, &byte, 1) == 1)
			while (read(fd, &byte, 1) > 0)
				; /* the client closes first */
		close(fd);
		if (byte == 'q')
			return;
	}
}

static void connect_once(const struct sockaddr_in *to, char byte)
{
	int fd = open_socket();

	if (connect(fd, (const struct sockaddr *)to, sizeof(*to)))
		err(1, "connect");
	if (write(fd, &byte, 1) != 1 || read(fd, &byte, 1) != 1)
		err(1, "write or read");
	close(fd);
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	double begin;
	int count;

	if (argc != 2 && argc != 4)
		errx(2, "connections PORT [ADDRESS COUNT]");
	at.sin_port = htons((uint16_t)atoi(argv[1]));
	if (argc == 2) {
		serve(&at);
		return 0;
	}
	inet_pton(AF_INET, argv[2], &at.sin_addr);
	count = atoi(argv[3]);
	connect_once(&at, 'a');
	begin = seconds();
	for (int i = 0; i < count; i++)
		connect_once(&at, 'a');
	printf("%.0f\n", count / (seconds() - begin));
	connect_once(&at, 'q');
	return 0;
}
