/* SPDX-License-Identifier: BSD-2-Clause */
/* What an XRC queue pair has beside what every queue pair has (docs/xrc.md). qp_create() makes it, qp_destroy() frees
 * it, qp->lock guards it. */
#ifndef UROCE_XRC_H
#define UROCE_XRC_H

#include "base/list.h"
#include "base/psn.h"
#include "object/xrcd.h"

struct qp;
struct srq;
struct remote;

/* Where the responder of a target is, as its owner knows: loop/target.h. Of a delegate: which one of the owner's moves
 * it is for. */
struct xrc_delegation {
	uint8_t to;	       /* the slot of the process whose delegate takes what comes; 0: this one */
	bool rests, wanted;    /* it is between messages; a packet for somebody else has come and was dropped */
	uint32_t epoch;	       /* how often it has moved */
	uint64_t incarnation;  /* random; 0: it never has, since RESET */
	psn_t begin, expected; /* from where on it is there, and how far it was heard to be */
	uint32_t begin_msn, msn;
};

/* One that has a target open, other than its maker. */
struct xrc_opener {
	struct list link;      /* in the target's openers */
	struct qp *view;       /* what the application holds; NULL: another process has it open ... */
	struct remote *remote; /* ... by this connection: verbs/remote_qp.h */
};

struct xrc {
	/* of a target */
	struct xrcd_name domain;
	struct srq *srq; /* what the packet at hand names; NULL: nothing */
	uint32_t srqn;	 /* what the message at hand names */
	struct xrc_delegation delegation;

	/* of an initiator */
	bool is_passed_on; /* it has named an SRQ of another process than its peer's: so it sends by UDP, not by the
			      ring */

	/* of a target that may be opened several times, each time with a struct qp of its own, a view:
	 * verbs/shared_qp.c */
	struct qp *real;       /* of a view: the QP. Constant */
	struct xrcd *xrcd;     /* of a view and of its maker's QP: what it was opened by. Constant */
	struct list openers;   /* views and remote processes ... */
	uint32_t open;	       /* ... how many have it open, its maker among them ... */
	bool is_closed;	       /* ... which has closed it */
	struct remote *remote; /* of a QP that is in another process: the connection to it. Constant */
};

#endif
