// SPDX-License-Identifier: BSD-2-Clause
/* count OPERATION...: instructions per operation. Two processes of one host exchange messages in lock-step; under
 * callgrind each call that counts leaves a dump, "OPERATION/END/PART", which bench/count reads. Without callgrind it
 * does the same and counts nothing. Plain libibverbs.
 *
 * Figures depend on no clock and no scheduler:
 * - A pipe says that a message has been posted, so a poll that counts finds it. One that finds nothing is not counted.
 * - The clock of the library is clock_gettime() of this file. It goes on while queue pairs connect and warm up, then
 * stands still and moves by PACE with each poll, which is the pace of a thread that does nothing but poll. So no
 * time-out expires and the helper thread takes the application for one that polls. */
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

#include "plain.h"

enum {
	INITIATOR,
	TARGET,
	CHAIN = 32,
	DEPTH = 4 * CHAIN,
	LONGEST = 64 + sizeof(struct ibv_grh),
	SIZE = 4096,
	PACE = 50,  /* ns */
	WARM = 150, /* operations with either clock: more than it takes to change over from UDP to shared memory */
	SAMPLES = 64,
	VAIN = 512,	       /* polls in one sample of those that find nothing */
	STALL = 500,	       /* ms */
	LONG_AFTER = 10000000, /* ns: more than any delay of the helper thread */
	PATIENCE = 120,	       /* s, for one program */
	QKEY = 0x11111111,
	ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
};

/* What one end tells the other. */
struct card {
	uint32_t rc, ud, sleeper, shared, rkey;
	uint64_t address;
};

static const char *const end_name[] = {"initiator", "target"};
static const char *operation;
static int me, to_peer, from_peer, outstanding;
static bool counting;
static struct plain plain;
static struct ibv_comp_channel *channel;
static struct ibv_qp *rc, *ud, *sleeper; /* sleeper: RC, completions by events */
static struct ibv_qp *shared;		 /* RC, receives of an SRQ */
static struct ibv_qp *qp;		 /* in use */
static struct ibv_ah *ah;
static struct card peer;
static char *memory; /* SIZE bytes */

/* ---- the clock ---- */

static uint64_t stopped_at; /* ns; 0: it goes */

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *t)
{
	uint64_t now = __atomic_load_n(&stopped_at, __ATOMIC_RELAXED);

	if (!now)
		return (int)syscall(SYS_clock_gettime, id, t);
	*t = (struct timespec){.tv_sec = (time_t)(now / 1000000000), .tv_nsec = (long)(now % 1000000000)};
	return 0;
}

static void clock_stop(bool stop)
{
	__atomic_store_n(&stopped_at, 0, __ATOMIC_RELAXED);
	if (stop)
		__atomic_store_n(&stopped_at, now_ns(), __ATOMIC_RELAXED);
}

static void clock_step(uint64_t ns)
{
	if (stopped_at)
		__atomic_store_n(&stopped_at, stopped_at + ns, __ATOMIC_RELAXED);
}

/* ---- the counter ---- */

static void count_from_zero(void)
{
	if (counting)
		CALLGRIND_ZERO_STATS;
}

static void count_toggle(void)
{
	if (counting)
		CALLGRIND_TOGGLE_COLLECT;
}

static void count_report(const char *part)
{
	char key[64];

	snprintf(key, sizeof(key), "%s/%s/%s", operation, end_name[me], part);
	if (counting)
		CALLGRIND_DUMP_STATS_AT(key);
}

/* ---- lock-step ---- */

static void pass(void)
{
	need(write(to_peer, "", 1) == 1, "the other end is gone");
}

/* If the other end waits for what this one's helper thread does after a while, that is now. */
static void await_turn(void)
{
	struct pollfd from = {.fd = from_peer, .events = POLLIN};
	char byte;

	while (poll(&from, 1, STALL) == 0)
		clock_step(LONG_AFTER);
	need(read(from_peer, &byte, 1) == 1, "the other end is gone");
}

/* As the threads of a program under callgrind take turns, this lets the helper thread finish what it does, too. */
static void meet(void)
{
	pass();
	await_turn();
}

/* ---- calls that are counted ---- */

static void post(enum ibv_wr_opcode opcode, uint32_t length, int count)
{
	struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = length, .lkey = plain.mr->lkey};
	struct ibv_send_wr *bad, wr[CHAIN];
	int error;

	for (int i = 0; i < count; i++) {
		wr[i] = (struct ibv_send_wr){.next = i + 1 < count ? &wr[i + 1] : NULL,
					     .sg_list = &sge,
					     .num_sge = 1,
					     .opcode = opcode,
					     .send_flags = IBV_SEND_SIGNALED};
		if (qp == ud) {
			wr[i].wr.ud.ah = ah;
			wr[i].wr.ud.remote_qpn = peer.ud;
			wr[i].wr.ud.remote_qkey = QKEY;
		} else if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
			wr[i].wr.atomic.remote_addr = peer.address;
			wr[i].wr.atomic.rkey = peer.rkey;
			wr[i].wr.atomic.compare_add = 1;
		} else {
			wr[i].wr.rdma.remote_addr = peer.address;
			wr[i].wr.rdma.rkey = peer.rkey;
		}
	}
	outstanding += count;
	count_from_zero();
	count_toggle();
	error = ibv_post_send(qp, wr, &bad);
	count_toggle();
	count_report("post");
	need(!error, "ibv_post_send");
}

static void post_receives(int count)
{
	struct ibv_sge sge = {.addr = (uintptr_t)memory + LONGEST, .length = LONGEST, .lkey = plain.mr->lkey};
	struct ibv_recv_wr *bad, wr[CHAIN];
	int error;

	for (int i = 0; i < count; i++)
		wr[i] = (struct ibv_recv_wr){.next = i + 1 < count ? &wr[i + 1] : NULL, .sg_list = &sge, .num_sge = 1};
	count_from_zero();
	count_toggle();
	error = qp->srq ? ibv_post_srq_recv(qp->srq, wr, &bad) : ibv_post_recv(qp, wr, &bad);
	count_toggle();
	count_report("receive");
	need(!error, "ibv_post_recv");
}

/* Returns how many of the completions were receives. */
static int look_at(const struct ibv_wc *wc, int count)
{
	int received = 0;

	for (int i = 0; i < count; i++) {
		need(wc[i].status == IBV_WC_SUCCESS, ibv_wc_status_str(wc[i].status));
		received += (wc[i].opcode & IBV_WC_RECV) != 0;
	}
	outstanding -= count - received;
	return received;
}

/* Until so many completions have come, in polls for as many, or, with `answer`, until one of a receive has. */
static void poll_for(int count, bool answer)
{
	struct ibv_wc wc[CHAIN];
	int got = 0, received = 0;

	while (answer ? !received : got < count) {
		if (!got)
			count_from_zero();
		clock_step(PACE);
		count_toggle();
		int n = ibv_poll_cq(qp->recv_cq, answer ? count : count - got, wc);
		count_toggle();
		need(n >= 0, "ibv_poll_cq");
		received += look_at(wc, n);
		got += n;
	}
	count_report("poll");
}

static void poll_in_vain(int count)
{
	struct ibv_wc wc;
	int n = 0;

	count_from_zero();
	for (int i = 0; i < count; i++) {
		clock_step(PACE);
		count_toggle();
		n += ibv_poll_cq(qp->recv_cq, 1, &wc);
		count_toggle();
	}
	count_report("vain");
	need(n == 0, "a completion that nothing was posted for");
}

/* ---- operations ---- */

static void write_8(void)
{
	post(IBV_WR_RDMA_WRITE, 8, 1);
	poll_for(1, false);
	meet();
}

static void read_8(void)
{
	post(IBV_WR_RDMA_READ, 8, 1);
	poll_for(1, false);
	meet();
}

static void fetch_add(void)
{
	post(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 1);
	poll_for(1, false);
	meet();
}

static void write_8_chain(void)
{
	post(IBV_WR_RDMA_WRITE, 8, CHAIN);
	poll_for(CHAIN, false);
	meet();
}

static void send_some(enum ibv_wr_opcode opcode, int count)
{
	post(opcode, 64, count);
	pass();
	await_turn();
	poll_for(count, false);
	pass(); /* the target may see to its receives meanwhile, but not to the next message */
	await_turn();
}

/* The acknowledgement leaves with the poll that finds nothing. */
static void take(int count)
{
	poll_for(count, false);
	post_receives(count);
	poll_in_vain(1);
	pass();
	await_turn();
	pass();
}

static void take_some(int count)
{
	await_turn();
	take(count);
}

static void send_64(void)
{
	send_some(IBV_WR_SEND, 1);
}

static void write_imm(void)
{
	send_some(IBV_WR_RDMA_WRITE_WITH_IMM, 1);
}

/* A datagram is complete when it has left, which may be in the poll. The poll that finds nothing takes in the target's
 * answer to a credit request for credit, always in the same place. */
static void send_datagram(void)
{
	post(IBV_WR_SEND, 64, 1);
	poll_for(1, false);
	meet();
	poll_in_vain(1);
}

static void take_datagram(void)
{
	await_turn();
	poll_for(1, false);
	post_receives(1);
	pass();
}

static void take_64(void)
{
	take_some(1);
}

static void send_64_chain(void)
{
	send_some(IBV_WR_SEND, CHAIN);
}

static void take_64_chain(void)
{
	take_some(CHAIN);
}

/* The poll that finds the message finds what it acknowledges, too. */
static void ping(void)
{
	post(IBV_WR_SEND, 64, 1);
	pass();
	await_turn();
	poll_for(2, true);
	post_receives(1);
}

static void pong(void)
{
	await_turn();
	poll_for(2, true);
	post_receives(1);
	post(IBV_WR_SEND, 64, 1);
	pass();
}

/* The message comes after the request for an event, and before the target waits for it. */
static void send_to_sleeper(void)
{
	await_turn();
	send_64();
}

static void take_by_event(void)
{
	struct ibv_cq *cq;
	void *context;
	int errors;

	count_from_zero();
	count_toggle();
	errors = ibv_req_notify_cq(qp->recv_cq, 0);
	count_toggle();
	count_report("arm");
	pass();
	await_turn();
	count_from_zero();
	count_toggle();
	errors |= ibv_get_cq_event(channel, &cq, &context);
	ibv_ack_cq_events(cq, 1);
	count_toggle();
	count_report("event");
	need(!errors, "ibv_get_cq_event");
	take(1);
}

static void poll_empty(void)
{
	poll_in_vain(1);
	meet();
}

static void poll_empty_mean(void)
{
	poll_in_vain(VAIN);
	meet();
}

static const struct {
	const char *name;
	struct ibv_qp **qp;
	void (*step[2])(void);
} operations[] = {
	{"send", &rc, {send_64, take_64}},
	{"send_chain", &rc, {send_64_chain, take_64_chain}},
	{"srq", &shared, {send_64, take_64}},
	{"write_imm", &rc, {write_imm, take_64}},
	{"ping_pong", &rc, {ping, pong}},
	{"ud", &ud, {send_datagram, take_datagram}},
	{"event", &sleeper, {send_to_sleeper, take_by_event}},
	{"write", &rc, {write_8, meet}},
	{"write_chain", &rc, {write_8_chain, meet}},
	{"read", &rc, {read_8, meet}},
	{"atomic", &rc, {fetch_add, meet}},
	{"empty", &rc, {poll_empty, meet}},
	{"empty_mean", &rc, {poll_empty_mean, meet}},
};

/* ---- setting up ---- */

/* The device of 127.0.0.1, which every host has. */
static struct ibv_context *open_loopback(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	need(list, "ibv_get_device_list");
	for (int i = 0; list[i] && !context; i++) {
		context = ibv_open_device(list[i]);
		need(context && !ibv_query_gid(context, 1, 0, &plain.gid), "ibv_open_device");
		if (memcmp(plain.gid.raw + 12, "\x7f\0\0\1", 4)) {
			ibv_close_device(context);
			context = NULL;
		}
	}
	need(context, "no device of 127.0.0.1");
	ibv_free_device_list(list);
	return context;
}

/* RC, with an SRQ. */
static struct ibv_qp *open_shared(void)
{
	struct ibv_srq_init_attr with = {.attr = {.max_wr = DEPTH, .max_sge = 1}};
	struct ibv_qp_init_attr init = {.send_cq = plain.cq,
					.recv_cq = plain.cq,
					.srq = ibv_create_srq(plain.pd, &with),
					.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = DEPTH, .max_send_sge = 1}};
	struct ibv_qp *made = init.srq ? ibv_create_qp(plain.pd, &init) : NULL;

	need(made, "a QP with an SRQ");
	return made;
}

static void open_all(void)
{
	struct ibv_context *context = open_loopback();
	struct plain with_events;
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UD,
		.cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1}};

	memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	need(memory != MAP_FAILED, "mmap");
	plain.pd = ibv_alloc_pd(context);
	need(plain.pd, "ibv_alloc_pd");
	plain.cq = ibv_create_cq(context, 4 * DEPTH, NULL, NULL, 0);
	need(plain.cq, "ibv_create_cq");
	plain.mr = ibv_reg_mr(plain.pd, memory, SIZE, ACCESS);
	need(plain.mr, "ibv_reg_mr");
	rc = plain_qp(&plain, DEPTH, DEPTH);
	shared = open_shared();
	init.send_cq = init.recv_cq = plain.cq;
	ud = ibv_create_qp(plain.pd, &init);
	need(ud, "ibv_create_qp");
	channel = ibv_create_comp_channel(context);
	need(channel, "ibv_create_comp_channel");
	with_events = plain;
	with_events.cq = ibv_create_cq(context, 4 * DEPTH, NULL, channel, 0);
	need(with_events.cq, "ibv_create_cq");
	sleeper = plain_qp(&with_events, DEPTH, DEPTH);
}

static void exchange_cards(void)
{
	struct card mine = {.rc = rc->qp_num,
			    .ud = ud->qp_num,
			    .sleeper = sleeper->qp_num,
			    .shared = shared->qp_num,
			    .rkey = plain.mr->rkey,
			    .address = (uintptr_t)memory};

	need(write(to_peer, &mine, sizeof(mine)) == sizeof(mine), "write");
	need(read(from_peer, &peer, sizeof(peer)) == sizeof(peer), "the other end is gone");
}

static void connect_all(void)
{
	struct ibv_qp_attr more = {.qp_access_flags = ACCESS};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
	struct ibv_ah_attr to = {.is_global = 1, .port_num = 1, .grh = {.dgid = plain.gid, .hop_limit = 1}};

	plain_connect(&plain, rc, peer.rc);
	plain_connect(&plain, sleeper, peer.sleeper);
	plain_connect(&plain, shared, peer.shared);
	need(!ibv_modify_qp(rc, &more, IBV_QP_ACCESS_FLAGS), "access flags");
	need(!ibv_modify_qp(ud, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), "to INIT");
	attr.qp_state = IBV_QPS_RTR;
	need(!ibv_modify_qp(ud, &attr, IBV_QP_STATE), "to RTR");
	attr.qp_state = IBV_QPS_RTS;
	need(!ibv_modify_qp(ud, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "to RTS");
	ah = ibv_create_ah(plain.pd, &to);
	need(ah, "ibv_create_ah");
	qp = rc;
	post_receives(CHAIN);
	post_receives(CHAIN);
	qp = ud;
	post_receives(CHAIN);
	qp = sleeper;
	post_receives(CHAIN);
	qp = shared;
	post_receives(CHAIN);
	meet();
}

/* ---- running ---- */

/* What is on its way is acknowledged by polls that find nothing. */
static void settle(void)
{
	struct ibv_wc wc;

	meet();
	for (int i = 0; i < 4 || outstanding; i++) {
		int n = ibv_poll_cq(qp->recv_cq, 1, &wc);

		need(n >= 0, "ibv_poll_cq");
		look_at(&wc, n);
	}
	meet();
}

static void repeat(void (*step)(void), int times)
{
	for (int i = 0; i < times; i++)
		step();
	meet();
}

static void run(const char *name)
{
	size_t i = 0;

	while (i < sizeof(operations) / sizeof(*operations) && strcmp(operations[i].name, name))
		i++;
	if (i == sizeof(operations) / sizeof(*operations)) {
		fprintf(stderr, "count: no operation is called %s\n", name);
		exit(2);
	}
	operation = name;
	qp = *operations[i].qp;
	repeat(operations[i].step[me], WARM);
	clock_stop(true);
	repeat(operations[i].step[me], WARM);
	counting = true;
	repeat(operations[i].step[me], SAMPLES);
	counting = false;
	clock_stop(false);
	settle();
}

static void process(int number, int from, int to, char **names)
{
	me = number;
	from_peer = from;
	to_peer = to;
	alarm(PATIENCE);
	open_all();
	exchange_cards();
	connect_all();
	while (*++names)
		run(*names);
}

int main(int argc, char **argv)
{
	int pipes[2][2], status;
	pid_t pid;

	if (argc < 2) {
		fprintf(stderr, "usage: count OPERATION...\n");
		return 2;
	}
	need(!pipe(pipes[0]) && !pipe(pipes[1]), "pipe");
	pid = fork();
	need(pid >= 0, "fork");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pipes[0][1]);
		close(pipes[1][0]);
		process(TARGET, pipes[0][0], pipes[1][1], argv);
		return 0;
	}
	close(pipes[0][0]);
	close(pipes[1][1]);
	process(INITIATOR, pipes[1][0], pipes[0][1], argv);
	return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1;
}
