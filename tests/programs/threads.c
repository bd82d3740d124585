// SPDX-License-Identifier: BSD-2-Clause
/* threads [ROW]: some threads use one object at the same time: each request completes once, and each message comes
 * once. Here: queue pairs, completion queues, shared receive queues and their events. threads_more.c has the rest. */
#include "threads.h"

enum { DEPTH = 32, RECEIVES = 64, SIZE = 4096, SENDERS = 2, BATCH = 3, END = 1 << 30 };

/* A row: messages from b to a, and who takes them there. */
struct mix {
	int ex;	      /* threads with ibv_start_poll() */
	int plain;    /* with ibv_poll_cq() */
	int sleepers; /* that arm the CQ and wait for its events */
	bool single, srq, resizes, forks;
	bool builders; /* of two senders, one uses ibv_wr_start(), in batches that the queue often has no room for */
};

static const struct mix *mix;
static struct rc a, b;
static struct ibv_cq_ex *cq_ex;
static struct ibv_qp_ex *qp_ex;
static struct ibv_srq *srq;
static atomic_int received, posted, sent, left;
static atomic_int polling; /* threads that poll: what ends a sleeper is not for them */
static int total;
static atomic_uchar sent_times[MOST], receive_times[MOST];

static void to_init(struct rc *rc)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	rc->me.qpn = rc->qp->qp_num;
	ZERO(ibv_modify_qp(rc->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

/* a gets an extended CQ, and perhaps an SRQ; b a queue pair with the ibv_wr_ functions, and a queue that is short. */
static void open_ends(void)
{
	struct ibv_cq_init_attr_ex with = {
		.cqe = 512,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = mix->single ? IBV_CREATE_CQ_ATTR_SINGLE_THREADED : 0,
	};
	struct ibv_srq_init_attr shared = {.attr = {.max_wr = 256, .max_sge = 1}};
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = {DEPTH, 1, 1, 1, 0},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND_WITH_IMM,
	};

	rc_open(&a, NULL, 0, SIZE);
	rc_open(&b, &a, 0, SIZE);
	ZERO(ibv_destroy_qp(a.qp));
	ZERO(ibv_destroy_cq(a.cq));
	with.channel = a.channel;
	MUST(cq_ex = ibv_create_cq_ex(a.context, &with));
	a.cq = ibv_cq_ex_to_cq(cq_ex);
	srq = NULL;
	if (mix->srq)
		MUST(srq = ibv_create_srq(a.pd, &shared));
	struct ibv_qp_init_attr plain = {
		.send_cq = a.cq, .recv_cq = a.cq, .srq = srq, .qp_type = IBV_QPT_RC, .cap = {1, RECEIVES, 1, 1, 0}};
	MUST(a.qp = ibv_create_qp(a.pd, &plain));
	to_init(&a);
	ZERO(ibv_destroy_qp(b.qp));
	attr.pd = b.pd;
	attr.send_cq = attr.recv_cq = b.cq;
	MUST(b.qp = ibv_create_qp_ex(b.context, &attr));
	MUST(qp_ex = ibv_qp_to_qp_ex(b.qp));
	to_init(&b);
	rc_connect_pair(&a, &b);
}

/* ---- who sends ---- */

static int post_list(int first, int count)
{
	struct ibv_sge piece[BATCH];
	struct ibv_send_wr wr[BATCH], *bad;
	int error, n = 0;

	for (int i = 0; i < count; i++) {
		piece[i] = rc_piece(&b, 0, (first + i) % 64);
		wr[i] = (struct ibv_send_wr){.wr_id = first + i,
					     .sg_list = &piece[i],
					     .num_sge = 1,
					     .opcode = IBV_WR_SEND_WITH_IMM,
					     .imm_data = htonl(first + i),
					     .next = i + 1 < count ? &wr[i + 1] : NULL};
	}
	error = ibv_post_send(b.qp, wr, &bad);
	MUST(!error || error == ENOMEM);
	for (struct ibv_send_wr *w = wr; w && !(error && w == bad); w = w->next)
		n++;
	return n;
}

static int build_list(int first, int count)
{
	int error;

	ibv_wr_start(qp_ex);
	for (int i = 0; i < count; i++) {
		qp_ex->wr_id = first + i;
		ibv_wr_send_imm(qp_ex, htonl(first + i));
		ibv_wr_set_sge(qp_ex, b.mr->lkey, b.me.address, (first + i) % 64);
	}
	if (first % 16 == 0) { /* thinks better of it */
		ibv_wr_abort(qp_ex);
		ibv_wr_start(qp_ex);
		for (int i = 0; i < count; i++) {
			qp_ex->wr_id = first + i;
			ibv_wr_send_imm(qp_ex, htonl(first + i));
			ibv_wr_set_sge(qp_ex, b.mr->lkey, b.me.address, (first + i) % 64);
		}
	}
	error = ibv_wr_complete(qp_ex);
	MUST(!error || error == ENOMEM);
	return error ? 0 : count; /* all or none */
}

static void take_sent(void)
{
	struct ibv_wc wc[8];
	int n;

	MUST((n = ibv_poll_cq(b.cq, 8, wc)) >= 0);
	for (int i = 0; i < n; i++) {
		rc_expect(wc[i], IBV_WC_SEND);
		atomic_fetch_add(&sent_times[wc[i].wr_id], 1);
	}
	atomic_fetch_add(&sent, n);
}

static void *sends(void *arg)
{
	int mine = total / SENDERS, first = (int)(intptr_t)arg * mine, n = 0;

	line_up();
	while (n < mine) {
		int count = mine - n < BATCH ? mine - n : BATCH;

		n += mix->builders && arg ? build_list(first + n, count) : post_list(first + n, count);
		take_sent();
	}
	while (atomic_load(&sent) < total)
		take_sent();
	return NULL;
}

/* ---- who receives ---- */

static bool post_next_receive(void)
{
	int n = atomic_fetch_add(&posted, 1);
	struct ibv_sge piece = rc_piece(&a, 0, 64);
	struct ibv_recv_wr wr = {.wr_id = n, .sg_list = &piece, .num_sge = 1}, *bad;

	if (n >= total + mix->sleepers)
		return false;
	ZERO(srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(a.qp, &wr, &bad));
	return true;
}

/* False: it was the message that ends a sleeper. */
static bool take_message(uint64_t wr_id, uint32_t number, uint32_t length)
{
	MUST(wr_id < MOST);
	atomic_fetch_add(&receive_times[wr_id], 1);
	if (number == END)
		return false;
	MUST(number < (uint32_t)total && length == number % 64);
	atomic_fetch_add(&times[number], 1);
	post_next_receive();
	atomic_fetch_add(&received, 1);
	return true;
}

static bool take_wc(const struct ibv_wc *wc)
{
	rc_expect(*wc, IBV_WC_RECV);
	return take_message(wc->wr_id, ntohl(wc->imm_data), wc->byte_len);
}

static void *polls(void *arg)
{
	struct ibv_wc wc[4];
	int n;

	(void)arg;
	line_up();
	while (atomic_load(&received) < total) {
		MUST((n = ibv_poll_cq(a.cq, 4, wc)) >= 0);
		for (int i = 0; i < n; i++)
			take_wc(&wc[i]);
	}
	atomic_fetch_sub(&polling, 1);
	return NULL;
}

static void *polls_ex(void *arg)
{
	struct ibv_poll_cq_attr none = {0};
	struct ibv_wc wc;
	uint64_t wr_id;
	int error, n = 0;

	(void)arg;
	line_up();
	while (atomic_load(&received) < total) {
		if ((error = ibv_start_poll(cq_ex, &none))) {
			MUST(error == ENOENT);
			continue;
		}
		do {
			MUST(cq_ex->status == IBV_WC_SUCCESS && ibv_wc_read_opcode(cq_ex) == IBV_WC_RECV);
			MUST(ibv_wc_read_qp_num(cq_ex) == a.qp->qp_num);
			wr_id = cq_ex->wr_id;
			sched_yield(); /* for another to come between */
			take_message(wr_id, ntohl(ibv_wc_read_imm_data(cq_ex)), ibv_wc_read_byte_len(cq_ex));
			if (mix->plain && ++n % 8 == 0 && ibv_poll_cq(a.cq, 1, &wc)) /* within: not for hardware */
				take_wc(&wc);
		} while (!(error = ibv_next_poll(cq_ex)));
		MUST(error == ENOENT);
		ibv_end_poll(cq_ex);
	}
	atomic_fetch_sub(&polling, 1);
	return NULL;
}

static void *sleeps(void *arg)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	(void)arg;
	line_up();
	for (;;) {
		ZERO(ibv_req_notify_cq(a.cq, 0));
		while (ibv_poll_cq(a.cq, 1, &wc))
			if (!take_wc(&wc)) {
				ZERO(ibv_req_notify_cq(a.cq, 0)); /* for the next one */
				atomic_fetch_add(&left, 1);
				return NULL;
			}
		MUST(!ibv_get_cq_event(a.channel, &cq, &context) && cq == a.cq);
		ibv_ack_cq_events(cq, 1);
	}
}

static void *ends_sleepers(void *arg)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htonl(END)}, *bad;
	struct ibv_wc wc;

	(void)arg;
	line_up();
	for (int i = 0; i < mix->sleepers; i++) {
		while (atomic_load(&received) < total || atomic_load(&sent) < total || atomic_load(&polling))
			sched_yield();
		ZERO(ibv_post_send(b.qp, &wr, &bad));
		while (!ibv_poll_cq(b.cq, 1, &wc))
			;
		rc_expect(wc, IBV_WC_SEND);
		while (atomic_load(&left) <= i)
			sched_yield();
	}
	return NULL;
}

static void *resizes(void *arg)
{
	(void)arg;
	line_up();
	for (int i = 0; atomic_load(&received) < total; i++) {
		ZERO(ibv_resize_cq(a.cq, RECEIVES + mix->sleepers + i % 1000));
		ZERO(ibv_resize_cq(b.cq, DEPTH + i % 100));
		sched_yield();
	}
	return NULL;
}

/* What others hold as it forks must not keep the child from using and ending its copies. */
static void *forks(void *arg)
{
	struct ibv_poll_cq_attr none = {0};
	struct ibv_wc wc;
	pid_t child;

	(void)arg;
	line_up();
	for (int i = 0; i < 10 || atomic_load(&received) < total; i++) {
		MUST((child = fork()) >= 0);
		if (!child) {
			alarm(60);
			ibv_poll_cq(a.cq, 1, &wc);
			if (!ibv_start_poll(cq_ex, &none))
				ibv_end_poll(cq_ex);
			build_list(0, 1);
			post_list(0, 1);
			ibv_destroy_qp(a.qp);
			ibv_destroy_qp(b.qp);
			if (srq)
				ibv_destroy_srq(srq);
			ibv_destroy_cq(b.cq);
			ibv_dereg_mr(a.mr);
			ibv_dealloc_pd(a.pd);
			ibv_close_device(a.context);
			_exit(0);
		}
		reap(child, 0);
	}
	return NULL;
}

static void run_mix(const struct mix *m)
{
	mix = m;
	total = rounds(mix->forks ? 2000 : 4000) / SENDERS * SENDERS;
	received = posted = sent = left = 0;
	polling = m->ex + m->plain;
	open_ends();
	while (atomic_load(&posted) < RECEIVES)
		post_next_receive();
	TOGETHER({sends, SENDERS}, {polls_ex, mix->ex}, {polls, mix->plain}, {sleeps, mix->sleepers},
		 {ends_sleepers, mix->sleepers > 0}, {resizes, mix->resizes}, {forks, mix->forks});
	exactly_once(total);
	for (int i = 0; i < total; i++)
		MUST(sent_times[i] == 1);
	for (int i = 0; i < total + mix->sleepers; i++)
		MUST(receive_times[i] == 1);
	memset(sent_times, 0, sizeof(sent_times));
	memset(receive_times, 0, sizeof(receive_times));
	rc_close(&b);
	ZERO(ibv_destroy_qp(a.qp));
	if (srq)
		ZERO(ibv_destroy_srq(srq));
	ZERO(ibv_destroy_cq(a.cq));
	ZERO(ibv_destroy_comp_channel(a.channel));
	ZERO(ibv_dereg_mr(a.mr));
	ZERO(ibv_dealloc_pd(a.pd));
	ZERO(ibv_close_device(a.context));
	free(a.memory);
}

#define MIX(name, ...)                                     \
	static void name(void)                             \
	{                                                  \
		run_mix(&(const struct mix){__VA_ARGS__}); \
	}

MIX(poll_and_poll, .plain = 2)
MIX(start_poll_and_start_poll, .ex = 3)
MIX(start_poll_and_poll, .ex = 2, .plain = 1)
MIX(start_poll_alone, .ex = 1, .single = true)
MIX(builders, .ex = 1, .builders = true)
MIX(shared_receives, .plain = 1, .ex = 1, .srq = true)
MIX(resizing, .plain = 1, .ex = 1, .resizes = true, .builders = true)
MIX(events, .sleepers = 2)
MIX(events_and_polls, .sleepers = 2, .plain = 1, .resizes = true)
MIX(forking, .ex = 2, .forks = true, .builders = true, .srq = true)

static const struct row table[] = {
	{"poll x poll", poll_and_poll},
	{"start_poll x start_poll", start_poll_and_start_poll},
	{"start_poll x poll", start_poll_and_poll},
	{"start_poll, one thread", start_poll_alone},
	{"wr_start x post_send", builders},
	{"post_srq_recv x post_srq_recv", shared_receives},
	{"resize_cq x poll x push", resizing},
	{"req_notify x get_cq_event x ack", events},
	{"req_notify x get_cq_event x ack x poll x resize_cq", events_and_polls},
	{"poll x post x fork", forking},
};

int main(int argc, char **argv)
{
	return run_rows(table, sizeof(table) / sizeof(table[0]), argc, argv);
}
