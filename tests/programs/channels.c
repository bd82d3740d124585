// SPDX-License-Identifier: BSD-2-Clause
/* channels PORT together|nonblocking|apart [HOST]: four connections between two processes, each with a completion
 * channel of its own, on each of which a message goes to and fro. Together: one thread waits for all four descriptors
 * in poll(). Apart: each has a thread. The descriptors block, so a program that was woken for nothing would hang in
 * ibv_get_cq_event() if that found no event; nonblocking, as together: it would say EAGAIN. At the end the connections
 * close one after the other while the others go on.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>

#include "rc.h"

enum { CONNECTIONS = 4, MESSAGES = 1000, RECEIVES = 16 };

static struct rc rc[CONNECTIONS];
static int received[CONNECTIONS];
static bool first;

static void channels_serve(int i)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	MUST(!ibv_get_cq_event(rc[i].channel, &cq, &context));
	MUST(cq == rc[i].cq);
	ibv_ack_cq_events(cq, 1);
	ZERO(ibv_req_notify_cq(cq, 0));
	while (ibv_poll_cq(cq, 1, &wc)) {
		MUST(wc.status == IBV_WC_SUCCESS);
		if (wc.opcode != IBV_WC_RECV)
			continue;
		rc_post_receive(&rc[i], 0, 8);
		received[i]++;
		if (!first || received[i] < MESSAGES)
			rc_post(&rc[i], IBV_WR_SEND, 0, 0, 8);
	}
}

static void channels_begin(int i)
{
	if (first)
		rc_post(&rc[i], IBV_WR_SEND, 0, 0, 8);
}

/* Over the TCP connection of the first. */
static void channels_meet(int i)
{
	MUST(send(rc[0].tcp, &rc[i].me, sizeof(rc[i].me), 0) == sizeof(rc[i].me));
	MUST(recv(rc[0].tcp, &rc[i].peer, sizeof(rc[i].peer), MSG_WAITALL) == sizeof(rc[i].peer));
	rc_connect(&rc[i]);
}

static void *apart(void *arg)
{
	int i = (int)((struct rc *)arg - rc);
	struct pollfd p = {.fd = rc[i].channel->fd, .events = POLLIN};

	channels_begin(i);
	while (received[i] < MESSAGES) {
		MUST(poll(&p, 1, -1) == 1);
		channels_serve(i);
	}
	return NULL;
}

static void together(void)
{
	struct pollfd p[CONNECTIONS];
	int open = CONNECTIONS;

	for (int i = 0; i < CONNECTIONS; i++) {
		p[i] = (struct pollfd){.fd = rc[i].channel->fd, .events = POLLIN};
		channels_begin(i);
	}
	while (open) {
		MUST(poll(p, CONNECTIONS, -1) > 0);
		for (int i = 0; i < CONNECTIONS; i++) {
			if (p[i].fd >= 0 && p[i].revents)
				channels_serve(i);
			if (p[i].fd < 0 || received[i] < MESSAGES)
				continue;
			p[i].fd = -1;
			open--;
		}
	}
}

int main(int argc, char **argv)
{
	pthread_t thread[CONNECTIONS];
	bool is_apart;

	MUST(argc >= 3);
	first = argc > 3;
	is_apart = !strcmp(argv[2], "apart");
	for (int i = 0; i < CONNECTIONS; i++) {
		rc_open(&rc[i], i ? &rc[0] : NULL, 0, 4096);
		if (!strcmp(argv[2], "nonblocking"))
			ZERO(fcntl(rc[i].channel->fd, F_SETFL, O_NONBLOCK));
		if (i)
			channels_meet(i);
		else
			rc_meet(&rc[i], argv[3], argv[1]);
		for (int k = 0; k < RECEIVES; k++)
			rc_post_receive(&rc[i], 0, 8);
		ZERO(ibv_req_notify_cq(rc[i].cq, 0));
	}
	MUST(rc_barrier(&rc[0]));
	if (!is_apart)
		together();
	for (int i = 0; i < CONNECTIONS && is_apart; i++)
		ZERO(pthread_create(&thread[i], NULL, apart, &rc[i]));
	for (int i = 0; i < CONNECTIONS && is_apart; i++)
		ZERO(pthread_join(thread[i], NULL));
	MUST(rc_barrier(&rc[0])); /* what was sent last has arrived, but may not be acknowledged before */
	printf("channels: %d messages\n", received[0] + received[1] + received[2] + received[3]);
	return 0;
}
