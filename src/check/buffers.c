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

typedef uint64_t lanes __attribute__((vector_size(32)));

/* Sums of the words, and sums of these sums, which tell the order: in lanes, as it has to be fast. */
static uint64_t digest_blocks(const char *at, uint32_t blocks)
{
	lanes word[2], sum[2] = {{0}, {0}}, order[2] = {{0}, {0}};
	uint64_t digest = 0;

	for (; blocks; at += sizeof(word), blocks--) {
		memcpy(word, at, sizeof(word));
		sum[0] += word[0];
		sum[1] += word[1];
		order[0] += sum[0];
		order[1] += sum[1];
	}
	for (int i = 0; i < 4; i++) {
		digest = (digest ^ sum[0][i] ^ order[1][i]) * 0x9e3779b97f4a7c15u;
		digest = (digest ^ sum[1][i] ^ order[0][i] << 1) * 0x9e3779b97f4a7c15u;
	}
	return digest;
}

static uint64_t digest_add(uint64_t digest, const char *at, uint32_t length)
{
	enum { BLOCK = 2 * sizeof(lanes) };
	uint32_t blocks = length / BLOCK;

	if (blocks)
		digest = (digest ^ digest_blocks(at, blocks)) * 0x100000001b3u;
	for (at += (size_t)blocks * BLOCK, length %= BLOCK; length; at++, length--)
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

#define PROBES 4096 /* of a region */

struct probing {
	const char *at;
	uint64_t length, step;
	volatile uint64_t done;
};

static void probe(void *arg)
{
	struct probing *p = arg;

	for (; p->done < p->length; p->done += p->step)
		(void)*(const volatile char *)(p->at + p->done);
}

void buffers_mapped(const struct ibv_mr *base)
{
	const struct mr *mr = (const struct mr *)base;
	struct finding f = {.class = CHECK_MAPPINGS,
			    .name = "unmapped-registered",
			    .remedy = "deregister the region before its memory is unmapped or freed",
			    .at = {{"deregistered", NULL}, {"registered", NULL}}};
	struct probing p = {.at = mr->memory, .length = mr->length};
	const struct object *o;

	if (!check_wants(CHECK_MAPPINGS) || mr_is_indirect(mr) || !mr->length)
		return;
	p.step = max_of(4096u, mr->length / PROBES);
	if (fault_try(probe, &p))
		return;
	lock_take(&objects_lock);
	o = object_find(CHECK_MR, mr);
	f.at[1].stack = o ? o->made : NULL;
	lock_drop(&objects_lock);
	if (!f.at[1].stack)
		return;
	snprintf(f.text, sizeof(f.text),
		 "the memory of a region of %" PRIu64 " bytes has been unmapped before it is deregistered: 0x%" PRIx64
		 " is not there",
		 mr->length, (uint64_t)(uintptr_t)mr->memory + p.done);
	f.at[0].stack = stack_here();
	finding_report(&f);
}
