/* SPDX-License-Identifier: BSD-2-Clause */
/* Fault injection: the rules in force, the decision of each, and their log. Off, it costs nothing: the places that ask
 * stand behind hooks_any(). A decision depends on the seed, the rule and the number of its event on
 * that queue pair; not on the time, nor on threads. Any thread may call. */
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
	bool repeated;	/* the packet has been sent, or received, before */
	uint32_t qpn, psn, size, region;
	uint32_t header; /* bytes of headers, of a packet */
	uint64_t wr_id;
	const uint8_t *peer; /* a GID; NULL: none */
	const char *call;
	const char *device; /* its name; NULL: none */
	uint8_t state;	    /* enum ibv_qp_state */
};

/* The decision of the rule that fired. */
struct inject_verdict {
	uint8_t action; /* enum rule_action */
	uint64_t value[2];
	const char *device; /* name of the device that an action on devices is for; "": all */
};

/* State of fault injection of a queue pair. Its memory stays with the place of the queue pair; guarded by qp->lock. */
struct inject_qp {
	uint64_t serial; /* serial of the QP; of another one, the state begins anew */
	struct {
		uint64_t rule, met, fired;
	} count[INJECT_RULES];
	psn_t next[4];	     /* one past the highest PSN seen: out and in, of requests and of responses */
	uint8_t known;	     /* bits of the elements of next[] that are set */
	struct list held;    /* delayed packets: port/faults.c */
	struct list changed; /* payloads of the last tx batch that differ from the memory's: port/faults.c */
	uint32_t held_count;
	uint64_t busy_until; /* ns, of rate: time at which the last packet has passed */
	uint64_t late;	     /* ns, of a delayed post: from the next run on no request is looked at for so long */
	uint64_t late_until; /* ns: time at which the delay ends */
	bool fails;	     /* a completion was given an error: the QP follows */
	bool ends;	     /* no further packet is held */
	bool refuses;	     /* a packet is being refused because a rule says so */
};

/* Reads UROCE_FAULT and what belongs to it, once. 0, or -EINVAL: a rule does not parse; that has been logged. */
int inject_start(void);

/* Asks all rules; the first that fires decides. `of`, `serial`: the queue pair, with its lock held; NULL: there is
 * none. False: nothing is done. */
bool inject_ask(const struct inject_event *e, struct inject_qp *of, struct inject_verdict *verdict);

/* Frees the members of inject_qp's `held` or `changed`. */
void inject_forget(struct list *list);

/* The counts of a queue pair; NULL: no memory. Called with its lock held. */
struct inject_qp *inject_of(struct inject_qp **at, uint64_t serial);

/* Whether a rule may hit packets, requests or completions of that queue pair: then all of them go through the queue,
 * and (`packets`) each is a packet. */
bool inject_touches(uint64_t serial, uint32_t qpn, const char *device, bool packets);

/* Whether a rule listens for such events. */
bool inject_listens(enum rule_event event);

/* True if a rule refuses the call: errno is set. */
bool inject_refuses_call(enum rule_call call);
static inline bool inject_call(enum rule_call call)
{
	return hooks_any() && inject_refuses_call(call);
}

/* Whether ibv_req_notify_cq() brings an event of what is in the CQ already. */
bool inject_wakes(void);

/* Whether an asynchronous event that is told will be told again. */
bool inject_repeats(void);

/* Actions of higher layers: on ports, devices and processes. Called with any lock held, so they only note what to do.
 */
struct inject_ops {
	void (*act)(const struct inject_verdict *verdict); /* its device lives as long as the process */
	void (*resume)(int pid, uint64_t after);	   /* SIGCONT to that process after so many ns */
	void (*at)(uint64_t when); /* ns: time at which inject_expire() is to be called; NEVER: not any more */
	bool (*has_device)(const char *name); /* takes the locks of devices */
	void (*changed)(void);		      /* the rules in force have changed, so lanes may. Takes locks of QPs */
};
/* Sets the operations, once; until then nothing is done. */
void inject_serve(const struct inject_ops *ops);
void inject_act(const struct inject_verdict *verdict);
void inject_resume(int pid, uint64_t after);
/* Fires the rules of time that are due at `now`, ns. */
void inject_expire(uint64_t now);

/* States that rules bring about: DO_PORT_DOWN (no packet leaves or arrives), DO_GID_GONE, DO_FATAL. Of one device; set
 * for "": of all. */
void inject_set(enum rule_action state, const char *device, bool on);
bool inject_is(enum rule_action state, const char *device);

/* Regions that are not there any more (revoke). */
void inject_revoke(uint32_t key);
bool inject_is_revoked(uint32_t key);

/* Rules that come and go while the program runs. Add: the number of the rule, from 1, or -EINVAL with *error, -ENOSPC.
 * Remove: 0 or -ENOENT. */
int inject_add(const char *text, struct rule_error *error);
int inject_remove(int number);
void inject_clear(void);
/* Calls show() for each rule in force. `could`: how often its event came, `did`: how often it fired. */
void inject_list(void (*show)(void *arg, int number, const char *text, uint64_t could, uint64_t did), void *arg);
/* How often a rule fired, also one that has been removed; -ENOENT: no rule ever had that number. */
int64_t inject_fired(int number);
/* The seed in use: UROCE_FAULT_SEED, or the one that was drawn. */
uint64_t inject_seed(void);

#endif
