/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/far_qp.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/high_fd.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/engine.h"
#include "loop/loop.h"
#include "loop/slot.h"
#include "verbs/context.h"
#include "verbs/fork.h"
#include "verbs/shared_qp.h"

#define FAR_VERSION 3u /* of what follows: part of the name that others call */
#define CALLERS	    255
#define EVENTS	    16
#define PATIENCE    (5 * SEC) /* an answer takes a thread of its home no longer, if that runs at all */

enum what {
	FAR_OPEN,
	FAR_QUERY,
	FAR_MODIFY,
	FAR_EVENT,
};

/* What goes over a connection: a question, its answer (the same with the result), or an event. */
struct message {
	uint32_t what, qpn;
	struct xrcd_name domain;
	int32_t mask;	/* FAR_MODIFY: of what stands in `attr` */
	int32_t result; /* 0 or errno; of an event, enum ibv_event_type */
	struct ibv_qp_attr attr;
};

struct far {
	struct list link; /* among the connections; at home, when that has ended, perhaps among the orphans */
	int fd;		  /* -1: none, in a child of fork() */
	struct qp *qp;	  /* away: the QP as seen from here. At home: an opener of it; NULL: nobody has opened anything
			   * by it; of an orphan, the QP itself */
	/* away: */
	bool is_lost; /* the process at the other end is no more */
};

struct lock far_lock; /* guards all below. Taken before qp->lock. Who waits for another process does not hold it */
static struct list connections = {&connections, &connections};
static struct list orphans = {&orphans, &orphans}; /* QPs that are to be destroyed */
static struct hca *adapter;			   /* of whom all of this is */
static uint32_t users;				   /* QPs that are offered, or are far away */
static int listener = -1;
static int calls = -1; /* an epoll set, watched by the helper: the listener and the connections */

static socklen_t far_qp_name_of(struct sockaddr_un *address, uint8_t slot)
{
	return slot_abstract(address, "%u/targets-%u/%u", geteuid(), FAR_VERSION, slot);
}

static bool is_away(const struct far *f)
{
	return f->qp && !f->qp->real;
}

static void far_qp_send_message(int fd, const struct message *m)
{
	send(fd, m, sizeof(*m), MSG_DONTWAIT | MSG_NOSIGNAL); /* whoever does not read it is not waited for */
}

static int far_qp_join(int fd, struct far *f) REQUIRES(far_lock)
{
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = f};

	return epoll_ctl(calls, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

static void far_qp_forget(struct far *f) REQUIRES(far_lock)
{
	list_remove(&f->link);
	epoll_ctl(calls, EPOLL_CTL_DEL, f->fd, NULL); /* close() does not see to it while another process has it, too */
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}

/* ---- at home: what others ask ---- */

static int serve_open(struct far *f, struct qp *qp, struct message *m) REQUIRES(qp->lock, far_lock)
{
	struct qp *opener = f->qp ? NULL : calloc(1, sizeof(*opener));

	if (!opener)
		return f->qp ? EINVAL : ENOMEM;
	opener->real = qp;
	opener->far = f;
	list_append(&qp->openers, &opener->openers);
	qp->open++;
	f->qp = opener;
	qp_attributes(qp, &m->attr);
	return 0;
}

static int serve_query(struct far *f, struct qp *qp, struct message *m) REQUIRES(qp->lock, far_lock)
{
	qp_attributes(qp, &m->attr);
	return 0;
}

/* What needs another path takes locks that the helper thread must not wait for here. In RESET it keeps the one that it
 * has, until it is given another or destroyed: it sends nothing. */
static int serve_modify(struct far *f, struct qp *qp, struct message *m) REQUIRES(qp->lock, far_lock)
{
	int error;

	if (m->mask & IBV_QP_AV)
		return EOPNOTSUPP;
	loop_run(qp); /* what has arrived is acknowledged */
	error = -engine_modify(qp, &m->attr, m->mask, 0);
	loop_run(qp);
	return error;
}

static int (*const serve[])(struct far *f, struct qp *qp, struct message *m) = {
	[FAR_OPEN] = serve_open,
	[FAR_QUERY] = serve_query,
	[FAR_MODIFY] = serve_modify,
};

NO_LOCK_ANALYSIS static void far_qp_answer(struct far *f, struct message *m)
{
	struct qp *qp = m->what < ARRAY_SIZE(serve) ? hca_find_qp(adapter, m->qpn) : NULL;

	m->result = EINVAL;
	if (qp && is_xrc_target(qp) && qp->open && xrcd_same(&qp->domain, &m->domain))
		m->result = serve[m->what](f, qp, m);
	far_qp_send_message(f->fd, m);
	if (qp)
		lock_drop(&qp->lock);
}

/* One who had it open has closed it, or is dead. */
static void drop_opener(struct far *f) REQUIRES(far_lock)
{
	struct qp *opener = f->qp, *qp = opener->real;
	bool last;

	lock_take(&qp->lock);
	list_remove(&opener->openers);
	last = --qp->open == 0;
	lock_drop(&qp->lock);
	free(opener);
	far_qp_forget(f);
	f->qp = qp;
	if (last)
		list_append(&orphans, &f->link); /* it needs locks to be destroyed */
	else
		free(f);
}

static void take_caller(void) REQUIRES(far_lock)
{
	int fd = high_fd(accept4(listener, NULL, NULL, SOCK_CLOEXEC));
	struct far *f = fd >= 0 && !slot_check_user(fd, NULL) ? calloc(1, sizeof(*f)) : NULL;

	if (f && !far_qp_join(fd, f)) {
		f->fd = fd;
		list_append(&connections, &f->link);
		return;
	}
	free(f);
	if (fd >= 0)
		close(fd);
}

/* ---- away: what the home tells ---- */

static void hear_event(const struct far *f, enum ibv_event_type type)
{
	lock_take(&f->qp->lock);
	async_qp_event(f->qp, type);
	lock_drop(&f->qp->lock);
}

/* Its home has closed its device, or is dead. */
static void far_qp_lose(struct far *f) REQUIRES(far_lock)
{
	epoll_ctl(calls, EPOLL_CTL_DEL, f->fd, NULL);
	f->is_lost = true;
	hear_event(f, IBV_EVENT_QP_FATAL);
}

/* ---- both ---- */

static void hear_end(struct far *f) REQUIRES(far_lock)
{
	if (is_away(f)) {
		far_qp_lose(f);
	} else if (f->qp) {
		drop_opener(f);
	} else {
		far_qp_forget(f);
		free(f);
	}
}

static void far_qp_hear(struct far *f) REQUIRES(far_lock)
{
	struct message m;
	ssize_t n = recv(f->fd, &m, sizeof(m), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != sizeof(m))
		hear_end(f);
	else if (is_away(f))
		hear_event(f, (enum ibv_event_type)m.result);
	else
		far_qp_answer(f, &m);
}

static void hear_all(void *arg)
{
	struct epoll_event event[EVENTS];
	int n;

	lock_take(&far_lock);
	n = epoll_wait(calls, event, EVENTS, 0);
	for (int i = 0; i < n; i++) {
		struct far *f = event[i].data.ptr;

		if (!f)
			take_caller();
		else if (event[i].events & EPOLLHUP && !is_away(f))
			hear_end(f); /* who asked, and has not waited for the answer, has been told so */
		else
			far_qp_hear(f);
	}
	lock_drop(&far_lock);
}

static int start_listening(void) REQUIRES(far_lock)
{
	struct sockaddr_un address;
	int err;

	listener = high_fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	if (listener < 0)
		return -errno;
	if (bind(listener, (struct sockaddr *)&address, far_qp_name_of(&address, adapter->slot)) ||
	    listen(listener, CALLERS))
		err = -errno;
	else
		err = far_qp_join(listener, NULL);
	if (err) { /* nobody would answer there */
		close(listener);
		listener = -1;
	}
	return err;
}

static void close_calls(void) REQUIRES(far_lock)
{
	struct list *l;

	while ((l = list_pop(&connections))) { /* nothing has been opened by them */
		struct far *f = container_of(l, struct far, link);

		far_qp_forget(f);
		free(f);
	}
	if (listener >= 0)
		close(listener);
	listener = calls = -1;
	adapter = NULL;
}

/* One QP more, or one less. What fails here is tried again for the next one. */
static void far_qp_begin(struct hca *hca)
{
	int watch = -1;

	lock_take(&far_lock);
	users++;
	adapter = hca;
	if (calls < 0)
		watch = calls = high_fd(epoll_create1(EPOLL_CLOEXEC));
	lock_drop(&far_lock);
	if (watch < 0 || !loop_watch(watch, hear_all, NULL))
		return;
	lock_take(&far_lock);
	calls = -1;
	lock_drop(&far_lock);
	close(watch);
}

static void far_qp_end(const struct hca *hca)
{
	int watch = -1;

	lock_take(&far_lock);
	if (hca == adapter && --users == 0) { /* else it is a parent's */
		watch = calls;
		close_calls();
	}
	lock_drop(&far_lock);
	if (watch < 0)
		return;
	loop_unwatch(watch); /* not under the lock: waits for hear_all() */
	close(watch);
}

NO_LOCK_ANALYSIS void far_forget(void)
{
	struct list *l;

	if (listener >= 0)
		close(listener);
	if (calls >= 0)
		close(calls); /* before all else: the set is the parent's as well */
	listener = calls = -1;
	while ((l = list_pop(&connections)) || (l = list_pop(&orphans)))
		far_qp_forget(container_of(l, struct far, link));
	users = 0;
	adapter = NULL;
}

/* ---- what others call ---- */

void far_offer(struct qp *qp)
{
	int err = 0;

	far_qp_begin(qp->hca);
	lock_take(&far_lock);
	if (listener < 0)
		err = start_listening();
	lock_drop(&far_lock);
	if (err)
		log_warn("other processes cannot open the XRC target %#x: %s", qp->base.qp_num, strerror(-err));
}

void far_withdraw(struct qp *qp)
{
	far_qp_end(qp->hca);
}

void far_tell(const struct far *opener, enum ibv_event_type type)
{
	far_qp_send_message(opener->fd, &(struct message){.what = FAR_EVENT, .result = (int32_t)type});
}

/* It was made on that context, and nobody has it open here. */
static bool ends_with(struct qp *qp, const struct context *closing)
{
	bool ends = qp->base.context == &closing->verbs.context;

	lock_take(&qp->lock);
	list_each (l, &qp->openers)
		ends &= container_of(l, struct qp, openers)->far != NULL;
	lock_drop(&qp->lock);
	return ends;
}

void far_bury(struct context *closing)
{
	struct list dead, *l;

	list_init(&dead);
	lock_take(&far_lock);
	list_each_safe (i, &connections) {
		struct far *f = container_of(i, struct far, link);

		if (closing && f->qp && f->qp->real && ends_with(f->qp->real, closing))
			drop_opener(f);
	}
	while ((l = list_pop(&orphans)))
		list_append(&dead, l);
	lock_drop(&far_lock);
	while ((l = list_pop(&dead))) {
		struct far *f = container_of(l, struct far, link);

		bury_qp(f->qp);
		free(f);
	}
}

/* Calls of it block until then. False: that is now. */
static bool far_qp_wait_until(int fd, uint64_t end)
{
	uint64_t at = clock_now(), left = end > at ? (end - at) / USEC : 0;
	struct timeval t = {.tv_sec = left * USEC / SEC, .tv_usec = left % (SEC / USEC)};

	return left && !setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)) &&
	       !setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t));
}

/* 0 or errno. */
static int connect_until(int fd, uint8_t slot, uint64_t end)
{
	struct sockaddr_un address;
	socklen_t size = far_qp_name_of(&address, slot);

	while (far_qp_wait_until(fd, end)) {
		if (!connect(fd, (struct sockaddr *)&address, size))
			return slot_check_user(fd, NULL) ? ENODEV : 0;
		if (errno != EINTR && errno != EAGAIN)
			return ENODEV;
	}
	return ETIMEDOUT;
}

/* 0 or errno. */
static int receive_until(int fd, struct message *m, uint64_t end)
{
	while (far_qp_wait_until(fd, end)) {
		ssize_t n = recv(fd, m, sizeof(*m), 0);

		if (n == sizeof(*m))
			return m->result;
		if (n >= 0 || (errno != EINTR && errno != EAGAIN))
			return ENODEV;
	}
	return ETIMEDOUT;
}

/* Asks the home of a QP. 0 or errno; the connection goes to *keep, NULL: it is closed. */
static int far_qp_ask(struct message *m, int *keep)
{
	int fd = high_fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)), error;
	uint64_t end = clock_now() + PATIENCE;

	if (fd < 0)
		return errno;
	error = connect_until(fd, m->qpn >> 16, end);
	if (!error && send(fd, m, sizeof(*m), MSG_NOSIGNAL) != sizeof(*m))
		error = ENODEV;
	error = error ?: receive_until(fd, m, end);
	if (!error && keep)
		*keep = fd;
	else
		close(fd);
	return error;
}

NO_LOCK_ANALYSIS static struct qp *find_open(uint32_t qpn, const struct xrcd_name *domain)
{
	struct qp *found = NULL;

	lock_take(&far_lock);
	list_each (i, &connections) {
		struct far *f = container_of(i, struct far, link);

		if (!is_away(f) || f->is_lost || f->qp->base.qp_num != qpn || !xrcd_same(&f->qp->domain, domain))
			continue;
		lock_take(&f->qp->lock);
		if (f->qp->open) { /* else somebody is closing it */
			found = f->qp;
			break;
		}
		lock_drop(&f->qp->lock);
	}
	lock_drop(&far_lock);
	return found;
}

/* The QP as it is seen from here, or NULL: there is no memory for it, or nobody would hear of its events. */
NO_LOCK_ANALYSIS static struct qp *far_qp_make_view(struct hca *hca, const struct message *m, int fd)
{
	static const struct ibv_qp_cap none;
	struct far *f = calloc(1, sizeof(*f));
	struct qp *qp = f ? qp_create(hca, NULL, NULL, NULL, NULL, IBV_QPT_XRC_RECV, &none, false) : NULL;
	int err;

	if (!qp) {
		free(f);
		return NULL;
	}
	f->fd = fd;
	f->qp = qp;
	lock_take(&qp->lock);
	qp->base.qp_num = m->qpn; /* so that nobody finds it by number */
	qp->base.state = m->attr.qp_state;
	qp->domain = m->domain;
	qp->closed = true;
	qp->far = f;
	lock_drop(&qp->lock);
	lock_take(&far_lock);
	err = far_qp_join(fd, f);
	if (!err)
		list_append(&connections, &f->link);
	lock_drop(&far_lock);
	if (err) {
		qp_destroy(qp);
		free(f);
		return NULL;
	}
	lock_take(&qp->lock);
	return qp;
}

struct qp *far_find(struct hca *hca, uint32_t qpn, const struct xrcd_name *domain)
{
	struct message m = {.what = FAR_OPEN, .qpn = qpn, .domain = *domain};
	struct qp *qp = find_open(qpn, domain);
	int error, fd;

	if (qp)
		return qp;
	if (qpn >> 16 == hca->slot)
		return fail_null(EINVAL);
	error = far_qp_ask(&m, &fd);
	if (error)
		return fail_null(error == ENODEV ? EINVAL : error);
	far_qp_begin(hca);
	qp = far_qp_make_view(hca, &m, fd);
	if (!qp) {
		close(fd);
		far_qp_end(hca);
		return fail_null(ENOMEM);
	}
	return qp;
}

void far_close(struct qp *qp)
{
	lock_take(&far_lock);
	far_qp_forget(qp->far);
	lock_drop(&far_lock);
	far_qp_end(qp->hca);
	free(qp->far);
}

static bool is_lost(const struct qp *qp)
{
	bool lost;

	lock_take(&far_lock);
	lost = qp->far->is_lost;
	lock_drop(&far_lock);
	return lost;
}

/* 0 or errno. Another process may have the number of one that is no more. */
static int ask_home(struct qp *qp, struct message *m)
{
	m->qpn = qp->base.qp_num;
	m->domain = qp->domain;
	return is_lost(qp) ? ENODEV : far_qp_ask(m, NULL);
}

int far_query(struct qp *qp, struct ibv_qp_attr *attr)
{
	struct message m = {.what = FAR_QUERY};
	int error = ask_home(qp, &m);

	if (!error)
		*attr = m.attr;
	return error;
}

int far_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct message m = {.what = FAR_MODIFY, .mask = mask, .attr = *attr};

	return ask_home(qp, &m);
}
