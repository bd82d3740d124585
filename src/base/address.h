/* SPDX-License-Identifier: BSD-2-Clause */
/* IP addresses as the 16 bytes of a GID: IPv6, or IPv4 as ::ffff:a.b.c.d. */
#ifndef UROCE_ADDRESS_H
#define UROCE_ADDRESS_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

static inline bool gid_is_ipv4(const uint8_t gid[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(gid, mapped, sizeof(mapped));
}

/* Sets a GID from an address of 4 or 16 bytes. */
static inline void gid_set(uint8_t gid[16], bool is_ipv4, const void *address)
{
	if (!is_ipv4) {
		memcpy(gid, address, 16);
		return;
	}
	memset(gid, 0, 10);
	gid[10] = gid[11] = 0xff;
	memcpy(gid + 12, address, 4);
}

/* Prints an address. Returns `text`. */
static inline const char *gid_print(const uint8_t gid[16], char text[INET6_ADDRSTRLEN])
{
	bool is_ipv4 = gid_is_ipv4(gid);

	return inet_ntop(is_ipv4 ? AF_INET : AF_INET6, gid + (is_ipv4 ? 12 : 0), text, INET6_ADDRSTRLEN);
}

/* Makes a socket address, with the scope 0. Returns its size. */
static inline socklen_t gid_to_sockaddr(const uint8_t gid[16], uint16_t port, struct sockaddr_storage *a)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)a;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)a;

	memset(a, 0, sizeof(*a));
	if (gid_is_ipv4(gid)) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		memcpy(&v4->sin_addr, gid + 12, 4);
		return sizeof(*v4);
	}
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(port);
	memcpy(&v6->sin6_addr, gid, 16);
	return sizeof(*v6);
}

#endif
