// SPDX-License-Identifier: BSD-2-Clause
// Slots: each process has its own, and the slot of a dead process is free again.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/name.h"
#include "host/slot.h"
#include "loop/netns.h"
#include "loop/squatter.h"

/* A process that claims a slot, tells which, and stays. */
static pid_t claimant(uint16_t *number)
{
	int tell[2];
	pid_t pid;

	assert_int_equal(pipe(tell), 0);
	pid = fork();
	if (pid == 0) {
		struct slot s;

		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves it */
		if (slot_claim(&s) || write(tell[1], &s.number, sizeof(s.number)) != sizeof(s.number))
			_exit(1);
		for (;;)
			pause();
	}
	close(tell[1]);
	assert_int_equal(read(tell[0], number, sizeof(*number)), sizeof(*number));
	close(tell[0]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static bool is_taken(uint16_t number)
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
	uint16_t other[3];
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
	uint16_t number;
	pid_t pid = claimant(&number);
	int probe = slots_probe();

	assert_true(is_taken(number));
	for (int i = 1; i <= SLOTS; i++)
		assert_int_equal(slots_have(probe, i, true), i == number);
	assert_true(slot_is_alive(number));
	end(pid);
	assert_false(is_taken(number));
	assert_false(slots_have(probe, number, true) || slot_is_alive(number));
	close(probe);
	assert_true(slots_have(-1, number, true));
}

static void there_are_2047(void **state)
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

/* Its names in the folder; the kernel drops them as well. */
static void another_user_who_has_all_names_takes_no_slot(void **state)
{
	struct slot own, more;
	uint16_t number;
	pid_t squatter, pid;
	int probe;

	if (!squatter_is_possible())
		return;
	assert_int_equal(slot_claim(&own), 0); /* before the other user came */
	squatter = squatter_start();
	pid = claimant(&number);
	assert_int_not_equal(number, own.number);
	assert_true(slot_is_alive(number) && slot_is_alive(own.number));
	assert_int_equal(slot_claim(&more), 0);
	assert_true(more.number != number && more.number != own.number);
	for (int i = 1; i <= SLOTS; i++)
		assert_int_equal(slot_is_alive((uint16_t)i), i == own.number || i == more.number || i == number);
	end(pid);
	assert_false(slot_is_alive(number));
	squatter_end(squatter);
	/* the abstract names are free again: nobody claims a slot that has a name in the folder */
	pid = claimant(&number);
	assert_true(number != more.number && number != own.number);
	probe = slots_probe();
	for (int i = 1; i <= SLOTS; i++)
		assert_int_equal(slots_have(probe, (uint16_t)i, true),
				 i == own.number || i == more.number || i == number);
	close(probe);
	end(pid);
	slot_release(&own);
	slot_release(&more);
}

static void all_free_slots_are_claimed_beside_a_name_in_the_folder(void **state)
{
	static struct slot all[SLOTS];
	struct slot more;
	pid_t squatter;

	if (!squatter_is_possible())
		return;
	squatter = squatter_start();
	assert_int_equal(slot_claim(&all[0]), 0);
	squatter_end(squatter);
	for (int i = 1; i < SLOTS; i++) {
		assert_int_equal(slot_claim(&all[i]), 0);
		assert_int_not_equal(all[i].number, all[0].number);
	}
	assert_int_equal(slot_claim(&more), -EUSERS);
	for (int i = 0; i < SLOTS; i++)
		slot_release(&all[i]);
}

/* Without a folder there is no slot then, and the message says whose they are. */
static void another_user_who_has_all_names_is_named(void **state)
{
	enum { VICTIM = 12399 };
	char said[2048] = "", folder[40];
	int out[2], status;
	pid_t squatter, pid;
	struct slot s;

	snprintf(folder, sizeof(folder), "/tmp/uroce-%d", VICTIM);
	if (!squatter_is_possible() || mkdir(folder, 0700))
		return;
	squatter = squatter_start();
	assert_int_equal(pipe(out), 0);
	pid = fork();
	if (pid == 0) {
		if (setresuid(VICTIM, VICTIM, VICTIM) || unsetenv("XDG_RUNTIME_DIR") || dup2(out[1], 2) != 2)
			_exit(1);
		_exit(slot_claim(&s) != -EUSERS);
	}
	close(out[1]);
	for (size_t n = 0; n < sizeof(said) - 1;) {
		ssize_t more = read(out[0], said + n, sizeof(said) - 1 - n);

		if (more <= 0)
			break;
		n += (size_t)more;
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	squatter_end(squatter);
	rmdir(folder);
	assert_non_null(strstr(said, "2047 of the 2047 slots of this network namespace"));
	assert_non_null(strstr(said, "are bound by other users, as user 12345"));
	assert_null(strstr(said, "in use"));
}

/* A folder that others can write to, or that another user made, is none. */
static void a_folder_must_be_private(void **state)
{
	struct sockaddr_un address;
	socklen_t size = slot_address(&address, 77);
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	char folder[200], path[300];
	struct stat st;

	assert_int_equal(stat("/proc/self/ns/net", &st), 0);
	snprintf(folder, sizeof(folder), "%s/uroce", getenv("XDG_RUNTIME_DIR"));
	assert_int_equal(name_bind_in_folder(fd, &address, size), 0);
	assert_true(name_is_in_folder(&address, size));
	snprintf(path, sizeof(path), "%s/%llu/slot-77", folder, (unsigned long long)st.st_ino);
	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(chmod(folder, 0770), 0);
	assert_false(name_is_in_folder(&address, size));
	assert_int_equal(chmod(folder, 0700), 0);
	if (squatter_is_possible()) {
		assert_int_equal(chown(folder, 12345, 12345), 0);
		assert_false(name_is_in_folder(&address, size));
		assert_int_equal(chown(folder, 0, 0), 0);
	}
	close(fd);
}

/* While it binds a name there: another process that does so gives up in the end. */
static void a_stopped_process_holds_nobody_in_the_folder(void **state)
{
	struct sockaddr_un address;
	socklen_t size = slot_address(&address, 78);
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0), stopped;
	char folder[300];

	assert_true(name_folder_file(folder, sizeof(folder), ".", true));
	stopped = open(folder, O_RDONLY | O_DIRECTORY);
	assert_int_equal(flock(stopped, LOCK_EX), 0);
	assert_int_equal(name_bind_in_folder(fd, &address, size), -EBUSY);
	close(stopped);
	assert_int_equal(name_bind_in_folder(fd, &address, size), 0);
	close(fd);
}

int main(void)
{
	int failed;

	const struct CMUnitTest tests[] = {
		cmocka_unit_test(processes_get_different_slots),
		cmocka_unit_test(a_killed_process_gives_its_slot_back),
		cmocka_unit_test(there_are_2047),
		cmocka_unit_test(another_user_who_has_all_names_takes_no_slot),
		cmocka_unit_test(all_free_slots_are_claimed_beside_a_name_in_the_folder),
		cmocka_unit_test(another_user_who_has_all_names_is_named),
		cmocka_unit_test(a_folder_must_be_private),
		cmocka_unit_test(a_stopped_process_holds_nobody_in_the_folder),
	};

	netns_enter();
	descriptors_allow(2 * SLOTS);
	names_folder_make();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	names_folder_remove();
	return failed;
}
