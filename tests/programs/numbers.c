// SPDX-License-Identifier: BSD-2-Clause
/* Descriptors have low numbers, as on hardware: of what a connection takes, the program's own count has no more than
 * its contexts' and channels'. */
#include <fcntl.h>
#include <sched.h>

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
	int before = lowest_free(), taken, looks = 0;
	struct rc a, b;

	rc_open(&a, NULL, 0, 4096);
	rc_open(&b, &a, 0, 4096);
	rc_connect_pair(&a, &b);
	rc_post(&a, IBV_WR_RDMA_WRITE, 0, 0, 4096);
	rc_expect(rc_poll(&a), IBV_WC_RDMA_WRITE);
	/* a context has two, and each end a channel. What the library's own thread opens has a low number for a moment,
	 * too, until it has moved: the ends introduce themselves to each other while packets are on their way already
	 */
	while ((taken = lowest_free() - before) > 4 && looks++ < 1000)
		sched_yield();
	if (taken > 4)
		fprintf(stderr, "%d descriptors have low numbers, not 4\n", taken);
	return taken > 4;
}
