// SPDX-License-Identifier: BSD-2-Clause
/* What qp_across_hosts.c and qp_across_hosts_gpu.c have in common: the queue pair, how it is connected to that of the
 * peer, and the TCP connection by which the two programs tell each other where they are. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
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

/* What lies in the memory of each end: the peer may write to all of it but `received`, which is for its SEND. */
struct memory {
	char text[64];
	uint64_t number; /* atomics want 8 bytes at an address that 8 divides */
	char received[64];
};

/* All that the other end must know of us. */
struct card {
	union ibv_gid gid;	/* in RoCEv2: the IP address */
	uint32_t qpn, psn, mtu; /* the queue pair, the number of its first packet, its largest packet */
	uint32_t rkey;		/* the key to our memory */
	uint64_t address;	/* where our memory begins, as we see it */
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static struct card me, peer;

/* What is asked for by the command line. */
static const char *device_name, *tcp_port = "18515";
static int gid_index, gpu_number;

/* The TCP connection: the client's, or the first that a client makes to us. */
static FILE *tcp_open(const char *server, const char *port)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				 .ai_family = server ? AF_UNSPEC : AF_INET6,
				 .ai_flags = AI_PASSIVE},
			*list;
	int error, listener, fd;
	FILE *tcp;

	if ((error = getaddrinfo(server, port, &hints, &list))) {
		fprintf(stderr, "%s port %s: %s\n", server ? server : "*", port, gai_strerror(error));
		exit(1);
	}
	MUST((fd = socket(list->ai_family, SOCK_STREAM, 0)) >= 0);
	if (server) {
		MUST(!connect(fd, list->ai_addr, list->ai_addrlen));
	} else {
		listener = fd;
		MUST(!setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)));
		MUST(!bind(listener, list->ai_addr, list->ai_addrlen));
		MUST(!listen(listener, 1));
		MUST((fd = accept(listener, NULL, NULL)) >= 0);
		close(listener);
	}
	freeaddrinfo(list);
	MUST(tcp = fdopen(fd, "r"));
	return tcp;
}

/* Each end tells its card and hears the other's: one line of text. */
static void tcp_exchange(FILE *tcp)
{
	char gid[INET6_ADDRSTRLEN];

	MUST(inet_ntop(AF_INET6, &me.gid, gid, sizeof(gid)));
	MUST(dprintf(fileno(tcp), "%s %x %x %x %x %" PRIx64 "\n", gid, me.qpn, me.psn, me.mtu, me.rkey, me.address) >
	     0);
	MUST(fscanf(tcp, "%45s %x %x %x %x %" SCNx64, gid, &peer.qpn, &peer.psn, &peer.mtu, &peer.rkey,
		    &peer.address) == 6);
	MUST(fgetc(tcp) == '\n');
	MUST(inet_pton(AF_INET6, gid, &peer.gid) == 1);
}

/* Returns when the other end has come to the same point. */
static void tcp_barrier(FILE *tcp)
{
	MUST(write(fileno(tcp), ".", 1) == 1);
	MUST(fgetc(tcp) == '.');
}

/* `mine`: the address of a struct memory. */
static void create(uint64_t mine)
{
	struct ibv_port_attr port;

	/* Memory that the HCA may use, ours by its lkey and for the peer by its rkey. */
	MUST(pd = ibv_alloc_pd(context));
	MUST(mr = ibv_reg_mr(pd, (void *)(uintptr_t)mine, sizeof(struct memory),
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				     IBV_ACCESS_REMOTE_ATOMIC));

	/* A queue of completions, and a pair of queues of work. */
	MUST(cq = ibv_create_cq(context, 16, NULL, NULL, 0));
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1, /* every send request writes a completion */
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};
	MUST(qp = ibv_create_qp(pd, &attr));

	ZERO(ibv_query_port(context, 1, &port));
	ZERO(ibv_query_gid(context, 1, gid_index, &me.gid));
	srand48(time(NULL) ^ getpid());
	me.qpn = qp->qp_num;
	me.psn = lrand48() & 0xffffff;
	me.mtu = port.active_mtu;
	me.rkey = mr->rkey;
	me.address = mine;

	/* RESET -> INIT: receive requests may be posted from here on. */
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};
	ZERO(ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

/* Both ends do the same, each with the other's card. */
static void connect_to_peer(void)
{
	/* RTR, ready to receive: the HCA knows the peer's address (its GID, which in RoCEv2 is its IP
	 * address) and QP number, and which packet to expect first. From now on it answers what the peer
	 * sends. */
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = me.mtu < peer.mtu ? me.mtu : peer.mtu,
		.dest_qp_num = peer.qpn,
		.rq_psn = peer.psn,
		.max_dest_rd_atomic = 1, /* how many READs and atomics the peer may have under way */
		.min_rnr_timer = 12,	 /* "no receive is posted: try again in 0.64 ms" */
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = peer.gid, .sgid_index = gid_index, .hop_limit = 64}},
	};
	ZERO(ibv_modify_qp(qp, &rtr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));

	/* RTS, ready to send: the HCA knows the number of its own first packet, how long to wait for an
	 * acknowledgement (4.096 us * 2^14 = 67 ms) and how often to try again before it gives up. */
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = me.psn,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,	    /* 7: as often as it takes */
		.max_rd_atomic = 1, /* how many READs and atomics we may have under way */
	};
	ZERO(ibv_modify_qp(qp, &rts,
			   IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				   IBV_QP_MAX_QP_RD_ATOMIC));
}

/* Waits for the next completion and checks that it is the one that we expect. */
static void complete(enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc;
	int n;

	do
		MUST((n = ibv_poll_cq(cq, 1, &wc)) >= 0);
	while (n == 0);
	if (wc.status == IBV_WC_SUCCESS && wc.opcode == opcode)
		return;
	fprintf(stderr, "completion: %s, opcode %d\n", ibv_wc_status_str(wc.status), wc.opcode);
	exit(1);
}

/* Posts one send request with one piece of our memory. The request is read before the call returns; the
 * memory belongs to the HCA until the completion. */
static void post(struct ibv_send_wr wr, uint64_t local, uint32_t length)
{
	struct ibv_sge piece = {.addr = local, .length = length, .lkey = mr->lkey};
	struct ibv_send_wr *bad;

	wr.sg_list = &piece;
	wr.num_sge = 1;
	ZERO(ibv_post_send(qp, &wr, &bad));
}

static void post_receive(uint64_t local, uint32_t length)
{
	struct ibv_sge piece = {.addr = local, .length = length, .lkey = mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &piece, .num_sge = 1}, *bad;

	ZERO(ibv_post_recv(qp, &wr, &bad));
}

/* The options, and the server's name, if this is the client; opens the device. */
static const char *begin(int argc, char **argv)
{
	struct ibv_device **list;
	int option, found = 0;

	while ((option = getopt(argc, argv, "c:d:g:p:")) != -1) {
		if (option == 'c')
			gpu_number = atoi(optarg);
		else if (option == 'd')
			device_name = optarg;
		else if (option == 'g')
			gid_index = atoi(optarg);
		else if (option == 'p')
			tcp_port = optarg;
		else
			exit(1);
	}
	list = ibv_get_device_list(NULL);
	while (device_name && list && list[found] && strcmp(ibv_get_device_name(list[found]), device_name))
		found++;
	if (!list || !list[found]) {
		fprintf(stderr, "no RDMA device%s%s: did you start this with \"uroce run\"?\n", device_name ? " " : "",
			device_name ? device_name : "");
		exit(1);
	}
	MUST(context = ibv_open_device(list[found]));
	ibv_free_device_list(list);
	return argv[optind];
}

/* Connects the two queue pairs. */
static FILE *meet(const char *server)
{
	FILE *tcp = tcp_open(server, tcp_port);

	tcp_exchange(tcp);
	connect_to_peer();
	tcp_barrier(tcp); /* both are ready to receive */
	printf("%s: our QP %06x, peer's QP %06x\n", ibv_get_device_name(context->device), me.qpn, peer.qpn);
	return tcp;
}

static void end(FILE *tcp)
{
	fclose(tcp);
	ZERO(ibv_destroy_qp(qp));
	ZERO(ibv_destroy_cq(cq));
	ZERO(ibv_dereg_mr(mr));
	ZERO(ibv_dealloc_pd(pd));
	ZERO(ibv_close_device(context));
}
