/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/rule_can_fire.h"

#include "fault/calls.h"
#include "wire/packet.h"

/* Keeps the opcodes that have all these flags, of these transports. */
static bool set_keep(struct rule_set *set, uint32_t flags, bool reliable)
{
	for (uint32_t o = 0; o < 256; o++)
		if (rule_has(set, (uint8_t)o) &&
		    ((opcode_info[o].flags & flags) != flags ||
		     (reliable && TRANSPORT(o) != TRANSPORT_RC && TRANSPORT(o) != TRANSPORT_XRC)))
			set->bits[o / 64] &= ~(1ull << o % 64);
	return !rule_set_is_empty(set);
}

static bool set_drop(struct rule_set *set, enum transport transport)
{
	for (uint32_t o = 0; o < 256; o++)
		if (TRANSPORT(o) == transport)
			set->bits[o / 64] &= ~(1ull << o % 64);
	return !rule_set_is_empty(set);
}

static int check_packet(struct scan *s, struct rule *r)
{
	bool has_payload = r->action == DO_TRUNCATE || r->action == DO_LAST_FIRST ||
			   (r->action == DO_CORRUPT && r->value[0] == PART_PAYLOAD);
	bool holds =
		r->action == DO_DELAY || r->action == DO_REORDER || r->action == DO_RATE || r->action == DO_LAST_FIRST;
	bool refuses = r->action == DO_NAK || r->action == DO_RNR || r->action == DO_REVOKE;

	if (has_payload && (!set_keep(&r->opcodes, HAS_PAYLOAD, false) || r->size.to == 0))
		return scan_refuse(s, "these packets have no payload: the rule could never fire");
	if (r->action == DO_TRUNCATE && r->value[0] >= r->size.to)
		return scan_refuse(s, "these packets are no longer than that: the rule could never fire");
	if (has_payload)
		r->size.from = max_of(r->size.from, r->action == DO_TRUNCATE ? r->value[0] + 1 : 1);
	if (holds && r->direction == RULE_IN && !set_drop(&r->opcodes, TRANSPORT_XRC))
		return scan_refuse(s, "incoming packets of XRC cannot be held back: begin the rule with `out`");
	if (refuses && r->direction == RULE_OUT)
		return scan_refuse(s, "only incoming packets can be refused: begin the rule with `in`");
	if (refuses)
		r->direction = RULE_IN;
	if (refuses && !set_keep(&r->opcodes, r->action == DO_REVOKE ? IS_REQUEST | HAS_RETH : IS_REQUEST, true))
		return scan_refuse(
			s, r->action == DO_REVOKE
				   ? "only a WRITE or a READ names a region: the rule could never fire"
				   : "only requests of RC and XRC are answered by a NAK: the rule could never fire");
	if (r->action == DO_RNR && !set_keep(&r->opcodes, IS_FIRST, true))
		return scan_refuse(s, "only the first packet of a message finds no receive: the rule could never fire");
	return 0;
}

/* Keeps the opcodes whose payload reaches memory where a program may look at it before a completion. */
static bool set_keep_placed(struct rule_set *set)
{
	for (uint32_t o = 0; o < 256; o++) {
		uint32_t flags = opcode_info[o].flags;
		bool placed = flags & IS_REQUEST ? flags & (IS_WRITE | IS_SEND) : flags & IS_READ;

		if (TRANSPORT(o) != TRANSPORT_RC || !(flags & HAS_PAYLOAD) || !placed)
			set->bits[o / 64] &= ~(1ull << o % 64);
	}
	return !rule_set_is_empty(set);
}

static int check_last_first(struct scan *s, struct rule *r)
{
	if (r->action != DO_LAST_FIRST)
		return 0;
	if (r->direction == RULE_OUT)
		return scan_refuse(s, "last-first is done where the packet arrives: begin the rule with `in`");
	r->direction = RULE_IN;
	if (!set_keep_placed(&r->opcodes))
		return scan_refuse(s, "only a WRITE, SEND or READ response of RC is stored in two steps: the "
				      "rule could never fire");
	r->size.from = max_of(r->size.from, (uint64_t)2);
	if (r->size.to < 2)
		return scan_refuse(s, "these packets have less than two bytes of payload: the rule could never fire");
	return 0;
}

/* Checks `while` against the states in which packets are sent and received: IBTA 10.3.1. */
static int check_while(struct scan *s, struct rule *r)
{
	bool sends = r->event == RULE_POST || r->event == RULE_ONESIDED ||
		     (r->event == RULE_PACKET && r->direction == RULE_OUT);
	struct rule_set requests = r->opcodes;

	if (r->during == WHILE_INIT && r->event == RULE_POST)
		return scan_refuse(s, "no request is posted while INIT: the rule could never fire");
	if (r->during == WHILE_RTR && sends && (r->event != RULE_PACKET || !set_keep(&requests, IS_RESPONSE, false)))
		return scan_refuse(s, "no request is sent while RTR: the rule could never fire");
	return 0;
}

/* Only a peer's atomic is an event of memory; its response is a WRITE. */
static int check_memory(struct scan *s, struct rule *r)
{
	if (r->direction == RULE_LOCAL && !(r->opcodes.bits[0] & (1u << USE_READ | 1u << USE_WRITE)))
		return scan_refuse(s, "a local atomic accesses the peer's memory: the rule could never fire");
	if (r->direction == RULE_REMOTE && r->has_wr_id)
		return scan_refuse(s, "a request of a peer has no wr_id: the rule could never fire");
	return 0;
}

int rule_can_fire(struct scan *s, struct rule *r, bool has_when)
{
	if (r->nth.to / r->every * r->every < r->nth.from)
		return scan_refuse(s, "none of %llu..%llu is a multiple of %llu: the rule could never fire",
				   (unsigned long long)r->nth.from, (unsigned long long)r->nth.to,
				   (unsigned long long)r->every);
	if (r->event == RULE_TIME && !has_when)
		return scan_refuse(s, "a time is missing: write `time after 2s: ...`");
	if (r->action == DO_REJECT && !rule_has(&r->opcodes, 0x10))
		return scan_refuse(s, "only a REQ is rejected: the rule could never fire");
	if (r->action == DO_REJECT)
		r->opcodes = (struct rule_set){{1u << 0x10}};
	if (r->action == DO_REJECT && r->direction == RULE_OUT)
		return scan_refuse(s, "only incoming messages are rejected: write `mad in ...`");
	if (r->action == DO_REJECT)
		r->direction = RULE_IN;
	if (r->action == DO_WAKE && r->call != rule_calls[CALL_ibv_req_notify_cq])
		return scan_refuse(s, "only `call ibv_req_notify_cq` brings an event: the rule could never fire");
	if (r->call == rule_calls[CALL_ibv_req_notify_cq] && r->action == DO_REFUSE)
		return scan_refuse(s, "adapters do not refuse this call: write `call ibv_req_notify_cq ...: wake`");
	if (r->event == RULE_CALL && r->action == DO_DUPLICATE && r->call != rule_calls[CALL_ibv_get_async_event])
		return scan_refuse(s,
				   "only `call ibv_get_async_event` brings an event twice: the rule could never fire");
	if (r->call == rule_calls[CALL_ibv_get_async_event] && r->action == DO_REFUSE)
		return scan_refuse(s,
				   "adapters do not refuse this call: write `call ibv_get_async_event ...: duplicate`");
	if (r->event == RULE_MEMORY)
		return check_memory(s, r);
	return check_while(s, r) ?: r->event == RULE_PACKET ? check_packet(s, r) ?: check_last_first(s, r) : 0;
}
