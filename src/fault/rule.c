/* SPDX-License-Identifier: BSD-2-Clause */
/* The parser of rules. A word that it does not know is refused, with the nearest one; so is a rule that could never
 * fire: check_rule() and what it calls. */
#include "fault/rule.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/nearest.h"
#include "fault/calls.h"
#include "wire/packet.h"

#define FILE_LARGEST   65536  /* bytes of a file of rules */
#define LARGEST_PACKET 65536u /* bytes of payload: no link carries more */

const char *const rule_event_name[RULE_EVENTS] = {
	[RULE_PACKET] = "packet", [RULE_POST] = "post", [RULE_COMPLETE] = "complete", [RULE_ONESIDED] = "onesided",
	[RULE_CALL] = "call",	  [RULE_MAD] = "mad",	[RULE_TIME] = "time",
};

const char *const rule_action_name[RULE_ACTIONS] = {
	[DO_DROP] = "drop",	    [DO_DUPLICATE] = "duplicate", [DO_DELAY] = "delay",
	[DO_REORDER] = "reorder",   [DO_CORRUPT] = "corrupt",	  [DO_TRUNCATE] = "truncate",
	[DO_RATE] = "rate",	    [DO_PARTITION] = "partition", [DO_NAK] = "nak",
	[DO_RNR] = "rnr",	    [DO_REVOKE] = "revoke",	  [DO_REFUSE] = "refuse",
	[DO_STATUS] = "status",	    [DO_OVERRUN] = "overrun",	  [DO_REJECT] = "reject",
	[DO_STOP] = "stop",	    [DO_KILL] = "kill",		  [DO_PORT_DOWN] = "port-down",
	[DO_GID_GONE] = "gid-gone", [DO_FATAL] = "fatal",
};

/* What may be done at which event. */
#define AT(event) (1u << RULE_##event)
#define ANYWHERE  (AT(PACKET) | AT(POST) | AT(COMPLETE) | AT(ONESIDED) | AT(CALL) | AT(MAD) | AT(TIME))
#define OF_A_QP	  (AT(PACKET) | AT(POST) | AT(COMPLETE) | AT(ONESIDED))
static const uint8_t possible[RULE_ACTIONS] = {
	[DO_DROP] = AT(PACKET) | AT(MAD),
	[DO_DUPLICATE] = AT(PACKET) | AT(MAD),
	[DO_DELAY] = AT(PACKET),
	[DO_REORDER] = AT(PACKET),
	[DO_CORRUPT] = AT(PACKET),
	[DO_TRUNCATE] = AT(PACKET),
	[DO_RATE] = AT(PACKET),
	[DO_PARTITION] = AT(PACKET) | AT(MAD),
	[DO_NAK] = AT(PACKET),
	[DO_RNR] = AT(PACKET),
	[DO_REVOKE] = AT(PACKET),
	[DO_REFUSE] = AT(POST) | AT(CALL) | AT(ONESIDED),
	[DO_STATUS] = AT(COMPLETE),
	[DO_OVERRUN] = AT(COMPLETE),
	[DO_REJECT] = AT(MAD),
	[DO_STOP] = OF_A_QP,
	[DO_KILL] = OF_A_QP,
	[DO_PORT_DOWN] = ANYWHERE,
	[DO_GID_GONE] = ANYWHERE,
	[DO_FATAL] = ANYWHERE,
};

struct named {
	const char *name;
	uint32_t value;
};

#define ERRNO(name)         \
	{                   \
#name, name \
	}
static const struct named errnos[] = {
	ERRNO(EPERM),	   ERRNO(ENOENT),	 ERRNO(EINTR),	   ERRNO(EIO),		ERRNO(EAGAIN),
	ERRNO(ENOMEM),	   ERRNO(EACCES),	 ERRNO(EFAULT),	   ERRNO(EBUSY),	ERRNO(EEXIST),
	ERRNO(ENODEV),	   ERRNO(EINVAL),	 ERRNO(ENFILE),	   ERRNO(EMFILE),	ERRNO(ENOSPC),
	ERRNO(ERANGE),	   ERRNO(ENOSYS),	 ERRNO(ENODATA),   ERRNO(EOPNOTSUPP),	ERRNO(EADDRINUSE),
	ERRNO(ENOBUFS),	   ERRNO(ENETUNREACH),	 ERRNO(ETIMEDOUT), ERRNO(ECONNREFUSED), ERRNO(EHOSTUNREACH),
	ERRNO(ECONNRESET), ERRNO(EADDRNOTAVAIL), ERRNO(ENETDOWN),
};

#define STATUS(name)                 \
	{                            \
#name, IBV_WC_##name \
	}
static const struct named statuses[] = {
	STATUS(SUCCESS),       STATUS(LOC_LEN_ERR),	STATUS(LOC_QP_OP_ERR),	   STATUS(LOC_PROT_ERR),
	STATUS(WR_FLUSH_ERR),  STATUS(MW_BIND_ERR),	STATUS(BAD_RESP_ERR),	   STATUS(LOC_ACCESS_ERR),
	STATUS(REM_OP_ERR),    STATUS(REM_INV_REQ_ERR), STATUS(REM_ACCESS_ERR),	   STATUS(RETRY_EXC_ERR),
	STATUS(REM_ABORT_ERR), STATUS(FATAL_ERR),	STATUS(RNR_RETRY_EXC_ERR), STATUS(RESP_TIMEOUT_ERR),
	STATUS(GENERAL_ERR),
};

static const struct named naks[] = {
	{"sequence", NAK_SEQUENCE},
	{"invalid", NAK_INVALID_REQUEST},
	{"access", NAK_REMOTE_ACCESS},
	{"operation", NAK_REMOTE_OPERATION},
};

static const struct named parts[] = {{"payload", PART_PAYLOAD}, {"header", PART_HEADER}, {"icrc", PART_ICRC}};

#define WR(name)                     \
	{                            \
#name, IBV_WR_##name \
	}
static const struct named requests[] = {
	WR(SEND),
	WR(SEND_WITH_IMM),
	WR(SEND_WITH_INV),
	WR(RDMA_READ),
	WR(RDMA_WRITE),
	WR(RDMA_WRITE_WITH_IMM),
	WR(BIND_MW),
	WR(LOCAL_INV),
	WR(ATOMIC_CMP_AND_SWP),
	WR(ATOMIC_FETCH_AND_ADD),
	WR(ATOMIC_WRITE),
	{"READ", IBV_WR_RDMA_READ},
	{"WRITE", IBV_WR_RDMA_WRITE},
};

#define WC(name)                     \
	{                            \
#name, IBV_WC_##name \
	}
static const struct named completions[] = {
	WC(SEND),
	WC(RDMA_WRITE),
	WC(RDMA_READ),
	WC(COMP_SWAP),
	WC(FETCH_ADD),
	WC(BIND_MW),
	WC(LOCAL_INV),
	WC(RECV),
	WC(RECV_RDMA_WITH_IMM),
	WC(ATOMIC_WRITE),
	{"READ", IBV_WC_RDMA_READ},
	{"WRITE", IBV_WC_RDMA_WRITE},
};

/* Of connection management: the attribute ids of its messages. */
static const struct named mads[] = {
	{"REQ", 0x10},	{"MRA", 0x11},	    {"REJ", 0x12},	{"REP", 0x13}, {"RTU", 0x14}, {"DREQ", 0x15},
	{"DREP", 0x16}, {"SIDR_REQ", 0x17}, {"SIDR_REP", 0x18}, {"LAP", 0x19}, {"APR", 0x1a},
};

const char *const rule_calls[] = {
#define CALL(name) #name,
#include "fault/calls.def"
#undef CALL
};

/* Classes of packets: those whose opcode has all of `with`. */
static const struct {
	const char *name;
	uint32_t with;
} classes[] = {
	{"REQUEST", IS_REQUEST},
	{"RESPONSE", IS_RESPONSE},
	{"SEND", IS_SEND},
	{"WRITE", IS_WRITE},
	{"READ", IS_READ | IS_REQUEST},
	{"READ_RESPONSE", IS_READ | IS_RESPONSE},
	{"ATOMIC", IS_ATOMIC | IS_REQUEST},
	{"FIRST", IS_FIRST},
	{"LAST", IS_LAST},
};

static const struct named transports[] = {
	{"RC", TRANSPORT_RC}, {"UC", TRANSPORT_UC}, {"UD", TRANSPORT_UD}, {"XRC", TRANSPORT_XRC}};

/* ---- words ---- */

struct parser {
	struct rule *rule;
	struct rule_error *error;
	const char *text;
	uint32_t at;			 /* the next word begins here or later */
	uint32_t from, size;		 /* the word */
	uint32_t opcode_at, opcode_size; /* the last word about opcodes */
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

static const struct named *find_named(const struct parser *p, const struct named *table, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (word_is(p, table[i].name))
			return &table[i];
	return NULL;
}

/* The next word is a name of the table. */
static int take_named(struct parser *p, const char *kind, const struct named *table, size_t count, uint64_t *value)
{
	const char *names[64];
	const struct named *found;

	if (!word_next(p))
		return refuse_word(p, "a %s is missing here, as %s", kind, table[0].name);
	found = find_named(p, table, count);
	for (size_t i = 0; i < min_of(count, ARRAY_SIZE(names)); i++)
		names[i] = table[i].name;
	if (!found)
		return refuse_unknown(p, kind, names, min_of(count, ARRAY_SIZE(names)));
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

/* The packets that a word names: a class, a transport, an opcode with or without its transport. */
static struct rule_set packets_named(const struct parser *p)
{
	const struct named *transport = find_named(p, transports, ARRAY_SIZE(transports));
	struct rule_set set = {0};
	uint32_t with = 0;

	for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
		if (word_is(p, classes[i].name))
			with = classes[i].with;
	for (uint32_t o = 0; o < 256; o++) {
		const char *name = opcode_info[o].name, *bare = name ? strchr(name, '_') : NULL;
		bool is_meant;

		if (!name)
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
		for (size_t i = 0; i < ARRAY_SIZE(transports); i++)
			if (opcode_info[transports[i].value | OP_ACKNOWLEDGE].name)
				set_add(&set, transports[i].value | OP_ACKNOWLEDGE);
	return set;
}

/* The same for all other events. */
static struct rule_set opcodes_named(const struct parser *p)
{
	static const struct {
		const struct named *table;
		size_t count;
	} of[RULE_EVENTS] = {
		[RULE_POST] = {requests, ARRAY_SIZE(requests)},
		[RULE_ONESIDED] = {requests, ARRAY_SIZE(requests)},
		[RULE_COMPLETE] = {completions, ARRAY_SIZE(completions)},
		[RULE_MAD] = {mads, ARRAY_SIZE(mads)},
	};
	const struct named *found;
	struct rule_set set = {0};

	if (p->rule->event == RULE_PACKET)
		return packets_named(p);
	found = find_named(p, of[p->rule->event].table, of[p->rule->event].count);
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
	p->opcode_at = p->from;
	p->opcode_size = p->size;
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

enum filter_kind { F_QP, F_QPN, F_PSN, F_SIZE, F_PEER, F_WR_ID, F_STATUS, F_IN, F_OUT, F_REPEATS };
static const struct {
	const char *name;
	uint8_t events;
	const char *why; /* elsewhere it says nothing */
} filters[] = {
	[F_QP] = {"qp", OF_A_QP, "belongs to no queue pair"},
	[F_QPN] = {"qpn", OF_A_QP, "belongs to no queue pair"},
	[F_PSN] = {"psn", AT(PACKET), "has no PSN"},
	[F_SIZE] = {"size", AT(PACKET) | AT(POST) | AT(COMPLETE) | AT(ONESIDED), "has no size"},
	[F_PEER] = {"peer", OF_A_QP | AT(MAD), "has no peer"},
	[F_WR_ID] = {"wr_id", AT(POST) | AT(COMPLETE) | AT(ONESIDED), "has no wr_id"},
	[F_STATUS] = {"with", AT(COMPLETE), "has no status"},
	[F_IN] = {"in", AT(MAD), "has no direction"},
	[F_OUT] = {"out", AT(MAD), "has no direction"},
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
	case F_WR_ID:
		r->has_wr_id = true;
		return take_number(p, false, &r->wr_id, 0);
	case F_STATUS:
		err = take_named(p, "status", statuses, ARRAY_SIZE(statuses), &status);
		r->completes = (struct rule_range){status, status};
		return err;
	case F_IN:
	case F_OUT:
		r->direction = kind == F_IN ? RULE_IN : RULE_OUT;
		return 0;
	case F_REPEATS:
		r->repeats = true;
		return 0;
	}
	return 0;
}

/* ---- when ---- */

enum when_kind { W_CHANCE, W_EVERY, W_NTH, W_TIMES, W_AFTER, W_BETWEEN };
static const char *const whens[] = {
	[W_CHANCE] = "chance", [W_EVERY] = "every", [W_NTH] = "nth",
	[W_TIMES] = "times",   [W_AFTER] = "after", [W_BETWEEN] = "between",
};

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
	const char *names[ARRAY_SIZE(filters) + ARRAY_SIZE(whens) + ARRAY_SIZE(classes) + ARRAY_SIZE(requests) +
			  ARRAY_SIZE(mads)];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(filters); i++)
		names[n++] = filters[i].name;
	for (size_t i = 0; i < ARRAY_SIZE(whens); i++)
		names[n++] = whens[i];
	for (size_t i = 0; p->rule->event == RULE_PACKET && i < ARRAY_SIZE(classes); i++)
		names[n++] = classes[i].name;
	for (size_t i = 0; p->rule->event == RULE_POST && i < ARRAY_SIZE(requests); i++)
		names[n++] = requests[i].name;
	for (size_t i = 0; p->rule->event == RULE_MAD && i < ARRAY_SIZE(mads); i++)
		names[n++] = mads[i].name;
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
	for (size_t i = 0; i < ARRAY_SIZE(rule_calls); i++)
		if (word_is(p, rule_calls[i])) {
			p->rule->call = rule_calls[i];
			return 0;
		}
	return refuse_unknown(p, "call that can be refused", rule_calls, ARRAY_SIZE(rule_calls));
}

static int take_event(struct parser *p)
{
	static const char *const names[] = {"out",	"in",	"packet", "post", "complete",
					    "onesided", "call", "mad",	  "time"};
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
	const struct named *part;

	r->value[0] = PART_PAYLOAD;
	r->value[1] = UINT64_MAX;
	if (!word_next(p))
		return 0;
	part = find_named(p, parts, ARRAY_SIZE(parts));
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
		return take_named(p, "kind of NAK", naks, ARRAY_SIZE(naks), &r->value[0]);
	case DO_RNR:
		err = take_range(p, false, &range, 0, 31);
		break;
	case DO_REFUSE:
		if (r->event == RULE_ONESIDED)
			return 0;
		return take_named(p, "error", errnos, ARRAY_SIZE(errnos), &r->value[0]);
	case DO_STATUS:
		err = take_named(p, "status", statuses, ARRAY_SIZE(statuses), &r->value[0]);
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
	bool has_payload = r->action == DO_TRUNCATE || (r->action == DO_CORRUPT && r->value[0] == PART_PAYLOAD);
	bool holds = r->action == DO_DELAY || r->action == DO_REORDER || r->action == DO_RATE;
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
	return r->event == RULE_PACKET ? check_packet(p) : 0;
}

/* Credit requests and grants of UC and UD are no packets of IBTA: a rule hits them if it names them. */
static struct rule_set all_opcodes(enum rule_event event)
{
	struct rule_set set = {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}};

	if (event == RULE_PACKET)
		for (uint32_t o = 0; o < 256; o++)
			if (!opcode_info[o].name)
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

/* ---- texts ---- */

void rule_complain(char *out, size_t room, const char *text, const struct rule_error *error)
{
	static const char carets[] = "^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^";

	snprintf(out, room, "%s\n  %s\n  %*s%.*s", error->text, text, (int)error->at, "",
		 (int)min_of(error->length, (uint32_t)sizeof(carets) - 1), carets);
}

int rule_next(const char **at, char out[RULE_TEXT])
{
	const char *s = *at;
	size_t n;

	for (;;) {
		s += strspn(s, " \t\r\n;");
		if (*s != '#')
			break;
		s += strcspn(s, "\n");
	}
	n = strcspn(s, ";\n#");
	*at = s + n;
	while (n && isspace((unsigned char)s[n - 1]))
		n--;
	if (n >= RULE_TEXT)
		return -E2BIG;
	memcpy(out, s, n);
	out[n] = 0;
	return n > 0;
}

char *rules_read(const char *given)
{
	char *text;
	ssize_t n;
	int fd;

	if (*given != '@')
		return strdup(given);
	fd = open(given + 1, O_RDONLY | O_CLOEXEC);
	text = fd < 0 ? NULL : calloc(1, FILE_LARGEST);
	n = text ? read(fd, text, FILE_LARGEST - 1) : -1;
	if (n < 0) {
		free(text);
		text = NULL;
	}
	if (fd >= 0)
		close(fd);
	return text;
}

static const char *name_of(const struct named *table, size_t count, uint64_t value)
{
	for (size_t i = 0; i < count; i++)
		if (table[i].value == value)
			return table[i].name;
	return "?";
}

#define NAME_OF(table, value) name_of(table, ARRAY_SIZE(table), value)

/* The action with its values, as it was decided. */
static int write_action(char *out, size_t room, const struct rule *r, const uint64_t value[2])
{
	const char *name = rule_action_name[r->action];
	unsigned long long v = value[0];

	switch (r->action) {
	case DO_DELAY:
	case DO_STOP:
		return snprintf(out, room, "%s %lluns", name, v);
	case DO_PORT_DOWN:
	case DO_GID_GONE:
		return v == UINT64_MAX ? snprintf(out, room, "%s", name) : snprintf(out, room, "%s %lluns", name, v);
	case DO_CORRUPT:
		if (value[0] == PART_ICRC)
			return snprintf(out, room, "%s icrc", name);
		return snprintf(out, room, "%s %s bit %llu", name, NAME_OF(parts, value[0]),
				(unsigned long long)value[1]);
	case DO_NAK:
		return snprintf(out, room, "%s %s", name, NAME_OF(naks, value[0]));
	case DO_REFUSE:
		if (r->event == RULE_ONESIDED)
			return snprintf(out, room, "%s", name);
		return snprintf(out, room, "%s %s", name, NAME_OF(errnos, value[0]));
	case DO_STATUS:
		return snprintf(out, room, "%s %s", name, NAME_OF(statuses, value[0]));
	case DO_REORDER:
	case DO_TRUNCATE:
	case DO_RATE:
	case DO_RNR:
	case DO_REJECT:
		return snprintf(out, room, "%s %llu", name, v);
	default:
		return snprintf(out, room, "%s", name);
	}
}

int rule_write(char *out, size_t room, const struct rule *rule, uint64_t qp, uint64_t n, const uint64_t value[2])
{
	int at = snprintf(out, room, "%s", rule->what);

	if (qp)
		at += snprintf(out + at, room - (size_t)at, " qp %llu", (unsigned long long)qp);
	if (rule->event == RULE_TIME)
		at += snprintf(out + at, room - (size_t)at, " after %lluns", (unsigned long long)rule->between.from);
	else
		at += snprintf(out + at, room - (size_t)at, "%s nth %llu",
			       rule->repeats && rule->event == RULE_PACKET ? " repeats" : "", (unsigned long long)n);
	at += snprintf(out + at, room - (size_t)at, ": ");
	return at + write_action(out + at, room - (size_t)at, rule, value);
}
