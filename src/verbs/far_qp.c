/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/far_qp.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/high_fd.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memfd.h"
#include "engine/engine.h"
#include "loop/heir.h"
#include "loop/loop.h"
#include "loop/slot.h"
#include "object/keep.h"
#include "verbs/context.h"
#include "verbs/fork.h"
#include "verbs/shared_qp.h"

#define FAR_VERSION 2u /* of what follows: part of the name that others call */
#define CALLERS	    255
#define EVENTS	    16
#define MOVING	    MSEC      /* between two looks where a QP is that moves */
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
	uint8_t home;	/* the slot of the process at the other end */
	bool is_asking; /* a new home has been asked whether it has the QP, and has not answered */
	bool is_lost;	/* nobody goes on with it */
};

struct lock far_lock; /* guards all below. Taken before qp->lock. Who waits for another process does not hold it */
static struct list connections GUARDED_BY(far_lock) = {&connections, &connections};
static struct list orphans GUARDED_BY(far_lock) = {&orphans, &orphans}; /* QPs that are to be destroyed */
static struct hca *adapter GUARDED_BY(far_lock);			/* of whom all of this is */
static uint32_t users GUARDED_BY(far_lock);				/* QPs that are offered, or are far away */
static int listener GUARDED_BY(far_lock) = -1;
static int calls GUARDED_BY(far_lock) = -1; /* an epoll set, watched by the helper: the listener and the connections */
static int name GUARDED_BY(far_lock) = -1;  /* keeps our slot for those who have opened a QP of ours */

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

/* ---- what is kept of a QP ---- */

/* Takes both descriptors over. NULL: they are closed. */
static struct keep *make_keep(int fd, int kept_name)
{
	struct keep *k = fd >= 0 && kept_name >= 0 ? calloc(1, sizeof(*k)) : NULL;
	void *memory =
		k ? mmap(NULL, sizeof(struct keep_memory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;

	if (memory != MAP_FAILED) {
		*k = (struct keep){.memory = memory, .fd = fd, .name = kept_name};
		return k;
	}
	free(k);
	if (fd >= 0)
		close(fd);
	if (kept_name >= 0)
		close(kept_name);
	return NULL;
}

static void free_keep(struct keep *k)
{
	if (!k)
		return;
	munmap(k->memory, sizeof(*k->memory));
	close(k->fd);
	close(k->name);
	free(k);
}

static uint32_t home_of(const struct keep *k)
{
	return atomic_load_explicit(&k->memory->home, memory_order_acquire); /* pairs with who has changed it */
}

/* From now on another process may go on with it. 0 or errno. */
static int begin_to_keep(struct qp *qp) REQUIRES(qp->lock, far_lock)
{
	if (name < 0)
		name = slot_keep(adapter->slot);
	if (!qp->keep) {
		qp->keep = make_keep(memfd_of_size("uroce-target", 0, sizeof(struct keep_memory)),
				     name < 0 ? -1 : high_fd(fcntl(name, F_DUPFD_CLOEXEC, 0)));
		if (!qp->keep)
			return ENOMEM;
		atomic_store_explicit(&qp->keep->memory->home, adapter->slot,
				      memory_order_relaxed); /* nobody else sees it yet */
	}
	qp->is_kept = true;
	heir_note(qp);
	return 0;
}

/* With the message go the descriptors of what is kept, if any. */
static void send_keep(int fd, const struct message *m, const struct keep *k)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {0};
	struct iovec iov = {(void *)m, sizeof(*m)};
	struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&h);
	const int both[2] = {k->fd, k->name};

	*c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(both))};
	memcpy(CMSG_DATA(c), both, sizeof(both));
	sendmsg(fd, &h, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* As recv(); what comes with it goes to both[], -1: nothing. */
static ssize_t receive_keep(int fd, struct message *m, int both[2], int flags)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))];
	struct iovec iov = {m, sizeof(*m)};
	struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(fd, &h, flags | MSG_CMSG_CLOEXEC);
	const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&h) : NULL;

	both[0] = both[1] = -1;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(2 * sizeof(int)))
		memcpy(both, CMSG_DATA(c), 2 * sizeof(int));
	return n;
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
	int error = opener ? begin_to_keep(qp) : f->qp ? EINVAL : ENOMEM;

	if (error) {
		free(opener);
		return error;
	}
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
	heir_note(qp);
	loop_run(qp);
	return error;
}

static int (*const serve[])(struct far *f, struct qp *qp, struct message *m) = {
	[FAR_OPEN] = serve_open,
	[FAR_QUERY] = serve_query,
	[FAR_MODIFY] = serve_modify,
};

static void far_qp_answer(struct far *f, struct message *m) REQUIRES(far_lock)
{
	struct qp *qp = m->what < ARRAY_SIZE(serve) ? hca_find_qp(adapter, m->qpn) : NULL;

	m->result = EINVAL;
	if (!qp) {
		far_qp_send_message(f->fd, m);
		return;
	}
	lock_take_over(&qp->lock);
	if (is_xrc_target(qp) && qp->open && xrcd_same(&qp->domain, &m->domain))
		m->result = serve[m->what](f, qp, m);
	if (m->what == FAR_OPEN && !m->result)
		send_keep(f->fd, m, qp->keep);
	else
		far_qp_send_message(f->fd, m);
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
	if (last)
		heir_release(qp); /* somebody may be about to come here whose home it was before */
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

/* Of a connection whose QP nobody goes on with. */
static void far_qp_lose(struct far *f) REQUIRES(far_lock)
{
	epoll_ctl(calls, EPOLL_CTL_DEL, f->fd, NULL);
	f->is_lost = true;
	hear_event(f, IBV_EVENT_QP_FATAL);
}

/* At the new home. 0 or -errno. */
static int reopen(struct far *f, uint8_t home) REQUIRES(far_lock)
{
	const struct message m = {.what = FAR_OPEN, .qpn = f->qp->base.qp_num, .domain = f->qp->domain};
	int fd = high_fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)), err;
	struct sockaddr_un address;

	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&address, far_qp_name_of(&address, home)) || slot_check_user(fd, NULL) ||
	    send(fd, &m, sizeof(m), MSG_NOSIGNAL) != sizeof(m)) {
		close(fd); /* it may have gone by now, or have no room for callers */
		return -EAGAIN;
	}
	err = far_qp_join(fd, f);
	if (err) {
		close(fd);
		return err;
	}
	epoll_ctl(calls, EPOLL_CTL_DEL, f->fd, NULL);
	close(f->fd);
	f->fd = fd;
	f->home = home;
	f->is_asking = true;
	return 0;
}

static int start_listening(void) REQUIRES(far_lock);

/* The QP is ours now. 0 or -errno. */
static int far_qp_inherit(struct far *f) REQUIRES(far_lock)
{
	struct qp *qp = f->qp;
	int err = listener < 0 ? start_listening() : 0;

	err = err ?: heir_begin(qp);
	if (err == -EAGAIN)
		return err;
	if (err) {
		log_warn("the XRC target %#x ends with its process: %s", qp->base.qp_num, strerror(-err));
		atomic_store_explicit(&qp->keep->memory->home, 0, memory_order_release); /* others may try */
		return err;
	}
	far_qp_forget(f);
	return 0;
}

/* The home of a QP has gone, or let go of it: the first of those who have it open goes on with it, and the others turn
 * to him. */
static void far_qp_follow(struct far *f) REQUIRES(far_lock)
{
	_Atomic uint32_t *shared = &f->qp->keep->memory->home;
	uint32_t home = home_of(f->qp->keep), own = adapter->slot;
	bool open;
	int err;

	lock_take(&f->qp->lock);
	open = f->qp->open;
	lock_drop(&f->qp->lock);
	if (!open) { /* it is about to be closed */
		epoll_ctl(calls, EPOLL_CTL_DEL, f->fd, NULL);
		return;
	}
	if (home != own && (!home || home == f->home || !slot_is_alive(home)) &&
	    atomic_compare_exchange_strong_explicit(shared, &home, own, memory_order_acq_rel, memory_order_acquire))
		home = own;
	err = home == own ? far_qp_inherit(f) : reopen(f, home);
	if (err == -EAGAIN)
		loop_not_yet();
	else if (err)
		far_qp_lose(f);
}

static void hear_end(struct far *f) REQUIRES(far_lock)
{
	if (is_away(f)) {
		far_qp_follow(f);
	} else if (f->qp) {
		drop_opener(f);
	} else {
		far_qp_forget(f);
		free(f);
	}
}

/* From a new home. */
static void hear_answer(struct far *f, const struct message *m) REQUIRES(far_lock)
{
	f->is_asking = false;
	if (!m->result)
		return;
	f->home = 0;
	loop_not_yet();
	shutdown(f->fd, SHUT_RDWR); /* it does not have it, or no more: this is heard as its end */
}

/* ---- both ---- */

static void far_qp_hear(struct far *f) REQUIRES(far_lock)
{
	struct message m;
	int both[2];
	ssize_t n = receive_keep(f->fd, &m, both, MSG_DONTWAIT);

	for (int i = 0; i < 2; i++)
		if (both[i] >= 0)
			close(both[i]); /* we have it */
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != sizeof(m))
		hear_end(f);
	else if (is_away(f) && f->is_asking)
		hear_answer(f, &m);
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

static int start_listening(void)
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
	if (name >= 0)
		close(name);
	listener = calls = name = -1;
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

void far_forget(void)
{
	struct list *l;

	if (listener >= 0)
		close(listener);
	if (calls >= 0)
		close(calls); /* before all else: the set is the parent's as well */
	if (name >= 0)
		close(name);
	listener = calls = name = -1;
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
	free_keep(qp->keep);
	qp->keep = NULL;
}

void far_tell(const struct far *opener, enum ibv_event_type type)
{
	far_qp_send_message(opener->fd, &(struct message){.what = FAR_EVENT, .result = (int32_t)type});
}

/* It was made on that context, or elsewhere: then it is no context's. And nobody has it open here. */
static bool ends_with(struct qp *qp, const struct context *closing) REQUIRES(qp->lock)
{
	bool ends = qp->far || qp->base.context == &closing->verbs.context;

	list_each (l, &qp->openers)
		ends &= container_of(l, struct qp, openers)->far != NULL;
	if (ends)
		heir_release(qp);
	return ends;
}

static bool far_qp_release(struct qp *qp, const struct context *closing)
{
	bool ends;

	lock_take(&qp->lock);
	ends = ends_with(qp, closing);
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

		if (closing && f->qp && f->qp->real && far_qp_release(f->qp->real, closing))
			drop_opener(f);
	}
	while ((l = list_pop(&orphans)))
		list_append(&dead, l);
	lock_drop(&far_lock);
	while ((l = list_pop(&dead))) {
		struct far *f = container_of(l, struct far, link);

		bury_qp(f->qp, true);
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
static int receive_until(int fd, struct message *m, int both[2], uint64_t end)
{
	while (far_qp_wait_until(fd, end)) {
		ssize_t n = receive_keep(fd, m, both, 0);

		if (n == sizeof(*m))
			return m->result;
		if (n >= 0 || (errno != EINTR && errno != EAGAIN))
			return ENODEV;
	}
	return ETIMEDOUT;
}

/* The connection of a QP that has been opened, and what came with the answer. */
struct opened {
	int fd, both[2];
};

/* Asks the home of a QP. 0 or errno; the connection goes to *keep, NULL: it is closed. */
static int far_qp_ask(struct message *m, uint8_t home, struct opened *keep, uint64_t end)
{
	int fd = high_fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)), error, both[2] = {-1, -1};

	if (fd < 0)
		return errno;
	error = connect_until(fd, home, end);
	if (!error && send(fd, m, sizeof(*m), MSG_NOSIGNAL) != sizeof(*m))
		error = ENODEV;
	error = error ?: receive_until(fd, m, both, end);
	if (!error && keep)
		*keep = (struct opened){fd, {high_fd(both[0]), high_fd(both[1])}};
	else
		close(fd);
	return error;
}

static struct qp *find_open(uint32_t qpn, const struct xrcd_name *domain)
{
	struct qp *found = NULL;

	lock_take(&far_lock);
	list_each (i, &connections) {
		struct far *f = container_of(i, struct far, link);

		if (!is_away(f) || f->qp->base.qp_num != qpn || !xrcd_same(&f->qp->domain, domain))
			continue;
		lock_take(&f->qp->lock);
		if (f->qp->open) { /* else somebody is closing it */
			found = f->qp;
			lock_hand_over(&f->qp->lock);
			break;
		}
		lock_drop(&f->qp->lock);
	}
	lock_drop(&far_lock);
	return found;
}

/* The QP as it is seen from here, or NULL: there is no memory for it, or nobody would hear of its events. Then nothing
 * of what has been opened is left but the connection. */
static struct qp *far_qp_make_view(struct hca *hca, const struct message *m, const struct opened *o, uint8_t home)
{
	static const struct ibv_qp_cap none;
	struct keep *keep = make_keep(o->both[0], o->both[1]);
	struct far *f = keep ? calloc(1, sizeof(*f)) : NULL;
	struct qp *qp = f ? qp_create(hca, NULL, NULL, NULL, NULL, IBV_QPT_XRC_RECV, &none, false) : NULL;
	int fd = o->fd, err;

	if (!qp) {
		free_keep(keep);
		free(f);
		return NULL;
	}
	f->fd = fd;
	f->qp = qp;
	f->home = home;
	lock_take(&qp->lock);
	qp->base.qp_num = m->qpn; /* so that nobody finds it by number */
	qp->base.state = m->attr.qp_state;
	qp->domain = m->domain;
	qp->closed = true;
	qp->far = f;
	qp->keep = keep;
	lock_drop(&qp->lock);
	lock_take(&far_lock);
	err = far_qp_join(fd, f);
	if (!err)
		list_append(&connections, &f->link);
	lock_drop(&far_lock);
	if (err) {
		qp_destroy(qp);
		free_keep(keep);
		free(f);
		return NULL;
	}
	lock_take(&qp->lock);
	lock_hand_over(&qp->lock);
	return qp;
}

struct qp *far_find(struct hca *hca, uint8_t home, uint32_t qpn, const struct xrcd_name *domain)
{
	struct message m = {.what = FAR_OPEN, .qpn = qpn, .domain = *domain};
	struct qp *qp = find_open(qpn, domain);
	struct opened o;
	int error;

	if (qp)
		return qp;
	if (home == hca->slot)
		return fail_null(EINVAL);
	error = far_qp_ask(&m, home, &o, clock_now() + PATIENCE);
	if (error)
		return fail_null(error == ENODEV ? EINVAL : error);
	far_qp_begin(hca);
	qp = far_qp_make_view(hca, &m, &o, home);
	if (!qp) {
		close(o.fd);
		far_qp_end(hca);
		return fail_null(ENOMEM);
	}
	return qp;
}

void far_settle(struct qp *qp)
{
	lock_take(&far_lock); /* who was about to go on with it has done so, and nobody begins any more */
	lock_drop(&far_lock);
	lock_take(&qp->lock);
	heir_release(qp);
	lock_drop(&qp->lock);
}

void far_close(struct qp *qp)
{
	lock_take(&far_lock);
	if (!qp->is_here) /* else that has been done */
		far_qp_forget(qp->far);
	lock_drop(&far_lock);
	if (qp->is_here)
		heir_leave(qp);
	far_qp_end(qp->hca);
	free_keep(qp->keep);
	qp->keep = NULL;
	free(qp->far);
}

bool far_is_away(struct qp *qp)
{
	bool is_away;

	if (!qp->far)
		return false;
	lock_take(&qp->lock);
	is_away = !qp->is_here;
	lock_drop(&qp->lock);
	return is_away;
}

static bool is_lost(const struct qp *qp)
{
	bool lost;

	lock_take(&far_lock);
	lost = qp->far->is_lost;
	lock_drop(&far_lock);
	return lost;
}

/* Wherever it is; where it is may change. -1: it is here now. */
static int ask_home(struct qp *qp, const struct message *credit_request, struct message *answer)
{
	uint64_t until = clock_now() + PATIENCE;

	for (;;) {
		uint32_t home = home_of(qp->keep);
		int error = ENODEV;

		*answer = *credit_request;
		if (!far_is_away(qp))
			return -1;
		if (home && home != qp->hca->slot)
			error = far_qp_ask(answer, home, NULL, until);
		if ((error != ENODEV && error != EINVAL) || is_lost(qp))
			return error;
		if (home && home == home_of(qp->keep) && error == EINVAL)
			return error;
		if (clock_now() >= until)
			return ETIMEDOUT;
		nanosleep(&(struct timespec){.tv_nsec = MOVING}, NULL);
	}
}

int far_query(struct qp *qp, struct ibv_qp_attr *attr)
{
	const struct message credit_request = {.what = FAR_QUERY, .qpn = qp->base.qp_num, .domain = qp->domain};
	struct message answer;
	int error = ask_home(qp, &credit_request, &answer);

	if (!error)
		*attr = answer.attr;
	return error;
}

int far_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	const struct message credit_request = {
		.what = FAR_MODIFY, .qpn = qp->base.qp_num, .domain = qp->domain, .mask = mask, .attr = *attr};
	struct message answer;

	return ask_home(qp, &credit_request, &answer);
}
