/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/capture/collect.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/address.h"
#include "base/base.h"
#include "base/high_fd.h"
#include "base/memfd.h"
#include "base/own_file.h"
#include "base/rights.h"
#include "base/same_user.h"
#include "base/trace.h"
#include "tools/capture/captured.h"
#include "tools/capture/expand.h"
#include "tools/capture/frame.h"
#include "tools/capture/pcapng.h"
#include "tools/map.h"
#include "tools/names.h"
#include "wire/icrc.h"

#define SEEN  64
#define KNOWN (1u << 16) /* work requests, and packets, remembered for each process */

struct request {
	uint32_t qpn, wqe, opcode, length;
	uint64_t wr_id;
};

/* Work request of a built packet. */
struct built {
	uint32_t dest_qpn, psn, opcode, qpn, wqe;
};

struct member {
	int fd, bell;
	struct captured ring;
	uint64_t dropped;
	struct capture_hello hello;
	struct request *requests; /* KNOWN requests and packets, hashed; a later one replaces an earlier one */
	struct built *builds;
};

struct interface {
	char name[64], description[160];
	uint64_t packets;
};

struct collector {
	struct collect_options options;
	const char *command;
	uint8_t address[16];
	char name[80];
	int listener, signals;
	struct pcapng out;
	uint32_t file_number;
	struct member *members;
	uint32_t count, joined;
	struct interface *interfaces;
	uint32_t interface_count, interfaces_told;
	struct {
		uint8_t gid[16];
		uint32_t number; /* number of the interface, plus 1; 0: unknown */
	} seen[SEEN];		 /* addresses, hashed; a later one replaces an earlier one */
	uint64_t packets, dropped, last_time;
	struct frame frame;
	bool failed; /* the file cannot be written: nothing is captured any more */
};

/* ---- the file ---- */

static void file_name(const struct collector *c, uint32_t number, char *out, size_t room)
{
	if (c->options.file_size)
		snprintf(out, room, "%s.%u", c->options.file, number);
	else
		snprintf(out, room, "%s", c->options.file);
}

static bool open_file(struct collector *c)
{
	char name[PATH_MAX], why[OWN_FILE_WHY];

	file_name(c, c->file_number, name, sizeof(name));
	c->out = (struct pcapng){.file = strcmp(name, "-") ? own_file_stream(name, why) : stdout};
	if (!c->out.file) {
		fprintf(stderr, "uroce %s: %s: %s\n", c->command, name, why);
		return false;
	}
	c->interfaces_told = 0;
	pcapng_begin(&c->out);
	return true;
}

/* Stops writing to the file, and removes all processes, which then stop capturing. */
static void fail_file(struct collector *c)
{
	if (!c->out.error || c->failed)
		return;
	fprintf(stderr, "uroce %s: %s: %s: the capture ends here\n", c->command, c->options.file,
		strerror(c->out.error));
	c->failed = true;
}

static void end_file(struct collector *c)
{
	for (uint32_t i = 0; i < c->interfaces_told; i++)
		pcapng_statistics(&c->out, i, c->last_time, c->interfaces[i].packets, i ? 0 : c->dropped);
	pcapng_flush(&c->out);
	if (c->out.file != stdout && fclose(c->out.file) && !c->out.error)
		c->out.error = errno;
	fail_file(c);
}

/* Begins the next file of a ring of files, if this one is long enough. */
static void turn_file(struct collector *c)
{
	char old[PATH_MAX];

	if (c->failed || !c->options.file_size || c->out.bytes < (uint64_t)c->options.file_size << 20)
		return;
	end_file(c);
	if (c->failed)
		return;
	c->file_number++;
	if (c->options.files && c->file_number >= c->options.files) {
		file_name(c, c->file_number - c->options.files, old, sizeof(old));
		unlink(old);
	}
	c->failed = !open_file(c);
}

/* ---- interfaces ---- */

/* Name of the interface with the address or, in another network namespace, the address itself. */
static void interface_name(const uint8_t gid[16], char *out, size_t room)
{
	char text[INET6_ADDRSTRLEN], other[INET6_ADDRSTRLEN];
	struct ifaddrs *all = NULL;

	gid_print(gid, text);
	snprintf(out, room, "%s", text);
	getifaddrs(&all);
	for (struct ifaddrs *i = all; i; i = i->ifa_next) {
		int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
		const void *at = family == AF_INET ? (void *)&((struct sockaddr_in *)i->ifa_addr)->sin_addr
						   : (void *)&((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr;

		if ((family == AF_INET || family == AF_INET6) && inet_ntop(family, at, other, sizeof(other)) &&
		    !strcmp(text, other))
			snprintf(out, room, "%s", i->ifa_name);
	}
	freeifaddrs(all);
}

/* Number of the interface with that name. */
static uint32_t interface_with(struct collector *c, const char *name)
{
	uint32_t n = 0;

	while (n < c->interface_count && strcmp(c->interfaces[n].name, name))
		n++;
	if (n == c->interface_count) {
		c->interfaces = room_for(c->interfaces, c->interface_count, sizeof(*c->interfaces));
		c->interfaces[n] = (struct interface){0};
		snprintf(c->interfaces[n].name, sizeof(c->interfaces[n].name), "%s", name);
		snprintf(c->interfaces[n].description, sizeof(c->interfaces[n].description),
			 "RoCEv2 device of uroce on %s", name);
		c->interface_count++;
	}
	return n;
}

/* Number of the address's interface in this file. The kernel is asked once per address. */
static uint32_t interface_of(struct collector *c, const uint8_t gid[16])
{
	uint32_t at = (gid[14] * 31u + gid[15]) % SEEN, n;
	char name[sizeof(c->interfaces->name)];

	if (!c->seen[at].number || memcmp(c->seen[at].gid, gid, 16)) {
		interface_name(gid, name, sizeof(name));
		memcpy(c->seen[at].gid, gid, 16);
		c->seen[at].number = interface_with(c, name) + 1;
	}
	n = c->seen[at].number - 1;
	while (c->interfaces_told <= n) {
		const struct interface *i = &c->interfaces[c->interfaces_told++];

		pcapng_interface(&c->out, i->name, i->description, c->options.snap);
	}
	return n;
}

/* ---- packets ---- */

static struct request *request_at(const struct member *m, uint32_t qpn, uint32_t wqe)
{
	return &m->requests[(qpn * 0x9e3779b1u + wqe) % KNOWN];
}

static struct built *built_at(const struct member *m, uint32_t dest_qpn, uint32_t psn, uint32_t opcode)
{
	return &m->builds[(dest_qpn * 0x9e3779b1u + psn * 31 + opcode) % KNOWN];
}

static void take_event(struct member *m, const struct capture_event *e)
{
	const uint64_t *a = e->arg; /* in the order of trace.def */

	if (e->point == TRACE_post_send)
		*request_at(m, (uint32_t)a[0], (uint32_t)a[1]) =
			(struct request){(uint32_t)a[0], (uint32_t)a[1], (uint32_t)a[3], (uint32_t)a[4], a[2]};
	else if (e->point == TRACE_build && opcode_info[a[3] & 0xff].flags & IS_REQUEST)
		*built_at(m, (uint32_t)a[1], (uint32_t)a[2], (uint32_t)a[3]) =
			(struct built){(uint32_t)a[1], (uint32_t)a[2], (uint32_t)a[3], (uint32_t)a[0], (uint32_t)a[5]};
}

/* A record on its way to the file. */
struct passage {
	struct collector *c;
	struct member *m;
	const struct capture_record *record;
	const struct capture_path *path;
	uint32_t qpn, wqe; /* valid if `known` */
	bool known;
};

static bool is_wanted(const struct passage *p, const struct packet *packet)
{
	const struct collect_options *o = &p->c->options;

	if (o->address && memcmp(p->path->from, p->c->address, 16) && memcmp(p->path->to, p->c->address, 16))
		return false;
	return o->qpn < 0 || packet->dest_qpn == o->qpn || p->path->qpn == o->qpn || (p->known && p->qpn == o->qpn);
}

static const char *const link_text[] = {[CAPTURE_UDP] = "by UDP",
					[CAPTURE_RING] = "by shared memory",
					[CAPTURE_MEMORY] = "one-sided: no packet was sent"};

static void make_comment(const struct passage *p, const struct expanded *e, char *out, size_t room)
{
	const struct capture_hello *h = &p->m->hello;
	const struct request *r = p->known ? request_at(p->m, p->qpn, p->wqe) : NULL;
	int n = snprintf(out, room, "%.15s (process %u)", h->program, h->pid);

	if (p->known || p->path->qpn)
		n += snprintf(out + n, room - n, ", QP 0x%06x", p->known ? p->qpn : p->path->qpn);
	if (r && r->qpn == p->qpn && r->wqe == p->wqe)
		n += snprintf(out + n, room - n, ", %s of %u bytes, wr_id 0x%llx, work request %u",
			      operation_name(r->opcode), r->length, (unsigned long long)r->wr_id, r->wqe);
	n += snprintf(out + n, room - n, ", %s", link_text[p->record->link]);
	if (e->of > 1)
		snprintf(out + n, room - n, ", packet %u of %u", e->number, e->of);
}

static void write_expanded(void *arg, const struct expanded *e)
{
	struct passage *p = arg;
	struct collector *c = p->c;
	struct capture_path path = *p->path;
	uint8_t headers[PACKET_HEADERS];
	uint32_t interface, bytes;
	char comment[320];

	if (c->failed || !is_wanted(p, e->packet))
		return;
	if (e->inbound && !p->record->inbound) { /* response of a one-sided operation */
		memcpy(path.from, p->path->to, 16);
		memcpy(path.to, p->path->from, 16);
	}
	bytes = (uint32_t)packet_encode(e->packet, headers);
	frame_build(&c->frame, &path, headers, bytes, e->payload, e->captured, e->packet->length);
	make_comment(p, e, comment, sizeof(comment));
	interface = interface_of(c, e->inbound ? path.to : path.from);
	if (c->options.snap)
		c->frame.captured = min_of(c->frame.captured, c->options.snap);
	pcapng_packet(&c->out, interface, p->record->time, e->inbound, c->frame.bytes, c->frame.captured,
		      c->frame.length, comment);
	c->last_time = p->record->time;
	c->interfaces[interface].packets++;
	c->packets++;
	fail_file(c);
}

static void take_packet(struct collector *c, struct member *m, const struct capture_packet *r)
{
	struct passage p = {.c = c, .m = m, .record = &r->record, .path = &r->path};
	const uint8_t *bth = (const uint8_t *)(r + 1);
	const struct built *b;

	if (r->record.bytes < sizeof(*r) + 12)
		return; /* without a BTH */
	if (!r->record.inbound) {
		b = built_at(m, (uint32_t)bth[5] << 16 | bth[6] << 8 | bth[7],
			     (uint32_t)bth[9] << 16 | bth[10] << 8 | bth[11], bth[0]);
		p.known = b->dest_qpn == ((uint32_t)bth[5] << 16 | bth[6] << 8 | bth[7]) &&
			  b->psn == ((uint32_t)bth[9] << 16 | bth[10] << 8 | bth[11]) && b->opcode == bth[0] && b->qpn;
		p.qpn = b->qpn;
		p.wqe = b->wqe;
	}
	expand_packet(r, write_expanded, &p);
}

static void take_onesided(struct collector *c, struct member *m, const struct capture_onesided *r)
{
	struct passage p = {.c = c, .m = m, .record = &r->record, .path = &r->path, .known = true};

	p.qpn = r->path.qpn;
	p.wqe = r->wqe;
	expand_onesided(r, write_expanded, &p);
}

static void take_record(struct collector *c, struct member *m, const struct capture_record *r)
{
	if (r->kind == CAPTURE_EVENT)
		take_event(m, (const void *)r);
	else if (r->kind == CAPTURE_PACKET)
		take_packet(c, m, (const void *)r);
	else
		take_onesided(c, m, (const void *)r);
}

/* Writes all records of a member's ring. */
static void drain_member(struct collector *c, struct member *m)
{
	uint64_t written = captured_written(&m->ring);
	const struct capture_record *r;

	if (m->ring.broken)
		return;
	while (!c->failed && (r = captured_next(&m->ring, written))) {
		take_record(c, m, r);
		turn_file(c);
	}
	m->dropped = atomic_load_explicit(&m->ring.ring->dropped, memory_order_relaxed);
	if (m->ring.broken)
		fprintf(stderr, "uroce %s: process %u (%s) wrote an invalid record: its later packets are missing\n",
			c->command, m->hello.pid, m->hello.program);
}

/* ---- processes ---- */

/* Receives the hello and its two descriptors, a ring and a doorbell. Closes everything on failure. */
static bool take_hello(int fd, struct capture_hello *hello, int fds[2])
{
	struct timeval patience = {.tv_sec = 1}; /* uroce sends it at once */
	struct ucred peer;
	ssize_t bytes;

	if (!same_user_peer(fd, &peer) || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
		return false;
	bytes = rights_receive(fd, hello, sizeof(*hello), 0, fds, 2);
	hello->program[sizeof(hello->program) - 1] = 0;
	hello->pid = (uint32_t)peer.pid;
	if (bytes == sizeof(*hello) && hello->magic == CAPTURE_MAGIC && memfd_is_fixed(fds[0], hello->bytes) &&
	    rights_is_doorbell(fds[1]))
		return true;
	for (int i = 0; i < 2; i++)
		fd_close(&fds[i]);
	return false;
}

/* Makes the program's name valid UTF-8, for comments. */
static void make_printable(char *name)
{
	for (; *name; name++)
		if (*name < ' ' || *name > '~')
			*name = '?';
}

static void accept_member(struct collector *c)
{
	struct member m = {.fd = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC)};
	int fds[2] = {-1, -1};

	if (m.fd < 0)
		return;
	if (c->failed || !take_hello(m.fd, &m.hello, fds) || !captured_open(&m.ring, fds[0], m.hello.bytes)) {
		if (fds[1] >= 0)
			close(fds[1]);
		close(m.fd);
		return;
	}
	make_printable(m.hello.program);
	m.bell = fds[1];
	m.requests = grow(NULL, KNOWN, sizeof(*m.requests));
	m.builds = grow(NULL, KNOWN, sizeof(*m.builds));
	memset(m.requests, 0, KNOWN * sizeof(*m.requests));
	memset(m.builds, 0, KNOWN * sizeof(*m.builds));
	atomic_store_explicit(&m.ring.ring->payload, c->options.snap ?: UINT32_MAX, memory_order_relaxed);
	c->members = room_for(c->members, c->count, sizeof(*c->members));
	c->members[c->count++] = m;
	c->joined++;
	if (send(m.fd, "", 1, MSG_NOSIGNAL) < 0)
		return; /* ended: poll() reports it */
}

static void remove_member(struct collector *c, uint32_t i)
{
	struct member *m = &c->members[i];

	drain_member(c, m);
	c->dropped += m->dropped;
	captured_close(&m->ring);
	close(m->fd);
	close(m->bell);
	free(m->requests);
	free(m->builds);
	*m = c->members[--c->count];
}

/* Asks for a doorbell for each new record. */
static void prepare_sleep(struct collector *c)
{
	for (uint32_t i = 0; i < c->count; i++) {
		atomic_store_explicit(&c->members[i].ring.ring->sleeps, 1, memory_order_seq_cst);
		drain_member(c, &c->members[i]); /* pairs with capture_commit() */
	}
	if (!c->failed)
		pcapng_flush(&c->out);
	fail_file(c);
}

static void remove_members(struct collector *c)
{
	while (c->count)
		remove_member(c, c->count - 1);
}

static void await_something(struct collector *c, struct pollfd *p)
{
	p[0] = (struct pollfd){.fd = c->listener, .events = POLLIN};
	p[1] = (struct pollfd){.fd = c->signals, .events = POLLIN};
	for (uint32_t i = 0; i < c->count; i++) {
		p[2 + 2 * i] = (struct pollfd){.fd = c->members[i].bell, .events = POLLIN};
		p[3 + 2 * i] = (struct pollfd){.fd = c->members[i].fd, .events = POLLIN};
	}
	while (poll(p, 2 + 2 * c->count, -1) < 0 && errno == EINTR)
		;
}

/* True if the end was asked for. */
static bool heed_signal(struct collector *c, pid_t child, int *status)
{
	struct signalfd_siginfo s;

	if (read(c->signals, &s, sizeof(s)) != sizeof(s))
		return false;
	if (s.ssi_signo == SIGCHLD)
		return child && waitpid(child, status, WNOHANG) == child;
	if (!child)
		return true;
	if (s.ssi_signo == SIGTERM) /* a terminal sends SIGINT to the child too */
		kill(child, SIGTERM);
	return false; /* waits for the child's end */
}

int collect_run(struct collector *c, pid_t child)
{
	struct pollfd *p = NULL;
	int status = 0;
	bool ends = false;

	signal(SIGPIPE, SIG_IGN); /* the child continues if the reader of the file ends */
	while (!ends && (child || !c->joined || c->count)) {
		uint32_t count;
		uint64_t rings;

		prepare_sleep(c);
		if (c->failed)
			remove_members(c);
		if (c->failed && !child)
			break;
		count = c->count;
		p = grow(p, 2 + 2 * count, sizeof(*p));
		await_something(c, p);
		for (uint32_t i = count; i-- > 0;) {
			if (p[2 + 2 * i].revents && read(c->members[i].bell, &rings, sizeof(rings)) < 0)
				p[3 + 2 * i].revents = POLLHUP;
			drain_member(c, &c->members[i]);
			if (p[3 + 2 * i].revents)
				remove_member(c, i);
		}
		if (p[1].revents)
			ends = heed_signal(c, child, &status);
		if (p[0].revents)
			accept_member(c);
	}
	free(p);
	remove_members(c);
	return status;
}

/* ---- */

static bool listen_to(struct collector *c)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	uint64_t random;
	sigset_t set;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return false;
	snprintf(c->name, sizeof(c->name), "uroce/collector/%d/%016llx", (int)getpid(), (unsigned long long)random);
	memcpy(address.sun_path + 1, c->name, strlen(c->name));
	c->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	c->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return c->listener >= 0 && c->signals >= 0 &&
	       !bind(c->listener, (struct sockaddr *)&address,
		     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(c->name))) &&
	       !listen(c->listener, 64);
}

bool collect_address(const char *text, uint8_t gid[16])
{
	memset(gid, 0, 10);
	memset(gid + 10, 0xff, 2);
	return inet_pton(AF_INET, text, gid + 12) == 1 || inet_pton(AF_INET6, text, gid) == 1;
}

struct collector *collect_open(const struct collect_options *o, const char *name)
{
	struct collector *c = grow(NULL, 1, sizeof(*c));

	memset(c, 0, sizeof(*c));
	c->options = *o;
	c->command = name;
	if (o->address)
		collect_address(o->address, c->address);
	icrc_init();
	if (!open_file(c))
		return NULL;
	if (!listen_to(c)) {
		fprintf(stderr, "uroce %s: cannot listen for processes: %s\n", name, strerror(errno));
		return NULL;
	}
	return c;
}

const char *collect_name(const struct collector *c)
{
	return c->name;
}

static void tell_numbers(const struct collector *c)
{
	fprintf(stderr, "uroce %s: %llu packets of %u process%s captured", c->command, (unsigned long long)c->packets,
		c->joined, c->joined == 1 ? "" : "es");
	if (c->dropped)
		fprintf(stderr, ", %llu dropped: the file is written too slowly (try --snap 128)",
			(unsigned long long)c->dropped);
	fputc('\n', stderr);
}

bool collect_close(struct collector *c)
{
	bool failed;

	if (!c->failed)
		end_file(c);
	failed = c->failed;
	if (!failed)
		tell_numbers(c);
	close(c->listener);
	close(c->signals);
	free(c->members);
	free(c->interfaces);
	free(c);
	return !failed;
}

bool collect_number(const char *text, uint32_t least, uint32_t *n)
{
	char *end;
	unsigned long long v;

	errno = 0;
	v = strtoull(text, &end, 0);
	if (errno || *text == '-' || end == text || *end || v < least || v > UINT32_MAX)
		return false;
	*n = (uint32_t)v;
	return true;
}
