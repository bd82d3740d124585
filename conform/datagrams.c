/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams: address handles, the GRH in a receive, Q_Keys, multicast; and what a port tells of itself. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <stdio.h>
#include <string.h>

#include "conform.h"
#include "states.h"

#define PLACE 65536u
#define GRH   40u
#define QKEY  0x11111111u
#define TRIES 20

/* Two ends of UD. */
struct ends {
	struct pair p;
	struct ibv_ah *ah;
};

static struct ends make_ends(void)
{
	struct ends e = {.p = make_pair(IBV_QPT_UD)};
	struct ibv_ah_attr there = address_of(near, far);

	expect_errno("ibv_create_ah", try_ah(near, &there, &e.ah), 0);
	return e;
}

static struct ibv_send_wr datagram(struct ibv_sge *sge, uint32_t length, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct ibv_send_wr wr = {
		.wr_id = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED, .sg_list = sge, .num_sge = 1};

	*sge = (struct ibv_sge){.addr = near->arena + 4096, .length = length, .lkey = near->lkey};
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = qkey;
	return wr;
}

/* Sends until one arrives. Its completion, of PLACE. */
static struct ibv_wc deliver(struct ends *e, uint32_t length, uint32_t qkey)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = datagram(&sge, length, e->ah, e->p.b.num, qkey);
	struct ibv_wc wc;

	fill(near, 4096, length, 3);
	expect_errno("ibv_post_recv", post_receive(&e->p.b, 2, PLACE, length + GRH), 0);
	for (int n = 0; n < TRIES; n++) {
		expect_errno("ibv_post_send", post(&e->p.a, &wr), 0);
		expect_status(near, e->p.a.scq, 1, IBV_WC_SUCCESS);
		if (poll_cq(far, e->p.b.rcq, 200, &wc))
			return wc;
	}
	wrong("none of %d datagrams arrives", TRIES);
}

static void grh(void)
{
	struct ends e = make_ends();
	struct ibv_wc wc = deliver(&e, 100, QKEY);
	uint8_t head[GRH];
	uint16_t sum[10];
	unsigned total = 0;

	if (near->port.link_layer != IBV_LINK_LAYER_ETHERNET)
		lacking("RoCE");
	expect("byte_len", (long)wc.byte_len, 140);
	expect("IBV_WC_GRH", (wc.wc_flags & IBV_WC_GRH) != 0, 1);
	peek(far, PLACE, GRH, head);
	if (memcmp(near->gid.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12) != 0) {
		if (head[0] >> 4 != 6 || memcmp(head + 8, near->gid.raw, 16) != 0 ||
		    memcmp(head + 24, far->gid.raw, 16) != 0)
			wrong("the GRH has version %d, or other GIDs", head[0] >> 4);
		return;
	}
	if (head[20] != 0x45)
		wrong("byte 20 is 0x%02x, not the start of an IPv4 header", head[20]);
	if (memcmp(head + 32, near->gid.raw + 12, 4) != 0 || memcmp(head + 36, far->gid.raw + 12, 4) != 0)
		wrong("the IPv4 header has other addresses");
	expect("protocol", head[29], IPPROTO_UDP);
	memcpy(sum, head + 20, sizeof(sum));
	for (int i = 0; i < 10; i++)
		total += ntohs(sum[i]);
	total = (total & 0xffff) + (total >> 16);
	total = (total & 0xffff) + (total >> 16);
	if (total != 0xffff)
		unusual("the checksum of the IPv4 header is wrong: 0x%04x", total ^ 0xffff);
}

static void ah_from_completion(void)
{
	struct ends e = make_ends();
	struct ibv_wc wc = deliver(&e, 20, QKEY);
	struct ibv_ah_attr attr;
	struct ibv_grh head;

	if (options.server)
		lacking("the far end on this host, as its device is like ours there");
	peek(far, PLACE, sizeof(head), &head);
	expect("ibv_init_ah_from_wc", ibv_init_ah_from_wc(end_context(near), 1, &wc, &head, &attr), 0);
	if (near->port.link_layer == IBV_LINK_LAYER_ETHERNET) {
		expect("is_global", attr.is_global, 1);
		if (memcmp(attr.grh.dgid.raw, near->gid.raw, 16) != 0)
			wrong("the destination is not the sender's GID");
	}
	expect("src_qp", (long)wc.src_qp, (long)e.p.a.num);
}

static void dropped(struct ends *e, struct ibv_send_wr *wr)
{
	struct ibv_wc wc;

	expect_errno("ibv_post_recv", post_receive(&e->p.b, 9, PLACE, 4096), 0);
	expect_errno("ibv_post_send", post(&e->p.a, wr), 0);
	expect_status(near, e->p.a.scq, 1, IBV_WC_SUCCESS);
	if (poll_cq(far, e->p.b.rcq, 10, &wc))
		wrong("it arrives: %s", ibv_wc_status_str(wc.status));
}

static void wrong_qkey(void)
{
	struct ends e = make_ends();
	struct ibv_sge sge;
	struct ibv_send_wr wr = datagram(&sge, 16, e.ah, e.p.b.num, QKEY + 1);

	dropped(&e, &wr);
}

static void no_queue_pair(void)
{
	struct ends e = make_ends();
	struct ibv_sge sge;
	struct ibv_send_wr wr = datagram(&sge, 16, e.ah, e.p.b.num ^ 0x40, QKEY);

	dropped(&e, &wr);
}

static void own_qkey(void)
{
	struct ends e = make_ends();
	struct ibv_qp_attr attr = attributes(&e.p.a, &e.p.b);

	attr.qkey = 0x7777;
	expect_errno("ibv_modify_qp", modify(&e.p.a, &attr, IBV_QP_QKEY), 0);
	attr.qkey = 0x7777;
	expect_errno("ibv_modify_qp", modify(&e.p.b, &attr, IBV_QP_QKEY), 0);
	deliver(&e, 16, 0x80000000); /* the sender's own */
}

static void too_long(void)
{
	struct ends e = make_ends();
	struct ibv_sge sge;
	struct ibv_send_wr wr = datagram(&sge, (128u << near->port.active_mtu) + 1, e.ah, e.p.b.num, QKEY);
	enum ibv_wc_status status;
	struct ibv_wc wc;
	int error;

	expect_errno("ibv_post_recv", post_receive(&e.p.b, 2, PLACE, 16384), 0);
	error = post(&e.p.a, &wr);
	if (error) {
		expect_errno("ibv_post_send", error, EINVAL);
		return;
	}
	status = completion(near, e.p.a.scq).status;
	if (status == IBV_WC_SUCCESS && poll_cq(far, e.p.b.rcq, 10, &wc))
		wrong("a datagram longer than the MTU arrives");
	if (status != IBV_WC_SUCCESS)
		expect("status", status, IBV_WC_LOC_LEN_ERR);
}

static void short_receive(void)
{
	struct ends e = make_ends();
	struct ibv_sge sge;
	struct ibv_send_wr wr = datagram(&sge, 64, e.ah, e.p.b.num, QKEY);
	struct ibv_wc wc;

	expect_errno("ibv_post_recv", post_receive(&e.p.b, 2, PLACE, 63 + GRH), 0);
	expect_errno("ibv_post_send", post(&e.p.a, &wr), 0);
	expect_status(near, e.p.a.scq, 1, IBV_WC_SUCCESS);
	if (poll_cq(far, e.p.b.rcq, 10, &wc) && wc.status == IBV_WC_SUCCESS)
		wrong("the receive completes: %s", ibv_wc_status_str(wc.status));
}

static int ah_with(void (*set)(struct ibv_ah_attr *))
{
	struct ibv_ah_attr attr = address_of(near, far);
	struct ibv_ah *ah;

	if (near->port.link_layer != IBV_LINK_LAYER_ETHERNET)
		lacking("RoCE");
	set(&attr);
	return try_ah(near, &attr, &ah);
}

static void expect_refused(int error)
{
	if (error != ENODATA) /* an index within the table, without a GID */
		expect_errno("ibv_create_ah", error, EINVAL);
}

#define BAD_AH(name, statement)                       \
	static void set_##name(struct ibv_ah_attr *a) \
	{                                             \
		statement;                            \
	}                                             \
	static void ah_##name(void)                   \
	{                                             \
		expect_refused(ah_with(set_##name));  \
	}
BAD_AH(no_grh, a->is_global = 0; a->dlid = 1)
BAD_AH(port, a->port_num = 9)
BAD_AH(port_0, a->port_num = 0)
BAD_AH(sgid, a->grh.sgid_index = 254)
BAD_AH(sgid_255, a->grh.sgid_index = 255)
BAD_AH(dgid_0, a->grh.dgid = (union ibv_gid){0})

static void group_of(union ibv_gid *gid)
{
	if (near->port.link_layer != IBV_LINK_LAYER_ETHERNET)
		lacking("RoCE");
	memset(gid, 0, sizeof(*gid));
	if (!memcmp(near->gid.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12)) {
		gid->raw[10] = gid->raw[11] = 0xff;
		gid->raw[12] = 239;
		gid->raw[13] = 7;
	} else {
		gid->raw[0] = 0xff;
		gid->raw[1] = 0x02;
	}
	gid->raw[14] = 3;
	gid->raw[15] = 9;
}

static void multicast(void)
{
	struct ends e = make_ends();
	struct ibv_ah_attr to = address_of(near, far);
	union ibv_gid gid;
	struct ibv_wc wc;
	int error;

	group_of(&gid);
	error = attach(&e.p.b, &gid, true);
	if (error)
		lacking("multicast: %s", errno_name(error));
	to.grh.dgid = gid;
	error = try_ah(near, &to, &e.ah);
	if (error)
		lacking("an address handle of a group: %s", errno_name(error));
	e.p.b.num = 0xffffff;
	wc = deliver(&e, 64, QKEY);
	expect("status", wc.status, IBV_WC_SUCCESS);
	if (!has_pattern(far, PLACE + GRH, 64, 3))
		wrong("other bytes arrive");
	expect_errno("ibv_detach_mcast", attach(&e.p.b, &gid, false), 0);
	error = attach(&e.p.b, &gid, false);
	if (!error)
		wrong("a group that it is not attached to can be detached");
}

static void multicast_busy(void)
{
	struct qp qp = make_qp(near, IBV_QPT_UD);
	union ibv_gid gid;
	int error;

	group_of(&gid);
	bring(&qp, &qp, IBV_QPS_RESET, IBV_QPS_RTS);
	error = attach(&qp, &gid, true);
	if (error)
		lacking("multicast: %s", errno_name(error));
	expect_errno("ibv_destroy_qp", destroy(near, qp.ptr), EBUSY);
	expect_errno("ibv_detach_mcast", attach(&qp, &gid, false), 0);
	expect_errno("ibv_destroy_qp", destroy(near, qp.ptr), 0);
}

static void multicast_refused(enum ibv_qp_type type, bool of_unicast)
{
	struct qp qp = make_qp(near, type);
	union ibv_gid gid;
	int error;

	group_of(&gid);
	bring(&qp, &qp, IBV_QPS_RESET, IBV_QPS_RTS);
	error = attach(&qp, of_unicast ? &near->gid : &gid, true);
	if (error == EOPNOTSUPP || error == ENOSYS)
		lacking("multicast: %s", errno_name(error));
	expect_errno("ibv_attach_mcast", error, EINVAL);
}

static void multicast_of_rc(void)
{
	multicast_refused(IBV_QPT_RC, false);
}

static void multicast_of_unicast(void)
{
	multicast_refused(IBV_QPT_UD, true);
}

static void port_on_ethernet(void)
{
	if (near->port.link_layer != IBV_LINK_LAYER_ETHERNET)
		lacking("RoCE");
	expect("lid", near->port.lid, 0);
	expect("sm_lid", near->port.sm_lid, 0);
	expect("state", near->port.state, IBV_PORT_ACTIVE);
	if (near->port.active_mtu > near->port.max_mtu || near->port.active_mtu < IBV_MTU_256)
		wrong("active_mtu is %d, max_mtu %d", near->port.active_mtu, near->port.max_mtu);
}

static void no_such_port(void)
{
	struct ibv_port_attr attr;
	int error;

	errno = 0;
	error = ibv_query_port(end_context(near), 0, &attr);
	if (!error)
		wrong("port 0 can be queried");
	expect_errno("ibv_query_port of 0", error > 0 ? error : errno, EINVAL);
	errno = 0;
	error = ibv_query_port(end_context(near), (uint8_t)(near->attr.phys_port_cnt + 1), &attr);
	if (!error)
		wrong("a port above phys_port_cnt can be queried");
}

static void gid_table(void)
{
	struct ibv_gid_entry entries[256];
	ssize_t n = ibv_query_gid_table(end_context(near), entries, COUNT(entries), 0);
	union ibv_gid gid;

	if (n < 1)
		wrong("ibv_query_gid_table() returns %d", (int)n);
	for (ssize_t i = 0; i < n; i++) {
		if (entries[i].port_num != 1)
			continue;
		if (entries[i].gid_index >= (uint32_t)near->port.gid_tbl_len)
			wrong("index %u, of %d", entries[i].gid_index, near->port.gid_tbl_len);
		expect("ibv_query_gid", ibv_query_gid(end_context(near), 1, (int)entries[i].gid_index, &gid), 0);
		if (memcmp(&gid, &entries[i].gid, sizeof(gid)) != 0)
			wrong("ibv_query_gid() of index %u differs", entries[i].gid_index);
	}
	if (!ibv_query_gid(end_context(near), 1, near->port.gid_tbl_len, &gid))
		wrong("index gid_tbl_len can be queried");
}

static void pkey_table(void)
{
	__be16 pkey = 0;

	if (!near->attr.max_pkeys)
		lacking("P_Keys");
	expect("ibv_query_pkey", ibv_query_pkey(end_context(near), 1, 0, &pkey), 0);
	expect("P_Key 0", ntohs(pkey), 0xffff);
	if (!ibv_query_pkey(end_context(near), 1, near->port.pkey_tbl_len, &pkey))
		wrong("index pkey_tbl_len can be queried");
}

static const struct row rows[] = {
	{"ud/grh", "IBTA A17.4.5.1, 11.4.2.1: the IPv4 header in the last 20 of 40 bytes", "a datagram of 100 bytes",
	 "byte_len 140; addresses, protocol and checksum in the head", grh},
	{"ud/ah-from-wc", "ibv_init_ah_from_wc(3)", "an address from a completion and its GRH", "the sender's GID",
	 ah_from_completion},
	{"ud/wrong-qkey", "IBTA 9.6.1.4.2, 10.2.5: dropped", "a datagram with another Q_Key", "nothing arrives",
	 wrong_qkey},
	{"ud/no-qp", "IBTA 9.6.1.1.1: dropped", "a datagram to a number that there is not", "nothing arrives",
	 no_queue_pair},
	{"ud/own-qkey", "IBTA 10.2.5, 11.4.1.1: bit 31", "remote_qkey 0x80000000; both have another Q_Key",
	 "it arrives", own_qkey},
	{"ud/too-long", "IBTA C10-93.1.1: no packet, no error; adapters have LOC_LEN_ERR",
	 "a datagram of MTU + 1 bytes", "nothing arrives; success, LOC_LEN_ERR or EINVAL", too_long},
	{"ud/short-receive", "IBTA 9.8.3.2, 10.2.9", "a datagram longer than its receive", "no success there",
	 short_receive},
	{"ah/no-grh", "Linux core/verbs.c: rdma_check_ah_attr()", "an address handle without a GRH", "EINVAL",
	 ah_no_grh},
	{"ah/port-high", "Linux core/verbs.c: rdma_check_ah_attr()", "an address handle of port 9", "EINVAL", ah_port},
	{"ah/port-0", "Linux core/verbs.c: rdma_check_ah_attr()", "an address handle of port 0", "EINVAL", ah_port_0},
	{"ah/sgid-254", "Linux core/verbs.c: rdma_fill_sgid_attr()", "an address handle with sgid_index 254", "EINVAL",
	 ah_sgid},
	{"ah/sgid-255", "Linux core/verbs.c: rdma_fill_sgid_attr()", "an address handle with sgid_index 255", "EINVAL",
	 ah_sgid_255},
	{"ah/dgid-0", "Linux core/verbs.c: ib_resolve_unicast_gid_dmac()", "an address handle to GID 0", "EINVAL",
	 ah_dgid_0},
	{"group/send", "IBTA 10.5.2; ibv_attach_mcast(3)", "attach, send to the group, detach, detach again",
	 "it arrives; the last is an error", multicast},
	{"group/busy", "ibv_destroy_qp(3): EBUSY", "destroy a queue pair that is attached", "EBUSY", multicast_busy},
	{"group/rc", "Linux core/verbs.c: ib_attach_mcast()", "attach a queue pair of RC", "EINVAL", multicast_of_rc},
	{"group/unicast", "Linux core/verbs.c: ib_attach_mcast()", "attach to an address that is no group", "EINVAL",
	 multicast_of_unicast},
	{"port/ethernet", "IBTA A17; Linux: RoCE has no LIDs", "the attributes of a port", "no LID; MTUs",
	 port_on_ethernet},
	{"port/none", "ibv_query_port(3); Linux core/device.c: ib_query_port()", "query port 0, and one above the last",
	 "EINVAL", no_such_port},
	{"port/gids", "ibv_query_gid_table(3), ibv_query_gid(3)", "the table of GIDs",
	 "both functions agree; none beyond its length", gid_table},
	{"port/pkeys", "ibv_query_pkey(3); IBTA 10.9.1", "the table of P_Keys", "0xffff first; none beyond its length",
	 pkey_table},
	{0},
};

struct group datagrams_group = {"datagrams", .rows = rows};
