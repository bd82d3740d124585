/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion channels: who is told of what, and who waits for whom. */
#include "verbs/fixture.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "object/cq.h"

static bool readable(const struct side *s)
{
	struct pollfd fd = {.fd = s->channel->fd, .events = POLLIN};

	return poll(&fd, 1, 0) == 1;
}

/* A packet may come a moment after it was sent. */
static void await_readable(const struct side *s)
{
	struct pollfd fd = {.fd = s->channel->fd, .events = POLLIN};

	assert_int_equal(poll(&fd, 1, -1), 1);
}

static void expect_event(struct side *s)
{
	struct ibv_cq *cq;
	void *cq_context;

	assert_int_equal(ibv_get_cq_event(s->channel, &cq, &cq_context), 0);
	assert_ptr_equal(cq, s->cq);
	assert_ptr_equal(cq_context, s);
}

/* The same of a channel with O_NONBLOCK, where another thread may just be receiving. */
static void await_event(struct side *s)
{
	struct ibv_cq *cq;
	void *cq_context;

	while (ibv_get_cq_event(s->channel, &cq, &cq_context))
		assert_int_equal(errno, EAGAIN);
	assert_ptr_equal(cq, s->cq);
}

static int send_message(struct side *s, int flags)
{
	struct ibv_sge sge = piece(s, 0, 8);
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED | flags};

	return side_send(s, &wr);
}

static void an_armed_queue_tells_once(void **state)
{
	struct side *s = *state;

	connect_sides(s);
	assert_int_equal(side_write(&s[0], &s[1], 8), 0); /* not armed */
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	assert_false(readable(&s[0]));
	assert_int_equal(ibv_req_notify_cq(s[0].cq, 0), 0);
	assert_int_equal(side_write(&s[0], &s[1], 8), 0);
	assert_int_equal(side_write(&s[0], &s[1], 8), 0);
	expect_event(&s[0]);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	assert_false(readable(&s[0]));
	ibv_ack_cq_events(s[0].cq, 1);
}

static void only_solicited_ones_tell(void **state)
{
	struct side *s = *state;

	connect_sides(s);
	for (int i = 0; i < 3; i++)
		assert_int_equal(side_receive(&s[1], i), 0);
	assert_int_equal(ibv_req_notify_cq(s[1].cq, 1), 0);
	assert_int_equal(send_message(&s[0], 0), 0);
	assert_int_equal(next(s[1].cq).status, IBV_WC_SUCCESS);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	assert_false(readable(&s[1]));
	assert_int_equal(send_message(&s[0], IBV_SEND_SOLICITED), 0);
	expect_event(&s[1]);
	assert_int_equal(next(s[1].cq).status, IBV_WC_SUCCESS);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	/* an error is worth telling, too */
	assert_int_equal(ibv_req_notify_cq(s[1].cq, 1), 0);
	bring(s[1].qp, s[0].qp, IBV_QPS_ERR);
	expect_event(&s[1]);
	assert_int_equal(next(s[1].cq).status, IBV_WC_WR_FLUSH_ERR);
	ibv_ack_cq_events(s[1].cq, 2);
}

static void solicited_does_not_weaken_any(void **state)
{
	struct side *s = *state;

	connect_sides(s);
	assert_int_equal(ibv_req_notify_cq(s[0].cq, 0), 0);
	assert_int_equal(ibv_req_notify_cq(s[0].cq, 1), 0);
	assert_int_equal(side_write(&s[0], &s[1], 8), 0);
	expect_event(&s[0]);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	ibv_ack_cq_events(s[0].cq, 1);
}

static void await_completion(struct side *s)
{
	while (cq_looks_empty((struct cq *)s[0].cq))
		ibv_poll_cq(s[1].cq, 1, &(struct ibv_wc){0});
}

/* What has come between the last poll, which found nothing, and the request. Adapters tell of it, and UCX goes to sleep
 * without a look. */
static void arming_tells_of_what_has_come_unnoticed(void **state)
{
	struct side *s = *state;

	connect_sides(s);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ibv_poll_cq(s[0].cq, 1, &(struct ibv_wc){0}), 0);
		assert_int_equal(side_write(&s[0], &s[1], 8), 0);
		await_completion(s);
		assert_false(readable(&s[0]));
		assert_int_equal(ibv_req_notify_cq(s[0].cq, 0), 0);
		assert_true(readable(&s[0]));
		expect_event(&s[0]);
		ibv_ack_cq_events(s[0].cq, 1);
		assert_int_equal(ibv_req_notify_cq(s[0].cq, 0), 0);
		assert_false(readable(&s[0])); /* it has been told of */
		assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
		assert_int_equal(side_write(&s[0], &s[1], 8), 0);
		expect_event(&s[0]); /* of the second request */
		ibv_ack_cq_events(s[0].cq, 1);
		assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	}
}

/* The event is there when the program asks for it, which has slept before or not. */
static void find_events(struct side *s, bool sleeps)
{
	for (int i = 0; i < 10; i++) {
		assert_int_equal(ibv_req_notify_cq(s[0].cq, 0), 0);
		if (sleeps)
			poll(NULL, 0, 1);
		assert_int_equal(side_write(&s[0], &s[1], 8), 0);
		await_completion(s);
		expect_event(&s[0]);
		ibv_ack_cq_events(s[0].cq, 1);
		assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	}
	assert_int_equal(ibv_req_notify_cq(s[0].cq, 0), 0);
}

/* A program that waits for the descriptor by itself. */
static void wait_for_descriptor(struct side *s)
{
	find_events(s, true);
}

/* To s[1]; s[0] gets no completion. */
static void send_unsignaled(struct side *s)
{
	struct ibv_sge sge = piece(s, 0, 8);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

	assert_int_equal(side_receive(&s[1], 1), 0);
	assert_int_equal(side_send(&s[0], &wr), 0);
}

/* The message of another CQ rings, as both are in one process. */
static void a_descriptor_that_wakes_for_nothing_blocks_nobody(void **state)
{
	struct side *s = *state;
	struct ibv_cq *cq;
	unsigned events = 1;
	void *context;

	connect_sides(s);
	wait_for_descriptor(s);
	send_unsignaled(s);
	await_readable(&s[0]);
	expect_event(&s[0]); /* without a completion */
	ibv_ack_cq_events(s[0].cq, 1);
	assert_int_equal(ibv_poll_cq(s[0].cq, 1, &(struct ibv_wc){0}), 0);
	assert_int_equal(next(s[1].cq).status, IBV_WC_SUCCESS);
	assert_int_equal(fcntl(s[0].channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(ibv_req_notify_cq(s[0].cq, 0), 0);
	send_unsignaled(s);
	await_readable(&s[0]);
	assert_int_equal(next(s[1].cq).status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_poll_cq(s[0].cq, 1, &(struct ibv_wc){0}), 0);
	for (; readable(&s[0]); events++)
		expect_event(&s[0]); /* EAGAIN would be a failure to the program */
	assert_int_equal(ibv_get_cq_event(s[0].channel, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
	assert_false(readable(&s[0]));
	assert_int_equal(ibv_req_notify_cq(s[0].cq, 0), 0);
	assert_int_equal(side_write(&s[0], &s[1], 8), 0);
	await_completion(s);
	expect_event(&s[0]);
	ibv_ack_cq_events(s[0].cq, events);
}

/* Programs that wait in ibv_get_cq_event(), and are fast, find an event as well. They need not bear one without a
 * completion: ib_send_lat does not. */
static void a_program_that_never_slept_gets_no_extra_event(void **state)
{
	struct side *s = *state;

	connect_sides(s);
	find_events(s, false);
	send_unsignaled(s);
	assert_false(readable(&s[0]));
	assert_int_equal(next(s[1].cq).status, IBV_WC_SUCCESS);
}

/* It waits for other descriptors as well, and has asked for no event meanwhile. */
static void a_descriptor_that_nobody_has_armed_blocks_nobody(void **state)
{
	struct side *s = *state;

	connect_sides(s);
	wait_for_descriptor(s);
	assert_int_equal(side_write(&s[0], &s[1], 8), 0);
	await_completion(s);
	expect_event(&s[0]);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	send_unsignaled(s);
	await_readable(&s[0]);
	expect_event(&s[0]); /* without a completion */
	assert_int_equal(next(s[1].cq).status, IBV_WC_SUCCESS);
	send_unsignaled(s);
	assert_false(readable(&s[0]));
	assert_int_equal(next(s[1].cq).status, IBV_WC_SUCCESS);
	ibv_ack_cq_events(s[0].cq, 2);
}

/* A datagram that is no packet, to the sides' address. */
static void send_junk(void)
{
	union ibv_gid gid;
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(4791)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	assert_int_equal(ibv_query_gid(context, 1, 0, &gid), 0);
	memcpy(&to.sin_addr, gid.raw + 12, 4);
	assert_int_equal(sendto(fd, "junk", 4, 0, (struct sockaddr *)&to, sizeof(to)), 4);
	close(fd);
}

/* What was readable is closed with the last queue pair before the program asks for the event. */
static void a_port_that_closes_blocks_nobody(void **state)
{
	struct side *s = *state;

	connect_sides(s);
	wait_for_descriptor(s);
	send_junk();
	await_readable(&s[0]);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_destroy_qp(s[i].qp), 0);
		s[i].qp = make_qp(s[i].pd, s[i].cq, &(struct ibv_qp_cap){4, 4, 1, 1, 0});
	}
	expect_event(&s[0]);
	ibv_ack_cq_events(s[0].cq, 1);
}

/* An edge-triggered epoll tells once of two packets. The second one brings the event. */
static void one_wake_up_receives_all_that_has_come(void **state)
{
	struct side *s = *state;

	connect_sides(s);
	wait_for_descriptor(s);
	assert_int_equal(fcntl(s[0].channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(side_receive(&s[0], 1), 0);
	send_unsignaled(s);
	assert_int_equal(send_message(&s[1], 0), 0);
	expect_event(&s[0]);
	ibv_ack_cq_events(s[0].cq, 1);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
}

/* One who was woken for a message that is no event answers it before it sleeps again: here the peer waits for the ACK.
 */
static void who_is_woken_for_nothing_acknowledges(void **state)
{
	struct side *s = *state;

	connect_sides(s);
	wait_for_descriptor(s);
	assert_int_equal(fcntl(s[0].channel->fd, F_SETFL, O_NONBLOCK), 0);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(side_receive(&s[1], i), 0);
		assert_int_equal(send_message(&s[0], 0), 0);
		await_event(&s[0]);
		ibv_ack_cq_events(s[0].cq, 1);
		assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
		assert_int_equal(next(s[1].cq).wr_id, i);
		assert_int_equal(ibv_req_notify_cq(s[0].cq, 0), 0);
	}
}

/* More than fits between the two ends. The rest is sent by whom the room that comes wakes. */
static void who_is_woken_for_room_sends(void **state)
{
	enum { MANY = 8000 };
	struct side *s = *state;
	struct ibv_sge sge = piece(s, 0, 8);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	const struct ibv_qp_cap cap = {MANY, MANY, 1, 1, 0};
	struct ibv_qp *small[2] = {s[0].qp, s[1].qp};
	struct ibv_cq *cq = ibv_create_cq(context, MANY, NULL, NULL, 0);

	connect_sides(s);
	wait_for_descriptor(s);
	assert_int_equal(fcntl(s[0].channel->fd, F_SETFL, O_NONBLOCK), 0);
	s[0].qp = make_qp(s[0].pd, s[0].cq, &cap);
	s[1].qp = make_qp(s[1].pd, cq, &cap);
	connect_sides(s);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(side_receive(&s[1], i), 0);
	for (int i = 0; i < MANY; i++) {
		wr.send_flags = i == MANY - 1 ? IBV_SEND_SIGNALED : 0;
		assert_int_equal(side_send(&s[0], &wr), 0);
	}
	await_event(&s[0]);
	ibv_ack_cq_events(s[0].cq, 1);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_destroy_qp(s[i].qp), 0);
		s[i].qp = small[i];
	}
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void arming_for_solicited_ones_tells_of_no_others(void **state)
{
	struct side *s = *state;

	connect_sides(s);
	assert_int_equal(side_write(&s[0], &s[1], 8), 0);
	await_completion(s);
	assert_int_equal(ibv_req_notify_cq(s[0].cq, 1), 0);
	assert_false(readable(&s[0]));
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
}

static void expect_acknowledged(struct side *s)
{
	expect_event(s);
	ibv_ack_cq_events(s->cq, 1);
}

/* A program arms behind an event, takes one completion and waits for the next event. Both completions were there as it
 * armed. */
static void what_a_poll_leaves_in_an_armed_queue_is_told(void **state)
{
	struct side *s = *state;

	bring(s->qp, s[1].qp, IBV_QPS_ERR); /* where each receive completes at once */
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ibv_req_notify_cq(s->cq, 0), 0);
		assert_int_equal(side_receive(s, 0), 0);
		assert_int_equal(side_receive(s, 1), 0);
		expect_acknowledged(s);
		assert_int_equal(ibv_req_notify_cq(s->cq, 0), 0);
		assert_false(readable(s));
		assert_int_equal(next(s->cq).wr_id, 0);
		assert_true(readable(s));
		expect_acknowledged(s);
		assert_int_equal(ibv_req_notify_cq(s->cq, 0), 0);
		assert_int_equal(next(s->cq).wr_id, 1);
		assert_false(readable(s));
		assert_int_equal(side_receive(s, 2), 0); /* of the last request */
		expect_acknowledged(s);
		assert_int_equal(next(s->cq).wr_id, 2);
	}
}

/* The extended poll leaves what is there when it ends. */
static void what_an_extended_poll_leaves_is_told(void **state)
{
	struct side *s = *state;
	struct ibv_cq_init_attr_ex a = {.cqe = 16, .cq_context = s, .channel = s->channel};
	struct ibv_poll_cq_attr poll = {0};
	struct ibv_cq *plain = s->cq;
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &a);
	struct ibv_qp *qp = make_qp(s->pd, ibv_cq_ex_to_cq(cq), &(struct ibv_qp_cap){4, 4, 1, 1, 0});

	s->cq = ibv_cq_ex_to_cq(cq);
	bring(qp, s[1].qp, IBV_QPS_ERR);
	assert_int_equal(ibv_req_notify_cq(s->cq, 0), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(ibv_post_recv(qp, &(struct ibv_recv_wr){.wr_id = i}, &(struct ibv_recv_wr *){0}), 0);
	expect_acknowledged(s);
	assert_int_equal(ibv_req_notify_cq(s->cq, 0), 0);
	assert_int_equal(ibv_start_poll(cq, &poll), 0);
	assert_int_equal(ibv_next_poll(cq), 0);
	assert_int_equal(cq->wr_id, 1);
	assert_false(readable(s));
	ibv_end_poll(cq);
	assert_true(readable(s));
	expect_acknowledged(s);
	assert_int_equal(ibv_req_notify_cq(s->cq, 0), 0);
	assert_int_equal(ibv_start_poll(cq, &poll), 0);
	assert_int_equal(ibv_next_poll(cq), ENOENT);
	ibv_end_poll(cq);
	assert_false(readable(s));
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(s->cq), 0);
	s->cq = plain;
}

static void an_empty_channel_honours_O_NONBLOCK(void **state)
{
	struct side *s = *state;
	struct ibv_cq *cq;
	void *cq_context;

	fcntl(s[0].channel->fd, F_SETFL, O_NONBLOCK);
	errno = 0;
	assert_int_equal(ibv_get_cq_event(s[0].channel, &cq, &cq_context), -1);
	assert_int_equal(errno, EAGAIN);
}

static void ignore(int sig)
{
}

static void *interrupt(void *thread)
{
	while (!pthread_kill(*(pthread_t *)thread, SIGUSR1)) {
		pthread_testcancel();
		usleep(1000);
	}
	return NULL;
}

static void a_signal_ends_the_wait(void **state)
{
	struct side *s = *state;
	struct sigaction a = {.sa_handler = ignore};
	pthread_t self = pthread_self(), other;
	struct ibv_cq *cq;
	void *cq_context;

	sigaction(SIGUSR1, &a, NULL);
	pthread_create(&other, NULL, interrupt, &self);
	errno = 0;
	assert_int_equal(ibv_get_cq_event(s[0].channel, &cq, &cq_context), -1);
	assert_int_equal(errno, EINTR);
	pthread_cancel(other);
	pthread_join(other, NULL);
}

enum { RESTARTS = 5 };

static _Atomic int handled[2]; /* SIGUSR1, SIGUSR2 */

static void count(int sig)
{
	handled[sig == SIGUSR2]++;
}

static void signal_main(pthread_t main, int sig)
{
	int before = handled[sig == SIGUSR2];

	until_main_sleeps();
	pthread_kill(main, sig);
	while (handled[sig == SIGUSR2] == before)
		sched_yield();
}

/* Descriptors that the program has closed because it did not know them; their numbers are another file's by now. */
static void become_readable(void)
{
	int end[2];

	assert_int_equal(pipe(end), 0);
	assert_int_equal(write(end[1], "", 1), 1);
	for (int fd = 512; fd < 1024; fd++) {
		char path[32], name[64] = "";

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (readlink(path, name, sizeof(name) - 1) > 0 && strstr(name, "[signalfd]"))
			assert_int_equal(dup2(end[0], fd), fd);
	}
	close(end[0]);
	close(end[1]);
}

static void *restart_then_end(void *main)
{
	for (int i = 0; i < RESTARTS; i++)
		signal_main(*(pthread_t *)main, SIGUSR1);
	signal_main(*(pthread_t *)main, SIGUSR2);
	return NULL;
}

static int wait_for_completion(struct side *s)
{
	struct ibv_cq *cq;
	void *cq_context;

	return ibv_get_cq_event(s->channel, &cq, &cq_context);
}

static int wait_for_async(struct side *s)
{
	struct ibv_async_event event;

	return ibv_get_async_event(context, &event);
}

static int wait_for_cm(struct side *s)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;
	int result, error;

	result = rdma_get_cm_event(channel, &event);
	error = errno;
	rdma_destroy_event_channel(channel);
	errno = error;
	return result;
}

/* As read(2): a handler with SA_RESTART lets the wait go on, one without it ends it. */
static void a_wait_is_restarted_as_a_read(void **state)
{
	static int (*const wait[])(struct side * s) = {wait_for_completion, wait_for_async, wait_for_cm};
	struct sigaction restarts = {.sa_handler = count, .sa_flags = SA_RESTART}, ends = {.sa_handler = count};
	pthread_t self = pthread_self(), other;

	sigaction(SIGUSR1, &restarts, NULL);
	sigaction(SIGUSR2, &ends, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(wait); i++) {
		handled[0] = handled[1] = 0;
		pthread_create(&other, NULL, restart_then_end, &self);
		errno = 0;
		assert_int_equal(wait[i](*state), -1);
		assert_int_equal(errno, EINTR);
		assert_int_equal(handled[0], RESTARTS);
		pthread_join(other, NULL);
		assert_int_equal(handled[1], 1);
	}
}

struct sender {
	pthread_t main;
	struct side *side;
};

static void *restart_then_send(void *arg)
{
	struct sender *sender = arg;

	for (int i = 0; i < RESTARTS; i++)
		signal_main(sender->main, SIGUSR1);
	until_main_sleeps();
	send_message(sender->side, 0);
	return NULL;
}

/* Where all handlers let the wait go on, it ends with its event; also if the program has closed descriptors of ours. */
static void a_restarted_wait_ends_with_its_event(void **state)
{
	struct side *s = *state;
	struct sigaction restarts = {.sa_handler = count, .sa_flags = SA_RESTART}, none = {.sa_handler = SIG_DFL};
	struct sender sender = {.main = pthread_self(), .side = &s[0]};
	pthread_t other;

	sigaction(SIGUSR1, &restarts, NULL);
	sigaction(SIGUSR2, &none, NULL);
	handled[0] = 0;
	become_readable();
	connect_sides(s);
	assert_int_equal(side_receive(&s[1], 1), 0);
	assert_int_equal(ibv_req_notify_cq(s[1].cq, 0), 0);
	pthread_create(&other, NULL, restart_then_send, &sender);
	expect_event(&s[1]);
	pthread_join(other, NULL);
	assert_int_equal(handled[0], RESTARTS);
	assert_int_equal(next(s[1].cq).wr_id, 1);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	ibv_ack_cq_events(s[1].cq, 1);
}

static void *send_to_sleeper(void *side)
{
	until_main_sleeps();
	send_message(side, 0);
	return NULL;
}

/* Blocks until a message has come, which is sent when it is blocked. Events without a completion. */
static int count_extra_events(struct side *s)
{
	pthread_t other;
	int extra = -1;

	assert_int_equal(side_receive(&s[0], 1), 0);
	assert_int_equal(ibv_req_notify_cq(s[0].cq, 0), 0);
	pthread_create(&other, NULL, send_to_sleeper, &s[1]);
	do {
		expect_event(&s[0]);
		ibv_ack_cq_events(s[0].cq, 1);
		extra++;
	} while (!ibv_poll_cq(s[0].cq, 1, &(struct ibv_wc){0}));
	pthread_join(other, NULL);
	assert_int_equal(next(s[1].cq).status, IBV_WC_SUCCESS);
	return extra;
}

/* A program that has waited for the descriptor, and then blocks in ibv_get_cq_event(). */
static void who_has_blocked_gets_no_extra_event(void **state)
{
	struct side *s = *state;

	connect_sides(s);
	wait_for_descriptor(s);
	assert_in_range(count_extra_events(s), 0, 1); /* it may have been readable */
	for (int i = 0; i < 10; i++)
		assert_int_equal(count_extra_events(s), 0);
}

/* A program that sleeps in poll() on the channel's fd is woken: nobody but the helper makes progress. */
static void a_sleeper_in_poll_is_woken(void **state)
{
	struct side *s = *state;
	struct pollfd fd = {.fd = s[1].channel->fd, .events = POLLIN};

	connect_sides(s);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(side_receive(&s[1], i), 0);
		assert_int_equal(ibv_req_notify_cq(s[1].cq, 0), 0);
		assert_int_equal(send_message(&s[0], 0), 0);
		while (poll(&fd, 1, -1) != 1)
			;
		expect_event(&s[1]);
		assert_int_equal(next(s[1].cq).wr_id, i);
		ibv_ack_cq_events(s[1].cq, 1);
	}
	for (int i = 0; i < 10; i++)
		assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
}

struct acknowledger {
	struct ibv_cq *cq;
	_Atomic bool acknowledged;
};

static void *acknowledge(void *arg)
{
	struct acknowledger *a = arg;

	until_main_sleeps(); /* in ibv_destroy_cq() */
	a->acknowledged = true;
	ibv_ack_cq_events(a->cq, 1);
	return NULL;
}

static void destroying_waits_for_acknowledgements(void **state)
{
	struct side *s = *state;
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, channel, 0), *got;
	struct ibv_qp *qp = make_qp(s[0].pd, cq, &(struct ibv_qp_cap){4, 4, 1, 1, 0});
	struct acknowledger a = {.cq = cq};
	void *cq_context;
	pthread_t thread;

	bring(qp, s[1].qp, IBV_QPS_INIT);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	assert_int_equal(ibv_post_recv(qp, &(struct ibv_recv_wr){0}, &(struct ibv_recv_wr *){0}), 0);
	bring(qp, s[1].qp, IBV_QPS_ERR);
	assert_int_equal(ibv_get_cq_event(channel, &got, &cq_context), 0);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	assert_int_equal(ibv_post_recv(qp, &(struct ibv_recv_wr){0}, &(struct ibv_recv_wr *){0}), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	pthread_create(&thread, NULL, acknowledge, &a);
	assert_int_equal(ibv_destroy_cq(cq), 0); /* the second event was never fetched: nobody waits for it */
	assert_true(a.acknowledged);
	pthread_join(thread, NULL);
	assert_int_equal(poll(&(struct pollfd){.fd = channel->fd, .events = POLLIN}, 1, 0), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/* Two queues on one channel each get their tx batch. */
static void a_channel_serves_many_queues(void **state)
{
	struct side *s = *state;
	struct ibv_cq *cqs[2], *got;
	struct ibv_qp *qps[2];
	int seen[2] = {0};
	void *cq_context;

	for (int i = 0; i < 2; i++) {
		cqs[i] = ibv_create_cq(context, 16, &seen[i], s[0].channel, 0);
		qps[i] = make_qp(s[0].pd, cqs[i], &(struct ibv_qp_cap){4, 4, 1, 1, 0});
		bring(qps[i], s[1].qp, IBV_QPS_INIT);
		bring(qps[i], s[1].qp, IBV_QPS_ERR);
		for (int k = 0; k < 2; k++) {
			assert_int_equal(ibv_req_notify_cq(cqs[i], 0), 0);
			assert_int_equal(ibv_post_recv(qps[i], &(struct ibv_recv_wr){0}, &(struct ibv_recv_wr *){0}),
					 0);
		}
	}
	for (int i = 0; i < 4; i++) {
		assert_int_equal(ibv_get_cq_event(s[0].channel, &got, &cq_context), 0);
		++*(int *)cq_context;
		ibv_ack_cq_events(got, 1);
	}
	assert_int_equal(seen[0], 2);
	assert_int_equal(seen[1], 2);
	assert_false(readable(&s[0]));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_destroy_qp(qps[i]), 0);
		assert_int_equal(ibv_destroy_cq(cqs[i]), 0);
	}
}

static void moderate(struct side *s, uint16_t count, uint16_t period)
{
	struct ibv_modify_cq_attr a = {.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {count, period}};

	assert_int_equal(ibv_modify_cq(s->cq, &a), 0);
}

static void moderation_tells_of_many_at_once(void **state)
{
	struct side *s = *state;
	struct ibv_modify_cq_attr bad = {.attr_mask = 2};
	struct ibv_device_attr_ex ex;

	assert_int_equal(ibv_query_device_ex(context, NULL, &ex), 0);
	assert_true(ex.cq_mod_caps.max_cq_count && ex.cq_mod_caps.max_cq_period);
	assert_int_equal(ibv_modify_cq(s->cq, &bad), EOPNOTSUPP);
	bring(s->qp, s[1].qp, IBV_QPS_ERR); /* where each receive completes at once */
	moderate(s, 3, 0);
	assert_int_equal(ibv_req_notify_cq(s->cq, 0), 0);
	for (int i = 0; i < 3; i++) {
		assert_false(readable(s));
		assert_int_equal(side_receive(s, i), 0);
	}
	expect_event(s);

	/* the next batch begins with the next request */
	assert_int_equal(side_receive(s, 3), 0);
	assert_int_equal(ibv_req_notify_cq(s->cq, 0), 0);
	assert_int_equal(side_receive(s, 4), 0);
	assert_int_equal(side_receive(s, 5), 0);
	assert_false(readable(s));
	moderate(s, 0, 0); /* what is held back goes */
	expect_event(s);

	/* or when the time is over */
	moderate(s, 100, 500);
	assert_int_equal(ibv_req_notify_cq(s->cq, 0), 0);
	assert_int_equal(side_receive(s, 6), 0);
	expect_event(s);
	assert_false(readable(s));
	ibv_ack_cq_events(s->cq, 3);
}

static void communication_established_is_told(void **state)
{
	struct side *s = *state;
	struct ibv_async_event e;

	bring(s[0].qp, s[1].qp, IBV_QPS_RTS);
	bring(s[1].qp, s[0].qp, IBV_QPS_RTR);
	assert_int_equal(side_write(&s[0], &s[1], 8), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	do {
		assert_int_equal(ibv_get_async_event(context, &e), 0);
		ibv_ack_async_event(&e);
	} while (e.event_type != IBV_EVENT_COMM_EST || e.element.qp != s[1].qp);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_sides, close_sides)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_armed_queue_tells_once),
		TEST(only_solicited_ones_tell),
		TEST(solicited_does_not_weaken_any),
		TEST(arming_tells_of_what_has_come_unnoticed),
		TEST(arming_for_solicited_ones_tells_of_no_others),
		TEST(a_descriptor_that_wakes_for_nothing_blocks_nobody),
		TEST(a_program_that_never_slept_gets_no_extra_event),
		TEST(a_descriptor_that_nobody_has_armed_blocks_nobody),
		TEST(a_port_that_closes_blocks_nobody),
		TEST(one_wake_up_receives_all_that_has_come),
		TEST(who_is_woken_for_nothing_acknowledges),
		TEST(who_is_woken_for_room_sends),
		TEST(what_a_poll_leaves_in_an_armed_queue_is_told),
		TEST(what_an_extended_poll_leaves_is_told),
		TEST(an_empty_channel_honours_O_NONBLOCK),
		TEST(a_signal_ends_the_wait),
		TEST(a_wait_is_restarted_as_a_read),
		TEST(a_restarted_wait_ends_with_its_event),
		TEST(who_has_blocked_gets_no_extra_event),
		TEST(a_sleeper_in_poll_is_woken),
		TEST(destroying_waits_for_acknowledgements),
		TEST(a_channel_serves_many_queues),
		TEST(moderation_tells_of_many_at_once),
		TEST(communication_established_is_told),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, open_context, close_context);
}
