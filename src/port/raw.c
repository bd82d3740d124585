/* SPDX-License-Identifier: BSD-2-Clause */
#include "port/raw.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/engine.h"
#include "link/ether.h"
#include "loop/helper.h"
#include "loop/loop.h"
#include "object/rss.h"
#include "port/tuned.h"

struct raw_port {
	struct port port; /* the port that paths point to */
	struct link link;
	struct list all; /* in ports */
	int interface;
	bool loopback;	   /* sent frames come in again */
	uint32_t users;	   /* number of QPs */
	int fd;		   /* socket that receives frames; -1: no rule */
	struct list rules; /* struct flow_rule, in the order in which they are tried */
	uint8_t *buffer;
	struct held { /* the last frame, if no receive was posted for it: no other frame is read until there is one */
		const uint8_t *frame; /* NULL: no frame is held */
		uint32_t length;
		bool outgoing;
		uint64_t since;
	} held;
};

/* Guards all of this file's state. In the helper, watch_lock is held as well. */
static struct lock raw_lock = LOCK_RANKED(RAW);
static struct list ports GUARDED_BY(raw_lock) = {&ports, &ports};
static _Atomic uint32_t listening; /* ports that receive frames. Relaxed: a hint */

static struct raw_port *raw_port_of(const struct qp *qp)
{
	return container_of((struct port *)qp->loop.raw, struct raw_port, port);
}

static void say_not_allowed(void)
{
	log_error("a raw packet queue pair needs CAP_NET_RAW in this network namespace: run as root, or in a namespace "
		  "of "
		  "your own (unshare -rn)");
}

static struct raw_port *raw_find(int interface) REQUIRES(raw_lock)
{
	list_each (l, &ports) {
		struct raw_port *p = container_of(l, struct raw_port, all);

		if (p->interface == interface)
			return p;
	}
	return NULL;
}

static int raw_make(struct loop *l, int interface, struct raw_port **made) REQUIRES(raw_lock)
{
	struct raw_port *p = calloc(1, sizeof(*p));
	int error;

	if (!p)
		return -ENOMEM;
	error = ether_open(interface, &p->link, &p->loopback);
	if (error) {
		free(p);
		return error;
	}
	p->port.loop = l;
	p->port.link = &p->link;
	p->port.raw = true;
	p->interface = interface;
	p->fd = -1;
	list_init(&p->rules);
	list_append(&ports, &p->all);
	*made = p;
	return 0;
}

int raw_attach(struct qp *qp, int interface)
{
	struct raw_port *p;
	int error = 0;

	lock_take(&raw_lock);
	p = raw_find(interface);
	if (!p)
		error = raw_make(loop_of(qp), interface, &p);
	if (!error) {
		p->users++;
		qp->loop.raw = &p->port;
	}
	lock_drop(&raw_lock);
	if (error == -EPERM)
		say_not_allowed();
	return error;
}

void raw_detach(struct qp *qp)
{
	struct raw_port *p = raw_port_of(qp);
	bool last;

	if (loop_is_inert(p->port.loop))
		return;
	lock_take(&raw_lock);
	last = --p->users == 0;
	if (last)
		list_remove(&p->all);
	lock_drop(&raw_lock);
	if (!last)
		return;
	ether_close(&p->link);
	free(p);
}

/* The order of rules: by priority, then by age; rules for all other frames come last. */
static bool goes_before(const struct flow_rule *a, const struct flow_rule *b)
{
	static const uint8_t rank[] = {
		[IBV_FLOW_ATTR_SNIFFER] = 0,
		[IBV_FLOW_ATTR_NORMAL] = 1,
		[IBV_FLOW_ATTR_MC_DEFAULT] = 2,
		[IBV_FLOW_ATTR_ALL_DEFAULT] = 3,
	};

	if (rank[a->type] != rank[b->type])
		return rank[a->type] < rank[b->type];
	return a->priority < b->priority;
}

static void insert(struct raw_port *p, struct flow_rule *rule) REQUIRES(raw_lock)
{
	struct list *at = &p->rules;

	list_each (l, &p->rules) {
		at = l;
		if (goes_before(rule, container_of(l, struct flow_rule, link)))
			break;
		at = &p->rules;
	}
	list_append(at, &rule->link); /* inserts before `at` */
}

/* Gives a frame to a rule's QP. False: no receive is posted. */
static bool hand_over(struct flow_rule *rule, const struct frame_key *key, const uint8_t *frame, uint32_t length)
{
	struct qp *qp = rule->qp;
	bool taken = true;

	if (qp->rss)
		qp = qp->rss->table[rss_hash(qp->rss, key) & qp->rss->mask];
	lock_take(&qp->lock);
	if (qp->alive)
		taken = engine_receive_frame(qp, frame, length, rule->tag);
	lock_drop(&qp->lock);
	rule->starves = rule->starves && !taken;
	return taken;
}

/* True if a rule applies to frames that this host sends: adapters loop back frames for their own queues. Default rules
 * are for frames from the network. */
static bool wants_outgoing(const struct flow_rule *rule, const struct frame_key *key)
{
	if (rule->type == IBV_FLOW_ATTR_SNIFFER)
		return true;
	return rule->type == IBV_FLOW_ATTR_NORMAL && rule->specs &&
	       !(rule->qp->loop.no_multicast_loop && frame_is_multicast(key));
}

/* True if a frame may wait for a receive. A receiver that posts receives as frames come may be slow for a moment; an
 * adapter with flow control would stop the sender. After a wait in vain, the receiver must take a frame before another
 * may wait. */
static bool may_wait(struct raw_port *p, struct flow_rule *rule, const struct held *frame)
{
	uint64_t now = clock_now();

	if (rule->starves)
		return false;
	if (!p->held.frame) {
		p->held = *frame;
		p->held.since = now;
	}
	rule->starves = now >= p->held.since + RAW_HOLD;
	return !rule->starves;
}

static bool offer(struct raw_port *p, const struct held *f)
{
	struct frame_key key;
	bool given = false;

	frame_read(&key, f->frame, f->length);
	list_each (l, &p->rules) {
		struct flow_rule *rule = container_of(l, struct flow_rule, link);

		if (!flow_matches(rule, &key) || (f->outgoing && !wants_outgoing(rule, &key)))
			continue;
		if (!rule->drops && !hand_over(rule, &key, f->frame, f->length) && !given && may_wait(p, rule, f))
			return false;
		given = true;
		if (rule->counters) {
			atomic_fetch_add_explicit(&rule->counters->packets, 1, memory_order_relaxed);
			atomic_fetch_add_explicit(&rule->counters->bytes, f->length, memory_order_relaxed);
		}
		if (!rule->shares)
			break;
	}
	p->held.frame = NULL;
	return true;
}

static bool raw_deliver(void *arg, const uint8_t *frame, uint32_t length, bool outgoing)
{
	struct raw_port *p = arg;

	return (outgoing && p->loopback) || offer(p, &(struct held){frame, length, outgoing});
}

static bool raw_receive(void) REQUIRES(raw_lock)
{
	bool any = false;

	list_each (l, &ports) {
		struct raw_port *p = container_of(l, struct raw_port, all);

		if (p->fd >= 0 && (!p->held.frame || offer(p, &p->held)))
			any |= ether_receive(p->fd, p->buffer, RAW_BATCH, raw_deliver, p);
	}
	return any;
}

bool raw_progress(void)
{
	bool any = false;

	if (likely(!atomic_load_explicit(&listening, memory_order_relaxed)))
		return false;
	if (lock_try(&raw_lock)) {
		any = raw_receive();
		lock_drop(&raw_lock);
	}
	return any;
}

/* Handler of loop_watch(), in the helper. */
static void serve(void *arg)
{
	bool any;

	lock_take(&raw_lock);
	any = raw_receive();
	lock_drop(&raw_lock);
	if (!any) /* a frame is held, and the descriptor stays readable */
		loop_not_yet();
}

static int listen_at(struct raw_port *p) REQUIRES(raw_lock)
{
	p->buffer = malloc(ETHER_FRAME);
	if (!p->buffer)
		return -ENOMEM;
	p->fd = ether_listen(p->interface);
	if (p->fd < 0) {
		int error = p->fd;

		free(p->buffer);
		p->fd = -1;
		return error;
	}
	atomic_fetch_add_explicit(&listening, 1, memory_order_relaxed);
	return 0;
}

int raw_add_rule(struct flow_rule *rule)
{
	struct raw_port *p = raw_port_of(rule->qp);
	bool first;
	int error = 0, fd;

	lock_take(&raw_lock);
	first = p->fd < 0;
	if (first)
		error = listen_at(p);
	if (!error)
		insert(p, rule);
	fd = p->fd;
	lock_drop(&raw_lock);
	/* Without the lock, which the helper's handler takes. On failure, only polling threads read frames. */
	if (!error && first)
		error = loop_watch(fd, serve, NULL);
	if (error && first && fd >= 0)
		raw_remove_rule(rule);
	return error;
}

void raw_remove_rule(struct flow_rule *rule)
{
	struct raw_port *p = raw_port_of(rule->qp);
	uint8_t *buffer = NULL;
	int fd = -1;

	if (loop_is_inert(p->port.loop))
		return;
	lock_take(&raw_lock);
	list_remove(&rule->link);
	if (list_empty(&p->rules)) {
		fd = p->fd;
		buffer = p->buffer;
		p->held.frame = NULL;
		p->fd = -1;
		atomic_fetch_sub_explicit(&listening, 1, memory_order_relaxed);
	}
	lock_drop(&raw_lock);
	if (fd < 0)
		return;
	loop_unwatch(fd);
	close(fd);
	free(buffer);
}

void raw_forget(void)
{
	lock_assert_unshared(&raw_lock);
	list_each (l, &ports) {
		struct raw_port *p = container_of(l, struct raw_port, all);

		close(p->link.fd);
		if (p->fd >= 0)
			close(p->fd);
	}
	list_init(&ports);
	atomic_store_explicit(&listening, 0, memory_order_relaxed);
	raw_lock = (struct lock)LOCK_RANKED(RAW); /* lock_try() takes none of another thread of the parent */
}
