/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/local.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "check/scope.h"
#include "cm/id.h"
#include "rsocket/tuned.h"
#include "rsocket/waiter.h"

#define GRH  40
#define SLOT 2112	/* GRH, header, data; whole cache lines */
#define QKEY 0x01234567 /* of RDMA_PS_UDP: RDMA_UDP_QKEY */

static_assert(SLOT >= GRH + sizeof(struct rs_header) + RS_DATAGRAM_MOST && SLOT % 64 == 0, "it all fits");

/* ---- names ---- */

int name_get(struct name *name, const struct sockaddr *from, socklen_t length)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)from;

	*name = (struct name){0};
	if (!from || length < sizeof(from->sa_family))
		return -EINVAL;
	if (from->sa_family == AF_INET && length >= sizeof(*v4)) {
		name->port = v4->sin_port;
		name->ip[10] = name->ip[11] = 0xff;
		memcpy(name->ip + 12, &v4->sin_addr, 4);
		return 0;
	}
	if (from->sa_family != AF_INET6)
		return from->sa_family == AF_INET ? -EINVAL : -EAFNOSUPPORT;
	if (length < sizeof(*v6))
		return -EINVAL;
	name->port = v6->sin6_port;
	name->scope = v6->sin6_scope_id;
	memcpy(name->ip, &v6->sin6_addr, 16);
	return 0;
}

socklen_t name_put(const struct name *name, int domain, struct sockaddr_storage *to)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)to;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)to;

	memset(to, 0, sizeof(*to));
	to->ss_family = (sa_family_t)domain;
	if (domain == AF_INET) {
		v4->sin_port = name->port;
		memcpy(&v4->sin_addr, name->ip + 12, 4);
		return sizeof(*v4);
	}
	v6->sin6_port = name->port;
	v6->sin6_scope_id = name->scope;
	memcpy(&v6->sin6_addr, name->ip, 16);
	return sizeof(*v6);
}

bool name_is_v4(const struct name *name)
{
	static const uint8_t mapped[12] = {[10] = 0xff, 0xff};

	return !memcmp(name->ip, mapped, sizeof(mapped));
}

bool name_is_any(const struct name *name)
{
	static const uint8_t zeros[16];

	return name_is_v4(name) ? !memcmp(name->ip + 12, zeros, 4) : !memcmp(name->ip, zeros, 16);
}

bool name_is(const struct name *a, const struct name *b)
{
	return a->port == b->port && !memcmp(a->ip, b->ip, sizeof(a->ip));
}

/* ---- making ---- */

/* As many as the options for the sizes of buffers and queues allow. */
static uint32_t local_slots(uint32_t bytes, uint32_t most)
{
	return max_of(min_of(bytes / RS_DATAGRAM_MOST, most), (uint32_t)SLOTS_LEAST);
}

static int make_id(struct local *local)
{
	struct sockaddr_storage ss;
	struct name name = local->name;

	name.port = 0;
	name_put(&name, name_is_v4(&name) ? AF_INET : AF_INET6, &ss);
	if (rdma_create_id(NULL, &local->id, NULL, RDMA_PS_UDP) || rdma_bind_addr(local->id, (struct sockaddr *)&ss))
		return -errno;
	/* of the loopback's addresses, binding does not tell the device */
	return id_set_device(id_of(local->id));
}

static int ask_port(struct local *local)
{
	struct ibv_port_attr port;
	union ibv_gid gid;

	if (ibv_query_port(local->id->verbs, PORT, &port))
		return -ENODEV;
	local->mtu = 128u << port.active_mtu;
	for (local->gid_index = 0; local->gid_index < port.gid_tbl_len; local->gid_index++)
		if (!ibv_query_gid(local->id->verbs, PORT, local->gid_index, &gid) && !memcmp(&gid, local->name.ip, 16))
			return 0;
	return -EADDRNOTAVAIL;
}

static int local_make_memory(struct local *local)
{
	local->bytes = (size_t)(local->receives + local->sends) * SLOT;
	local->memory = mmap(NULL, local->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (local->memory == MAP_FAILED) {
		local->memory = NULL;
		return -errno;
	}
	local->mr = ibv_reg_mr(local->id->pd, local->memory, local->bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!local->mr)
		return -errno;
	local->arrivals = calloc(local->receives, sizeof(*local->arrivals));
	local->free = calloc(local->sends, sizeof(*local->free));
	return local->arrivals && local->free ? 0 : -ENOMEM;
}

static int local_make_qp(struct local *local, struct rsocket *rs)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
		.cap = {.max_send_wr = local->sends,
			.max_recv_wr = local->receives,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};

	local->cq = ibv_create_cq(local->id->verbs, (int)(local->sends + local->receives), rs, NULL, 0);
	if (!local->cq)
		return -errno;
	((struct cq *)local->cq)->notify = rsocket_notify;
	attr.send_cq = attr.recv_cq = local->cq;
	return rdma_create_qp(local->id, NULL, &attr) ? -errno : 0;
}

static void local_fill(struct local *local)
{
	for (uint32_t i = 0; i < local->receives; i++) {
		local->arrivals[i].local = local;
		list_init(&local->arrivals[i].link);
		local_post_receive(local, i);
	}
	while (local->frees < local->sends) {
		local->free[local->frees] = local->frees;
		local->frees++;
	}
}

int local_make(struct rsocket *rs, const struct name *own, struct local **to) REQUIRES(rs->lock)
{
	struct local *local = calloc(1, sizeof(*local));
	int err;

	if (!local)
		return -ENOMEM;
	local->name = *own;
	local->receives = local_slots(rs->rx_bytes, rs->rq_size);
	local->sends = local_slots(rs->tx_bytes, rs->sq_size);
	check_pause();
	err = make_id(local) ?: ask_port(local) ?: local_make_memory(local) ?: local_make_qp(local, rs);
	check_resume();
	if (err) {
		local_free(local);
		return err;
	}
	local_fill(local);
	*to = local;
	return 0;
}

void local_free(struct local *local)
{
	if (local->id && local->id->qp)
		rdma_destroy_qp(local->id);
	if (local->cq)
		ibv_destroy_cq(local->cq);
	if (local->mr)
		ibv_dereg_mr(local->mr);
	if (local->memory)
		munmap(local->memory, local->bytes);
	if (local->id)
		rdma_destroy_id(local->id);
	free(local->arrivals);
	free(local->free);
	free(local);
}

struct ibv_ah *local_ah(struct local *local, const struct name *to, uint8_t tos)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = PORT,
		.grh = {.sgid_index = (uint8_t)local->gid_index, .hop_limit = 64, .traffic_class = tos},
	};

	struct ibv_ah *ah;

	memcpy(&attr.grh.dgid, to->ip, 16);
	check_pause();
	ah = ibv_create_ah(local->id->pd, &attr);
	check_resume();
	return ah;
}

/* ---- sending and receiving ---- */

static uint32_t local_header_bytes(const struct local *local)
{
	return name_is_v4(&local->name) ? RS_V4_BYTES : RS_V6_BYTES;
}

bool local_fits(const struct local *local, size_t length)
{
	return local_header_bytes(local) + length <= local->mtu;
}

static uint32_t put_header(const struct local *local, uint8_t *to)
{
	struct rs_header h = {.version = name_is_v4(&local->name) ? 4 : 6,
			      .length = (uint8_t)local_header_bytes(local)};

	h.port.raw = local->name.port;
	if (h.version == 4)
		memcpy(h.v4, local->name.ip + 12, 4);
	else
		memcpy(h.v6.address, local->name.ip, 16);
	memcpy(to, &h, h.length);
	return h.length;
}

int local_send(struct local *local, struct ibv_ah *ah, uint32_t qpn, const struct iovec *iov, int count)
{
	uint32_t slot = local->free[local->frees - 1];
	uint8_t *at = local->memory + (size_t)(local->receives + slot) * SLOT;
	struct ibv_sge sge = {.addr = (uintptr_t)at, .length = put_header(local, at), .lkey = local->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = LOCAL_SEND | slot,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .wr.ud = {ah, qpn, QKEY}},
			   *bad;
	int error;

	for (int i = 0; i < count; i++) {
		memcpy(at + sge.length, iov[i].iov_base, iov[i].iov_len);
		sge.length += (uint32_t)iov[i].iov_len;
	}
	error = ibv_post_send(local->id->qp, &wr, &bad);
	if (!error)
		local->frees--;
	return -error;
}

void local_post_receive(struct local *local, uint32_t slot)
{
	struct ibv_sge sge = {(uintptr_t)(local->memory + (size_t)slot * SLOT), SLOT, local->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;

	ibv_post_recv(local->id->qp, &wr, &bad);
}

bool local_parse(struct local *local, struct arrival *a, uint32_t bytes)
{
	const uint8_t *at = local->memory + (size_t)(a - local->arrivals) * SLOT + GRH;
	struct rs_header h;

	if (bytes < GRH || !rs_read_header(&h, at, bytes - GRH))
		return false;
	bytes -= GRH;
	a->name = (struct name){.port = h.port.raw, .scope = local->name.scope};
	if (h.version == 4) {
		a->name.ip[10] = a->name.ip[11] = 0xff;
		memcpy(a->name.ip + 12, h.v4, 4);
	} else {
		memcpy(a->name.ip, h.v6.address, 16);
	}
	a->data = at + h.length;
	a->length = bytes - h.length;
	return true;
}
