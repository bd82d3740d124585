/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/peers.h"

#include <netinet/in.h>
#include <string.h>

#include "base/fork.h"
#include "base/clock.h"
#include "base/lock.h"
#include "rsocket/tuned.h"

struct host {
	sa_family_t family;
	struct in6_addr address;
	bool answers;
	uint64_t silent_until;
};

static struct lock lock = LOCK_RANKED(PEERS);
static struct host hosts[64] GUARDED_BY(lock); /* by hash; a new host replaces the one there */

static struct in6_addr bytes_of(const struct sockaddr *address)
{
	struct in6_addr bytes = {0};

	if (address->sa_family == AF_INET6)
		return ((const struct sockaddr_in6 *)address)->sin6_addr;
	memcpy(&bytes, &((const struct sockaddr_in *)address)->sin_addr, sizeof(struct in_addr));
	return bytes;
}

/* NULL: not known. `anew`: enters it then. */
static struct host *find(const struct sockaddr *address, bool anew) REQUIRES(lock)
{
	struct host is = {.family = address->sa_family, .address = bytes_of(address)}, *h;
	uint32_t hash = 0;

	for (size_t i = 0; i < ARRAY_SIZE(is.address.s6_addr); i++)
		hash = hash * 31 + is.address.s6_addr[i];
	h = &hosts[hash % ARRAY_SIZE(hosts)];
	if (h->family == is.family && !memcmp(&h->address, &is.address, sizeof(is.address)))
		return h;
	if (anew)
		*h = is;
	return anew ? h : NULL;
}

bool peer_is_silent(const struct sockaddr *address)
{
	struct host *h;
	bool is;

	lock_take(&lock);
	h = find(address, false);
	is = h && clock_now() < h->silent_until;
	lock_drop(&lock);
	return is;
}

void peer_was_silent(const struct sockaddr *address)
{
	struct host *h;

	lock_take(&lock);
	h = find(address, true);
	if (!h->answers) /* else it is only late */
		h->silent_until = clock_now() + SILENCE;
	lock_drop(&lock);
}

void peer_has_answered(const struct sockaddr *address)
{
	struct host *h;

	lock_take(&lock);
	h = find(address, true);
	h->answers = true;
	h->silent_until = 0;
	lock_drop(&lock);
}
