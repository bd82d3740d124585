/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce stat --prometheus`: the text format, family by family. Ports are summed over processes, under
 * node_exporter's names for InfiniBand adapters. */

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/base.h"
#include "tools/names.h"
#include "tools/stat/stats.h"

struct family {
	const char *name, *type, *help;
	size_t offset;
};

static void print_family(FILE *to, const struct family *f)
{
	fprintf(to, "# HELP %s %s\n# TYPE %s %s\n", f->name, f->help, f->name, f->type);
}

/* Prints a label with its value escaped. */
static void print_label(FILE *to, const char *name, const char *value, char before)
{
	fprintf(to, "%c%s=\"", before, name);
	for (; *value; value++)
		fprintf(to, *value == '"' || *value == '\\' ? "\\%c" : *value == '\n' ? "\\n" : "%c", *value);
	fputc('"', to);
}

/* True if an earlier process, or row, has the device. */
static bool is_told(const struct stats *s, size_t process, size_t row)
{
	size_t n;
	const struct stat_device *d = stat_devices(&s->process[process], &n);

	for (size_t i = 0; i < process; i++) {
		size_t m;
		const struct stat_device *e = stat_devices(&s->process[i], &m);

		for (size_t j = 0; j < m; j++)
			if (!strcmp(e[j].name, d[row].name))
				return true;
	}
	return false;
}

static uint64_t sum_of_device(const struct stats *s, const char *name, size_t offset)
{
	uint64_t sum = 0, value;

	for (size_t i = 0; i < s->count; i++) {
		size_t n;
		const struct stat_device *d = stat_devices(&s->process[i], &n);

		for (size_t j = 0; j < n; j++)
			if (!strcmp(d[j].name, name)) {
				memcpy(&value, (const char *)&d[j] + offset, sizeof(value));
				sum += value;
			}
	}
	return sum;
}

static void print_device_family(const struct stats *s, FILE *to, const struct family *f)
{
	print_family(to, f);
	for (size_t i = 0; i < s->count; i++) {
		size_t n;
		const struct stat_device *d = stat_devices(&s->process[i], &n);

		for (size_t j = 0; j < n; j++) {
			if (is_told(s, i, j))
				continue;
			fputs(f->name, to);
			print_label(to, "device", d[j].name, '{');
			fprintf(to, ",port=\"1\"} %" PRIu64 "\n", sum_of_device(s, d[j].name, f->offset));
		}
	}
}

static void print_labels_of(FILE *to, const struct stat_process *p, uint32_t device)
{
	const struct stat_device *d = stats_device(p, device);
	char pid[16];

	snprintf(pid, sizeof(pid), "%u", p->head.pid);
	print_label(to, "pid", pid, '{');
	print_label(to, "program", p->head.program, ',');
	print_label(to, "device", d ? d->name : "", ',');
}

static void print_qp_family(const struct stats *s, FILE *to, const struct family *f)
{
	print_family(to, f);
	for (size_t i = 0; i < s->count; i++) {
		size_t n;
		const struct stat_qp *q = stat_qps(&s->process[i], &n);

		for (size_t j = 0; j < n; j++) {
			uint32_t value;

			memcpy(&value, (const char *)&q[j] + f->offset, sizeof(value));
			fputs(f->name, to);
			print_labels_of(to, &s->process[i], q[j].device);
			fprintf(to, ",qpn=\"0x%06x\",type=\"%s\"} %u\n", q[j].qpn, qp_type_name(q[j].type), value);
		}
	}
}

/* Prints byte counts, where they are counted. */
static void print_qp_bytes(const struct stats *s, FILE *to, const struct family *f)
{
	print_family(to, f);
	for (size_t i = 0; i < s->count; i++) {
		size_t n;
		const struct stat_qp *q = stat_qps(&s->process[i], &n);

		for (size_t j = 0; j < n && s->process[i].head.counts_bytes; j++) {
			uint64_t value;

			memcpy(&value, (const char *)&q[j] + f->offset, sizeof(value));
			fputs(f->name, to);
			print_labels_of(to, &s->process[i], q[j].device);
			fprintf(to, ",qpn=\"0x%06x\",type=\"%s\"} %" PRIu64 "\n", q[j].qpn, qp_type_name(q[j].type),
				value);
		}
	}
}

static void print_qp_states(const struct stats *s, FILE *to)
{
	static const struct family f = {"uroce_qp_info", "gauge", "State, lane and peer of a queue pair: 1.", 0};

	print_family(to, &f);
	for (size_t i = 0; i < s->count; i++) {
		size_t n;
		const struct stat_qp *q = stat_qps(&s->process[i], &n);

		for (size_t j = 0; j < n; j++) {
			fputs(f.name, to);
			print_labels_of(to, &s->process[i], q[j].device);
			fprintf(to,
				",qpn=\"0x%06x\",type=\"%s\",state=\"%s\",lane=\"%s\",peer=\"%s\",peer_qpn=\"0x%06x\"} "
				"1\n",
				q[j].qpn, qp_type_name(q[j].type), qp_state_name(q[j].state), lane_name(q[j].lane),
				stats_address(q[j].remote), q[j].remote_qpn);
		}
	}
}

static void print_cq_family(const struct stats *s, FILE *to, const struct family *f)
{
	print_family(to, f);
	for (size_t i = 0; i < s->count; i++) {
		size_t n;
		const struct stat_cq *c = stat_cqs(&s->process[i], &n);

		for (size_t j = 0; j < n; j++) {
			fputs(f->name, to);
			print_labels_of(to, &s->process[i], c[j].device);
			fprintf(to, ",cq=\"%u\"} %u\n", c[j].handle,
				f->offset ? *(const uint32_t *)((const char *)&c[j] + f->offset) : c[j].overrun);
		}
	}
}

/* Prints the number of objects of each kind, per process. */
static void print_objects(const struct stats *s, FILE *to)
{
	static const struct family f = {"uroce_objects", "gauge", "Objects of a process, by kind.", 0};
	static const struct {
		enum stat_kind kind;
		const char *name;
	} kinds[] = {{STAT_CONTEXT, "context"}, {STAT_PD, "pd"}, {STAT_CQ, "cq"},   {STAT_QP, "qp"},
		     {STAT_SRQ, "srq"},		{STAT_MR, "mr"}, {STAT_ID, "cm_id"}};

	print_family(to, &f);
	for (size_t i = 0; i < s->count; i++)
		for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
			char pid[16];

			snprintf(pid, sizeof(pid), "%u", s->process[i].head.pid);
			fputs(f.name, to);
			print_label(to, "pid", pid, '{');
			print_label(to, "program", s->process[i].head.program, ',');
			fprintf(to, ",kind=\"%s\"} %zu\n", kinds[k].name, s->process[i].rows[kinds[k].kind].count);
		}
}

#define OF_DEVICE(name, type, help, field)                                               \
	{                                                                                \
		"node_infiniband_" name, type, help, offsetof(struct stat_device, field) \
	}
#define OF_QP(name, type, help, field)                                        \
	{                                                                     \
		"uroce_qp_" name, type, help, offsetof(struct stat_qp, field) \
	}
#define OF_TROUBLE(name, help, which)                                                                             \
	{                                                                                                         \
		"uroce_qp_" name, "counter", help, offsetof(struct stat_qp, trouble) + (which) * sizeof(uint32_t) \
	}

static const struct family of_devices[] = {
	OF_DEVICE("port_data_transmitted_bytes_total", "counter", "Bytes sent by UDP.", tx_bytes),
	OF_DEVICE("port_data_received_bytes_total", "counter", "Bytes received by UDP.", rx_bytes),
	OF_DEVICE("port_packets_transmitted_total", "counter", "Packets sent by UDP.", tx_packets),
	OF_DEVICE("port_packets_received_total", "counter", "Packets received by UDP.", rx_packets),
	OF_DEVICE("port_discards_transmitted_total", "counter", "Packets refused by the socket.", tx_refused),
	OF_DEVICE("port_errors_received_total", "counter", "Invalid packets received.", rx_errors),
	OF_DEVICE("port_icrc_errors_received_total", "counter", "Packets received with a wrong ICRC.", rx_icrc),
};

static const struct family of_qps[] = {
	OF_QP("sent_total", "counter", "Work requests that have completed.", sent),
	OF_QP("received_total", "counter", "Receives completed; with an SRQ, messages received.", received),
	OF_QP("send_open", "gauge", "Work requests that have not completed.", send_posted),
	OF_QP("send_depth", "gauge", "Capacity of the send queue, in work requests.", send_depth),
	OF_QP("recv_posted", "gauge", "Posted receives.", recv_posted),
	OF_QP("packets_in_flight", "gauge", "Packets sent and not acknowledged yet.", in_flight),
	OF_TROUBLE("packets_resent_total", "Packets retransmitted.", STAT_RESENT),
	OF_TROUBLE("timeouts_total", "Expirations of the transport timer.", STAT_TIMEOUTS),
	OF_TROUBLE("rnr_naks_received_total", "RNR NAKs received.", STAT_RNR_NAKS),
	OF_TROUBLE("sequence_naks_received_total", "Sequence NAKs received.", STAT_SEQUENCE_NAKS),
	OF_TROUBLE("no_receive_total", "Messages without a posted receive.", STAT_NO_RECEIVE),
	OF_TROUBLE("duplicate_requests_total", "Duplicate requests received.", STAT_DUPLICATES),
	OF_TROUBLE("out_of_sequence_total", "Requests ahead of the expected PSN.", STAT_GAPS),
};

static const struct family bytes_of_qps[] = {
	OF_QP("sent_bytes_total", "counter", "Bytes of work requests that have completed.", sent_bytes),
	OF_QP("received_bytes_total", "counter", "Bytes of messages that completed a receive.", received_bytes),
};

static const struct family of_cqs[] = {
	{"uroce_cq_overrun", "gauge", "1 if a completion was lost.", 0},
	{"uroce_cq_filled", "gauge", "Completions in the CQ, not polled yet.", offsetof(struct stat_cq, filled)},
	{"uroce_cq_depth", "gauge", "Capacity of the CQ, in completions.", offsetof(struct stat_cq, depth)},
};

void stats_prometheus(const struct stats *s, FILE *to)
{
	for (size_t i = 0; i < ARRAY_SIZE(of_devices); i++)
		print_device_family(s, to, &of_devices[i]);
	print_objects(s, to);
	print_qp_states(s, to);
	for (size_t i = 0; i < ARRAY_SIZE(of_qps); i++)
		print_qp_family(s, to, &of_qps[i]);
	for (size_t i = 0; i < ARRAY_SIZE(bytes_of_qps); i++)
		print_qp_bytes(s, to, &bytes_of_qps[i]);
	for (size_t i = 0; i < ARRAY_SIZE(of_cqs); i++)
		print_cq_family(s, to, &of_cqs[i]);
}
