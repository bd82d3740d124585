/* SPDX-License-Identifier: BSD-2-Clause */
/* A simulated world: nodes with an adapter each, connections between them, a network, virtual time, and a model of
 * the expected result. One run is one world; its seed decides everything. */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "arena.h"
#include "dice.h"
#include "engine/engine.h"
#include "lane.h"
#include "network.h"

enum {
	WORLD_CQS = 3,
	WORLD_ENDS = 12,
	SLOTS = 8,   /* atomics of one connection's own */
	GUARD = 128, /* bytes around regions */
	MAX_PIECES = 6,
	STATUSES = 32, /* enum ibv_wc_status, as bits */
};

#define STATUS(s) (1u << (s))

struct world;
struct end;

/* What is wrong with a work request on purpose. */
enum poison {
	POISON_NONE,
	POISON_RKEY,	   /* no such key */
	POISON_BOUNDS,	   /* one byte beyond the region */
	POISON_WRITE_ONLY, /* a READ of a region that may not be read */
	POISON_READ_ONLY,  /* a WRITE to a region that may not be written */
	POISON_DOMAIN,	   /* a key of another protection domain */
	POISON_TOO_LONG,   /* a SEND longer than the receive */
	POISON_LKEY,	   /* no such local key */
	POISON_LOCAL,	   /* a READ into memory that may only be read */
	POISONS
};

/* A send work request, and what is to come of it. */
struct op {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	unsigned flags;
	uint32_t length, imm;
	enum poison poison;
	uint32_t pieces;
	struct piece piece[MAX_PIECES];
	bool owns_pieces;    /* false: they belong to the READ before it */
	struct space *space; /* of the pieces */
	uint32_t target;     /* offset in the peer's arena */
	uint8_t *data;	     /* what has to arrive, there or (READ, own atomics) here */
	bool shared;	     /* an atomic on a counter that others use as well */
	uint64_t posted_at;
};

struct take { /* a receive work request */
	uint64_t wr_id;
	uint32_t length, pieces;
	struct piece piece[MAX_PIECES];
};

struct node {
	uint32_t index;
	struct hca hca;
	struct pd pd, other_pd;
	struct cq cq[WORLD_CQS];
	bool armed[WORLD_CQS], woken[WORLD_CQS]; /* waits for cq_event; it came */
	/* a counter that all who are connected here increment */
	_Alignas(64) uint64_t counter;
	struct mr *counter_mr;
	uint64_t counted; /* increments that were posted */
	uint8_t *values;  /* how often each value of it was returned */
	uint64_t values_room, returned;
};

enum end_state {
	END_WORKS,
	END_CLOSED, /* in ERR */
	END_DEAD,   /* its node vanished, or it was destroyed: nothing is expected of it any more */
};

struct end {
	struct world *world;
	struct node *node;
	struct end *peer;
	uint32_t number;
	struct qp *qp;
	uint32_t qpn;
	struct cq *send_cq, *recv_cq;
	enum end_state state;
	struct ibv_qp_cap cap;
	struct ibv_qp_attr attr; /* wanted */
	bool sig_all;

	/* memory */
	struct arena arena;
	struct space source, sink, inbox;
	struct piece target, readable, writable;
	struct mr *source_mr, *sink_mr, *inbox_mr, *target_mr, *readable_mr, *writable_mr, *foreign_mr;
	uint32_t target_rkey; /* the peer's, as it told us */
	bool frozen;	      /* target_mr is gone: nothing may change there */
	bool source_gone;     /* so is source_mr */

	/* sends */
	struct op *op;
	uint32_t planned, posted, completed, room; /* op[0..planned) will be; posted of them are */
	uint32_t reclaimed;			   /* one past the last whose CQE was polled */
	uint32_t *message;			   /* ops that use a receive of the peer, by number */
	uint32_t messages;
	uint32_t successes;
	int first_error; /* status; -1: none yet */
	uint64_t first_error_at, last_posted_at;
	enum poison poison;	 /* for the next op */
	bool poisoned;		 /* such a one is posted: nothing after it may have any effect */
	uint32_t permitted;	 /* STATUS() bits: what the first error may be */
	uint32_t recv_permitted; /* ... and that of a receive */
	uint64_t close_at;	 /* when the application tidies up after an error; 0: not yet known */

	/* receives */
	struct take *take;
	uint32_t takes, takes_completed, takes_room;
	uint32_t received;   /* successes */
	uint32_t late_takes; /* posted in ERR */
	bool recv_failed;    /* a receive has failed or was flushed */
	bool starve;	     /* posts no receive any more */

	/* events and pace */
	uint32_t event[32]; /* enum ibv_event_type */
	bool fatal;	    /* an event said that the QP failed */
	bool draining;	    /* in SQD, and SQ_DRAINED has not come */
	bool patient;	    /* closes only when all has failed by itself */
	uint64_t run_at, tick_at, nap;
	uint64_t lane_at; /* when it finds that its peer can be reached without the network */
	bool stuck;	  /* there was no room in the lane for all that it has to send */
	uint64_t sent_to; /* up to where in the lane it has sent */
};

/* How a run goes: drawn once per run. */
struct style {
	uint64_t pace; /* ns between an application's doings */
	uint32_t max_length;
	double big, unsignalled, fence, use_inline, solicited, lazy_receives, delay_ack, run_now, arm;
	double drain, dependent, alike;
	uint32_t weight[8]; /* of operations, see workload.c */
	uint32_t budget;
};

struct scenario;

struct world {
	uint64_t seed, now, deadline, events;
	struct dice dice;
	struct network network;
	struct style style;
	const struct scenario *scenario;
	struct end *victim;
	uint32_t strike_after; /* requests that the victim posts before the scenario strikes */
	bool struck;
	uint64_t struck_at;
	bool spoiled;	   /* not every request has to succeed */
	uint32_t lane_mtu; /* the ends are on one host: nothing is lost, packets get this large; 0: on two hosts */
	struct sim_lane lane[NETWORK_NODES][NETWORK_NODES]; /* from, to */
	uint32_t stops_left;				    /* so often is a process stopped for a while */
	uint64_t stop_at;
	uint64_t stopped; /* ns, of all stops together */
	uint32_t nodes, ends;
	struct node node[NETWORK_NODES];
	struct end end[WORLD_ENDS];
	struct tx_batch batch;
	bool verbose;
	uint64_t ops, bytes;
	void (*beset)(struct world *w); /* after each step; may be NULL */
};

/* Overrides from the command line; negative or NULL: the dice decide. */
struct options {
	double loss, duplicate, corrupt, reorder, shortage;
	const char *scenario;
	bool verbose, list;
};

/* Ends the program: says what was expected, and how to see it again. */
_Noreturn void failed(struct world *w, const struct end *e, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void say(struct world *w, const struct end *e, const char *format, ...) __attribute__((format(printf, 3, 4)));

#define expect(w, e, claim, ...)                   \
	do {                                       \
		if (unlikely(!(claim)))            \
			failed(w, e, __VA_ARGS__); \
	} while (0)

/* world.c */
void world_draw(struct world *w, uint64_t seed, const struct options *options, struct quality *quality);
void world_init(struct world *w, uint64_t seed, const struct options *options);
void world_run(struct world *w);
void world_fini(struct world *w);

/* end.c: one end of a connection and the engine under it */
void end_create(struct end *e, struct world *w, struct node *node);
void end_connect(struct end *e);
void end_fini(struct end *e);
/* Runs the engine: packets onto the network, timer set. */
void end_run(struct end *e, bool delay_ack);
/* With the QP's lock: some of the requests go at once; returns the rest. */
struct ibv_send_wr *end_post_fast(struct end *e, struct ibv_send_wr *wr);
/* Now, or a little later, as a loop would. */
void end_attend(struct end *e);
void end_receive(struct end *e, const struct packet *p, const union ibv_gid *from);
void end_expire(struct end *e);
void end_modify(struct end *e, enum ibv_qp_state to);
void end_destroy_qp(struct end *e);
/* In SQD: another number of READs and atomics of the peer at a time. */
void end_resources(struct end *e);
/* The lane to its peer; NULL: there is none, or the peer is dead. */
struct sim_lane *end_lane(struct end *e);
bool end_is_idle(const struct end *e); /* all it posted has completed */

/* workload.c: what applications do */
void workload_draw(struct world *w);
void workload_tick(struct end *e);
bool workload_poll(struct node *node, uint32_t cq);

/* model.c: what comes out */
void model_completed(struct end *e, const struct cqe *c);
void model_received(struct end *e, const struct cqe *c);
/* A connection on which nothing went wrong, when all is done. */
void model_check_agreement(struct end *e);
/* After the last completion; then model_check_world(). */
void model_check_end(struct end *e);
void model_check_world(struct world *w);

/* scenario.c: what goes wrong */
struct scenario {
	const char *name;
	uint32_t weight;
	void (*prepare)(struct world *w); /* before anything is connected; may be NULL */
	void (*strike)(struct world *w);  /* when the victim has posted strike_after requests */
	uint32_t victim, peer;		  /* STATUS() bits: what may be the first error of each */
	bool must_fail;			  /* the victim's first error has to come */
};
void scenario_draw(struct world *w, const char *name);
/* Looks whether it is time to strike, or to close; called once in a while. */
void scenario_watch(struct world *w);

#endif
