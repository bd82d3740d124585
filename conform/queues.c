/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues, their events, and shared receive queues. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "conform.h"
#include "states.h"

#define PLACE 65536u

static void write_byte(struct qp *qp, uint64_t wr_id)
{
	struct ibv_sge sge = {.addr = qp->end->arena, .length = 1, .lkey = qp->end->lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .sg_list = &sge,
				 .num_sge = 1};
	struct end *other = qp->end == near ? far : near;

	wr.wr.rdma.remote_addr = other->arena + PLACE;
	wr.wr.rdma.rkey = other->rkey;
	expect_errno("ibv_post_send", post(qp, &wr), 0);
}

static void send_from(struct qp *qp, uint64_t wr_id, unsigned flags)
{
	struct ibv_sge sge = {.addr = qp->end->arena, .length = 8, .lkey = qp->end->lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED | flags,
				 .sg_list = &sge,
				 .num_sge = 1};

	expect_errno("ibv_post_send", post(qp, &wr), 0);
}

/* A pair whose near end has one CQ, with a channel. */
struct noted {
	struct pair p;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
};

static struct noted make_noted(int depth)
{
	struct ibv_qp_init_attr init = small_qp(near, IBV_QPT_RC);
	struct noted n = {.channel = ibv_create_comp_channel(end_context(near))};

	if (!n.channel)
		wrong("ibv_create_comp_channel: %s", errno_name(errno));
	KEEP(near, n.channel, ibv_destroy_comp_channel);
	fcntl(n.channel->fd, F_SETFL, O_NONBLOCK);
	n.cq = ibv_create_cq(end_context(near), depth, &n, n.channel, 0);
	if (!n.cq)
		wrong("ibv_create_cq: %s", errno_name(errno));
	KEEP(near, n.cq, ibv_destroy_cq);
	init.send_cq = init.recv_cq = n.cq;
	n.p = (struct pair){make_qp_as(near, &init), make_qp(far, IBV_QPT_RC)};
	connect_pair(&n.p);
	return n;
}

/* Waits for an event, and acknowledges it. */
static bool take_event(struct noted *n, int ms)
{
	struct pollfd p = {.fd = n->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *context;

	if (poll(&p, 1, ms) < 1)
		return false;
	if (ibv_get_cq_event(n->channel, &cq, &context))
		wrong("the channel is readable, and ibv_get_cq_event() fails: %s", errno_name(errno));
	if (cq != n->cq)
		wrong("the event is of another CQ");
	ibv_ack_cq_events(cq, 1);
	return true;
}

static void arm(struct noted *n, int solicited)
{
	expect_errno("ibv_req_notify_cq", ibv_req_notify_cq(n->cq, solicited), 0);
}

static void expect_event(struct noted *n)
{
	if (!take_event(n, (int)options.seconds * 200))
		wrong("there is no event");
}

static void armed(void)
{
	struct noted n = make_noted(32);

	arm(&n, 0);
	write_byte(&n.p.a, 1);
	expect_event(&n);
	expect_status(near, n.cq, 1, IBV_WC_SUCCESS);
}

static void not_armed(void)
{
	struct noted n = make_noted(32);

	write_byte(&n.p.a, 1);
	expect_status(near, n.cq, 1, IBV_WC_SUCCESS);
	if (take_event(&n, 5))
		wrong("an event of a CQ that was not armed");
}

static void one_event(void)
{
	struct noted n = make_noted(32);

	arm(&n, 0);
	for (uint64_t i = 1; i <= 4; i++)
		write_byte(&n.p.a, i);
	for (uint64_t i = 1; i <= 4; i++)
		expect_status(near, n.cq, i, IBV_WC_SUCCESS);
	expect_event(&n);
	if (take_event(&n, 5))
		wrong("two events of one request for notification");
}

static void armed_late(void)
{
	struct noted n = make_noted(32);

	send_from(&n.p.a, 1, 0);
	expect_errno("ibv_post_recv", post_receive(&n.p.b, 1, 0, 64), 0);
	expect_status(far, n.p.b.rcq, 1, IBV_WC_SUCCESS);
	/* its ACK comes soon: the completion of a later WRITE is behind it */
	write_byte(&n.p.b, 2);
	expect_status(far, n.p.b.scq, 2, IBV_WC_SUCCESS);
	arm(&n, 0);
	if (take_event(&n, 5))
		unusual("an event of a completion from before the arming");
	write_byte(&n.p.a, 3);
	expect_event(&n);
}

static void armed_twice(void)
{
	struct noted n = make_noted(32);

	arm(&n, 0);
	arm(&n, 0);
	write_byte(&n.p.a, 1);
	expect_event(&n);
	if (take_event(&n, 5))
		wrong("two events");
}

static void receive_here(struct noted *n, uint64_t wr_id)
{
	expect_errno("ibv_post_recv", post_receive(&n->p.a, wr_id, PLACE, 64), 0);
}

static void solicited(void)
{
	struct noted n = make_noted(32);

	receive_here(&n, 1);
	receive_here(&n, 2);
	arm(&n, 1);
	send_from(&n.p.b, 1, 0);
	expect_status(near, n.cq, 1, IBV_WC_SUCCESS);
	if (take_event(&n, 5))
		wrong("an event of a SEND without IBV_SEND_SOLICITED");
	send_from(&n.p.b, 2, IBV_SEND_SOLICITED);
	expect_event(&n);
	expect_status(near, n.cq, 2, IBV_WC_SUCCESS);
}

static void solicited_error(void)
{
	struct noted n = make_noted(32);
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};

	receive_here(&n, 1);
	arm(&n, 1);
	expect_errno("ibv_modify_qp", modify(&n.p.a, &err, IBV_QP_STATE), 0);
	expect_status(near, n.cq, 1, IBV_WC_WR_FLUSH_ERR);
	expect_event(&n);
}

static void next_outlives_solicited(void)
{
	struct noted n = make_noted(32);

	receive_here(&n, 1);
	arm(&n, 0);
	arm(&n, 1);
	send_from(&n.p.b, 1, 0);
	expect_status(near, n.cq, 1, IBV_WC_SUCCESS);
	if (!take_event(&n, 500))
		wrong("the request for any completion was lost to one for solicited ones");
}

static void no_event_is_eagain(void)
{
	struct noted n = make_noted(32);
	struct ibv_cq *cq;
	void *context;

	expect("ibv_get_cq_event", ibv_get_cq_event(n.channel, &cq, &context), -1);
	expect_errno("ibv_get_cq_event", errno, EAGAIN);
}

static void overflow(void)
{
	struct ibv_qp_init_attr init = small_qp(near, IBV_QPT_RC);
	struct pair p = {.b = make_qp(far, IBV_QPT_RC)};
	struct ibv_cq *cq;
	void *element;
	int type, depth;

	cq = ibv_create_cq(end_context(near), 2, NULL, NULL, 0);
	if (!cq)
		wrong("ibv_create_cq: %s", errno_name(errno));
	KEEP(near, cq, ibv_destroy_cq);
	depth = cq->cqe;
	if (depth + 2 > 16)
		init.cap.max_send_wr = (uint32_t)depth + 2;
	init.send_cq = cq;
	p.a = make_qp_as(near, &init);
	connect_pair(&p);
	for (int i = 0; i < depth + 2; i++)
		write_byte(&p.a, (uint64_t)i);
	type = async_event(near, (int)options.seconds * 200, &element);
	if (type == NO_EVENT)
		wrong("%d completions in a CQ of %d, and no event", depth + 2, depth);
	if (type != IBV_EVENT_CQ_ERR && type != IBV_EVENT_QP_FATAL)
		wrong("the event is %s", ibv_event_type_str((enum ibv_event_type)type));
}

static void resize_keeps(void)
{
	struct pair p = make_pair(IBV_QPT_RC);
	int error;

	for (uint64_t i = 1; i <= 6; i++)
		write_byte(&p.a, i);
	expect_status(near, p.a.scq, 1, IBV_WC_SUCCESS);
	write_byte(&p.b, 1);
	expect_status(far, p.b.scq, 1, IBV_WC_SUCCESS);
	error = resize(near, p.a.scq, 200);
	if (error == ENOSYS || error == EOPNOTSUPP)
		lacking("ibv_resize_cq: %s", errno_name(error));
	expect_errno("ibv_resize_cq", error, 0);
	if (p.a.scq->cqe < 200)
		wrong("cqe is %d", p.a.scq->cqe);
	for (uint64_t i = 2; i <= 6; i++)
		expect_status(near, p.a.scq, i, IBV_WC_SUCCESS);
}

static void resize_too_deep(void)
{
	struct qp qp = make_qp(near, IBV_QPT_RC);
	int error;

	if (near->attr.max_cqe >= 0x7fffffff)
		lacking("a limit");
	error = resize(near, qp.scq, near->attr.max_cqe + 1);
	if (error == ENOSYS || error == EOPNOTSUPP)
		lacking("ibv_resize_cq: %s", errno_name(error));
	expect_errno("ibv_resize_cq", error, EINVAL);
}

static void poll_many(void)
{
	struct pair p = make_pair(IBV_QPT_RC);
	struct ibv_wc wc[8];
	int got = 0;

	for (uint64_t i = 1; i <= 6; i++)
		write_byte(&p.a, i);
	for (uint64_t until = now() + 5000000000ull; got < 6 && now() < until;) {
		int n = ibv_poll_cq(p.a.scq, 4, wc);

		if (n < 0 || n > 4)
			wrong("ibv_poll_cq() of 4 returns %d", n);
		for (int i = 0; i < n; i++)
			expect("wr_id", (long)wc[i].wr_id, ++got);
	}
	expect("completions", got, 6);
	expect("ibv_poll_cq() of an empty CQ", ibv_poll_cq(p.a.scq, 4, wc), 0);
}

static void two_queue_pairs(void)
{
	struct ibv_qp_init_attr init = small_qp(near, IBV_QPT_RC);
	struct pair p[2];
	struct ibv_cq *cq;

	expect_errno("ibv_create_cq", try_cq(near, 32, &cq), 0);
	init.send_cq = cq;
	for (int i = 0; i < 2; i++) {
		p[i] = (struct pair){make_qp_as(near, &init), make_qp(far, IBV_QPT_RC)};
		connect_pair(&p[i]);
		write_byte(&p[i].a, (uint64_t)i);
		expect("qp_num", (long)expect_status(near, cq, (uint64_t)i, IBV_WC_SUCCESS).qp_num, (long)p[i].a.num);
	}
}

/* An SRQ at the far end, and a pair whose far end uses it. */
struct shared {
	struct pair p;
	struct ibv_srq *srq;
	struct ibv_srq_attr attr;
};

static void join(struct shared *s)
{
	struct ibv_qp_init_attr init = small_qp(far, IBV_QPT_RC);

	init.srq = s->srq;
	s->p = (struct pair){make_qp(near, IBV_QPT_RC), make_qp_as(far, &init)};
	connect_pair(&s->p);
}

static struct shared make_shared(uint32_t depth)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = depth, .max_sge = 1}};
	struct shared s;
	int error = try_srq(far, &init, &s.srq);

	if (error)
		lacking("SRQs: %s", errno_name(error));
	s.attr = init.attr;
	join(&s);
	return s;
}

static void post_shared(struct shared *s, uint64_t first, uint64_t last)
{
	for (uint64_t i = first; i <= last; i++)
		expect_errno("ibv_post_srq_recv", post_srq(far, s->srq, i, PLACE, 64), 0);
}

static void srq_order(void)
{
	struct shared s = make_shared(16), other = s;
	struct ibv_wc wc;

	join(&other);
	post_shared(&s, 1, 4);
	for (uint64_t i = 1; i <= 4; i++) {
		struct shared *by = i & 1 ? &s : &other;

		send_from(&by->p.a, i, 0);
		wc = expect_status(far, by->p.b.rcq, i, IBV_WC_SUCCESS);
		expect("qp_num", (long)wc.qp_num, (long)by->p.b.num);
	}
}

static void srq_limit(void)
{
	struct shared s = make_shared(16);
	struct ibv_srq_attr attr = {.srq_limit = 3};
	void *element;
	int type;

	post_shared(&s, 1, 5);
	expect_errno("ibv_modify_srq", modify_srq(far, s.srq, &attr, IBV_SRQ_LIMIT), 0);
	for (uint64_t i = 1; i <= 2; i++) {
		send_from(&s.p.a, i, 0);
		expect_status(far, s.p.b.rcq, i, IBV_WC_SUCCESS);
	}
	type = async_event(far, 5, &element);
	if (type != NO_EVENT)
		wrong("an event with 3 receives left, of a limit of 3");
	for (uint64_t i = 3; i <= 4; i++) {
		send_from(&s.p.a, i, 0);
		expect_status(far, s.p.b.rcq, i, IBV_WC_SUCCESS);
	}
	type = async_event(far, (int)options.seconds * 200, &element);
	if (type != IBV_EVENT_SRQ_LIMIT_REACHED || element != s.srq)
		wrong("event %d, expected SRQ_LIMIT_REACHED of the SRQ", type);
	expect_errno("ibv_query_srq", query_srq(far, s.srq, &attr), 0);
	expect("srq_limit afterwards", (long)attr.srq_limit, 0);
	type = async_event(far, 5, &element);
	if (type != NO_EVENT)
		wrong("a second event");
}

static void srq_limit_high(void)
{
	struct shared s = make_shared(16);
	struct ibv_srq_attr attr = {.srq_limit = s.attr.max_wr + 1};
	int error = modify_srq(far, s.srq, &attr, IBV_SRQ_LIMIT);

	expect_errno("ibv_modify_srq", error, EINVAL);
}

static void srq_full(void)
{
	struct shared s = make_shared(5);
	int error;

	post_shared(&s, 1, s.attr.max_wr);
	error = post_srq(far, s.srq, 99, PLACE, 64);
	if (!error)
		unusual("more than max_wr are taken");
	expect_errno("ibv_post_srq_recv", error, ENOMEM);
}

static void srq_last(void)
{
	struct shared s = make_shared(16);
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	void *element;

	post_shared(&s, 1, 3);
	expect_errno("ibv_modify_qp", modify(&s.p.b, &err, IBV_QP_STATE), 0);
	expect("the event", async_event(far, (int)options.seconds * 200, &element), IBV_EVENT_QP_LAST_WQE_REACHED);
	if (element != s.p.b.ptr)
		wrong("the event is of another object");
}

static void srq_survives(void)
{
	struct shared s = make_shared(16), other = s;
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct ibv_wc wc;

	join(&other);
	post_shared(&s, 1, 2);
	expect_errno("ibv_modify_qp", modify(&s.p.b, &err, IBV_QP_STATE), 0);
	if (poll_cq(far, s.p.b.rcq, 5, &wc))
		wrong("a receive of the SRQ is flushed");
	send_from(&other.p.a, 1, 0);
	expect_status(far, other.p.b.rcq, 1, IBV_WC_SUCCESS);
}

static void srq_own_receive(void)
{
	struct shared s = make_shared(16);
	int error = post_receive(&s.p.b, 1, 0, 64);

	if (!error)
		wrong("a receive posted to a queue pair with an SRQ is taken");
	if (error == ENOMEM)
		unusual("ENOMEM");
	expect_errno("ibv_post_recv", error, EINVAL);
}

static void srq_too_deep(void)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = (uint32_t)far->attr.max_srq_wr + 1, .max_sge = 1}};
	struct ibv_srq *srq;
	int error;

	make_shared(1);
	error = try_srq(far, &init, &srq);
	if (error == ENOMEM)
		unusual("ENOMEM");
	expect_errno("ibv_create_srq", error, EINVAL);
}

static void srq_resize(void)
{
	struct shared s = make_shared(16);
	struct ibv_srq_attr attr = {.max_wr = 60};
	int error;

	post_shared(&s, 1, 3);
	error = modify_srq(far, s.srq, &attr, IBV_SRQ_MAX_WR);
	if (error && !(far->attr.device_cap_flags & IBV_DEVICE_SRQ_RESIZE))
		lacking("resizing SRQs");
	expect_errno("ibv_modify_srq", error, 0);
	post_shared(&s, 4, 60);
	send_from(&s.p.a, 1, 0);
	expect_status(far, s.p.b.rcq, 1, IBV_WC_SUCCESS);
}

static void srq_no_receive(void)
{
	struct shared s = make_shared(16);
	struct ibv_wc wc;

	send_from(&s.p.a, 1, 0);
	if (poll_cq(near, s.p.a.scq, 10, &wc))
		wrong("it completes without a receive");
	post_shared(&s, 1, 1);
	expect_status(near, s.p.a.scq, 1, IBV_WC_SUCCESS);
}

static const struct row rows[] = {
	{"event/next", "IBTA 11.4.2.2; ibv_req_notify_cq(3)", "arm, then a completion", "one event, of this CQ", armed},
	{"event/not-armed", "ibv_req_notify_cq(3)", "a completion, not armed", "no event", not_armed},
	{"event/once", "ibv_req_notify_cq(3): one event", "arm, then 4 completions", "one event", one_event},
	{"event/before", "IBTA 11.4.2.2: completions from before the request (adapters differ)",
	 "a completion, then arm", "no event, and one of the next completion", armed_late},
	{"event/twice", "ibv_req_notify_cq(3)", "arm twice, then a completion", "one event", armed_twice},
	{"event/solicited", "IBTA 9.2.3, 11.4.2.2", "arm for solicited; a SEND without, one with IBV_SEND_SOLICITED",
	 "an event of the second only", solicited},
	{"event/solicited-error", "IBTA 11.4.2.2: or unsuccessful", "arm for solicited; a receive is flushed",
	 "an event", solicited_error},
	{"event/next-then-solicited", "IBTA 11.4.2.2: next takes precedence",
	 "arm for any, then for solicited; a SEND without", "an event", next_outlives_solicited},
	{"event/none", "ibv_get_cq_event(3); read(2)", "ibv_get_cq_event() of a non-blocking channel without an event",
	 "EAGAIN", no_event_is_eagain},
	{"cq/overflow", "IBTA 11.6.3.3: CQ error; ibv_get_async_event(3)", "more completions than a CQ has places",
	 "CQ_ERR, or QP_FATAL", overflow},
	{"cq/resize", "ibv_resize_cq(3)", "resize a CQ with completions in it", "they stay, in order", resize_keeps},
	{"cq/resize-limit", "ibv_resize_cq(3)", "resize a CQ to max_cqe + 1", "EINVAL", resize_too_deep},
	{"cq/poll", "ibv_poll_cq(3)", "poll by 4", "at most 4 at a time, in order; 0 of an empty one", poll_many},
	{"cq/shared", "ibv_poll_cq(3): qp_num", "two queue pairs with one CQ", "each completion has its qp_num",
	 two_queue_pairs},
	{"srq/order", "IBTA 10.2.9.2", "4 SENDs by two queue pairs with one SRQ",
	 "its receives in order, each with its qp_num", srq_order},
	{"srq/limit", "IBTA 10.2.9.3, 11.6.3.1; ibv_modify_srq(3)", "5 receives, srq_limit 3, 4 messages",
	 "one SRQ_LIMIT_REACHED, below 3; the limit is 0 then", srq_limit},
	{"srq/limit-high", "ibv_modify_srq(3)", "srq_limit above max_wr", "EINVAL", srq_limit_high},
	{"srq/full", "ibv_post_srq_recv(3): ENOMEM", "a receive more than max_wr", "ENOMEM", srq_full},
	{"srq/last-wqe", "IBTA 10.3.1, 11.6.3.1: Last WQE Reached", "a queue pair with an SRQ to err",
	 "LAST_WQE_REACHED of it", srq_last},
	{"srq/survives", "IBTA 10.2.9.4", "one queue pair of an SRQ to err", "no receive is flushed; the other goes on",
	 srq_survives},
	{"srq/own-receive", "ibv_post_recv(3)", "a receive posted to a queue pair with an SRQ", "EINVAL",
	 srq_own_receive},
	{"srq/too-deep", "IBTA 11.2.3.1", "an SRQ of max_srq_wr + 1", "EINVAL", srq_too_deep},
	{"srq/resize", "ibv_modify_srq(3)", "an SRQ of 16 grows to 60 with receives in it", "60 are taken, in order",
	 srq_resize},
	{"srq/rnr", "IBTA 9.7.5.2.8", "a SEND to an empty SRQ, then a receive", "success", srq_no_receive},
	{0},
};

struct group queues_group = {"queues", .rows = rows};
