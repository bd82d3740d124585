/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/handover.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/high_fd.h"
#include "base/same_user.h"
#include "host/name.h"
#include "host/name_owner.h"
#include "host/registry.h"
#include "host/slot.h"

#define REFUSED_INTERVAL (10 * MSEC) /* between two looks at a name that another user has */

enum kind {
	KIND_PACKET,
	KIND_PASS,   /* a struct handover_pass, then a packet */
	KIND_REPORT, /* a struct handover_report and no packet */
	KIND_ASK,    /* a struct handover_ask and no packet */
};

/* A record, followed by `bytes`: the struct of its kind, then a packet from the BTH up to the ICRC, which was good;
 * padded to a multiple of 8. */
struct record {
	uint32_t bytes;
	uint8_t congestion, traffic_class;
	uint8_t kind, is_uroce;
	union ibv_gid from, to;
};
/* The structs are sent as they are: no byte between fields may leak old memory. */
static_assert(sizeof(struct handover_pass) == 96 && offsetof(struct handover_pass, reserved) == 91,
	      "aligned, no holes");
static_assert(sizeof(struct handover_report) == 32 && offsetof(struct handover_report, reserved) == 29, "likewise");
static_assert(sizeof(struct handover_ask) == 16 && offsetof(struct handover_ask, reserved) == 12, "likewise");

static uint32_t fill(uint32_t bytes)
{
	return (bytes + 7) & ~7u;
}

/* True if a process of this user has bound the name of the slot, to which `fd` is connected. If the kernel does not
 * tell, the connection by which that process offers its registry does. */
static bool is_to_us(int fd, uint16_t slot)
{
	uid_t uid;

	if (name_is_of_folder(fd))
		return true;
	if (name_owner_of_peer(fd, &uid) || user_is_unmapped(uid))
		return registry_is_offered(slot);
	return uid == geteuid();
}

/* A socket that stays connected to that process's, whichever process binds the name later; or -errno: -ECONNREFUSED: no
 * process has the name; -EACCES: another user has it. */
static int connect_to(uint16_t slot)
{
	struct sockaddr_un address;
	int fd = high_fd(slots_probe()), err = 0;

	if (fd < 0)
		return -errno;
	if (name_connect(fd, &address, slot_address(&address, slot)))
		err = -errno;
	else if (!is_to_us(fd, slot))
		err = -EACCES;
	if (!err)
		return fd;
	close(fd);
	return err;
}

static void receiver_close(struct handover_receiver *r)
{
	int fd = r->fd - 1;

	r->fd = 0;
	if (fd >= 0)
		close(fd);
}

void handover_close(struct handover *h)
{
	for (size_t i = 0; i < HANDOVER_RECEIVERS; i++)
		receiver_close(&h->receiver[i]);
}

static struct handover_receiver *receiver_of(struct handover *h, uint16_t slot)
{
	struct handover_receiver *r;

	for (r = h->receiver; r < h->receiver + HANDOVER_RECEIVERS; r++)
		if (r->slot == slot)
			return r;
	r = &h->receiver[h->replaced++ % HANDOVER_RECEIVERS];
	receiver_close(r);
	*r = (struct handover_receiver){.slot = slot};
	return r;
}

/* Sends a datagram. 0 or -errno: -ECONNREFUSED: the process is dead, and *r no longer connected. */
static int receiver_send(struct handover_receiver *r, const void *bytes, size_t count)
{
	int err;

	if (!r->fd) {
		if (r->refused && clock_now() - r->refused < REFUSED_INTERVAL)
			return -EACCES;
		err = connect_to(r->slot);
		r->refused = err == -EACCES ? clock_now() : 0;
		if (err < 0)
			return err;
		r->fd = err + 1;
	}
	if (send(r->fd - 1, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	err = -errno;
	if (err == -ECONNREFUSED)
		receiver_close(r);
	return err;
}

void handover_send(struct handover *h)
{
	struct handover_receiver *r;
	bool again;
	int err;

	if (!h->bytes)
		return;
	r = receiver_of(h, h->slot);
	again = r->fd;
	err = receiver_send(r, h->memory, h->bytes);
	if (err == -ECONNREFUSED && again) /* a new process may have the slot */
		err = receiver_send(r, h->memory, h->bytes);
	/* fails if the process is dead, or stopped with a full queue: the packets are lost */
	h->lost += err < 0;
	if (err == -ECONNREFUSED || err == -EACCES)
		h->dead = h->slot;
	h->bytes = 0;
}

/* Makes room for a record of at most `most` bytes in a datagram for that slot. NULL: too long for any datagram. */
static struct record *open_record(struct handover *h, uint16_t slot, uint32_t most)
{
	most += sizeof(struct record);
	if (most > HANDOVER_BYTES)
		return NULL;
	if (h->slot != slot || h->bytes + most > HANDOVER_BYTES)
		handover_send(h);
	h->slot = slot;
	return (struct record *)(h->memory + h->bytes);
}

/* Adds a record. `first`: the struct of its kind, or NULL. */
static void add(struct handover *h, uint16_t slot, enum kind kind, const void *first, uint32_t size,
		const struct packet *p, const union ibv_gid *from)
{
	uint32_t most = size + PACKET_HEADERS + fill(p->length + packet_pad(p->length)) + 8;
	struct record *record = open_record(h, slot, most);
	uint8_t *at, *start = (uint8_t *)(record + 1);
	uint32_t bytes;

	if (!record)
		return;
	at = start;
	if (size)
		memcpy(at, first, size);
	at += size;
	at += packet_encode(p, at);
	memcpy(at, p->payload, p->length);
	at += p->length;
	bytes = at - start + packet_pad(p->length);
	memset(at, 0, start + fill(bytes) - at); /* the padding */
	*record = (struct record){.bytes = bytes,
				  .kind = kind,
				  .congestion = p->congestion,
				  .is_uroce = p->is_uroce,
				  .traffic_class = p->traffic_class,
				  .from = *from};
	memcpy(&record->to, p->to, sizeof(record->to));
	h->bytes += sizeof(*record) + fill(bytes);
	h->packets++;
}

void handover_add(struct handover *h, uint16_t slot, const struct packet *p, const union ibv_gid *from)
{
	add(h, slot, KIND_PACKET, NULL, 0, p, from);
}

void handover_pass(struct handover *h, uint16_t slot, const struct handover_pass *pass, const struct packet *p,
		   const union ibv_gid *from)
{
	add(h, slot, KIND_PASS, pass, sizeof(*pass), p, from);
}

static void add_message(struct handover *h, uint16_t slot, enum kind kind, const void *message, uint32_t size)
{
	struct record *record = open_record(h, slot, fill(size));

	*record = (struct record){.bytes = size, .kind = kind};
	memcpy(record + 1, message, size);
	h->bytes += sizeof(*record) + fill(size);
}

void handover_report(struct handover *h, uint16_t slot, const struct handover_report *report)
{
	add_message(h, slot, KIND_REPORT, report, sizeof(*report));
}

void handover_ask(struct handover *h, uint16_t slot, const struct handover_ask *ask)
{
	add_message(h, slot, KIND_ASK, ask, sizeof(*ask));
}

/* True if a process of this user sent the datagram. */
static bool is_ours(struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS) {
			struct ucred who;

			memcpy(&who, CMSG_DATA(c), sizeof(who));
			return same_user_sender(&who);
		}
	}
	return false;
}

static void take_packet(const struct record *record, const uint8_t *at, const struct handover_ops *ops, void *arg)
{
	uint32_t first = record->kind == KIND_PASS ? sizeof(struct handover_pass) : 0;
	struct packet p;

	if (record->bytes < first || packet_parse(&p, at + first, record->bytes - first))
		return;
	p.congestion = record->congestion;
	p.is_uroce = record->is_uroce;
	p.traffic_class = record->traffic_class;
	p.to = record->to.raw;
	if (!first)
		ops->packet(arg, &p, &record->from);
	else if (ops->passed)
		ops->passed(arg, (const struct handover_pass *)at, &p, &record->from);
}

static void handover_take(const struct record *record, const uint8_t *at, const struct handover_ops *ops, void *arg)
{
	if (record->kind == KIND_PACKET || record->kind == KIND_PASS)
		take_packet(record, at, ops, arg);
	else if (record->kind == KIND_REPORT && record->bytes == sizeof(struct handover_report) && ops->report)
		ops->report(arg, (const struct handover_report *)at);
	else if (record->kind == KIND_ASK && record->bytes == sizeof(struct handover_ask) && ops->asked)
		ops->asked(arg, (const struct handover_ask *)at);
}

bool handover_receive(const struct slot *own, const struct handover_ops *ops, void *arg)
{
	_Alignas(8) static uint8_t memory[HANDOVER_BYTES]; /* guarded by rx ownership */
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))];
	struct iovec iov = {memory, sizeof(memory)};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(own->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	const uint8_t *at = memory, *end;

	if (n < 0)
		return false;
	if (!is_ours(&m))
		return true;
	for (end = memory + n; (size_t)(end - at) > sizeof(struct record);) {
		const struct record *record = (const struct record *)at;

		at += sizeof(*record);
		if (record->bytes > (size_t)(end - at))
			break;
		handover_take(record, at, ops, arg);
		at += min_of((size_t)fill(record->bytes), (size_t)(end - at));
	}
	return true;
}
