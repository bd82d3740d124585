/* SPDX-License-Identifier: BSD-2-Clause */
/* What calls do in the process that has the end open. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "call.h"
#include "conform.h"

void here_keep(struct here *h, void *object, int (*destroy)(void *))
{
	if (h->kept_count == KEPT)
		abort();
	h->kept[h->kept_count].object = object;
	h->kept[h->kept_count++].destroy = destroy;
}

/* Keeps an object that is not NULL. 0 or errno. */
#define KEPT_OR_ERRNO(h, object, destroyer) \
	((object) ? (here_keep(h, object, (int (*)(void *))(destroyer)), 0) : errno ? errno : EIO)

static struct ibv_context *open_device(const char *name)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *context = NULL;

	errno = ENODEV;
	for (int i = 0; list && i < count && !context; i++)
		if (!*name || !strcmp(name, ibv_get_device_name(list[i])))
			context = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	return context;
}

/* The GID to use: that which is wanted, else the first of RoCE v2 with an IPv4 address, else the first of RoCE v2. */
static int choose_gid(struct here *h, int wanted, union ibv_gid *gid, union ibv_gid *gid6)
{
	struct ibv_gid_entry entries[256];
	ssize_t n = ibv_query_gid_table(h->context, entries, COUNT(entries), 0);
	int chosen = wanted;

	for (ssize_t i = 0; i < n; i++)
		if (entries[i].gid_type == IBV_GID_TYPE_ROCE_V2 && entries[i].gid.raw[0] != 0xfe &&
		    memcmp(entries[i].gid.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12))
			*gid6 = entries[i].gid;
	for (ssize_t i = 0; wanted < 0 && i < n; i++) {
		static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
		bool is_ipv4 = !memcmp(entries[i].gid.raw, mapped, sizeof(mapped));

		if (entries[i].gid_type == IBV_GID_TYPE_ROCE_V2 && (chosen < 0 || is_ipv4)) {
			chosen = (int)entries[i].gid_index;
			if (is_ipv4)
				break;
		}
	}
	chosen = chosen < 0 ? 0 : chosen;
	return ibv_query_gid(h->context, 1, chosen, gid) ? -1 : chosen;
}

static int do_open(struct here *h, struct call *c)
{
	enum { REMOTE = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };
	struct end *e = &c->u.open.end;
	struct ibv_mr *mr;
	int gid;

	h->context = open_device(*c->u.open.device ? c->u.open.device : options.device ?: "");
	if (!h->context)
		return errno;
	fcntl(h->context->async_fd, F_SETFL, O_NONBLOCK);
	h->pd = ibv_alloc_pd(h->context);
	h->arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!h->pd || h->arena == MAP_FAILED)
		return errno;
	mr = ibv_reg_mr(h->pd, h->arena, ARENA, REMOTE | IBV_ACCESS_REMOTE_ATOMIC)
		     ?: ibv_reg_mr(h->pd, h->arena, ARENA, REMOTE);
	if (!mr)
		return errno;
	if (ibv_query_device(h->context, &e->attr) || ibv_query_port(h->context, 1, &e->port))
		return errno ?: EIO;
	gid = choose_gid(h, c->u.open.gid_wanted >= 0 ? c->u.open.gid_wanted : options.gid, &e->gid, &e->gid6);
	if (gid < 0)
		return EINVAL;
	e->gid_index = (uint8_t)gid;
	e->arena = (uintptr_t)h->arena;
	e->lkey = mr->lkey;
	e->rkey = mr->rkey;
	e->pd = h->pd;
	return 0;
}

static int do_reset(struct here *h, struct call *c)
{
	struct ibv_async_event event;

	while (h->kept_count--)
		h->kept[h->kept_count].destroy(h->kept[h->kept_count].object);
	h->kept_count = 0;
	while (!ibv_get_async_event(h->context, &event))
		ibv_ack_async_event(&event);
	return 0;
}

static int do_cq(struct here *h, struct call *c)
{
	errno = 0;
	c->u.cq.cq = ibv_create_cq(h->context, c->u.cq.depth, NULL, NULL, 0);
	return KEPT_OR_ERRNO(h, c->u.cq.cq, ibv_destroy_cq);
}

static int do_resize(struct here *h, struct call *c)
{
	return ibv_resize_cq(c->u.cq.cq, c->u.cq.depth);
}

static bool open_xrcd(struct here *h)
{
	struct ibv_xrcd_init_attr init = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};

	h->xrcd = h->xrcd ?: ibv_open_xrcd(h->context, &init);
	return h->xrcd;
}

/* XRC targets and initiators have no other function. */
static struct ibv_qp *create_xrc(struct here *h, struct ibv_qp_init_attr *init)
{
	struct ibv_qp_init_attr_ex ex = {.qp_type = init->qp_type};

	if (init->qp_type == IBV_QPT_XRC_SEND) {
		ex.comp_mask = IBV_QP_INIT_ATTR_PD;
		ex.pd = h->pd;
		ex.cap = init->cap;
		ex.send_cq = init->send_cq;
		ex.sq_sig_all = init->sq_sig_all;
	} else {
		if (!open_xrcd(h))
			return NULL;
		ex.comp_mask = IBV_QP_INIT_ATTR_XRCD;
		ex.xrcd = h->xrcd;
	}
	return ibv_create_qp_ex(h->context, &ex);
}

static int do_qp(struct here *h, struct call *c)
{
	struct ibv_qp_init_attr *init = &c->u.qp.init;
	bool is_xrc = init->qp_type == IBV_QPT_XRC_SEND || init->qp_type == IBV_QPT_XRC_RECV;
	struct ibv_qp *qp;

	errno = 0;
	qp = is_xrc ? create_xrc(h, init) : ibv_create_qp(h->pd, init);
	c->u.qp.qp = qp;
	c->u.qp.num = qp ? qp->qp_num : 0;
	return KEPT_OR_ERRNO(h, qp, ibv_destroy_qp);
}

static int do_srq(struct here *h, struct call *c)
{
	errno = 0;
	c->u.srq.srq = ibv_create_srq(h->pd, &c->u.srq.init);
	return KEPT_OR_ERRNO(h, c->u.srq.srq, ibv_destroy_srq);
}

static int do_xrc_srq(struct here *h, struct call *c)
{
	struct ibv_srq_init_attr_ex init = {.attr = c->u.srq.init.attr,
					    .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
							 IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
					    .srq_type = IBV_SRQT_XRC,
					    .pd = h->pd,
					    .cq = c->u.srq.cq};

	errno = 0;
	if (!open_xrcd(h))
		return errno;
	init.xrcd = h->xrcd;
	c->u.srq.srq = ibv_create_srq_ex(h->context, &init);
	if (c->u.srq.srq)
		ibv_get_srq_num(c->u.srq.srq, &c->u.srq.num);
	return KEPT_OR_ERRNO(h, c->u.srq.srq, ibv_destroy_srq);
}

static int do_modify_srq(struct here *h, struct call *c)
{
	return ibv_modify_srq(c->u.srq.srq, &c->u.srq.init.attr, c->u.srq.mask);
}

static int do_query_srq(struct here *h, struct call *c)
{
	return ibv_query_srq(c->u.srq.srq, &c->u.srq.init.attr);
}

static int do_mr(struct here *h, struct call *c)
{
	struct ibv_mr *mr;

	errno = 0;
	mr = ibv_reg_mr(h->pd, h->arena + c->u.mr.offset, c->u.mr.length, c->u.mr.access);
	c->u.mr.mr = mr;
	c->u.mr.lkey = mr ? mr->lkey : 0;
	c->u.mr.rkey = mr ? mr->rkey : 0;
	return KEPT_OR_ERRNO(h, mr, ibv_dereg_mr);
}

static int do_rereg(struct here *h, struct call *c)
{
	int result = ibv_rereg_mr(c->u.mr.mr, c->u.mr.flags, h->pd, h->arena + c->u.mr.offset, c->u.mr.length,
				  c->u.mr.access);

	c->u.mr.rkey = c->u.mr.mr->rkey;
	c->u.mr.lkey = c->u.mr.mr->lkey;
	return result ? errno : 0;
}

static int do_mw(struct here *h, struct call *c)
{
	errno = 0;
	c->u.mw.mw = ibv_alloc_mw(h->pd, c->u.mw.type);
	c->u.mw.rkey = c->u.mw.mw ? c->u.mw.mw->rkey : 0;
	return KEPT_OR_ERRNO(h, c->u.mw.mw, ibv_dealloc_mw);
}

static int do_bind(struct here *h, struct call *c)
{
	int error = ibv_bind_mw(c->u.mw.qp, c->u.mw.mw, &c->u.mw.bind);

	c->u.mw.rkey = c->u.mw.mw->rkey;
	return error;
}

static int do_ah(struct here *h, struct call *c)
{
	errno = 0;
	c->u.ah.ah = ibv_create_ah(h->pd, &c->u.ah.attr);
	return KEPT_OR_ERRNO(h, c->u.ah.ah, ibv_destroy_ah);
}

static int do_destroy(struct here *h, struct call *c)
{
	for (unsigned i = h->kept_count; i--;) {
		int error;

		if (h->kept[i].object != c->u.destroy.object)
			continue;
		error = h->kept[i].destroy(c->u.destroy.object);
		if (!error)
			memmove(&h->kept[i], &h->kept[i + 1], (--h->kept_count - i) * sizeof(h->kept[0]));
		return error;
	}
	return ENOENT;
}

static int do_modify(struct here *h, struct call *c)
{
	return ibv_modify_qp(c->u.modify.qp, &c->u.modify.attr, c->u.modify.mask);
}

static int do_query(struct here *h, struct call *c)
{
	struct ibv_qp_init_attr init;

	return ibv_query_qp(c->u.modify.qp, &c->u.modify.attr, c->u.modify.mask, &init);
}

static int do_send(struct here *h, struct call *c)
{
	struct ibv_send_wr *bad;

	c->u.send.wr.sg_list = c->u.send.sges;
	c->u.send.wr.next = NULL;
	return ibv_post_send(c->u.send.qp, &c->u.send.wr, &bad);
}

static int do_receive(struct here *h, struct call *c)
{
	struct ibv_recv_wr *bad,
		wr = {.wr_id = c->u.receive.wr_id, .sg_list = c->u.receive.sges, .num_sge = c->u.receive.count};

	return c->u.receive.srq ? ibv_post_srq_recv(c->u.receive.srq, &wr, &bad)
				: ibv_post_recv(c->u.receive.qp, &wr, &bad);
}

static int do_group(struct here *h, struct call *c)
{
	return (c->u.group.attach ? ibv_attach_mcast : ibv_detach_mcast)(c->u.group.qp, &c->u.group.gid, 0);
}

static int do_poll(struct here *h, struct call *c)
{
	uint64_t until = now() + (uint64_t)c->u.poll.ms * 1000000;
	int n, spins = 0;

	do {
		n = ibv_poll_cq(c->u.poll.cq, 1, &c->u.poll.wc);
		if (!n && ++spins > 100)
			usleep(20);
	} while (!n && now() < until);
	c->u.poll.found = n == 1;
	return n < 0 ? EIO : 0;
}

static int do_event(struct here *h, struct call *c)
{
	struct pollfd p = {.fd = h->context->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	c->u.event.type = NO_EVENT;
	if (poll(&p, 1, c->u.event.ms) < 1 || ibv_get_async_event(h->context, &event))
		return 0;
	c->u.event.type = event.event_type;
	c->u.event.element = event.element.qp;
	ibv_ack_async_event(&event);
	return 0;
}

static uint8_t pattern(uint64_t i, unsigned seed)
{
	return (uint8_t)(i * 7 + (i >> 8) * 13 + seed * 101 + 1);
}

static int do_fill(struct here *h, struct call *c)
{
	for (uint64_t i = 0; i < c->u.data.length; i++)
		h->arena[c->u.data.offset + i] = pattern(i, c->u.data.seed);
	return 0;
}

static int do_compare(struct here *h, struct call *c)
{
	c->u.data.same = true;
	for (uint64_t i = 0; i < c->u.data.length && c->u.data.same; i++)
		c->u.data.same = h->arena[c->u.data.offset + i] == pattern(i, c->u.data.seed);
	return 0;
}

/* Byte by byte, and not by memcpy(): a sanitizer would tell of races with what the adapter does there. */
static void copy(volatile uint8_t *to, const volatile uint8_t *from, uint64_t length)
{
	while (length--)
		*to++ = *from++;
}

static int do_peek(struct here *h, struct call *c)
{
	copy(c->u.data.bytes, h->arena + c->u.data.offset, c->u.data.length);
	return 0;
}

static int do_poke(struct here *h, struct call *c)
{
	copy(h->arena + c->u.data.offset, c->u.data.bytes, c->u.data.length);
	return 0;
}

static int do_cm(struct here *h, struct call *c)
{
	return here_cm(h, &c->u.cm);
}

/* As a process that is killed: it gives nothing back. */
static int do_die(struct here *h, struct call *c)
{
	kill(getpid(), SIGKILL);
	return 0;
}

static void *big_at;
static size_t big_length;

static int free_big(void *mr)
{
	int error = ibv_dereg_mr(mr);

	munmap(big_at, big_length);
	return error;
}

/* A region beside the arena, which has memory only where it is written. Its address is u.mr.offset. */
static int do_big(struct here *h, struct call *c)
{
	struct ibv_mr *mr;

	big_length = c->u.mr.length;
	big_at = mmap(NULL, big_length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (big_at == MAP_FAILED)
		return errno;
	mr = ibv_reg_mr(h->pd, big_at, big_length, c->u.mr.access);
	if (!mr) {
		munmap(big_at, big_length);
		return errno ?: EIO;
	}
	here_keep(h, mr, (int (*)(void *))free_big);
	c->u.mr.offset = (uintptr_t)big_at;
	c->u.mr.lkey = mr->lkey;
	c->u.mr.rkey = mr->rkey;
	return 0;
}

#define CALL_ROW(name) [CALL_##name] = do_##name,

static int (*const calls[])(struct here *, struct call *) = {CALLS(CALL_ROW)};

int here_call(struct here *h, struct call *c)
{
	return calls[c->op](h, c);
}
