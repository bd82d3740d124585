// SPDX-License-Identifier: BSD-2-Clause
#include "loop/netns.h"

#include <assert.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static void set(unsigned long request, struct ifreq *r)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0), err;

	strcpy(r->ifr_name, "lo");
	err = ioctl(fd, request, r);
	assert(!err);
	close(fd);
}

void netns_enter(void)
{
	struct ifreq up = {.ifr_flags = IFF_UP | IFF_RUNNING};

	/* a user namespace as well if need be; then we are root in it, which changes nothing else here */
	if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET)) {
		printf("1..0 # SKIP no network namespace: run as root or allow user namespaces\n");
		exit(77);
	}
	set(SIOCSIFFLAGS, &up);
}

void netns_lo_mtu(int bytes)
{
	struct ifreq mtu = {.ifr_mtu = bytes};

	set(SIOCSIFMTU, &mtu);
}

bool netns_has_ipv6(void)
{
	struct sockaddr_in6 lo = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool has = fd >= 0 && !bind(fd, (struct sockaddr *)&lo, sizeof(lo));

	if (fd >= 0)
		close(fd);
	if (!has)
		printf("# skipped: no IPv6 here\n");
	return has;
}

void descriptors_allow(unsigned count)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur >= count)
		return;
	limit.rlim_cur = count;
	if (limit.rlim_max < count || setrlimit(RLIMIT_NOFILE, &limit)) {
		fprintf(stderr, "skipped: it needs %u descriptors (ulimit -Hn)\n", count);
		exit(77);
	}
}
