/* SPDX-License-Identifier: BSD-2-Clause */
/* An XRC domain is a claim in the table of services (gsi.h): the same processes share that table, and claims of dead
 * processes end. */
#include "port/domain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/yield.h"
#include "host/services.h"
#include "port/gsi.h"
#include "port/tuned.h"

#define CLAIM_SERVICE 0x7872632f75726f63u /* IBTA defines no service id that begins with this byte */

/* A domain that is open in this process. */
struct domain {
	struct list link;
	struct xrcd_name name;
	uint32_t count;
};

static struct lock domains_lock = LOCK_RANKED(DOMAINS);
static struct list domains GUARDED_BY(domains_lock) = {&domains, &domains};

static union ibv_gid address_of(const struct xrcd_name *name)
{
	/* never equal to an IP address */
	const uint64_t words[2] = {~name->device, name->inode};
	union ibv_gid address;

	static_assert(sizeof(address) == sizeof(words), "two words name a file");
	memcpy(&address, words, sizeof(address));
	return address;
}

static struct domain *domain_find(const struct xrcd_name *name) REQUIRES(domains_lock)
{
	list_each_safe (l, &domains) {
		struct domain *d = container_of(l, struct domain, link);

		if (xrcd_same(&d->name, name))
			return d;
	}
	return NULL;
}

/* Retries: a process that checks whether others have the domain open holds it exclusively for a moment. */
static int claim_shared(const union ibv_gid *address)
{
	int err = -EADDRINUSE;

	for (int i = 0; err == -EADDRINUSE && i < CLAIM_TRIES; i++) {
		err = gsi_claim(address, CLAIM_SERVICE, GSI_SHARED);
		if (err == -EADDRINUSE)
			processor_yield();
	}
	return err;
}

/* Claims a domain that this process does not have open yet. 0 or -errno, as domain_open(). */
static int domain_claim(const struct xrcd_name *name, bool create, bool exclusive)
{
	union ibv_gid address = address_of(name);
	int err;

	if (create && !exclusive)
		return claim_shared(&address);
	err = gsi_claim(&address, CLAIM_SERVICE, GSI_BOUND);
	if (!err && create)
		return gsi_claim(&address, CLAIM_SERVICE, GSI_SHARED);
	if (!err) {
		gsi_release(&address, CLAIM_SERVICE);
		return -EAGAIN;
	}
	if (err != -EADDRINUSE)
		return err;
	return exclusive ? -EINVAL : claim_shared(&address);
}

static int domain_add(const struct xrcd_name *name, bool create, bool exclusive) REQUIRES(domains_lock)
{
	struct domain *d = calloc(1, sizeof(*d));
	int err;

	if (!d)
		return -ENOMEM;
	err = domain_claim(name, create, exclusive);
	if (err) {
		free(d);
		return err;
	}
	d->name = *name;
	d->count = 1;
	list_append(&domains, &d->link);
	return 0;
}

int domain_open(const struct xrcd_name *name, bool create, bool exclusive)
{
	struct domain *d;
	int err = 0;

	lock_take(&domains_lock);
	d = domain_find(name);
	if (!d)
		err = domain_add(name, create, exclusive);
	else if (exclusive)
		err = -EINVAL;
	else
		d->count++;
	lock_drop(&domains_lock);
	return err;
}

void domain_close(const struct xrcd_name *name)
{
	union ibv_gid address = address_of(name);
	struct domain *d;

	lock_take(&domains_lock);
	d = domain_find(name);
	if (d && --d->count == 0) {
		gsi_release(&address, CLAIM_SERVICE);
		list_remove(&d->link);
		free(d);
	}
	lock_drop(&domains_lock);
}

void domains_forget(void)
{
	list_init(&domains);
}
