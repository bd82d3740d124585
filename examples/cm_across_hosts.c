// SPDX-License-Identifier: BSD-2-Clause
/* Two programs, on one host or on two, that let the connection manager do what qp_across_hosts.c does by hand: it finds
 * the device that leads to an address, carries queue pair numbers, packet numbers and 56 bytes of ours in its own
 * messages (REQ, REP, RTU, as datagrams to queue pair 1), and moves both queue pairs through their states. No TCP is
 * needed.
 *
 *	cc cm_across_hosts.c -o cm_across_hosts -lrdmacm -libverbs
 *	uroce run ./cm_across_hosts [-p PORT]             the server
 *	uroce run ./cm_across_hosts [-p PORT] SERVER      the client
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

/* All functions of the connection manager return 0, or -1 and set errno. */
#define MUST(x) ((x) ? (void)0 : fail(__LINE__, #x))
#define ZERO(x) MUST(!(x))

static void fail(int line, const char *what)
{
	fprintf(stderr, "line %d: %s: %s\n", line, what, strerror(errno));
	exit(1);
}

static char text[64];

/* One request each way, and the receives signal as the sends do. */
static struct ibv_qp_init_attr attributes = {
	.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	.sq_sig_all = 1,
};

static void completed(int count, const struct ibv_wc *wc)
{
	MUST(count == 1);
	if (wc->status) {
		fprintf(stderr, "%s\n", ibv_wc_status_str(wc->status));
		exit(1);
	}
}

/* Wait for what has been posted; rdma_get_send_comp() sleeps until then. */
static void await_sent(struct rdma_cm_id *id)
{
	struct ibv_wc wc;

	completed(rdma_get_send_comp(id, &wc), &wc);
}

static void await_received(struct rdma_cm_id *id)
{
	struct ibv_wc wc;

	completed(rdma_get_recv_comp(id, &wc), &wc);
}

static void serve(struct rdma_addrinfo *where)
{
	struct rdma_cm_id *listener, *id;
	struct ibv_mr *mr;

	/* an endpoint: the id, and what the queue pairs of its connections will be like */
	ZERO(rdma_create_ep(&listener, where, NULL, &attributes));
	ZERO(rdma_listen(listener, 1));
	printf("waiting\n");
	fflush(stdout);
	/* a REQ has come: this id has a queue pair, in INIT, which may take receives */
	ZERO(rdma_get_request(listener, &id));
	MUST((mr = rdma_reg_msgs(id, text, sizeof(text))));
	ZERO(rdma_post_recv(id, NULL, text, sizeof(text), mr));
	/* RTR, RTS, and a REP goes out; it returns when the RTU is there */
	ZERO(rdma_accept(id, NULL));
	await_received(id);
	printf("received \"%s\"\n", text);
	strcpy(text, "and hello to you");
	ZERO(rdma_post_send(id, NULL, text, sizeof(text), mr, 0));
	await_sent(id);
	rdma_disconnect(id); /* DREQ and DREP, from whichever side is first */
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
}

static void ask(struct rdma_addrinfo *where)
{
	struct rdma_cm_id *id;
	struct ibv_mr *mr;

	/* address and route are resolved, and the queue pair is there */
	ZERO(rdma_create_ep(&id, where, NULL, &attributes));
	MUST((mr = rdma_reg_msgs(id, text, sizeof(text))));
	/* REQ, REP, RTU. With no parameters it asks for what the device allows */
	ZERO(rdma_connect(id, NULL));
	strcpy(text, "hello");
	ZERO(rdma_post_send(id, NULL, text, sizeof(text), mr, 0));
	await_sent(id);
	ZERO(rdma_post_recv(id, NULL, text, sizeof(text), mr));
	await_received(id);
	printf("received \"%s\"\n", text);
	rdma_disconnect(id);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
}

int main(int argc, char **argv)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *where;
	const char *port = "18516", *server;
	int option;

	while ((option = getopt(argc, argv, "p:")) != -1) {
		if (option != 'p')
			return 2;
		port = optarg;
	}
	server = argv[optind];
	if (!server)
		hints.ai_flags = RAI_PASSIVE;
	ZERO(rdma_getaddrinfo(server, port, &hints, &where));
	if (server)
		ask(where);
	else
		serve(where);
	rdma_freeaddrinfo(where);
	return 0;
}
