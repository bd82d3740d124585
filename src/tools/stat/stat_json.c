/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce stat --json`. */

#include <cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/names.h"
#include "tools/stat/stats.h"

/* Adds a number as text: cJSON's own numbers are doubles, which lose digits from 2^53 on and take longer to print. */
static void stat_number(cJSON *o, const char *name, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	cJSON_AddRawToObject(o, name, text);
}

/* Adds a handle, if there is one. */
static void stat_handle(cJSON *o, const char *name, uint32_t handle)
{
	if (handle != STAT_UNKNOWN)
		stat_number(o, name, handle);
}

static cJSON *new_row_of(cJSON *list, const struct stat_process *p, uint32_t device)
{
	const struct stat_device *d = stats_device(p, device);
	cJSON *o = cJSON_CreateObject();

	if (d)
		cJSON_AddStringToObject(o, "device", d->name);
	cJSON_AddItemToArray(list, o);
	return o;
}

static void json_devices(cJSON *to, const struct stat_process *p)
{
	cJSON *list = cJSON_AddArrayToObject(to, "devices");
	size_t n;
	const struct stat_device *d = stat_devices(p, &n);

	for (size_t i = 0; i < n; i++) {
		cJSON *o = new_row_of(list, p, d[i].number);

		cJSON_AddStringToObject(o, "interface", d[i].interface);
		cJSON_AddBoolToObject(o, "up", !!d[i].is_up);
		stat_number(o, "tx_packets", d[i].tx_packets);
		stat_number(o, "tx_bytes", d[i].tx_bytes);
		stat_number(o, "tx_refused", d[i].tx_refused);
		stat_number(o, "rx_packets", d[i].rx_packets);
		stat_number(o, "rx_bytes", d[i].rx_bytes);
		stat_number(o, "rx_icrc_errors", d[i].rx_icrc);
		stat_number(o, "rx_errors", d[i].rx_errors);
	}
}

static void json_qp_queues(cJSON *o, const struct stat_qp *q)
{
	stat_handle(o, "pd", q->pd);
	stat_handle(o, "send_cq", q->send_cq);
	stat_handle(o, "recv_cq", q->recv_cq);
	stat_handle(o, "srq", q->srq);
	stat_number(o, "send_depth", q->send_depth);
	stat_number(o, "send_open", q->send_posted);
	stat_number(o, "sent", q->sent);
	stat_number(o, "unpolled", q->unpolled);
	stat_number(o, "recv_depth", q->recv_depth);
	stat_number(o, "recv_posted", q->recv_posted);
	stat_number(o, "received", q->received);
}

static void json_qp(cJSON *o, const struct stat_qp *q)
{
	stat_number(o, "qpn", q->qpn);
	cJSON_AddStringToObject(o, "type", qp_type_name(q->type));
	cJSON_AddStringToObject(o, "state", qp_state_name(q->state));
	cJSON_AddStringToObject(o, "lane", lane_name(q->lane));
	cJSON_AddStringToObject(o, "local", stats_address(q->local));
	cJSON_AddStringToObject(o, "remote", stats_address(q->remote));
	stat_number(o, "remote_qpn", q->remote_qpn);
	stat_number(o, "peer_pid", q->peer_pid);
	stat_number(o, "mtu", q->mtu);
	json_qp_queues(o, q);
	stat_number(o, "packets_in_flight", q->in_flight);
	stat_number(o, "psn_unacknowledged", q->una);
	stat_number(o, "psn_next", q->next);
	stat_number(o, "psn_expected", q->expected);
	stat_number(o, "msn", q->msn);
	stat_number(o, "retries_left", q->retries);
	stat_number(o, "rnr_retries_left", q->rnr_retries);
	cJSON_AddBoolToObject(o, "rnr_wait", !!q->rnr_wait);
	stat_number(o, "rtt_us", q->rtt);
	stat_number(o, "bytes_sent", q->sent_bytes);
	stat_number(o, "bytes_received", q->received_bytes);
	for (size_t i = 0; i < STAT_TROUBLES; i++)
		stat_number(o, stats_trouble_name[i], q->trouble[i]);
}

static void json_qps(cJSON *to, const struct stat_process *p)
{
	cJSON *list = cJSON_AddArrayToObject(to, "qps");
	size_t n;
	const struct stat_qp *q = stat_qps(p, &n);

	for (size_t i = 0; i < n; i++)
		json_qp(new_row_of(list, p, q[i].device), &q[i]);
}

static void json_cqs(cJSON *to, const struct stat_process *p)
{
	static const char *const armed[] = {"no", "solicited", "yes"};
	cJSON *list = cJSON_AddArrayToObject(to, "cqs");
	size_t n;
	const struct stat_cq *c = stat_cqs(p, &n);

	for (size_t i = 0; i < n; i++) {
		cJSON *o = new_row_of(list, p, c[i].device);

		stat_number(o, "cq", c[i].handle);
		stat_number(o, "depth", c[i].depth);
		stat_number(o, "filled", c[i].filled);
		cJSON_AddStringToObject(o, "armed", c[i].armed <= 2 ? armed[c[i].armed] : "?");
		cJSON_AddBoolToObject(o, "overrun", !!c[i].overrun);
		cJSON_AddBoolToObject(o, "channel", !!c[i].has_channel);
		cJSON_AddBoolToObject(o, "event", !!c[i].has_event);
		stat_number(o, "queues", c[i].users);
	}
}

static void json_contexts(cJSON *to, const struct stat_process *p)
{
	cJSON *list = cJSON_AddArrayToObject(to, "contexts");
	size_t n;
	const struct stat_context *c = stat_contexts(p, &n);

	for (size_t i = 0; i < n; i++) {
		cJSON *o = new_row_of(list, p, c[i].device);

		stat_number(o, "context", c[i].number);
		stat_number(o, "objects", c[i].objects);
	}
}

static void json_srqs_and_pds(cJSON *to, const struct stat_process *p)
{
	cJSON *list = cJSON_AddArrayToObject(to, "srqs");
	size_t n;
	const struct stat_srq *s = stat_srqs(p, &n);
	const struct stat_pd *d;

	for (size_t i = 0; i < n; i++) {
		cJSON *o = new_row_of(list, p, s[i].device);

		stat_number(o, "srq", s[i].number);
		stat_number(o, "depth", s[i].depth);
		stat_number(o, "posted", s[i].posted);
		stat_number(o, "limit", s[i].limit);
		stat_number(o, "qps", s[i].users);
		stat_number(o, "pd", s[i].pd);
	}
	list = cJSON_AddArrayToObject(to, "pds");
	d = stat_pds(p, &n);
	for (size_t i = 0; i < n; i++) {
		cJSON *o = new_row_of(list, p, d[i].device);

		stat_number(o, "pd", d[i].handle);
		stat_number(o, "objects", d[i].users);
	}
}

static void json_mrs(cJSON *to, const struct stat_process *p)
{
	cJSON *list = cJSON_AddArrayToObject(to, "regions");
	size_t n;
	const struct stat_mr *m = stat_mrs(p, &n);
	char text[24];

	for (size_t i = 0; i < n; i++) {
		cJSON *o = new_row_of(list, p, m[i].device);

		snprintf(text, sizeof(text), "0x%llx", (unsigned long long)m[i].address);
		stat_number(o, "key", m[i].key);
		stat_number(o, "pd", m[i].pd);
		cJSON_AddStringToObject(o, "address", text);
		stat_number(o, "bytes", m[i].length);
		stat_number(o, "access", m[i].access);
		cJSON_AddBoolToObject(o, "window", !!m[i].is_window);
	}
}

static void json_ids(cJSON *to, const struct stat_process *p)
{
	cJSON *list = cJSON_AddArrayToObject(to, "ids");
	size_t n;
	const struct stat_id *d = stat_ids(p, &n);

	for (size_t i = 0; i < n; i++) {
		cJSON *o = new_row_of(list, p, d[i].device);

		cJSON_AddStringToObject(o, "state", id_state_name(d[i].state));
		if (d[i].connection)
			cJSON_AddStringToObject(o, "connection", connection_state_name(d[i].connection));
		cJSON_AddStringToObject(o, "port_space", port_space_name(d[i].port_space));
		cJSON_AddStringToObject(o, "local", stats_address(d[i].local));
		stat_number(o, "local_port", d[i].local_port);
		cJSON_AddStringToObject(o, "remote", stats_address(d[i].remote));
		stat_number(o, "remote_port", d[i].remote_port);
		stat_number(o, "qpn", d[i].qpn);
		stat_number(o, "remote_qpn", d[i].remote_qpn);
		stat_number(o, "backlog", d[i].backlog);
	}
}

void stats_json(const struct stats *s, FILE *to)
{
	cJSON *all = cJSON_CreateArray();
	char *text;

	for (size_t i = 0; i < s->count; i++) {
		const struct stat_process *p = &s->process[i];
		cJSON *o = cJSON_CreateObject();

		stat_number(o, "pid", p->head.pid);
		cJSON_AddStringToObject(o, "program", p->head.program);
		cJSON_AddBoolToObject(o, "counts_bytes", !!p->head.counts_bytes);
		json_devices(o, p);
		json_qps(o, p);
		json_cqs(o, p);
		json_contexts(o, p);
		json_srqs_and_pds(o, p);
		json_mrs(o, p);
		json_ids(o, p);
		cJSON_AddItemToArray(all, o);
	}
	text = cJSON_Print(all);
	fprintf(to, "%s\n", text ? text : "null");
	free(text);
	cJSON_Delete(all);
}
