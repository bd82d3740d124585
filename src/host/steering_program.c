/* SPDX-License-Identifier: BSD-2-Clause */
/* The program by which the kernel chooses the socket of a packet: see steering.h. */
#include "host/steering_program.h"

#include <string.h>

#include "base/qpn.h"
#include "host/slot.h"
#include "wire/cm_mad.h"

#define QPN_SLOT      5		      /* offset in the BTH: top bits of the destination QPN */
#define MAD_ATTRIBUTE 36	      /* offset in the packet: kind of message, in the MAD header */
#define MAD_DATA      44	      /* offset in the packet: the message, after the MAD header */
#define MAD_SERVICE   (MAD_DATA + 12) /* offset in the packet: lower half of the service id, in REQ and SIDR_REQ */

/* Loads the slot. For QP 1 it is in the communication id by which a message names its receiver (IBTA 12.6: the second
 * id; in SIDR_REP the first), else in the destination QPN. A message that begins a connection has none, and jumps to
 * the test of services. */
enum { TO_SERVICES = 12 };
static const struct sock_filter slot_of[] = {
	BPF_STMT(BPF_LD | BPF_H | BPF_ABS, QPN_SLOT),
	BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 16 - SLOT_BITS),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 10),
	BPF_STMT(BPF_LD | BPF_H | BPF_ABS, MAD_ATTRIBUTE),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CM_REQ, 7, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CM_SIDR_REQ, 6, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CM_SIDR_REP, 2, 0),
	BPF_STMT(BPF_LD | BPF_H | BPF_ABS, MAD_DATA + 4),
	BPF_STMT(BPF_JMP | BPF_JA, 1),
	BPF_STMT(BPF_LD | BPF_H | BPF_ABS, MAD_DATA),
	BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 16 - SLOT_BITS),
	BPF_STMT(BPF_JMP | BPF_JA, 1),
	[TO_SERVICES] = BPF_STMT(BPF_JMP | BPF_JA, 0),
};

struct program {
	struct sock_filter *code;
	uint16_t length;
};

static void emit(struct program *p, struct sock_filter instruction)
{
	p->code[p->length++] = instruction;
}

/* Sends the packet to that place if the loaded value is `value`. */
static void emit_place(struct program *p, uint32_t value, uint32_t place)
{
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
	emit(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, place));
}

/* Sends the packet to a random place, as none matches: that process hands it over. The kernel's own choice would always
 * be the same process, which may be stopped. */
static void emit_any(struct program *p, uint32_t count)
{
	emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, SKF_AD_OFF + SKF_AD_RANDOM));
	emit(p, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, max_of(count, 1u)));
	emit(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_A, 0));
}

struct steered_slot {
	uint16_t slot, place;
};

enum { NO_PLACE = 0xffff, IN_A_ROW = 32, ROW_TAIL = 3, BRANCH = 2, TO_ANY = 0x7fffffff };
static_assert(STEERING_SLOTS * 2 + (STEERING_SLOTS * 2 / IN_A_ROW + 1) * (ROW_TAIL + BRANCH) + ARRAY_SIZE(slot_of) +
			      2 * STEERING_LISTENERS + 7 <=
		      STEERING_PROGRAM,
	      "room for the program");

/* Compares a few slots, one after the other. Two instructions each: some kernels take no more than 20 KiB of them. */
static void emit_row(struct program *p, const struct steered_slot *s, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		emit(p, (struct sock_filter)BPF_STMT(BPF_LDX | BPF_IMM, s[i].place));
		emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, s[i].slot, 2 * (count - i) - 1, 0));
	}
	emit(p, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, TO_ANY));
	emit(p, (struct sock_filter)BPF_STMT(BPF_MISC | BPF_TXA, 0));
	emit(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_A, 0));
}

/* Finds a slot by halving; slots are in ascending order. */
static void emit_slots(struct program *p, const struct steered_slot *s, uint32_t count)
{
	uint32_t half = count / 2, branch;

	if (count <= IN_A_ROW) {
		emit_row(p, s, count);
		return;
	}
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, s[half].slot, 0, 1));
	branch = p->length;
	emit(p, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0));
	emit_slots(p, s, half);
	p->code[branch].k = p->length - (branch + 1);
	emit_slots(p, s + half, count - half);
}

/* Fills in the place of each first slot, or NO_PLACE. */
static void places_of(const struct steering_order *o, uint16_t place[SLOTS + 1])
{
	memset(place, 0xff, sizeof(*place) * (SLOTS + 1));
	for (uint32_t i = 0; i < o->count; i++)
		place[o->slots[i] & SLOTS] = (uint16_t)i;
}

static uint32_t steered_slots(const struct steering_order *o, const uint16_t place[SLOTS + 1],
			      struct steered_slot out[STEERING_SLOTS])
{
	uint32_t count = 0;

	for (uint32_t slot = 1; slot <= SLOTS && count < min_of(o->most, STEERING_SLOTS); slot++) {
		uint16_t owner = o->owners ? o->owners[slot] & SLOTS : 0;

		if (place[owner ?: slot] != NO_PLACE)
			out[count++] = (struct steered_slot){(uint16_t)slot, place[owner ?: slot]};
	}
	return count;
}

uint16_t steering_program(const struct steering_order *o, struct sock_filter out[STEERING_PROGRAM])
{
	struct program p = {.code = out};
	struct steered_slot slots[STEERING_SLOTS];
	uint16_t place[SLOTS + 1];

	for (size_t i = 0; i < ARRAY_SIZE(slot_of); i++)
		emit(&p, slot_of[i]);
	places_of(o, place);
	emit_slots(&p, slots, steered_slots(o, place, slots));
	for (uint32_t i = 0; i < p.length; i++)
		if (out[i].code == (BPF_JMP | BPF_JA) && out[i].k == TO_ANY)
			out[i].k = p.length - (i + 1);
	emit_any(&p, o->count);
	out[TO_SERVICES].k = p.length - (TO_SERVICES + 1);
	emit(&p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, MAD_SERVICE));
	for (uint32_t i = 0; i < o->listeners; i++)
		if (place[o->listener[i].slot & SLOTS] != NO_PLACE)
			emit_place(&p, o->listener[i].service, place[o->listener[i].slot & SLOTS]);
	emit_any(&p, o->count);
	return p.length;
}
