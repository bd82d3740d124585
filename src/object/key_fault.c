/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/key_fault.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "object/mr.h"

const char *access_text(unsigned access, char text[128])
{
	static const struct {
		unsigned bit;
		const char *name;
	} names[] = {
		{IBV_ACCESS_LOCAL_WRITE, "LOCAL_WRITE"}, {IBV_ACCESS_REMOTE_WRITE, "REMOTE_WRITE"},
		{IBV_ACCESS_REMOTE_READ, "REMOTE_READ"}, {IBV_ACCESS_REMOTE_ATOMIC, "REMOTE_ATOMIC"},
		{IBV_ACCESS_MW_BIND, "MW_BIND"},
	};
	size_t at = 0;

	snprintf(text, 128, "none");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (access & names[i].bit)
			at += (size_t)snprintf(text + at, 128 - at, "%s%s", at ? "|" : "", names[i].name);
	return text;
}

static enum key_fault fault_of_no_region(const struct hca *hca, uint32_t key, char *text)
{
	static const struct {
		const char *one, *done;
	} words[] = {
		[GONE_DEREGISTERED] = {"region", "was deregistered"},
		[GONE_REREGISTERED] = {"region", "got another key by ibv_rereg_mr()"},
		[GONE_INVALIDATED] = {"memory window", "was invalidated, by LOCAL_INV or SEND_WITH_INV,"},
		[GONE_REBOUND] = {"memory window", "was bound again"},
		[GONE_FREED] = {"memory window", "was deallocated"},
	};
	struct mr_gone old;
	int n;

	if (!mr_find_gone(hca, key, &old)) {
		snprintf(text, KEY_FAULT_TEXT, "no region has the key 0x%x", key);
		return KEY_UNKNOWN;
	}
	n = snprintf(text, KEY_FAULT_TEXT, "the %s of the key 0x%x, 0x%" PRIx64 "..0x%" PRIx64 ", %s %.6f s before",
		     words[old.how].one, key, old.iova, old.iova + old.length, words[old.how].done,
		     (double)(clock_now() - old.at) / SEC);
	if (old.next)
		snprintf(text + n, KEY_FAULT_TEXT - (size_t)n, ", 0x%x: use its lkey and rkey again", old.next);
	return KEY_GONE;
}

/* The region or window that has `key` as its key of one kind. */
static struct mr *region_of(struct hca *hca, uint32_t key, bool is_local)
{
	return is_local ? mr_get_local(hca, key) : mr_get(hca, key);
}

static bool is_other_kind(struct hca *hca, struct key_used used, char *text)
{
	const char *used_as = used.is_local ? "lkey" : "rkey", *is = used.is_local ? "rkey" : "lkey";
	struct mr *mr = region_of(hca, used.key, !used.is_local);

	if (!mr)
		return false;
	snprintf(text, KEY_FAULT_TEXT, "0x%x is the %s of a %s, and was used as an %s", used.key, is,
		 mr->type ? "memory window" : "region", used_as);
	mr_put(mr);
	return true;
}

enum key_fault key_fault(struct hca *hca, const struct pd *pd, struct key_used used, uint64_t va, uint64_t length,
			 unsigned access, char text[KEY_FAULT_TEXT])
{
	struct mr *mr = region_of(hca, used.key, used.is_local);
	uint32_t key = used.key;
	enum key_fault fault = KEY_UNMAPPED;
	char has[128], needs[128];

	if (!mr)
		return is_other_kind(hca, used, text) ? KEY_KIND : fault_of_no_region(hca, key, text);
	snprintf(text, KEY_FAULT_TEXT,
		 "0x%" PRIx64 "..0x%" PRIx64 " is in the region of the key 0x%x, but is not mapped", va, va + length,
		 key);
	if (mr->pd != pd) {
		fault = KEY_DOMAIN;
		snprintf(text, KEY_FAULT_TEXT, "the region of the key 0x%x is of another protection domain", key);
	} else if (!mr_allows(mr, pd, va, length, 0)) {
		fault = KEY_BOUNDS;
		snprintf(text, KEY_FAULT_TEXT,
			 "0x%" PRIx64 "..0x%" PRIx64 " is not inside 0x%" PRIx64 "..0x%" PRIx64
			 ", the region of the key 0x%x",
			 va, va + length, mr->iova, mr->iova + mr->length, key);
	} else if (!mr_allows(mr, pd, va, length, access)) {
		fault = KEY_RIGHTS;
		snprintf(text, KEY_FAULT_TEXT, "the region of the key 0x%x has the rights %s, not %s", key,
			 access_text(mr->access, has), access_text(access & ~mr->access, needs));
	}
	mr_put(mr);
	return fault;
}
