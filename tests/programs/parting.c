/* SPDX-License-Identifier: BSD-2-Clause */
/* parting HOST: messages that a peer has sent before it disconnects are there before the event. The receiver is stopped
 * from when its own messages have arrived, so that it finds the peer's messages, ACKs and DREQ at once. It answers the
 * event by rdma_disconnect(), after which nothing can arrive, and then polls its CQs. */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(x) ((x) ? (void)0 : fail(__LINE__, #x))

enum { THERE = 300, BACK = 50, SIZE = 16, TURNS = 20 };

static const char *host;

static void fail(int line, const char *what)
{
	fprintf(stderr, "parting, process %d, line %d: %s: %s\n", getpid(), line, what, strerror(errno));
	exit(1);
}

static struct rdma_cm_id *endpoint(int flags)
{
	struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP}, *info;
	struct ibv_qp_init_attr attr = {.cap = {THERE + TURNS, THERE + TURNS, 1, 1, 0}, .sq_sig_all = 1};
	struct rdma_cm_id *id;

	MUST(!rdma_getaddrinfo((char *)host, "7471", &hints, &info));
	MUST(!rdma_create_ep(&id, info, NULL, &attr));
	rdma_freeaddrinfo(info);
	return id;
}

static struct ibv_mr *prepare(struct rdma_cm_id *id)
{
	static char memory[SIZE];
	struct ibv_mr *mr = rdma_reg_msgs(id, memory, SIZE);

	MUST(mr);
	for (int i = 0; i < THERE + TURNS; i++)
		MUST(!rdma_post_recv(id, NULL, memory, SIZE, mr));
	return mr;
}

static void send_some(struct rdma_cm_id *id, struct ibv_mr *mr, int n)
{
	while (n--)
		MUST(!rdma_post_send(id, NULL, mr->addr, SIZE, mr, 0));
}

/* Back and forth, until the two have found their way to each other's memory. */
static void converse(struct rdma_cm_id *id, struct ibv_mr *mr, int begins)
{
	struct ibv_wc wc;

	for (int i = 0; i < TURNS; i++) {
		if (begins)
			send_some(id, mr, 1);
		MUST(rdma_get_recv_comp(id, &wc) == 1 && !wc.status);
		if (!begins)
			send_some(id, mr, 1);
		MUST(rdma_get_send_comp(id, &wc) == 1 && !wc.status);
	}
}

static int successes(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n = 0;

	while (ibv_poll_cq(cq, 1, &wc) == 1)
		n += wc.status == IBV_WC_SUCCESS;
	return n;
}

static void stay(int ready, int resume)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listener = endpoint(RAI_PASSIVE), *id;
	struct rdma_cm_event *event;
	struct ibv_mr *mr;
	int received, sent;
	char byte;

	MUST(channel && !rdma_listen(listener, 1));
	MUST(write(ready, "", 1) == 1);
	MUST(!rdma_get_request(listener, &id));
	mr = prepare(id);
	MUST(!rdma_accept(id, NULL));
	MUST(!rdma_migrate_id(id, channel));
	converse(id, mr, 0);
	send_some(id, mr, BACK);
	MUST(read(resume, &byte, 1) == 1); /* stopped here */
	MUST(!rdma_get_cm_event(channel, &event) && event->event == RDMA_CM_EVENT_DISCONNECTED);
	MUST(!rdma_ack_cm_event(event));
	MUST(!rdma_disconnect(id));
	received = successes(id->recv_cq);
	sent = successes(id->send_cq);
	printf("parting: received %d of %d, sent %d of %d\n", received, THERE, sent, BACK);
	exit(received != THERE || sent != BACK);
}

static void part(pid_t stays, int go, int gone)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id = endpoint(0);
	struct ibv_mr *mr = prepare(id);
	struct ibv_wc wc;
	char byte;

	MUST(!rdma_connect(id, NULL));
	converse(id, mr, 1);
	for (int i = 0; i < BACK; i++)
		MUST(rdma_get_recv_comp(id, &wc) == 1 && !wc.status);
	MUST(!kill(stays, SIGSTOP));
	MUST(read(go, &byte, 1) == 1); /* it has stopped */
	send_some(id, mr, THERE);
	MUST(channel && !rdma_migrate_id(id, channel)); /* so that nobody waits for the answer */
	MUST(!rdma_disconnect(id));
	MUST(write(gone, "", 1) == 1);
	pause();
	exit(0);
}

static pid_t child(void)
{
	pid_t pid = fork();

	MUST(pid >= 0);
	if (!pid)
		MUST(!prctl(PR_SET_PDEATHSIG, SIGKILL));
	return pid;
}

int main(int argc, char **argv)
{
	int ready[2], go[2], gone[2], resume[2], status;
	pid_t stays, parts;
	char byte;

	MUST(argc == 2);
	host = argv[1];
	MUST(!pipe(ready) && !pipe(go) && !pipe(gone) && !pipe(resume));
	if (!(stays = child()))
		stay(ready[1], resume[0]);
	MUST(read(ready[0], &byte, 1) == 1);
	if (!(parts = child()))
		part(stays, go[0], gone[1]);
	MUST(waitpid(stays, &status, WUNTRACED) == stays && WIFSTOPPED(status));
	MUST(write(go[1], "", 1) == 1);
	MUST(read(gone[0], &byte, 1) == 1);
	MUST(!kill(stays, SIGCONT));
	MUST(write(resume[1], "", 1) == 1);
	MUST(waitpid(stays, &status, 0) == stays);
	kill(parts, SIGKILL);
	return !WIFEXITED(status) || WEXITSTATUS(status);
}
