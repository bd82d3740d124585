// SPDX-License-Identifier: BSD-2-Clause
/* What the program does to memory that a peer accesses, as its ThreadSanitizer sees it under --only races. Other builds
 * have no such rows. */
#include "pair.h"
#include "rows.h"

#include <arpa/inet.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define HAS_TSAN
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define HAS_TSAN
#endif

#ifdef HAS_TSAN
static volatile char seen;

__attribute__((noinline)) static void look(const struct end *e, int at)
{
	seen = e->memory[at];
}

__attribute__((noinline)) static void store(const struct end *e, int at)
{
	*(volatile char *)&e->memory[at] = 1;
}

/* A WRITE alone tells nobody that it has come. */
static void nothing_tells_of_the_write(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	store(&p.b, 63); /* before its receive is posted, so before the WRITE */
	receive(&p.b, piece(&p.b, 1024, 64));
	post(&p.a, wrong ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	if (!wrong)
		await(&p.b);
	look(&p.b, 63);
	await(&p.a);
	pair_close(&p);
}

/* A message of another queue pair may overtake it. */
static void another_queue_pair_tells(bool wrong)
{
	struct two t;

	two_open(&t);
	receive(&t.p.b, piece(&t.p.b, 1024, 64));
	receive(&t.d, piece(&t.d, 1024, 64));
	post(&t.p.a, IBV_WR_RDMA_WRITE, piece(&t.p.a, 0, 64), &t.p.b, 0);
	post(wrong ? &t.c : &t.p.a, IBV_WR_SEND, piece(&t.p.a, 0, 64), wrong ? &t.d : &t.p.b, IBV_SEND_SIGNALED);
	await(wrong ? &t.d : &t.p.b);
	look(&t.p.b, 0);
	await(wrong ? &t.c : &t.p.a);
	two_close(&t);
}

/* It may not if it is posted when the WRITE is complete. */
static void message_does_not_await_the_write(bool wrong)
{
	struct two t;

	two_open(&t);
	receive(&t.d, piece(&t.d, 1024, 64));
	post(&t.p.a, IBV_WR_RDMA_WRITE, piece(&t.p.a, 0, 64), &t.p.b, IBV_SEND_SIGNALED);
	if (!wrong)
		await(&t.p.a);
	post(&t.c, IBV_WR_SEND, piece(&t.p.a, 0, 64), &t.d, IBV_SEND_SIGNALED);
	await(&t.d);
	look(&t.p.b, 0);
	await(&t.c);
	if (wrong)
		await(&t.p.a);
	two_close(&t);
}

/* What a peer READs is left alone until it says that it has. */
static void read_is_not_over(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	post(&p.a, IBV_WR_RDMA_READ, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	if (!wrong)
		await(&p.a);
	store(&p.b, 0);
	if (wrong)
		await(&p.a);
	pair_close(&p);
}

static uint64_t *flag_of(const struct end *e)
{
	return (uint64_t *)(void *)e->memory;
}

/* Two WRITEs by these: of data, and of the flag before them. */
static void write_both(struct end *data, struct end *flag, const struct end *to)
{
	struct end behind = *to;

	behind.memory += 64;
	*flag_of(flag) = 1;
	post(data, IBV_WR_RDMA_WRITE, piece(data, 64, 64), &behind, IBV_SEND_SIGNALED);
	post(flag, IBV_WR_RDMA_WRITE, piece(flag, 0, 8), to, IBV_SEND_SIGNALED);
}

static void flag_of_another_queue_pair(bool wrong)
{
	struct two t;
	struct ibv_wc wc;

	two_open(&t);
	write_both(&t.p.a, wrong ? &t.c : &t.p.a, &t.p.b);
	while (!__atomic_load_n(flag_of(&t.p.b), __ATOMIC_ACQUIRE))
		ZERO(ibv_poll_cq(t.p.b.cq, 1, &wc));
	look(&t.p.b, 64);
	await(&t.p.a);
	await(wrong ? &t.c : &t.p.a);
	two_close(&t);
}

static void flag_is_loaded_plainly(bool wrong)
{
	struct pair p;
	struct ibv_wc wc;

	pair_open(&p, (struct want){0});
	write_both(&p.a, &p.a, &p.b);
	if (wrong)
		look(&p.b, 0);
	while (!__atomic_load_n(flag_of(&p.b), __ATOMIC_ACQUIRE))
		ZERO(ibv_poll_cq(p.b.cq, 1, &wc));
	look(&p.b, 64);
	await(&p.a);
	await(&p.a);
	pair_close(&p);
}

/* ---- two processes, with a socket beside ---- */

struct address {
	uint32_t qpn, rkey;
	uint64_t at;
};

static void swap(int s, struct pair *p, struct end *peer, struct ibv_qp *qp, struct ibv_mr *mr)
{
	struct address own = {p->a.qp->qp_num, p->a.mr->rkey, (uintptr_t)p->a.memory}, other;

	MUST(write(s, &own, sizeof(own)) == sizeof(own));
	MUST(read(s, &other, sizeof(other)) == sizeof(other));
	qp->qp_num = other.qpn;
	mr->rkey = other.rkey;
	*peer = (struct end){.qp = qp, .mr = mr, .memory = (char *)(uintptr_t)other.at};
	end_connect(p, &p->a, peer);
}

static void end_alone(struct pair *p)
{
	const struct want want = {.cqe = DEPTH, .depth = DEPTH};

	context_open(p);
	p->type = IBV_QPT_RC;
	end_open(p, &p->a, &want);
}

static void be_the_peer(const struct sockaddr_in *to)
{
	int s = socket(AF_INET, SOCK_STREAM, 0);
	struct end peer;
	struct ibv_qp qp;
	struct ibv_mr mr;
	struct pair p;
	char word = 1;

	MUST(s >= 0);
	ZERO(connect(s, (const struct sockaddr *)to, sizeof(*to)));
	end_alone(&p);
	swap(s, &p, &peer, &qp, &mr);
	MUST(read(s, &word, 1) == 1); /* the other is ready */
	post(&p.a, IBV_WR_RDMA_WRITE, piece(&p.a, 0, 64), &peer, IBV_SEND_SIGNALED);
	MUST(await(&p.a).status == IBV_WC_SUCCESS);
	MUST(write(s, &word, 1) == 1);
	if (read(s, &word, 1)) /* until the other ends */
		_exit(1);
	end_close(&p.a);
	context_close(&p);
}

static int accept_peer(pid_t *child)
{
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int l = socket(AF_INET, SOCK_STREAM, 0), s;
	socklen_t size = sizeof(own);

	MUST(l >= 0);
	ZERO(bind(l, (struct sockaddr *)&own, size));
	ZERO(listen(l, 1));
	ZERO(getsockname(l, (struct sockaddr *)&own, &size));
	MUST((*child = fork()) >= 0);
	if (!*child) {
		close(l);
		be_the_peer(&own);
		exit(0);
	}
	MUST((s = accept(l, NULL, NULL)) >= 0);
	close(l);
	return s;
}

/* The peer is told by TCP that it may WRITE, and says by it that it has. */
static void with_peer(bool stores_late, bool looks_early)
{
	struct end peer;
	struct ibv_qp qp;
	struct ibv_mr mr;
	struct pair p;
	char word = 1;
	pid_t child;
	int s = accept_peer(&child), status;

	end_alone(&p);
	swap(s, &p, &peer, &qp, &mr);
	if (!stores_late)
		store(&p.a, 0);
	MUST(write(s, &word, 1) == 1);
	if (stores_late)
		store(&p.a, 0);
	if (looks_early)
		look(&p.a, 0);
	MUST(read(s, &word, 1) == 1);
	look(&p.a, 0);
	close(s);
	MUST(waitpid(child, &status, 0) == child && !status);
	end_close(&p.a);
	context_close(&p);
}

static void peer_has_not_said_so(bool wrong)
{
	with_peer(false, wrong);
}

static void peer_was_told_before(bool wrong)
{
	with_peer(wrong, false);
}
#endif

const struct row peer_rows[] = {
#ifdef HAS_TSAN
	{"nothing_tells_of_the_write", nothing_tells_of_the_write, "peer-race", "look"},
	{"another_queue_pair_tells", another_queue_pair_tells, "peer-race", "look"},
	{"message_does_not_await_the_write", message_does_not_await_the_write, "peer-race", "look"},
	{"read_is_not_over", read_is_not_over, "peer-race", "store"},
	{"flag_of_another_queue_pair", flag_of_another_queue_pair, "peer-race", "look"},
	{"flag_is_loaded_plainly", flag_is_loaded_plainly, "peer-race", "look"},
	{"peer_has_not_said_so", peer_has_not_said_so, "peer-race", "look"},
	{"peer_was_told_before", peer_was_told_before, "peer-race", "store"},
#endif
	{0},
};
