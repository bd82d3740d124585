/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/services.h"

#include <errno.h>
#include <string.h>

#include "base/qpn.h"
#include "link/netif.h"

/* Fields of service.owner. */
enum owner_bits {
	OWNER_SLOT = SLOT_LAST,
	OWNER_KIND_SHIFT = SLOT_BITS, /* enum gsi_claim */
	OWNER_USED = 1 << 30,	      /* the entry is in use, or a search continues after it */
};

struct claim {
	uint64_t id, address[2];
	uint16_t slot; /* slot of the owner; 0: free */
	enum gsi_claim kind;
};

static const union ibv_gid any, any_ipv4 = {.raw = {[10] = 0xff, [11] = 0xff}};
const union ibv_gid gsi_any_ipv6 = {.raw = {0xff}};

/* Index of the first entry that may have the id. Entries of one id follow from there, with others in between, up to one
 * that was never used. */
static uint32_t first_of(uint64_t id)
{
	return (uint32_t)((id * 0x9e3779b97f4a7c15u) >> 32) % GSI_SERVICES;
}

static struct service *entry_at(struct services *s, uint32_t i)
{
	return &s->entry[i % GSI_SERVICES];
}

/* Reads an entry. False: the sequence ends here. Relaxed: `owner` is read first and last, and pairs with
 * write_entry(). */
static bool read_entry(struct service *e, struct claim *c)
{
	uint32_t owner = atomic_load_explicit(&e->owner, memory_order_acquire);

	c->id = atomic_load_explicit(&e->id, memory_order_relaxed);
	c->address[0] = atomic_load_explicit(&e->address[0], memory_order_relaxed);
	c->address[1] = atomic_load_explicit(&e->address[1], memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	c->slot = owner == atomic_load_explicit(&e->owner, memory_order_relaxed) ? owner & OWNER_SLOT : 0;
	c->kind = owner >> OWNER_KIND_SHIFT & 0xff;
	return owner;
}

static void write_entry(struct services *s, struct service *e, const struct claim *c)
{
	if (!atomic_exchange_explicit(&e->owner, OWNER_USED, memory_order_relaxed))
		atomic_fetch_add_explicit(&s->used, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&e->id, c->id, memory_order_relaxed);
	atomic_store_explicit(&e->address[0], c->address[0], memory_order_relaxed);
	atomic_store_explicit(&e->address[1], c->address[1], memory_order_relaxed);
	atomic_store_explicit(&e->owner, OWNER_USED | (uint32_t)c->kind << OWNER_KIND_SHIFT | c->slot,
			      memory_order_release);
}

/* Clears an entry. Unused entries at the end of a sequence are marked as never used. */
static void clear_entry(struct services *s, uint32_t i)
{
	struct service *e = entry_at(s, i);
	struct claim c;

	atomic_store_explicit(&e->owner, OWNER_USED, memory_order_release);
	if (read_entry(entry_at(s, i + 1), &c))
		return;
	for (uint32_t n = 0; n < GSI_SERVICES && read_entry(e, &c) && !c.slot; n++) {
		atomic_store_explicit(&e->owner, 0, memory_order_release);
		atomic_fetch_sub_explicit(&s->used, 1, memory_order_relaxed);
		i += GSI_SERVICES - 1;
		e = entry_at(s, i);
	}
}

static bool equal(const uint64_t a[2], const uint64_t b[2])
{
	return a[0] == b[0] && a[1] == b[1];
}

/* True if `wide` is the address itself, or a wildcard that includes it. */
static bool covers(const uint64_t wide[2], const uint64_t narrow[2])
{
	union ibv_gid w, n;

	memcpy(&w, wide, sizeof(w));
	memcpy(&n, narrow, sizeof(n));
	return equal(wide, narrow) || !memcmp(&w, &any, sizeof(w)) ||
	       !memcmp(&w, address_is_ipv4(&n) ? &any_ipv4 : &gsi_any_ipv6, sizeof(w));
}

static bool collide(const struct claim *a, const struct claim *b)
{
	return (covers(a->address, b->address) || covers(b->address, a->address)) &&
	       !(a->kind == GSI_SHARED && b->kind == GSI_SHARED);
}

/* As Linux: core/cma.c, cma_check_port(). */
static int services_error(const struct claim *a, const struct claim *b)
{
	union ibv_gid gid;

	memcpy(&gid, a->address, sizeof(gid));
	if (!equal(a->address, b->address) || !memcmp(&gid, &any, sizeof(gid)) ||
	    !memcmp(&gid, &any_ipv4, sizeof(gid)) || !memcmp(&gid, &gsi_any_ipv6, sizeof(gid)))
		return -EADDRNOTAVAIL;
	return -EADDRINUSE;
}

static struct claim make_claim(uint16_t slot, const union ibv_gid *address, uint64_t id, enum gsi_claim kind)
{
	struct claim c = {.id = id, .slot = slot, .kind = kind};

	memcpy(c.address, address, sizeof(c.address));
	return c;
}

static bool services_is_same(const struct claim *a, const struct claim *b)
{
	return a->slot == b->slot && a->id == b->id && equal(a->address, b->address);
}

int services_claim(struct services *s, uint16_t slot, const union ibv_gid *address, uint64_t id, enum gsi_claim kind,
		   bool (*is_alive)(uint16_t slot))
{
	struct claim new = make_claim(slot, address, id, kind), c;
	struct service *place = NULL, *own = NULL;
	uint32_t i = first_of(id), n;

	for (n = 0; n < GSI_SERVICES && read_entry(entry_at(s, i), &c); n++, i++) {
		struct service *e = entry_at(s, i);

		if (services_is_same(&c, &new)) {
			own = e;
		} else if (c.slot && c.id == id && collide(&c, &new)) {
			if (c.slot == slot || is_alive(c.slot))
				return services_error(&c, &new);
			place = place ?: e;
		} else if (!c.slot) {
			place = place ?: e;
		}
	}
	if (n < GSI_SERVICES && !place)
		place = entry_at(s, i);
	if (!own && !place)
		return -ENOSPC;
	write_entry(s, own ?: place, &new);
	return 0;
}

void services_release(struct services *s, uint16_t slot, const union ibv_gid *address, uint64_t id)
{
	struct claim old = make_claim(slot, address, id, GSI_BOUND), c;
	uint32_t i = first_of(id);

	for (uint32_t n = 0; n < GSI_SERVICES && read_entry(entry_at(s, i), &c); n++, i++) {
		if (services_is_same(&c, &old)) {
			clear_entry(s, i);
			return;
		}
	}
}

void services_forget(struct services *s, uint16_t slot)
{
	struct claim c;

	if (!atomic_load_explicit(&s->used, memory_order_relaxed))
		return; /* the pages of the table stay untouched */
	for (uint32_t i = 0; i < GSI_SERVICES; i++)
		if (read_entry(entry_at(s, i), &c) && c.slot == slot)
			clear_entry(s, i);
}

uint32_t services_listeners(struct services *s, const union ibv_gid *to, uint16_t *slots, uint32_t max)
{
	struct claim wanted = make_claim(0, to, 0, GSI_LISTENS), c;
	uint32_t count = 0;

	for (uint32_t i = 0; i < GSI_SERVICES && count < max; i++) {
		bool known = !read_entry(&s->entry[i], &c) || !c.slot || c.kind != GSI_LISTENS ||
			     !covers(c.address, wanted.address);

		for (uint32_t k = 0; k < count && !known; k++)
			known = slots[k] == c.slot;
		if (!known)
			slots[count++] = c.slot;
	}
	return count;
}

uint16_t services_owner(struct services *s, const union ibv_gid *to, uint64_t id, bool (*is_alive)(uint16_t slot))
{
	struct claim wanted = make_claim(0, to, id, GSI_LISTENS), c;
	uint32_t i = first_of(id);

	for (uint32_t n = 0; n < GSI_SERVICES && read_entry(entry_at(s, i), &c); n++, i++)
		if (c.slot && c.id == id && c.kind == GSI_LISTENS && covers(c.address, wanted.address) &&
		    is_alive(c.slot))
			return c.slot;
	return 0;
}
