/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC domains that several processes have open: SRQs of one for the target of another, targets that another has made.
 */
#include "verbs/xrc.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/qpn.h"
#include "fault/inject.h"
#include "host/slot.h"
#include "object/xrc.h"

/* What the other process has: where to send to, and what to reach there. */
struct offer {
	uint32_t srqn, rkey;
	uint64_t address;
};

enum { ROUNDS = 20 };

enum { LIAR = 200 /* the slot of no process */, LIES = 300, ENDS = 0 };
struct liar {
	int listener, event;
};

/* The second address of the loopback device, which has 127.0.0.1 as its first. */
#define SECOND "10.77.0.2"

/* What this program is called when it is another process. */
#define OTHER	   "other"
#define LOCAL_PEER "local peer"

static struct offer offer_of(const struct ends *e)
{
	return (struct offer){e->srqn, e->target_mr->rkey, (uintptr_t)e->memory + HALF};
}

/* Where a helper thread writes. ThreadSanitizer does not see the order, which is by way of the process that asked for
 * both. */
__attribute__((no_sanitize_thread, noinline)) static char byte_at(const struct ends *e, size_t at)
{
	return ((const volatile char *)e->memory)[HALF + at];
}

/* Another process of the domain: it has an SRQ there and memory, and says of each message what has come. */
static void be_other_process(int fd, int in, int out)
{
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ends e = {0};
	struct offer offer;
	char step;

	if (open_context(NULL))
		_exit(1);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	e.xrcd = open_domain(fd, 0);
	e.memory = calloc(1, MEMORY);
	e.target_mr = ibv_reg_mr(pd, e.memory + HALF, HALF, ALL_ACCESS);
	e.srq = e.xrcd ? make_srq(pd, e.xrcd, cq) : NULL;
	if (!e.srq || !e.target_mr)
		_exit(2);
	e.srqn = number_of(e.srq);
	offer = offer_of(&e);
	for (int i = 0; i < 4; i++)
		receive(&e, HALF);
	if (write(out, &offer, sizeof(offer)) != sizeof(offer))
		_exit(3);
	for (;;) {
		if (read(in, &step, 1) != 1)
			_exit(0);
		if (step == 'r') {
			struct ibv_wc wc = next(cq);

			receive(&e, HALF);
			step = wc.status == IBV_WC_SUCCESS && wc.byte_len == LENGTH ? byte_at(&e, LENGTH - 1) : 0;
		} else {
			step = byte_at(&e, 0);
		}
		if (write(out, &step, 1) != 1)
			_exit(4);
	}
}

static char ask(int to, int from, char what)
{
	char answer = 0;

	assert_int_equal(write(to, &what, 1), 1);
	assert_int_equal(read(from, &answer, 1), 1);
	return answer;
}

static int post_at(struct ends *e, enum ibv_wr_opcode opcode, const struct offer *o, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)e->memory, length, e->mr->lkey};
	struct ibv_send_wr *bad, wr = {
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = opcode,
					 .send_flags = IBV_SEND_SIGNALED,
					 .qp_type.xrc.remote_srqn = o->srqn,
					 .wr.rdma = {o->address, o->rkey},
				 };

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = o->address;
		wr.wr.atomic.rkey = o->rkey;
		wr.wr.atomic.compare_add = 1;
	}
	return ibv_post_send(e->ini, &wr, &bad);
}

/* A program of its own: sanitizers cannot follow children of a process with threads that start some. */
static void become(const char *what, int fd, int in, int out)
{
	char text[3][12];

	snprintf(text[0], sizeof(text[0]), "%d", fd);
	snprintf(text[1], sizeof(text[1]), "%d", in);
	snprintf(text[2], sizeof(text[2]), "%d", out);
	execl("/proc/self/exe", what, text[0], text[1], text[2], NULL);
	_exit(3);
}

/* One target QP of this process, messages by turns to its own SRQ and to that of another. */
static void an_srq_may_be_another_process_s(void **state)
{
	struct ends *e = *state;
	char name[] = "/tmp/uroce-xrcd-XXXXXX";
	int fd = mkstemp(name), to[2], from[2], status;
	struct ibv_xrcd *xrcd = open_domain(fd, O_CREAT);
	struct ibv_srq *srq = make_srq(e->target_pd, xrcd, e->srq_cq), *private = e->srq;
	struct ibv_qp *tgt = make_target(xrcd), *private_tgt = e->tgt;
	struct offer own, other;
	pid_t child;

	assert_true(pipe(to) == 0 && pipe(from) == 0 && srq && tgt);
	child = fork();
	if (!child) {
		close(to[1]);
		become(OTHER, fd, to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	assert_int_equal(read(from[0], &other, sizeof(other)), sizeof(other));
	bring(e->ini, e->tgt, IBV_QPS_RESET);
	e->tgt = tgt;
	e->srq = srq;
	e->srqn = number_of(srq);
	own = offer_of(e);
	connect_ends(e);
	for (int i = 0; i < 4; i++)
		receive(e, HALF);

	for (int i = 1; i <= ROUNDS; i++) {
		memset(e->memory, i, HALF);
		/* both at once: the second waits until the first is through */
		assert_int_equal(post_at(e, IBV_WR_SEND, &other, LENGTH), 0);
		assert_int_equal(post_at(e, IBV_WR_SEND, &own, LENGTH), 0);
		assert_int_equal(next(e->cq).status, IBV_WC_SUCCESS);
		assert_int_equal(next(e->cq).status, IBV_WC_SUCCESS);
		assert_int_equal(next(e->srq_cq).status, IBV_WC_SUCCESS);
		receive(e, HALF);
		assert_int_equal(e->memory[HALF + LENGTH - 1], i);
		assert_int_equal(ask(to[1], from[0], 'r'), i);

		memset(e->memory, 100 + i, HALF);
		assert_int_equal(post_at(e, IBV_WR_RDMA_WRITE, &other, LENGTH), 0);
		assert_int_equal(next(e->cq).status, IBV_WC_SUCCESS);
		memset(e->memory, 0, HALF);
		assert_int_equal(ask(to[1], from[0], 'm'), 100 + i);
		assert_int_equal(post_at(e, IBV_WR_RDMA_READ, &other, LENGTH), 0);
		assert_int_equal(next(e->cq).status, IBV_WC_SUCCESS);
		assert_int_equal(e->memory[LENGTH - 1], 100 + i);
		assert_int_equal(post_at(e, IBV_WR_ATOMIC_FETCH_AND_ADD, &other, 8), 0);
		assert_int_equal(next(e->cq).status, IBV_WC_SUCCESS);
		assert_int_equal(e->memory[0], 100 + i);
		assert_int_equal(ask(to[1], from[0], 'm'), 101 + i);
	}

	/* a key that is ours is none there, and our QP is told so */
	other.rkey = own.rkey;
	assert_int_equal(post_at(e, IBV_WR_RDMA_WRITE, &other, LENGTH), 0);
	assert_int_equal(next(e->cq).status, IBV_WC_REM_ACCESS_ERR);
	while (state_of(e->tgt) != IBV_QPS_ERR)
		;

	close(to[1]);
	close(from[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(ibv_destroy_qp(tgt), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	e->srq = private;
	e->tgt = private_tgt;
	close(fd);
	unlink(name);
}

/* ---- targets that another process has made, or opened ---- */

struct local_peer {
	int to, from;
	pid_t child;
};

/* A file's domain, its own SRQ and initiator, and another process in the domain. */
struct two {
	struct ends e;
	char name[32];
	int fd;
	struct local_peer n;
	uint32_t target; /* the number of the local peer's target, which is connected to our initiator */
};

/* An SRQ of a local peer. */
static struct ibv_srq *make_inbox(struct ends *e, struct ibv_xrcd *xrcd)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);

	e->srq_cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	e->memory = calloc(1, MEMORY);
	e->target_mr = ibv_reg_mr(pd, e->memory + HALF, HALF, ALL_ACCESS);
	e->srq = make_srq(pd, xrcd, e->srq_cq);
	for (int i = 0; i < 4; i++)
		receive(e, HALF);
	return e->srq;
}

/* The number that the next message brings. The next message may come over it only when there is a receive for it. */
static uint32_t take_message(struct ends *e)
{
	struct ibv_wc wc = next(e->srq_cq);
	uint32_t number = -1u;

	if (wc.status == IBV_WC_SUCCESS && wc.wc_flags & IBV_WC_WITH_IMM)
		number = wc.imm_data;
	receive(e, HALF);
	return number;
}

/* The GID index of the second address. -1: it could not be added. */
static int second_address(union ibv_gid *gid)
{
	union ibv_gid wanted = {.raw = {[10] = 0xff, [11] = 0xff}};
	int index = 0;

	assert_int_equal(inet_pton(AF_INET, SECOND, wanted.raw + 12), 1);
	while (!ibv_query_gid(context, 1, index, gid)) {
		if (!memcmp(gid, &wanted, sizeof(wanted)))
			return index;
		index++;
	}
	return -1;
}

/* The path between the second addresses becomes the alternate one. 0 or errno. */
static int arm(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = attributes(IBV_QPS_RTS, qp);

	a.alt_ah_attr.grh.sgid_index = (uint8_t)second_address(&a.alt_ah_attr.grh.dgid);
	a.alt_timeout = a.timeout;
	a.path_mig_state = IBV_MIG_REARM;
	return ibv_modify_qp(qp, &a, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
}

/* Reads orders from `in`: makes targets, opens those of the other process, destroys both; writes 0 or errno to `out`.
 * Ends at the end of its input. */
static void be_local_peer(int fd, int in, int out)
{
	struct ibv_qp *qp = NULL, peer = {0};
	struct ends e = {0};
	struct ibv_xrcd *xrcd;
	uint32_t taken = 0;
	struct order {
		char what;
		uint32_t number;
	} order;

	if (open_context(NULL))
		_exit(1);
	xrcd = open_domain(fd, O_CREAT);
	while (read(in, &order, sizeof(order)) == sizeof(order)) {
		uint32_t answer = 0;

		peer.qp_num = order.number;
		if (order.what == 'm') { /* make one for that initiator */
			qp = make_target(xrcd);
			bring(qp, &peer, IBV_QPS_RTS);
			answer = qp->qp_num;
		} else if (order.what == 'o') { /* open that one */
			errno = 0;
			qp = open_qp(xrcd, order.number);
			answer = qp ? 0 : errno;
		} else if (order.what == 'a') { /* give it an alternate path */
			answer = arm(qp);
		} else if (order.what == 'd') {
			answer = ibv_destroy_qp(qp);
		} else if (order.what == 'x') { /* leave the domain */
			answer = ibv_close_xrcd(xrcd);
		} else if (order.what == 'c') { /* ... and the device */
			answer = ibv_close_device(context);
		} else if (order.what == 'q') { /* make an SRQ, and say its number */
			answer = number_of(make_inbox(&e, xrcd));
		} else if (order.what == 'r') { /* take so many messages, which are to bring 0, 1, 2 ... */
			for (uint32_t i = 0; i < order.number; i++)
				answer |= take_message(&e) ^ taken++;
		} else if (order.what == 'e') { /* exit, with all that is open */
			exit(0);
		}
		if (write(out, &answer, sizeof(answer)) != sizeof(answer))
			_exit(2);
	}
	_exit(0);
}

static void order(const struct local_peer *n, char what, uint32_t number)
{
	struct {
		char what;
		uint32_t number;
	} order = {what, number};

	assert_int_equal(write(n->to, &order, sizeof(order)), sizeof(order));
}

static uint32_t hear(const struct local_peer *n)
{
	uint32_t answer = -1u;

	assert_int_equal(read(n->from, &answer, sizeof(answer)), sizeof(answer));
	return answer;
}

static uint32_t tell(const struct two *t, char what, uint32_t number)
{
	order(&t->n, what, number);
	return hear(&t->n);
}

static void start(struct local_peer *n, int fd)
{
	int to[2], from[2];

	assert_true(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0);
	n->child = fork();
	if (!n->child) {
		fcntl(to[0], F_SETFD, 0);
		fcntl(from[1], F_SETFD, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody who polls */
		become(LOCAL_PEER, fd, to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	n->to = to[1];
	n->from = from[0];
}

static void stop(struct local_peer *n)
{
	int status;

	if (!n->child)
		return;
	close(n->to);
	close(n->from);
	assert_int_equal(waitpid(n->child, &status, 0), n->child);
	n->child = 0;
}

static int open_two(void **state)
{
	struct two *t = calloc(1, sizeof(*t));
	struct ends *e = &t->e;
	struct ibv_qp remote = {0};

	strcpy(t->name, "/tmp/uroce-xrcd-XXXXXX");
	t->fd = mkstemp(t->name);
	assert_true(t->fd >= 0);
	start(&t->n, t->fd);
	assert_non_null(e->xrcd = open_domain(t->fd, O_CREAT));
	assert_non_null(e->pd = ibv_alloc_pd(context));
	assert_non_null(e->cq = ibv_create_cq(context, 16, NULL, NULL, 0));
	assert_non_null(e->srq_cq = ibv_create_cq(context, 16, NULL, NULL, 0));
	assert_non_null(e->memory = calloc(1, MEMORY));
	assert_non_null(e->mr = e->target_mr = ibv_reg_mr(e->pd, e->memory, MEMORY, ALL_ACCESS));
	assert_non_null(e->srq = make_srq(e->pd, e->xrcd, e->srq_cq));
	assert_non_null(e->ini = make_initiator(e->pd, e->cq));
	e->srqn = number_of(e->srq);
	remote.qp_num = t->target = tell(t, 'm', e->ini->qp_num);
	bring(e->ini, &remote, IBV_QPS_RTS);
	*state = t;
	return 0;
}

static int close_two(void **state)
{
	struct two *t = *state;
	struct ends *e = &t->e;

	stop(&t->n);
	assert_int_equal(ibv_destroy_qp(e->ini), 0);
	assert_int_equal(ibv_destroy_srq(e->srq), 0);
	assert_int_equal(ibv_close_xrcd(e->xrcd), 0);
	assert_int_equal(ibv_dereg_mr(e->mr), 0);
	assert_int_equal(ibv_destroy_cq(e->cq), 0);
	assert_int_equal(ibv_destroy_cq(e->srq_cq), 0);
	assert_int_equal(ibv_dealloc_pd(e->pd), 0);
	close(t->fd);
	unlink(t->name);
	free(e->memory);
	free(t);
	return 0;
}

static void exchange(struct ends *e)
{
	receive(e, HALF);
	assert_int_equal(post(e, IBV_WR_SEND, e->srqn, 0, LENGTH), 0);
	assert_int_equal(next(e->cq).status, IBV_WC_SUCCESS);
	assert_int_equal(next(e->srq_cq).status, IBV_WC_SUCCESS);
}

static void assert_event(struct ibv_qp *qp, enum ibv_event_type type)
{
	struct ibv_async_event event;

	assert_int_equal(ibv_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, type);
	assert_ptr_equal(event.element.qp, qp);
	ibv_ack_async_event(&event);
}

/* Nobody has it open any more. Those who were the last may still be dying. */
static void until_gone(struct ibv_xrcd *xrcd, uint32_t number)
{
	struct ibv_qp *qp;

	while ((qp = open_qp(xrcd, number)))
		assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(errno, EINVAL);
}

static void another_process_s_target_is_opened(void **state)
{
	struct two *t = *state;
	struct ends *e = &t->e;
	struct ibv_xrcd *other = open_domain(-1, O_CREAT);
	struct ibv_qp_attr attr, rest = {.qp_state = IBV_QPS_RESET};
	struct ibv_qp_init_attr init;
	struct ibv_qp *opened, *twice;

	assert_errno(open_qp(other, t->target), EINVAL);
	assert_errno(open_qp(e->xrcd, t->target + 77), EINVAL);
	assert_errno(open_qp(e->xrcd, t->target ^ 0x550000), EINVAL);
	assert_non_null(opened = open_qp(e->xrcd, t->target));
	assert_non_null(twice = open_qp(e->xrcd, t->target));
	assert_int_equal(opened->qp_num, t->target);
	assert_int_equal(opened->qp_type, IBV_QPT_XRC_RECV);
	assert_int_equal(opened->state, IBV_QPS_RTS);
	assert_int_equal(ibv_query_qp(opened, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.dest_qp_num, e->ini->qp_num);
	attr.min_rnr_timer = 5;
	assert_int_equal(ibv_modify_qp(opened, &attr, IBV_QP_MIN_RNR_TIMER), 0);
	assert_int_equal(ibv_query_qp(twice, &attr, IBV_QP_MIN_RNR_TIMER, &init), 0);
	assert_int_equal(attr.min_rnr_timer, 5);
	exchange(e);

	/* events come to all who have it open */
	assert_int_equal(post(e, IBV_WR_SEND, e->srqn + 1, 0, LENGTH), 0);
	assert_int_equal(next(e->cq).status, IBV_WC_REM_INV_REQ_ERR);
	assert_event(opened, IBV_EVENT_QP_REQ_ERR);
	assert_event(twice, IBV_EVENT_QP_REQ_ERR);
	assert_int_equal(state_of(twice), IBV_QPS_ERR);

	/* from the beginning, as far as that needs no path */
	assert_int_equal(ibv_modify_qp(opened, &rest, IBV_QP_STATE), 0);
	assert_int_equal(state_of(twice), IBV_QPS_RESET);
	attr = attributes(IBV_QPS_INIT, e->ini);
	assert_int_equal(ibv_modify_qp(opened, &attr, INIT_MASK), 0);
	assert_int_equal(state_of(twice), IBV_QPS_INIT);
	attr = attributes(IBV_QPS_RTR, e->ini);
	assert_int_equal(ibv_modify_qp(opened, &attr, RTR_MASK), EOPNOTSUPP);

	assert_int_equal(ibv_close_xrcd(e->xrcd), EBUSY);
	assert_int_equal(ibv_destroy_qp(opened), 0);
	assert_int_equal(ibv_destroy_qp(twice), 0);
	assert_int_equal(ibv_close_xrcd(other), 0);
}

static void a_target_outlives_who_made_it(void **state)
{
	struct two *t = *state;
	struct ends *e = &t->e;
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp *opened = open_qp(e->xrcd, t->target);

	assert_non_null(opened);
	assert_int_equal(tell(t, 'd', 0), 0);
	assert_int_equal(tell(t, 'x', 0), 0);
	exchange(e);
	assert_int_equal(state_of(opened), IBV_QPS_RTS);
	assert_int_equal(ibv_modify_qp(opened, &error, IBV_QP_STATE), 0);
	assert_int_equal(state_of(opened), IBV_QPS_ERR);
	assert_int_equal(ibv_destroy_qp(opened), 0);
	until_gone(e->xrcd, t->target);
	assert_int_equal(tell(t, 'c', 0), 0);
}

/* The process that has made it closes its device, or ends in whatever way: it is gone, as all who have opened it are
 * told. */
static void a_target_ends_with_its_process(void **state)
{
	static const enum { DEVICE_CLOSED, EXITS, KILLED, ROWS } rows[] = {DEVICE_CLOSED, EXITS, KILLED};
	struct two *t = *state;

	for (int i = 0; i < ROWS; i++) {
		struct ends *e = &t->e;
		struct ibv_qp *opened = open_qp(e->xrcd, t->target), *twice = open_qp(e->xrcd, t->target);
		struct ibv_qp_attr attr, error = {.qp_state = IBV_QPS_ERR};
		struct ibv_qp_init_attr init;

		assert_non_null(opened);
		assert_non_null(twice);
		exchange(e);
		if (rows[i] == KILLED) {
			kill(t->n.child, SIGKILL);
		} else if (rows[i] == EXITS) {
			order(&t->n, 'e', 0);
		} else {
			assert_int_equal(tell(t, 'd', 0), 0);
			assert_int_equal(tell(t, 'x', 0), 0);
			assert_int_equal(tell(t, 'c', 0), 0);
		}
		assert_event(opened, IBV_EVENT_QP_FATAL);
		assert_event(twice, IBV_EVENT_QP_FATAL);
		assert_int_equal(ibv_query_qp(opened, &attr, IBV_QP_STATE, &init), ENODEV);
		assert_int_equal(ibv_modify_qp(opened, &error, IBV_QP_STATE), ENODEV);
		assert_errno(open_qp(e->xrcd, t->target), EINVAL);
		assert_int_equal(ibv_close_xrcd(e->xrcd), EBUSY);
		assert_int_equal(ibv_destroy_qp(opened), 0);
		assert_int_equal(ibv_destroy_qp(twice), 0);
		if (i + 1 == ROWS)
			break;
		close_two(state);
		open_two(state);
		t = *state;
	}
}

/* A message with a number, to one SRQ; nobody waits for it to arrive. */
static void send_number(struct ends *e, uint32_t srqn, uint32_t number)
{
	struct ibv_sge sge = {(uintptr_t)e->memory, LENGTH, e->mr->lkey};
	struct ibv_send_wr *bad, wr = {
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND_WITH_IMM,
					 .send_flags = IBV_SEND_SIGNALED,
					 .imm_data = number,
					 .qp_type.xrc.remote_srqn = srqn,
				 };

	assert_int_equal(ibv_post_send(e->ini, &wr, &bad), 0);
}

/* It is closed here just as its process ends. */
static void a_target_may_be_closed_as_its_process_ends(void **state)
{
	struct two *t = *state;

	for (int i = 0; i < 8; i++) {
		struct ibv_qp *opened = open_qp(t->e.xrcd, t->target);

		assert_non_null(opened);
		kill(t->n.child, SIGKILL);
		if (i % 2)
			stop(&t->n);
		assert_int_equal(ibv_destroy_qp(opened), 0);
		until_gone(t->e.xrcd, t->target);
		close_two(state);
		open_two(state);
		t = *state;
	}
}

/* The process whose SRQ the last message was for has died: its SRQ is no more, the queue pair is. */
static void a_target_outlives_whose_srq_it_used(void **state)
{
	struct two *t = *state;
	struct ends *e = &t->e;
	struct ibv_qp *tgt = make_target(e->xrcd);
	uint32_t srqn = tell(t, 'q', 0);

	bring(e->ini, tgt, IBV_QPS_RESET);
	bring(tgt, e->ini, IBV_QPS_RTS);
	bring(e->ini, tgt, IBV_QPS_RTS);
	for (uint32_t i = 0; i < 3; i++) {
		send_number(e, srqn, i);
		assert_int_equal(next(e->cq).status, IBV_WC_SUCCESS);
	}
	assert_int_equal(tell(t, 'r', 3), 0);
	kill(t->n.child, SIGKILL);
	stop(&t->n);
	for (int i = 0; i < 3; i++)
		exchange(e);
	send_number(e, srqn, 3);
	assert_int_equal(next(e->cq).status, IBV_WC_REM_INV_REQ_ERR);
	assert_event(tgt, IBV_EVENT_QP_REQ_ERR);
	assert_int_equal(ibv_destroy_qp(tgt), 0);
}

static void who_has_it_open_may_be_killed(void **state)
{
	struct two *t = *state;
	struct ends *e = &t->e;
	struct ibv_qp *tgt = make_target(e->xrcd);
	uint32_t number = tgt->qp_num;

	bring(e->ini, tgt, IBV_QPS_RESET);
	bring(tgt, e->ini, IBV_QPS_RTS);
	bring(e->ini, tgt, IBV_QPS_RTS);
	assert_int_equal(tell(t, 'o', number + 1), EINVAL);
	assert_int_equal(tell(t, 'o', number), 0);
	assert_int_equal(ibv_destroy_qp(tgt), 0);
	exchange(e); /* it is here although nobody here has it open */
	kill(t->n.child, SIGKILL);
	until_gone(e->xrcd, number);
	assert_non_null(tgt = make_target(e->xrcd)); /* and the old one has been destroyed by now */
	assert_int_equal(ibv_destroy_qp(tgt), 0);
}

/* A call that a thread of its own makes, so that all wait at once. */
struct credit_request {
	void *(*ask)(void *arg);
	pthread_t thread;
	struct ibv_xrcd *xrcd;
	uint32_t number;
	struct ibv_qp *qp;
	int error;
};

static void *ask_to_open(void *arg)
{
	struct credit_request *q = arg;

	q->error = open_qp(q->xrcd, q->number) ? 0 : errno;
	return NULL;
}

static void *ask_for_state(void *arg)
{
	struct credit_request *q = arg;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	q->error = ibv_query_qp(q->qp, &attr, IBV_QP_STATE, &init);
	return NULL;
}

static void *ask_to_fail(void *arg)
{
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	struct credit_request *q = arg;

	q->error = ibv_modify_qp(q->qp, &error, IBV_QP_STATE);
	return NULL;
}

static void an_owner_that_is_stopped_is_not_waited_for(void **state)
{
	struct credit_request q[] = {{ask_to_open}, {ask_for_state}, {ask_to_fail}};
	enum { QUESTIONS = sizeof(q) / sizeof(q[0]) };
	struct two *t = *state;
	struct ends *e = &t->e;
	uint32_t second = tell(t, 'm', e->ini->qp_num);
	struct ibv_qp *opened = open_qp(e->xrcd, t->target), *late;
	int status;

	assert_non_null(opened);
	assert_int_equal(kill(t->n.child, SIGSTOP), 0);
	assert_int_equal(waitpid(t->n.child, &status, WUNTRACED), t->n.child);
	for (int i = 0; i < QUESTIONS; i++) {
		q[i].xrcd = e->xrcd;
		q[i].number = second;
		q[i].qp = opened;
		assert_int_equal(pthread_create(&q[i].thread, NULL, q[i].ask, &q[i]), 0);
	}
	for (int i = 0; i < QUESTIONS; i++) {
		assert_int_equal(pthread_join(q[i].thread, NULL), 0);
		assert_int_equal(q[i].error, ETIMEDOUT);
	}
	assert_int_equal(kill(t->n.child, SIGCONT), 0);
	assert_non_null(late = open_qp(e->xrcd, second));
	assert_int_equal(state_of(opened), IBV_QPS_RTS); /* what was refused has not been done */
	assert_int_equal(ibv_destroy_qp(opened), 0);
	assert_int_equal(ibv_destroy_qp(late), 0);
}

/* The name at which the others would call is taken. */
static void a_target_that_cannot_be_offered_is_not_found(void **state)
{
	struct two *t = *state;
	struct ends *e = &t->e;
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int n = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "uroce/%u/targets-3/%u", geteuid(),
			 e->ini->qp_num >> 13);
	int other = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	struct ibv_qp *tgt, *offered;

	assert_int_equal(bind(other, (struct sockaddr *)&name, offsetof(struct sockaddr_un, sun_path) + 1 + n), 0);
	assert_non_null(tgt = make_target(e->xrcd));
	assert_int_equal(tell(t, 'o', tgt->qp_num), EINVAL);
	assert_int_equal(listen(other, 1), 0);
	assert_int_equal(tell(t, 'o', tgt->qp_num), ETIMEDOUT);
	close(other);
	assert_int_equal(tell(t, 'o', tgt->qp_num), EINVAL);
	assert_non_null(offered = make_target(e->xrcd)); /* it is tried again */
	assert_int_equal(tell(t, 'o', tgt->qp_num), 0);
	assert_int_equal(tell(t, 'd', 0), 0);
	assert_int_equal(ibv_destroy_qp(offered), 0);
	assert_int_equal(ibv_destroy_qp(tgt), 0);
}

/* ---- alternate paths: the initiator and an SRQ are here; the target, its owner and another SRQ are not ---- */

/* A message to the SRQ of this process, where a delegate answers, and one to that of the owner. Each comes once: the
 * next one has the next number. */
static void send_to_both(struct two *t, uint32_t inbox, uint32_t number)
{
	struct ends *e = &t->e;

	send_number(e, e->srqn, number);
	send_number(e, inbox, number);
	assert_int_equal(next(e->cq).status, IBV_WC_SUCCESS);
	assert_int_equal(next(e->cq).status, IBV_WC_SUCCESS);
	assert_int_equal(take_message(e), number);
	assert_int_equal(tell(t, 'r', 1), 0);
}

static void assert_path(struct ibv_qp *qp, enum ibv_mig_state state, int index)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_PATH_MIG_STATE | IBV_QP_AV, &init), 0);
	assert_int_equal(attr.path_mig_state, state);
	assert_int_equal(attr.ah_attr.grh.sgid_index, index);
}

static int migrate(struct ibv_qp *qp, enum ibv_mig_state state)
{
	struct ibv_qp_attr a = {.path_mig_state = state};

	return ibv_modify_qp(qp, &a, IBV_QP_PATH_MIG_STATE);
}

/* Those two, or that one, are told that the path has changed, in whatever order. */
static void assert_told(const struct ibv_qp *a, const struct ibv_qp *b)
{
	bool wanted[2] = {a, b};

	while (wanted[0] || wanted[1]) {
		struct ibv_async_event event;

		assert_int_equal(ibv_get_async_event(context, &event), 0);
		ibv_ack_async_event(&event); /* first: no QP ends before */
		assert_int_equal(event.event_type, IBV_EVENT_PATH_MIG);
		assert_true(wanted[event.element.qp == b]);
		assert_ptr_equal(event.element.qp, event.element.qp == b ? b : a);
		wanted[event.element.qp == b] = false;
	}
}

/* What makes the two change over: a rule of faults, or one of their programs. */
static const struct change {
	const char *rule;
	enum { BY_RULE, BY_INITIATOR, BY_TARGET } by;
} changes[] = {
	{"packet peer 127.0.0.1: partition", BY_RULE},
	{"in ACK peer " SECOND ": drop", BY_RULE}, /* so the requests come again, by the other path */
	{NULL, BY_INITIATOR},
	{NULL, BY_TARGET},
};

static void change_over(const struct change *c, struct ibv_qp *ini, struct ibv_qp *opened)
{
	struct rule_error error;

	if (c->by != BY_RULE)
		assert_int_equal(migrate(c->by == BY_TARGET ? opened : ini, IBV_MIG_MIGRATED), 0);
	else if (inject_add(c->rule, &error) < 0)
		fail_msg("%s: %s", c->rule, error.text);
}

static void a_target_has_an_alternate_path(void **state)
{
	struct two *t = *state;
	struct ends *e = &t->e;
	uint32_t inbox = tell(t, 'q', 0), sent = 0;
	struct ibv_qp *opened = open_qp(e->xrcd, t->target);
	union ibv_gid gid;
	int second = second_address(&gid);

	assert_non_null(opened);
	if (second < 0) {
		print_message("# skipped: no second address\n");
		assert_int_equal(ibv_destroy_qp(opened), 0);
		return;
	}
	for (int i = 0; i < 4; i++)
		receive(e, HALF);
	assert_int_equal(arm(opened), EOPNOTSUPP); /* as any change of path */
	assert_int_equal(tell(t, 'a', 0), 0);
	assert_int_equal(arm(e->ini), 0);
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		const struct change *c = &changes[i];

		for (int times = 0; times < 2; times++)
			send_to_both(t, inbox, sent++);
		assert_path(e->ini, IBV_MIG_ARMED, i % 2 ? second : 0);
		assert_path(opened, IBV_MIG_ARMED, i % 2 ? second : 0);
		change_over(c, e->ini, opened);
		send_to_both(t, inbox, sent++);
		assert_told(c->by == BY_INITIATOR ? NULL : e->ini, c->by == BY_TARGET ? NULL : opened);
		assert_path(e->ini, IBV_MIG_MIGRATED, i % 2 ? 0 : second);
		assert_path(opened, IBV_MIG_MIGRATED, i % 2 ? 0 : second);
		inject_clear();
		send_to_both(t, inbox, sent++);
		assert_int_equal(migrate(opened, IBV_MIG_REARM), 0); /* the two paths have changed places */
		assert_int_equal(migrate(e->ini, IBV_MIG_REARM), 0);
	}
	assert_int_equal(poll(&(struct pollfd){.fd = context->async_fd, .events = POLLIN}, 1, 0), 0);
	assert_int_equal(ibv_destroy_qp(opened), 0);
}

/* As in verbs/remote_qp.c. */
struct message {
	uint32_t what, qpn;
	struct xrcd_name domain;
	int32_t mask, result;
	struct ibv_qp_attr attr;
};

/* Answers that the target is open, and at once tells of an event that is none of a queue pair, or ends. */
static void *own_falsely(void *arg)
{
	const struct liar *l = arg;
	int fd = accept(l->listener, NULL, NULL);
	struct message m;

	if (recv(fd, &m, sizeof(m), 0) == sizeof(m)) {
		m.result = 0;
		send(fd, &m, sizeof(m), MSG_NOSIGNAL);
		m.what = 3;
		m.result = l->event;
		if (l->event != ENDS)
			send(fd, &m, sizeof(m), MSG_NOSIGNAL);
	}
	if (l->event != ENDS)
		(void)!recv(fd, &m, sizeof(m), 0); /* until the other end is closed */
	close(fd);
	return NULL;
}

/* It is the end of the connection, as of an owner that has died: what it says is no index. It is told to the program,
 * however early it comes. */
static void an_owner_may_tell_of_no_other_event(void **state)
{
	static const int events[] = {ENDS, INT32_MAX,	     INT32_MIN,		-1,
				     100,  IBV_EVENT_CQ_ERR, IBV_EVENT_SRQ_ERR, IBV_EVENT_PORT_ACTIVE};
	char name[] = "/tmp/uroce-xrcd-XXXXXX";
	int fd = mkstemp(name);
	struct ibv_xrcd *xrcd = open_domain(fd, O_CREAT);
	struct ibv_async_event event;
	struct sockaddr_un address;

	assert_non_null(xrcd);
	for (size_t i = 0; i < LIES; i++) {
		struct liar l = {socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), events[i % ARRAY_SIZE(events)]};
		socklen_t size = slot_abstract(&address, "%u/targets-3/%u", geteuid(), LIAR);
		struct ibv_qp *qp;
		pthread_t thread;

		assert_int_equal(bind(l.listener, (struct sockaddr *)&address, size), 0);
		assert_int_equal(listen(l.listener, 1), 0);
		assert_int_equal(pthread_create(&thread, NULL, own_falsely, &l), 0);
		assert_non_null(qp = open_qp(xrcd, (uint32_t)LIAR << SLOT_SHIFT | 5));
		assert_int_equal(ibv_get_async_event(context, &event), 0);
		assert_int_equal(event.event_type, IBV_EVENT_QP_FATAL);
		assert_ptr_equal(event.element.qp, qp);
		ibv_ack_async_event(&event);
		assert_int_equal(ibv_destroy_qp(qp), 0);
		pthread_join(thread, NULL);
		close(l.listener);
	}
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	close(fd);
	unlink(name);
}

static int close_two_and_rules(void **state)
{
	inject_clear();
	return close_two(state);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_srq_may_be_another_process_s, open_ends, close_ends),
		cmocka_unit_test_setup_teardown(another_process_s_target_is_opened, open_two, close_two),
		cmocka_unit_test_setup_teardown(a_target_outlives_who_made_it, open_two, close_two),
		cmocka_unit_test_setup_teardown(a_target_ends_with_its_process, open_two, close_two),
		cmocka_unit_test_setup_teardown(a_target_may_be_closed_as_its_process_ends, open_two, close_two),
		cmocka_unit_test_setup_teardown(a_target_outlives_whose_srq_it_used, open_two, close_two),
		cmocka_unit_test_setup_teardown(who_has_it_open_may_be_killed, open_two, close_two),
		cmocka_unit_test_setup_teardown(an_owner_that_is_stopped_is_not_waited_for, open_two, close_two),
		cmocka_unit_test_setup_teardown(a_target_that_cannot_be_offered_is_not_found, open_two, close_two),
		cmocka_unit_test_setup_teardown(a_target_has_an_alternate_path, open_two, close_two_and_rules),
		cmocka_unit_test(an_owner_may_tell_of_no_other_event),
	};

	if (argc == 4)
		(strcmp(argv[0], OTHER) ? be_local_peer : be_other_process)(atoi(argv[1]), atoi(argv[2]),
									    atoi(argv[3]));
	enter_namespace();
	ip("addr add " SECOND "/32 dev lo");
	return cmocka_run_group_tests(tests, open_context, close_context);
}
