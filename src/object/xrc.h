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

/* The process that has the responder of a target, as its owner knows: port/target.h. In a delegate: which move of the
 * owner it belongs to. */
struct xrc_delegation {
	uint16_t to;	    /* slot of the process whose delegate takes the packets; 0: this one */
	bool rests, wanted; /* rests: between messages; wanted: a packet for another process has come and was dropped */
	uint32_t epoch;	    /* number of moves */
	uint64_t incarnation;  /* random; 0: no move since RESET */
	psn_t begin, expected; /* first PSN of the delegate; last known expected PSN */
	uint32_t begin_msn, msn;
};

/* What has opened a target beside its creator: another process (verbs/remote_qp.c), or a handle of this one
 * (verbs/shared_qp.c). */
struct xrc_opener {
	struct list link;					      /* in xrc.openers of the target */
	void (*tell)(struct xrc_opener *o, enum ibv_event_type type); /* with qp->lock held; blocks never */
};

struct xrc {
	/* of a target */
	struct xrcd_name domain;
	struct srq *srq; /* the SRQ that the packet at hand names; NULL: none */
	uint32_t srqn;	 /* the SRQ number that the message at hand names */
	struct xrc_delegation delegation;
	bool is_delegate; /* it is the responder of a target of another process: port/target.h. Constant */

	/* of an initiator */
	bool is_passed_on; /* it has named an SRQ of a process other than its peer: so it sends by UDP, not by the ring
			    */

	/* of a target that can be opened several times; each opener has a struct qp of its own, a view:
	 * verbs/shared_qp.c */
	struct qp *real;       /* of a view: the real QP. Constant */
	struct xrcd *xrcd;     /* of a view and of its creator's QP: the domain by which it was opened. Constant */
	struct list openers;   /* views and remote processes */
	uint32_t open;	       /* number of openers, the creator included */
	bool is_closed;	       /* the creator has closed it */
	struct remote *remote; /* of a QP in another process: the connection to it. Constant */
};

#endif
