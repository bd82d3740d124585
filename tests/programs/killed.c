// SPDX-License-Identifier: BSD-2-Clause
/* killed ROUNDS [SEED]: in each round a process starts, connects to one that stays, and is killed at some
 * moment between its start and 20 ms later, or of the 2 ms after it has connected. Either keeps many requests
 * of all kinds in flight, or does one one-sided operation after the other, on memory of the other that is
 * shared or (as pages are locked then) private; the victim may register memory meanwhile. The one that stays
 * gets its completion errors, goes on with a third process, and is left with no descriptor and no memory of
 * the dead. */
#define _GNU_SOURCE
#include "traffic.h"

enum {
	FROM_START = 20000, /* us */
	FROM_MEETING = 2000,
};

static void victim(int meets)
{
	int fd = call(VICTIM);
	struct rc rc;
	bool met;

	lock_a_page_or_not();
	rc_open(&rc, NULL, 0, SIZE);
	met = meet(&rc, fd);
	MUST(write(meets, "", 1) == 1);
	if (met)
		exchange(&rc, UINT32_MAX);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	struct party party;
	int rounds = gather(&party, argc, argv, survivor);

	for (int i = 0; i < rounds; i++) {
		bool early = dice(2);
		int meets;
		pid_t pid = start(victim, &meets);
		char byte;

		if (!early)
			MUST(read(meets, &byte, 1) == 1);
		usleep(dice(early ? FROM_START : FROM_MEETING));
		end(pid);
		close(meets);
	}
	disperse(&party);
	return 0;
}
