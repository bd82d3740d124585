/* SPDX-License-Identifier: BSD-2-Clause */
/* Conversions from and to the structs of the kernel's user interface, for programs that use that interface directly. */
#include <infiniband/sa.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <string.h>

#include "device/front.h"

/* Public in the library, but in no header of libibverbs-dev. */
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *dst, struct ib_uverbs_ah_attr *src);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst, struct ib_user_path_rec *src);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst, struct ibv_sa_path_rec *src);

PUBLIC void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *dst, struct ib_uverbs_ah_attr *src)
{
	*dst = (struct ibv_ah_attr){
		.grh.flow_label = src->grh.flow_label,
		.grh.sgid_index = src->grh.sgid_index,
		.grh.hop_limit = src->grh.hop_limit,
		.grh.traffic_class = src->grh.traffic_class,
		.dlid = src->dlid,
		.sl = src->sl,
		.src_path_bits = src->src_path_bits,
		.static_rate = src->static_rate,
		.is_global = src->is_global,
		.port_num = src->port_num,
	};
	memcpy(dst->grh.dgid.raw, src->grh.dgid, sizeof(dst->grh.dgid.raw));
}

PUBLIC void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src)
{
	*dst = (struct ibv_qp_attr){
		.qp_state = src->qp_state,
		.cur_qp_state = src->cur_qp_state,
		.path_mtu = src->path_mtu,
		.path_mig_state = src->path_mig_state,
		.qkey = src->qkey,
		.rq_psn = src->rq_psn,
		.sq_psn = src->sq_psn,
		.dest_qp_num = src->dest_qp_num,
		.qp_access_flags = src->qp_access_flags,
		.cap = {src->max_send_wr, src->max_recv_wr, src->max_send_sge, src->max_recv_sge, src->max_inline_data},
		.pkey_index = src->pkey_index,
		.alt_pkey_index = src->alt_pkey_index,
		.en_sqd_async_notify = src->en_sqd_async_notify,
		.sq_draining = src->sq_draining,
		.max_rd_atomic = src->max_rd_atomic,
		.max_dest_rd_atomic = src->max_dest_rd_atomic,
		.min_rnr_timer = src->min_rnr_timer,
		.port_num = src->port_num,
		.timeout = src->timeout,
		.retry_cnt = src->retry_cnt,
		.rnr_retry = src->rnr_retry,
		.alt_port_num = src->alt_port_num,
		.alt_timeout = src->alt_timeout,
	};
	ibv_copy_ah_attr_from_kern(&dst->ah_attr, &src->ah_attr);
	ibv_copy_ah_attr_from_kern(&dst->alt_ah_attr, &src->alt_ah_attr);
}

/* All fields of a path record but its GIDs have the same names at both ends. */
#define COPY_PATH_FIELDS(dst, src)                                                   \
	do {                                                                         \
		(dst)->dlid = (src)->dlid;                                           \
		(dst)->slid = (src)->slid;                                           \
		(dst)->raw_traffic = (src)->raw_traffic;                             \
		(dst)->flow_label = (src)->flow_label;                               \
		(dst)->hop_limit = (src)->hop_limit;                                 \
		(dst)->traffic_class = (src)->traffic_class;                         \
		(dst)->reversible = (src)->reversible;                               \
		(dst)->numb_path = (src)->numb_path;                                 \
		(dst)->pkey = (src)->pkey;                                           \
		(dst)->sl = (src)->sl;                                               \
		(dst)->mtu_selector = (src)->mtu_selector;                           \
		(dst)->mtu = (uint8_t)(src)->mtu;                                    \
		(dst)->rate_selector = (src)->rate_selector;                         \
		(dst)->rate = (src)->rate;                                           \
		(dst)->packet_life_time_selector = (src)->packet_life_time_selector; \
		(dst)->packet_life_time = (src)->packet_life_time;                   \
		(dst)->preference = (src)->preference;                               \
	} while (0)

PUBLIC void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst, struct ib_user_path_rec *src)
{
	memcpy(dst->dgid.raw, src->dgid, sizeof(dst->dgid.raw));
	memcpy(dst->sgid.raw, src->sgid, sizeof(dst->sgid.raw));
	COPY_PATH_FIELDS(dst, src);
}

PUBLIC void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst, struct ibv_sa_path_rec *src)
{
	memcpy(dst->dgid, src->dgid.raw, sizeof(src->dgid.raw));
	memcpy(dst->sgid, src->sgid.raw, sizeof(src->sgid.raw));
	COPY_PATH_FIELDS(dst, src);
}
