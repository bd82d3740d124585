/* SPDX-License-Identifier: BSD-2-Clause */
/* Records of uroce's stores to memory of the program. */
#include "check/placed.h"

#include <stdatomic.h>

#include "check/request.h"
#include "check/tuned.h"

static struct placed records[RECORDS]; /* guarded by objects_lock */
static _Atomic uint64_t count;

/* ---- records ---- */

uint64_t placed_count(void)
{
	/* acquire: the bytes are digested after it; pairs with placed_note() */
	return atomic_load_explicit(&count, memory_order_acquire);
}

void placed_note(struct placed p)
{
	uint64_t n = atomic_load_explicit(&count, memory_order_relaxed);

	records[n % RECORDS] = p;
	atomic_store_explicit(&count, n + 1, memory_order_release);
}

void placed_request(const struct request *r)
{
	for (int i = 0; i < r->sges; i++)
		placed_note((struct placed){r->sge[i].addr, r->sge[i].length, r->qpn, false});
}

static bool touches(const struct request *r, const struct placed *p)
{
	for (int i = 0; i < r->sges; i++)
		if (r->sge[i].addr < p->at + p->length && p->at < r->sge[i].addr + r->sge[i].length)
			return true;
	return false;
}

bool placed_since(const struct request *r, struct placed *found)
{
	uint64_t n = placed_count(), from = r->since;
	bool any = n - from > RECORDS; /* older records are overwritten */

	*found = (struct placed){0};
	for (from = any ? n - RECORDS : from; n > from; n--) {
		const struct placed *p = &records[(n - 1) % RECORDS];

		if (!touches(r, p))
			continue;
		*found = *p;
		any = true;
		if (p->is_request && p->qpn != r->qpn)
			break;
	}
	return any;
}
