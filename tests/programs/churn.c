// SPDX-License-Identifier: BSD-2-Clause
/* churn CONNECTIONS: a server whose threads wait on one completion channel, and a client with several threads. Each
 * connection begins with a handshake by TCP, carries checked messages both ways, SEND with immediate data and WRITE
 * with immediate data in turn, and ends at once. All bytes of each message are compared, and those behind it. Prints
 * "churn: N connections, M messages". */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "rc.h"

enum {
	CLIENTS = 4, /* threads: so many connections at a time */
	POLLERS = 3,
	DEPTH = 8, /* messages under way, each in a slot of its own */
	MESSAGES = 32,
	SLOT = 24576,
	GAP = 64, /* bytes behind each message that nobody may write */
};

struct slot {
	struct end *end;
	uint8_t *at;
};

struct end {
	struct card me, peer;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	uint8_t *in, *out, *written; /* DEPTH slots each: of SENDs, of what is sent, of WRITEs */
	uint32_t number;	     /* of the connection */
	bool is_server;
	struct slot slot[DEPTH]; /* of `in` */
	bool back[MESSAGES];	 /* the message has come */
	_Atomic uint32_t received, sent, handled;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static _Atomic uint64_t messages;

static uint32_t length_of(uint32_t number, uint32_t sequence)
{
	static const uint32_t length[] = {12, 13, 64, 1, 200, 1024, 1025, 4096, 4099, 20000, 24, 600};

	return length[(number + sequence) % (sizeof(length) / sizeof(length[0]))];
}

static uint8_t byte_of(uint32_t number, uint32_t sequence, bool by_server, uint32_t i)
{
	return (uint8_t)((number * 131 + sequence * 31 + by_server * 77 + i * 7 + (i >> 8)) ^ 0x5a);
}

static bool is_write(uint32_t number, uint32_t sequence)
{
	return (number + sequence) & 1;
}

static void expect_bytes(const struct end *e, uint32_t sequence, const uint8_t *at, uint32_t length)
{
	uint32_t wanted = length_of(e->number, sequence);

	if (length != wanted) {
		fprintf(stderr, "churn: connection %u, message %u: %u bytes in place of %u\n", e->number, sequence,
			length, wanted);
		exit(1);
	}
	for (uint32_t i = 0; i < length + GAP; i++) {
		uint8_t want = i < length ? byte_of(e->number, sequence, !e->is_server, i) : 0xee;

		if (at[i] != want) {
			fprintf(stderr,
				"churn: connection %u, message %u of %u bytes by %s, byte %u is %02x, not %02x\n",
				e->number, sequence, length, is_write(e->number, sequence) ? "WRITE" : "SEND", i, at[i],
				want);
			exit(1);
		}
	}
}

static void post_receive(struct slot *slot)
{
	struct ibv_sge sge = {(uintptr_t)slot->at, SLOT, slot->end->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = (uintptr_t)slot, .sg_list = &sge, .num_sge = 1}, *bad;

	memset(slot->at, 0xee, SLOT);
	ZERO(ibv_post_recv(slot->end->qp, &wr, &bad));
}

static void send_message(struct end *e, uint32_t sequence)
{
	uint32_t slot = sequence % DEPTH, length = length_of(e->number, sequence);
	bool writes = is_write(e->number, sequence);
	struct ibv_sge sge = {(uintptr_t)(e->out + slot * SLOT), length, e->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = (uintptr_t)e->slot,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = writes ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND_WITH_IMM,
				 .send_flags = IBV_SEND_SIGNALED,
				 .imm_data = htonl(sequence)},
			   *bad;

	for (uint32_t i = 0; i < length; i++)
		e->out[slot * SLOT + i] = byte_of(e->number, sequence, e->is_server, i);
	wr.wr.rdma.remote_addr = e->peer.address + slot * SLOT;
	wr.wr.rdma.rkey = e->peer.rkey;
	ZERO(ibv_post_send(e->qp, &wr, &bad));
}

/* Several threads of the server may handle completions of one end at once. A WRITE takes a receive as well, and leaves
 * its slot as it is. */
static void take(const struct ibv_wc *wc)
{
	struct slot *slot = (struct slot *)(uintptr_t)wc->wr_id;
	struct end *e = slot->end;
	uint32_t sequence = ntohl(wc->imm_data);
	uint8_t *written = e->written + sequence % DEPTH * SLOT;

	if (wc->status) {
		fprintf(stderr, "churn: connection %u: %s\n", e->number, ibv_wc_status_str(wc->status));
		exit(1);
	}
	if (!(wc->opcode & IBV_WC_RECV)) {
		e->sent++;
	} else {
		MUST(sequence < MESSAGES && !e->back[sequence]);
		MUST((wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) == is_write(e->number, sequence));
		expect_bytes(e, sequence, is_write(e->number, sequence) ? written : slot->at, wc->byte_len);
		if (is_write(e->number, sequence))
			memset(written, 0xee, SLOT);
		post_receive(slot);
		messages++;
		e->back[sequence] = true;
		if (e->is_server)
			send_message(e, sequence);
		e->received++;
	}
	e->handled++;
}

/* ---- both ends ---- */

static void whole(ssize_t (*f)(int fd, void *p, size_t n), int fd, void *p, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t r = f(fd, (char *)p + done, n - done);

		MUST(r > 0);
		done += (size_t)r;
	}
}

static ssize_t put(int fd, void *p, size_t n)
{
	return write(fd, p, n);
}

static void open_device(void)
{
	struct ibv_device **list;

	MUST((list = ibv_get_device_list(NULL)) && list[0]);
	MUST(context = ibv_open_device(list[0]));
	ibv_free_device_list(list);
	MUST(pd = ibv_alloc_pd(context));
}

static void end_open(struct end *e, int tcp)
{
	enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };
	struct ibv_qp_init_attr attr = {
		.send_cq = e->cq, .recv_cq = e->cq, .qp_type = IBV_QPT_RC, .cap = {2 * DEPTH, 2 * DEPTH, 1, 1, 0}};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL};
	struct rc rc = {.timeout = 14, .retry_cnt = 7, .rnr_retry = 7};

	MUST(!posix_memalign((void **)&e->in, 4096, 3 * DEPTH * SLOT));
	memset(e->in, 0xee, 3 * DEPTH * SLOT);
	e->out = e->in + DEPTH * SLOT;
	e->written = e->out + DEPTH * SLOT;
	MUST(e->mr = ibv_reg_mr(pd, e->in, 3 * DEPTH * SLOT, ALL));
	MUST(e->qp = ibv_create_qp(pd, &attr));
	e->me = (struct card){.qpn = e->qp->qp_num,
			      .psn = (uint32_t)rand() & 0xffffff,
			      .mtu = IBV_MTU_1024,
			      .rkey = e->mr->rkey,
			      .address = (uintptr_t)e->written};
	ZERO(ibv_query_gid(context, 1, 0, &e->me.gid));
	whole(put, tcp, &e->me, sizeof(e->me));
	whole((void *)read, tcp, &e->peer, sizeof(e->peer));
	ZERO(ibv_modify_qp(e->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	for (uint32_t i = 0; i < DEPTH; i++) {
		e->slot[i] = (struct slot){e, e->in + i * SLOT};
		post_receive(&e->slot[i]);
	}
	rc.qp = e->qp;
	rc.me = e->me;
	rc.peer = e->peer;
	rc_connect(&rc);
}

static void end_close(struct end *e)
{
	ZERO(ibv_destroy_qp(e->qp));
	ZERO(ibv_dereg_mr(e->mr));
	free(e->in);
}

/* ---- the server ---- */

static struct ibv_comp_channel *channel;

/* Any thread may get the event, and any may find its completions polled by another. */
static void *poller(void *arg)
{
	for (;;) {
		struct ibv_wc wc[4];
		struct ibv_cq *cq;
		void *c;
		int n;

		MUST(!ibv_get_cq_event(channel, &cq, &c));
		ibv_ack_cq_events(cq, 1);
		ZERO(ibv_req_notify_cq(cq, 0));
		while ((n = ibv_poll_cq(cq, 4, wc)) > 0)
			for (int i = 0; i < n; i++)
				take(&wc[i]);
		MUST(n == 0);
	}
	return arg;
}

static struct ibv_cq *server_cq;

static void *serve_one(void *arg)
{
	int tcp = (int)(intptr_t)arg;
	struct end *e = calloc(1, sizeof(*e));
	char byte = 0;

	MUST(e);
	e->cq = server_cq;
	e->is_server = true;
	whole((void *)read, tcp, &e->number, sizeof(e->number));
	end_open(e, tcp);
	whole(put, tcp, &byte, 1);
	MUST(read(tcp, &byte, 1) == 1);
	while (e->handled < 2 * MESSAGES) /* the client has all; a thread here may be about to handle the rest */
		sched_yield();
	end_close(e);
	close(tcp);
	free(e);
	return NULL;
}

static void serve(int listener)
{
	pthread_t thread;

	open_device();
	MUST(channel = ibv_create_comp_channel(context));
	MUST(server_cq = ibv_create_cq(context, 4096, NULL, channel, 0));
	ZERO(ibv_req_notify_cq(server_cq, 0));
	for (int i = 0; i < POLLERS; i++)
		ZERO(pthread_create(&thread, NULL, poller, NULL));
	for (;;) {
		int tcp = accept(listener, NULL, NULL);

		MUST(tcp >= 0);
		ZERO(pthread_create(&thread, NULL, serve_one, (void *)(intptr_t)tcp));
		pthread_detach(thread);
	}
}

/* ---- the client ---- */

static struct sockaddr_in address;
static _Atomic uint32_t begun;
static uint32_t total;

static void connect_once(uint32_t number)
{
	struct end e = {.number = number};
	int tcp = socket(AF_INET, SOCK_STREAM, 0);
	uint32_t posted = 0;
	struct ibv_wc wc[4];
	char byte;
	int n;

	MUST(tcp >= 0 && !connect(tcp, (struct sockaddr *)&address, sizeof(address)));
	MUST(e.cq = ibv_create_cq(context, 64, NULL, NULL, 0));
	whole(put, tcp, &number, sizeof(number));
	end_open(&e, tcp);
	whole((void *)read, tcp, &byte, 1);
	while (e.received < MESSAGES || e.sent < MESSAGES) {
		for (; posted < MESSAGES && posted < e.sent + DEPTH && (posted < DEPTH || e.back[posted - DEPTH]);
		     posted++)
			send_message(&e, posted);
		MUST((n = ibv_poll_cq(e.cq, 4, wc)) >= 0);
		for (int i = 0; i < n; i++)
			take(&wc[i]);
	}
	whole(put, tcp, &byte, 1);
	MUST(read(tcp, &byte, 1) == 0); /* the server has let go, too */
	close(tcp);
	end_close(&e);
	ZERO(ibv_destroy_cq(e.cq));
}

static void *client(void *arg)
{
	uint32_t number;

	while ((number = begun++) < total)
		connect_once(number);
	return arg;
}

int main(int argc, char **argv)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t size = sizeof(address);
	pthread_t thread[CLIENTS];
	pid_t server;

	MUST(argc == 2 && (total = (uint32_t)atoi(argv[1])) > 0);
	address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	MUST(listener >= 0 && !bind(listener, (struct sockaddr *)&address, size) && !listen(listener, 64));
	MUST(!getsockname(listener, (struct sockaddr *)&address, &size));
	server = fork();
	if (server == 0)
		serve(listener);
	MUST(server > 0);
	close(listener);
	open_device();
	for (int i = 0; i < CLIENTS; i++)
		ZERO(pthread_create(&thread[i], NULL, client, NULL));
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(thread[i], NULL);
	MUST(!waitpid(server, NULL, WNOHANG)); /* it has found nothing wrong either */
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	printf("churn: %u connections, %llu messages\n", total, (unsigned long long)messages);
	return 0;
}
