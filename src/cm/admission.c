/* SPDX-License-Identifier: BSD-2-Clause */
/* Counts half-open connections, in all and of one address. sources.h has the numbers of each address. */
#include "cm/admission.h"

#include <string.h>

#include "cm/comm_id.h"
#include "cm/sources.h"
#include "cm/state.h"

static void age_count(struct connection *c, int by)
{
	struct machine *m = c->machine;

	m->aging[c->age].count += (uint32_t)by;
	if (c->age != CM_AGE_HALF_OPEN)
		return;
	*sources_half_open(&m->sources, &c->address.remote) += (uint16_t)by;
	if (!c->is_proven)
		m->unproven += (uint32_t)by;
}

void age_set(struct connection *c, enum cm_age age)
{
	if (c->age == age)
		return;
	if (c->age)
		age_count(c, -1);
	list_remove(&c->aging);
	c->age = age;
	if (!age)
		return;
	age_count(c, 1);
	list_append(&c->machine->aging[age].oldest, &c->aging);
}

void connection_prove(struct connection *c, uint64_t now)
{
	if (!c->is_proven && c->age == CM_AGE_HALF_OPEN)
		c->machine->unproven--;
	c->is_proven = true;
	sources_prove(&c->machine->sources, &c->address.remote, now);
}

bool credit_take(struct connection *c)
{
	if (c->is_proven)
		return true;
	if (!c->credit)
		return false;
	c->credit--;
	return true;
}

/* Asks an address to prove that it receives what is sent to it, without storing state: sends a DREQ for a connection
 * that does not exist, which uroce and the kernel always answer. Its id and transaction ID are a cookie that only
 * this process can compute. The DREP goes to the process in our slot; the peer then repeats its request. */
static void machine_ask_for_proof(struct machine *m, const struct cm_address *a, const struct cm_mad *mad, uint64_t now)
	REQUIRES(m->lock)
{
	uint64_t cookie = sources_cookie(&m->sources, &a->remote, mad->local_id, now);
	struct cm_mad dreq = {.message = CM_DREQ,
			      .transaction = cookie,
			      .local_id = (uint32_t)m->slot << ID_BITS | (uint32_t)(cookie >> (64 - ID_BITS)),
			      .remote_id = mad->local_id};
	uint8_t bytes[CM_MAD_BYTES];

	cm_mad_encode(&dreq, bytes);
	m->ops->send(m, a, bytes);
}

void machine_take_proof(struct machine *m, const struct cm_address *a, const struct cm_mad *drep, uint64_t now)
{
	if (sources_check_cookie(&m->sources, &a->remote, drep->local_id, drep->transaction, now))
		sources_prove(&m->sources, &a->remote, now);
}

struct connection *admission_surplus(struct machine *m)
{
	static const uint32_t most[CM_AGES] = {UINT32_MAX, CM_HALF_OPEN_MAX, CM_ANSWERED_MAX};

	for (uint32_t age = 0; age < CM_AGES; age++)
		if (m->aging[age].count >= most[age])
			return container_of(m->aging[age].oldest.next, struct connection, aging);
	return NULL;
}

bool machine_admit(struct machine *m, const struct cm_address *a, const struct cm_mad *mad, uint64_t now)
{
	if (m->unproven >= CM_UNPROVEN_MAX && !sources_is_proven(&m->sources, &a->remote, now)) {
		machine_ask_for_proof(m, a, mad, now);
		return false;
	}
	return *sources_half_open(&m->sources, &a->remote) < CM_SOURCE_MAX;
}
