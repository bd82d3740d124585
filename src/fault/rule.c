/* SPDX-License-Identifier: BSD-2-Clause */
/* The parser of rules. A word that it does not know is refused, with the nearest one; so is a rule that could never
 * fire: check_rule() and what it calls. */
#include "fault/rule.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "fault/calls.h"
#include "fault/rule_words.h"
#include "wire/packet.h"

#define LARGEST_PACKET 65536u /* bytes of payload: no link carries more */
#define WORDS_MOST     64     /* that may stand in one place */

/* What may be done at which event. */
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

/* ---- words ---- */

struct parser {
	struct rule *rule;
	struct rule_error *error;
	const char *text;
	uint32_t at;			 /* the next word begins here or later */
	uint32_t from, size;		 /* the word */
	uint32_t what;			 /* bytes of rule->what */
	bool colon;			 /* the word was the last one before the colon */
	bool has_when;
};

static int refuse_word(struct parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int refuse_word(struct parser *p, const char *format, ...)
{
	va_list ap;

	p->error->at = p->from;
	p->error->length = max_of(p->size, 1u);
	va_start(ap, format);
	vsnprintf(p->error->text, sizeof(p->error->text), format, ap);
	va_end(ap);
	return -EINVAL;
}

static bool word_is(const struct parser *p, const char *name)
{
	return strlen(name) == p->size && !strncasecmp(p->text + p->from, name, p->size);
}

static void word_copy(const struct parser *p, char *out, size_t room)
{
	snprintf(out, room, "%.*s", (int)p->size, p->text + p->from);
}

/* False: there is none. A colon that ends a word is no part of it, but of an IPv6 address it is. */
static bool word_next(struct parser *p)
{
	const char *s = p->text;

	while (isspace((unsigned char)s[p->at]))
		p->at++;
	p->from = p->at;
	while (s[p->at] && !isspace((unsigned char)s[p->at]))
		p->at++;
	p->size = p->at - p->from;
	if (!p->colon && p->size && s[p->at - 1] == ':' && !(p->size > 2 && s[p->at - 2] == ':')) {
		p->colon = true;
		p->size--;
	}
	return p->size;
}

static int refuse_unknown(struct parser *p, const char *kind, const char *const *names, size_t count)
{
	char word[64];

	word_copy(p, word, sizeof(word));
	return refuse_word(p, "there is no %s '%s': did you mean %s?", kind, word, nearest_word(word, names, count));
}

static const struct rule_word *find_word(const struct parser *p, const struct rule_words *words)
{
	for (uint32_t i = 0; i < words->count; i++)
		if (word_is(p, words->row[i].name))
			return &words->row[i];
	return NULL;
}

static void add_names(const char *names[WORDS_MOST], uint32_t *count, const struct rule_words *words)
{
	for (uint32_t i = 0; i < words->count && *count < WORDS_MOST; i++)
		names[(*count)++] = words->row[i].name;
}

/* The next word is one of these. */
static int take_named(struct parser *p, const char *kind, const struct rule_words *words, uint64_t *value)
{
	const char *names[WORDS_MOST];
	const struct rule_word *found;
	uint32_t count = 0;

	if (!word_next(p))
		return refuse_word(p, "a %s is missing here, as %s", kind, words->row[0].name);
	found = find_word(p, words);
	add_names(names, &count, words);
	if (!found)
		return refuse_unknown(p, kind, names, count);
	*value = found->value;
	return 0;
}

/* ---- numbers ---- */

static const struct unit {
	const char *name;
	uint64_t factor;
} time_units[] = {{"ns", 1}, {"us", USEC}, {"ms", MSEC}, {"s", SEC}},
  counts[] = {{"", 1}, {"k", 1000}, {"M", 1000000}, {"G", 1000000000}};

/* A number and its unit, from `s` to `end`. */
static bool number_of(const char *s, const char *end, const struct unit *unit, size_t units, uint64_t *value)
{
	char text[32], *rest;
	double n;

	if (end == s || end - s >= (ptrdiff_t)sizeof(text) || !isdigit((unsigned char)*s))
		return false;
	memcpy(text, s, (size_t)(end - s));
	text[end - s] = 0;
	if (unit == counts && text[0] == '0' && text[1] == 'x') {
		*value = strtoull(text, &rest, 16);
		return !*rest && text[2];
	}
	n = strtod(text, &rest);
	for (size_t i = 0; i < units; i++)
		if (!strcmp(rest, unit[i].name) && n * (double)unit[i].factor < 9e18) {
			*value = (uint64_t)(n * (double)unit[i].factor + 0.5);
			return unit[i].factor > 1 || n == (double)*value;
		}
	return false;
}

/* "N" or "N..M". */
static int take_range(struct parser *p, bool is_time, struct rule_range *range, uint64_t least, uint64_t most)
{
	const struct unit *unit = is_time ? time_units : counts;
	const char *s, *end, *dots;

	if (!word_next(p))
		return refuse_word(p, is_time ? "a time is missing here, as 10ms" : "a number is missing here");
	s = p->text + p->from;
	end = s + p->size;
	dots = memmem(s, p->size, "..", 2);
	if (!number_of(s, dots ?: end, unit, 4, &range->from) ||
	    (dots && !number_of(dots + 2, end, unit, 4, &range->to)))
		return refuse_word(p, is_time ? "this is no time: write it as 10us, 5ms, 2s or 1ms..5ms"
					      : "this is no number: write it as 7, 0x7, 4k or 3..7");
	if (!dots)
		range->to = range->from;
	if (range->from > range->to)
		return refuse_word(p, "this range is empty: the rule could never fire");
	if (range->from < least || range->to > most)
		return refuse_word(p, "this is not between %llu and %llu: the rule could never fire",
				   (unsigned long long)least, (unsigned long long)most);
	return 0;
}

static int take_number(struct parser *p, bool is_time, uint64_t *value, uint64_t least)
{
	struct rule_range range = {0};
	int err = take_range(p, is_time, &range, least, INT64_MAX);

	*value = range.from;
	return err ?: range.from != range.to ? refuse_word(p, "one number, and not a range") : 0;
}

/* "1%", "0.5%" or "1/8" */
static int take_chance(struct parser *p)
{
	char text[32], *rest;
	double chance, of;

	if (!word_next(p))
		return refuse_word(p, "a chance is missing here, as 1%% or 1/8");
	word_copy(p, text, sizeof(text));
	chance = strtod(text, &rest);
	if (*rest == '/') {
		of = strtod(rest + 1, &rest);
		chance = of > 0 && !*rest ? chance / of : -1;
	} else {
		chance = !strcmp(rest, "%") ? chance / 100 : -1;
	}
	if (!(chance >= 0 && chance <= 1))
		return refuse_word(p, "this is no chance: write it as 1%%, 0.5%% or 1/8");
	if (chance == 0)
		return refuse_word(p, "with a chance of 0 the rule could never fire");
	p->rule->chance = chance >= 1 ? RULE_ALWAYS - 1 : (uint64_t)(chance * 18446744073709549568.0);
	return 0;
}

/* ---- what is hit ---- */

static bool set_is_empty(const struct rule_set *set)
{
	return !(set->bits[0] | set->bits[1] | set->bits[2] | set->bits[3]);
}

static void set_add(struct rule_set *set, uint32_t opcode)
{
	set->bits[opcode / 64] |= 1ull << opcode % 64;
}

/* The words that choose among the events of a kind. */
static const struct rule_words *const opcodes_of[RULE_EVENTS] = {
	[RULE_PACKET] = &rule_classes,	     [RULE_POST] = &rule_requests, [RULE_ONESIDED] = &rule_requests,
	[RULE_COMPLETE] = &rule_completions, [RULE_MAD] = &rule_mads,	   [RULE_MEMORY] = &rule_uses,
};

/* Packets that only a uroce sends: no rule hits them as such. */
static bool is_own(uint32_t opcode)
{
	return opcode >= OPCODE_CREDIT_REQUEST;
}

/* The packets that a word names: a class, a transport, an opcode with or without its transport. */
static struct rule_set packets_named(const struct parser *p)
{
	const struct rule_word *transport = find_word(p, &rule_transports), *class = find_word(p, &rule_classes);
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
			is_meant = word_is(p, name) ||
				   (o < TRANSPORT_RAW && o != OPCODE_CNP && bare && word_is(p, bare + 1));
		if (is_meant)
			set_add(&set, o);
	}
	if (word_is(p, "ACK"))
		for (uint32_t i = 0; i < rule_transports.count; i++)
			if (opcode_info[rule_transports.row[i].value | OP_ACKNOWLEDGE].name)
				set_add(&set, rule_transports.row[i].value | OP_ACKNOWLEDGE);
	return set;
}

/* The same for all other events. */
static struct rule_set opcodes_named(const struct parser *p)
{
	const struct rule_words *words = opcodes_of[p->rule->event];
	const struct rule_word *found;
	struct rule_set set = {0};

	if (p->rule->event == RULE_PACKET)
		return packets_named(p);
	found = words ? find_word(p, words) : NULL;
	if (found)
		set_add(&set, found->value);
	return set;
}

/* 1: the word is no opcode. */
static int take_opcode(struct parser *p)
{
	struct rule_set set = opcodes_named(p), *all = &p->rule->opcodes;

	if (set_is_empty(&set))
		return 1;
	for (int i = 0; i < 4; i++)
		all->bits[i] &= set.bits[i];
	if (set_is_empty(all))
		return refuse_word(p, "no packet is both this and what stands before it: the rule could never fire");
	if (p->rule->event == RULE_ONESIDED &&
	    (word_is(p, "SEND") ||
	     set.bits[0] & (1ull << IBV_WR_SEND_WITH_IMM | 1ull << IBV_WR_RDMA_WRITE_WITH_IMM |
			    1ull << IBV_WR_SEND_WITH_INV | 1ull << IBV_WR_BIND_MW | 1ull << IBV_WR_LOCAL_INV)))
		return refuse_word(
			p, "only a WRITE, a READ and an atomic are done without a packet: the rule could never fire");
	return 0;
}

static int take_peer(struct parser *p)
{
	char text[64];
	uint8_t *gid = p->rule->peer;

	if (!word_next(p))
		return refuse_word(p, "an address is missing here, as 127.0.0.1");
	word_copy(p, text, sizeof(text));
	memset(gid, 0, 16);
	gid[10] = gid[11] = 0xff;
	if (inet_pton(AF_INET, text, gid + 12) != 1 && inet_pton(AF_INET6, text, gid) != 1)
		return refuse_word(p, "this is no address: write it as 127.0.0.1 or ::1");
	p->rule->has_peer = true;
	return 0;
}

static int take_device(struct parser *p)
{
	if (p->colon || !word_next(p))
		return refuse_word(p, "the name of a device is missing here, as uroce0: see uroce devices");
	if (p->size >= RULE_DEVICE)
		return refuse_word(p, "no device has a name of more than %d characters: the rule could never fire",
				   RULE_DEVICE - 1);
	word_copy(p, p->rule->device, sizeof(p->rule->device));
	return 0;
}

/* Each device has one port. */
static int take_port(struct parser *p)
{
	uint64_t port;
	int err = take_number(p, false, &port, 0);

	return err ?: port != 1 ? refuse_word(p, "a device has one port, 1: the rule could never fire") : 0;
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
	const char *why; /* elsewhere it says nothing */
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
	[F_LOCAL] = {"local", AT(MEMORY), "is no memory"},
	[F_REMOTE] = {"remote", AT(MEMORY), "is no memory"},
	[F_REGION] = {"region", AT(MEMORY), "is no memory"},
	[F_REPEATS] = {"repeats", AT(PACKET), "is not sent again"},
};

static int take_filter(struct parser *p, enum filter_kind kind)
{
	struct rule *r = p->rule;
	uint64_t status = 0;
	int err;

	switch (kind) {
	case F_QP:
		return take_range(p, false, &r->qp, 1, INT64_MAX);
	case F_QPN:
		return take_range(p, false, &r->qpn, 1, QPN_MASK);
	case F_PSN:
		return take_range(p, false, &r->psn, 0, PSN_MASK);
	case F_SIZE:
		return take_range(p, false, &r->size, 0, r->event == RULE_PACKET ? LARGEST_PACKET : 1u << 31);
	case F_PEER:
		return take_peer(p);
	case F_DEVICE:
		return take_device(p);
	case F_PORT:
		return take_port(p);
	case F_WR_ID:
		r->has_wr_id = true;
		return take_number(p, false, &r->wr_id, 0);
	case F_STATUS:
		err = take_named(p, "status", &rule_statuses, &status);
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
		return take_range(p, false, &r->region, 1, UINT32_MAX);
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

/* A state in which what the rule hits can happen. */
static int take_while(struct parser *p)
{
	struct rule *r = p->rule;
	bool moves = r->event == RULE_PACKET || r->event == RULE_ONESIDED;
	uint64_t state = 0;
	int err = take_named(p, "state", &rule_durings, &state);

	r->during = (uint8_t)state;
	if (err)
		return err;
	if (state < WHILE_PORT_DOWN && !(OF_A_QP & 1u << r->event))
		return refuse_word(p, "what this rule hits belongs to no queue pair: the rule could never fire");
	if (moves && state == WHILE_PORT_DOWN)
		return refuse_word(p, "nothing passes while a port is down: the rule could never fire");
	if (moves && (state == WHILE_INIT || state == WHILE_ERR))
		return refuse_word(p,
				   "a queue pair in this state sends and receives nothing: the rule could never fire");
	return 0;
}

static int take_when(struct parser *p, enum when_kind kind)
{
	struct rule *r = p->rule;

	if (r->event == RULE_TIME && kind != W_AFTER)
		return refuse_word(p, "a rule of time fires once: write `time after 2s: ...`");
	p->has_when = true;
	switch (kind) {
	case W_CHANCE:
		return take_chance(p);
	case W_EVERY:
		return take_number(p, false, &r->every, 1);
	case W_NTH:
		return take_range(p, false, &r->nth, 1, INT64_MAX);
	case W_TIMES:
		return take_number(p, false, &r->times, 1);
	case W_AFTER:
		return take_number(p, true, &r->between.from, 0);
	case W_BETWEEN:
		return take_range(p, true, &r->between, 0, INT64_MAX);
	case W_WHILE:
		return take_while(p);
	}
	return 0;
}

/* Notes the words from `from` up to here, for rule_write(). */
static void note_what(struct parser *p, uint32_t from)
{
	p->what += (uint32_t)snprintf(p->rule->what + p->what, RULE_TEXT - p->what, "%s%.*s", p->what ? " " : "",
				      (int)(p->from + p->size - from), p->text + from);
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
		add_names(names, &n, opcodes_of[p->rule->event]);
	return refuse_unknown(p, "filter or opcode", names, n);
}

/* One filter or condition: the word at hand and those that belong to it. */
static int take_condition(struct parser *p)
{
	uint32_t from = p->from;
	int err;

	for (size_t i = 0; i < ARRAY_SIZE(whens); i++)
		if (word_is(p, whens[i]))
			return take_when(p, i);
	err = p->rule->event == RULE_CALL || p->rule->event == RULE_TIME ? 1 : take_opcode(p);
	if (!err)
		note_what(p, from);
	if (err <= 0)
		return err;
	for (size_t i = 0; i < ARRAY_SIZE(filters); i++) {
		if (!word_is(p, filters[i].name))
			continue;
		if (!(filters[i].events & 1u << p->rule->event))
			return refuse_word(p, "what this rule hits %s", filters[i].why);
		err = take_filter(p, i);
		if (!err && i != F_QP && i != F_REPEATS)
			note_what(p, from);
		return err;
	}
	return refuse_filter(p);
}

static int take_call(struct parser *p)
{
	if (!word_next(p))
		return refuse_word(p, "the name of a call is missing here, as ibv_reg_mr");
	for (size_t i = 0; i < RULE_CALLS; i++)
		if (word_is(p, rule_calls[i])) {
			p->rule->call = rule_calls[i];
			return 0;
		}
	return refuse_unknown(p, "call that can be refused", rule_calls, RULE_CALLS);
}

static int take_event(struct parser *p)
{
	static const char *const names[] = {"out",	"in",	"packet", "post", "complete",
					    "onesided", "call", "mad",	  "time", "memory"};
	struct rule *r = p->rule;
	size_t i = 0;
	int err = 0;

	if (!word_next(p))
		return refuse_word(p, "a rule begins with what it hits, as `out SEND chance 1%%: drop`");
	while (i < ARRAY_SIZE(names) && !word_is(p, names[i]))
		i++;
	if (i == ARRAY_SIZE(names))
		return refuse_unknown(p, "event", names, ARRAY_SIZE(names));
	r->event = i < 3 ? RULE_PACKET : (uint8_t)(i - 2);
	r->direction = i == 0 ? RULE_OUT : i == 1 ? RULE_IN : RULE_OUT | RULE_IN;
	note_what(p, p->from);
	if (r->event == RULE_CALL) {
		err = p->colon ? refuse_word(p, "the name of a call is missing, as `call ibv_reg_mr`") : take_call(p);
		if (!err)
			note_what(p, p->from);
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
	if (!word_next(p))
		return 0;
	part = find_word(p, &rule_parts);
	if (!part)
		return refuse_unknown(p, "part of a packet", (const char *const[]){"payload", "header", "icrc"}, 3);
	r->value[0] = part->value;
	if (!word_next(p))
		return 0;
	if (!word_is(p, "bit"))
		return refuse_word(p, "after the part may stand `bit` and its number");
	return take_number(p, false, &r->value[1], 0);
}

/* A number that may be left out. */
static int take_optional(struct parser *p, bool is_time, uint64_t without)
{
	struct parser ahead = *p;

	p->rule->value[0] = without;
	return word_next(&ahead) ? take_number(p, is_time, &p->rule->value[0], 1) : 0;
}

static int take_value(struct parser *p)
{
	struct rule *r = p->rule;
	struct rule_range range = {0};
	int err = 0;

	switch (r->action) {
	case DO_DELAY:
	case DO_LAST_FIRST:
		err = take_range(p, true, &range, 1, 3600 * SEC);
		break;
	case DO_REORDER:
		return take_optional(p, false, 1);
	case DO_CORRUPT:
		return take_corrupt(p);
	case DO_TRUNCATE:
		return take_number(p, false, &r->value[0], 0);
	case DO_RATE:
		return take_number(p, false, &r->value[0], 1);
	case DO_NAK:
		return take_named(p, "kind of NAK", &rule_naks, &r->value[0]);
	case DO_RNR:
		err = take_range(p, false, &range, 0, 31);
		break;
	case DO_REFUSE:
		if (r->event == RULE_ONESIDED || r->event == RULE_MEMORY)
			return 0;
		return take_named(p, "error", &rule_errnos, &r->value[0]);
	case DO_STATUS:
		err = take_named(p, "status", &rule_statuses, &r->value[0]);
		return err ?: r->value[0] ? 0 : refuse_word(p, "a completion with SUCCESS is no fault");
	case DO_REJECT:
		err = take_range(p, false, &range, 1, 65535);
		break;
	case DO_STOP:
		return take_number(p, true, &r->value[0], 1);
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

	p->colon = true; /* no word has one any more */
	if (!word_next(p))
		return refuse_word(p, "after the colon stands what is done, as drop");
	for (r->action = 0; r->action < RULE_ACTIONS && !word_is(p, rule_action_name[r->action]); r->action++)
		;
	if (r->action == RULE_ACTIONS)
		return refuse_unknown(p, "action", rule_action_name, RULE_ACTIONS);
	if (!(possible[r->action] & 1u << r->event))
		return refuse_word(
			p, "%s is nothing that can be done here: see uroce-fault(5) for what can be done to a %s",
			rule_action_name[r->action], r->event == RULE_PACKET ? "packet" : rule_event_name[r->event]);
	from = p->from;
	err = take_value(p);
	if (err)
		return err;
	if (word_next(p))
		return refuse_word(p, "the rule should end here");
	p->from = from;
	p->size = (uint32_t)strlen(rule_action_name[r->action]);
	return 0;
}

/* ---- rules that could never fire ---- */

/* Leaves the opcodes that have all these flags, of these transports. */
static bool set_keep(struct rule_set *set, uint32_t flags, bool reliable)
{
	for (uint32_t o = 0; o < 256; o++)
		if (rule_has(set, (uint8_t)o) &&
		    ((opcode_info[o].flags & flags) != flags ||
		     (reliable && TRANSPORT(o) != TRANSPORT_RC && TRANSPORT(o) != TRANSPORT_XRC)))
			set->bits[o / 64] &= ~(1ull << o % 64);
	return !set_is_empty(set);
}

static bool set_drop(struct rule_set *set, enum transport transport)
{
	for (uint32_t o = 0; o < 256; o++)
		if (TRANSPORT(o) == transport)
			set->bits[o / 64] &= ~(1ull << o % 64);
	return !set_is_empty(set);
}

static int check_packet(struct parser *p)
{
	struct rule *r = p->rule;
	bool has_payload = r->action == DO_TRUNCATE || r->action == DO_LAST_FIRST ||
			   (r->action == DO_CORRUPT && r->value[0] == PART_PAYLOAD);
	bool holds =
		r->action == DO_DELAY || r->action == DO_REORDER || r->action == DO_RATE || r->action == DO_LAST_FIRST;
	bool refuses = r->action == DO_NAK || r->action == DO_RNR || r->action == DO_REVOKE;

	if (has_payload && (!set_keep(&r->opcodes, HAS_PAYLOAD, false) || r->size.to == 0))
		return refuse_word(p, "these packets have no payload: the rule could never fire");
	if (r->action == DO_TRUNCATE && r->value[0] >= r->size.to)
		return refuse_word(p, "these packets are no longer than that: the rule could never fire");
	if (has_payload)
		r->size.from = max_of(r->size.from, r->action == DO_TRUNCATE ? r->value[0] + 1 : 1);
	if (holds && r->direction == RULE_IN && !set_drop(&r->opcodes, TRANSPORT_XRC))
		return refuse_word(p, "what comes in by XRC is not held: begin the rule with `out`");
	if (refuses && r->direction == RULE_OUT)
		return refuse_word(p, "only what comes in can be refused: begin the rule with `in`");
	if (refuses)
		r->direction = RULE_IN;
	if (refuses && !set_keep(&r->opcodes, r->action == DO_REVOKE ? IS_REQUEST | HAS_RETH : IS_REQUEST, true))
		return refuse_word(
			p, r->action == DO_REVOKE
				   ? "only a WRITE or a READ names a region: the rule could never fire"
				   : "only requests of RC and XRC are answered by a NAK: the rule could never fire");
	if (r->action == DO_RNR && !set_keep(&r->opcodes, IS_FIRST, true))
		return refuse_word(p, "only the first packet of a message finds no receive: the rule could never fire");
	return 0;
}

/* Leaves what brings bytes to memory where a program may look at them before a completion. */
static bool set_keep_placed(struct rule_set *set)
{
	for (uint32_t o = 0; o < 256; o++) {
		uint32_t flags = opcode_info[o].flags;
		bool placed = flags & IS_REQUEST ? flags & (IS_WRITE | IS_SEND) : flags & IS_READ;

		if (TRANSPORT(o) != TRANSPORT_RC || !(flags & HAS_PAYLOAD) || !placed)
			set->bits[o / 64] &= ~(1ull << o % 64);
	}
	return !set_is_empty(set);
}

static int check_last_first(struct parser *p)
{
	struct rule *r = p->rule;

	if (r->action != DO_LAST_FIRST)
		return 0;
	if (r->direction == RULE_OUT)
		return refuse_word(p, "it is done where the packet arrives: begin the rule with `in`");
	r->direction = RULE_IN;
	if (!set_keep_placed(&r->opcodes))
		return refuse_word(p, "only a WRITE, SEND or READ response of RC is put to memory in two steps: the "
				      "rule could never fire");
	r->size.from = max_of(r->size.from, (uint64_t)2);
	if (r->size.to < 2)
		return refuse_word(p, "these packets have no two bytes: the rule could never fire");
	return 0;
}

/* Which states a packet is sent and received in: IBTA 10.3.1. */
static int check_while(struct parser *p)
{
	struct rule *r = p->rule;
	bool sends = r->event == RULE_POST || r->event == RULE_ONESIDED ||
		     (r->event == RULE_PACKET && r->direction == RULE_OUT);
	struct rule_set requests = r->opcodes;

	if (r->during == WHILE_INIT && r->event == RULE_POST)
		return refuse_word(p, "no request is posted while INIT: the rule could never fire");
	if (r->during == WHILE_RTR && sends && (r->event != RULE_PACKET || !set_keep(&requests, IS_RESPONSE, false)))
		return refuse_word(p, "no request is sent while RTR: the rule could never fire");
	return 0;
}

/* Only a peer's atomic is done to memory; its answer is written. */
static int check_memory(struct parser *p)
{
	const struct rule *r = p->rule;

	if (r->direction == RULE_LOCAL && !(r->opcodes.bits[0] & (1u << USE_READ | 1u << USE_WRITE)))
		return refuse_word(p, "an atomic is done to the memory of its peer: the rule could never fire");
	if (r->direction == RULE_REMOTE && r->has_wr_id)
		return refuse_word(p, "what a peer asks for has no wr_id: the rule could never fire");
	return 0;
}

static int check_rule(struct parser *p)
{
	struct rule *r = p->rule;

	if (r->nth.to / r->every * r->every < r->nth.from)
		return refuse_word(p, "none of %llu..%llu is a multiple of %llu: the rule could never fire",
				   (unsigned long long)r->nth.from, (unsigned long long)r->nth.to,
				   (unsigned long long)r->every);
	if (r->event == RULE_TIME && !p->has_when)
		return refuse_word(p, "when? Write `time after 2s: ...`");
	if (r->action == DO_REJECT && !rule_has(&r->opcodes, 0x10))
		return refuse_word(p, "only a REQ is rejected: the rule could never fire");
	if (r->action == DO_REJECT)
		r->opcodes = (struct rule_set){{1u << 0x10}};
	if (r->action == DO_REJECT && r->direction == RULE_OUT)
		return refuse_word(p, "only what comes in is rejected: write `mad in ...`");
	if (r->action == DO_REJECT)
		r->direction = RULE_IN;
	if (r->action == DO_WAKE && r->call != rule_calls[CALL_ibv_req_notify_cq])
		return refuse_word(p, "only `call ibv_req_notify_cq` brings an event: the rule could never fire");
	if (r->call == rule_calls[CALL_ibv_req_notify_cq] && r->action == DO_REFUSE)
		return refuse_word(p, "no adapter refuses this: write `call ibv_req_notify_cq ...: wake`");
	if (r->event == RULE_CALL && r->action == DO_DUPLICATE && r->call != rule_calls[CALL_ibv_get_async_event])
		return refuse_word(p,
				   "only `call ibv_get_async_event` brings an event twice: the rule could never fire");
	if (r->call == rule_calls[CALL_ibv_get_async_event] && r->action == DO_REFUSE)
		return refuse_word(p, "no adapter refuses this: write `call ibv_get_async_event ...: duplicate`");
	if (r->event == RULE_MEMORY)
		return check_memory(p);
	return check_while(p) ?: r->event == RULE_PACKET ? check_packet(p) ?: check_last_first(p) : 0;
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
	struct parser p = {.rule = rule, .error = error, .text = text};
	int err;

	rule_init(rule);
	*error = (struct rule_error){0};
	if (strlen(text) >= RULE_TEXT) {
		p.size = 1;
		return refuse_word(&p, "a rule has at most %d characters", RULE_TEXT - 1);
	}
	snprintf(rule->text, sizeof(rule->text), "%s", text);
	err = take_event(&p);
	rule->opcodes = all_opcodes(rule->event);
	while (!err && !p.colon) {
		if (word_next(&p))
			err = take_condition(&p);
		else if (!p.colon)
			err = refuse_word(&p, "a colon is missing, and after it what is done, as `: drop`");
	}
	if (!err)
		err = take_action(&p);
	if (!err)
		err = check_rule(&p);
	if (!p.has_when)
		rule->repeats = true; /* it hits whatever it meets */
	return err;
}
