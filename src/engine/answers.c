/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/answers.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/wqe.h"

struct response *response_at(struct responder *r, uint32_t i)
{
	return &r->responses[(r->response_head + i) % r->response_size];
}

/* The peer never has more requests outstanding than there are entries, but the network may repeat an old request at any
 * time. Responses to such duplicates give way. */
bool make_room(struct responder *r)
{
	uint32_t i = 0;

	if (r->response_count < r->response_size)
		return true;
	while (i < r->response_count && !response_at(r, i)->again)
		i++;
	if (i == r->response_count)
		return false;
	for (r->response_count--; i < r->response_count; i++)
		*response_at(r, i) = *response_at(r, i + 1);
	return true;
}

void respond(struct responder *r, const struct response *response)
{
	while (r->response_count && psn_diff(response_at(r, r->response_count - 1)->psn, response->psn) >= 0)
		r->response_count--;
	if (make_room(r))
		*response_at(r, r->response_count++) = *response;
}

bool is_coming(struct qp *qp, psn_t psn)
{
	struct responder *r = &qp->resp;

	for (uint32_t i = 0; i < r->response_count; i++) {
		const struct response *s = response_at(r, i);

		if (s->kind == RESPOND_READ && psn_diff(psn, s->psn) >= 0 &&
		    psn_diff(psn, psn_add(s->psn, packets_of(s->mtu, s->left))) < 0)
			return true;
	}
	return false;
}

struct answer_record *next_answer(struct responder *r)
{
	uint32_t slots = r->answer_slots, next = r->answer_next++;
	struct answer_record *done = &r->answers[(next + slots - r->response_size) % slots],
			     *free = &r->answers[next % slots];

	if (unlikely(r->repairs)) {
		kept_read_free(done->kept);
		done->kept = NULL;
		kept_read_free(free->kept);
	}
	return free;
}

/* Looks first at the record that is being answered. */
struct answer_record *find_answer(const struct responder *r, psn_t psn, bool is_read)
{
	uint32_t slots = r->answer_slots, at = slots ? (r->answer_next + slots - r->response_count) % slots : 0;

	for (uint32_t i = 0; i < slots; i++) {
		struct answer_record *a = &r->answers[at];

		if (a->packets && a->is_read == is_read && psn_diff(psn, a->psn) >= 0 &&
		    psn_diff(psn, a->psn) < (int32_t)a->packets)
			return a;
		at = at + 1 == slots ? 0 : at + 1;
	}
	return NULL;
}

int responder_start(struct qp *qp, uint32_t resources)
{
	struct responder *r = &qp->resp;
	struct response *responses = calloc(resources ? resources : 1, sizeof(*responses));
	/* twice as many records: what has been answered in part is not outstanding for every peer */
	uint32_t known = r->answer_slots, slots = 2 * resources;
	struct answer_record *answers = calloc(slots ?: 1, sizeof(*answers));
	uint32_t count = min_of(r->response_count, resources);

	if (!responses || !answers) {
		free(responses);
		free(answers);
		return -ENOMEM;
	}
	/* in SQD the number of entries can change while the peer goes on: keeps the waiting responses and stored
	 * results */
	for (uint32_t i = 0; i < count; i++)
		responses[i] = *response_at(r, i);
	for (uint32_t i = 0; i < known; i++) {
		struct answer_record *a = &r->answers[(r->answer_next + i) % known];

		if (i + slots < known)
			kept_read_free(a->kept);
		else
			answers[i % slots] = *a;
	}
	free(r->responses);
	free(r->answers);
	r->responses = responses;
	r->answers = answers;
	r->response_size = resources;
	r->answer_slots = slots;
	r->response_head = 0;
	r->response_count = count;
	r->answer_next = known;
	return 0;
}

void responder_stop(struct qp *qp)
{
	struct rwqe *recv = qp->resp.recv;

	responder_free(&qp->resp);
	qp->resp = (struct responder){.recv = recv};
}
