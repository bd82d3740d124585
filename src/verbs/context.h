/* SPDX-License-Identifier: BSD-2-Clause */
/* An open device (ibv_context). ibv_open_device() creates it, ibv_close_device() frees it. All contexts of a process
 * share one hca. */
#ifndef UROCE_VERBS_CONTEXT_H
#define UROCE_VERBS_CONTEXT_H

#include "base/config.h"
#include "base/list.h"
#include "device/device.h"
#include "device/front.h"
#include "device/listen.h"
#include "device/monitor.h"
#include "object/hca.h"
#include "object/qp.h"

struct context {
	struct verbs_context verbs; /* the application holds a pointer to its last member, `context` */
	struct device *device;
	struct hca *hca;
	uint64_t group;		  /* equal for contexts that may import each other's objects: import.c */
	_Atomic uint32_t objects; /* objects of this context that exist */
	struct monitor_user user; /* told of changes of devices */

	struct listen listen; /* addresses at which it receives datagrams */

	struct lock lock;		      /* a leaf lock; async.c */
	struct list events GUARDED_BY(&lock); /* asynchronous events not fetched yet */
};

struct mr;

static inline struct context *context_of(struct ibv_context *c)
{
	return container_of(c, struct context, verbs.context);
}

/* True if an object of one context can be imported into the other. */
static inline bool context_same(struct ibv_context *a, struct ibv_context *b)
{
	return context_of(a)->group == context_of(b)->group;
}

/* import.c: fills cmd_fd and group. 0 or -errno. */
int context_label(struct context *c);
/* pd.c: the PD with this handle, with its use count raised; NULL if there is none. */
struct pd *pd_get(struct ibv_context *c, uint32_t handle);
/* Calls use() for each PD of this process, with pds_lock held. */
void pds_each(void (*use)(struct pd *pd, void *arg), void *arg);
/* domain.c */
struct ibv_td *alloc_td(struct ibv_context *c, struct ibv_td_init_attr *attr);
int dealloc_td(struct ibv_td *td);
struct ibv_pd *alloc_parent_domain(struct ibv_context *c, struct ibv_parent_domain_init_attr *attr);
int dealloc_parent_domain(struct pd *pd);
/* dm.c */
struct ibv_dm *alloc_dm(struct ibv_context *c, struct ibv_alloc_dm_attr *attr);
int free_dm(struct ibv_dm *dm);
struct ibv_mr *reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length, unsigned access);
/* flow.c, counters.c */
struct ibv_flow *create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr);
int destroy_flow(struct ibv_flow *flow);
struct ibv_counters *create_counters(struct ibv_context *c, struct ibv_counters_init_attr *attr);
int destroy_counters(struct ibv_counters *counters);
int attach_counters(struct ibv_counters *counters, struct ibv_counter_attach_attr *attr, struct ibv_flow *flow);
int read_counters(struct ibv_counters *counters, uint64_t *value, uint32_t count, uint32_t flags);
/* wq.c */
struct ibv_wq *create_wq(struct ibv_context *c, struct ibv_wq_init_attr *attr);
int modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr);
int destroy_wq(struct ibv_wq *wq);
struct ibv_rwq_ind_table *create_rwq_ind_table(struct ibv_context *c, struct ibv_rwq_ind_table_init_attr *attr);
int destroy_rwq_ind_table(struct ibv_rwq_ind_table *table);
/* mr.c */
struct ibv_mr *alloc_null_mr(struct ibv_pd *pd);
struct mr *mr_add(struct pd *pd, void *memory, size_t length, uint64_t iova, unsigned access); /* NULL: errno */
struct mr *mr_add_kind(struct pd *pd, void *memory, size_t length, uint64_t iova, unsigned access,
		       enum memory_kind kind, union memory_handle handle);
/* Registers memory of a GPU: 0 or errno; *made is NULL if it is none. */
int add_gpu(struct mr **made, struct pd *pd, void *address, size_t length, uint64_t iova, unsigned access);
int mr_check_access(unsigned access); /* 0 or errno */
bool mr_is_import(const struct ibv_mr *mr);
/* dmabuf.c */
int dmabuf_deregister(struct mr *mr); /* 0 or -errno */
/* capabilities.c */
int query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *input,
		    struct ibv_device_attr_ex *attr, size_t size);
int query_rt_values(struct ibv_context *c, struct ibv_values_ex *values);
/* port.c */
int query_port(struct ibv_context *c, uint8_t port, struct ibv_port_attr *attr, size_t size);
/* cq.c, cq_ex.c */
int poll_cq(struct ibv_cq *cq, int entries, struct ibv_wc *wc);
int req_notify_cq(struct ibv_cq *cq, int solicited_only);
struct ibv_cq_ex *create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *attr);
int modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
void cq_delayed(struct cq *cq); /* member of hca_ops */
/* qp.c, post.c */
struct ibv_qp *create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *attr);
int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int post_send_lacking(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad); /* see struct adapter */
/* Move the QP to ERR, or destroy it, without waiting for one-sided operations that a local peer has started in our
 * memory: they may continue until show_settle(). Internal use. The second is for QPs that may be destroyed. */
void fail_qp_unsettled(struct ibv_qp *qp);
void destroy_qp_unsettled(struct ibv_qp *qp);
/* engine_place(), for internal use. */
bool post_placed(struct ibv_qp *qp, const struct iovec *from, unsigned count, uint32_t length, uint64_t address,
		 uint32_t rkey);
int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* odp.c */
int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *list,
	      uint32_t count);
/* mw.c */
struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int dealloc_mw(struct ibv_mw *mw);
/* shared_qp.c, xrcd.c */
struct ibv_qp *open_qp(struct ibv_context *c, struct ibv_qp_open_attr *attr);
struct ibv_xrcd *open_xrcd(struct ibv_context *c, struct ibv_xrcd_init_attr *attr);
int close_xrcd(struct ibv_xrcd *xrcd);
/* srq.c */
struct ibv_srq *create_srq_ex(struct ibv_context *c, struct ibv_srq_init_attr_ex *attr);
int get_srq_num(struct ibv_srq *srq, uint32_t *number);
int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* qp.c. qps_abandon() silences the QPs that the application left open; qps_fail() makes the QPs of a removed device
 * flush their requests. */
void qps_abandon(struct context *c);
void qps_fail(struct context *c);

/* unsupported.c: every operation returns EOPNOTSUPP. */
extern const struct verbs_context unsupported_ops;

/* async.c. Queues an event of the port or of the device. */
void async_event(struct context *c, enum ibv_event_type type);
/* Members of hca_ops. */
void async_cq_error(struct cq *cq);
void async_qp_event(struct qp *qp, enum ibv_event_type type);
/* Whether a number, of another process, is an event of queue pairs. */
bool async_is_of_qp(int type);
void async_srq_event(struct srq *srq, enum ibv_event_type type);
/* Call before an object is destroyed. Drops its events that are not fetched, then blocks until its fetched events are
 * acknowledged. The object must not create events any more. */
void async_forget_cq(struct context *c, struct cq *cq);
void async_forget_qp(struct context *c, struct qp *qp);
void async_forget_srq(struct context *c, struct srq *srq);
void async_forget_all(struct context *c);
/* channel.c, member of hca_ops. */
void channel_cq_event(struct cq *cq);

#endif
