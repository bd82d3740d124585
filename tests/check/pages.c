// SPDX-License-Identifier: BSD-2-Clause
/* What is found by page protection (--strict-polling), at the instruction that touches the memory: whole pages. Builds
 * with AddressSanitizer leave it to that. */
#include "pair.h"
#include "rows.h"

#include <sys/wait.h>
#include <unistd.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define HAS_ASAN
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define HAS_ASAN
#endif

#ifndef HAS_ASAN
static volatile char seen;

/* A receive of all of b's memory, and the SEND for it. */
static void send_page(struct pair *p)
{
	post(&p->a, IBV_WR_SEND, piece(&p->a, 0, SIZE), &p->b, IBV_SEND_SIGNALED);
}

static void await_page(struct pair *p)
{
	await(&p->a);
	MUST(await(&p->b).byte_len == SIZE);
	MUST(!memcmp(p->a.memory, p->b.memory, SIZE));
}

static void open_page(struct pair *p, struct want want)
{
	pair_open(p, want);
	for (int i = 0; i < SIZE; i++)
		p->a.memory[i] = (char)(i * 7 + 1);
	receive(&p->b, piece(&p->b, 0, SIZE));
}

/* Until a completion of the CQ, which is armed, is there: the bytes have come then, and while they come a page is not
 * protected. It is not polled. */
static void await_event(struct pair *p, const struct end *e)
{
	struct ibv_cq *cq;
	void *context;

	ZERO(ibv_get_cq_event(p->channel, &cq, &context));
	MUST(cq == e->cq);
	ibv_ack_cq_events(cq, 1);
}

static void receive_page_is_read(bool wrong)
{
	struct pair p;

	open_page(&p, (struct want){0});
	if (wrong)
		seen = p.b.memory[100];
	send_page(&p);
	await_page(&p);
	pair_close(&p);
}

static void message_page_is_read(bool wrong)
{
	struct pair p;

	open_page(&p, (struct want){0});
	send_page(&p);
	await(&p.a);
	if (wrong)
		MUST(p.b.memory[SIZE - 1] == p.a.memory[SIZE - 1]); /* it has come */
	await(&p.b);
	seen = p.b.memory[7];
	pair_close(&p);
}

static void shared_page_is_read(bool wrong)
{
	struct pair p;

	open_page(&p, (struct want){.shares = true});
	if (wrong)
		seen = p.b.memory[100];
	send_page(&p);
	await_page(&p);
	pair_close(&p);
}

static void datagram_page_is_read(bool wrong)
{
	struct pair p;

	open_page(&p, (struct want){.type = IBV_QPT_UD});
	ZERO(ibv_req_notify_cq(p.b.cq, 0));
	post(&p.a, IBV_WR_SEND, piece(&p.a, 0, 1024), &p.b, IBV_SEND_SIGNALED);
	await(&p.a);
	await_event(&p, &p.b);
	if (wrong)
		seen = p.b.memory[40];
	await(&p.b);
	MUST(!memcmp(p.a.memory, p.b.memory + 40, 1024));
	pair_close(&p);
}

static void result_page_is_read(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	memset(p.b.memory, 9, SIZE);
	ZERO(ibv_req_notify_cq(p.a.cq, 0));
	post(&p.a, IBV_WR_RDMA_READ, piece(&p.a, 0, SIZE), &p.b, IBV_SEND_SIGNALED);
	await_event(&p, &p.a);
	if (wrong)
		seen = p.a.memory[SIZE / 2];
	await(&p.a);
	MUST(p.a.memory[SIZE / 2] == 9);
	pair_close(&p);
}

static void receive_page_is_cleared(bool wrong)
{
	struct pair p;

	open_page(&p, (struct want){0});
	if (wrong)
		memset(p.b.memory, 0, SIZE);
	send_page(&p);
	await_page(&p);
	pair_close(&p);
}

static void message_page_is_written(bool wrong)
{
	struct pair p;

	open_page(&p, (struct want){0});
	send_page(&p);
	await(&p.a);
	if (wrong)
		p.b.memory[0] = 0;
	await(&p.b);
	MUST(p.b.memory[0] == (wrong ? 0 : p.a.memory[0]));
	pair_close(&p);
}

static void sent_page_is_written(bool wrong)
{
	struct pair p;

	open_page(&p, (struct want){0});
	send_page(&p);
	if (wrong)
		p.a.memory[5] = 0;
	else
		seen = p.a.memory[5]; /* that is allowed */
	await(&p.a);
	await(&p.b);
	p.a.memory[5] = 1;
	pair_close(&p);
}

static void *look_at_page(void *arg)
{
	struct pair *p = arg;

	seen = p->b.memory[100];
	return NULL;
}

static void page_is_read_by_a_thread(bool wrong)
{
	pthread_t thread;
	struct pair p;

	open_page(&p, (struct want){0});
	if (wrong) {
		ZERO(pthread_create(&thread, NULL, look_at_page, &p));
		ZERO(pthread_join(thread, NULL));
	}
	send_page(&p);
	await_page(&p);
	pair_close(&p);
}

/* What goes on beside it: a child has a copy of its own, the memory is registered once more, and a peer writes to it.
 */
static void page_has_other_users(bool wrong)
{
	struct ibv_mr *mr;
	struct pair p;
	int status;
	pid_t pid;

	ZERO(ibv_fork_init());
	open_page(&p, (struct want){0});
	MUST(mr = ibv_reg_mr(p.pd, p.b.memory, SIZE, ALL));
	ZERO(ibv_dereg_mr(mr));
	MUST((pid = fork()) >= 0);
	if (!pid) {
		p.b.memory[1] = 1;
		_exit(p.b.memory[1] - 1);
	}
	MUST(waitpid(pid, &status, 0) == pid && !status);
	receive(&p.a, piece(&p.a, 0, SIZE));
	if (wrong)
		p.a.memory[SIZE - 1] = 0;
	post(&p.b, IBV_WR_RDMA_WRITE, piece(&p.b, 0, 64), &p.a, IBV_SEND_SIGNALED);
	await(&p.b);
	pair_close(&p);
}

#endif

const struct row page_rows[] = {
#ifndef HAS_ASAN
	{"receive_page_is_read", receive_page_is_read, "touched-in-flight", "receive_page_is_read"},
	{"message_page_is_read", message_page_is_read, "touched-in-flight", "message_page_is_read"},
	{"shared_page_is_read", shared_page_is_read, "touched-in-flight", "shared_page_is_read"},
	{"datagram_page_is_read", datagram_page_is_read, "touched-in-flight", "datagram_page_is_read"},
	{"result_page_is_read", result_page_is_read, "touched-in-flight", "result_page_is_read"},
	{"receive_page_is_cleared", receive_page_is_cleared, "touched-in-flight", "receive_page_is_cleared"},
	{"message_page_is_written", message_page_is_written, "touched-in-flight", "message_page_is_written"},
	{"sent_page_is_written", sent_page_is_written, "touched-in-flight", "sent_page_is_written"},
	{"page_is_read_by_a_thread", page_is_read_by_a_thread, "touched-in-flight", "look_at_page"},
	{"page_has_other_users", page_has_other_users, "touched-in-flight", "page_has_other_users"},
#endif
	{0},
};
