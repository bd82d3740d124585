/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC target QPs that are opened by other processes: see remote_qp.h. */
#include "verbs/remote_qp.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/high_fd.h"
#include "base/log.h"
#include "base/same_user.h"
#include "device/front.h"
#include "engine/engine.h"
#include "host/callers.h"
#include "host/name.h"
#include "host/slot.h"
#include "loop/helper.h"
#include "port/ports.h"
#include "port/post.h"
#include "verbs/async.h"
#include "verbs/context.h"
#include "verbs/tuned.h"

#define REMOTE_VERSION 3u /* version of the messages below; part of the socket name */
#define CALLERS	       255
#define EVENTS	       16

enum what {
	REMOTE_OPEN,
	REMOTE_QUERY,
	REMOTE_MODIFY,
	REMOTE_EVENT,
};

/* A message on a connection: a request; its answer, which is the same message with the result; or an event. */
struct message {
	uint32_t what, qpn;
	struct xrcd_name domain;
	int32_t mask;	/* REMOTE_MODIFY: the valid fields of `attr` */
	int32_t result; /* 0 or errno; REMOTE_EVENT: enum ibv_event_type */
	struct ibv_qp_attr attr;
};

struct remote {
	struct list link; /* in the list of connections; in the owner, after its connection has ended, maybe in the list
			     of orphans */
	int fd;		  /* -1: none, in a child of fork() */
	struct qp *qp;	  /* the remote QP. In the owner: its QP; NULL: the connection has opened none */
	struct xrc_opener opener; /* in the owner: opener of its QP */
	bool is_lost;		  /* remote QP: its owner has closed its device, or is dead */
};

struct lock remote_lock = LOCK_RANKED(REMOTE); /* guards all below. Not held while waiting for another process */
static struct list connections = {&connections, &connections};
static struct list orphans = {&orphans, &orphans}; /* openers whose QP is to be destroyed */
static struct hca *adapter;			   /* the adapter of this process */
static uint32_t users;				   /* number of QPs that are offered, or remote */
static int listener = -1;
static int calls = -1; /* an epoll set with the listener and the connections, watched by the helper thread */

static socklen_t remote_name(struct sockaddr_un *address, uint16_t slot)
{
	return slot_abstract(address, "%u/targets-%u/%u", geteuid(), REMOTE_VERSION, slot);
}

/* Whether the connection leads to the owner of a QP that this process has opened. */
static bool is_view(const struct remote *r)
{
	return r->qp && !r->opener.tell;
}

static void remote_send(int fd, const struct message *m)
{
	send(fd, m, sizeof(*m), MSG_DONTWAIT | MSG_NOSIGNAL); /* does not block if the receiver does not read */
}

static int remote_join(int fd, struct remote *r) REQUIRES(remote_lock)
{
	struct epoll_event e = {.events = r ? EPOLLIN : CALLERS_EVENTS, .data.ptr = r}; /* NULL: the listener */

	return epoll_ctl(calls, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

static void remote_unlink(struct remote *r) REQUIRES(remote_lock)
{
	list_remove(&r->link);
	epoll_ctl(calls, EPOLL_CTL_DEL, r->fd,
		  NULL); /* close() alone does not remove it while another process has the descriptor too */
	fd_close(&r->fd);
}

/* ---- in the owner: requests of other processes ---- */

static void remote_tell(struct xrc_opener *o, enum ibv_event_type type)
{
	remote_send(container_of(o, struct remote, opener)->fd,
		    &(struct message){.what = REMOTE_EVENT, .result = (int32_t)type});
}

static int serve_open(struct remote *r, struct qp *qp, struct message *m) REQUIRES(qp->lock, remote_lock)
{
	if (r->qp)
		return EINVAL;
	r->opener.tell = remote_tell;
	list_append(&qp->xrc->openers, &r->opener.link);
	qp->xrc->open++;
	r->qp = qp;
	engine_query(qp, &m->attr);
	return 0;
}

static int serve_query(struct remote *r, struct qp *qp, struct message *m) REQUIRES(qp->lock, remote_lock)
{
	engine_query(qp, &m->attr);
	return 0;
}

/* A new path needs locks that the helper thread must not wait for here, so IBV_QP_AV and IBV_QP_ALT_PATH are refused.
 * After a move to RESET the QP keeps its paths until it gets new ones or is destroyed: it sends nothing. */
static int serve_modify(struct remote *r, struct qp *qp, struct message *m) REQUIRES(qp->lock, remote_lock)
{
	int error;

	if (m->mask & (IBV_QP_AV | IBV_QP_ALT_PATH))
		return EOPNOTSUPP;
	loop_run(qp); /* sends the owed ACKs */
	error = -engine_modify(qp, &m->attr, m->mask, 0);
	loop_run(qp);
	return error;
}

static int (*const serve[])(struct remote *r, struct qp *qp, struct message *m) = {
	[REMOTE_OPEN] = serve_open,
	[REMOTE_QUERY] = serve_query,
	[REMOTE_MODIFY] = serve_modify,
};

NO_LOCK_ANALYSIS static void remote_answer(struct remote *r, struct message *m)
{
	struct qp *qp = m->what < ARRAY_SIZE(serve) ? hca_find_qp(adapter, m->qpn) : NULL;

	m->result = EINVAL;
	if (qp && is_xrc_target(qp) && qp->xrc->open && xrcd_same(&qp->xrc->domain, &m->domain))
		m->result = serve[m->what](r, qp, m);
	remote_send(r->fd, m);
	if (qp)
		lock_drop(&qp->lock);
}

/* An opener has closed the QP, or is dead. */
static void drop_opener(struct remote *r) REQUIRES(remote_lock)
{
	struct qp *qp = r->qp;
	bool last;

	lock_take(&qp->lock);
	list_remove(&r->opener.link);
	last = --qp->xrc->open == 0;
	lock_drop(&qp->lock);
	remote_unlink(r);
	if (last)
		list_append(&orphans, &r->link); /* remote_take_dead(): to destroy the QP takes other locks */
	else
		free(r);
}

static void remote_accept(void) REQUIRES(remote_lock)
{
	int fd;

	while ((fd = callers_accept(listener)) != -EAGAIN && fd != -EBUSY) {
		struct remote *r = fd >= 0 ? calloc(1, sizeof(*r)) : NULL;

		if (r && !remote_join(fd, r)) {
			r->fd = fd;
			list_append(&connections, &r->link);
			continue;
		}
		free(r);
		if (fd >= 0)
			close(fd);
	}
}

/* ---- in the other processes: events of the owner ---- */

static void remote_hear_event(const struct remote *r, enum ibv_event_type type)
{
	lock_take(&r->qp->lock);
	async_qp_event(r->qp, type);
	lock_drop(&r->qp->lock);
}

/* The owner has closed its device, or is dead. */
static void remote_lose(struct remote *r) REQUIRES(remote_lock)
{
	epoll_ctl(calls, EPOLL_CTL_DEL, r->fd, NULL);
	r->is_lost = true;
	remote_hear_event(r, IBV_EVENT_QP_FATAL);
}

/* ---- both ---- */

static void remote_hear_end(struct remote *r) REQUIRES(remote_lock)
{
	if (is_view(r)) {
		remote_lose(r);
	} else if (r->qp) {
		drop_opener(r);
	} else {
		remote_unlink(r);
		free(r);
	}
}

static void remote_hear(struct remote *r) REQUIRES(remote_lock)
{
	struct message m;
	ssize_t n = recv(r->fd, &m, sizeof(m), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != sizeof(m) || (is_view(r) && !async_is_of_qp(m.result)))
		remote_hear_end(r);
	else if (is_view(r))
		remote_hear_event(r, (enum ibv_event_type)m.result);
	else
		remote_answer(r, &m);
}

static void remote_hear_all(void *arg)
{
	struct epoll_event event[EVENTS];
	int n;

	lock_take(&remote_lock);
	n = epoll_wait(calls, event, EVENTS, 0);
	for (int i = 0; i < n; i++) {
		struct remote *r = event[i].data.ptr;

		if (!r)
			remote_accept();
		else if (event[i].events & EPOLLHUP && !is_view(r))
			remote_hear_end(r); /* the caller gave up: its request needs no answer */
		else
			remote_hear(r);
	}
	lock_drop(&remote_lock);
}

static int remote_listen(void) REQUIRES(remote_lock)
{
	struct sockaddr_un address;
	int err;

	listener = high_fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	if (listener < 0)
		return -errno;
	err = name_bind(listener, &address, remote_name(&address, adapter->slot));
	if (!err)
		err = listen(listener, CALLERS) ? -errno : remote_join(listener, NULL);
	if (err) { /* no request would be answered there */
		close(listener);
		listener = -1;
	}
	return err;
}

static void remote_stop(void) REQUIRES(remote_lock)
{
	struct list *l;

	while ((l = list_pop(&connections))) { /* these connections have opened no QP */
		struct remote *r = container_of(l, struct remote, link);

		remote_unlink(r);
		free(r);
	}
	fd_close(&listener);
	calls = -1;
	adapter = NULL;
}

/* Counts the QPs that use this file, and starts or stops it. If the start fails, the next QP tries again. */
static void remote_begin(struct hca *hca)
{
	int watch = -1;

	lock_take(&remote_lock);
	users++;
	adapter = hca;
	if (calls < 0)
		watch = calls = high_fd(epoll_create1(EPOLL_CLOEXEC));
	lock_drop(&remote_lock);
	if (watch < 0 || !loop_watch(watch, remote_hear_all, NULL))
		return;
	lock_take(&remote_lock);
	calls = -1;
	lock_drop(&remote_lock);
	close(watch);
}

static void remote_end(const struct hca *hca)
{
	int watch = -1;

	lock_take(&remote_lock);
	if (hca == adapter && --users == 0) { /* else the state belongs to the parent */
		watch = calls;
		remote_stop();
	}
	lock_drop(&remote_lock);
	if (watch < 0)
		return;
	loop_unwatch(watch); /* without the lock: waits for remote_hear_all() */
	close(watch);
}

NO_LOCK_ANALYSIS void remote_forget(void)
{
	struct list *l;

	fd_close(&listener);
	fd_close(&calls); /* first: the parent uses the same set */
	while ((l = list_pop(&connections)) || (l = list_pop(&orphans)))
		remote_unlink(container_of(l, struct remote, link));
	users = 0;
	adapter = NULL;
}

/* ---- public functions ---- */

void remote_offer(struct qp *qp)
{
	int err = 0;

	remote_begin(qp->hca);
	lock_take(&remote_lock);
	if (listener < 0)
		err = remote_listen();
	lock_drop(&remote_lock);
	if (err)
		log_warn("other processes cannot open the XRC target %#x: %s", qp->base.qp_num, strerror(-err));
}

void remote_withdraw(struct qp *qp)
{
	remote_end(qp->hca);
}

/* True if the QP was created in this context, and no opener is in this process. */
static bool remote_ends_with(struct qp *qp, const struct context *closing)
{
	bool ends = qp->base.context == &closing->verbs.context;

	lock_take(&qp->lock);
	list_each (l, &qp->xrc->openers)
		ends &= container_of(l, struct xrc_opener, link)->tell == remote_tell;
	lock_drop(&qp->lock);
	return ends;
}

struct qp *remote_take_dead(struct context *closing)
{
	struct remote *r = NULL;
	struct list *l;
	struct qp *qp;

	lock_take(&remote_lock);
	list_each_safe (i, &connections) {
		r = container_of(i, struct remote, link);
		if (closing && r->opener.tell && remote_ends_with(r->qp, closing))
			drop_opener(r);
	}
	l = list_pop(&orphans);
	lock_drop(&remote_lock);
	if (!l)
		return NULL;
	r = container_of(l, struct remote, link);
	qp = r->qp;
	free(r);
	return qp;
}

/* Sets the time limit of blocking calls on the socket. False: the time is up. */
static bool remote_wait(int fd, uint64_t end)
{
	uint64_t at = clock_now(), left = end > at ? (end - at) / USEC : 0;
	struct timeval t = {.tv_sec = left * USEC / SEC, .tv_usec = left % (SEC / USEC)};

	return left && !setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)) &&
	       !setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t));
}

/* 0 or errno. */
static int remote_connect(int fd, uint16_t slot, uint64_t end)
{
	struct sockaddr_un address;
	socklen_t size = remote_name(&address, slot);

	while (remote_wait(fd, end)) {
		if (!name_connect(fd, &address, size))
			return same_user_peer(fd, NULL) ? 0 : ENODEV;
		if (errno != EINTR && errno != EAGAIN)
			return ENODEV;
	}
	return ETIMEDOUT;
}

/* 0 or errno. */
static int remote_receive(int fd, struct message *m, uint64_t end)
{
	while (remote_wait(fd, end)) {
		ssize_t n = recv(fd, m, sizeof(*m), 0);

		if (n == sizeof(*m))
			return m->result;
		if (n >= 0 || (errno != EINTR && errno != EAGAIN))
			return ENODEV;
	}
	return ETIMEDOUT;
}

/* Asks the owner of a QP. 0 or errno; the connection goes to *keep, or is closed if `keep` is NULL. */
static int remote_ask(struct hca *hca, struct message *m, int *keep)
{
	int fd = high_fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)), error;
	uint64_t end = clock_now() + OWNER_TIME;

	if (fd < 0)
		return errno;
	error = remote_connect(fd, hca_owner(hca, m->qpn), end);
	if (!error && send(fd, m, sizeof(*m), MSG_NOSIGNAL) != sizeof(*m))
		error = ENODEV;
	error = error ?: remote_receive(fd, m, end);
	if (!error && keep)
		*keep = fd;
	else
		close(fd);
	return error;
}

NO_LOCK_ANALYSIS static struct qp *remote_find_view(uint32_t qpn, const struct xrcd_name *domain)
{
	struct qp *found = NULL;

	lock_take(&remote_lock);
	list_each (i, &connections) {
		struct remote *r = container_of(i, struct remote, link);

		if (!is_view(r) || r->is_lost || r->qp->base.qp_num != qpn || !xrcd_same(&r->qp->xrc->domain, domain))
			continue;
		lock_take(&r->qp->lock);
		if (r->qp->xrc->open) { /* else another thread is closing it */
			found = r->qp;
			break;
		}
		lock_drop(&r->qp->lock);
	}
	lock_drop(&remote_lock);
	return found;
}

/* Makes the remote QP for this process. NULL: no memory, or its events could not be watched. */
NO_LOCK_ANALYSIS static struct qp *remote_make_view(struct hca *hca, const struct message *m, int fd)
{
	static const struct ibv_qp_cap none;
	struct remote *r = calloc(1, sizeof(*r));
	struct qp *qp = r ? qp_create(hca, NULL, NULL, NULL, NULL, IBV_QPT_XRC_RECV, &none, false) : NULL;
	int err;

	if (!qp) {
		free(r);
		return NULL;
	}
	r->fd = fd;
	r->qp = qp;
	lock_take(&qp->lock);
	qp->base.qp_num = m->qpn; /* differs from its index, so no lookup by number finds it */
	qp->base.state = m->attr.qp_state;
	qp->xrc->domain = m->domain;
	qp->xrc->is_closed = true;
	qp->xrc->remote = r;
	lock_drop(&qp->lock);
	lock_take(&remote_lock);
	err = remote_join(fd, r);
	if (!err) {
		list_append(&connections, &r->link);
		lock_take(&qp->lock); /* events wait until the caller has added an opener, which gets them */
	}
	lock_drop(&remote_lock);
	if (!err)
		return qp;
	qp_destroy(qp);
	free(r);
	return NULL;
}

struct qp *remote_find(struct hca *hca, uint32_t qpn, const struct xrcd_name *domain)
{
	struct message m = {.what = REMOTE_OPEN, .qpn = qpn, .domain = *domain};
	struct qp *qp = remote_find_view(qpn, domain);
	int error, fd;

	if (qp)
		return qp;
	if (hca_has_number(hca, qpn))
		return fail_null(EINVAL);
	loop_learn_slots(hca);
	error = remote_ask(hca, &m, &fd);
	if (error)
		return fail_null(error == ENODEV ? EINVAL : error);
	remote_begin(hca);
	qp = loop_make_room(hca) ? NULL : remote_make_view(hca, &m, fd);
	if (!qp) {
		close(fd);
		remote_end(hca);
		return fail_null(ENOMEM);
	}
	return qp;
}

void remote_close(struct qp *qp)
{
	lock_take(&remote_lock);
	remote_unlink(qp->xrc->remote);
	lock_drop(&remote_lock);
	remote_end(qp->hca);
	free(qp->xrc->remote);
}

static bool remote_is_lost(const struct qp *qp)
{
	bool lost;

	lock_take(&remote_lock);
	lost = qp->xrc->remote->is_lost;
	lock_drop(&remote_lock);
	return lost;
}

/* Sends a request to the owner. 0 or errno. After the owner's end another process may own the same QP number. */
static int remote_ask_owner(struct qp *qp, struct message *m)
{
	m->qpn = qp->base.qp_num;
	m->domain = qp->xrc->domain;
	return remote_is_lost(qp) ? ENODEV : remote_ask(qp->hca, m, NULL);
}

int remote_query(struct qp *qp, struct ibv_qp_attr *attr)
{
	struct message m = {.what = REMOTE_QUERY};
	int error = remote_ask_owner(qp, &m);

	if (!error)
		*attr = m.attr;
	return error;
}

int remote_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct message m = {.what = REMOTE_MODIFY, .mask = mask, .attr = *attr};

	return remote_ask_owner(qp, &m);
}
