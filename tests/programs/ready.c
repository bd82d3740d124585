// SPDX-License-Identifier: BSD-2-Clause
/* Ordinary TCP sockets and a level-triggered epoll, to be run by rsockets: what epoll_wait() reports as readable is
 * reported once, and can be read. */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MUST(x) ((x) ? (void)0 : fail(__LINE__, #x))

enum { ROUNDS = 2000, PAIRS = 4 };

static void fail(int line, const char *what)
{
	fprintf(stderr, "line %d: %s: %s\n", line, what, strerror(errno));
	exit(1);
}

/* Answers each byte, on one socket after the other, so that the client waits for most of them. */
static void *answer(void *arg)
{
	const int *fd = arg;
	char byte;

	for (int i = 0; i < ROUNDS; i++)
		for (int k = 0; k < PAIRS; k++) {
			MUST(read(fd[k], &byte, 1) == 1);
			MUST(write(fd[k], &byte, 1) == 1);
		}
	return NULL;
}

int main(void)
{
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int listener = socket(AF_INET, SOCK_STREAM, 0), epoll = epoll_create1(0), fd[PAIRS], peer[PAIRS];
	socklen_t size = sizeof(name);
	pthread_t server;

	MUST(!bind(listener, (struct sockaddr *)&name, sizeof(name)) && !listen(listener, PAIRS));
	MUST(!getsockname(listener, (struct sockaddr *)&name, &size));
	for (int i = 0; i < PAIRS; i++) {
		struct epoll_event e = {.events = EPOLLIN, .data.u32 = i};

		fd[i] = socket(AF_INET, SOCK_STREAM, 0);
		MUST(!connect(fd[i], (struct sockaddr *)&name, sizeof(name)));
		peer[i] = accept(listener, NULL, NULL);
		MUST(peer[i] >= 0);
		MUST(!epoll_ctl(epoll, EPOLL_CTL_ADD, fd[i], &e));
	}
	MUST(!pthread_create(&server, NULL, answer, peer));
	for (int i = 0; i < ROUNDS; i++) {
		for (int k = 0; k < PAIRS; k++)
			MUST(write(fd[k], "", 1) == 1);
		for (int left = PAIRS; left;) {
			struct epoll_event e[2 * PAIRS];
			int n = epoll_wait(epoll, e, 2 * PAIRS, -1);
			char byte;

			MUST(n > 0);
			for (int k = 0; k < n; k++, left--) {
				MUST(e[k].events == EPOLLIN);
				MUST(recv(fd[e[k].data.u32], &byte, 1, MSG_DONTWAIT) == 1);
			}
		}
	}
	pthread_join(server, NULL);
	puts("ready");
	return 0;
}
