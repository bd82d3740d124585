/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/rule_parse.h"

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

#include "fault/calls.h"
#include "fault/rule_can_fire.h"
#include "fault/rule_scan.h"
#include "wire/packet.h"

#define LARGEST_PACKET 65536u /* bytes of payload: no link carries more */

/* Events at which each action may be done. */
#define AT(event)   (1u << RULE_##event)
#define ANYWHERE    (AT(PACKET) | AT(POST) | AT(COMPLETE) | AT(ONESIDED) | AT(CALL) | AT(MAD) | AT(TIME) | AT(MEMORY))
#define OF_A_QP	    (AT(PACKET) | AT(POST) | AT(COMPLETE) | AT(ONESIDED) | AT(MEMORY))
#define OF_A_DEVICE (OF_A_QP | AT(MAD) | AT(TIME))
static const uint8_t possible[RULE_ACTIONS] = {
	[DO_DROP] = AT(PACKET) | AT(MAD),
	[DO_DUPLICATE] = AT(PACKET) | AT(MAD) | AT(CALL),
	[DO_DELAY] = AT(PACKET) | AT(POST) | AT(MEMORY),
	[DO_REORDER] = AT(PACKET),
	[DO_CORRUPT] = AT(PACKET),
	[DO_TRUNCATE] = AT(PACKET),
	[DO_RATE] = AT(PACKET),
	[DO_PARTITION] = AT(PACKET) | AT(MAD),
	[DO_NAK] = AT(PACKET),
	[DO_RNR] = AT(PACKET),
	[DO_LAST_FIRST] = AT(PACKET),
	[DO_REVOKE] = AT(PACKET) | AT(POST) | AT(MEMORY),
	[DO_REFUSE] = AT(POST) | AT(CALL) | AT(ONESIDED) | AT(MEMORY),
	[DO_STATUS] = AT(COMPLETE),
	[DO_WAKE] = AT(CALL),
	[DO_OVERRUN] = AT(COMPLETE),
	[DO_REJECT] = AT(MAD),
	[DO_STOP] = OF_A_QP,
	[DO_KILL] = OF_A_QP,
	[DO_PORT_DOWN] = ANYWHERE,
	[DO_GID_GONE] = ANYWHERE,
	[DO_FATAL] = ANYWHERE,
};

struct parser {
	struct scan scan;
	struct rule *rule;
	uint32_t what; /* length of rule->what */
	bool has_when;
};

/* ---- what is hit ---- */

static void set_add(struct rule_set *set, uint32_t opcode)
{
	set->bits[opcode / 64] |= 1ull << opcode % 64;
}

/* Opcode words of each event. */
static const struct rule_words *const opcodes_of[RULE_EVENTS] = {
	[RULE_PACKET] = &rule_classes,	     [RULE_POST] = &rule_requests, [RULE_ONESIDED] = &rule_requests,
	[RULE_COMPLETE] = &rule_completions, [RULE_MAD] = &rule_mads,	   [RULE_MEMORY] = &rule_uses,
};

/* True of opcodes of uroce's own protocol, which rules must not name. */
static bool is_own(uint32_t opcode)
{
	return opcode >= OPCODE_CREDIT_REQUEST;
}

/* The packets that a word names: a class, a transport, or an opcode with or without a transport. */
static struct rule_set packets_named(const struct parser *p)
{
	const struct rule_word *transport = scan_find(&p->scan, &rule_transports),
			       *class = scan_find(&p->scan, &rule_classes);
	struct rule_set set = {0};
	uint32_t with = class ? class->value : 0;

	for (uint32_t o = 0; o < 256; o++) {
		const char *name = opcode_info[o].name, *bare = name ? strchr(name, '_') : NULL;
		bool is_meant;

		if (!name || is_own(o))
			continue;
		if (transport)
			is_meant = TRANSPORT(o) == transport->value;
		else if (with)
			is_meant = (opcode_info[o].flags & with) == with;
		else
			is_meant = scan_is(&p->scan, name) ||
				   (o < TRANSPORT_RAW && o != OPCODE_CNP && bare && scan_is(&p->scan, bare + 1));
		if (is_meant)
			set_add(&set, o);
	}
	if (scan_is(&p->scan, "ACK"))
		for (uint32_t i = 0; i < rule_transports.count; i++)
			if (opcode_info[rule_transports.row[i].value | OP_ACKNOWLEDGE].name)
				set_add(&set, rule_transports.row[i].value | OP_ACKNOWLEDGE);
	return set;
}

/* The opcodes that a word names, for the rule's event. */
static struct rule_set opcodes_named(const struct parser *p)
{
	const struct rule_words *words = opcodes_of[p->rule->event];
	const struct rule_word *found;
	struct rule_set set = {0};

	if (p->rule->event == RULE_PACKET)
		return packets_named(p);
	found = words ? scan_find(&p->scan, words) : NULL;
	if (found)
		set_add(&set, found->value);
	return set;
}

/* Keeps the opcodes that the current word names. 1 if the word is no opcode. */
static int take_opcode(struct parser *p)
{
	struct rule_set set = opcodes_named(p), *all = &p->rule->opcodes;

	if (rule_set_is_empty(&set))
		return 1;
	for (int i = 0; i < 4; i++)
		all->bits[i] &= set.bits[i];
	if (rule_set_is_empty(all))
		return scan_refuse(&p->scan,
				   "no packet is both this and the word before it: the rule could never fire");
	if (p->rule->event == RULE_ONESIDED &&
	    (scan_is(&p->scan, "SEND") ||
	     set.bits[0] & (1ull << IBV_WR_SEND_WITH_IMM | 1ull << IBV_WR_RDMA_WRITE_WITH_IMM |
			    1ull << IBV_WR_SEND_WITH_INV | 1ull << IBV_WR_BIND_MW | 1ull << IBV_WR_LOCAL_INV)))
		return scan_refuse(
			&p->scan,
			"only a WRITE, a READ and an atomic are done without a packet: the rule could never fire");
	return 0;
}

static int take_peer(struct parser *p)
{
	char text[64];
	uint8_t *gid = p->rule->peer;

	if (!scan_next(&p->scan))
		return scan_refuse(&p->scan, "an address is missing here, such as 127.0.0.1");
	scan_copy(&p->scan, text, sizeof(text));
	memset(gid, 0, 16);
	gid[10] = gid[11] = 0xff;
	if (inet_pton(AF_INET, text, gid + 12) != 1 && inet_pton(AF_INET6, text, gid) != 1)
		return scan_refuse(&p->scan, "not an address: write 127.0.0.1 or ::1");
	p->rule->has_peer = true;
	return 0;
}

static int take_device(struct parser *p)
{
	if (p->scan.colon || !scan_next(&p->scan))
		return scan_refuse(&p->scan, "the name of a device is missing here, such as uroce0: see uroce devices");
	if (p->scan.size >= RULE_DEVICE)
		return scan_refuse(&p->scan,
				   "no device has a name of more than %d characters: the rule could never fire",
				   RULE_DEVICE - 1);
	scan_copy(&p->scan, p->rule->device, sizeof(p->rule->device));
	return 0;
}

/* Takes the number of a port, of which a device has one. */
static int take_port(struct parser *p)
{
	uint64_t port;
	int err = scan_number(&p->scan, false, &port, 0);

	return err ?: port != 1 ? scan_refuse(&p->scan, "a device has one port, 1: the rule could never fire") : 0;
}

enum filter_kind {
	F_QP,
	F_QPN,
	F_PSN,
	F_SIZE,
	F_PEER,
	F_DEVICE,
	F_PORT,
	F_WR_ID,
	F_STATUS,
	F_IN,
	F_OUT,
	F_LOCAL,
	F_REMOTE,
	F_REGION,
	F_REPEATS,
};

static const struct {
	const char *name;
	uint8_t events;
	const char *why; /* reason why events other than `events` have no such filter */
} filters[] = {
	[F_QP] = {"qp", OF_A_QP, "belongs to no queue pair"},
	[F_QPN] = {"qpn", OF_A_QP, "belongs to no queue pair"},
	[F_PSN] = {"psn", AT(PACKET), "has no PSN"},
	[F_SIZE] = {"size", AT(PACKET) | AT(POST) | AT(COMPLETE) | AT(ONESIDED) | AT(MEMORY), "has no size"},
	[F_PEER] = {"peer", OF_A_QP | AT(MAD), "has no peer"},
	[F_DEVICE] = {"device", OF_A_DEVICE, "belongs to no device"},
	[F_PORT] = {"port", OF_A_DEVICE, "belongs to no device"},
	[F_WR_ID] = {"wr_id", AT(POST) | AT(COMPLETE) | AT(ONESIDED) | AT(MEMORY), "has no wr_id"},
	[F_STATUS] = {"with", AT(COMPLETE), "has no status"},
	[F_IN] = {"in", AT(MAD), "has no direction"},
	[F_OUT] = {"out", AT(MAD), "has no direction"},
	[F_LOCAL] = {"local", AT(MEMORY), "accesses no memory"},
	[F_REMOTE] = {"remote", AT(MEMORY), "accesses no memory"},
	[F_REGION] = {"region", AT(MEMORY), "accesses no memory"},
	[F_REPEATS] = {"repeats", AT(PACKET), "is never retransmitted"},
};

static int take_filter(struct parser *p, enum filter_kind kind)
{
	struct rule *r = p->rule;
	uint64_t status = 0;
	int err;

	switch (kind) {
	case F_QP:
		return scan_range(&p->scan, false, &r->qp, 1, INT64_MAX);
	case F_QPN:
		return scan_range(&p->scan, false, &r->qpn, 1, QPN_MASK);
	case F_PSN:
		return scan_range(&p->scan, false, &r->psn, 0, PSN_MASK);
	case F_SIZE:
		return scan_range(&p->scan, false, &r->size, 0, r->event == RULE_PACKET ? LARGEST_PACKET : 1u << 31);
	case F_PEER:
		return take_peer(p);
	case F_DEVICE:
		return take_device(p);
	case F_PORT:
		return take_port(p);
	case F_WR_ID:
		r->has_wr_id = true;
		return scan_number(&p->scan, false, &r->wr_id, 0);
	case F_STATUS:
		err = scan_named(&p->scan, "status", &rule_statuses, &status);
		r->completes = (struct rule_range){status, status};
		return err;
	case F_IN:
	case F_OUT:
		r->direction = kind == F_IN ? RULE_IN : RULE_OUT;
		return 0;
	case F_LOCAL:
	case F_REMOTE:
		r->direction = kind == F_REMOTE ? RULE_REMOTE : RULE_LOCAL;
		return 0;
	case F_REGION:
		return scan_range(&p->scan, false, &r->region, 1, UINT32_MAX);
	case F_REPEATS:
		r->repeats = true;
		return 0;
	}
	return 0;
}

/* ---- when ---- */

enum when_kind { W_CHANCE, W_EVERY, W_NTH, W_TIMES, W_AFTER, W_BETWEEN, W_WHILE };

static const char *const whens[] = {
	[W_CHANCE] = "chance", [W_EVERY] = "every",	[W_NTH] = "nth",     [W_TIMES] = "times",
	[W_AFTER] = "after",   [W_BETWEEN] = "between", [W_WHILE] = "while",
};

/* Takes a state of `while`, if the rule's event can happen in it. */
static int take_while(struct parser *p)
{
	struct rule *r = p->rule;
	bool moves = r->event == RULE_PACKET || r->event == RULE_ONESIDED;
	uint64_t state = 0;
	int err = scan_named(&p->scan, "state", &rule_durings, &state);

	r->during = (uint8_t)state;
	if (err)
		return err;
	if (state < WHILE_PORT_DOWN && !(OF_A_QP & 1u << r->event))
		return scan_refuse(&p->scan,
				   "the event of this rule belongs to no queue pair: the rule could never fire");
	if (moves && state == WHILE_PORT_DOWN)
		return scan_refuse(&p->scan, "nothing passes while a port is down: the rule could never fire");
	if (moves && (state == WHILE_INIT || state == WHILE_ERR))
		return scan_refuse(&p->scan,
				   "a queue pair in this state sends and receives nothing: the rule could never fire");
	return 0;
}

static int take_when(struct parser *p, enum when_kind kind)
{
	struct rule *r = p->rule;

	if (r->event == RULE_TIME && kind != W_AFTER)
		return scan_refuse(&p->scan, "a rule of time fires once: write `time after 2s: ...`");
	p->has_when = true;
	switch (kind) {
	case W_CHANCE:
		return scan_probability(&p->scan, &p->rule->chance);
	case W_EVERY:
		return scan_number(&p->scan, false, &r->every, 1);
	case W_NTH:
		return scan_range(&p->scan, false, &r->nth, 1, INT64_MAX);
	case W_TIMES:
		return scan_number(&p->scan, false, &r->times, 1);
	case W_AFTER:
		return scan_number(&p->scan, true, &r->between.from, 0);
	case W_BETWEEN:
		return scan_range(&p->scan, true, &r->between, 0, INT64_MAX);
	case W_WHILE:
		return take_while(p);
	}
	return 0;
}

/* Copies the words from `from` up to here into rule->what, for rule_write(). */
static void note_what(struct parser *p, uint32_t from)
{
	p->what += (uint32_t)snprintf(p->rule->what + p->what, RULE_TEXT - p->what, "%s%.*s", p->what ? " " : "",
				      (int)(p->scan.from + p->scan.size - from), p->scan.text + from);
}

static int refuse_filter(struct parser *p)
{
	const char *names[WORDS_MOST];
	uint32_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(filters); i++)
		names[n++] = filters[i].name;
	for (size_t i = 0; i < ARRAY_SIZE(whens); i++)
		names[n++] = whens[i];
	if (opcodes_of[p->rule->event])
		scan_add_names(names, &n, opcodes_of[p->rule->event]);
	return scan_refuse_unknown(&p->scan, "filter or opcode", names, n);
}

/* Takes one filter or condition: the current word and its arguments. */
static int take_condition(struct parser *p)
{
	uint32_t from = p->scan.from;
	int err;

	for (size_t i = 0; i < ARRAY_SIZE(whens); i++)
		if (scan_is(&p->scan, whens[i]))
			return take_when(p, i);
	err = p->rule->event == RULE_CALL || p->rule->event == RULE_TIME ? 1 : take_opcode(p);
	if (!err)
		note_what(p, from);
	if (err <= 0)
		return err;
	for (size_t i = 0; i < ARRAY_SIZE(filters); i++) {
		if (!scan_is(&p->scan, filters[i].name))
			continue;
		if (!(filters[i].events & 1u << p->rule->event))
			return scan_refuse(&p->scan, "the event of this rule %s", filters[i].why);
		err = take_filter(p, i);
		if (!err && i != F_QP && i != F_REPEATS)
			note_what(p, from);
		return err;
	}
	return refuse_filter(p);
}

static int take_call(struct parser *p)
{
	if (!scan_next(&p->scan))
		return scan_refuse(&p->scan, "the name of a call is missing here, such as ibv_reg_mr");
	for (size_t i = 0; i < RULE_CALLS; i++)
		if (scan_is(&p->scan, rule_calls[i])) {
			p->rule->call = rule_calls[i];
			return 0;
		}
	return scan_refuse_unknown(&p->scan, "call that can be refused", rule_calls, RULE_CALLS);
}

static int take_event(struct parser *p)
{
	static const char *const names[] = {"out",	"in",	"packet", "post", "complete",
					    "onesided", "call", "mad",	  "time", "memory"};
	struct rule *r = p->rule;
	size_t i = 0;
	int err = 0;

	if (!scan_next(&p->scan))
		return scan_refuse(&p->scan, "a rule begins with an event, such as `out SEND chance 1%%: drop`");
	while (i < ARRAY_SIZE(names) && !scan_is(&p->scan, names[i]))
		i++;
	if (i == ARRAY_SIZE(names))
		return scan_refuse_unknown(&p->scan, "event", names, ARRAY_SIZE(names));
	r->event = i < 3 ? RULE_PACKET : (uint8_t)(i - 2);
	r->direction = i == 0 ? RULE_OUT : i == 1 ? RULE_IN : RULE_OUT | RULE_IN;
	note_what(p, p->scan.from);
	if (r->event == RULE_CALL) {
		err = p->scan.colon ? scan_refuse(&p->scan, "the name of a call is missing, such as `call ibv_reg_mr`")
				    : take_call(p);
		if (!err)
			note_what(p, p->scan.from);
	}
	return err;
}

/* ---- what is done ---- */

static int take_corrupt(struct parser *p)
{
	struct rule *r = p->rule;
	const struct rule_word *part;

	r->value[0] = PART_PAYLOAD;
	r->value[1] = UINT64_MAX;
	if (!scan_next(&p->scan))
		return 0;
	part = scan_find(&p->scan, &rule_parts);
	if (!part)
		return scan_refuse_unknown(&p->scan, "part of a packet",
					   (const char *const[]){"payload", "header", "icrc"}, 3);
	r->value[0] = part->value;
	if (!scan_next(&p->scan))
		return 0;
	if (!scan_is(&p->scan, "bit"))
		return scan_refuse(&p->scan, "only `bit` and its number may follow the part");
	return scan_number(&p->scan, false, &r->value[1], 0);
}

/* Takes an optional number; `without` if it is missing. */
static int take_optional(struct parser *p, bool is_time, uint64_t without)
{
	struct scan ahead = p->scan;

	p->rule->value[0] = without;
	return scan_next(&ahead) ? scan_number(&p->scan, is_time, &p->rule->value[0], 1) : 0;
}

static int take_value(struct parser *p)
{
	struct rule *r = p->rule;
	struct rule_range range = {0};
	int err = 0;

	switch (r->action) {
	case DO_DELAY:
	case DO_LAST_FIRST:
		err = scan_range(&p->scan, true, &range, 1, 3600 * SEC);
		break;
	case DO_REORDER:
		return take_optional(p, false, 1);
	case DO_CORRUPT:
		return take_corrupt(p);
	case DO_TRUNCATE:
		return scan_number(&p->scan, false, &r->value[0], 0);
	case DO_RATE:
		return scan_number(&p->scan, false, &r->value[0], 1);
	case DO_NAK:
		return scan_named(&p->scan, "kind of NAK", &rule_naks, &r->value[0]);
	case DO_RNR:
		err = scan_range(&p->scan, false, &range, 0, 31);
		break;
	case DO_REFUSE:
		if (r->event == RULE_ONESIDED || r->event == RULE_MEMORY)
			return 0;
		return scan_named(&p->scan, "error", &rule_errnos, &r->value[0]);
	case DO_STATUS:
		err = scan_named(&p->scan, "status", &rule_statuses, &r->value[0]);
		return err ?: r->value[0] ? 0 : scan_refuse(&p->scan, "a completion with SUCCESS is not an error");
	case DO_REJECT:
		err = scan_range(&p->scan, false, &range, 1, 65535);
		break;
	case DO_STOP:
		return scan_number(&p->scan, true, &r->value[0], 1);
	case DO_PORT_DOWN:
	case DO_GID_GONE:
		return take_optional(p, true, UINT64_MAX);
	default:
		break;
	}
	r->value[0] = range.from;
	r->value[1] = range.to;
	return err;
}

static int take_action(struct parser *p)
{
	struct rule *r = p->rule;
	uint32_t from;
	int err;

	p->scan.colon = true; /* further colons belong to words */
	if (!scan_next(&p->scan))
		return scan_refuse(&p->scan, "an action is missing after the colon, such as drop");
	for (r->action = 0; r->action < RULE_ACTIONS && !scan_is(&p->scan, rule_action_name[r->action]); r->action++)
		;
	if (r->action == RULE_ACTIONS)
		return scan_refuse_unknown(&p->scan, "action", rule_action_name, RULE_ACTIONS);
	if (!(possible[r->action] & 1u << r->event))
		return scan_refuse(&p->scan, "%s cannot be done to a %s: uroce-fault(5) has the actions",
				   rule_action_name[r->action],
				   r->event == RULE_PACKET ? "packet" : rule_event_name[r->event]);
	from = p->scan.from;
	err = take_value(p);
	if (err)
		return err;
	if (scan_next(&p->scan))
		return scan_refuse(&p->scan, "the rule should end before this");
	p->scan.from = from;
	p->scan.size = (uint32_t)strlen(rule_action_name[r->action]);
	return 0;
}

static struct rule_set all_opcodes(enum rule_event event)
{
	struct rule_set set = {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}};

	if (event == RULE_PACKET)
		for (uint32_t o = 0; o < 256; o++)
			if (!opcode_info[o].name || is_own(o))
				set.bits[o / 64] &= ~(1ull << o % 64);
	return set;
}

static void rule_init(struct rule *rule)
{
	*rule = (struct rule){
		.qp = RULE_ANY,
		.qpn = RULE_ANY,
		.psn = RULE_ANY,
		.size = RULE_ANY,
		.region = RULE_ANY,
		.completes = {IBV_WC_SUCCESS, IBV_WC_SUCCESS},
		.nth = {1, UINT64_MAX},
		.every = 1,
		.chance = RULE_ALWAYS,
		.between = RULE_ANY,
		.times = UINT64_MAX,
	};
}

int rule_parse(struct rule *rule, const char *text, struct rule_error *error)
{
	struct parser p = {.scan = {.error = error, .text = text}, .rule = rule};
	int err;

	rule_init(rule);
	*error = (struct rule_error){0};
	if (strlen(text) >= RULE_TEXT) {
		p.scan.size = 1;
		return scan_refuse(&p.scan, "a rule has at most %d characters", RULE_TEXT - 1);
	}
	snprintf(rule->text, sizeof(rule->text), "%s", text);
	err = take_event(&p);
	rule->opcodes = all_opcodes(rule->event);
	while (!err && !p.scan.colon) {
		if (scan_next(&p.scan))
			err = take_condition(&p);
		else if (!p.scan.colon)
			err = scan_refuse(&p.scan, "a colon and an action are missing, such as `: drop`");
	}
	if (!err)
		err = take_action(&p);
	if (!err)
		err = rule_can_fire(&p.scan, rule, p.has_when);
	if (!p.has_when)
		rule->repeats = true; /* without a condition, retransmissions match too */
	return err;
}
