/* SPDX-License-Identifier: BSD-2-Clause */
/* Fault injection: the rules in force, the decision of each, and their log. Without rules, a place that asks costs
 * the branch of hooks_any(). A decision depends on the seed, the rule and the number of its event on that queue
 * pair, not on time or threads. Any thread may call. */
#ifndef UROCE_INJECT_H
#define UROCE_INJECT_H

#include "base/hooks.h"
#include "base/list.h"
#include "base/psn.h"
#include "fault/calls.h"
#include "fault/rule.h"

#define INJECT_RULES 64

/* An event, with the fields that rules compare. */
struct inject_event {
	uint8_t event;	   /* enum rule_event */
	uint8_t direction; /* enum rule_direction */
	uint8_t opcode;
	uint8_t status; /* enum ibv_wc_status */
	bool repeated;	/* retransmitted, or a duplicate */
	uint32_t qpn, psn, size, region;
	uint32_t header; /* bytes of a packet's headers */
	uint64_t wr_id;
	const uint8_t *peer; /* GID; NULL: none */
	const char *call;
	const char *device; /* name; NULL: none */
	uint8_t state;	    /* enum ibv_qp_state */
};

/* The decision of the rule that fired. */
struct inject_verdict {
	uint8_t action; /* enum rule_action */
	uint64_t value[2];
	const char *device; /* device that an action on devices is for; "": all */
};

/* Fault state of a queue pair. The memory stays with the place of the queue pair; guarded by qp->lock. */
struct inject_qp {
	uint64_t serial; /* serial of the QP; another serial resets the state */
	struct {
		uint64_t rule, met, fired;
	} count[INJECT_RULES];
	psn_t next[4];	     /* one past the highest PSN seen: out and in, each of requests and of responses */
	uint8_t known;	     /* bits of the valid elements of next[] */
	struct list held;    /* delayed packets (port/faults.c) */
	struct list changed; /* payloads of the last tx batch that differ from memory (port/faults.c) */
	uint32_t held_count;
	uint64_t busy_until; /* ns, for `rate`: time at which the last packet has passed */
	uint64_t late;	     /* ns, for a delayed post: time from the next run on in which no request is looked at */
	uint64_t late_until; /* ns: end of that time */
	bool fails;	     /* a completion got an error, so the QP has to fail */
	bool ends;	     /* no more packets are held */
	bool refuses;	     /* a packet is being refused by a rule */
};

/* Reads UROCE_FAULT and related variables, once. 0, or -EINVAL if a rule does not parse; the error is logged. */
int inject_start(void);

/* Asks all rules; the first that fires decides. `of`, `serial`: the queue pair, whose lock is held; NULL: none.
 * False if no rule fires. */
bool inject_ask(const struct inject_event *e, struct inject_qp *of, struct inject_verdict *verdict);

/* Frees the members of inject_qp's `held` or `changed`. */
void inject_forget(struct list *list);

/* Counts of a queue pair; NULL without memory. With the queue pair's lock. */
struct inject_qp *inject_of(struct inject_qp **at, uint64_t serial);

/* True if a rule may hit packets, requests or completions of the queue pair: all of them go through the queue then,
 * and (`packets`) each is a packet. */
bool inject_touches(uint64_t serial, uint32_t qpn, const char *device, bool packets);

/* True if a rule asks for such events. */
bool inject_listens(enum rule_event event);

/* True if a rule refuses the call; errno is set. */
bool inject_refuses_call(enum rule_call call);
static inline bool inject_call(enum rule_call call)
{
	return hooks_any() && inject_refuses_call(call);
}

/* True if a rule has ibv_req_notify_cq() bring an event for completions already in the CQ. */
bool inject_wakes(void);

/* True if a rule has the asynchronous event delivered twice. */
bool inject_repeats(void);

/* Actions of higher layers on ports, devices and processes. Called with any lock held, so they only note what to do. */
struct inject_ops {
	void (*act)(const struct inject_verdict *verdict); /* the verdict's device is never freed */
	void (*resume)(int pid, uint64_t after);	   /* sends SIGCONT to process `pid` after `after` ns */
	void (*at)(uint64_t when);	      /* has inject_expire() called at `when` (ns); NEVER: cancels */
	bool (*has_device)(const char *name); /* takes locks of devices */
	void (*changed)(void); /* the rules in force have changed, and lanes may have to. Takes locks of QPs */
};
/* Sets the operations, once; without them, rules have no such effects. */
void inject_serve(const struct inject_ops *ops);
void inject_act(const struct inject_verdict *verdict);
void inject_resume(int pid, uint64_t after);
/* Fires the rules of time that are due at `now` (ns). */
void inject_expire(uint64_t now);

/* States that rules cause: DO_PORT_DOWN (no packet leaves or arrives), DO_GID_GONE, DO_FATAL. Each is of one device
 * or, set for "", of all. */
void inject_set(enum rule_action state, const char *device, bool on);
bool inject_is(enum rule_action state, const char *device);

/* Regions revoked by rules: inject_revoke() adds a key. */
void inject_revoke(uint32_t key);
bool inject_is_revoked(uint32_t key);

/* Adds or removes a rule while the program runs. Add: number of the rule, from 1; -EINVAL with *error; -ENOSPC.
 * Remove: 0 or -ENOENT. */
int inject_add(const char *text, struct rule_error *error);
int inject_remove(int number);
void inject_clear(void);
/* Calls show() for each rule in force. `could`: events that the rule asked for; `did`: firings. */
void inject_list(void (*show)(void *arg, int number, const char *text, uint64_t could, uint64_t did), void *arg);
/* Number of firings of a rule, also of a removed one. -ENOENT if there was never a rule of that number. */
int64_t inject_fired(int number);
/* Seed in use: UROCE_FAULT_SEED, or the one drawn at the start. */
uint64_t inject_seed(void);

#endif
