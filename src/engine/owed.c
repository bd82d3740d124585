/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/owed.h"

#include "engine/engine.h"

void responder_drop_early(struct qp *qp)
{
	struct responder *r = &qp->resp;

	early_drop(&r->early);
	r->sack_owed = false;
	if (r->refused == REFUSED_GAP)
		r->refused = REFUSED_OTHER;
}

void engine_ask_from(struct qp *qp, psn_t psn)
{
	qp->resp.nak = NAK_SEQUENCE;
	qp->resp.nak_psn = psn;
}
