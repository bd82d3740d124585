// SPDX-License-Identifier: BSD-2-Clause
/* Traffic of all kinds with one peer after the other, of which each goes in its own way: the part of the one that
 * stays.
 */
#ifndef TEST_TRAFFIC_H
#define TEST_TRAFFIC_H

#include "survivor.h"

enum {
	SIZE = 40000,
	IN_FLIGHT = 8,
};

/* Which of the requests, how many at a time, whether memory is registered between them, and whether
 * completions are waited for asleep. */
struct traffic {
	uint32_t first_kind, in_flight;
	bool registers, sleeps;
};

static inline struct traffic any_traffic(void)
{
	return dice(2) ? (struct traffic){0, IN_FLIGHT, .sleeps = dice(2)}
		       : (struct traffic){2, 1, .registers = dice(2)};
}

static inline void post_any(struct rc *rc, uint32_t first)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		uint32_t least, most;
	} kinds[] = {
		{IBV_WR_SEND, 1, SIZE},
		{IBV_WR_SEND, 1, 64},
		{IBV_WR_RDMA_WRITE, 1, SIZE},
		{IBV_WR_RDMA_WRITE, 1, 8},
		{IBV_WR_RDMA_READ, 1, SIZE},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 8},
		{IBV_WR_ATOMIC_CMP_AND_SWP, 8, 8},
	};
	uint32_t kind = first + dice(sizeof(kinds) / sizeof(kinds[0]) - first);

	rc_post(rc, kinds[kind].opcode, 0, 0, kinds[kind].least + dice(kinds[kind].most - kinds[kind].least + 1));
}

static inline void register_some(struct rc *rc)
{
	size_t size = (1 + dice(16)) * 4096;
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	struct ibv_mr *mr;

	MUST(at != MAP_FAILED);
	MUST(mr = ibv_reg_mr(rc->pd, at, size, IBV_ACCESS_LOCAL_WRITE));
	ZERO(ibv_dereg_mr(mr));
	MUST(!munmap(at, size));
}

/* Traffic until something fails; then all the rest is flushed. Or until so many requests have succeeded. */
static inline enum ibv_wc_status exchange(struct rc *rc, uint32_t limit)
{
	struct traffic t = any_traffic();
	uint32_t left = IN_FLIGHT + t.in_flight;
	enum ibv_wc_status first;
	struct ibv_wc wc;

	for (int i = 0; i < IN_FLIGHT; i++)
		rc_post_receive(rc, 0, SIZE);
	for (uint32_t i = 0; i < t.in_flight; i++)
		post_any(rc, t.first_kind);
	while ((wc = t.sleeps ? rc_sleep(rc) : rc_poll(rc)).status == IBV_WC_SUCCESS) {
		if (!limit--)
			return wc.status;
		if (wc.opcode & IBV_WC_RECV)
			rc_post_receive(rc, 0, SIZE);
		else
			post_any(rc, t.first_kind);
		if (t.registers && !dice(8))
			register_some(rc);
	}
	first = wc.status;
	while (--left)
		MUST(rc_poll(rc).status == IBV_WC_WR_FLUSH_ERR);
	return first;
}

/* What is registered while a page is locked is not moved to where others can map it. */
static inline void lock_a_page_or_not(void)
{
	static _Alignas(4096) char page[4096];

	ZERO(dice(2) ? mlock(page, sizeof(page)) : munlock(page, sizeof(page)));
}

static int statuses[64]; /* how often exchanges ended so */

static inline void episode(struct rc *base, int fd)
{
	struct rc rc;

	lock_a_page_or_not();
	rc_open(&rc, base, 0, SIZE);
	rc.timeout = 1;
	rc.retry_cnt = 1;
	if (meet(&rc, fd))
		statuses[exchange(&rc, UINT32_MAX)]++;
	rc_close(&rc);
}

static inline void survivor(int listener, int expected)
{
	printf("%d met;", survive(listener, expected, SIZE, episode));
	for (int i = 0; i < 64; i++)
		if (statuses[i])
			printf(" %s: %d;", ibv_wc_status_str((enum ibv_wc_status)i), statuses[i]);
	printf("\n");
	MUST(statuses[IBV_WC_SUCCESS] == 0);
	exit(0);
}

/* ---- the one that kills ---- */

#endif
