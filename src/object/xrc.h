/* SPDX-License-Identifier: BSD-2-Clause */
/* The part of a queue pair that only XRC has (docs/xrc.md). qp_create() makes it, qp_destroy() frees it, qp->lock
 * guards it. */
#ifndef UROCE_XRC_H
#define UROCE_XRC_H

#include "base/list.h"
#include "base/psn.h"
#include "object/xrcd.h"

struct qp;
struct srq;
struct remote;

/* The place of a target's responder, as its owner knows: port/target.h. In a delegate: the move of the owner to which
 * it belongs. */
struct xrc_delegation {
	uint16_t to;	    /* slot of the process whose delegate takes the packets; 0: this one */
	bool rests, wanted; /* rests: between messages; wanted: a packet for another process has come and was dropped */
	uint32_t epoch;	    /* number of moves */
	uint64_t incarnation;  /* random; 0: no move since RESET */
	psn_t begin, expected; /* first PSN of the delegate; last known expected PSN */
	uint32_t begin_msn, msn;
};

/* An opener of a target beside its creator: another process (verbs/remote_qp.c), or a handle of this one
 * (verbs/shared_qp.c). */
struct xrc_opener {
	struct list link;					      /* in xrc.openers of the target */
	void (*tell)(struct xrc_opener *o, enum ibv_event_type type); /* called with qp->lock held; never blocks */
};

struct xrc {
	/* Fields of a target. */
	struct xrcd_name domain;
	struct srq *srq; /* SRQ that the packet at hand names; NULL: none */
	uint32_t srqn;	 /* SRQ number that the message at hand names */
	struct xrc_delegation delegation;
	bool is_delegate; /* responder of a target of another process: port/target.h. Constant */

	/* Fields of an initiator. */
	bool is_passed_on; /* named an SRQ of a process that is not its peer: so it sends by UDP, not by the ring */

	/* Fields of a target that can be opened several times; each opener has a struct qp of its own, a view:
	 * verbs/shared_qp.c. */
	struct qp *real;       /* view: the real QP. Constant */
	struct xrcd *xrcd;     /* view, and QP of the creator: domain by which it was opened. Constant */
	struct list openers;   /* views and remote processes */
	uint32_t open;	       /* number of openers, the creator included */
	bool is_closed;	       /* closed by its creator */
	struct remote *remote; /* QP of another process: connection to it. Constant */
};

#endif
