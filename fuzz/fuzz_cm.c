/* SPDX-License-Identifier: BSD-2-Clause */
/* Connection management: any 256 bytes are parsed within bounds and what is accepted encodes back; and any
 * sequence of messages, calls of the user and pauses leaves the machine able to end, with nothing left over.
 *
 * The input is a sequence of steps: a byte below 16 and its argument (see act()), or RAW and a whole message.
 * Seeds: corpus/cm, made of the captures by cm-seeds.py. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/calls.h"
#include "cm/comm_id.h"
#include "cm/connection.h"
#include "cm/machine.h"
#include "require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	RAW = 0xff,
	USERS = 8,
};

static struct connection *user[USERS]; /* whose `user` points to its place here */
static uint32_t reminders;	       /* of a deadline */

static const struct cm_address address = {.local.raw = {[10] = 0xff, 0xff, 192, 0, 2, 1},
					  .remote.raw = {[10] = 0xff, 0xff, 192, 0, 2, 2}};

static void send(struct machine *m, const struct cm_address *to, const uint8_t mad[CM_MAD_BYTES])
{
	struct cm_mad parsed;

	require(!memcmp(&to->remote, &address.remote, sizeof(to->remote)));
	require(!cm_mad_parse(&parsed, mad)); /* what we say is well-formed */
}

static void event(void *arg, enum cm_event event, int status, const struct cm_mad *mad)
{
	struct connection **place = arg;

	require(place >= user && place < user + USERS && *place);
}

static int request(struct connection *c, const struct cm_mad *mad, void **place)
{
	if (mad->private_data[0] >= 0xf0)
		return mad->private_data[0] == 0xff   ? -EAGAIN
		       : mad->private_data[0] == 0xfe ? -ENOENT
						      : 1 + (mad->private_data[0] & 7);
	for (int i = 0; i < USERS; i++) {
		if (!user[i]) {
			user[i] = c;
			*place = &user[i];
			return 0;
		}
	}
	return -1;
}

static void deadline(struct machine *m, uint64_t when)
{
	reminders++;
}

static const struct machine_ops ops = {.send = send, .event = event, .request = request, .deadline = deadline};

static void check_codec(const uint8_t mad[CM_MAD_BYTES])
{
	uint8_t bytes[CM_MAD_BYTES], again[CM_MAD_BYTES];
	struct cm_mad m, back;
	struct cm_ip ip;
	uint64_t service;

	if (cm_mad_parse(&m, mad)) {
		require(machine_owner(mad, &service) == -1);
		return;
	}
	require(machine_owner(mad, &service) >= 0);
	cm_mad_encode(&m, bytes);
	require(!cm_mad_parse(&back, bytes));
	cm_mad_encode(&back, again);
	require(!memcmp(bytes, again, CM_MAD_BYTES));
	if (!cm_ip_parse(&ip, m.private_data))
		cm_ip_encode(&ip, bytes);
}

static void receive(struct machine *m, const uint8_t mad[CM_MAD_BYTES], uint64_t now)
{
	lock_take(&m->lock);
	machine_receive(m, mad, &address, now);
	lock_drop(&m->lock);
}

static void expire(struct machine *m, uint64_t now)
{
	lock_take(&m->lock);
	machine_expire(m, now);
	lock_drop(&m->lock);
}

/* The message of that kind that the chosen connection is most likely to take. */
static void hear(struct machine *m, uint8_t kind, uint8_t argument, uint64_t now)
{
	struct connection *c = user[argument % USERS];
	struct cm_mad mad = {.message = CM_FIRST + kind,
			     .local_id = 1 + (argument >> 4),
			     .reason = argument >> 3,
			     .about = argument >> 6,
			     .service_timeout = argument >> 3,
			     .local_timeout = argument >> 3,
			     .private_data = {argument}};
	uint8_t bytes[CM_MAD_BYTES];

	if (c) {
		mad.remote_id = c->id;
		mad.transaction = c->state == CM_ESTABLISHED ? c->challenge : c->transaction;
		mad.local_id = mad.message == CM_SIDR_REP ? c->id : c->remote_id ?: mad.local_id;
		mad.qpn = mad.message == CM_DREQ ? c->local_qpn : c->remote_qpn;
	}
	mad.qpn = mad.qpn ?: 1u + argument % 4;
	cm_mad_encode(&mad, bytes);
	receive(m, bytes, now);
}

static void act(struct machine *m, uint8_t what, uint8_t argument, uint64_t *now)
{
	struct connection **place = &user[argument % USERS];
	struct cm_mad mad = {.qpn = 1 + argument,
			     .remote_timeout = argument >> 3,
			     .max_retries = argument & 15,
			     .reason = argument >> 3};

	switch (what) {
	case CM_MESSAGES:
		if (!*place)
			*place = connection_open(m, &address, place);
		connection_request(*place, &mad, *now);
		break;
	case CM_MESSAGES + 1:
		*now += cm_time(argument & 31);
		expire(m, *now);
		require(machine_deadline(m) > *now);
		break;
	case CM_MESSAGES + 2:
		if (*place)
			connection_release(*place, *now);
		*place = NULL;
		break;
	case CM_MESSAGES + 3: /* say yes */
		if (*place && connection_accept(*place, &mad, *now) && connection_ready(*place, &mad, *now) &&
		    connection_answer(*place, &mad, *now) && connection_established(*place))
			connection_lookup(*place, &mad, *now);
		break;
	case CM_MESSAGES + 4: /* say no */
		if (*place && connection_reject(*place, &mad, *now))
			connection_disconnect(*place, &mad, *now);
		break;
	default:
		hear(m, what, argument, *now);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct machine m = {0};
	uint64_t now = SEC;
	const uint8_t *end = data + size;

	require(!machine_init(&m, &ops, 1, 0));
	memset(user, 0, sizeof(user));
	while (end - data >= 2) {
		if (*data == RAW && end - data > CM_MAD_BYTES) {
			check_codec(data + 1);
			receive(&m, data + 1, now);
			data += 1 + CM_MAD_BYTES;
		} else {
			act(&m, data[0] & 15, data[1], &now);
			data += 2;
		}
	}
	for (int i = 0; i < USERS; i++)
		if (user[i])
			connection_release(user[i], now);
	memset(user, 0, sizeof(user));
	for (int i = 0; i < 1000 && m.alive; i++)
		expire(&m, now += 1000 * SEC);
	require(!m.alive && !m.timers.members);
	machine_fini(&m);
	return 0;
}
