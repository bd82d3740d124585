// SPDX-License-Identifier: BSD-2-Clause
/* check_me CASE wrong|right: does one thing wrong, or the same right. Without arguments it lists the cases: the name,
 * and what `uroce check` must find in the wrong one: "name of the finding", at "function of the place". Plain
 * libibverbs and librdmacm. */
#include "pair.h"
#include "rows.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

/* ---- leaks ---- */

static void leak_region(bool wrong)
{
	struct pair p;
	struct ibv_mr *mr;

	context_open(&p);
	MUST(mr = ibv_reg_mr(p.pd, &p, sizeof(p), 0));
	if (!wrong)
		ZERO(ibv_dereg_mr(mr));
	if (!wrong)
		context_close(&p);
}

static void leak_cq(bool wrong)
{
	struct pair p;
	struct ibv_cq *cq;

	context_open(&p);
	MUST(cq = ibv_create_cq(p.context, 4, NULL, NULL, 0));
	if (!wrong)
		ZERO(ibv_destroy_cq(cq));
	context_close(&p);
}

static void leak_qp(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){.is_idle = true});
	if (!wrong)
		pair_close(&p);
}

static void leak_srq(bool wrong)
{
	struct ibv_srq_init_attr attr = {.attr = {4, 1}};
	struct ibv_srq *srq;
	struct pair p;

	context_open(&p);
	MUST(srq = ibv_create_srq(p.pd, &attr));
	if (wrong)
		return;
	ZERO(ibv_destroy_srq(srq));
	context_close(&p);
}

static void leak_ah(bool wrong)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}};
	struct ibv_ah *ah;
	struct pair p;

	context_open(&p);
	ZERO(ibv_query_gid(p.context, 1, 0, &attr.grh.dgid));
	MUST(ah = ibv_create_ah(p.pd, &attr));
	if (wrong)
		return;
	ZERO(ibv_destroy_ah(ah));
	context_close(&p);
}

static void leak_window(bool wrong)
{
	struct ibv_mw *mw;
	struct pair p;

	context_open(&p);
	MUST(mw = ibv_alloc_mw(p.pd, IBV_MW_TYPE_1));
	if (wrong)
		return;
	ZERO(ibv_dealloc_mw(mw));
	context_close(&p);
}

static void leak_context(bool wrong)
{
	struct pair p;

	context_open(&p);
	if (wrong) {
		ZERO(ibv_destroy_comp_channel(p.channel));
		ZERO(ibv_dealloc_pd(p.pd));
	} else {
		context_close(&p);
	}
}

static void leak_pd(bool wrong)
{
	struct pair p;

	context_open(&p);
	if (!wrong)
		ZERO(ibv_dealloc_pd(p.pd));
	ZERO(ibv_destroy_comp_channel(p.channel));
	ZERO(ibv_close_device(p.context));
}

static void leak_channel(bool wrong)
{
	struct pair p;

	context_open(&p);
	if (!wrong)
		ZERO(ibv_destroy_comp_channel(p.channel));
	ZERO(ibv_dealloc_pd(p.pd));
	ZERO(ibv_close_device(p.context));
}

static void leak_id(bool wrong)
{
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;

	MUST(channel = rdma_create_event_channel());
	ZERO(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	if (!wrong)
		ZERO(rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

static void leak_event_channel(bool wrong)
{
	struct rdma_event_channel *channel;

	MUST(channel = rdma_create_event_channel());
	if (!wrong)
		rdma_destroy_event_channel(channel);
}

/* ---- habits ---- */

static void region_outlives_pd(bool wrong)
{
	struct ibv_mr *mr;
	struct pair p;

	context_open(&p);
	MUST(mr = ibv_reg_mr(p.pd, &p, sizeof(p), 0));
	if (wrong)
		MUST(ibv_dealloc_pd(p.pd) == EBUSY);
	ZERO(ibv_dereg_mr(mr));
	context_close(&p);
}

static void qp_outlives_cq(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){.is_idle = true});
	if (wrong)
		MUST(ibv_destroy_cq(p.a.cq) == EBUSY);
	pair_close(&p);
}

static void cq_outlives_channel(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){.is_idle = true});
	if (wrong)
		MUST(ibv_destroy_comp_channel(p.channel) == EBUSY);
	pair_close(&p);
}

static void cq_holds_too_few(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){.cqe = wrong ? 4 : 8});
	for (int i = 0; i < 6; i++)
		receive(&p.b, piece(&p.b, 0, 64));
	pair_close(&p);
}

static void nothing_is_signalled(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	for (int i = 0; i < DEPTH; i++)
		post(&p.a, IBV_WR_RDMA_WRITE, piece(&p.a, 0, 64), &p.b,
		     wrong || i != DEPTH - 1 ? 0 : IBV_SEND_SIGNALED);
	if (!wrong)
		await(&p.a);
	pair_close(&p);
}

/* Asks for an event of b's CQ, and waits for it; a completion may have come before, which no event tells of. */
static void arm_and_wait(struct pair *p, bool polls)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	ZERO(ibv_req_notify_cq(p->b.cq, 0));
	if (polls && ibv_poll_cq(p->b.cq, 1, &wc))
		return;
	ZERO(ibv_get_cq_event(p->channel, &cq, &context));
	ibv_ack_cq_events(cq, 1);
	await(&p->b);
}

static void wakeup_is_lost(bool wrong)
{
	struct pair p;
	struct ibv_wc wc;

	pair_open(&p, (struct want){0});
	receive(&p.b, piece(&p.b, 0, 64));
	MUST(!ibv_poll_cq(p.b.cq, 1, &wc));
	post(&p.a, IBV_WR_SEND, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	await(&p.a);
	arm_and_wait(&p, !wrong);
	pair_close(&p);
}

/* The message is on its way when the CQ is armed. */
static void wakeup_may_be_lost(bool wrong)
{
	struct pair p;
	struct ibv_wc wc;

	pair_open(&p, (struct want){0});
	receive(&p.b, piece(&p.b, 0, 64));
	MUST(!ibv_poll_cq(p.b.cq, 1, &wc));
	post(&p.a, IBV_WR_SEND, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	arm_and_wait(&p, !wrong);
	await(&p.a);
	pair_close(&p);
}

/* Nothing can come between the poll and the arming: the request, or the connection, is made afterwards. */
static void wakeup_cannot_be_lost(bool wrong)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	struct pair p;
	void *context;

	pair_open(&p, (struct want){.is_idle = true});
	MUST(!ibv_poll_cq(p.b.cq, 1, &wc));
	ZERO(ibv_req_notify_cq(p.b.cq, 0));
	end_connect(&p, &p.a, &p.b);
	end_connect(&p, &p.b, &p.a);
	for (int i = 0; i < 3; i++) {
		receive(&p.b, piece(&p.b, 0, 64));
		post(&p.a, IBV_WR_SEND, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
		if (wrong && i == 2) {
			await(&p.a);
			ZERO(ibv_req_notify_cq(p.b.cq, 0));
		}
		ZERO(ibv_get_cq_event(p.channel, &cq, &context));
		ibv_ack_cq_events(cq, 1);
		await(&p.b);
		MUST(!ibv_poll_cq(p.b.cq, 1, &wc));
		if (!wrong || i != 1)
			ZERO(ibv_req_notify_cq(p.b.cq, 0));
		if (!wrong || i != 2)
			await(&p.a);
	}
	pair_close(&p);
}

static void *help_thread(void *arg)
{
	const struct help *h = arg;
	char text[4096] = "";
	size_t at = 0;
	ssize_t n;

	while (!strstr(text, h->finding) && (n = read(h->from, text + at, sizeof(text) - 1 - at)) > 0) {
		MUST(write(h->to, text + at, (size_t)n) == n);
		at += (size_t)n;
		text[at] = 0;
	}
	MUST(dup2(h->to, STDERR_FILENO) >= 0);
	h->end(h->arg);
	return NULL;
}

void help_begin(struct help *h, const char *finding, void (*end)(void *arg), void *arg)
{
	int ends[2];

	*h = (struct help){.finding = finding, .end = end, .arg = arg};
	ZERO(pipe(ends));
	h->from = ends[0];
	MUST((h->to = dup(STDERR_FILENO)) >= 0 && dup2(ends[1], STDERR_FILENO) >= 0);
	ZERO(pthread_create(&h->thread, NULL, help_thread, h));
}

void help_end(struct help *h)
{
	ZERO(pthread_join(h->thread, NULL));
}

static void acknowledge_cq(void *cq)
{
	ibv_ack_cq_events(cq, 1);
}

static void acknowledge_cm(void *event)
{
	ZERO(rdma_ack_cm_event(event));
}

static void event_is_not_acknowledged(bool wrong)
{
	struct ibv_cq *cq;
	struct help help;
	struct pair p;
	void *context;

	pair_open(&p, (struct want){0});
	ZERO(ibv_req_notify_cq(p.a.cq, 0));
	post(&p.a, IBV_WR_RDMA_WRITE, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	ZERO(ibv_get_cq_event(p.channel, &cq, &context));
	await(&p.a);
	if (wrong)
		help_begin(&help, "not-acknowledged", acknowledge_cq, cq);
	else
		ibv_ack_cq_events(cq, 1);
	pair_close(&p);
	if (wrong)
		help_end(&help);
}

/* Acknowledges the event as soon as the program's first thread sleeps: in rdma_destroy_id(), that waits for it. */
static void *acknowledge_meanwhile(void *event)
{
	char path[64], line[256];
	const char *state = NULL;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)getpid());
	while (!state || state[2] != 'S') {
		MUST(f = fopen(path, "r"));
		MUST(fgets(line, sizeof(line), f));
		fclose(f);
		MUST(state = strrchr(line, ')'));
		sched_yield();
	}
	acknowledge_cm(event);
	return NULL;
}

static void cm_event_is_not_acknowledged(bool wrong)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rdma_event_channel *channel;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	struct help help;

	MUST(channel = rdma_create_event_channel());
	ZERO(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	ZERO(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 60000));
	ZERO(rdma_get_cm_event(channel, &event));
	if (wrong)
		help_begin(&help, "not-acknowledged", acknowledge_cm, event);
	else
		ZERO(pthread_create(&help.thread, NULL, acknowledge_meanwhile, event));
	ZERO(rdma_destroy_id(id));
	help_end(&help);
	rdma_destroy_event_channel(channel);
}

static void write_is_not_awaited(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	post(&p.a, IBV_WR_RDMA_WRITE, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	if (!wrong)
		await(&p.a);
	ZERO(ibv_destroy_qp(p.a.qp));
	p.a.qp = NULL;
	pair_close(&p);
}

static void region_of_a_receive(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	receive(&p.b, piece(&p.b, 0, 64));
	if (!wrong) {
		ZERO(ibv_destroy_qp(p.b.qp));
		p.b.qp = NULL;
	}
	ZERO(ibv_dereg_mr(p.b.mr));
	p.b.mr = NULL;
	pair_close(&p);
}

static void region_of_a_write(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	post(&p.a, IBV_WR_RDMA_WRITE, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	if (!wrong)
		await(&p.a);
	ZERO(ibv_dereg_mr(p.a.mr));
	p.a.mr = NULL;
	if (wrong)
		await(&p.a);
	pair_close(&p);
}

static void fork_is_not_prepared(bool wrong)
{
	struct pair p;
	pid_t child;

	if (!wrong)
		ZERO(ibv_fork_init());
	pair_open(&p, (struct want){.is_idle = true});
	child = fork();
	if (!child)
		_exit(0);
	MUST(waitpid(child, NULL, 0) == child);
	pair_close(&p);
}

/* What a READ brings is sent on: behind a fence it is there by then. */
static void read_is_sent_on(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	receive(&p.b, piece(&p.b, 64, 64));
	memset(p.b.memory, 7, 64);
	post(&p.a, IBV_WR_RDMA_READ, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	post(&p.a, IBV_WR_SEND, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED | (wrong ? 0 : IBV_SEND_FENCE));
	await(&p.a);
	await(&p.a);
	await(&p.b);
	pair_close(&p);
}

/* ---- buffers ---- */

static void changes(enum ibv_wr_opcode opcode, bool wrong, unsigned flags)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	if (opcode == IBV_WR_SEND)
		receive(&p.b, piece(&p.b, 0, 64));
	post(&p.a, opcode, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED | flags);
	if (wrong || flags)
		p.a.memory[7] = 1;
	await(&p.a);
	p.a.memory[7] = 2;
	if (opcode == IBV_WR_SEND)
		await(&p.b);
	pair_close(&p);
}

static void send_changes(bool wrong)
{
	changes(IBV_WR_SEND, wrong, 0);
}

static void write_changes(bool wrong)
{
	changes(IBV_WR_RDMA_WRITE, wrong, 0);
}

/* Of what is inline the adapter has a copy. */
static void inline_may_change(bool wrong)
{
	changes(IBV_WR_SEND, wrong, wrong ? 0 : IBV_SEND_INLINE);
}

/* It is done when one after it is. */
static void unsignalled_changes(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	post(&p.a, IBV_WR_RDMA_WRITE, piece(&p.a, 0, 64), &p.b, 0);
	if (wrong)
		p.a.memory[63] = 1;
	post(&p.a, IBV_WR_RDMA_WRITE, piece(&p.a, 64, 64), &p.b, IBV_SEND_SIGNALED);
	await(&p.a);
	pair_close(&p);
}

static void list_changes(bool wrong)
{
	struct ibv_sge sge[2];
	struct ibv_send_wr wr = {.wr_id = 1,
				 .opcode = IBV_WR_SEND,
				 .sg_list = sge,
				 .num_sge = 2,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct pair p;

	pair_open(&p, (struct want){0});
	sge[0] = piece(&p.a, 0, 64);
	sge[1] = piece(&p.a, 1000, 99);
	receive(&p.b, piece(&p.b, 0, 1000));
	ZERO(ibv_post_send(p.a.qp, &wr, &bad));
	if (wrong)
		p.a.memory[1098] = 1;
	await(&p.a);
	await(&p.b);
	pair_close(&p);
}

/* A peer writes, by another queue pair, to what is being sent. */
static void peer_overwrites(bool wrong)
{
	const struct want want = {.cqe = DEPTH, .depth = DEPTH};
	struct end from, to;
	struct pair p;

	pair_open(&p, (struct want){0});
	end_open(&p, &from, &want);
	end_open(&p, &to, &want);
	end_connect(&p, &from, &to);
	end_connect(&p, &to, &from);
	memset(from.memory, 7, 64);
	receive(&p.b, piece(&p.b, 0, 64));
	post(&p.a, IBV_WR_SEND, piece(&p.a, wrong ? 0 : 64, 64), &p.b, IBV_SEND_SIGNALED);
	post(&from, IBV_WR_RDMA_WRITE, piece(&from, 0, 64), &p.a, IBV_SEND_SIGNALED);
	await(&from);
	await(&p.a);
	await(&p.b);
	end_close(&from);
	end_close(&to);
	pair_close(&p);
}

/* Before a message has come. */
static void receive_is_written_to(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	receive(&p.b, piece(&p.b, 0, 64));
	if (wrong)
		p.b.memory[7] = 1;
	post(&p.a, IBV_WR_SEND, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	await(&p.a);
	await(&p.b);
	p.b.memory[7] = 2;
	pair_close(&p);
}

/* When it has come: the poll of the one CQ takes it in for the other. */
static void message_is_written_to(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	memset(p.a.memory, 5, 64);
	receive(&p.b, piece(&p.b, 0, 64));
	post(&p.a, IBV_WR_SEND, piece(&p.a, 0, 64), &p.b, IBV_SEND_SIGNALED);
	await(&p.a);
	if (wrong)
		memset(p.b.memory, 0, 64);
	await(&p.b);
	pair_close(&p);
}

static void result_is_written_to(enum ibv_wr_opcode opcode, bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	post(&p.a, opcode, piece(&p.a, 0, 8), &p.b, IBV_SEND_SIGNALED);
	if (wrong)
		p.a.memory[3] = 1;
	await(&p.a);
	p.a.memory[3] = 2;
	pair_close(&p);
}

static void read_is_written_to(bool wrong)
{
	result_is_written_to(IBV_WR_RDMA_READ, wrong);
}

static void atomic_is_written_to(bool wrong)
{
	result_is_written_to(IBV_WR_ATOMIC_FETCH_AND_ADD, wrong);
}

/* Receives for one place: the messages overwrite each other, and that is not the program. */
static void receives_may_overlap(bool wrong)
{
	struct pair p;

	pair_open(&p, (struct want){0});
	for (int i = 0; i < 3; i++)
		receive(&p.b, piece(&p.b, 0, 64));
	for (int i = 0; i < 3; i++) {
		memset(p.a.memory + 64 * i, i + 1, 64);
		post(&p.a, IBV_WR_SEND, piece(&p.a, 64 * i, 64), &p.b, IBV_SEND_SIGNALED);
	}
	for (int i = 0; i < 3; i++)
		await(&p.a);
	if (wrong)
		memset(p.b.memory, 9, 64);
	for (int i = 0; i < 3; i++)
		await(&p.b);
	pair_close(&p);
}

static void memory_goes_first(bool wrong)
{
	struct ibv_mr *mr = NULL;
	struct pair p;
	void *at;

	context_open(&p);
	at = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(at != MAP_FAILED && (mr = ibv_reg_mr(p.pd, at, 1 << 20, ALL)));
	if (wrong)
		ZERO(munmap((char *)at + 8192, 4096));
	ZERO(ibv_dereg_mr(mr));
	ZERO(munmap(at, 1 << 20));
	context_close(&p);
}

static const struct row rows[] = {
	{"leak_region", leak_region, "leak-region", "leak_region"},
	{"leak_cq", leak_cq, "leak-cq", "leak_cq"},
	{"leak_qp", leak_qp, "leak-qp", "end_open"},
	{"leak_srq", leak_srq, "leak-srq", "leak_srq"},
	{"leak_ah", leak_ah, "leak-ah", "leak_ah"},
	{"leak_window", leak_window, "leak-window", "leak_window"},
	{"leak_context", leak_context, "leak-context", "context_open"},
	{"leak_pd", leak_pd, "leak-pd", "context_open"},
	{"leak_channel", leak_channel, "leak-channel", "context_open"},
	{"leak_id", leak_id, "leak-id", "leak_id"},
	{"leak_event_channel", leak_event_channel, "leak-event-channel", "leak_event_channel"},
	{"region_outlives_pd", region_outlives_pd, "destroyed-in-use", "region_outlives_pd"},
	{"qp_outlives_cq", qp_outlives_cq, "destroyed-in-use", "qp_outlives_cq"},
	{"cq_outlives_channel", cq_outlives_channel, "destroyed-in-use", "cq_outlives_channel"},
	{"cq_holds_too_few", cq_holds_too_few, "cq-too-small", "receive"},
	{"nothing_is_signalled", nothing_is_signalled, "never-signalled", "post"},
	{"wakeup_is_lost", wakeup_is_lost, "lost-wakeup", "arm_and_wait"},
	{"wakeup_may_be_lost", wakeup_may_be_lost, "lost-wakeup", "arm_and_wait"},
	{"wakeup_cannot_be_lost", wakeup_cannot_be_lost, "lost-wakeup", "wakeup_cannot_be_lost"},
	{"event_is_not_acknowledged", event_is_not_acknowledged, "not-acknowledged", "end_close"},
	{"cm_event_is_not_acknowledged", cm_event_is_not_acknowledged, "not-acknowledged",
	 "cm_event_is_not_acknowledged"},
	{"write_is_not_awaited", write_is_not_awaited, "destroyed-outstanding", "write_is_not_awaited"},
	{"region_of_a_receive", region_of_a_receive, "deregistered-in-flight", "region_of_a_receive"},
	{"region_of_a_write", region_of_a_write, "deregistered-in-flight", "region_of_a_write"},
	{"read_is_sent_on", read_is_sent_on, "fence-missing", "post"},
	{"fork_is_not_prepared", fork_is_not_prepared, "fork-unprepared", "fork_is_not_prepared"},
	{"send_changes", send_changes, "changed-in-flight", "post"},
	{"write_changes", write_changes, "changed-in-flight", "post"},
	{"inline_may_change", inline_may_change, "changed-in-flight", "post"},
	{"unsignalled_changes", unsignalled_changes, "changed-in-flight", "post"},
	{"receive_is_written_to", receive_is_written_to, "written-in-flight", "receive"},
	{"message_is_written_to", message_is_written_to, "written-in-flight", "receive"},
	{"read_is_written_to", read_is_written_to, "written-in-flight", "post"},
	{"atomic_is_written_to", atomic_is_written_to, "written-in-flight", "post"},
	{"receives_may_overlap", receives_may_overlap, "written-in-flight", "receive"},
	{"memory_goes_first", memory_goes_first, "unmapped-registered", "memory_goes_first"},
	{"list_changes", list_changes, "changed-in-flight", "list_changes"},
	{"peer_overwrites", peer_overwrites, "changed-in-flight", "post"},
	{0},
};

int main(int argc, char **argv)
{
	static const struct row *const tables[] = {rows,	flight_rows, way_rows,	kind_rows, reuse_rows,
						   cm_rows,	early_rows,  page_rows, peer_rows, race_rows,
						   thread_rows, unset_rows,  watch_rows};
	const bool watches = lists_watch_rows();

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (const struct row *row = tables[i]; row->name; row++)
			if (argc < 3 && (tables[i] != early_rows || lists_early_rows) &&
			    (tables[i] != watch_rows || watches)) {
				printf("%s %s %s\n", row->name, row->finding, row->place);
			} else if (argc == 3 && !strcmp(argv[1], row->name)) {
				row->run(!strcmp(argv[2], "wrong"));
				return 0;
			}
	return argc < 3 ? 0 : 2;
}
