/* SPDX-License-Identifier: BSD-2-Clause */
/* The two ends of a check: `near` is open in the process of the check, `far` in another process, on another host, or in
 * the same process. Each call below works on either. Pointers to objects are those of the process that has the end. */
#ifndef CONFORM_END_H
#define CONFORM_END_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define ARENA	  (8u << 20) /* bytes of memory of each end, registered with all rights that it has */
#define CALL_SGES 32
#define CALL_DATA 1024

struct here; /* an end that is open in this process */

struct end {
	struct here *here; /* or NULL: */
	int fd;		   /* socket of the process that serves it */
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	union ibv_gid gid;
	union ibv_gid gid6; /* of RoCE v2, an IPv6 address of more than a link; zeros: none */
	uint8_t gid_index;
	uint64_t arena; /* address */
	uint32_t lkey, rkey;
	struct ibv_pd *pd;
};
extern struct end *const near, *const far;

struct qp {
	struct end *end;
	struct ibv_qp *ptr;
	enum ibv_qp_type type;
	uint32_t num, psn; /* psn: the first of its send queue */
	struct ibv_qp_cap cap;
	struct ibv_cq *scq, *rcq;
};

/* Opens an end; `fd`: -1, or the socket to its process. Returns the reason of a failure, or NULL. */
const char *end_open(struct end *end, int fd);
/* Serves the calls that come by a socket until it is closed. */
void end_serve(int fd);
/* Destroys all that was made since it was opened. */
void end_reset(struct end *end);
/* Ends the process of an end by SIGKILL; the next check has another. lacking() if it is this one. */
void end_kill(struct end *end);
bool end_is_dead(const struct end *end);
/* Objects of an end in this process. */
struct ibv_context *end_context(struct end *end);
/* An object of this process that end_reset() is to destroy. */
void end_keep(struct end *end, void *object, int (*destroy)(void *));
#define KEEP(end, object, destroy) end_keep(end, object, (int (*)(void *))(destroy))

/* 0 or errno. */
int try_cq(struct end *end, int depth, struct ibv_cq **cq);
int try_qp(struct qp *qp, struct end *end, const struct ibv_qp_init_attr *init);
int try_srq(struct end *end, struct ibv_srq_init_attr *init, struct ibv_srq **srq);
/* Of XRC: with the CQ of its receives. */
int try_xrc_srq(struct end *end, const struct ibv_srq_attr *attr, struct ibv_cq *cq, struct ibv_srq **srq,
		uint32_t *num);
int try_mr(struct end *end, uint64_t offset, uint64_t length, int access, struct ibv_mr **mr, uint32_t *lkey,
	   uint32_t *rkey);
/* A region of its own of that many bytes, in zeros. */
int try_big(struct end *end, uint64_t length, int access, uint64_t *address, uint32_t *lkey, uint32_t *rkey);
int try_rereg(struct end *end, struct ibv_mr *mr, int flags, uint64_t offset, uint64_t length, int access,
	      uint32_t *rkey);
int try_mw(struct end *end, enum ibv_mw_type type, struct ibv_mw **mw, uint32_t *rkey);
int bind_mw(struct qp *qp, struct ibv_mw *mw, struct ibv_mr *mr, uint64_t wr_id, uint64_t offset, uint64_t length,
	    int access, uint32_t *rkey);
int try_ah(struct end *end, const struct ibv_ah_attr *attr, struct ibv_ah **ah);
int destroy(struct end *end, void *object);
int modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask);
int query(struct qp *qp, struct ibv_qp_attr *attr);
int modify_srq(struct end *end, struct ibv_srq *srq, const struct ibv_srq_attr *attr, int mask);
int query_srq(struct end *end, struct ibv_srq *srq, struct ibv_srq_attr *attr);
/* One work request, with at most CALL_SGES SGEs; as much inline data as lies in the arena. */
int post(struct qp *qp, const struct ibv_send_wr *wr);
int post_receive(struct qp *qp, uint64_t wr_id, uint64_t offset, uint32_t length);
int post_receive_sges(struct qp *qp, uint64_t wr_id, struct ibv_sge *sges, int count);
int post_srq(struct end *end, struct ibv_srq *srq, uint64_t wr_id, uint64_t offset, uint32_t length);
int attach(struct qp *qp, const union ibv_gid *gid, bool attach);
int resize(struct end *end, struct ibv_cq *cq, int depth);

/* Waits up to that many ms for a completion. False if none came. */
bool poll_cq(struct end *end, struct ibv_cq *cq, int ms, struct ibv_wc *wc);
/* Waits up to that many ms for an asynchronous event of the end. Its type, or NO_EVENT. */
int async_event(struct end *end, int ms, void **element);
enum { NO_EVENT = -1 };

/* Bytes of the arena: fills them with a pattern; true if they have it. */
void fill(struct end *end, uint64_t offset, uint64_t length, unsigned seed);
bool has_pattern(struct end *end, uint64_t offset, uint64_t length, unsigned seed);
void peek(struct end *end, uint64_t offset, uint32_t length, void *bytes);
void poke(struct end *end, uint64_t offset, uint32_t length, const void *bytes);

#endif
