/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers to `rdma resource` and `rdma statistic`: the objects of all processes of this user in this network
 * namespace, from the records for `uroce stat` (base/stat_file.h), and the counters of ports, as in /sys. */
#include "sysfs/resource.h"

#include <rdma/rdma_netlink.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/base.h"
#include "base/address.h"
#include "base/control_call.h"
#include "base/stat_read.h"
#include "sysfs/face.h"

#define ENTRY_ROOM 1536 /* max bytes of an entry of a table */
#define SRQ_QPS	   16	/* max QPs listed with an SRQ */

/* Conversion of one kind of rows. */
struct resource {
	enum stat_kind kind;
	size_t row;  /* bytes */
	uint16_t id; /* attribute with the number of an object */
	uint16_t table, entry;
	void (*put)(struct message *m, const void *row);
	uint32_t (*number)(const void *row); /* number of the object */
	void (*put_others)(struct message *m, const struct stat_process *p,
			   const void *row); /* adds the numbers of related objects */
};

static uint32_t first_device(const void *row)
{
	return *(const uint32_t *)row; /* each kind begins with the device's number */
}

static void put_qp(struct message *m, const void *row)
{
	const struct stat_qp *q = row;

	put_u32(m, RDMA_NLDEV_ATTR_PORT_INDEX, 1);
	put_u32(m, RDMA_NLDEV_ATTR_RES_LQPN, q->qpn);
	if (q->remote_qpn) {
		put_u32(m, RDMA_NLDEV_ATTR_RES_RQPN, q->remote_qpn);
		put_u32(m, RDMA_NLDEV_ATTR_RES_RQ_PSN, q->expected);
	}
	put_u32(m, RDMA_NLDEV_ATTR_RES_SQ_PSN, q->next);
	put_u8(m, RDMA_NLDEV_ATTR_RES_TYPE, q->type);
	put_u8(m, RDMA_NLDEV_ATTR_RES_STATE, q->state);
	if (q->pd != STAT_UNKNOWN)
		put_u32(m, RDMA_NLDEV_ATTR_RES_PDN, q->pd);
}

static uint32_t qp_number(const void *row)
{
	return ((const struct stat_qp *)row)->qpn;
}

static void put_cq(struct message *m, const void *row)
{
	const struct stat_cq *c = row;

	put_u32(m, RDMA_NLDEV_ATTR_RES_CQE, c->depth);
	put_u64(m, RDMA_NLDEV_ATTR_RES_USECNT, c->users);
	put_u32(m, RDMA_NLDEV_ATTR_RES_CQN, c->handle);
}

static uint32_t cq_number(const void *row)
{
	return ((const struct stat_cq *)row)->handle;
}

static void put_mr(struct message *m, const void *row)
{
	const struct stat_mr *r = row;

	put_u32(m, RDMA_NLDEV_ATTR_RES_RKEY, r->key);
	put_u32(m, RDMA_NLDEV_ATTR_RES_LKEY, r->lkey);
	put_u64(m, RDMA_NLDEV_ATTR_RES_MRLEN, r->length);
	put_u32(m, RDMA_NLDEV_ATTR_RES_MRN, r->key >> 8);
	put_u32(m, RDMA_NLDEV_ATTR_RES_PDN, r->pd);
}

static uint32_t mr_number(const void *row)
{
	return ((const struct stat_mr *)row)->key >> 8;
}

static void put_pd(struct message *m, const void *row)
{
	const struct stat_pd *d = row;

	put_u64(m, RDMA_NLDEV_ATTR_RES_USECNT, d->users);
	put_u32(m, RDMA_NLDEV_ATTR_RES_PDN, d->handle);
}

static uint32_t pd_number(const void *row)
{
	return ((const struct stat_pd *)row)->handle;
}

static void put_context(struct message *m, const void *row)
{
	put_u32(m, RDMA_NLDEV_ATTR_RES_CTXN, ((const struct stat_context *)row)->number);
}

static uint32_t context_number(const void *row)
{
	return ((const struct stat_context *)row)->number;
}

static void put_srq(struct message *m, const void *row)
{
	const struct stat_srq *s = row;

	put_u32(m, RDMA_NLDEV_ATTR_RES_SRQN, s->number);
	put_u8(m, RDMA_NLDEV_ATTR_RES_TYPE, s->type);
	put_u32(m, RDMA_NLDEV_ATTR_RES_PDN, s->pd);
	if (s->cq != STAT_UNKNOWN)
		put_u32(m, RDMA_NLDEV_ATTR_RES_CQN, s->cq);
}

/* Adds the table of QPs; rdma(8) has room for 256 characters. */
static void put_srq_qps(struct message *m, const struct stat_process *p, const void *row)
{
	uint32_t table = nest_begin(m, RDMA_NLDEV_ATTR_RES_QP), entry, room = SRQ_QPS;
	size_t n;
	const struct stat_qp *q = stat_qps(p, &n);

	for (size_t i = 0; i < n && room; i++) {
		if (q[i].srq != ((const struct stat_srq *)row)->number)
			continue;
		entry = nest_begin(m, RDMA_NLDEV_ATTR_RES_QP_ENTRY);
		put_u32(m, RDMA_NLDEV_ATTR_RES_LQPN, q[i].qpn);
		nest_end(m, entry);
		room--;
	}
	nest_end(m, table);
}

static uint32_t srq_number(const void *row)
{
	return ((const struct stat_srq *)row)->number;
}

static void put_address(struct message *m, uint16_t type, const uint8_t gid[16], uint16_t port)
{
	struct sockaddr_storage room;

	gid_to_sockaddr(gid, port, &room);
	netlink_put(m, type, &room, sizeof(room));
}

/* enum rdma_cm_state of the kernel for an enum id_state. */
static uint8_t cm_state(const struct stat_id *d)
{
	static const uint8_t state[] = {0, 7, 8, 1, 2, 4, 5, 9};
	bool ends = d->connection >= 8; /* CM_DREQ_SENT of cm/state.h, and later states */

	return ends ? 6 : d->state < ARRAY_SIZE(state) ? state[d->state] : 0;
}

static void put_id(struct message *m, const void *row)
{
	const struct stat_id *d = row;

	put_u32(m, RDMA_NLDEV_ATTR_PORT_INDEX, 1);
	if (d->qpn)
		put_u32(m, RDMA_NLDEV_ATTR_RES_LQPN, d->qpn);
	put_u8(m, RDMA_NLDEV_ATTR_RES_TYPE, d->port_space == 0x0111 || d->port_space == 0x0002 ? 4 : 2); /* UD, RC */
	put_u8(m, RDMA_NLDEV_ATTR_RES_STATE, cm_state(d));
	put_u32(m, RDMA_NLDEV_ATTR_RES_PS, d->port_space);
	put_address(m, RDMA_NLDEV_ATTR_RES_SRC_ADDR, d->local, d->local_port);
	if (d->remote_port)
		put_address(m, RDMA_NLDEV_ATTR_RES_DST_ADDR, d->remote, d->remote_port);
}

static const struct resource resources[RDMA_NLDEV_NUM_OPS] = {
	[RDMA_NLDEV_CMD_RES_QP_GET] = {STAT_QP, sizeof(struct stat_qp), RDMA_NLDEV_ATTR_RES_LQPN,
				       RDMA_NLDEV_ATTR_RES_QP, RDMA_NLDEV_ATTR_RES_QP_ENTRY, put_qp, qp_number},
	[RDMA_NLDEV_CMD_RES_CQ_GET] = {STAT_CQ, sizeof(struct stat_cq), RDMA_NLDEV_ATTR_RES_CQN, RDMA_NLDEV_ATTR_RES_CQ,
				       RDMA_NLDEV_ATTR_RES_CQ_ENTRY, put_cq, cq_number},
	[RDMA_NLDEV_CMD_RES_MR_GET] = {STAT_MR, sizeof(struct stat_mr), RDMA_NLDEV_ATTR_RES_MRN, RDMA_NLDEV_ATTR_RES_MR,
				       RDMA_NLDEV_ATTR_RES_MR_ENTRY, put_mr, mr_number},
	[RDMA_NLDEV_CMD_RES_PD_GET] = {STAT_PD, sizeof(struct stat_pd), RDMA_NLDEV_ATTR_RES_PDN, RDMA_NLDEV_ATTR_RES_PD,
				       RDMA_NLDEV_ATTR_RES_PD_ENTRY, put_pd, pd_number},
	[RDMA_NLDEV_CMD_RES_CM_ID_GET] = {STAT_ID, sizeof(struct stat_id), 0, RDMA_NLDEV_ATTR_RES_CM_ID,
					  RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY, put_id, NULL},
	[RDMA_NLDEV_CMD_RES_CTX_GET] = {STAT_CONTEXT, sizeof(struct stat_context), RDMA_NLDEV_ATTR_RES_CTXN,
					RDMA_NLDEV_ATTR_RES_CTX, RDMA_NLDEV_ATTR_RES_CTX_ENTRY, put_context,
					context_number},
	[RDMA_NLDEV_CMD_RES_SRQ_GET] = {STAT_SRQ, sizeof(struct stat_srq), RDMA_NLDEV_ATTR_RES_SRQN,
					RDMA_NLDEV_ATTR_RES_SRQ, RDMA_NLDEV_ATTR_RES_SRQ_ENTRY, put_srq, srq_number,
					put_srq_qps},
};

/* ---- the walk over processes ---- */

struct walk {
	const struct asker *asker;
	const struct device *device;
	const struct resource *resource;
	uint16_t flags;
	uint32_t wanted; /* number of one object; 0: all */
	bool found;
	struct message m; /* entries so far, if `table` */
	uint32_t table;
	uint64_t counts[STAT_KINDS]; /* for the summary */
};

/* Number of the device in the process's records, or STAT_UNKNOWN. */
static uint32_t device_in(const struct stat_process *p, const char *name)
{
	size_t n;
	const struct stat_device *d = stat_devices(p, &n);

	for (size_t i = 0; i < n; i++)
		if (!strcmp(d[i].name, name))
			return d[i].number;
	return STAT_UNKNOWN;
}

static void table_end(struct walk *w)
{
	if (!w->table)
		return;
	nest_end(&w->m, w->table);
	netlink_tell(w->asker, &w->m);
	w->table = 0;
}

static void message_begin(struct walk *w)
{
	netlink_begin(&w->m, w->asker, w->asker->request->nlmsg_type, w->flags);
	netlink_name(&w->m, w->device);
}

static void table_begin(struct walk *w, uint16_t type)
{
	if (w->table && sizeof(w->m) - w->m.header.nlmsg_len < ENTRY_ROOM)
		table_end(w);
	if (w->table)
		return;
	message_begin(w);
	w->table = nest_begin(&w->m, type);
}

static void put_object(struct walk *w, const struct stat_process *p, const void *row)
{
	w->resource->put(&w->m, row);
	put_u32(&w->m, RDMA_NLDEV_ATTR_RES_PID, p->head.pid);
	if (w->resource->put_others)
		w->resource->put_others(&w->m, p, row);
}

static void put_entry(struct walk *w, const struct stat_process *p, const void *row)
{
	const struct resource *r = w->resource;
	uint32_t nest;

	if (w->wanted) {
		message_begin(w);
		put_object(w, p, row);
		netlink_tell(w->asker, &w->m);
		return;
	}
	table_begin(w, r->table);
	nest = nest_begin(&w->m, r->entry);
	put_object(w, p, row);
	nest_end(&w->m, nest);
}

/* Calls for each row of a process that belongs to the device and is wanted. */
static void walk_rows(struct walk *w, const struct stat_process *p,
		      void (*use)(struct walk *, const struct stat_process *, const void *))
{
	const struct stat_rows *rows = &p->rows[w->resource->kind];
	uint32_t number = device_in(p, w->device->name);

	for (size_t i = 0; i < rows->count && number != STAT_UNKNOWN; i++) {
		const char *row = (const char *)rows->row + i * w->resource->row;

		if (first_device(row) != number || (w->wanted && (w->found || w->resource->number(row) != w->wanted)))
			continue;
		use(w, p, row);
		w->found = true;
	}
}

static void walk_objects(pid_t pid, int given, void *arg)
{
	struct stat_process p;

	if (!stat_read(given, &p)) {
		p.head.pid = (uint32_t)pid;
		walk_rows(arg, &p, put_entry);
	}
	stat_free(&p);
}

/* ---- summary ---- */

static const struct {
	enum stat_kind kind;
	size_t row;
	const char *name;
} summary[] = {
	{STAT_PD, sizeof(struct stat_pd), "pd"},    {STAT_CQ, sizeof(struct stat_cq), "cq"},
	{STAT_QP, sizeof(struct stat_qp), "qp"},    {STAT_ID, sizeof(struct stat_id), "cm_id"},
	{STAT_MR, sizeof(struct stat_mr), "mr"},    {STAT_CONTEXT, sizeof(struct stat_context), "ctx"},
	{STAT_SRQ, sizeof(struct stat_srq), "srq"},
};

static void walk_counts(pid_t pid, int given, void *arg)
{
	struct walk *w = arg;
	struct stat_process p;
	uint32_t number;

	(void)pid;
	if (!stat_read(given, &p)) {
		number = device_in(&p, w->device->name);
		for (size_t k = 0; k < ARRAY_SIZE(summary); k++)
			for (size_t i = 0; i < p.rows[summary[k].kind].count; i++)
				w->counts[summary[k].kind] += first_device((char *)p.rows[summary[k].kind].row +
									   i * summary[k].row) == number;
	}
	stat_free(&p);
}

static int answer_summary(struct walk *w)
{
	uint32_t table, entry;

	control_call_all("stat", walk_counts, NULL, w);
	message_begin(w);
	table = nest_begin(&w->m, RDMA_NLDEV_ATTR_RES_SUMMARY);
	for (size_t k = 0; k < ARRAY_SIZE(summary); k++) {
		entry = nest_begin(&w->m, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY);
		put_text(&w->m, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, summary[k].name);
		put_u64(&w->m, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, w->counts[summary[k].kind]);
		nest_end(&w->m, entry);
	}
	nest_end(&w->m, table);
	netlink_tell(w->asker, &w->m);
	return 0;
}

/* ---- counters ---- */

static void put_counter(struct message *m, const char *name, uint64_t value)
{
	uint32_t entry = nest_begin(m, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY);

	put_text(m, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, name);
	put_u64(m, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, value);
	nest_end(m, entry);
}

static bool read_counter(const char *directory, const char *name, uint64_t *value)
{
	struct tree_node node;
	char path[PATH_MAX];
	bool ok;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	if (uroce_tree_read(path, &node))
		return false;
	ok = node.kind == TREE_FILE && node.length && node.length < 32;
	if (ok)
		*value = strtoull(strndupa(node.text, node.length), NULL, 10);
	free(node.text);
	return ok;
}

/* Answers with a port's counters: hw_counters of /sys. */
static int answer_port_counters(struct walk *w)
{
	struct tree_node node;
	char directory[PATH_MAX];
	uint32_t table;
	uint64_t value;

	snprintf(directory, sizeof(directory), "/sys/class/infiniband/%s/ports/1/hw_counters", w->device->name);
	if (uroce_tree_read(directory, &node))
		return ENOENT;
	message_begin(w);
	put_u32(&w->m, RDMA_NLDEV_ATTR_PORT_INDEX, 1);
	table = nest_begin(&w->m, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
	for (size_t at = 0; at < node.length; at += strlen(node.text + at) + 1)
		if (read_counter(directory, node.text + at, &value))
			put_counter(&w->m, node.text + at, value);
	nest_end(&w->m, table);
	free(node.text);
	netlink_tell(w->asker, &w->m);
	return 0;
}

/* Names as those of files in hw_counters. */
static const struct {
	const char *name;
	enum stat_trouble which;
} qp_counters[] = {
	{"duplicate_request", STAT_DUPLICATES},	    {"local_ack_timeout_err", STAT_TIMEOUTS},
	{"out_of_buffer", STAT_NO_RECEIVE},	    {"out_of_sequence", STAT_GAPS},
	{"packet_seq_err", STAT_SEQUENCE_NAKS},	    {"resent_pkts", STAT_RESENT},
	{"retry_exceeded_err", STAT_RETRIES_SPENT}, {"retry_rnr_exceeded_err", STAT_RNR_RETRIES_SPENT},
	{"rnr_nak_retry_err", STAT_RNR_NAKS},
};

static void put_qp_counters(struct walk *w, const struct stat_process *p, const void *row)
{
	const struct stat_qp *q = row;
	uint32_t entry, nest, inner;

	table_begin(w, RDMA_NLDEV_ATTR_STAT_COUNTER);
	entry = nest_begin(&w->m, RDMA_NLDEV_ATTR_STAT_COUNTER_ENTRY);
	put_u32(&w->m, RDMA_NLDEV_ATTR_PORT_INDEX, 1);
	put_u32(&w->m, RDMA_NLDEV_ATTR_STAT_COUNTER_ID, q->qpn);
	put_u32(&w->m, RDMA_NLDEV_ATTR_RES_PID, p->head.pid);
	put_u8(&w->m, RDMA_NLDEV_ATTR_RES_TYPE, q->type);
	nest = nest_begin(&w->m, RDMA_NLDEV_ATTR_RES_QP);
	inner = nest_begin(&w->m, RDMA_NLDEV_ATTR_RES_QP_ENTRY);
	put_u32(&w->m, RDMA_NLDEV_ATTR_RES_LQPN, q->qpn);
	nest_end(&w->m, inner);
	nest_end(&w->m, nest);
	nest = nest_begin(&w->m, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
	for (size_t i = 0; i < ARRAY_SIZE(qp_counters); i++)
		put_counter(&w->m, qp_counters[i].name, q->trouble[qp_counters[i].which]);
	nest_end(&w->m, nest);
	nest_end(&w->m, entry);
}

static void walk_qp_counters(pid_t pid, int given, void *arg)
{
	struct stat_process p;

	if (!stat_read(given, &p)) {
		p.head.pid = (uint32_t)pid;
		walk_rows(arg, &p, put_qp_counters);
	}
	stat_free(&p);
}

/* The kernel names no kind of object for the counters of ports. */
static int answer_counters(struct walk *w, bool all)
{
	if (!number_in(w->asker->request, RDMA_NLDEV_ATTR_STAT_RES))
		return answer_port_counters(w);
	if (!all || number_in(w->asker->request, RDMA_NLDEV_ATTR_STAT_RES) != RDMA_NLDEV_ATTR_RES_QP)
		return EOPNOTSUPP;
	w->resource = &resources[RDMA_NLDEV_CMD_RES_QP_GET];
	control_call_all("stat", walk_qp_counters, NULL, w);
	table_end(w);
	return 0;
}

bool resource_is(uint32_t op)
{
	return op == RDMA_NLDEV_CMD_RES_GET || op == RDMA_NLDEV_CMD_STAT_GET ||
	       (op < RDMA_NLDEV_NUM_OPS && resources[op].put);
}

int resource_answer(const struct asker *a, uint32_t op, const struct device *d, bool all)
{
	static _Thread_local struct walk w; /* too large for the stack of some threads */
	const struct resource *r = &resources[op];

	memset(&w, 0, offsetof(struct walk, m));
	memset(&w.table, 0, sizeof(w) - offsetof(struct walk, table));
	w.asker = a;
	w.device = d;
	w.resource = r;
	w.flags = all ? NLM_F_MULTI : 0;
	if (op == RDMA_NLDEV_CMD_RES_GET)
		return answer_summary(&w);
	if (op == RDMA_NLDEV_CMD_STAT_GET)
		return answer_counters(&w, all);
	w.wanted = all ? 0 : r->id ? number_in(a->request, r->id) : 0;
	if (!all && !w.wanted)
		return EINVAL;
	control_call_all("stat", walk_objects, NULL, &w);
	table_end(&w);
	return all || w.found ? 0 : EINVAL;
}
