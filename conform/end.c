/* SPDX-License-Identifier: BSD-2-Clause */
#include "end.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "call.h"
#include "conform.h"

static struct end ends[2];
struct end *const near = &ends[0], *const far = &ends[1];

/* Transfers all of it. False if the other process is gone. */
static bool move(int fd, void *bytes, size_t size, ssize_t (*io)(int, void *, size_t))
{
	for (size_t done = 0; done < size;) {
		ssize_t n = io(fd, (char *)bytes + done, size - done);

		if (n <= 0 && !(n < 0 && errno == EINTR))
			return false;
		done += n > 0 ? (size_t)n : 0;
	}
	return true;
}

static ssize_t put(int fd, void *bytes, size_t size)
{
	return write(fd, bytes, size);
}

struct reply {
	int error;
	struct call call;
};

static int ask(struct end *e, unsigned op, struct call *c)
{
	struct reply reply;

	c->op = op;
	if (e->here)
		return here_call(e->here, c);
	if (!move(e->fd, c, sizeof(*c), put) || !move(e->fd, &reply, sizeof(reply), read))
		wrong("the process of the other end has ended");
	*c = reply.call;
	return reply.error;
}

void end_serve(int fd)
{
	struct here *h = calloc(1, sizeof(*h));
	struct reply reply;

	while (h && move(fd, &reply.call, sizeof(reply.call), read) && reply.call.op < CALL_COUNT) {
		reply.error = here_call(h, &reply.call);
		if (!move(fd, &reply, sizeof(reply), put))
			break;
	}
}

const char *end_open(struct end *e, int fd)
{
	bool is_elsewhere = fd >= 0 && options.server; /* the server has its own options */
	struct call c = {.u.open.gid_wanted = is_elsewhere ? -1 : options.gid};
	int error;

	e->fd = fd;
	e->here = fd < 0 ? calloc(1, sizeof(*e->here)) : NULL;
	if (!is_elsewhere)
		strncpy(c.u.open.device, options.device ?: "", sizeof(c.u.open.device) - 1);
	error = ask(e, CALL_open, &c);
	if (error)
		return strerror(error);
	c.u.open.end.here = e->here;
	c.u.open.end.fd = e->fd;
	*e = c.u.open.end;
	return NULL;
}

void end_reset(struct end *e)
{
	struct call c = {0};

	ask(e, CALL_reset, &c);
}

enum { DEAD = -2 };

void end_kill(struct end *e)
{
	struct call c = {.op = CALL_die};

	if (e->here)
		lacking("a process of the far end's own");
	move(e->fd, &c, sizeof(c), put);
	move(e->fd, &c, 1, read); /* until its end */
	close(e->fd);
	e->fd = DEAD;
}

bool end_is_dead(const struct end *e)
{
	return !e->here && e->fd == DEAD;
}

struct ibv_context *end_context(struct end *e)
{
	return e->here->context;
}

void end_keep(struct end *e, void *object, int (*destroy)(void *))
{
	here_keep(e->here, object, destroy);
}

int try_cq(struct end *e, int depth, struct ibv_cq **cq)
{
	struct call c = {.u.cq.depth = depth};
	int error = ask(e, CALL_cq, &c);

	*cq = c.u.cq.cq;
	return error;
}

int resize(struct end *e, struct ibv_cq *cq, int depth)
{
	struct call c = {.u.cq = {.depth = depth, .cq = cq}};

	return ask(e, CALL_resize, &c);
}

int try_qp(struct qp *qp, struct end *e, const struct ibv_qp_init_attr *init)
{
	static uint32_t psn = 0x123;
	struct call c = {.u.qp.init = *init};
	int error = 0;

	if (!init->send_cq && init->qp_type != IBV_QPT_XRC_RECV)
		error = try_cq(e, 64, &c.u.qp.init.send_cq);
	if (!error && !init->recv_cq && init->qp_type != IBV_QPT_XRC_RECV)
		error = try_cq(e, 64, &c.u.qp.init.recv_cq);
	if (error)
		return error;
	error = ask(e, CALL_qp, &c);
	*qp = (struct qp){.end = e,
			  .ptr = c.u.qp.qp,
			  .type = init->qp_type,
			  .num = c.u.qp.num,
			  .psn = psn += 0x1111,
			  .cap = c.u.qp.init.cap,
			  .scq = c.u.qp.init.send_cq,
			  .rcq = c.u.qp.init.recv_cq};
	return error;
}

int try_srq(struct end *e, struct ibv_srq_init_attr *init, struct ibv_srq **srq)
{
	struct call c = {.u.srq.init = *init};
	int error = ask(e, CALL_srq, &c);

	*init = c.u.srq.init;
	*srq = c.u.srq.srq;
	return error;
}

int try_xrc_srq(struct end *e, const struct ibv_srq_attr *attr, struct ibv_cq *cq, struct ibv_srq **srq, uint32_t *num)
{
	struct call c = {.u.srq = {.init.attr = *attr, .cq = cq}};
	int error = ask(e, CALL_xrc_srq, &c);

	*srq = c.u.srq.srq;
	*num = c.u.srq.num;
	return error;
}

int modify_srq(struct end *e, struct ibv_srq *srq, const struct ibv_srq_attr *attr, int mask)
{
	struct call c = {.u.srq = {.srq = srq, .init.attr = *attr, .mask = mask}};

	return ask(e, CALL_modify_srq, &c);
}

int query_srq(struct end *e, struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	struct call c = {.u.srq.srq = srq};
	int error = ask(e, CALL_query_srq, &c);

	*attr = c.u.srq.init.attr;
	return error;
}

int try_mr(struct end *e, uint64_t offset, uint64_t length, int access, struct ibv_mr **mr, uint32_t *lkey,
	   uint32_t *rkey)
{
	struct call c = {.u.mr = {.offset = offset, .length = length, .access = access}};
	int error = ask(e, CALL_mr, &c);

	*mr = c.u.mr.mr;
	*lkey = c.u.mr.lkey;
	*rkey = c.u.mr.rkey;
	return error;
}

int try_big(struct end *e, uint64_t length, int access, uint64_t *address, uint32_t *lkey, uint32_t *rkey)
{
	struct call c = {.u.mr = {.length = length, .access = access}};
	int error = ask(e, CALL_big, &c);

	*address = c.u.mr.offset;
	*lkey = c.u.mr.lkey;
	*rkey = c.u.mr.rkey;
	return error;
}

int try_rereg(struct end *e, struct ibv_mr *mr, int flags, uint64_t offset, uint64_t length, int access, uint32_t *rkey)
{
	struct call c = {.u.mr = {.offset = offset, .length = length, .access = access, .mr = mr, .flags = flags}};
	int error = ask(e, CALL_rereg, &c);

	*rkey = c.u.mr.rkey;
	return error;
}

int try_mw(struct end *e, enum ibv_mw_type type, struct ibv_mw **mw, uint32_t *rkey)
{
	struct call c = {.u.mw.type = type};
	int error = ask(e, CALL_mw, &c);

	*mw = c.u.mw.mw;
	*rkey = c.u.mw.rkey;
	return error;
}

int bind_mw(struct qp *qp, struct ibv_mw *mw, struct ibv_mr *mr, uint64_t wr_id, uint64_t offset, uint64_t length,
	    int access, uint32_t *rkey)
{
	struct call c = {.u.mw = {.mw = mw, .qp = qp->ptr}};
	int error;

	c.u.mw.bind = (struct ibv_mw_bind){.wr_id = wr_id,
					   .send_flags = IBV_SEND_SIGNALED,
					   .bind_info = {.mr = mr,
							 .addr = qp->end->arena + offset,
							 .length = length,
							 .mw_access_flags = (unsigned)access}};
	error = ask(qp->end, CALL_bind, &c);
	*rkey = c.u.mw.rkey;
	return error;
}

int try_ah(struct end *e, const struct ibv_ah_attr *attr, struct ibv_ah **ah)
{
	struct call c = {.u.ah.attr = *attr};
	int error = ask(e, CALL_ah, &c);

	*ah = c.u.ah.ah;
	return error;
}

int destroy(struct end *e, void *object)
{
	struct call c = {.u.destroy.object = object};

	return ask(e, CALL_destroy, &c);
}

int modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct call c = {.u.modify = {.qp = qp->ptr, .attr = *attr, .mask = mask}};

	return ask(qp->end, CALL_modify, &c);
}

int query(struct qp *qp, struct ibv_qp_attr *attr)
{
	struct call c = {.u.modify = {.qp = qp->ptr, .mask = IBV_QP_STATE}};
	int error = ask(qp->end, CALL_query, &c);

	*attr = c.u.modify.attr;
	return error;
}

int post(struct qp *qp, const struct ibv_send_wr *wr)
{
	struct call c = {.u.send = {.qp = qp->ptr, .wr = *wr}};

	for (int i = 0; i < wr->num_sge && i < CALL_SGES; i++)
		c.u.send.sges[i] = wr->sg_list[i];
	return ask(qp->end, CALL_send, &c);
}

int post_receive_sges(struct qp *qp, uint64_t wr_id, struct ibv_sge *sges, int count)
{
	struct call c = {.u.receive = {.qp = qp->ptr, .wr_id = wr_id, .count = count}};

	for (int i = 0; i < count && i < CALL_SGES; i++)
		c.u.receive.sges[i] = sges[i];
	return ask(qp->end, CALL_receive, &c);
}

int post_receive(struct qp *qp, uint64_t wr_id, uint64_t offset, uint32_t length)
{
	struct ibv_sge sge = {.addr = qp->end->arena + offset, .length = length, .lkey = qp->end->lkey};

	return post_receive_sges(qp, wr_id, &sge, 1);
}

int post_srq(struct end *e, struct ibv_srq *srq, uint64_t wr_id, uint64_t offset, uint32_t length)
{
	struct call c = {.u.receive = {.srq = srq, .wr_id = wr_id, .count = 1}};

	c.u.receive.sges[0] = (struct ibv_sge){.addr = e->arena + offset, .length = length, .lkey = e->lkey};
	return ask(e, CALL_receive, &c);
}

int attach(struct qp *qp, const union ibv_gid *gid, bool attach)
{
	struct call c = {.u.group = {.qp = qp->ptr, .gid = *gid, .attach = attach}};

	return ask(qp->end, CALL_group, &c);
}

bool poll_cq(struct end *e, struct ibv_cq *cq, int ms, struct ibv_wc *wc)
{
	struct call c = {.u.poll = {.cq = cq, .ms = ms}};

	if (ask(e, CALL_poll, &c))
		wrong("ibv_poll_cq() failed");
	*wc = c.u.poll.wc;
	return c.u.poll.found;
}

int async_event(struct end *e, int ms, void **element)
{
	struct call c = {.u.event.ms = ms};

	ask(e, CALL_event, &c);
	*element = c.u.event.element;
	return c.u.event.type;
}

void fill(struct end *e, uint64_t offset, uint64_t length, unsigned seed)
{
	struct call c = {.u.data = {.offset = offset, .length = length, .seed = seed}};

	ask(e, CALL_fill, &c);
}

bool has_pattern(struct end *e, uint64_t offset, uint64_t length, unsigned seed)
{
	struct call c = {.u.data = {.offset = offset, .length = length, .seed = seed}};

	ask(e, CALL_compare, &c);
	return c.u.data.same;
}

void peek(struct end *e, uint64_t offset, uint32_t length, void *bytes)
{
	struct call c = {.u.data = {.offset = offset, .length = length}};

	ask(e, CALL_peek, &c);
	memcpy(bytes, c.u.data.bytes, length);
}

void poke(struct end *e, uint64_t offset, uint32_t length, const void *bytes)
{
	struct call c = {.u.data = {.offset = offset, .length = length}};

	memcpy(c.u.data.bytes, bytes, length);
	ask(e, CALL_poke, &c);
}

int cm_do(struct end *e, struct cm_call *cm)
{
	struct call c = {.u.cm = *cm};
	int error = ask(e, CALL_cm, &c);

	*cm = c.u.cm;
	return error;
}
