/* SPDX-License-Identifier: BSD-2-Clause */
/* Two machines and the network between them, with a time of its own. A test says what is lost, and what each
 * user answers. */
#ifndef CM_WORLD_H
#define CM_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cm/calls.h"
#include "cm/comm_id.h"
#include "cm/connection.h"
#include "cm/machine.h"

enum {
	ACTIVE,
	PASSIVE,
	MACHINES,
	WORLD_EVENTS = 32,
	WORLD_MADS = 256,
	SERVICE = 0x1061234,
};

struct world_event {
	enum cm_event event;
	int status;
	bool has_mad;
	struct cm_mad mad;
};

/* A user and its connection. */
struct user {
	struct connection *c;
	struct world_event event[WORLD_EVENTS];
	uint32_t events, shown;
};

struct world_mad {
	uint8_t to; /* which machine */
	uint8_t bytes[CM_MAD_BYTES];
};

struct world {
	struct machine machine[MACHINES];
	struct user user[MACHINES];
	uint64_t now;
	struct world_mad mad[WORLD_MADS]; /* under way */
	uint32_t mads;
	uint32_t sent;	       /* ever */
	uint64_t lost;	       /* bit n: message n never arrives */
	bool twice;	       /* each message arrives two times */
	bool backwards;	       /* what is under way arrives last first */
	int verdict;	       /* of request() */
	uint64_t guid;	       /* of the adapter that asks */
	struct cm_mad request; /* the last REQ or SIDR_REQ that request() saw */
	uint32_t requests;
	uint32_t unanswered; /* so often has the network been suspected */
	/* what users do as soon as they are told; false: the test does it */
	bool answers;
};

int world_setup(void **state);
int world_teardown(void **state);
/* Of tests with rows: a new world for each, in place of the one that *state has. */
struct world *world_renew(void **state);

const struct cm_address *world_address(int which);

/* A connection of the active side, not yet asked for. */
void world_open(struct world *w);
void world_connect(struct world *w); /* world_open(), and a REQ */

/* Both machines have talked to each other before: what they answer is not limited. */
void world_acquaint(struct world *w);

/* A message for that machine; what is due there. */
void world_hear(struct world *w, int which, const uint8_t mad[CM_MAD_BYTES], const struct cm_address *address);
void world_expire(struct world *w, int which);

/* Until nothing is under way; time does not pass. */
void world_deliver(struct world *w);
/* Until nothing happens before that time. */
void world_run(struct world *w, uint64_t until);
/* Both users let go; and time passes until nothing is left. */
void world_end(struct world *w);

/* The next event of that user, which must be this one. */
const struct world_event *world_expect(struct world *w, int which, enum cm_event event);
void world_expect_none(struct world *w, int which);
bool world_has(struct world *w, int which, enum cm_event event);

#endif
