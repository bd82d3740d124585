// SPDX-License-Identifier: BSD-2-Clause
/* leave ROUNDS [SEED]: in each round a process connects to one that stays, and after some requests leaves in order,
 * with others on the way: it destroys all and closes the device. Now and then the same process comes again, as another.
 * The one that stays gets its completion errors, goes on with a third process, and is left with no descriptor and no
 * memory of those who left. */
#define _GNU_SOURCE
#include "traffic.h"

static void come_and_go(void)
{
	int fd = call(VICTIM);
	struct rc rc;

	lock_a_page_or_not();
	rc_open(&rc, NULL, 0, SIZE);
	if (meet(&rc, fd))
		exchange(&rc, dice(100));
	rc_close(&rc);
	close(fd);
}

static void leaver(int meets)
{
	do
		come_and_go();
	while (dice(3) == 0);
	MUST(write(meets, "", 1) == 1);
	exit(0);
}

int main(int argc, char **argv)
{
	struct party party;
	int rounds = gather(&party, argc, argv, survivor);

	for (int i = 0; i < rounds; i++) {
		int meets, status;
		pid_t pid;
		char byte;

		dice(2); /* each has other numbers */
		pid = start(leaver, &meets);
		MUST(read(meets, &byte, 1) == 1);
		MUST(waitpid(pid, &status, 0) == pid);
		MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		close(meets);
	}
	disperse(&party);
	return 0;
}
