/* SPDX-License-Identifier: BSD-2-Clause */
/* A buffer belongs to the adapter from the post to the poll of the completion. Whether the program has written to what
 * it sends is told by a digest of the bytes. */
#include "check/buffers.h"

#include <inttypes.h>
#include <string.h>

#include "memory/fault.h"
#include "object/sge.h"

#define DIGEST_MOST (1u << 20) /* bytes of an SGE */

struct digesting {
	const struct request *request;
	uint64_t digest;
};

static uint64_t digest_add(uint64_t digest, const char *at, uint32_t length)
{
	uint64_t word;

	for (; length >= sizeof(word); at += sizeof(word), length -= sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		digest = (digest ^ word) * 0x9e3779b97f4a7c15u;
		digest ^= digest >> 29;
	}
	for (; length; at++, length--)
		digest = (digest ^ (uint8_t)*at) * 0x100000001b3u;
	return digest;
}

static void digest_request(void *arg)
{
	struct digesting *d = arg;
	const struct request *r = d->request;

	for (int i = 0; i < r->sges; i++)
		d->digest = digest_add(d->digest, (const char *)(uintptr_t)r->sge[i].addr,
				       min_of(r->sge[i].length, DIGEST_MOST));
}

/* False: the memory cannot be read. */
static bool digest_of(const struct request *r, uint64_t *digest)
{
	struct digesting d = {r, 0};
	bool ok = fault_try(digest_request, &d);

	*digest = d.digest;
	return ok;
}

void buffers_begin(struct request *r)
{
	r->has_digest = check_wants(CHECK_BUFFERS) && r->sges && digest_of(r, &r->digest);
}

void buffers_end(const struct request *r)
{
	struct finding f = {.class = CHECK_BUFFERS,
			    .name = "changed-in-flight",
			    .remedy = "write to the buffer only when the completion has been polled; or send it inline",
			    .at = {{"posted", r->posted}, {"its completion was polled", NULL}}};
	uint64_t now;

	if (!r->has_digest || (digest_of(r, &now) && now == r->digest))
		return;
	snprintf(f.text, sizeof(f.text),
		 "the %u bytes at 0x%" PRIx64 " that a request sends (wr_id 0x%" PRIx64
		 ") were changed before its completion was polled",
		 r->sge[0].length, r->sge[0].addr, r->wr_id);
	f.at[1].stack = stack_here();
	finding_report(&f);
}
