/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce top`: shows the queue pairs of running processes, the busiest first, in place. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/control_call.h"
#include "tools/command.h"
#include "tools/map.h"
#include "tools/names.h"
#include "tools/stat/stats.h"
#include "tools/terminal.h"

#define PROGRAM_WIDTH 15 /* columns: the kernel's names are no longer */
#define PEER_WIDTH    24 /* columns of the peer, shown above 80 columns */
#define WIDE	      (80 + 1 + PEER_WIDTH)

struct line {
	const struct stat_process *process;
	const struct stat_qp *qp;
	double sent, received, resent, bytes; /* per second */
};

/* A process that counts bytes while this connection exists. */
struct counted {
	uint32_t pid;
	int fd;
};

struct top_totals {
	double tx_packets, tx_bytes, rx_packets, rx_bytes; /* by UDP, per second */
	double shared;					   /* requests by shared memory, per second */
};

struct top {
	struct stats before, now;
	struct map known; /* QPs of `before`: process id and QPN to index in `earlier` */
	const struct stat_qp **earlier;
	size_t earlier_count;
	struct line *line;
	size_t lines;
	struct top_totals totals;
	char key;   /* sort order: a letter of keys[] */
	bool bytes; /* byte counting is on, by `counted` */
	struct counted *counted;
	size_t counted_count;
	bool on_screen; /* in place; else one block of lines after another */
};

static const struct top_key {
	char key;
	const char *name;
	double (*value)(const struct line *l);
} top_keys[];

/* ---- rates ---- */

static uint64_t top_name(const struct stat_process *p, const struct stat_qp *q)
{
	return (uint64_t)p->head.pid << 32 | q->qpn;
}

/* Rate per second. A queue pair that was moved to RESET restarts at 0. */
static double rate(uint32_t now, uint32_t before, double seconds)
{
	uint32_t more = now - before;

	return (more > INT32_MAX ? now : more) / seconds;
}

/* Rate of both directions. */
static double rate_of_bytes(const struct stat_qp *now, const struct stat_qp *before, double seconds)
{
	if (now->sent_bytes < before->sent_bytes || now->received_bytes < before->received_bytes)
		return 0; /* another queue pair with that number */
	return (double)(now->sent_bytes - before->sent_bytes + now->received_bytes - before->received_bytes) / seconds;
}

static void remember(struct top *t)
{
	map_free(&t->known);
	t->known = (struct map){0};
	t->earlier_count = 0;
	for (size_t i = 0; i < t->before.count; i++) {
		size_t n;
		const struct stat_qp *q = stat_qps(&t->before.process[i], &n);

		for (size_t j = 0; j < n; j++) {
			t->earlier = room_for(t->earlier, t->earlier_count, sizeof(*t->earlier));
			map_put(&t->known, top_name(&t->before.process[i], &q[j]), (uint32_t)t->earlier_count);
			t->earlier[t->earlier_count++] = &q[j];
		}
	}
}

static const struct stat_process *top_before(const struct top *t, uint32_t pid)
{
	for (size_t i = 0; i < t->before.count; i++)
		if (t->before.process[i].head.pid == pid)
			return &t->before.process[i];
	return NULL;
}

static double seconds_since(const struct stat_process *now, const struct stat_process *before)
{
	return now->head.time > before->head.time ? (double)(now->head.time - before->head.time) / SEC : 1;
}

static void add_line(struct top *t, const struct stat_process *p, const struct stat_process *before,
		     const struct stat_qp *q)
{
	uint32_t at = before ? map_get(&t->known, top_name(p, q)) : MAP_NONE;
	struct line l = {p, q, 0, 0, 0, 0};

	if (at != MAP_NONE) {
		const struct stat_qp *b = t->earlier[at];
		double seconds = seconds_since(p, before);

		l.sent = rate(q->sent, b->sent, seconds);
		l.received = rate(q->received, b->received, seconds);
		l.bytes = rate_of_bytes(q, b, seconds);
		l.resent = rate(q->trouble[STAT_RESENT], b->trouble[STAT_RESENT], seconds);
	}
	t->totals.shared += lane_is_shared(q->lane) ? l.sent : 0;
	t->line = room_for(t->line, t->lines, sizeof(*t->line));
	t->line[t->lines++] = l;
}

/* Growth of a counter. A new process with the same number began at 0. */
static double grown(uint64_t now, uint64_t before)
{
	return now > before ? (double)(now - before) : 0;
}

static void add_totals(struct top *t, const struct stat_process *p, const struct stat_process *before)
{
	size_t n, m;
	const struct stat_device *d = stat_devices(p, &n), *b = before ? stat_devices(before, &m) : NULL;
	double seconds = before ? seconds_since(p, before) : 1;

	for (size_t i = 0; b && i < n; i++)
		for (size_t j = 0; j < m; j++)
			if (d[i].number == b[j].number) {
				t->totals.tx_packets += grown(d[i].tx_packets, b[j].tx_packets) / seconds;
				t->totals.tx_bytes += grown(d[i].tx_bytes, b[j].tx_bytes) / seconds;
				t->totals.rx_packets += grown(d[i].rx_packets, b[j].rx_packets) / seconds;
				t->totals.rx_bytes += grown(d[i].rx_bytes, b[j].rx_bytes) / seconds;
			}
}

static void top_compare(struct top *t)
{
	t->lines = 0;
	t->totals = (struct top_totals){0};
	for (size_t i = 0; i < t->now.count; i++) {
		const struct stat_process *p = &t->now.process[i], *before = top_before(t, p->head.pid);
		size_t n;
		const struct stat_qp *q = stat_qps(p, &n);

		add_totals(t, p, before);
		for (size_t j = 0; j < n; j++)
			add_line(t, p, before, &q[j]);
	}
}

/* ---- order ---- */

static double value_sent(const struct line *l)
{
	return l->sent;
}

static double value_received(const struct line *l)
{
	return l->received;
}

static double value_open(const struct line *l)
{
	return l->qp->send_posted;
}

static double value_resent(const struct line *l)
{
	return l->resent;
}

static double value_pid(const struct line *l)
{
	return -(double)l->process->head.pid;
}

static double value_both(const struct line *l)
{
	return l->sent + l->received;
}

static const struct top_key top_keys[] = {
	{'b', "busy", value_both}, {'s', "sent", value_sent},	  {'r', "received", value_received},
	{'o', "open", value_open}, {'e', "resent", value_resent}, {'p', "process", value_pid},
};

static const struct top_key *find_key(char key)
{
	for (size_t i = 0; i < ARRAY_SIZE(top_keys); i++)
		if (top_keys[i].key == key)
			return &top_keys[i];
	return NULL;
}

static double (*sorted_by)(const struct line *l);

/* Orders by value; equal ones by process and QPN. */
static int by_value(const void *a, const void *b)
{
	const struct line *x = a, *y = b;
	double v = sorted_by(x), w = sorted_by(y);
	uint64_t n = top_name(x->process, x->qp), m = top_name(y->process, y->qp);

	return v != w ? (v < w) - (v > w) : (n > m) - (n < m);
}

/* ---- the picture ---- */

static const char *top_rate(double value)
{
	return stats_number((uint64_t)(value + 0.5));
}

static void end_line(const struct top *t)
{
	puts(t->on_screen ? "\033[K" : "");
}

static void draw_head(const struct top *t, bool wide)
{
	const struct top_totals *s = &t->totals;

	printf("%suroce top%s: %zu process%s, %zu QP%s", style(BOLD), style(PLAIN), t->now.count,
	       t->now.count == 1 ? "" : "es", t->lines, t->lines == 1 ? "" : "s");
	if (t->now.silent_count)
		printf("; %zu without an answer", t->now.silent_count);
	end_line(t);
	printf("shared memory %s requests/s; UDP out %s/s %sB/s, in %s/s %sB/s", top_rate(s->shared),
	       top_rate(s->tx_packets), top_rate(s->tx_bytes), top_rate(s->rx_packets), top_rate(s->rx_bytes));
	end_line(t);
	if (t->on_screen) {
		printf("%sby %s; keys: b busy, s sent, r received, o open, e resent, p process, q quit%s", style(DIM),
		       find_key(t->key)->name, style(PLAIN));
		end_line(t);
	}
	printf("%s%7s %-*s %-8s ", style(DIM), "PID", PROGRAM_WIDTH, "PROGRAM", "QP");
	if (!t->bytes)
		printf("%-4s ", "TYPE");
	printf("%-5s %-8s %6s %6s ", "STATE", "LANE", "SENT/s", "RECV/s");
	if (t->bytes)
		printf("%5s ", "B/s");
	printf("%5s %6s", "OPEN", "RESENT");
	if (wide)
		printf(" %-*s", PEER_WIDTH, "PEER");
	fputs(style(PLAIN), stdout);
	end_line(t);
}

static void draw_line(const struct top *t, const struct line *l, bool wide)
{
	const struct stat_qp *q = l->qp;
	bool bad = q->state == 6 || l->resent > 0 || q->rnr_wait;

	printf("%s%7u %-*.*s 0x%06x ", bad ? style(YELLOW) : "", l->process->head.pid, PROGRAM_WIDTH, PROGRAM_WIDTH,
	       l->process->head.program, q->qpn);
	if (!t->bytes) /* 80 columns have no room for both */
		printf("%-4s ", qp_type_name(q->type));
	printf("%-5s %-8s %6s %6s ", qp_state_name(q->state), q->rnr_wait ? "rnr wait" : lane_name(q->lane),
	       top_rate(l->sent), top_rate(l->received));
	if (t->bytes)
		printf("%5s ", top_rate(l->bytes));
	printf("%5s %6s", stats_number(q->send_posted), top_rate(l->resent));
	if (wide)
		printf(" %-*s", PEER_WIDTH, stats_peer(q, PEER_WIDTH));
	if (bad)
		fputs(style(PLAIN), stdout);
	end_line(t);
}

static void top_draw(struct top *t)
{
	struct winsize size = {.ws_row = 0, .ws_col = 80};
	size_t room = SIZE_MAX;
	bool wide;

	if (t->on_screen && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_row > 5)
		room = size.ws_row - 5;
	wide = size.ws_col >= WIDE;
	sorted_by = find_key(t->key)->value;
	if (t->lines)
		qsort(t->line, t->lines, sizeof(*t->line), by_value);
	if (t->on_screen)
		fputs("\033[H", stdout);
	draw_head(t, wide);
	for (size_t i = 0; i < min_of(t->lines, room); i++)
		draw_line(t, &t->line[i], wide);
	if (t->on_screen)
		fputs("\033[J", stdout);
	fflush(stdout);
}

/* ---- the terminal ---- */

static struct termios usual;
static volatile sig_atomic_t has_ended;

static void end_top(int signal)
{
	has_ended = 1;
}

/* Interrupts poll(), so that the new size is drawn. */
static void size_changed(int signal)
{
}

static void top_signals(void)
{
	struct sigaction end = {.sa_handler = end_top}, size = {.sa_handler = size_changed};

	sigaction(SIGINT, &end, NULL);
	sigaction(SIGTERM, &end, NULL);
	sigaction(SIGHUP, &end, NULL);
	sigaction(SIGWINCH, &size, NULL);
}

/* Switches to the alternate screen, and to unbuffered keys. */
static bool screen_begin(void)
{
	struct termios raw;

	if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &usual))
		return false;
	raw = usual;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	fputs("\033[?1049h\033[?25l\033[H\033[J", stdout);
	return true;
}

static void screen_end(void)
{
	fputs("\033[?25h\033[?1049l", stdout);
	fflush(stdout);
	tcsetattr(STDIN_FILENO, TCSANOW, &usual);
}

/* Waits until the next update; a key may change the order meanwhile. False: end. */
static bool top_wait(struct top *t, double seconds)
{
	uint64_t end = clock_now() + (uint64_t)(seconds * SEC), now;
	struct pollfd keys = {.fd = t->on_screen ? STDIN_FILENO : -1, .events = POLLIN};
	char key;

	while (!has_ended && (now = clock_now()) < end) {
		int n = poll(&keys, 1, (int)((end - now + MSEC - 1) / MSEC));

		if (n < 0 && errno == EINTR && !has_ended)
			top_draw(t);
		if (n <= 0)
			continue;
		if (read(STDIN_FILENO, &key, 1) != 1 || key == 'q')
			return false;
		if (find_key(key)) {
			t->key = key;
			top_draw(t);
		}
	}
	return !has_ended;
}

/* ---- the command ---- */

/* Starts byte counting in new processes, and drops the connections of those that ended. */
static void count_bytes(struct top *t)
{
	char answer[256];

	for (size_t i = 0; i < t->now.count; i++) {
		uint32_t pid = t->now.process[i].head.pid;
		size_t k = 0;

		while (k < t->counted_count && t->counted[k].pid != pid)
			k++;
		if (k < t->counted_count)
			continue;
		t->counted = room_for(t->counted, t->counted_count, sizeof(*t->counted));
		t->counted[t->counted_count++] =
			(struct counted){pid, control_call((pid_t)pid, "count", answer, sizeof(answer), NULL)};
	}
}

/* 0, or an exit status. */
static int top_step(const struct command *command, struct top *t, int pids, char **pid)
{
	int status;

	stats_free(&t->before);
	t->before = t->now;
	t->now = (struct stats){0};
	remember(t);
	status = stats_gather(command, pids, pid, &t->now);
	if (t->bytes)
		count_bytes(t);
	top_compare(t);
	return status;
}

/* No messages until the end, as they would be lost with the alternate screen. */
static int top_run(const struct command *command, struct top *t, double seconds, long times, int pids, char **pid)
{
	int status = top_step(command, t, pids, pid);

	if (status)
		return status;
	top_signals();
	t->on_screen = screen_begin();
	if (t->on_screen)
		top_draw(t);
	for (long i = 0; (!times || i < times) && top_wait(t, seconds); i++) {
		status = top_step(command, t, pids, pid);
		if (status && t->now.count == 0)
			break;
		top_draw(t);
		if (ferror(stdout))
			break;
	}
	if (t->on_screen)
		screen_end();
	return 0;
}

int top_command(const struct command *command, int argc, char **argv)
{
	static const struct option options[] = {{"delay", required_argument, NULL, 'd'},
						{"times", required_argument, NULL, 'n'},
						{"sort", required_argument, NULL, 's'},
						{"bytes", no_argument, NULL, 'b'},
						{0}};
	struct top t = {.key = 'b'};
	double seconds = 1;
	long times = 0;
	char *end = "";
	int c, status;

	while ((c = next_option(command, argc, argv, "bd:n:s:", options)) != -1) {
		if (c == '?')
			return show_usage(command);
		if (c == 'd')
			seconds = strtod(optarg, &end);
		else if (c == 'b')
			t.bytes = true;
		else if (c == 'n')
			times = strtol(optarg, &end, 10) ?: -1;
		else
			t.key = *optarg;
		if (*end || !(seconds >= 0.1 && seconds <= 3600) || times < 0 || !find_key(t.key))
			return wrong_usage(
				command, "'%s' is out of range: -d 0.1 to 3600 s, -n 1 or more, -s b, s, r, o, e or p",
				optarg);
	}
	status = top_run(command, &t, seconds, times, argc - optind, argv + optind);
	stats_free(&t.before);
	stats_free(&t.now);
	map_free(&t.known);
	free(t.earlier);
	free(t.counted); /* connections end with the command */
	free(t.line);
	return status;
}
