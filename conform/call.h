/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of an end, from the process of the check to the one that has the end open. A call has its results behind it. */
#ifndef CONFORM_CALL_H
#define CONFORM_CALL_H

#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include "cm.h"
#include "end.h"

/* A call and, after it, its results. */
struct call {
	unsigned op;
	union {
		struct {
			char device[64];
			int gid_wanted;
			struct end end;
		} open;
		struct {
			int depth;
			struct ibv_cq *cq;
		} cq;
		struct {
			struct ibv_qp *qp;
			struct ibv_qp_init_attr init;
			uint32_t num;
		} qp;
		struct {
			struct ibv_srq *srq;
			struct ibv_srq_init_attr init;
			int mask;
			struct ibv_cq *cq; /* of XRC */
			uint32_t num;
		} srq;
		struct {
			uint64_t offset, length;
			struct ibv_mr *mr;
			int access, flags;
			uint32_t lkey, rkey;
		} mr;
		struct {
			struct ibv_mw *mw;
			struct ibv_qp *qp;
			struct ibv_mw_bind bind;
			enum ibv_mw_type type;
			uint32_t rkey;
		} mw;
		struct {
			struct ibv_ah *ah;
			struct ibv_ah_attr attr;
		} ah;
		struct {
			void *object;
		} destroy;
		struct {
			struct ibv_qp *qp;
			struct ibv_qp_attr attr;
			int mask;
		} modify;
		struct {
			struct ibv_qp *qp;
			struct ibv_send_wr wr;
			struct ibv_sge sges[CALL_SGES];
		} send;
		struct {
			struct ibv_qp *qp;
			struct ibv_srq *srq;
			uint64_t wr_id;
			struct ibv_sge sges[CALL_SGES];
			int count;
		} receive;
		struct {
			struct ibv_qp *qp;
			union ibv_gid gid;
			bool attach;
		} group;
		struct {
			struct ibv_cq *cq;
			int ms;
			bool found;
			struct ibv_wc wc;
		} poll;
		struct {
			int ms, type;
			void *element;
		} event;
		struct {
			uint64_t offset, length;
			unsigned seed;
			bool same;
			uint8_t bytes[CALL_DATA];
		} data;
		struct cm_call cm;
	} u;
};

/* NAME of a call, and do_NAME() */
/* clang-format off */
#define CALLS(X) \
	X(open) X(reset) X(cq) X(resize) X(qp) X(srq) X(xrc_srq) X(modify_srq) X(query_srq) X(mr) X(rereg) X(mw) X(bind) \
	X(ah) X(destroy) X(modify) X(query) X(send) X(receive) X(group) X(poll) X(event) X(fill) X(compare) X(peek) X(poke) \
	X(cm) X(die) X(big)
/* clang-format on */
#define CALL_NUMBER(name) CALL_##name,

enum { CALLS(CALL_NUMBER) CALL_COUNT };

#define KEPT 20000

/* An end that is open in this process. */
struct here {
	struct rdma_event_channel *channel; /* of librdmacm, or NULL */
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
	uint8_t *arena;
	struct {
		void *object;
		int (*destroy)(void *);
	} kept[KEPT];
	unsigned kept_count;
};

/* Does a call here. 0 or errno. */
int here_call(struct here *h, struct call *c);
void here_keep(struct here *h, void *object, int (*destroy)(void *));
int here_cm(struct here *h, struct cm_call *c);

#endif
