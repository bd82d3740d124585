/* SPDX-License-Identifier: BSD-2-Clause */
/* Litmus tests: outcomes that the published models of RDMA's memory order forbid. RDMA-TSO: Ambal, Dongol, Eran,
 * Klimis, Lahav, Raad, "Semantics of Remote Direct Memory Access" (OOPSLA 2024); coreRMA: Dan, Lam, Hoefler, Vechev,
 * "Modeling and Analysis of Remote Memory Access Programming" (OOPSLA 2016). X and Y are words of the far end, A and B
 * of the near one. A put is a WRITE and a get a READ; those in one line are posted to one queue pair at once. */
#include "conform.h"
#include "states.h"

#define TRIES 40
#define LONG  65536u

/* Words and buffers of either arena, on pages of their own. */
enum { A = 4096, B = 8192, C = 12288, X = 16384, Y = 20480, BUFFER = 65536, OTHER = 196608 };

enum { PUT = IBV_WR_RDMA_WRITE, GET = IBV_WR_RDMA_READ, ADD = IBV_WR_ATOMIC_FETCH_AND_ADD };
enum { SIGNALED = IBV_SEND_SIGNALED, FENCED = IBV_SEND_SIGNALED | IBV_SEND_FENCE };

static uint64_t get(struct end *e, uint32_t word)
{
	uint64_t value;

	peek(e, word, sizeof(value), &value);
	return value;
}

static void set(struct end *e, uint32_t word, uint64_t value)
{
	poke(e, word, sizeof(value), &value);
}

static void op(struct pair *p, uint64_t n, int opcode, uint32_t here, uint32_t there, unsigned flags)
{
	post_op(p, n, (enum ibv_wr_opcode)opcode, here, there, 8, flags);
}

static void done(struct pair *p, uint64_t n)
{
	expect_status(near, p->a.scq, n, IBV_WC_SUCCESS);
}

static void set_then_put(void)
{
	struct pair p = make_pair(IBV_QPT_RC);

	for (uint64_t n = 1; n <= TRIES; n++) {
		set(near, A, n);
		op(&p, n, PUT, A, X, SIGNALED);
		done(&p, n);
		op(&p, n, GET, B, X, SIGNALED);
		done(&p, n);
		expect("what is put", (long)get(near, B), (long)n);
	}
}

static void put_poll_set(void)
{
	struct pair p = make_pair(IBV_QPT_RC);

	for (uint64_t n = 1; n <= TRIES; n++) {
		set(near, A, n);
		op(&p, n, PUT, A, X, SIGNALED);
		done(&p, n);
		set(near, A, 0);
		op(&p, n, GET, B, X, SIGNALED);
		done(&p, n);
		expect("what is put", (long)get(near, B), (long)n);
	}
}

static void put_then_get_into_its_source(void)
{
	struct pair p = make_pair(IBV_QPT_RC);

	set(far, Y, 0);
	for (uint64_t n = 1; n <= TRIES; n++) {
		set(near, A, n);
		op(&p, n, PUT, A, X, 0);
		op(&p, n, GET, A, Y, SIGNALED);
		done(&p, n);
		expect("what is put", (long)get(far, X), (long)n);
	}
}

static void get_then_fenced_put(void)
{
	struct pair p = make_pair(IBV_QPT_RC);

	set(near, A, 0);
	for (uint64_t n = 1; n <= TRIES; n++) {
		set(far, X, n);
		op(&p, n, GET, B, X, 0);
		op(&p, n, PUT, A, X, FENCED);
		done(&p, n);
		expect("what the get has", (long)get(near, B), (long)n);
	}
}

static void get_then_fenced_put_of_it(void)
{
	struct pair p = make_pair(IBV_QPT_RC);

	for (uint64_t n = 1; n <= TRIES; n++) {
		set(far, X, n);
		op(&p, n, GET, A, X, 0);
		op(&p, n, PUT, A, Y, FENCED);
		done(&p, n);
		expect("what is put", (long)get(far, Y), (long)n);
	}
}

static void add_then_fenced_put(void)
{
	struct pair p = make_pair(IBV_QPT_RC);

	need_atomics();
	for (uint64_t n = 1; n <= TRIES; n++) {
		set(near, A, 1000 * n);
		op(&p, n, ADD, B, X, 0);
		op(&p, n, PUT, A, X, FENCED);
		done(&p, n);
		expect("the last value", (long)get(far, X), 1000 * (long)n);
	}
}

/* Posts what writes the buffer and then the flag X; the far processor, which waits for the flag, finds the buffer. */
static void pass_message(int flag)
{
	struct pair p = make_pair(IBV_QPT_RC);

	set(far, X, 0);
	for (unsigned n = 1; n <= TRIES; n++) {
		uint64_t until = now() + options.seconds * 500000000ull;

		fill(near, BUFFER, LONG, n);
		set(near, A, n);
		post_op(&p, n, IBV_WR_RDMA_WRITE, BUFFER, BUFFER, LONG, 0);
		op(&p, n, flag, A, X, SIGNALED);
		while (get(far, X) != n)
			if (now() > until)
				wrong("round %u: the flag does not come", n);
		if (!has_pattern(far, BUFFER, LONG, n))
			wrong("round %u: the flag is there, and the bytes before it are not", n);
		done(&p, n);
	}
}

static void message_by_put(void)
{
	pass_message(PUT);
}

static void message_by_add(void)
{
	need_atomics();
	pass_message(ADD);
}

static void put_then_get_elsewhere(void)
{
	struct pair p = make_pair(IBV_QPT_RC);

	for (unsigned n = 1; n <= TRIES; n++) {
		fill(near, BUFFER, LONG, n);
		post_op(&p, n, IBV_WR_RDMA_WRITE, BUFFER, BUFFER, LONG, 0);
		op(&p, n, GET, A, Y, SIGNALED);
		done(&p, n);
		if (!has_pattern(far, BUFFER, LONG, n))
			wrong("round %u: the get is complete, and the put before it is not there", n);
	}
}

/* A second queue pair gets the flag, and then the word before it. */
static void message_by_gets(void)
{
	struct pair p = make_pair(IBV_QPT_RC), q = make_pair(IBV_QPT_RC);

	set(far, X, 0);
	set(far, Y, 0);
	for (uint64_t n = 1; n <= TRIES; n++) {
		set(near, A, n);
		op(&p, n, PUT, A, X, 0);
		op(&p, n, PUT, A, Y, SIGNALED);
		op(&q, n, GET, B, Y, 0);
		op(&q, n, GET, C, X, SIGNALED);
		done(&q, n);
		if (get(near, B) == n && get(near, C) != n)
			wrong("round %d: the flag is there, and the word before it is not", (int)n);
		done(&p, n);
	}
}

static void gets_in_order(void)
{
	struct pair p = make_pair(IBV_QPT_RC), q = make_pair(IBV_QPT_RC);

	need_atomics();
	set(far, X, 0);
	for (uint64_t n = 1; n <= TRIES; n++) {
		op(&p, n, ADD, A, X, SIGNALED);
		op(&q, n, GET, B, X, 0);
		op(&q, n, GET, C, X, SIGNALED);
		done(&q, n);
		done(&p, n);
		if (get(near, C) < get(near, B))
			wrong("round %d: the second get has an older value than the first", (int)n);
	}
}

static void puts_in_order(void)
{
	struct pair p = make_pair(IBV_QPT_RC);
	uint64_t last = 0;

	set(far, X, 0);
	for (uint64_t n = 1; n <= TRIES; n += 2) {
		set(near, A, n);
		set(near, B, n + 1);
		op(&p, n, PUT, A, X, 0);
		op(&p, n, PUT, B, X, SIGNALED);
		for (int i = 0; i < 8; i++) {
			uint64_t seen = get(far, X);

			if (seen < last)
				wrong("the far processor sees %d, and then %d", (int)last, (int)seen);
			last = seen;
		}
		done(&p, n);
	}
}

static void adds_are_distinct(void)
{
	struct pair p = make_pair(IBV_QPT_RC), q = make_pair(IBV_QPT_RC);
	bool seen[2 * TRIES] = {false};

	need_atomics();
	set(far, X, 0);
	for (uint64_t n = 1; n <= TRIES; n++) {
		op(&p, n, ADD, A, X, SIGNALED);
		op(&q, n, ADD, B, X, SIGNALED);
		done(&p, n);
		done(&q, n);
		for (int i = 0; i < 2; i++) {
			uint64_t value = get(near, i ? B : A);

			if (value >= 2 * TRIES || seen[value])
				wrong("two of them return %d", (int)value);
			seen[value] = true;
		}
	}
}

static void one_swap_wins(void)
{
	struct pair p = make_pair(IBV_QPT_RC), q = make_pair(IBV_QPT_RC);

	need_atomics();
	for (uint64_t n = 1; n <= TRIES; n++) {
		set(far, X, 0);
		op(&p, n, IBV_WR_ATOMIC_CMP_AND_SWP, A, X, SIGNALED);
		op(&q, n + TRIES, IBV_WR_ATOMIC_CMP_AND_SWP, B, X, SIGNALED);
		done(&p, n);
		done(&q, n + TRIES);
		if (!get(near, A) == !get(near, B))
			wrong("round %d: the queue pairs see %d and %d", (int)n, (int)get(near, A), (int)get(near, B));
		expect("the word", (long)get(far, X), (long)(get(near, A) ? n + TRIES : n));
	}
}

static const char tso[] = "RDMA-TSO; IBTA table 79", core[] = "coreRMA; RDMA-TSO", table[] = "IBTA table 79; RDMA-TSO";

static const struct row rows[] = {
	{"rc/set-put", tso, "40 times: the processor sets A; put A to X", "X is A", set_then_put},
	{"rc/put-poll-set", core, "40 times: put A to X, poll, then set A to 0", "X is the A of before", put_poll_set},
	{"rc/put-get-source", tso, "40 times: put A to X; get Y into A", "X is the A of before",
	 put_then_get_into_its_source},
	{"rc/get-fence-put", table, "40 times: get X; fenced, put 0 to X", "the get has the X of before",
	 get_then_fenced_put},
	{"rc/get-fence-put-it", core, "40 times: get X into A; fenced, put A to Y", "Y is X",
	 get_then_fenced_put_of_it},
	{"rc/add-fence-put", table, "40 times: fetch-add to X; fenced, put A to X", "X is A", add_then_fenced_put},
	{"rc/message-put", tso, "40 times: put 64 KiB; put X. The far processor waits for X", "then it has the 64 KiB",
	 message_by_put},
	{"rc/message-add", tso, "40 times: put 64 KiB; fetch-add to X. The far processor waits for X",
	 "then it has the 64 KiB", message_by_add},
	{"rc/put-get-poll", tso, "40 times: put 64 KiB; get Y, poll", "then the far processor has the 64 KiB",
	 put_then_get_elsewhere},
	{"rc/message-gets", tso, "40 times: put X; put Y. Another queue pair: get Y; get X", "X is new if Y is",
	 message_by_gets},
	{"rc/gets", tso, "40 times: fetch-add to X. Another queue pair: get X; get X", "the second is no older",
	 gets_in_order},
	{"rc/puts", tso, "20 times: put n to X; put n + 1 to X. The far processor reads X", "it never goes back",
	 puts_in_order},
	{"rc/adds", "IBTA 9.4.5; RDMA-TSO", "40 times: two queue pairs fetch-add to X at once",
	 "each value is returned once", adds_are_distinct},
	{"rc/swaps", "IBTA 9.4.5; RDMA-TSO", "40 times: two queue pairs swap 0 in X at once", "one wins",
	 one_swap_wins},
	{0},
};

struct group litmus_group = {"litmus", .rows = rows};
