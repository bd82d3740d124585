// SPDX-License-Identifier: BSD-2-Clause
/* Two ends of one RC connection that check each other: every opcode, with its data, lengths and completions.
 *
 *   exchange [OPTIONS] SCENARIO            the passive end
 *   exchange [OPTIONS] SCENARIO ADDRESS    the active end
 *
 * -d DEVICE  -g GID-INDEX  -m PATH-MTU  -p FIRST-PSN of the active end  -n OPERATIONS (of "mixed")  -s SEED
 * -t TIMEOUT as the attribute has it
 * -w  wait for READs before what changes memory, instead of asking for a fence ("mixed"): rxe forgets now and
 * then to go on after a fence
 *
 * It is a plain libibverbs program and knows nothing of uroce: so that the kernel's rxe can be the other end.
 * What the ends must know of each other goes over TCP port 18515. Exit status: 0 good, 1 not, 77 one end
 * lacks the operation. */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	SLOT = 72 * 1024, /* room for one message, and what must stay as it was behind it */
	SLOTS = 16,
	SPACE = SLOT * SLOTS, /* of each buffer: ours, and the one that the peer reads and writes */
	AREA = 64 * 1024,     /* what "mixed" works on */
	PIECE = 6000,	      /* its longest message */
	WINDOW = 32,	      /* send requests that it has outstanding */
	RECEIVES = 64,
	INLINE = 64,
	SKIP = 77,
};

struct side { /* what the other end has to know */
	uint32_t qpn, psn, rkey, window;
	uint64_t addr;
	union ibv_gid gid;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *send_cq, *recv_cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static struct side me, peer;
static uint8_t *own, *target;
static int control, gid_index, mtu = 1024, operations = 600;
static int timeout = 16; /* 0.27 s: an emulated peer may be slow, and must not look dead */
static uint32_t first_psn = 0x100, seed = 1;
static bool active, wait_for_reads, short_reads;
static const char *scenario = "";

static void __attribute__((noreturn, format(printf, 1, 2))) fail(const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "exchange %s, %s end: ", scenario, active ? "active" : "passive");
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, "\n");
	exit(1);
}

#define CHECK(claim, ...) ((claim) ? (void)0 : fail(__VA_ARGS__))

/* --- the control channel --- */

static void swap(const void *out, void *in, size_t size)
{
	CHECK(send(control, out, size, MSG_NOSIGNAL) == (ssize_t)size, "the other end has gone");
	CHECK(recv(control, in, size, MSG_WAITALL) == (ssize_t)size, "the other end has gone");
}

static void barrier(void)
{
	char mine = 'b', theirs;

	swap(&mine, &theirs, 1);
}

static void meet(const char *host)
{
	struct addrinfo hint = {
		.ai_family = host ? AF_UNSPEC : AF_INET6, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	struct addrinfo *at;
	int one = 1, s;

	CHECK(!getaddrinfo(host, "18515", &hint, &at), "no address %s", host);
	s = socket(at->ai_family, SOCK_STREAM, 0);
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (host) {
		CHECK(!connect(s, at->ai_addr, at->ai_addrlen), "connect: %m");
		control = s;
	} else {
		CHECK(!bind(s, at->ai_addr, at->ai_addrlen) && !listen(s, 1), "listen: %m");
		control = accept(s, NULL, NULL);
	}
	freeaddrinfo(at);
}

/* --- data --- */

static uint8_t pattern(uint32_t message, uint32_t i)
{
	return (uint8_t)(message * 59 + i * 7 + (i >> 8) * 13 + 3);
}

static void fill(uint8_t *at, uint32_t message, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++)
		at[i] = pattern(message, i);
}

/* The message is there, and the 64 bytes behind it are still zero. */
static void check_data(const char *what, const uint8_t *at, uint32_t message, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++)
		CHECK(at[i] == pattern(message, i), "%s %u: byte %u of %u is %02x, not %02x", what, message,
		      i, length, at[i], pattern(message, i));
	for (uint32_t i = length; i < length + 64; i++)
		CHECK(at[i] == 0, "%s %u: byte %u behind its %u bytes was written", what, message, i - length,
		      length);
}

/* --- requests and completions --- */

/* Whether there was a completion. If there are none for long, the other end may have failed. */
static bool poll_once(struct ibv_cq *cq, struct ibv_wc *wc)
{
	static unsigned empty;
	int n = ibv_poll_cq(cq, 1, wc);
	char c;

	CHECK(n >= 0, "ibv_poll_cq gives %d", n);
	empty = n ? 0 : empty + 1;
	CHECK((empty + 1) % 65536 || recv(control, &c, 1, MSG_PEEK | MSG_DONTWAIT), "the other end has gone");
	return n;
}

static struct ibv_wc reap(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (!poll_once(cq, &wc))
		;
	return wc;
}

static struct ibv_wc reap_good(struct ibv_cq *cq, const char *what, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc = reap(cq);

	CHECK(wc.status == IBV_WC_SUCCESS, "%s: %s (vendor error %x)", what, ibv_wc_status_str(wc.status),
	      wc.vendor_err);
	CHECK(wc.opcode == opcode, "%s: completion opcode %d, not %d", what, wc.opcode, opcode);
	CHECK(wc.qp_num == qp->qp_num, "%s: completion of QP %x", what, wc.qp_num);
	return wc;
}

static void post(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int rc = ibv_post_send(qp, wr, &bad);

	CHECK(!rc, "ibv_post_send, opcode %d: %s", wr->opcode, strerror(rc));
}

static void post_receive(uint64_t id, void *at, uint32_t length)
{
	struct ibv_sge sge = {.addr = (uintptr_t)at, .length = length, .lkey = mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = length ? 1 : 0}, *bad;
	int rc = ibv_post_recv(qp, &wr, &bad);

	CHECK(!rc, "ibv_post_recv: %s", strerror(rc));
}

static struct ibv_send_wr request(struct ibv_sge *sge, enum ibv_wr_opcode opcode, void *at, uint32_t length,
				  uint64_t remote_offset)
{
	*sge = (struct ibv_sge){.addr = (uintptr_t)at, .length = length, .lkey = mr->lkey};
	return (struct ibv_send_wr){.opcode = opcode,
				    .send_flags = IBV_SEND_SIGNALED,
				    .sg_list = sge,
				    .num_sge = length ? 1 : 0,
				    .wr.rdma = {.remote_addr = peer.addr + remote_offset, .rkey = peer.rkey}};
}

enum {
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	      IBV_ACCESS_REMOTE_ATOMIC
};

/* From here on receives may be posted. */
static void to_init(unsigned access)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};
	int rc;

	rc = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	CHECK(!rc, "to INIT: %s", strerror(rc));
}

static void to_rts(void)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = peer.qpn,
		.rq_psn = peer.psn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = peer.gid, .sgid_index = (uint8_t)gid_index, .hop_limit = 64}}};
	int rc;

	while (128 << attr.path_mtu < mtu)
		attr.path_mtu++;
	rc = ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	CHECK(!rc, "to RTR: %s", strerror(rc));
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .sq_psn = me.psn,
				    .timeout = (uint8_t)timeout,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .max_rd_atomic = 4};
	rc = ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				   IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
	CHECK(!rc, "to RTS: %s", strerror(rc));
}

/* Both ends are ready to send when this returns. */
static void ready(void)
{
	to_rts();
	barrier();
}

/* --- scenarios: messages of telling lengths, one opcode each --- */

enum { LENGTHS = 12 };

static uint32_t length_of(int k)
{
	uint32_t m = (uint32_t)mtu;
	const uint32_t lengths[LENGTHS] = {0, 1, 2, 3, 4, 63, m - 1, m, m + 1, 2 * m, 3 * m + 5, 65536};

	return lengths[k];
}

static uint32_t immediate_of(int k)
{
	return htonl(0xcafe0000u + (uint32_t)k);
}

/* SENDs and WRITEs with immediate: the passive end sees a completion for each. */
static void receive_all(const char *what, bool immediate, bool is_write)
{
	enum ibv_wc_opcode opcode = is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;

	for (int k = 0; k < LENGTHS; k++) {
		struct ibv_wc wc = reap_good(recv_cq, what, opcode);

		CHECK(wc.wr_id == (uint64_t)k, "%s %d: receive %d was used", what, k, (int)wc.wr_id);
		CHECK(wc.byte_len == length_of(k), "%s %d: byte_len %u, not %u", what, k, wc.byte_len,
		      length_of(k));
		CHECK(!(wc.wc_flags & IBV_WC_WITH_IMM) == !immediate, "%s %d: flags %x", what, k,
		      wc.wc_flags);
		CHECK(!immediate || wc.imm_data == immediate_of(k), "%s %d: immediate %08x", what, k,
		      ntohl(wc.imm_data));
		check_data(what, target + k * SLOT, (uint32_t)k, length_of(k));
	}
}

static void request_all(const char *what, enum ibv_wr_opcode opcode, enum ibv_wc_opcode completion)
{
	for (int k = 0; k < LENGTHS; k++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = request(&sge, opcode, own, length_of(k), (uint64_t)k * SLOT);

		fill(own, (uint32_t)k, length_of(k));
		wr.imm_data = immediate_of(k);
		wr.send_flags |= k & 1 ? IBV_SEND_SOLICITED : 0;
		post(&wr);
		reap_good(send_cq, what, completion);
	}
}

static void send_(enum ibv_wr_opcode opcode)
{
	if (!active)
		for (int k = 0; k < LENGTHS; k++)
			post_receive((uint64_t)k, target + k * SLOT, length_of(k) + 17);
	ready();
	if (active)
		request_all("send", opcode, IBV_WC_SEND);
	else
		receive_all("send", opcode == IBV_WR_SEND_WITH_IMM, false);
}

static void scenario_send(void)
{
	send_(IBV_WR_SEND);
}

static void scenario_send_imm(void)
{
	send_(IBV_WR_SEND_WITH_IMM);
}

static void scenario_write(void)
{
	ready();
	if (active)
		request_all("write", IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE);
	barrier();
	if (!active)
		for (int k = 0; k < LENGTHS; k++)
			check_data("write", target + k * SLOT, (uint32_t)k, length_of(k));
}

static void scenario_write_imm(void)
{
	if (!active)
		for (int k = 0; k < LENGTHS; k++)
			post_receive((uint64_t)k, NULL, 0);
	ready();
	if (active)
		request_all("write-imm", IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE);
	else
		receive_all("write-imm", true, true);
}

static void scenario_read(void)
{
	if (!active)
		for (int k = 0; k < LENGTHS; k++)
			fill(target + k * SLOT, (uint32_t)k, SLOT);
	ready();
	if (!active)
		return;
	for (int k = 0; k < LENGTHS; k++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr =
			request(&sge, IBV_WR_RDMA_READ, own + k * SLOT, length_of(k), (uint64_t)k * SLOT);

		post(&wr);
		struct ibv_wc wc = reap_good(send_cq, "read", IBV_WC_RDMA_READ);
		CHECK(wc.byte_len == length_of(k), "read %d: byte_len %u, not %u", k, wc.byte_len,
		      length_of(k));
		check_data("read", own + k * SLOT, (uint32_t)k, length_of(k));
	}
}

static uint64_t atomic(enum ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap_)
{
	bool add = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(&sge, opcode, own, 8, 0);

	wr.wr.atomic.remote_addr = peer.addr + 64;
	wr.wr.atomic.rkey = peer.rkey;
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap_;
	post(&wr);
	reap_good(send_cq, add ? "fetch-and-add" : "compare-and-swap",
		  add ? IBV_WC_FETCH_ADD : IBV_WC_COMP_SWAP);
	return *(uint64_t *)own;
}

static void scenario_atomic(void)
{
	const uint64_t start = 0x11223344ffffffff, plus = start + 0x100000001, last = 0xa5a5a5a55a5a5a5a;
	uint64_t *word = (uint64_t *)(target + 64), was;

	if (!active)
		*word = start;
	ready();
	if (active) {
		was = atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 0x100000001, 0);
		CHECK(was == start, "fetch-and-add returned %016lx", was);
		was = atomic(IBV_WR_ATOMIC_CMP_AND_SWP, plus, last);
		CHECK(was == plus, "compare-and-swap that matches returned %016lx", was);
		was = atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 0, 1);
		CHECK(was == last, "compare-and-swap that does not match returned %016lx", was);
	}
	barrier();
	CHECK(active || (*word == last && !word[-1] && !word[1]), "the word is %016lx at the end", *word);
}

/* Gathered from pieces at odd addresses, scattered over others. */
static void scenario_gather(void)
{
	const uint32_t out[3] = {1, 2051, 4099}, in[3] = {3001, 5, 5000}, total = 1 + 2051 + 4099;
	struct ibv_sge sge[3];
	uint32_t at = 0;

	for (int i = 0; i < 3; i++) {
		uint8_t *piece = (active ? own : target) + i * SLOT + i + 1;

		sge[i] = (struct ibv_sge){
			.addr = (uintptr_t)piece, .length = active ? out[i] : in[i], .lkey = mr->lkey};
		for (uint32_t j = 0; active && j < out[i]; j++)
			piece[j] = pattern(9, at++);
	}
	struct ibv_recv_wr recv = {.sg_list = sge, .num_sge = 3}, *bad;
	CHECK(active || !ibv_post_recv(qp, &recv, &bad), "ibv_post_recv with 3 SGEs");
	ready();
	if (active) {
		struct ibv_send_wr wr = {
			.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED, .sg_list = sge, .num_sge = 3};

		post(&wr);
		reap_good(send_cq, "gather", IBV_WC_SEND);
		return;
	}
	CHECK(reap_good(recv_cq, "scatter", IBV_WC_RECV).byte_len == total, "scatter: byte_len");
	for (int i = 0; i < 3; i++)
		for (uint32_t j = 0; j < in[i] && at < total; j++, at++)
			CHECK(target[i * SLOT + i + 1 + (int)j] == pattern(9, at), "scatter: byte %u", at);
}

/* The receive comes late: the sender is told so and waits, without using up anything. */
static void scenario_rnr(void)
{
	enum { MESSAGES = 4 };

	ready();
	for (int k = 0; k < MESSAGES; k++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = request(&sge, IBV_WR_SEND, own, 2000, 0);

		fill(own, (uint32_t)k, 2000);
		if (active)
			post(&wr);
		barrier();
		if (active) {
			reap_good(send_cq, "send", IBV_WC_SEND);
			continue;
		}
		usleep(30000);
		post_receive(0, target + k * SLOT, 2000);
		reap_good(recv_cq, "late receive", IBV_WC_RECV);
		check_data("late receive", target + k * SLOT, (uint32_t)k, 2000);
	}
}

/* --- scenarios: what the responder must refuse --- */

static void expect_refusal(struct ibv_send_wr *wr, enum ibv_wc_status status, enum ibv_wc_status or_status)
{
	struct ibv_send_wr next = *wr;
	struct ibv_wc wc;

	next.wr_id = 1;
	wr->next = &next;
	post(wr);
	wc = reap(send_cq);
	CHECK(wc.wr_id == 0 && (wc.status == status || wc.status == or_status), "refused request %d: %s",
	      (int)wc.wr_id, ibv_wc_status_str(wc.status));
	wc = reap(send_cq);
	CHECK(wc.wr_id == 1 && wc.status == IBV_WC_WR_FLUSH_ERR, "request %d behind the refused one: %s",
	      (int)wc.wr_id, ibv_wc_status_str(wc.status));
}

static void untouched(void)
{
	for (int i = 0; i < SPACE; i++)
		CHECK(!target[i], "byte %d was written", i);
}

static void scenario_bad_key(void)
{
	struct ibv_sge sge;

	ready();
	peer.rkey ^= 0x5500;
	struct ibv_send_wr wr = request(&sge, IBV_WR_RDMA_WRITE, own, 2 * (uint32_t)mtu + 1, 0);
	fill(own, 1, 8192 + 1);
	if (active)
		expect_refusal(&wr, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR);
	barrier();
	if (!active)
		untouched();
}

static void scenario_bad_bounds(void)
{
	struct ibv_sge sge;

	ready();
	struct ibv_send_wr wr = request(&sge, IBV_WR_RDMA_WRITE, own, 4096, SPACE - 4095);
	fill(own, 1, 4096);
	if (active)
		expect_refusal(&wr, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR);
	barrier();
}

/* IBTA 9.7.4.1.5 calls it an access error, rxe an invalid request. */
static void scenario_bad_access(void)
{
	struct ibv_sge sge;

	ready();
	struct ibv_send_wr wr = request(&sge, IBV_WR_RDMA_READ, own, 4, 0);
	if (active)
		expect_refusal(&wr, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR);
}

/* A SEND longer than the receive: an invalid request, which rxe calls an operational error. */
static void scenario_bad_length(void)
{
	struct ibv_sge sge;

	if (!active)
		post_receive(0, target, 16);
	ready();
	struct ibv_send_wr wr = request(&sge, IBV_WR_SEND, own, 17, 0);
	if (active) {
		expect_refusal(&wr, IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_OP_ERR);
	} else {
		struct ibv_wc wc = reap(recv_cq);

		CHECK(wc.status == IBV_WC_LOC_LEN_ERR || wc.status == IBV_WC_LOC_QP_OP_ERR,
		      "short receive: %s", ibv_wc_status_str(wc.status));
		CHECK(!target[16], "the byte behind the receive was written");
	}
}

/* SEND with invalidate: takes the passive end's memory window away, after which a WRITE by it is refused. */
static void scenario_invalidate(void)
{
	struct ibv_mw *window = active ? NULL : ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	char can = active || window, peer_can;
	struct ibv_sge sge;

	swap(&can, &peer_can, 1);
	if (!can || !peer_can)
		exit(SKIP);
	if (!active)
		post_receive(0, target, 100);
	to_rts();
	if (!active) {
		struct ibv_send_wr bind = {
			.opcode = IBV_WR_BIND_MW,
			.send_flags = IBV_SEND_SIGNALED,
			.bind_mw = {.mw = window,
				    .rkey = ibv_inc_rkey(window->rkey),
				    .bind_info = {.mr = mr,
						  .addr = (uintptr_t)target,
						  .length = SPACE,
						  .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}}};

		post(&bind);
		reap_good(send_cq, "bind", IBV_WC_BIND_MW);
		me.window = bind.bind_mw.rkey;
	}
	swap(&me, &peer, sizeof(me));
	if (!active) {
		struct ibv_wc wc = reap_good(recv_cq, "send with invalidate", IBV_WC_RECV);

		/* rxe gives the kernel's own number of that flag, which is another one to user space. */
		CHECK(wc.wc_flags & (IBV_WC_WITH_INV | IBV_WC_IP_CSUM_OK), "send with invalidate: flags %x",
		      wc.wc_flags);
		CHECK(wc.invalidated_rkey == me.window, "send with invalidate: key %x", wc.invalidated_rkey);
		check_data("send with invalidate", target, 1, 60);
		check_data("write through the window", target + SLOT, 2, 3000);
		barrier();
		return;
	}
	peer.rkey = peer.window;
	fill(own, 2, 3000);
	struct ibv_send_wr write = request(&sge, IBV_WR_RDMA_WRITE, own, 3000, SLOT);
	post(&write);
	reap_good(send_cq, "write through the window", IBV_WC_RDMA_WRITE);
	fill(own, 1, 60);
	struct ibv_send_wr wr = request(&sge, IBV_WR_SEND_WITH_INV, own, 60, 0);
	wr.invalidate_rkey = peer.window;
	post(&wr);
	reap_good(send_cq, "send with invalidate", IBV_WC_SEND);
	write = request(&sge, IBV_WR_RDMA_WRITE, own, 3000, SLOT);
	expect_refusal(&write, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR);
	barrier();
}

/* --- scenario: everything at once, both ways ---
 * Each end makes a stream of random requests to the other's memory. A stream is a pure function of its seed,
 * so each end follows both: what it asks, and what it is to be asked. */

enum kind { WRITE, WRITE_IMM, SEND, SEND_IMM, READ, ADD, SWAP, KINDS };

static const struct {
	enum ibv_wr_opcode opcode;
	enum ibv_wc_opcode completion;
	bool uses_receive, immediate;
} kinds[KINDS] = {
	[WRITE] = {IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE, false, false},
	[WRITE_IMM] = {IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE, true, true},
	[SEND] = {IBV_WR_SEND, IBV_WC_SEND, true, false},
	[SEND_IMM] = {IBV_WR_SEND_WITH_IMM, IBV_WC_SEND, true, true},
	[READ] = {IBV_WR_RDMA_READ, IBV_WC_RDMA_READ, false, false},
	[ADD] = {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD, false, false},
	[SWAP] = {IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP, false, false},
};

struct operation {
	enum kind kind;
	uint32_t number, offset, length;
	uint64_t compare_add, swap, was; /* of atomics */
	bool signaled;
};

struct stream {
	uint64_t random;
	uint32_t number;
	uint8_t *model; /* the target's memory as the requests so far leave it */
};

static uint32_t random_below(struct stream *s, uint32_t limit)
{
	s->random = s->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((s->random >> 33) % limit);
}

static struct operation stream_next(struct stream *s)
{
	static const uint32_t spans[] = {8, 200, 2048, PIECE};
	struct operation op = {.number = s->number++};
	uint64_t *word;

	op.kind = (enum kind)random_below(s, KINDS);
	op.length = random_below(s, spans[random_below(s, 4)]);
	/* A lost response to a READ of no bytes would be the end: rxe of 6.12 does not answer those again. */
	op.length += op.kind == READ && !op.length;
	op.offset = random_below(s, AREA - PIECE);
	op.signaled = random_below(s, 3) == 0;
	switch (op.kind) {
	case WRITE:
	case WRITE_IMM:
		fill(s->model + op.offset, op.number, op.length);
		break;
	case ADD:
	case SWAP:
		op.length = 8;
		op.offset &= ~7u;
		word = (uint64_t *)(s->model + op.offset);
		op.was = *word;
		op.swap = s->random;
		op.compare_add = op.kind == ADD ? s->random | 1 : random_below(s, 4) ? op.was : op.was + 1;
		if (op.kind == ADD)
			*word += op.compare_add;
		else if (op.compare_add == op.was)
			*word = op.swap;
		break;
	default:
		break;
	}
	return op;
}

static struct outstanding {
	struct operation op;
	uint8_t expected[PIECE]; /* by a READ */
} window[WINDOW];

static uint8_t *window_buffer(uint32_t number)
{
	return own + (number % WINDOW) * 8192;
}

/* A READ that is repeated after a loss sees what later requests did, as IBTA allows; so those that change
 * memory wait. */
static void mixed_post(struct operation op, const uint8_t *model, bool read_outstanding)
{
	struct outstanding *o = &window[op.number % WINDOW];
	uint8_t *at = window_buffer(op.number);
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(&sge, kinds[op.kind].opcode, at, op.length, op.offset);

	o->op = op;
	wr.wr_id = op.number;
	wr.send_flags = op.signaled ? IBV_SEND_SIGNALED : 0;
	wr.imm_data = htonl(op.number);
	switch (op.kind) {
	case READ:
		memcpy(o->expected, model + op.offset, op.length);
		memset(at, 0, op.length + 64);
		break;
	case ADD:
	case SWAP:
		wr.wr.atomic.remote_addr = peer.addr + op.offset;
		wr.wr.atomic.rkey = peer.rkey;
		wr.wr.atomic.compare_add = op.compare_add;
		wr.wr.atomic.swap = op.swap;
		wr.send_flags |= read_outstanding ? IBV_SEND_FENCE : 0;
		break;
	default:
		fill(at, op.number, op.length);
		wr.send_flags |= op.length <= INLINE ? IBV_SEND_INLINE : 0;
		wr.send_flags |= read_outstanding ? IBV_SEND_FENCE : 0;
	}
	post(&wr);
	if (wr.send_flags & IBV_SEND_INLINE)
		memset(at, 0xee, op.length);
}

static void mixed_completed(const struct outstanding *o)
{
	const uint8_t *at = window_buffer(o->op.number);

	if (o->op.kind == READ)
		CHECK(!memcmp(at, o->expected, o->op.length), "read %u of %u bytes at %u: other data",
		      o->op.number, o->op.length, o->op.offset);
	if (o->op.kind == ADD || o->op.kind == SWAP)
		CHECK(*(uint64_t *)at == o->op.was, "atomic %u at %u returned %016lx, not %016lx",
		      o->op.number, o->op.offset, *(uint64_t *)at, o->op.was);
}

static void mixed_received(const struct ibv_wc *wc, const struct operation *op)
{
	const uint8_t *at = target + AREA + 8192 * wc->wr_id;
	bool is_write = op->kind == WRITE_IMM;

	CHECK(wc->status == IBV_WC_SUCCESS, "receive: %s", ibv_wc_status_str(wc->status));
	CHECK(wc->opcode == (is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV) &&
		      wc->byte_len == op->length,
	      "receive for request %u: opcode %d, length %u, not %u", op->number, wc->opcode, wc->byte_len,
	      op->length);
	CHECK(!kinds[op->kind].immediate || wc->imm_data == htonl(op->number), "request %u: immediate %u",
	      op->number, ntohl(wc->imm_data));
	for (uint32_t i = 0; !is_write && i < op->length; i++)
		CHECK(at[i] == pattern(op->number, i), "send %u: byte %u of %u", op->number, i, op->length);
}

static bool stream_next_receive(struct stream *s, struct operation *op)
{
	while (s->number < (uint32_t)operations) {
		*op = stream_next(s);
		if (kinds[op->kind].uses_receive)
			return true;
	}
	return false;
}

static void scenario_mixed(void)
{
	static uint8_t our_model[AREA], their_model[AREA];
	struct stream ours = {.random = seed * 2 + active, .model = our_model};
	struct stream theirs = {.random = seed * 2 + !active, .model = their_model};
	uint32_t posted = 0, done = 0, last_read = 0; /* each one more than a number */
	struct operation next, awaited = {0};
	struct ibv_wc wc;
	bool have_next = false, more;

	for (uint64_t i = 0; i < RECEIVES; i++)
		post_receive(i, target + AREA + 8192 * i, PIECE);
	more = stream_next_receive(&theirs, &awaited);
	ready();
	while (done < (uint32_t)operations || more) {
		if (!have_next && ours.number < (uint32_t)operations) {
			next = stream_next(&ours);
			if (next.kind == READ && short_reads && next.length > (uint32_t)mtu)
				next.length = (uint32_t)mtu;
			have_next = true;
			/* Something must tell that there is room again. */
			next.signaled |= next.number % 8 == 7 || next.number == (uint32_t)operations - 1 ||
					 (wait_for_reads && next.kind == READ);
		}
		if (have_next && next.number < done + WINDOW &&
		    !(wait_for_reads && last_read > done && next.kind != READ)) {
			mixed_post(next, our_model, last_read > done);
			if (next.kind == READ)
				last_read = next.number + 1;
			posted = next.number + 1;
			have_next = false;
		}
		if (poll_once(send_cq, &wc)) {
			CHECK(wc.status == IBV_WC_SUCCESS, "request %d: %s", (int)wc.wr_id,
			      ibv_wc_status_str(wc.status));
			CHECK(wc.wr_id >= done && wc.wr_id < posted, "request %d completed at %u",
			      (int)wc.wr_id, done);
			CHECK(wc.opcode == kinds[window[wc.wr_id % WINDOW].op.kind].completion,
			      "request %d: opcode %d", (int)wc.wr_id, wc.opcode);
			for (; done <= wc.wr_id; done++)
				mixed_completed(&window[done % WINDOW]);
		}
		if (poll_once(recv_cq, &wc)) {
			CHECK(more || wc.status != IBV_WC_SUCCESS, "a receive too many");
			mixed_received(&wc, &awaited);
			post_receive(wc.wr_id, target + AREA + 8192 * wc.wr_id, PIECE);
			more = stream_next_receive(&theirs, &awaited);
		}
	}
	barrier();
	CHECK(!memcmp(target, their_model, AREA), "memory is not what the requests make of it");
}

/* Long messages, one after the other: what go-back-N is for. */
static void scenario_stream(void)
{
	enum { ROUNDS = 6 };

	ready();
	for (int k = 0; active && k < ROUNDS; k++) {
		struct ibv_sge sge, back;
		struct ibv_send_wr wr = request(&sge, IBV_WR_RDMA_WRITE, own, 65536, (uint64_t)k * SLOT);
		struct ibv_send_wr rd =
			request(&back, IBV_WR_RDMA_READ, own + SLOT, 65536, (uint64_t)k * SLOT);

		fill(own, (uint32_t)k, 65536);
		memset(own + SLOT, 0, SLOT);
		wr.next = &rd;
		post(&wr);
		reap_good(send_cq, "write", IBV_WC_RDMA_WRITE);
		reap_good(send_cq, "read", IBV_WC_RDMA_READ);
		check_data("read back", own + SLOT, (uint32_t)k, 65536);
	}
	barrier();
	for (int k = 0; !active && k < ROUNDS; k++)
		check_data("write", target + k * SLOT, (uint32_t)k, 65536);
}

static const struct {
	const char *name;
	void (*run)(void);
	unsigned access; /* that the queue pair allows; 0: all */
} scenarios[] = {
	{"send", scenario_send, 0},
	{"send-imm", scenario_send_imm, 0},
	{"write", scenario_write, 0},
	{"write-imm", scenario_write_imm, 0},
	{"read", scenario_read, 0},
	{"atomic", scenario_atomic, 0},
	{"gather", scenario_gather, 0},
	{"invalidate", scenario_invalidate, 0},
	{"rnr", scenario_rnr, 0},
	{"bad-key", scenario_bad_key, 0},
	{"bad-bounds", scenario_bad_bounds, 0},
	{"bad-access", scenario_bad_access, IBV_ACCESS_LOCAL_WRITE},
	{"bad-length", scenario_bad_length, 0},
	{"stream", scenario_stream, 0},
	{"mixed", scenario_mixed, 0},
};

static void make(const char *device_name)
{
	struct ibv_device **list = ibv_get_device_list(NULL), *device = NULL;
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = 64,
						.max_recv_wr = RECEIVES,
						.max_send_sge = 3,
						.max_recv_sge = 3,
						.max_inline_data = INLINE}};

	for (; list && *list && !device; list++)
		if (!device_name || !strcmp(device_name, ibv_get_device_name(*list)))
			device = *list;
	CHECK(device && (context = ibv_open_device(device)), "no device %s", device_name ?: "");
	own = aligned_alloc(4096, 2 * SPACE);
	target = own + SPACE;
	memset(own, 0, 2 * SPACE);
	CHECK((pd = ibv_alloc_pd(context)), "ibv_alloc_pd: %m");
	/* A window needs a region that allows windows; not every device knows them. */
	mr = ibv_reg_mr(pd, own, 2 * SPACE, ALL | IBV_ACCESS_MW_BIND) ?: ibv_reg_mr(pd, own, 2 * SPACE, ALL);
	CHECK(mr, "ibv_reg_mr: %m");
	CHECK((send_cq = attr.send_cq = ibv_create_cq(context, 128, NULL, NULL, 0)), "ibv_create_cq: %m");
	CHECK((recv_cq = attr.recv_cq = ibv_create_cq(context, 128, NULL, NULL, 0)), "ibv_create_cq: %m");
	CHECK((qp = ibv_create_qp(pd, &attr)), "ibv_create_qp: %m");
	me = (struct side){.qpn = qp->qp_num,
			   .psn = (active ? first_psn : ~first_psn) & 0xffffff,
			   .rkey = mr->rkey,
			   .addr = (uintptr_t)target};
	CHECK(!ibv_query_gid(context, 1, gid_index, &me.gid), "no GID %d", gid_index);
}

int main(int argc, char **argv)
{
	const char *device = NULL;
	int option;

	while ((option = getopt(argc, argv, "d:g:m:p:n:s:t:wr")) != -1)
		switch (option) {
		case 'd':
			device = optarg;
			break;
		case 'g':
			gid_index = atoi(optarg);
			break;
		case 'm':
			mtu = atoi(optarg);
			break;
		case 'p':
			first_psn = (uint32_t)strtoul(optarg, NULL, 0);
			break;
		case 'n':
			operations = atoi(optarg);
			break;
		case 's':
			seed = (uint32_t)strtoul(optarg, NULL, 0);
			break;
		case 't':
			timeout = atoi(optarg);
			break;
		case 'r':
			short_reads = true;
			break;
		case 'w':
			wait_for_reads = true;
			break;
		default:
			return 2;
		}
	if (optind >= argc)
		return 2;
	scenario = argv[optind];
	active = argv[optind + 1];
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(*scenarios); i++) {
		if (strcmp(scenario, scenarios[i].name))
			continue;
		make(device);
		to_init(scenarios[i].access ?: ALL);
		meet(argv[optind + 1]);
		swap(&me, &peer, sizeof(me));
		scenarios[i].run();
		barrier(); /* neither end takes its queue pair away before the other is done */
		CHECK(!ibv_destroy_qp(qp), "ibv_destroy_qp");
		printf("exchange %s: good\n", scenario);
		return 0;
	}
	fail("no such scenario");
}
