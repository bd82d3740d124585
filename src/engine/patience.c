/* SPDX-License-Identifier: BSD-2-Clause */
/* Patience with a receiver that posts its receives as fast as it can. Some programs ask for no RNR retries, as no
 * network outruns them; a local peer's messages do. So one that finds no receive is dropped in silence for a while: if
 * a receive comes meanwhile, the local peer hears NAK_AGAIN, which costs it no retry, and else the RNR NAK. Over a
 * network both ends do as adapters do. */
#include "engine/internal.h"

#define PATIENCE   (4 * MSEC)  /* less than any transport timer; as long as a processor may be somebody else's */
#define FIRST_LOOK (20 * USEC) /* for a receive; then after twice as long, and so on */

bool patience_begin(struct qp *qp)
{
	struct responder *r = &qp->resp;

	if (!qp->req.lossless || is_xrc_target(qp))
		return false;
	if (r->starves)
		return r->look_at;
	r->starves = true;
	r->patient_until = 0;
	r->look_at = 1; /* soon: what time it is matters to nobody when all goes well, so it is not known here */
	return true;
}

void patience_expire(struct qp *qp, uint64_t now)
{
	struct responder *r = &qp->resp;
	uint64_t left;

	if (likely(!r->look_at) || now < r->look_at)
		return;
	if (!r->patient_until)
		r->patient_until = now + PATIENCE;
	left = r->patient_until - min_of(now, r->patient_until);
	r->look_at = 0;
	if (!qp_is_receiving(qp))
		return;
	if (has_receive(qp))
		r->nak = NAK_AGAIN;
	else if (!left)
		r->nak = rnr_nak(qp);
	else
		r->look_at = now + min_of(left, max_of(PATIENCE - left, FIRST_LOOK));
}
