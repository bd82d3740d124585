/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/patience.h"

#include "base/config.h"
#include "engine/cause.h"
#include "engine/complete.h"
#include "engine/tuned.h"

void starve(struct qp *qp)
{
	qp->resp.nak = SYNDROME_RNR | (qp->attr.min_rnr_timer & SYNDROME_VALUE);
	cause_starves(qp);
}

bool patience_begin(struct qp *qp)
{
	struct responder *r = &qp->resp;

	if (!qp->req.lossless || is_xrc_target(qp))
		return false;
	if (r->starves)
		return r->look_at;
	if (!config_bool(CONFIG_PATIENCE))
		return false;
	r->starves = true;
	r->patient_until = 0;
	r->look_at = 1; /* as soon as possible: the common path does not read the clock */
	return true;
}

void patience_expire(struct qp *qp, uint64_t now)
{
	struct responder *r = &qp->resp;
	uint64_t left;

	if (likely(!r->look_at) || now < r->look_at)
		return;
	if (!r->patient_until)
		r->patient_until = now + RNR_PATIENCE;
	left = r->patient_until - min_of(now, r->patient_until);
	r->look_at = 0;
	if (!qp_is_receiving(qp))
		return;
	if (has_receive(qp))
		r->nak = NAK_AGAIN;
	else if (!left)
		starve(qp);
	else
		r->look_at = now + min_of(left, max_of(RNR_PATIENCE - left, RNR_FIRST));
}
