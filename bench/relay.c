// SPDX-License-Identifier: BSD-2-Clause
/* relay A B DELAY LOSS LATE: a path between two network namespaces of these names (ip-netns(8)), which has a device v0
 * in each. A packet takes DELAY microseconds each way; of 10,000 packets, LOSS are lost and LATE take a fifth longer
 * (50 microseconds at least), so others overtake them. As much as the relay forwards, no more: a packet for which
 * it has no memory is lost. Prints a line when both devices are there; ends when its standard input does, and then
 * says what it has done. For kernels without netem. Needs CAP_NET_ADMIN and CAP_SYS_ADMIN. */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum {
	ROOM = 1 << 15, /* packets of a queue */
	MTU = 1500,
	BATCH = 64, /* read from one end before the other has its turn */
	OF = 10000,
};

/* What is on its way, in the order in which it arrives. */
struct queue {
	uint32_t first, next;
	struct {
		uint64_t due;
		uint32_t length;
		uint8_t bytes[MTU + 4];
	} packet[ROOM];
};

static struct direction {
	int from, to;
	struct queue *on_time, *late;
	uint64_t relayed, lost, overtaken, no_room;
} way[2];

static uint64_t delay, late_by;
static uint32_t loss, late;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static uint64_t number_of(const char *text, uint64_t most)
{
	char *end;
	unsigned long long n = strtoull(text, &end, 10);

	if (*end || end == text || n > most)
		errx(2, "%s is not a number up to %llu", text, (unsigned long long)most);
	return n;
}

/* Of 10,000: an xorshift generator, the same packets each time. */
static bool hits(uint32_t share)
{
	static uint64_t s = 0x9e3779b97f4a7c15u;

	s ^= s << 13;
	s ^= s >> 7;
	s ^= s << 17;
	return share && s % OF < share;
}

static int device_of(const char *namespace)
{
	struct ifreq r = {.ifr_name = "v0", .ifr_flags = IFF_TUN | IFF_NO_PI};
	char path[256];
	int ns, fd;

	snprintf(path, sizeof(path), "/run/netns/%s", namespace);
	ns = open(path, O_RDONLY | O_CLOEXEC);
	if (ns < 0 || setns(ns, CLONE_NEWNET))
		err(1, "%s", path);
	close(ns);
	fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &r))
		err(1, "/dev/net/tun");
	return fd;
}

static struct queue *new_queue(void)
{
	struct queue *q = calloc(1, sizeof(*q)); /* its pages come as they are used */

	if (!q)
		err(1, "memory");
	return q;
}

/* ---- packets ---- */

/* False: nothing more has come. */
static bool take(struct direction *d, uint64_t now)
{
	bool is_late = hits(late);
	struct queue *q = is_late ? d->late : d->on_time;
	uint8_t unused[MTU + 4];
	bool room = q->next - q->first < ROOM;
	ssize_t n = read(d->from, room ? q->packet[q->next % ROOM].bytes : unused, sizeof(unused));

	if (n <= 0)
		return false;
	if (!room) {
		d->no_room++;
	} else if (hits(loss)) {
		d->lost++;
	} else {
		q->packet[q->next % ROOM].due = now + delay + (is_late ? late_by : 0);
		q->packet[q->next++ % ROOM].length = (uint32_t)n;
		d->overtaken += is_late;
	}
	return true;
}

/* What a full device does not take is lost. */
static void give(struct direction *d, struct queue *q, uint64_t now)
{
	for (; q->first != q->next && q->packet[q->first % ROOM].due <= now; q->first++)
		if (write(d->to, q->packet[q->first % ROOM].bytes, q->packet[q->first % ROOM].length) > 0)
			d->relayed++;
		else
			d->no_room++;
}

/* When the next packet is due; `at` if none is before that. */
static uint64_t next_due(const struct queue *q, uint64_t at)
{
	if (q->first != q->next && q->packet[q->first % ROOM].due < at)
		return q->packet[q->first % ROOM].due;
	return at;
}

static void relay(struct direction *d)
{
	uint64_t now = now_ns();

	give(d, d->on_time, now);
	give(d, d->late, now);
	for (int i = 0; i < BATCH && take(d, now); i++)
		;
}

/* False: standard input has ended. */
static bool await(void)
{
	struct pollfd p[] = {{way[0].from, POLLIN, 0}, {way[1].from, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
	uint64_t now = now_ns(), at = now + 1000000000;
	struct timespec wait;

	for (int i = 0; i < 2; i++)
		at = next_due(way[i].late, next_due(way[i].on_time, at));
	at = at > now ? at - now : 0;
	wait = (struct timespec){(time_t)(at / 1000000000), (long)(at % 1000000000)};
	if (ppoll(p, 3, &wait, NULL) < 0 && errno != EINTR)
		err(1, "ppoll");
	return !p[2].revents;
}

int main(int argc, char **argv)
{
	if (argc != 6)
		errx(2, "usage: relay A B DELAY LOSS LATE");
	delay = number_of(argv[3], 1000000) * 1000;
	loss = (uint32_t)number_of(argv[4], OF);
	late = (uint32_t)number_of(argv[5], OF);
	late_by = delay / 5 > 50000 ? delay / 5 : 50000;
	way[0].from = way[1].to = device_of(argv[1]);
	way[1].from = way[0].to = device_of(argv[2]);
	for (int i = 0; i < 2; i++) {
		way[i].on_time = new_queue();
		way[i].late = new_queue();
	}
	puts("ready");
	fflush(stdout);
	while (await())
		for (int i = 0; i < 2; i++)
			relay(&way[i]);
	for (int i = 0; i < 2; i++)
		printf("%s: %llu relayed, %llu lost, %llu late, %llu without room\n", argv[1 + i],
		       (unsigned long long)way[i].relayed, (unsigned long long)way[i].lost,
		       (unsigned long long)way[i].overtaken, (unsigned long long)way[i].no_room);
	return 0;
}
