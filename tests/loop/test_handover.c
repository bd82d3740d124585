// SPDX-License-Identifier: BSD-2-Clause
// Handover of packets to the process that they are for.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/handover.h"
#include "host/registry.h"
#include "host/registry_lock.h"
#include "host/slot.h"
#include "loop/netns.h"
#include "loop/squatter.h"

enum { MOST = 64 };

static struct handover handover;
static struct slot a, b;
static const union ibv_gid from = {.raw = {[10] = 0xff, [11] = 0xff, 10, 1, 2, 3}};
static const union ibv_gid to = {.raw = {0xfd, [15] = 7}};

static uint32_t seen;
static uint8_t payload[4096];

static uint32_t length_of(uint32_t i)
{
	return i * 4096 / MOST;
}

static bool take(void *arg, struct packet *p, const union ibv_gid *f)
{
	uint32_t i = p->psn.v;

	assert_int_equal(i, seen++);
	assert_memory_equal(f, &from, sizeof(from));
	assert_int_equal(p->dest_qpn, (uint32_t)b.number << SLOT_SHIFT | i);
	assert_int_equal(p->congestion, i & 1);
	assert_int_equal(p->is_uroce, (i & 2) != 0);
	assert_int_equal(p->traffic_class, i);
	assert_memory_equal(p->to, &to, sizeof(to));
	assert_int_equal(p->length, length_of(i));
	assert_memory_equal(p->payload, payload, p->length);
	return true;
}

static void open_both(void)
{
	assert_int_equal(slot_claim(&a), 0);
	assert_int_equal(slot_claim(&b), 0);
	memset(&handover, 0, sizeof(handover));
	seen = 0;
}

static void close_both(void)
{
	handover_close(&handover);
	slot_release(&a);
	slot_release(&b);
}

static void add(uint32_t i, uint16_t slot)
{
	struct packet p = {.opcode = OP_SEND_ONLY,
			   .dest_qpn = (uint32_t)slot << SLOT_SHIFT | i,
			   .psn = psn(i),
			   .congestion = i & 1,
			   .is_uroce = i & 2,
			   .traffic_class = i,
			   .to = to.raw,
			   .length = length_of(i),
			   .payload = payload};

	handover_add(&handover, slot, &p, &from);
}

static void packets_of_any_length_arrive_in_order(void **state)
{
	open_both();
	for (uint32_t i = 0; i <= MOST; i++)
		add(i, b.number);
	handover_send(&handover);
	while (handover_receive(&b, &(struct handover_ops){.packet = take}, NULL))
		;
	assert_int_equal(seen, MOST + 1);
	assert_int_equal(handover.lost, 0);
	close_both();
}

static void a_dead_process_costs_nothing_but_its_packets(void **state)
{
	uint8_t dead;

	open_both();
	dead = b.number;
	slot_release(&b);
	add(0, dead);
	handover_send(&handover);
	assert_int_equal(handover.lost, 1);
	assert_int_equal(slot_claim(&b), 0);
	add(0, b.number);
	handover_send(&handover);
	assert_true(handover_receive(&b, &(struct handover_ops){.packet = take}, NULL));
	assert_int_equal(seen, 1);
	close_both();
}

static void a_stopped_process_is_not_waited_for(void **state)
{
	open_both();
	for (uint32_t i = 0; i < 100000 && !handover.lost; i++) {
		add(0, b.number);
		handover_send(&handover);
	}
	assert_true(handover.lost > 0);
	close_both();
}

/* What the memory had before, and what lies between the fields, is no other process's business. */
static void bytes_between_records_are_zeros(void **state)
{
	static uint8_t bytes[HANDOVER_BYTES];
	struct packet p = {.opcode = OP_SEND_ONLY, .to = to.raw, .payload = payload};
	ssize_t n;

	open_both();
	memset(handover.memory, 0xa5, sizeof(handover.memory));
	p.length = 3; /* with its pad and the BTH: 16 */
	handover_add(&handover, b.number, &p, &from);
	p.length = 5; /* 20 */
	handover_add(&handover, b.number, &p, &from);
	handover_report(&handover, b.number, &(struct handover_report){0});
	handover_ask(&handover, b.number, &(struct handover_ask){0});
	handover_send(&handover);
	n = recv(b.fd, bytes, sizeof(bytes), 0);
	assert_true(n > 0);
	for (ssize_t i = 0; i < n; i++)
		assert_int_not_equal(bytes[i], 0xa5);
	close_both();
}

static bool ignore(void *arg, struct packet *p, const union ibv_gid *f)
{
	++*(uint32_t *)arg;
	return true;
}

static void garbage_does_no_harm(void **state)
{
	static uint8_t bytes[256];
	struct sockaddr_un to;
	socklen_t size;
	uint32_t n = 0;

	open_both();
	size = slot_address(&to, b.number);
	for (uint32_t length = 0; length <= sizeof(bytes); length++) {
		for (uint32_t i = 0; i < length; i++)
			bytes[i] = length * 31 + i * (length & 1);
		assert_int_equal(sendto(a.fd, bytes, length, 0, (struct sockaddr *)&to, size), length);
		assert_true(handover_receive(&b, &(struct handover_ops){.packet = ignore}, &n));
	}
	assert_int_equal(n, 0);
	assert_false(handover_receive(&b, &(struct handover_ops){.packet = ignore}, &n));
	close_both();
}

/* Another user binds the name of a slot when the process there is dead. */
static struct {
	pid_t pid;
	int go, tell;
} thief;

enum { THIEF = 12345, BYTES = 64 };

static void thief_live(uint16_t number, int go, int tell)
{
	struct sockaddr_un name;
	uint8_t bytes[BYTES];
	int fd;
	char got, byte;

	close(b.fd); /* else the name would stay bound */
	if (setresuid(THIEF, THIEF, THIEF) || prctl(PR_SET_PDEATHSIG, SIGKILL) || read(go, &byte, 1) != 1)
		_exit(1);
	fd = socket(AF_UNIX, SOCK_DGRAM, 0); /* belongs to the user of this moment */
	if (bind(fd, (struct sockaddr *)&name, slot_address(&name, number)) || write(tell, "", 1) != 1)
		_exit(1);
	if (read(go, &byte, 1) != 1)
		_exit(1);
	got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) >= 0;
	close(fd);
	_exit(write(tell, &got, 1) != 1);
}

static void thief_start(uint16_t number)
{
	int go[2], tell[2];

	assert_int_equal(pipe(go), 0);
	assert_int_equal(pipe(tell), 0);
	thief.pid = fork();
	if (thief.pid == 0)
		thief_live(number, go[0], tell[1]);
	close(go[0]);
	close(tell[1]);
	thief.go = go[1];
	thief.tell = tell[0];
}

/* It binds the name; the next time it says whether it has got something, and ends. */
static bool thief_goes(void)
{
	char said;

	assert_int_equal(write(thief.go, "", 1), 1);
	assert_int_equal(read(thief.tell, &said, 1), 1);
	return said;
}

static void thief_end(void)
{
	assert_false(thief_goes());
	close(thief.go);
	close(thief.tell);
	assert_int_equal(waitpid(thief.pid, NULL, 0), thief.pid);
}

static void send_one(uint16_t slot)
{
	add(0, slot);
	handover_send(&handover);
}

/* Neither by a connection that is there, nor by a new one; and what it does not read holds up nobody. */
static void another_user_with_the_name_of_a_dead_process_gets_nothing(void **state)
{
	struct slot own;
	struct sockaddr_un name;
	socklen_t size;

	if (!squatter_is_possible())
		return;
	for (int connected = 0; connected < 2; connected++) {
		open_both();
		own = b;
		size = slot_address(&name, own.number);
		thief_start(own.number);
		if (connected) {
			send_one(own.number);
			assert_true(handover_receive(&b, &(struct handover_ops){.packet = take}, NULL));
			seen = 0;
		}
		slot_release(&b);
		thief_goes();
		for (uint32_t i = 1; i <= 100; i++) {
			handover.dead = 0;
			send_one(own.number);
			assert_int_equal(handover.lost, i);
			assert_int_equal(handover.dead, own.number);
		}
		thief_end();
		/* a process of this user in that slot */
		b = (struct slot){.number = own.number, .fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)};
		assert_int_equal(setsockopt(b.fd, SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)), 0);
		assert_int_equal(bind(b.fd, (struct sockaddr *)&name, size), 0);
		do
			send_one(own.number);
		while (!handover_receive(&b, &(struct handover_ops){.packet = take}, NULL));
		assert_int_equal(seen, 1);
		close_both();
	}
}

/* As where its module is lacking. */
static bool refuse_netlink(void)
{
	struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]) +
							   (__BYTE_ORDER == __BIG_ENDIAN ? sizeof(uint32_t) : 0)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPROTONOSUPPORT),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {ARRAY_SIZE(program), program};

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

/* Then the process that offers the registry in that slot gets its packets, and no other. */
static void where_the_kernel_tells_no_owner_the_registry_does(void **state)
{
	struct steering steering;
	int lock, status;

	for (int offered = 0; offered < 2; offered++) {
		pid_t pid;

		open_both();
		steering_init(&steering, &b);
		lock = registry_lock(steering.memory, LOCK_PATIENCE);
		assert_true(lock >= 0);
		assert_int_equal(offered ? find_registry(&steering) : 0, 0);
		registry_unlock(lock);
		pid = fork();
		if (pid == 0) {
			bool refused = refuse_netlink();

			send_one(b.number);
			_exit(refused ? (int)handover.lost : 2);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		if (WEXITSTATUS(status) == 2)
			printf("# no seccomp filters here\n");
		else {
			assert_int_equal(WEXITSTATUS(status), !offered);
			assert_int_equal(handover_receive(&b, &(struct handover_ops){.packet = take}, NULL), offered);
		}
		steering_fini(&steering);
		close_both();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_of_any_length_arrive_in_order),
		cmocka_unit_test(a_dead_process_costs_nothing_but_its_packets),
		cmocka_unit_test(a_stopped_process_is_not_waited_for),
		cmocka_unit_test(bytes_between_records_are_zeros),
		cmocka_unit_test(garbage_does_no_harm),
		cmocka_unit_test(another_user_with_the_name_of_a_dead_process_gets_nothing),
		cmocka_unit_test(where_the_kernel_tells_no_owner_the_registry_does),
	};

	netns_enter();
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = i * 5 + (i >> 8);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
