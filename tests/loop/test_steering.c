// SPDX-License-Identifier: BSD-2-Clause
// Steering: each packet reaches the process that its destination QPN names, when processes join, leave or die.
#include <arpa/inet.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "link/udp.h"
#include "host/handover.h"
#include "host/registry.h"
#include "host/slot.h"
#include "host/steering.h"
#include "host/steering_program.h"
#include "loop/netns.h"
#include "loop/squatter.h"
#include "wire/cm_mad.h"

/* ---- the program, run here ---- */

static uint32_t run(const struct sock_filter *code, uint16_t length, const uint8_t *packet, uint32_t random)
{
	uint32_t a = 0, x = 0;

	for (uint16_t pc = 0; pc < length; pc++) {
		const struct sock_filter *i = &code[pc];

		switch (i->code) {
		case BPF_LD | BPF_B | BPF_ABS:
			a = packet[i->k];
			break;
		case BPF_LD | BPF_H | BPF_ABS:
			a = packet[i->k] << 8 | packet[i->k + 1];
			break;
		case BPF_LD | BPF_IMM:
			a = i->k;
			break;
		case BPF_JMP | BPF_JA:
			pc += i->k;
			break;
		case BPF_LD | BPF_W | BPF_ABS:
			if (i->k == (uint32_t)(SKF_AD_OFF + SKF_AD_RANDOM))
				a = random;
			else
				a = (uint32_t)packet[i->k] << 24 | packet[i->k + 1] << 16 | packet[i->k + 2] << 8 |
				    packet[i->k + 3];
			break;
		case BPF_ALU | BPF_MOD | BPF_K:
			a %= i->k;
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= i->k;
			break;
		case BPF_RET | BPF_A:
			return a;
		case BPF_ALU | BPF_RSH | BPF_K:
			a >>= i->k;
			break;
		case BPF_LDX | BPF_IMM:
			x = i->k;
			break;
		case BPF_MISC | BPF_TXA:
			a = x;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += a >= i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += a == i->k ? i->jt : i->jf;
			break;
		case BPF_RET | BPF_K:
			return i->k;
		default:
			fail_msg("instruction %u: code %#x", pc, i->code);
		}
	}
	fail_msg("the program has no end");
	return 0;
}

struct order {
	uint16_t slots[8];
	uint32_t count;
};

static const struct order orders[] = {
	{{7}, 1},
	{{1, 2, 3}, 3},
	{{3, 1, 2}, 3},
	{{SLOTS, 1, 128}, 3},
	{{2, 258, 1026}, 3},
	{{9, 8, 7, 6, 5, 4, 3, 2}, 8},
};

/* The place of a first slot; `otherwise`, if there is none. */
static uint32_t place_in(const struct order *o, uint16_t slot, uint32_t otherwise)
{
	for (uint32_t i = 0; i < o->count; i++)
		if (o->slots[i] == slot)
			return i;
	return otherwise;
}

static void the_program_finds_each_slots_place(void **state)
{
	struct sock_filter code[STEERING_PROGRAM];

	for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
		const struct order *o = &orders[i];
		uint16_t length = steering_program(
			&(struct steering_order){.slots = o->slots, .count = o->count, .most = 8}, code);

		for (uint32_t slot = 0; slot <= SLOTS; slot++) {
			struct packet p = {.opcode = OP_SEND_ONLY, .dest_qpn = slot << SLOT_SHIFT | 0x1234};
			uint8_t bytes[PACKET_HEADERS + CM_MAD_BYTES] = {0};

			packet_encode(&p, bytes);
			/* what is nobody's, as QP 1 is, may go to any */
			for (uint32_t random = 0; random < 2 * o->count; random++)
				assert_int_equal(run(code, length, bytes, random),
						 place_in(o, slot, random % o->count));
		}
	}
}

/* A message of connection management goes to the process whose communication id it carries; one that carries none goes
 * to who listens, or any. */
static void the_program_knows_communication_ids(void **state)
{
	static const struct order o = {{9, SLOTS, 0x11}, 3};
	static const struct {
		enum cm_message message;
		bool is_local; /* where the receiver's id stands */
		bool begins;
	} row[] = {
		{CM_REQ, .begins = true},
		{CM_MRA},
		{CM_REJ},
		{CM_REP},
		{CM_RTU},
		{CM_DREQ},
		{CM_DREP},
		{CM_SIDR_REQ, .begins = true},
		{CM_SIDR_REP, .is_local = true},
		{CM_LAP},
		{CM_APR},
	};
	struct sock_filter code[STEERING_PROGRAM];
	static const struct steering_listener listeners[] = {{0x01061111, 0x11}, {0x01060009, 9}, {0x01060077, 0x77}};
	const struct steering_order order = {.slots = o.slots,
					     .count = o.count,
					     .listener = listeners,
					     .listeners = ARRAY_SIZE(listeners),
					     .most = 3};
	uint16_t length = steering_program(&order, code);

	static_assert(ARRAY_SIZE(row) == CM_MESSAGES, "all messages");
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		for (uint32_t at = 0; at < o.count; at++) {
			struct packet p = {.opcode = TRANSPORT_UD | OP_SEND_ONLY, .dest_qpn = 1};
			uint32_t id = (uint32_t)o.slots[at] << (32 - SLOT_BITS) | 0x00ffee, other = 0x11223344;
			struct cm_mad mad = {.message = row[i].message,
					     .local_id = row[i].is_local ? id : other,
					     .remote_id = id,
					     .pkey = 0xffff,
					     .vendor_id = 0xffffff};
			uint8_t bytes[PACKET_HEADERS + CM_MAD_BYTES];

			cm_mad_encode(&mad, bytes + packet_encode(&p, bytes));
			for (uint32_t random = 0; random < o.count; random++)
				assert_int_equal(run(code, length, bytes, random), row[i].begins ? random : at);
			if (!row[i].begins)
				continue;
			for (size_t k = 0; k < ARRAY_SIZE(listeners); k++) {
				mad.service = 1ull << 40 | listeners[k].service;
				cm_mad_encode(&mad, bytes + packet_encode(&p, bytes));
				/* the last is a process that is not here */
				assert_int_equal(run(code, length, bytes, 1), place_in(&o, listeners[k].slot, 1));
			}
		}
	}
}

static uint32_t steer(const struct sock_filter *code, uint16_t length, uint32_t slot)
{
	struct packet p = {.opcode = OP_SEND_ONLY, .dest_qpn = slot << SLOT_SHIFT};
	uint8_t bytes[PACKET_HEADERS + CM_MAD_BYTES] = {0};

	packet_encode(&p, bytes);
	return run(code, length, bytes, 0);
}

/* With as many listeners, too. Slots beyond those that are steered are any process's. */
static void the_program_has_room_for_a_crowd(void **state)
{
	struct sock_filter code[STEERING_PROGRAM];
	struct steering_listener listeners[STEERING_LISTENERS];
	uint16_t slots[SLOTS], length;
	struct steering_order order = {
		.slots = slots, .count = SLOTS, .listener = listeners, .listeners = STEERING_LISTENERS};

	for (uint32_t i = 0; i < SLOTS; i++)
		slots[i] = SLOTS - i;
	for (uint32_t i = 0; i < STEERING_LISTENERS; i++)
		listeners[i] = (struct steering_listener){i, slots[i]};
	for (order.most = 1; order.most <= STEERING_SLOTS; order.most = order.most * 2 - (order.most == 1024) * 548) {
		length = steering_program(&order, code);
		assert_in_range(length, 1, STEERING_PROGRAM);
		for (uint32_t slot = 1; slot <= SLOTS; slot++)
			assert_int_equal(steer(code, length, slot), slot <= order.most ? SLOTS - slot : 0);
	}
}

/* A process has several slots. */
static void the_program_knows_further_slots(void **state)
{
	struct sock_filter code[STEERING_PROGRAM];
	static const uint16_t slots[] = {7, 20, 3};
	/* 5 is of a process that is not here, or is dead */
	static const uint16_t owners[SLOTS + 1] = {[5] = 4, [6] = 7, [12] = 20, [13] = 20, [SLOTS] = 3};
	const struct steering_order order = {
		.slots = slots, .owners = owners, .count = ARRAY_SIZE(slots), .most = STEERING_SLOTS};
	uint16_t length = steering_program(&order, code);

	assert_int_equal(steer(code, length, 6), 0);
	assert_int_equal(steer(code, length, 7), 0);
	assert_int_equal(steer(code, length, 12), 1);
	assert_int_equal(steer(code, length, 13), 1);
	assert_int_equal(steer(code, length, 20), 1);
	assert_int_equal(steer(code, length, 3), 2);
	assert_int_equal(steer(code, length, SLOTS), 2);
	assert_int_equal(steer(code, length, 5), 0);
}

/* ---- the real thing ---- */

static union ibv_gid here, sender_gid;

/* A process with a link: tells its slot, and then, for each packet it sees, whether it was its own. It does as
 * port/receive.c does. */
struct process {
	pid_t pid;
	uint16_t slot;
	int from; /* pipe: first its slot, then a struct seen per packet */
	int stop; /* pipe: a byte says to leave in good order */
};

struct seen {
	uint32_t qpn, psn;
	uint8_t handed_over; /* it came from another process */
};

struct self {
	struct slot slot;
	struct steering steering;
	struct steered place;
	struct link *link;
	struct handover *handover;
	int tell;
};

static bool take(void *arg, struct packet *p, const union ibv_gid *from)
{
	struct self *s = arg;

	if (qpn_slot(p->dest_qpn) == s->slot.number) {
		struct seen seen = {p->dest_qpn, p->psn.v, 0};

		if (write(s->tell, &seen, sizeof(seen)) != sizeof(seen))
			_exit(1);
		return true;
	}
	handover_add(s->handover, qpn_slot(p->dest_qpn), p, from);
	steering_stray(&s->place, qpn_slot(p->dest_qpn), UINT64_MAX / 2);
	s->place.repaired = 0; /* time does not matter here */
	return true;
}

static bool take_handed_over(void *arg, struct packet *p, const union ibv_gid *from)
{
	struct self *s = arg;
	struct seen seen = {p->dest_qpn, p->psn.v, 1};

	if (memcmp(from, &sender_gid, sizeof(*from)) || write(s->tell, &seen, sizeof(seen)) != sizeof(seen))
		_exit(1);
	return true;
}

static void drain(void *arg)
{
	struct self *s = arg;

	s->link->ops->receive(s->link, 1000, take, s);
	handover_send(s->handover);
}

static int open_udp(const union ibv_gid *gid, uint16_t slot, struct link **link)
{
	return link_udp_open(gid, link);
}

static void live(int tell, int stop)
{
	struct self s = {.tell = tell, .handover = calloc(1, sizeof(struct handover))};
	struct pollfd p[4];

	if (slot_claim(&s.slot))
		_exit(1);
	steering_init(&s.steering, &s.slot);
	if (steering_open(&s.steering, &s.place, &here, open_udp, &s.link))
		_exit(1);
	if (write(tell, &s.slot.number, sizeof(s.slot.number)) != sizeof(s.slot.number))
		_exit(1);
	p[0] = (struct pollfd){.fd = s.link->fd, .events = POLLIN};
	p[1] = (struct pollfd){.fd = s.slot.fd, .events = POLLIN};
	p[2] = (struct pollfd){.fd = s.steering.service, .events = POLLIN};
	p[3] = (struct pollfd){.fd = stop, .events = POLLIN};
	while (poll(p, 4, -1) > 0 && !p[3].revents) {
		while (s.link->ops->receive(s.link, 1, take, &s))
			handover_send(s.handover);
		s.place.settled = true;
		while (handover_receive(&s.slot, &(struct handover_ops){.packet = take_handed_over}, &s))
			;
		if (p[2].revents)
			steering_serve(&s.steering);
	}
	steering_close(&s.place, drain, &s);
	steering_fini(&s.steering);
	slot_release(&s.slot);
	_exit(0);
}

/* In a container of its own, as far as processes go: /proc does not lead it to those outside. */
static void live_apart(int tell, int stop)
{
	int status;
	pid_t pid;

	if (unshare(CLONE_NEWPID))
		_exit(2);
	pid = fork();
	if (pid == 0)
		live(tell, stop);
	close(tell);
	waitpid(pid, &status, 0);
	_exit(WEXITSTATUS(status));
}

/* One that has no registry: no memory to share can be had. */
static void live_alone(int tell, int stop)
{
	if (setrlimit(RLIMIT_FSIZE, &(struct rlimit){0}))
		_exit(1);
	live(tell, stop);
}

/* As a process looks while the kernel ends it: its registry is gone, what it listens with goes while it is asked. */
static void live_ending(int tell, int stop)
{
	struct pollfd p = {.fd = stop, .events = POLLIN};
	struct sockaddr_un a;
	struct slot slot;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0), caller;

	if (slot_claim(&slot) ||
	    bind(fd, (struct sockaddr *)&a, slot_abstract(&a, "%u/registry/%u", geteuid(), slot.number)) ||
	    listen(fd, 1) || write(tell, &slot.number, sizeof(slot.number)) != sizeof(slot.number))
		_exit(1);
	caller = accept(fd, NULL, NULL);
	close(fd);
	close(caller);
	poll(&p, 1, -1);
	_exit(0);
}

static struct process start_as(void (*life)(int tell, int stop))
{
	struct process p;
	int tell[2], stop[2];

	assert_int_equal(pipe2(tell, 0), 0);
	assert_int_equal(pipe(stop), 0);
	p.pid = fork();
	if (p.pid == 0) {
		close(stop[1]);
		life(tell[1], stop[0]);
	}
	close(tell[1]);
	close(stop[0]);
	p.from = tell[0];
	p.stop = stop[1];
	assert_int_equal(read(p.from, &p.slot, sizeof(p.slot)), sizeof(p.slot));
	return p;
}

static struct process start(void)
{
	return start_as(live);
}

static void ask_to_leave(struct process *p)
{
	assert_int_equal(write(p->stop, "", 1), 1);
	close(p->stop);
}

static void has_left(struct process *p)
{
	int status;

	assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
	assert_int_equal(status, 0);
}

static void leave(struct process *p)
{
	ask_to_leave(p);
	has_left(p);
	close(p->from);
}

static void stop(const struct process *p)
{
	kill(p->pid, SIGSTOP);
	assert_int_equal(waitpid(p->pid, NULL, WUNTRACED), p->pid);
}

static void die(struct process *p)
{
	kill(p->pid, SIGKILL);
	assert_int_equal(waitpid(p->pid, NULL, 0), p->pid);
	close(p->stop);
	close(p->from);
}

static struct link *sender;
static uint32_t next_psn;

/* Sends a packet and waits until it is seen where it belongs. True: it took the fast path. */
static bool send_to(struct process *to)
{
	struct packet p = {
		.opcode = OP_SEND_ONLY, .dest_qpn = (uint32_t)to->slot << SLOT_SHIFT | 77, .psn = psn(next_psn++)};
	struct link_tx tx = {.packet = &p, .dgid = &here};
	struct seen seen;

	assert_int_equal(sender->ops->send(sender, &tx, 1), 1);
	assert_int_equal(read(to->from, &seen, sizeof(seen)), sizeof(seen));
	assert_int_equal(seen.qpn, p.dest_qpn);
	assert_int_equal(seen.psn, p.psn.v);
	return !seen.handed_over;
}

/* All arrive; and once it is found out what is wrong, they take the fast path. How many go astray until then
 * depends on when each process polls: after 4 strays a process knows, not counting those that came before it knew of
 * the last change. */
static void settle(struct process *all, int count)
{
	int in_a_row = 0;

	for (int i = 0; i < 1000 * count && in_a_row < 10 * count; i++)
		in_a_row = send_to(&all[i % count]) ? in_a_row + 1 : 0;
	assert_int_equal(in_a_row, 10 * count);
}

/* Without anything to find out. */
static void straight(struct process *all, int count)
{
	for (int i = 0; i < 10 * count; i++)
		assert_true(send_to(&all[i % count]));
}

static void joining_and_leaving_disturbs_nobody(void **state)
{
	struct process p[4];

	p[0] = start();
	straight(p, 1);
	p[1] = start();
	straight(p, 2);
	p[2] = start();
	p[3] = start();
	straight(p, 4);
	leave(&p[0]);
	straight(p + 1, 3);
	p[0] = start();
	straight(p, 4);
	leave(&p[3]);
	straight(p, 3);
	for (int i = 0; i < 3; i++)
		leave(&p[i]);
}

static void a_killed_process_is_found_out(void **state)
{
	struct process p[5];

	for (int i = 0; i < 5; i++)
		p[i] = start();
	straight(p, 5);
	die(&p[1]);
	p[1] = p[4];
	settle(p, 4);
	/* two at once: in which order they died cannot be known */
	die(&p[0]);
	die(&p[3]);
	p[0] = p[2];
	settle(p, 2);
	p[2] = start();
	straight(p, 3);
	for (int i = 0; i < 3; i++)
		leave(&p[i]);
}

static void a_stopped_process_does_not_keep_others_out(void **state)
{
	struct process p[3];

	p[0] = start();
	stop(&p[0]);
	p[1] = start();
	p[2] = start();
	straight(p + 1, 2);
	kill(p[0].pid, SIGCONT);
	straight(p, 3);
	for (int i = 0; i < 3; i++)
		leave(&p[i]);
}

static void containers_share_an_address(void **state)
{
	struct process p[3];

	p[0] = start();
	p[1] = start_as(live_apart);
	p[2] = start_as(live_apart);
	straight(p, 3);
	leave(&p[0]);
	straight(p + 1, 2);
	p[0] = start();
	straight(p, 3);
	for (int i = 0; i < 3; i++)
		leave(&p[i]);
}

static void a_process_that_ends_while_it_is_asked_disturbs_nobody(void **state)
{
	struct process p[3] = {start_as(live_ending)};

	p[1] = start();
	p[2] = start();
	straight(p + 1, 2);
	for (int i = 0; i < 3; i++)
		leave(&p[i]);
}

/* Nobody steers, so the kernel gives all that one sender sends to one of the two. */
static void who_leaves_hands_over_without_a_registry(void **state)
{
	struct process p[2] = {start_as(live_alone), start_as(live_alone)};
	bool first = send_to(&p[0]);
	struct process *leaving = &p[!first], *staying = &p[first];
	struct packet packet = {
		.opcode = OP_SEND_ONLY, .dest_qpn = (uint32_t)staying->slot << SLOT_SHIFT | 77, .psn = psn(next_psn++)};
	struct link_tx tx = {.packet = &packet, .dgid = &here};
	struct seen seen[2];

	stop(leaving);
	assert_int_equal(sender->ops->send(sender, &tx, 1), 1);
	ask_to_leave(leaving);
	kill(leaving->pid, SIGCONT);
	has_left(leaving);
	/* what comes straight to him shows that he has looked at what was handed over */
	assert_int_equal(sender->ops->send(sender, &tx, 1), 1);
	assert_int_equal(read(staying->from, &seen[0], sizeof(seen[0])), sizeof(seen[0]));
	ask_to_leave(staying);
	has_left(staying);
	assert_int_equal(read(staying->from, &seen[1], sizeof(seen[1])), sizeof(seen[1]));
	close(leaving->from);
	close(staying->from);
	assert_int_equal(seen[0].handed_over + seen[1].handed_over, 1);
}

static void another_user_who_takes_the_names_disturbs_nobody(void **state)
{
	struct process p[4];
	pid_t pid;

	if (!squatter_is_possible())
		return;
	p[0] = start();
	pid = squatter_start();
	for (int i = 1; i < 4; i++)
		p[i] = start();
	straight(p, 4);
	die(&p[1]);
	p[1] = p[3];
	settle(p, 3);
	squatter_end(pid);
	p[3] = start();
	straight(p, 4);
	for (int i = 0; i < 4; i++)
		leave(&p[i]);
}

int main(void)
{
	int failed;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_program_finds_each_slots_place),
		cmocka_unit_test(the_program_knows_communication_ids),
		cmocka_unit_test(the_program_has_room_for_a_crowd),
		cmocka_unit_test(the_program_knows_further_slots),
		cmocka_unit_test(joining_and_leaving_disturbs_nobody),
		cmocka_unit_test(a_killed_process_is_found_out),
		cmocka_unit_test(a_stopped_process_does_not_keep_others_out),
		cmocka_unit_test(containers_share_an_address),
		cmocka_unit_test(a_process_that_ends_while_it_is_asked_disturbs_nobody),
		cmocka_unit_test(who_leaves_hands_over_without_a_registry),
		cmocka_unit_test(another_user_who_takes_the_names_disturbs_nobody),
	};

	netns_enter();
	inet_pton(AF_INET6, "::ffff:127.0.0.1", here.raw);
	inet_pton(AF_INET6, "::ffff:127.0.0.2", sender_gid.raw);
	if (link_udp_open(&sender_gid, &sender))
		return 1;
	names_folder_make();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	names_folder_remove();
	return failed;
}
