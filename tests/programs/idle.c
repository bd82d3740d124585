// SPDX-License-Identifier: BSD-2-Clause
/* idle PORT pause|event|full [HOST]: connects, moves some data both ways, then does nothing: in pause(), without any
 * free descriptor there, or asleep in its completion channel. The test counts wake-ups; a byte on the TCP connection
 * would end it, none comes. SIGUSR1 ends one in pause(): it sends a message, and is gone.
 */
#include <signal.h>

#include "rc.h"

static struct rc rc;

static void part(int sig __attribute__((unused)))
{
	rc_post(&rc, IBV_WR_SEND, 0, 0, 8);
	kill(getpid(), SIGKILL);
}

int main(int argc, char **argv)
{
	MUST(argc >= 3);
	rc_open(&rc, NULL, 0, 65536);
	rc_meet(&rc, argv[3], argv[1]);
	for (int i = 0; i < 100; i++) {
		rc_post(&rc, IBV_WR_RDMA_WRITE, 0, 0, 32768);
		rc_expect(rc_poll(&rc), IBV_WC_RDMA_WRITE);
	}
	MUST(rc_barrier(&rc));
	rc_post_receive(&rc, 0, 8);
	MUST(rc_barrier(&rc));
	signal(SIGUSR1, part);
	while (!strcmp(argv[2], "full") && dup(0) >= 0)
		;
	printf("idle\n");
	if (!strcmp(argv[2], "event"))
		rc_sleep(&rc);
	else
		pause();
	return 1;
}
