/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/stat/stats.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/address.h"
#include "base/base.h"
#include "base/control_call.h"
#include "tools/command.h"
#include "tools/map.h"

const char *const stats_trouble_name[STAT_TROUBLES] = {
	[STAT_DUPLICATES] = "duplicate_requests",
	[STAT_GAPS] = "out_of_sequence",
	[STAT_NO_RECEIVE] = "no_receive",
	[STAT_RNR_NAKS] = "rnr_naks_received",
	[STAT_SEQUENCE_NAKS] = "sequence_naks_received",
	[STAT_TIMEOUTS] = "timeouts",
	[STAT_RETRIES_SPENT] = "retries_exceeded",
	[STAT_RNR_RETRIES_SPENT] = "rnr_retries_exceeded",
	[STAT_RESENT] = "packets_resent",
};

static char *stats_buffer(void)
{
	static char buffer[8][256];
	static unsigned next;

	return buffer[next++ % ARRAY_SIZE(buffer)];
}

/* Removes control characters from a program's name, which the program chooses. */
static void without_controls(char *name)
{
	for (; *name; name++)
		if ((unsigned char)*name < ' ' || *name == 0x7f)
			*name = '?';
}

static int stats_add(struct stats *s, int given)
{
	struct stat_process *p;
	int err;

	s->process = grow(s->process, s->count + 1, sizeof(*p));
	p = &s->process[s->count];
	err = stat_read(given, p);
	if (err) {
		stat_free(p);
		return err;
	}
	without_controls(p->head.program);
	s->count++;
	return err;
}

/* Process ids are those of our PID namespace, which may differ from the process's own. */
static void stats_one(pid_t pid, int given, void *arg)
{
	struct stats *s = arg;

	if (!stats_add(s, given))
		s->process[s->count - 1].head.pid = (uint32_t)pid;
}

static void stats_none(pid_t pid, const char *why, void *arg)
{
	struct stats *s = arg;
	struct stats_silent *one;

	s->silent = room_for(s->silent, s->silent_count, sizeof(*s->silent));
	one = &s->silent[s->silent_count++];
	one->pid = pid;
	snprintf(one->why, sizeof(one->why), "%s", why);
}

static int by_pid(const void *a, const void *b)
{
	const struct stat_process *x = a, *y = b;

	return (x->head.pid > y->head.pid) - (x->head.pid < y->head.pid);
}

static int stats_named(const struct command *command, const char *pid, struct stats *s)
{
	char answer[256], *end;
	long n;
	int fd, given, err;

	errno = 0;
	n = strtol(pid, &end, 10);
	if (errno || *end || end == pid || n <= 0 || n > INT32_MAX)
		return wrong_usage(command, "'%s' is not a process id", pid);
	for (size_t i = 0; i < s->count; i++)
		if (s->process[i].head.pid == (uint32_t)n)
			return 0; /* named before */
	fd = control_call((pid_t)n, "stat", answer, sizeof(answer), &given);
	if (fd < 0)
		return complain(command, "process %ld: %s", n, answer);
	close(fd);
	err = given < 0 ? -EPROTO : stats_add(s, given);
	if (given >= 0)
		close(given);
	if (err)
		return complain(command, "process %ld: %s", n,
				err == -EPROTO
					? "it runs another version of uroce, whose answer this one cannot read: use "
					  "the `uroce` command of that version"
					: strerror(-err));
	s->process[s->count - 1].head.pid = (uint32_t)n;
	return 0;
}

int stats_gather(const struct command *command, int pids, char **pid, struct stats *s)
{
	int status = 0;

	*s = (struct stats){0};
	for (int i = 0; i < pids && !status; i++)
		status = stats_named(command, pid[i], s);
	if (!pids)
		control_call_all("stat", stats_one, stats_none, s);
	if (s->count)
		qsort(s->process, s->count, sizeof(*s->process), by_pid);
	return status;
}

void stats_free(struct stats *s)
{
	for (size_t i = 0; i < s->count; i++)
		stat_free(&s->process[i]);
	free(s->process);
	free(s->silent);
	*s = (struct stats){0};
}

const struct stat_process *stats_process(const struct stats *s, uint32_t pid)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->process[i].head.pid == pid)
			return &s->process[i];
	return NULL;
}

const struct stat_qp *stats_qp(const struct stat_process *p, uint32_t qpn)
{
	size_t n = 0;
	const struct stat_qp *q = p ? stat_qps(p, &n) : NULL;

	for (size_t i = 0; i < n; i++)
		if (q[i].qpn == qpn)
			return &q[i];
	return NULL;
}

const struct stat_qp *stats_peer_qp(const struct stats *s, const struct stat_qp *q, const struct stat_process **where)
{
	for (size_t i = 0; q->remote_qpn && i < s->count; i++) {
		const struct stat_qp *peer = stats_qp(&s->process[i], q->remote_qpn);

		if (!peer)
			continue;
		*where = &s->process[i];
		return peer;
	}
	return NULL;
}

const struct stat_device *stats_device(const struct stat_process *p, uint32_t number)
{
	size_t n;
	const struct stat_device *d = stat_devices(p, &n);

	for (size_t i = 0; i < n; i++)
		if (d[i].number == number)
			return &d[i];
	return NULL;
}

const char *stats_address(const uint8_t gid[16])
{
	static const uint8_t zeros[16];

	return memcmp(gid, zeros, sizeof(zeros)) ? gid_print(gid, stats_buffer()) : "-";
}

const char *stats_number(uint64_t n)
{
	static const char unit[] = " kMGTPE";
	char *text = stats_buffer();
	double value = (double)n;
	int i = 0;

	if (n < 100000) {
		snprintf(text, 256, "%" PRIu64, n);
		return text;
	}
	while (value >= 999.5) {
		value /= 1000;
		i++;
	}
	snprintf(text, 256, value < 99.95 ? "%.1f%c" : "%.0f%c", value, unit[i]);
	return text;
}

/* Shortens a long IPv6 address in the middle. */
static const char *short_address(const char *address, unsigned room, char out[INET6_ADDRSTRLEN])
{
	unsigned length = (unsigned)strlen(address), left = (room - 2) / 2;

	if (length <= room)
		return address;
	snprintf(out, INET6_ADDRSTRLEN, "%.*s..%s", (int)left, address, address + length - (room - 2 - left));
	return out;
}

const char *stats_peer(const struct stat_qp *q, unsigned width)
{
	const char *address = stats_address(q->remote);
	char *text = stats_buffer(), cut[INET6_ADDRSTRLEN];

	if (!strcmp(address, "-") && !q->remote_qpn)
		return "-";
	snprintf(text, 256, "%s 0x%06x", short_address(address, width - 9, cut), q->remote_qpn);
	return text;
}

const char *stats_end(const uint8_t gid[16], uint32_t port, unsigned width)
{
	const char *address = stats_address(gid);
	char *text = stats_buffer(), cut[INET6_ADDRSTRLEN];

	if (strchr(address, ':'))
		snprintf(text, 256, "[%s]:%u", short_address(address, width - 8, cut), port);
	else
		snprintf(text, 256, "%s:%u", address, port);
	return text;
}

const char *stats_trouble(const struct stat_qp *q)
{
	static const char *const words[STAT_TROUBLES] = {
		/* % becomes 's' in the plural */
		[STAT_DUPLICATES] = "duplicate request%",
		[STAT_GAPS] = "gap%",
		[STAT_NO_RECEIVE] = "message% without a receive",
		[STAT_RNR_NAKS] = "RNR NAK%",
		[STAT_SEQUENCE_NAKS] = "sequence NAK%",
		[STAT_TIMEOUTS] = "timeout%",
		[STAT_RETRIES_SPENT] = "retries exceeded",
		[STAT_RNR_RETRIES_SPENT] = "RNR retries exceeded",
		[STAT_RESENT] = "packet% resent",
	};
	char *text = stats_buffer();
	size_t used = 0;

	*text = 0;
	for (size_t i = 0; i < STAT_TROUBLES; i++) {
		int singular = (int)strcspn(words[i], "%");
		const char *rest = words[i][singular] ? words[i] + singular + 1 : "";

		if (q->trouble[i] && used < 256)
			used += (size_t)snprintf(text + used, 256 - used, "%s%u %.*s%s%s", used ? ", " : "",
						 q->trouble[i], singular, words[i],
						 words[i][singular] && q->trouble[i] != 1 ? "s" : "", rest);
	}
	return text;
}
