// SPDX-License-Identifier: BSD-2-Clause
/* One process, two queue pairs connected to each other, no sockets: the smallest program that does all that a
 * reliable connection (RC) can. Two ends, Alice and Bob, each with memory of its own.
 *
 *	cc qp_single_host.c -o qp_single_host -libverbs
 *	uroce run ./qp_single_host [-d DEVICE] [-g GID_INDEX]
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>

/* Verbs that make something return NULL and set errno; the others return 0 or the error number itself. */
#define MUST(x) ((x) ? (void)0 : fail(__LINE__, #x))
#define ZERO(x) MUST(!(errno = (x)))

static void fail(int line, const char *what)
{
	fprintf(stderr, "line %d: %s: %s\n", line, what, strerror(errno));
	exit(1);
}

struct memory {
	char text[64];
	uint64_t number; /* atomics want 8 bytes at an address that 8 divides */
};

struct end {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct memory *memory;
	uint32_t psn; /* the number that the first packet we send will carry: 24 bits */
};

static void end_create(struct end *e, struct ibv_context *context, struct ibv_pd *pd)
{
	/* Registering tells the HCA that this memory may be reached, by whom and how. The region gets two
	 * keys: lkey, to name it in our own work requests, and rkey, to give to a peer who may then read and
	 * write here without this program taking part. */
	MUST(e->memory = calloc(1, sizeof(*e->memory)));
	MUST(e->mr = ibv_reg_mr(pd, e->memory, sizeof(*e->memory),
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
					IBV_ACCESS_REMOTE_ATOMIC));

	/* A completion queue (CQ): the HCA writes one entry here per work request that is done. */
	MUST(e->cq = ibv_create_cq(context, 16, NULL, NULL, 0));

	/* A queue pair (QP): a send queue and a receive queue. It is born in the state RESET. */
	struct ibv_qp_init_attr attr = {
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1, /* every send request writes a completion */
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};
	MUST(e->qp = ibv_create_qp(pd, &attr));
	e->psn = lrand48() & 0xffffff;
}

/* RESET -> INIT -> RTR -> RTS. The peer's numbers come as plain values: here from the next variable, in
 * qp_across_hosts.c over TCP. */
static void end_connect(struct end *e, const struct end *peer, union ibv_gid gid, int gid_index, enum ibv_mtu mtu)
{
	/* INIT: the QP belongs to a port; receive requests may be posted, but nothing arrives yet. */
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};
	ZERO(ibv_modify_qp(e->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));

	/* RTR, ready to receive: the HCA knows the peer's address (its GID, which in RoCEv2 is its IP
	 * address) and QP number, and which packet to expect first. From now on it answers what the peer
	 * sends. */
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = mtu,
		.dest_qp_num = peer->qp->qp_num,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = 1, /* how many READs and atomics the peer may have under way */
		.min_rnr_timer = 12,	 /* "no receive is posted: try again in 0.64 ms" */
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = gid, .sgid_index = gid_index, .hop_limit = 64}},
	};
	ZERO(ibv_modify_qp(e->qp, &rtr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));

	/* RTS, ready to send: the HCA knows the number of its own first packet, how long to wait for an
	 * acknowledgement (4.096 us * 2^14 = 67 ms) and how often to try again before it gives up. */
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = e->psn,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,	    /* 7: as often as it takes */
		.max_rd_atomic = 1, /* how many READs and atomics we may have under way */
	};
	ZERO(ibv_modify_qp(e->qp, &rts,
			   IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				   IBV_QP_MAX_QP_RD_ATOMIC));
}

/* Waits for the next completion and checks that it is the one that we expect. */
static void complete(struct end *e, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc;
	int n;

	do
		MUST((n = ibv_poll_cq(e->cq, 1, &wc)) >= 0);
	while (n == 0);
	if (wc.status == IBV_WC_SUCCESS && wc.opcode == opcode)
		return;
	fprintf(stderr, "completion: %s, opcode %d\n", ibv_wc_status_str(wc.status), wc.opcode);
	exit(1);
}

/* Posts one send request with one piece of our memory. The request is read before the call returns; the
 * memory belongs to the HCA until the completion. */
static void post(struct end *e, struct ibv_send_wr wr, void *local, uint32_t length)
{
	struct ibv_sge piece = {.addr = (uintptr_t)local, .length = length, .lkey = e->mr->lkey};
	struct ibv_send_wr *bad;

	wr.sg_list = &piece;
	wr.num_sge = 1;
	ZERO(ibv_post_send(e->qp, &wr, &bad));
}

static void post_receive(struct end *e, void *local, uint32_t length)
{
	struct ibv_sge piece = {.addr = (uintptr_t)local, .length = length, .lkey = e->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &piece, .num_sge = 1}, *bad;

	ZERO(ibv_post_recv(e->qp, &wr, &bad));
}

static void talk(struct end *alice, struct end *bob)
{
	struct memory *a = alice->memory, *b = bob->memory;

	/* SEND: Bob says where the next message may go, Alice says what it is. Alice's HCA cuts it into
	 * packets of the path MTU. Bob's HCA puts them into the memory of his oldest receive request,
	 * acknowledges them and writes a completion; Alice's HCA writes hers when the acknowledgement
	 * arrives. */
	post_receive(bob, b->text, sizeof(b->text));
	strcpy(a->text, "hello, Bob");
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND};
	post(alice, send, a->text, sizeof(a->text));
	complete(bob, IBV_WC_RECV);
	complete(alice, IBV_WC_SEND);
	MUST(!strcmp(b->text, "hello, Bob"));
	printf("send:             Bob received \"%s\"\n", b->text);

	/* WRITE: Alice says what and where to. Bob's HCA checks the key and the bounds and stores the bytes;
	 * Bob's program does nothing and is told nothing. */
	strcpy(a->text, "written by Alice");
	struct ibv_send_wr write = {.opcode = IBV_WR_RDMA_WRITE,
				    .wr.rdma = {.remote_addr = (uintptr_t)b->text, .rkey = bob->mr->rkey}};
	post(alice, write, a->text, sizeof(a->text));
	complete(alice, IBV_WC_RDMA_WRITE);
	MUST(!strcmp(b->text, "written by Alice"));
	printf("write:            Bob's memory holds \"%s\"\n", b->text);

	/* READ: Alice's HCA asks, Bob's HCA answers with the bytes, which go straight into Alice's memory. */
	strcpy(b->text, "Bob's own words");
	struct ibv_send_wr read = {.opcode = IBV_WR_RDMA_READ,
				   .wr.rdma = {.remote_addr = (uintptr_t)b->text, .rkey = bob->mr->rkey}};
	post(alice, read, a->text, sizeof(a->text));
	complete(alice, IBV_WC_RDMA_READ);
	MUST(!strcmp(a->text, "Bob's own words"));
	printf("read:             Alice fetched \"%s\"\n", a->text);

	/* COMPARE AND SWAP: Bob's HCA does `if (number == 40) number = 41` as one step that no other request
	 * can come between, and answers with what was there before. */
	b->number = 40;
	struct ibv_send_wr swap = {
		.opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
		.wr.atomic = {
			.remote_addr = (uintptr_t)&b->number, .rkey = bob->mr->rkey, .compare_add = 40, .swap = 41}};
	post(alice, swap, &a->number, sizeof(a->number));
	complete(alice, IBV_WC_COMP_SWAP);
	MUST(a->number == 40 && b->number == 41);
	printf("compare and swap: it was %" PRIu64 ", now it is %" PRIu64 "\n", a->number, b->number);

	/* FETCH AND ADD: the same with `number += 1`. */
	struct ibv_send_wr add = {
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.wr.atomic = {.remote_addr = (uintptr_t)&b->number, .rkey = bob->mr->rkey, .compare_add = 1}};
	post(alice, add, &a->number, sizeof(a->number));
	complete(alice, IBV_WC_FETCH_ADD);
	MUST(a->number == 41 && b->number == 42);
	printf("fetch and add:    it was %" PRIu64 ", now it is %" PRIu64 "\n", a->number, b->number);
}

static void end_destroy(struct end *e)
{
	ZERO(ibv_destroy_qp(e->qp));
	ZERO(ibv_destroy_cq(e->cq));
	ZERO(ibv_dereg_mr(e->mr));
	free(e->memory);
}

int main(int argc, char **argv)
{
	const char *name = NULL;
	int option, gid_index = 0, found = 0;
	struct ibv_device **list;
	struct ibv_context *context;
	struct ibv_port_attr port;
	struct ibv_pd *pd;
	union ibv_gid gid;
	struct end alice, bob;

	while ((option = getopt(argc, argv, "d:g:")) != -1) {
		if (option == 'd')
			name = optarg;
		else if (option == 'g')
			gid_index = atoi(optarg);
		else
			return 1;
	}

	list = ibv_get_device_list(NULL);
	while (name && list && list[found] && strcmp(ibv_get_device_name(list[found]), name))
		found++;
	if (!list || !list[found]) {
		fprintf(stderr, "no RDMA device%s%s: did you start this with \"uroce run\"?\n", name ? " " : "",
			name ? name : "");
		return 1;
	}
	MUST(context = ibv_open_device(list[found]));
	ibv_free_device_list(list);

	/* The port's largest packet, and the address that this device is reached at. */
	ZERO(ibv_query_port(context, 1, &port));
	ZERO(ibv_query_gid(context, 1, gid_index, &gid));

	/* A protection domain: queue pairs can only use memory of their own domain. */
	MUST(pd = ibv_alloc_pd(context));

	srand48(getpid());
	end_create(&alice, context, pd);
	end_create(&bob, context, pd);
	end_connect(&alice, &bob, gid, gid_index, port.active_mtu);
	end_connect(&bob, &alice, gid, gid_index, port.active_mtu);
	printf("%s: QP %06x and QP %06x are connected\n", ibv_get_device_name(context->device), alice.qp->qp_num,
	       bob.qp->qp_num);

	talk(&alice, &bob);

	end_destroy(&alice);
	end_destroy(&bob);
	ZERO(ibv_dealloc_pd(pd));
	ZERO(ibv_close_device(context));
	return 0;
}
