/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce stat`: prints objects of processes, as tables of 80 columns. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/base.h"
#include "base/control_call.h"
#include "tools/command.h"
#include "tools/names.h"
#include "tools/stat/stats.h"
#include "tools/terminal.h"

enum stat_form { FORM_TABLE, FORM_ALL, FORM_JSON, FORM_PROMETHEUS };

static const char *name_of_device(const struct stat_process *p, uint32_t number)
{
	const struct stat_device *d = stats_device(p, number);

	return d ? d->name : "-";
}

static void print_devices(const struct stat_process *p)
{
	size_t n;
	const struct stat_device *d = stat_devices(p, &n);

	printf("%s%-12s %-10s %-5s %9s %8s %9s %8s %6s%s\n", style(DIM), "DEVICE", "INTERFACE", "STATE", "UDP OUT",
	       "BYTES", "UDP IN", "BYTES", "BAD", style(PLAIN));
	for (size_t i = 0; i < n; i++)
		printf("%-12.12s %-10.10s %-5s %9s %8s %9s %8s %6s\n", d[i].name, d[i].interface,
		       d[i].is_up ? "up" : "down", stats_number(d[i].tx_packets), stats_number(d[i].tx_bytes),
		       stats_number(d[i].rx_packets), stats_number(d[i].rx_bytes),
		       stats_number(d[i].rx_icrc + d[i].rx_errors + d[i].tx_refused));
}

/* `bytes`: they are counted now; else they are what an earlier count has left. */
static void print_more(const struct stat_qp *q, bool bytes)
{
	const char *what = stats_trouble(q);

	if (bytes && (q->sent_bytes || q->received_bytes))
		printf("         bytes sent %s, received %s\n", stats_number(q->sent_bytes),
		       stats_number(q->received_bytes));
	if (q->rnr_wait || *what)
		printf("         %s%s%s%s%s\n", style(YELLOW), q->rnr_wait ? "waits after an RNR NAK" : "",
		       q->rnr_wait && *what ? "; " : "", what, style(PLAIN));
}

static void stat_print_qps(const struct stat_process *p)
{
	size_t n;
	const struct stat_qp *q = stat_qps(p, &n);

	if (n)
		printf("%s%-8s %-4s %-5s %-8s %-24s %5s %5s %5s %5s%s\n", style(DIM), "QP", "TYPE", "STATE", "LANE",
		       "PEER", "SENT", "OPEN", "RECVD", "POSTD", style(PLAIN));
	for (size_t i = 0; i < n; i++) {
		bool bad = q[i].state == 6;

		printf("0x%06x %-4s %s%-5s%s %-8s %-24s %5s %5s %5s %5s\n", q[i].qpn, qp_type_name(q[i].type),
		       bad ? style(RED) : "", qp_state_name(q[i].state), bad ? style(PLAIN) : "", lane_name(q[i].lane),
		       stats_peer(&q[i], 24), stats_number(q[i].sent), stats_number(q[i].send_posted),
		       stats_number(q[i].received), q[i].recv_depth ? stats_number(q[i].recv_posted) : "-");
		print_more(&q[i], p->head.counts_bytes);
	}
}

static void stat_print_cqs(const struct stat_process *p)
{
	static const char *const armed[] = {"no", "solicited", "yes"};
	size_t n;
	const struct stat_cq *c = stat_cqs(p, &n);

	if (n)
		printf("%s%-8s %-12s %9s %9s %-9s %-8s %s%s\n", style(DIM), "CQ", "DEVICE", "DEPTH", "FILLED", "ARMED",
		       "CHANNEL", "QUEUES", style(PLAIN));
	for (size_t i = 0; i < n; i++)
		printf("%-8u %-12.12s %9u %9u %-9s %-8s %u%s%s%s\n", c[i].handle, name_of_device(p, c[i].device),
		       c[i].depth, c[i].filled, c[i].armed < ARRAY_SIZE(armed) ? armed[c[i].armed] : "?",
		       c[i].has_channel ? "yes" : "no", c[i].users, c[i].overrun ? style(RED) : "",
		       c[i].overrun ? "  OVERRUN" : "", c[i].overrun ? style(PLAIN) : "");
}

static void print_ids(const struct stat_process *p)
{
	size_t n;
	const struct stat_id *d = stat_ids(p, &n);

	if (n)
		printf("%s%-16s %-5s %-23s %-24s %s%s\n", style(DIM), "ID", "PORT", "LOCAL", "REMOTE", "QP",
		       style(PLAIN));
	for (size_t i = 0; i < n; i++) {
		bool connected = d[i].connection > 1;

		printf("%-16s %-5s %-23s %-24s ",
		       connected ? connection_state_name(d[i].connection) : id_state_name(d[i].state),
		       port_space_name(d[i].port_space), stats_end(d[i].local, d[i].local_port, 23),
		       d[i].remote_port ? stats_end(d[i].remote, d[i].remote_port, 24) : stats_address(d[i].remote));
		printf(d[i].qpn ? "0x%06x\n" : "-\n", d[i].qpn);
	}
}

/* Prints objects without a table of their own. */
static void print_rest(const struct stat_process *p)
{
	uint64_t bytes = 0, windows = 0;
	size_t mrs, pds, srqs, contexts;
	const struct stat_mr *m = stat_mrs(p, &mrs);

	stat_pds(p, &pds);
	stat_srqs(p, &srqs);
	stat_contexts(p, &contexts);
	for (size_t i = 0; i < mrs; i++) {
		windows += m[i].is_window;
		bytes += m[i].is_window ? 0 : m[i].length;
	}
	printf("%s%zu region%s of %s bytes, %" PRIu64 " window%s, %zu PD%s, %zu SRQ%s, %zu open context%s%s\n",
	       style(DIM), mrs - windows, mrs - windows == 1 ? "" : "s", stats_number(bytes), windows,
	       windows == 1 ? "" : "s", pds, pds == 1 ? "" : "s", srqs, srqs == 1 ? "" : "s", contexts,
	       contexts == 1 ? "" : "s", style(PLAIN));
}

static void print_mrs(const struct stat_process *p)
{
	static const char letters[] = "LWRAMZO"; /* in the order of enum ibv_access_flags */
	static const unsigned bits[] = {1, 2, 4, 8, 16, 32, 64};
	size_t n;
	const struct stat_mr *m = stat_mrs(p, &n);

	if (n)
		printf("%s%-10s %-12s %5s %-18s %15s %-7s%s\n", style(DIM), "REGION", "DEVICE", "PD", "ADDRESS",
		       "BYTES", "ACCESS", style(PLAIN));
	for (size_t i = 0; i < n; i++) {
		printf("0x%08x %-12.12s %5u 0x%-16" PRIx64 " %15" PRIu64 " ", m[i].key, name_of_device(p, m[i].device),
		       m[i].pd, m[i].address, m[i].length);
		for (size_t b = 0; b < ARRAY_SIZE(bits); b++)
			putchar(m[i].access & bits[b] ? letters[b] : '-');
		puts(m[i].is_window ? " window" : "");
	}
}

static void print_pds_and_srqs(const struct stat_process *p)
{
	size_t pds, srqs, contexts;
	const struct stat_pd *d = stat_pds(p, &pds);
	const struct stat_srq *s = stat_srqs(p, &srqs);
	const struct stat_context *c = stat_contexts(p, &contexts);

	for (size_t i = 0; i < contexts; i++)
		printf("context of %s: %u objects\n", name_of_device(p, c[i].device), c[i].objects);
	for (size_t i = 0; i < pds; i++)
		printf("PD %u of %s: %u objects\n", d[i].handle, name_of_device(p, d[i].device), d[i].users);
	for (size_t i = 0; i < srqs; i++)
		printf("SRQ 0x%06x of %s: %u of %u receives posted, limit %u, %u QPs\n", s[i].number,
		       name_of_device(p, s[i].device), s[i].posted, s[i].depth, s[i].limit, s[i].users);
}

static void print_process(const struct stat_process *p, bool all)
{
	printf("%sprocess %u: %s%s\n", style(BOLD), p->head.pid, p->head.program, style(PLAIN));
	print_devices(p);
	stat_print_qps(p);
	stat_print_cqs(p);
	print_ids(p);
	if (all) {
		print_mrs(p);
		print_pds_and_srqs(p);
	} else {
		print_rest(p);
	}
}

static void print_all(const struct stats *s, bool all)
{
	for (size_t i = 0; i < s->count; i++) {
		if (i)
			putchar('\n');
		print_process(&s->process[i], all);
	}
}

/* Subtracts earlier counts. Both have a process's queue pairs in the same order. */
static void subtract_bytes(struct stat_process *now, const struct stat_process *before)
{
	size_t n, m, j = 0;
	struct stat_qp *q = now->rows[STAT_QP].row;
	const struct stat_qp *b = stat_qps(before, &m);

	stat_qps(now, &n);
	for (size_t i = 0; i < n; i++) {
		size_t k = j;

		while (k < m && b[k].qpn != q[i].qpn)
			k++;
		if (k == m || b[k].sent_bytes > q[i].sent_bytes || b[k].received_bytes > q[i].received_bytes)
			continue; /* new queue pair */
		q[i].sent_bytes -= b[k].sent_bytes;
		q[i].received_bytes -= b[k].received_bytes;
		j = k + 1;
	}
}

/* Has the processes count bytes for some seconds, and then asks them. 0, or an exit status. */
static int stat_count(const struct command *command, int pids, char **pid, double seconds, struct stats *s)
{
	struct timespec time = {.tv_sec = (time_t)seconds,
				.tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
	struct stats before = *s;
	char answer[256];
	int status;

	for (size_t i = 0; i < before.count; i++) /* counted until this command ends */
		control_call((pid_t)before.process[i].head.pid, "count", answer, sizeof(answer), NULL);
	while (nanosleep(&time, &time) && errno == EINTR)
		;
	status = stats_gather(command, pids, pid, s);
	for (size_t i = 0; i < s->count; i++)
		for (size_t j = 0; j < before.count; j++)
			if (s->process[i].head.pid == before.process[j].head.pid)
				subtract_bytes(&s->process[i], &before.process[j]);
	stats_free(&before);
	return status;
}

/* 0, or an exit status. */
static int stat_seconds(const struct command *command, const char *text, double *seconds)
{
	char *end;

	*seconds = strtod(text, &end);
	if (end == text || *end || !(*seconds >= 0.1 && *seconds <= 3600))
		return wrong_usage(command, "'%s' is not a number of seconds from 0.1 to 3600", text);
	return 0;
}

static void complain_of_silent(const struct command *command, const struct stats *s)
{
	for (size_t i = 0; i < s->silent_count; i++)
		complain(command, "process %d: %s", (int)s->silent[i].pid, s->silent[i].why);
}

/* Returns the exit status. */
static int stat_show(const struct command *command, const struct stats *s, enum stat_form form)
{
	complain_of_silent(command, s);
	if (!s->count && !s->silent_count && form <= FORM_ALL)
		return complain(command,
				"no process of this user in this network namespace has a connection on a uroce "
				"device (`uroce run PROGRAM` begins one)");
	if (form == FORM_JSON)
		stats_json(s, stdout);
	else if (form == FORM_PROMETHEUS)
		stats_prometheus(s, stdout);
	else
		print_all(s, form == FORM_ALL);
	return s->silent_count && !s->count ? EXIT_FAILURE : EXIT_SUCCESS;
}

int stat_command(const struct command *command, int argc, char **argv)
{
	static const struct option options[] = {{"all", no_argument, NULL, 'a'},
						{"bytes", required_argument, NULL, 'b'},
						{"json", no_argument, NULL, 'j'},
						{"prometheus", no_argument, NULL, 'p'},
						{0}};
	enum stat_form form = FORM_TABLE;
	double seconds = 0;
	struct stats s;
	int c, status;

	while ((c = next_option(command, argc, argv, "ab:jp", options)) != -1) {
		if (c == '?')
			return show_usage(command);
		status = c == 'b' ? stat_seconds(command, optarg, &seconds) : 0;
		if (status)
			return status;
		if (c != 'b')
			form = c == 'a' ? FORM_ALL : c == 'j' ? FORM_JSON : FORM_PROMETHEUS;
	}
	if (seconds > 0 && form == FORM_PROMETHEUS)
		return wrong_usage(command, "Prometheus needs counters: run the programs with UROCE_COUNT=bytes");
	status = stats_gather(command, argc - optind, argv + optind, &s);
	if (!status && seconds > 0)
		status = stat_count(command, argc - optind, argv + optind, seconds, &s);
	if (!status)
		status = stat_show(command, &s, form);
	stats_free(&s);
	return status;
}
