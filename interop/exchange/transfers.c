// SPDX-License-Identifier: BSD-2-Clause
/* Messages of telling lengths, one opcode each. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "exchange.h"

enum { LENGTHS = 12 };

static uint32_t length_of(int k)
{
	uint32_t m = (uint32_t)settings.mtu;
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
		CHECK(wc.byte_len == length_of(k), "%s %d: byte_len %u, not %u", what, k, wc.byte_len, length_of(k));
		CHECK(!(wc.wc_flags & IBV_WC_WITH_IMM) == !immediate, "%s %d: flags %x", what, k, wc.wc_flags);
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

void scenario_send(void)
{
	send_(IBV_WR_SEND);
}

void scenario_send_imm(void)
{
	send_(IBV_WR_SEND_WITH_IMM);
}

void scenario_write(void)
{
	ready();
	if (active)
		request_all("write", IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE);
	barrier();
	if (!active)
		for (int k = 0; k < LENGTHS; k++)
			check_data("write", target + k * SLOT, (uint32_t)k, length_of(k));
}

void scenario_write_imm(void)
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

void scenario_read(void)
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
		CHECK(wc.byte_len == length_of(k), "read %d: byte_len %u, not %u", k, wc.byte_len, length_of(k));
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
	reap_good(send_cq, add ? "fetch-and-add" : "compare-and-swap", add ? IBV_WC_FETCH_ADD : IBV_WC_COMP_SWAP);
	return *(uint64_t *)own;
}

void scenario_atomic(void)
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
void scenario_gather(void)
{
	const uint32_t out[3] = {1, 2051, 4099}, in[3] = {3001, 5, 5000}, total = 1 + 2051 + 4099;
	struct ibv_sge sge[3];
	uint32_t at = 0;

	for (int i = 0; i < 3; i++) {
		uint8_t *piece = (active ? own : target) + i * SLOT + i + 1;

		sge[i] =
			(struct ibv_sge){.addr = (uintptr_t)piece, .length = active ? out[i] : in[i], .lkey = mr->lkey};
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
void scenario_rnr(void)
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

/* Long messages, one after the other: what go-back-N is for. */
void scenario_stream(void)
{
	enum { ROUNDS = 6 };

	ready();
	for (int k = 0; active && k < ROUNDS; k++) {
		struct ibv_sge sge, back;
		struct ibv_send_wr wr = request(&sge, IBV_WR_RDMA_WRITE, own, 65536, (uint64_t)k * SLOT);
		struct ibv_send_wr rd = request(&back, IBV_WR_RDMA_READ, own + SLOT, 65536, (uint64_t)k * SLOT);

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
