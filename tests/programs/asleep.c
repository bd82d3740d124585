// SPDX-License-Identifier: BSD-2-Clause
/* asleep PORT poll|select|epoll|edge|get|late [HOST]: the ends send each other small messages in turn, and sleep in
 * between: they wait for their completion channel's descriptor, or (get) in ibv_get_cq_event(). With "late" they look
 * at the descriptor and the CQ in turn, as tgtd does, and ask for an event only when both have had nothing for a while.
 * Each then prints how often its threads went to sleep for each message that it received, prints "idle", and waits for
 * a message that never comes. */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include "rc.h"

enum { WARM = 200, MESSAGES = 2000, RECEIVES = 16, LOOKS = 16 };

static struct rc rc;
static const char *way;
static int epfd = -1, receives, sends;

static bool is_way(const char *name)
{
	return !strcmp(way, name);
}

static void wait_for_channel(void)
{
	struct pollfd p = {.fd = rc.channel->fd, .events = POLLIN};
	struct epoll_event e;
	fd_set set;

	if (is_way("poll"))
		MUST(poll(&p, 1, -1) == 1 && p.revents == POLLIN);
	if (epfd >= 0)
		MUST(epoll_wait(epfd, &e, 1, -1) == 1 && e.events == EPOLLIN);
	if (is_way("select")) {
		FD_ZERO(&set);
		FD_SET(rc.channel->fd, &set);
		MUST(select(rc.channel->fd + 1, &set, NULL, NULL, NULL) == 1);
	}
}

static void take_events(void)
{
	struct ibv_cq *cq;
	void *context;

	if (!is_way("edge")) {
		MUST(!ibv_get_cq_event(rc.channel, &cq, &context));
		ibv_ack_cq_events(cq, 1);
		return;
	}
	while (!ibv_get_cq_event(rc.channel, &cq, &context))
		ibv_ack_cq_events(cq, 1);
	MUST(errno == EAGAIN);
}

/* True: a message has come. */
static bool asleep_take(void)
{
	struct ibv_wc wc;
	int before = receives;

	while (receives == before && ibv_poll_cq(rc.cq, 1, &wc)) {
		MUST(wc.status == IBV_WC_SUCCESS);
		if (wc.opcode != IBV_WC_RECV) {
			sends++;
			continue;
		}
		rc_post_receive(&rc, 0, 8);
		receives++;
	}
	return receives > before;
}

static void late_receive(void)
{
	struct pollfd p = {.fd = rc.channel->fd, .events = POLLIN};

	for (int looks = 0;; looks++) {
		if (poll(&p, 1, looks > LOOKS ? -1 : 0)) {
			take_events();
			looks = 0;
		}
		if (asleep_take())
			return;
		if (looks == LOOKS)
			ZERO(ibv_req_notify_cq(rc.cq, 0));
	}
}

/* Until one message has come. */
static void asleep_receive(void)
{
	if (is_way("late")) {
		late_receive();
		return;
	}
	for (;;) {
		wait_for_channel();
		take_events();
		ZERO(ibv_req_notify_cq(rc.cq, 0));
		if (asleep_take())
			return; /* the rest was told of, or will be */
	}
}

static void play(int messages, bool first)
{
	for (int i = 0; i < messages; i++) {
		if (first)
			rc_post(&rc, IBV_WR_SEND, 0, 0, 8);
		asleep_receive();
		if (!first)
			rc_post(&rc, IBV_WR_SEND, 0, 0, 8);
	}
}

/* Of all threads. */
static long sleeps(void)
{
	DIR *tasks = opendir("/proc/self/task");
	char path[300], line[200];
	struct dirent *d;
	long sum = 0, n;

	MUST(tasks);
	while ((d = readdir(tasks))) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", d->d_name);
		FILE *f = d->d_name[0] == '.' ? NULL : fopen(path, "r");
		while (f && fgets(line, sizeof(line), f))
			sum += sscanf(line, "voluntary_ctxt_switches: %ld", &n) == 1 ? n : 0;
		if (f)
			fclose(f);
	}
	closedir(tasks);
	return sum;
}

int main(int argc, char **argv)
{
	struct epoll_event e = {.events = EPOLLIN};
	long before;

	MUST(argc >= 3);
	way = argv[2];
	rc_open(&rc, NULL, 0, 4096);
	if (is_way("edge"))
		MUST(!fcntl(rc.channel->fd, F_SETFL, O_NONBLOCK));
	if (is_way("edge") || is_way("epoll")) {
		epfd = epoll_create1(EPOLL_CLOEXEC);
		e.events |= is_way("edge") ? EPOLLET : 0;
		MUST(!epoll_ctl(epfd, EPOLL_CTL_ADD, rc.channel->fd, &e));
	}
	rc_meet(&rc, argv[3], argv[1]);
	for (int i = 0; i < RECEIVES; i++)
		rc_post_receive(&rc, 0, 8);
	ZERO(ibv_req_notify_cq(rc.cq, 0));
	MUST(rc_barrier(&rc));
	play(WARM, argc > 3);
	before = sleeps();
	play(MESSAGES, argc > 3);
	printf("asleep %.2f times for each message\n", (double)(sleeps() - before) / MESSAGES);
	printf("idle\n");
	fflush(stdout);
	asleep_receive();
	return 1;
}
