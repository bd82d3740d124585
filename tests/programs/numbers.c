// SPDX-License-Identifier: BSD-2-Clause
/* Descriptors have low numbers, as on hardware: of what a connection takes, the program's own count has no more than its
 * contexts' and channels'. */
#include <fcntl.h>

#include "rc.h"

static int lowest_free(void)
{
	int fd = open("/dev/null", O_RDONLY);

	MUST(fd >= 0);
	close(fd);
	return fd;
}

int main(void)
{
	int before = lowest_free();
	struct rc a, b;

	rc_open(&a, NULL, 0, 4096);
	rc_open(&b, &a, 0, 4096);
	rc_connect_pair(&a, &b);
	rc_post(&a, IBV_WR_RDMA_WRITE, 0, 0, 4096);
	rc_expect(rc_poll(&a), IBV_WC_RDMA_WRITE);
	/* a context has two, and each end a channel */
	MUST(lowest_free() - before <= 4);
	return 0;
}
