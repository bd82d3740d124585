/* SPDX-License-Identifier: BSD-2-Clause */
/* The longest messages. Source and target are regions that have memory only where it is written. */
#include <errno.h>
#include <stdio.h>

#include "conform.h"
#include "states.h"

struct big {
	uint64_t address;
	uint32_t lkey, rkey;
};

static struct big make_big(struct end *e, uint64_t length)
{
	struct big b;
	int error = try_big(e, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
			    &b.address, &b.lkey, &b.rkey);

	if (error)
		lacking("a region of %llu bytes: %s", (unsigned long long)length, errno_name(error));
	return b;
}

static int post_big(struct pair *p, enum ibv_wr_opcode opcode, const struct big *from, const struct big *to,
		    uint32_t length)
{
	struct ibv_sge sge = {from->address, length, from->lkey};
	struct ibv_send_wr wr = {.wr_id = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .wr.rdma = {to->address, to->rkey}};

	return post(&p->a, &wr);
}

/* max_msg_sz + 4: nothing is sent. */
static void too_long(enum ibv_wr_opcode opcode)
{
	struct pair p = make_pair(IBV_QPT_RC);
	uint64_t length = (uint64_t)near->port.max_msg_sz + 4;
	struct big from, to;
	struct ibv_wc wc;
	int error;

	if (length > UINT32_MAX)
		lacking("an SGE of so many bytes");
	from = make_big(near, length);
	to = make_big(far, length);
	error = post_big(&p, opcode, &from, &to, (uint32_t)length);
	if (error == EINVAL || error == EMSGSIZE)
		return;
	expect_errno("ibv_post_send", error, 0);
	wc = completion(near, p.a.scq);
	if (wc.status != IBV_WC_LOC_LEN_ERR)
		wrong("%s", ibv_wc_status_str(wc.status));
}

static void send_too_long(void)
{
	too_long(IBV_WR_SEND);
}

static void write_too_long(void)
{
	too_long(IBV_WR_RDMA_WRITE);
}

static void read_too_long(void)
{
	too_long(IBV_WR_RDMA_READ);
}

static const struct row rows[] = {
	{"rc/send-max+4", "IBTA 9.7.8, 10.7.2.2: local length error; ibv_query_port(3): max_msg_sz",
	 "a SEND of max_msg_sz + 4", "LOC_LEN_ERR, or EINVAL", send_too_long},
	{"rc/write-max+4", "IBTA 9.7.8, 10.7.2.2", "a WRITE of max_msg_sz + 4", "LOC_LEN_ERR, or EINVAL",
	 write_too_long},
	{"rc/read-max+4", "IBTA 9.7.8, 10.7.2.2", "a READ of max_msg_sz + 4", "LOC_LEN_ERR, or EINVAL", read_too_long},
	{0},
};

struct group messages_group = {"messages", .rows = rows};

/* ---- max_msg_sz itself: as much memory is written ---- */

/* MiB that are available. */
static unsigned long available(void)
{
	unsigned long kib = 0;
	char line[256];
	FILE *f = fopen("/proc/meminfo", "re");

	while (f && fgets(line, sizeof(line), f) && sscanf(line, "MemAvailable: %lu", &kib) != 1)
		;
	if (f)
		fclose(f);
	return kib >> 10;
}

static void longest(enum ibv_wr_opcode opcode)
{
	struct pair p = make_pair(IBV_QPT_RC);
	uint32_t length = near->port.max_msg_sz;
	struct big from, to;
	struct ibv_wc wc;

	if (available() / 3 < length >> 20)
		lacking("memory: %lu MiB are available", available());
	from = make_big(near, length);
	to = make_big(far, length);
	expect_errno("ibv_post_send", post_big(&p, opcode, &from, &to, length), 0);
	if (!poll_cq(near, p.a.scq, (int)options.seconds * 800, &wc))
		lacking("the time for it: --wait");
	expect("status", wc.status, IBV_WC_SUCCESS);
}

static void longest_write(void)
{
	longest(IBV_WR_RDMA_WRITE);
}

static void longest_read(void)
{
	longest(IBV_WR_RDMA_READ);
}

static const struct row long_rows[] = {
	{"rc/write-max", "ibv_query_port(3): max_msg_sz", "a WRITE of max_msg_sz", "success", longest_write},
	{"rc/read-max", "ibv_query_port(3): max_msg_sz", "a READ of max_msg_sz", "success", longest_read},
	{0},
};

struct group longest_group = {"longest", .rows = long_rows, .is_long = true};
