/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/fork.h"
#include "base/lock.h"
#include "base/log.h"
#include "fault/rule_parse.h"
#include "fault/rule_text.h"
#include "base/own_file.h"

#define REVOKED	       256
#define INJECT_DEVICES 32 /* max devices that rules name during the life of the process */
#define UNMET	       99 /* exit status if a rule never fired and UROCE_FAULT_EXPECT is on */

/* A rule in force. Never freed, as another thread may still ask it. */
struct injector {
	struct rule rule;
	uint64_t id;  /* number of the rule, from 1 */
	uint64_t key; /* hash of the text, so that draws do not depend on other rules */
	_Atomic uint64_t could, did;
	struct injector *older;
};

static struct lock inject_lock = LOCK_RANKED(INJECT); /* guards all below, unless stated otherwise */
static _Atomic(struct injector *) active[INJECT_RULES];
static struct injector *injectors GUARDED_BY(inject_lock); /* all rules ever added, newest first */
static uint64_t last_id GUARDED_BY(inject_lock);
static struct inject_qp nobody GUARDED_BY(inject_lock); /* counts of events that belong to no queue pair */
static _Atomic uint32_t events;				/* enum rule_event bits that rules in force ask for */
static struct {
	char device[RULE_DEVICE]; /* constant once state_rows counts it */
	_Atomic uint32_t bits;	  /* enum rule_action bits: inject_set() */
} states[1 + INJECT_DEVICES];	  /* first element: all devices */
static _Atomic uint32_t state_rows = 1;
static _Atomic uint32_t revoked[REVOKED];
static _Atomic(const struct inject_ops *) served;
static uint64_t seed, begun; /* constant once started */
static int log_fd = -1;
static pid_t owner;

/* ---- decisions ---- */

/* SplitMix64 (Steele, Lea, Flood). */
static uint64_t scramble(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static uint64_t draw(uint64_t rule, uint64_t qp, uint64_t count, uint64_t which)
{
	return scramble(scramble(scramble(seed + rule * 0x9e3779b97f4a7c15u) + qp * 0xd1b54a32d192ed03u) + count * 4 +
			which);
}

static bool is_of_device(const struct rule *r, const char *device)
{
	return !*r->device || (device && !strcmp(r->device, device));
}

static bool event_matches(const struct rule *r, const struct inject_event *e, uint64_t qp)
{
	return r->event == e->event && is_of_device(r, e->device) && (!e->direction || r->direction & e->direction) &&
	       r->call == e->call && rule_has(&r->opcodes, e->opcode) && (r->repeats || !e->repeated) &&
	       rule_in(r->size, e->size) && (!qp || (rule_in(r->qp, qp) && rule_in(r->qpn, e->qpn))) &&
	       rule_in(r->psn, e->psn) && (r->event != RULE_MEMORY || rule_in(r->region, e->region)) &&
	       (!r->has_peer || (e->peer && !memcmp(r->peer, e->peer, 16))) &&
	       (!r->has_wr_id || r->wr_id == e->wr_id) &&
	       (r->event != RULE_COMPLETE || rule_in(r->completes, e->status));
}

/* True in the state that `while` names. */
static bool lasts(const struct rule *r, const struct inject_event *e)
{
	switch (r->during) {
	case WHILE_ALWAYS:
		return true;
	case WHILE_PORT_DOWN:
		return inject_is(DO_PORT_DOWN, e->device ?: r->device);
	case WHILE_GID_GONE:
		return inject_is(DO_GID_GONE, e->device ?: r->device);
	default:
		return e->state == r->during;
	}
}

/* True if the rule fires at event number `count`. */
static bool is_time_for(const struct injector *i, const struct inject_event *e, uint64_t qp, uint64_t count,
			uint64_t fired)
{
	const struct rule *r = &i->rule;

	if (count % r->every || !rule_in(r->nth, count) || fired >= r->times || !lasts(r, e))
		return false;
	if ((r->between.from || r->between.to != UINT64_MAX) && !rule_in(r->between, clock_now() - begun))
		return false;
	return r->chance == RULE_ALWAYS || draw(i->key, qp, count, 0) <= r->chance;
}

static void decide(const struct injector *i, const struct inject_event *e, uint64_t qp, uint64_t count,
		   struct inject_verdict *verdict)
{
	const struct rule *r = &i->rule;
	uint64_t random = draw(i->key, qp, count, 1);

	verdict->action = r->action;
	verdict->value[0] = r->value[0];
	verdict->value[1] = r->value[1];
	verdict->device = r->device;
	if (r->action == DO_DELAY || r->action == DO_LAST_FIRST)
		verdict->value[0] += random % (r->value[1] - r->value[0] + 1);
	if (r->action == DO_CORRUPT && r->value[1] == UINT64_MAX) {
		uint64_t bits = 8 * (uint64_t)(r->value[0] == PART_PAYLOAD ? e->size : e->header);

		verdict->value[1] = bits ? random % bits : 0;
	}
}

static void tell_firing(const struct injector *i, uint64_t qp, uint64_t count, const struct inject_verdict *verdict)
{
	char line[RULE_REPLAYED + 1];
	int length;

	if (log_fd < 0)
		return;
	length = rule_write(line, sizeof(line) - 1, &i->rule, qp, count, verdict->value);
	length = min_of(length, (int)sizeof(line) - 2);
	line[length++] = '\n';
	if (write(log_fd, line, (size_t)length) < 0) {
		/* disk full: the log ends here */
	}
}

/* Counts the event with one rule. True if the rule fires. */
static bool meet(struct injector *i, unsigned slot, const struct inject_event *e, struct inject_qp *of,
		 struct inject_verdict *verdict, bool taken)
{
	uint64_t count;

	if (of->count[slot].rule != i->id) {
		of->count[slot].rule = i->id;
		of->count[slot].met = of->count[slot].fired = 0;
	}
	count = ++of->count[slot].met;
	atomic_fetch_add_explicit(&i->could, 1, memory_order_relaxed);
	if (taken || !is_time_for(i, e, of->serial, count, of->count[slot].fired))
		return false;
	of->count[slot].fired++;
	atomic_fetch_add_explicit(&i->did, 1, memory_order_relaxed);
	decide(i, e, of->serial, count, verdict);
	tell_firing(i, of->serial, count, verdict);
	return true;
}

static bool ask_all(const struct inject_event *e, struct inject_qp *of, struct inject_verdict *verdict)
{
	bool fires = false;

	for (unsigned slot = 0; slot < INJECT_RULES; slot++) {
		/* acquire pairs with the release in inject_put() */
		struct injector *i = atomic_load_explicit(&active[slot], memory_order_acquire);

		if (i && event_matches(&i->rule, e, of->serial))
			fires |= meet(i, slot, e, of, verdict, fires);
	}
	return fires;
}

bool inject_ask(const struct inject_event *e, struct inject_qp *of, struct inject_verdict *verdict)
{
	bool fires;

	if (!inject_listens(e->event))
		return false;
	if (of)
		return ask_all(e, of, verdict);
	lock_take(&inject_lock);
	fires = ask_all(e, &nobody, verdict);
	lock_drop(&inject_lock);
	return fires;
}

void inject_forget(struct list *list)
{
	for (struct list *l; (l = list_pop(list));)
		free(l);
}

struct inject_qp *inject_of(struct inject_qp **at, uint64_t serial)
{
	struct inject_qp *q = *at;

	if (!q)
		q = *at = calloc(1, sizeof(*q));
	if (!q)
		return NULL;
	if (q->serial == serial && q->held.next)
		return q;
	if (q->held.next) { /* a new queue pair has the old one's place: packets held for the old one are lost */
		inject_forget(&q->held);
		inject_forget(&q->changed);
	}
	*q = (struct inject_qp){.serial = serial};
	list_init(&q->held);
	list_init(&q->changed);
	return q;
}

bool inject_listens(enum rule_event event)
{
	return hook_is_on(HOOK_FAULT) && atomic_load_explicit(&events, memory_order_relaxed) & 1u << event;
}

bool inject_touches(uint64_t serial, uint32_t qpn, const char *device, bool packets)
{
	for (unsigned slot = 0; slot < INJECT_RULES; slot++) {
		const struct injector *i = atomic_load_explicit(&active[slot], memory_order_acquire);
		bool is_packet = i && (i->rule.event == RULE_PACKET || i->rule.event == RULE_TIME ||
				       i->rule.event == RULE_MEMORY);

		if (!i || i->rule.event == RULE_CALL || i->rule.event == RULE_MAD || (packets && !is_packet))
			continue;
		if (is_of_device(&i->rule, device) && rule_in(i->rule.qp, serial) && rule_in(i->rule.qpn, qpn))
			return true;
	}
	return inject_is(DO_PORT_DOWN, device);
}

/* Asks the rules for a call. True: *verdict has DO_REFUSE with an errno, DO_WAKE or DO_DUPLICATE. */
static bool ask_of_call(enum rule_call call, struct inject_verdict *verdict)
{
	struct inject_event e = {.event = RULE_CALL, .call = rule_calls[call]};

	if (!inject_ask(&e, NULL, verdict))
		return false;
	if (verdict->action == DO_REFUSE || verdict->action == DO_WAKE || verdict->action == DO_DUPLICATE)
		return true;
	inject_act(verdict);
	return false;
}

bool inject_refuses_call(enum rule_call call)
{
	struct inject_verdict v;
	bool refuses = ask_of_call(call, &v);

	if (refuses)
		errno = (int)v.value[0];
	return refuses;
}

bool inject_wakes(void)
{
	struct inject_verdict v;

	return ask_of_call(CALL_ibv_req_notify_cq, &v);
}

bool inject_repeats(void)
{
	struct inject_verdict v;

	return ask_of_call(CALL_ibv_get_async_event, &v);
}

/* ---- what is done above ---- */

void inject_serve(const struct inject_ops *ops)
{
	atomic_store_explicit(&served, ops, memory_order_release); /* pairs with the loads below */
}

void inject_act(const struct inject_verdict *verdict)
{
	const struct inject_ops *ops = atomic_load_explicit(&served, memory_order_acquire);

	if (ops)
		ops->act(verdict);
}

void inject_resume(int pid, uint64_t after)
{
	const struct inject_ops *ops = atomic_load_explicit(&served, memory_order_acquire);

	if (ops)
		ops->resume(pid, after);
}

/* Time at which the next rule of time is due, or NEVER. */
static uint64_t next_rule_of_time(void)
{
	uint64_t first = NEVER;

	for (unsigned slot = 0; slot < INJECT_RULES; slot++) {
		const struct injector *i = atomic_load_explicit(&active[slot], memory_order_acquire);

		if (i && i->rule.event == RULE_TIME && !atomic_load_explicit(&i->did, memory_order_relaxed))
			first = min_of(first, begun + i->rule.between.from);
	}
	return first;
}

void inject_expire(uint64_t now)
{
	struct inject_event e = {.event = RULE_TIME};
	const struct inject_ops *ops = atomic_load_explicit(&served, memory_order_acquire);
	struct inject_verdict v;

	for (unsigned slot = 0; slot < INJECT_RULES; slot++) {
		struct injector *i = atomic_load_explicit(&active[slot], memory_order_acquire);
		bool fires;

		if (!i || i->rule.event != RULE_TIME || atomic_load_explicit(&i->did, memory_order_relaxed) ||
		    now - begun < i->rule.between.from)
			continue;
		lock_take(&inject_lock);
		fires = meet(i, slot, &e, &nobody, &v, false);
		lock_drop(&inject_lock);
		if (fires)
			inject_act(&v);
	}
	if (ops)
		ops->at(next_rule_of_time());
}

/* Row of the device, or -1. */
static int state_row(const char *device)
{
	/* acquire pairs with the release in add_state_row() */
	int rows = (int)atomic_load_explicit(&state_rows, memory_order_acquire), row = 0;

	while (row < rows && strcmp(states[row].device, device) != 0)
		row++;
	return row < rows ? row : -1;
}

/* A new row, or -1 if all are used. */
static int add_state_row(const char *device)
{
	uint32_t rows = atomic_load_explicit(&state_rows, memory_order_relaxed);
	int row;

	lock_take(&inject_lock);
	row = state_row(device);
	rows = atomic_load_explicit(&state_rows, memory_order_relaxed);
	if (row < 0 && rows < ARRAY_SIZE(states)) {
		row = (int)rows;
		snprintf(states[row].device, RULE_DEVICE, "%s", device);
		atomic_store_explicit(&state_rows, rows + 1, memory_order_release); /* pairs with state_row() */
	}
	lock_drop(&inject_lock);
	return row;
}

void inject_set(enum rule_action state, const char *device, bool on)
{
	const struct inject_ops *ops = atomic_load_explicit(&served, memory_order_acquire);
	int row = add_state_row(device);

	if (row < 0)
		log_error("rules name more than %d devices: %s stays as it is", INJECT_DEVICES, device);
	else if (on)
		atomic_fetch_or_explicit(&states[row].bits, 1u << state, memory_order_relaxed);
	else
		atomic_fetch_and_explicit(&states[row].bits, ~(1u << state), memory_order_relaxed);
	if (ops)
		ops->changed();
}

static bool row_is(enum rule_action state, int row)
{
	return row >= 0 && atomic_load_explicit(&states[row].bits, memory_order_relaxed) & 1u << state;
}

bool inject_is(enum rule_action state, const char *device)
{
	return row_is(state, 0) || (atomic_load_explicit(&state_rows, memory_order_relaxed) > 1 && device &&
				    row_is(state, state_row(device)));
}

static bool any_state(void)
{
	uint32_t bits = 0;

	for (uint32_t i = 0; i < ARRAY_SIZE(states); i++)
		bits |= atomic_load_explicit(&states[i].bits, memory_order_relaxed);
	return bits;
}

void inject_revoke(uint32_t key)
{
	uint32_t none = 0;

	for (uint32_t i = 0; i < REVOKED && !inject_is_revoked(key); i++, none = 0)
		if (atomic_compare_exchange_strong(&revoked[i], &none, key))
			return;
}

bool inject_is_revoked(uint32_t key)
{
	for (uint32_t i = 0; i < REVOKED; i++) {
		uint32_t k = atomic_load_explicit(&revoked[i], memory_order_relaxed);

		if (!k || k == key)
			return k;
	}
	return false;
}

/* ---- the rules in force ---- */

static void rules_changed(void)
{
	const struct inject_ops *ops = atomic_load_explicit(&served, memory_order_acquire);
	uint32_t asked = 0;

	for (unsigned slot = 0; slot < INJECT_RULES; slot++) {
		const struct injector *i = atomic_load_explicit(&active[slot], memory_order_acquire);

		if (i)
			asked |= 1u << i->rule.event;
	}
	atomic_store_explicit(&events, asked, memory_order_relaxed);
	hook_set(HOOK_FAULT, asked || any_state());
	if (ops) {
		ops->at(next_rule_of_time());
		ops->changed();
	}
}

/* FNV-1a of the text and of the number of earlier rules with that text. */
static uint64_t key_of(const struct injector *i) REQUIRES(inject_lock)
{
	uint64_t key = 0xcbf29ce484222325u;

	for (const char *c = i->rule.text; *c; c++)
		key = (key ^ (uint8_t)*c) * 0x100000001b3u;
	for (const struct injector *other = injectors; other; other = other->older)
		key += strcmp(other->rule.text, i->rule.text) == 0;
	return key;
}

/* Puts the rule into the first free slot; rules are asked in the order of slots. The rule's number, or -ENOSPC. */
static int inject_put(struct injector *i) REQUIRES(inject_lock)
{
	for (unsigned slot = 0; slot < INJECT_RULES; slot++) {
		if (atomic_load_explicit(&active[slot], memory_order_relaxed))
			continue;
		i->id = ++last_id;
		i->key = key_of(i);
		i->older = injectors;
		injectors = i;
		atomic_store_explicit(&active[slot], i, memory_order_release);
		return (int)i->id;
	}
	return -ENOSPC;
}

/* 0, or -EINVAL if the rule names an unknown device. */
static int check_device(const struct rule *r, const char *text, struct rule_error *error)
{
	const struct inject_ops *ops = atomic_load_explicit(&served, memory_order_acquire);
	const char *word = strcasestr(text, "device"), *name = word ? strstr(word + strlen("device"), r->device) : NULL;

	if (!*r->device || !ops || ops->has_device(r->device))
		return 0;
	error->at = name ? (uint32_t)(name - text) : 0;
	error->length = (uint32_t)strlen(r->device);
	snprintf(error->text, sizeof(error->text),
		 "there is no device '%s', so the rule could never fire: see uroce devices", r->device);
	return -EINVAL;
}

/* Adds a rule without announcing that the rules have changed. As inject_add(). */
static int inject_take(const char *text, struct rule_error *error)
{
	struct injector *i = calloc(1, sizeof(*i));
	int number = i ? rule_parse(&i->rule, text, error) ?: check_device(&i->rule, text, error) : -ENOMEM;

	if (!number) {
		lock_take(&inject_lock);
		number = inject_put(i);
		lock_drop(&inject_lock);
	}
	if (number < 0)
		free(i);
	return number;
}

int inject_add(const char *text, struct rule_error *error)
{
	int number = inject_start() ?: inject_take(text, error);

	if (number > 0)
		rules_changed();
	return number;
}

static int inject_drop(uint64_t id)
{
	int err = -ENOENT;

	lock_take(&inject_lock);
	for (unsigned slot = 0; slot < INJECT_RULES; slot++) {
		const struct injector *i = atomic_load_explicit(&active[slot], memory_order_relaxed);

		if (!i || (id && i->id != id))
			continue;
		atomic_store_explicit(&active[slot], NULL, memory_order_release);
		err = 0;
	}
	lock_drop(&inject_lock);
	rules_changed();
	return err;
}

int inject_remove(int number)
{
	return number > 0 ? inject_drop((uint64_t)number) : -ENOENT;
}

void inject_clear(void)
{
	inject_drop(0);
}

void inject_list(void (*show)(void *arg, int number, const char *text, uint64_t could, uint64_t did), void *arg)
{
	for (unsigned slot = 0; slot < INJECT_RULES; slot++) {
		struct injector *i = atomic_load_explicit(&active[slot], memory_order_acquire);

		if (i)
			show(arg, (int)i->id, i->rule.text, atomic_load_explicit(&i->could, memory_order_relaxed),
			     atomic_load_explicit(&i->did, memory_order_relaxed));
	}
}

int64_t inject_fired(int number)
{
	int64_t did = -ENOENT;

	lock_take(&inject_lock);
	for (const struct injector *i = injectors; i && number > 0; i = i->older)
		if (i->id == (uint64_t)number)
			did = (int64_t)atomic_load_explicit(&i->did, memory_order_relaxed);
	lock_drop(&inject_lock);
	return did;
}

uint64_t inject_seed(void)
{
	return seed;
}

/* ---- start and end ---- */

static int take_rules(const char *text)
{
	char line[RULE_TEXT], complaint[3 * RULE_TEXT];
	struct rule_error error = {.text = "64 rules are in force: remove one first"};
	int more, rules = 0;

	while ((more = rule_next(&text, line)) > 0) {
		if (inject_take(line, &error) < 0) {
			rule_complain(complaint, sizeof(complaint), line, &error);
			log_error("UROCE_FAULT: %s", complaint);
			return -EINVAL;
		}
		rules++;
	}
	if (more < 0)
		log_error("UROCE_FAULT: a rule has at most %d characters", RULE_TEXT - 1);
	return more < 0 ? -EINVAL : rules;
}

static void open_log(void)
{
	char name[PATH_MAX], why[OWN_FILE_WHY];

	if (!config_file(CONFIG_FAULT_LOG, name, sizeof(name)))
		return;
	log_fd = own_file_open(name, O_WRONLY | O_CREAT | O_APPEND, 0600, why);
	if (log_fd < 0)
		log_error("UROCE_FAULT_LOG=%s: %s: faults are not logged", name, why);
}

/* A child of fork() injects no faults; the parent reports what its rules did. */
static void forget_rules(void)
{
	hook_set(HOOK_FAULT, false);
}

static int start_error;

static void inject_begin(void)
{
	static const struct fork_handlers handlers = {.in_child = forget_rules};
	const char *value = config_string(CONFIG_FAULT);
	char *text;
	int rules;

	owner = getpid();
	begun = clock_now();
	seed = config_number(CONFIG_FAULT_SEED);
	while (!seed && getrandom(&seed, sizeof(uint32_t), GRND_NONBLOCK) == sizeof(uint32_t))
		;
	fork_watch(FORK_FAULT, &handlers);
	open_log();
	if (!value)
		return;
	text = rules_read(value);
	if (!text)
		log_error("UROCE_FAULT=%s: %s", value, strerror(errno));
	rules = text ? take_rules(text) : -EINVAL;
	free(text);
	start_error = min_of(rules, 0);
	if (rules <= 0)
		return;
	log_warn("faults: %d rule%s in force; UROCE_FAULT_SEED=%llu repeats them", rules, rules > 1 ? "s" : "",
		 (unsigned long long)seed);
	rules_changed();
}

int inject_start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, inject_begin);
	return start_error;
}

static bool tell_rule(struct injector *i) REQUIRES(inject_lock)
{
	uint64_t did = atomic_load_explicit(&i->did, memory_order_relaxed);
	bool fine = true;

	if (i->older)
		fine = tell_rule(i->older);
	log_warn("fault %llu, %s: fired %llu time%s of %llu", (unsigned long long)i->id, i->rule.text,
		 (unsigned long long)did, did == 1 ? "" : "s",
		 (unsigned long long)atomic_load_explicit(&i->could, memory_order_relaxed));
	return fine && did;
}

__attribute__((destructor)) static void inject_end(void)
{
	bool fine = true;

	if (owner != getpid())
		return;
	lock_take(&inject_lock);
	if (injectors)
		fine = tell_rule(injectors);
	lock_drop(&inject_lock);
	if (fine || !config_bool(CONFIG_FAULT_EXPECT))
		return;
	log_error("UROCE_FAULT_EXPECT: a rule never fired, so the exit status is %d", UNMET);
	fflush(NULL);
	_exit(UNMET);
}
