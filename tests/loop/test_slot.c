// SPDX-License-Identifier: BSD-2-Clause
// Slots: each process has its own, and the slot of a dead process is free again.
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "loop/netns.h"
#include "loop/slot.h"

/* A process that claims a slot, tells which, and stays. */
static pid_t claimant(uint8_t *number)
{
	int tell[2];
	pid_t pid;

	assert_int_equal(pipe(tell), 0);
	pid = fork();
	if (pid == 0) {
		struct slot s;

		if (slot_claim(&s) || write(tell[1], &s.number, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(tell[1]);
	assert_int_equal(read(tell[0], number, 1), 1);
	close(tell[0]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static bool is_taken(uint8_t number)
{
	struct sockaddr_un address;
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	bool taken = bind(fd, (struct sockaddr *)&address, slot_address(&address, number)) < 0;

	close(fd);
	return taken;
}

static void processes_get_different_slots(void **state)
{
	struct slot own;
	uint8_t other[3];
	pid_t pid[3];

	assert_int_equal(slot_claim(&own), 0);
	assert_in_range(own.number, 1, SLOTS);
	for (int i = 0; i < 3; i++) {
		pid[i] = claimant(&other[i]);
		assert_in_range(other[i], 1, SLOTS);
		assert_int_not_equal(other[i], own.number);
		for (int k = 0; k < i; k++)
			assert_int_not_equal(other[i], other[k]);
	}
	for (int i = 0; i < 3; i++)
		end(pid[i]);
	slot_release(&own);
	assert_int_equal(own.number, 0);
}

static void a_killed_process_gives_its_slot_back(void **state)
{
	uint8_t number;
	pid_t pid = claimant(&number);
	int probe = slots_probe();

	assert_true(is_taken(number));
	for (int i = 1; i <= SLOTS; i++)
		assert_int_equal(slots_have(probe, i), i == number);
	assert_true(slot_is_alive(number));
	end(pid);
	assert_false(is_taken(number));
	assert_false(slots_have(probe, number) || slot_is_alive(number));
	close(probe);
	assert_true(slots_have(-1, number));
}

static void there_are_255(void **state)
{
	static struct slot all[SLOTS];
	struct slot more;

	for (int i = 0; i < SLOTS; i++)
		assert_int_equal(slot_claim(&all[i]), 0);
	assert_int_equal(slot_claim(&more), -EUSERS);
	slot_release(&all[100]);
	assert_int_equal(slot_claim(&more), 0);
	slot_release(&more);
	for (int i = 0; i < SLOTS; i++)
		if (i != 100)
			slot_release(&all[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(processes_get_different_slots),
		cmocka_unit_test(a_killed_process_gives_its_slot_back),
		cmocka_unit_test(there_are_255),
	};

	netns_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
