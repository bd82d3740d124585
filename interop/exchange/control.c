// SPDX-License-Identifier: BSD-2-Clause
#include <netdb.h>
#include <sys/socket.h>

#include "exchange.h"

static int connection;

void control_swap(const void *out, void *in, size_t size)
{
	CHECK(send(connection, out, size, MSG_NOSIGNAL) == (ssize_t)size, "the other end has gone");
	CHECK(recv(connection, in, size, MSG_WAITALL) == (ssize_t)size, "the other end has gone");
}

void barrier(void)
{
	char mine = 'b', theirs;

	control_swap(&mine, &theirs, 1);
}

void control_meet(const char *host)
{
	struct addrinfo hint = {
		.ai_family = host ? AF_UNSPEC : AF_INET6, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	struct addrinfo *at;
	int one = 1, s;

	CHECK(!getaddrinfo(host, "18515", &hint, &at), "no address %s", host);
	s = socket(at->ai_family, SOCK_STREAM, 0);
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (host) {
		CHECK(!connect(s, at->ai_addr, at->ai_addrlen), "connect: %m");
		connection = s;
	} else {
		CHECK(!bind(s, at->ai_addr, at->ai_addrlen) && !listen(s, 1), "listen: %m");
		connection = accept(s, NULL, NULL);
	}
	freeaddrinfo(at);
}

bool control_is_open(void)
{
	char c;

	return recv(connection, &c, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
}
