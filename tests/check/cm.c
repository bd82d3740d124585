// SPDX-License-Identifier: BSD-2-Clause
/* Mistakes with connection management. */
#include "pair.h"
#include "rows.h"

#include <arpa/inet.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

/* The two ends of a connection of this process. */
struct connection {
	struct rdma_cm_id *listener, *client, *server;
	struct ibv_mr *mr, *server_mr;
	char text[64], server_text[64];
};

static const struct sockaddr_in loopback = {.sin_family = AF_INET};

static struct rdma_cm_id *resolved_id(void)
{
	struct sockaddr_in to = loopback;
	struct rdma_cm_id *id;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ZERO(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	ZERO(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 10000));
	return id;
}

static struct ibv_qp_init_attr attributes(void)
{
	return (struct ibv_qp_init_attr){
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.sq_sig_all = 1};
}

static void *serve(void *arg)
{
	struct connection *c = arg;
	struct ibv_qp_init_attr attr = attributes();

	ZERO(rdma_get_request(c->listener, &c->server));
	ZERO(rdma_create_qp(c->server, NULL, &attr));
	MUST(c->server_mr = rdma_reg_msgs(c->server, c->server_text, sizeof(c->server_text)));
	ZERO(rdma_post_recv(c->server, NULL, c->server_text, sizeof(c->server_text), c->server_mr));
	ZERO(rdma_accept(c->server, NULL));
	return NULL;
}

static void connection_open(struct connection *c)
{
	struct sockaddr_in to = loopback;
	struct ibv_qp_init_attr attr = attributes();
	pthread_t thread;

	*c = (struct connection){0};
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ZERO(rdma_create_id(NULL, &c->listener, NULL, RDMA_PS_TCP));
	ZERO(rdma_bind_addr(c->listener, (struct sockaddr *)&to));
	ZERO(rdma_listen(c->listener, 1));
	to.sin_port = rdma_get_src_port(c->listener);
	ZERO(pthread_create(&thread, NULL, serve, c));
	ZERO(rdma_create_id(NULL, &c->client, NULL, RDMA_PS_TCP));
	ZERO(rdma_resolve_addr(c->client, NULL, (struct sockaddr *)&to, 10000));
	ZERO(rdma_resolve_route(c->client, 10000));
	ZERO(rdma_create_qp(c->client, NULL, &attr));
	MUST(c->mr = rdma_reg_msgs(c->client, c->text, sizeof(c->text)));
	ZERO(rdma_connect(c->client, NULL));
	ZERO(pthread_join(thread, NULL));
}

static void connection_close(struct connection *c)
{
	if (c->client->qp)
		rdma_destroy_qp(c->client);
	rdma_destroy_qp(c->server);
	ZERO(rdma_dereg_mr(c->mr));
	ZERO(rdma_dereg_mr(c->server_mr));
	ZERO(rdma_destroy_id(c->client));
	ZERO(rdma_destroy_id(c->server));
	ZERO(rdma_destroy_id(c->listener));
}

static void await_send(struct connection *c)
{
	struct ibv_wc wc;

	MUST(rdma_get_send_comp(c->client, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
}

static void await_receive(struct connection *c)
{
	struct ibv_wc wc;

	MUST(rdma_get_recv_comp(c->server, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
}

/* ---- leaks ---- */

static void leak_of_reg_msgs(bool wrong)
{
	struct rdma_cm_id *id = resolved_id();
	struct ibv_mr *mr;
	char text[64];

	MUST(id->pd || (id->pd = ibv_alloc_pd(id->verbs)));
	MUST(mr = rdma_reg_msgs(id, text, sizeof(text)));
	if (!wrong)
		ZERO(rdma_dereg_mr(mr));
	ZERO(rdma_destroy_id(id));
}

static void leak_of_create_ep(bool wrong)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = RAI_PASSIVE}, *info;
	struct rdma_cm_id *id;

	ZERO(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &info));
	ZERO(rdma_create_ep(&id, info, NULL, NULL));
	rdma_freeaddrinfo(info);
	if (!wrong)
		rdma_destroy_ep(id);
}

/* ---- habits ---- */

static void connected_qp_is_destroyed_early(bool wrong)
{
	struct connection c;

	connection_open(&c);
	ZERO(rdma_post_send(c.client, NULL, c.text, sizeof(c.text), c.mr, 0));
	if (!wrong)
		await_send(&c);
	rdma_destroy_qp(c.client);
	connection_close(&c);
}

/* ---- buffers ---- */

static void letter_changes(bool wrong)
{
	struct connection c;

	connection_open(&c);
	ZERO(rdma_post_send(c.client, NULL, c.text, sizeof(c.text), c.mr, 0));
	if (wrong)
		strcpy(c.text, "next");
	await_send(&c);
	strcpy(c.text, "next");
	await_receive(&c);
	connection_close(&c);
}

static void letter_is_overwritten(bool wrong)
{
	struct connection c;

	connection_open(&c);
	if (wrong)
		strcpy(c.server_text, "empty");
	ZERO(rdma_post_send(c.client, NULL, c.text, sizeof(c.text), c.mr, 0));
	await_send(&c);
	await_receive(&c);
	connection_close(&c);
}

const struct row cm_rows[] = {
	{"leak_of_reg_msgs", leak_of_reg_msgs, "leak-region", "leak_of_reg_msgs"},
	{"leak_of_create_ep", leak_of_create_ep, "leak-id", "leak_of_create_ep"},
	{"connected_qp_is_destroyed_early", connected_qp_is_destroyed_early, "destroyed-outstanding",
	 "connected_qp_is_destroyed_early"},
	{"letter_changes", letter_changes, "changed-in-flight", "letter_changes"},
	{"letter_is_overwritten", letter_is_overwritten, "written-in-flight", "serve"},
	{0},
};
