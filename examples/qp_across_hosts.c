// SPDX-License-Identifier: BSD-2-Clause
/* Two programs, on one host or on two, with one queue pair each. Before RDMA can begin, the two must tell
 * each other where they are: that goes over an ordinary TCP connection. Then the client sends, writes, reads,
 * swaps and adds, and the server looks at what has happened to its memory. (What each object is for: see
 * qp_single_host.c. The queue pair and the TCP connection: see across_hosts.h.)
 *
 *	cc qp_across_hosts.c -o qp_across_hosts -libverbs
 *	uroce run ./qp_across_hosts [-d DEVICE] [-g GID_INDEX] [-p TCP_PORT]          the server
 *	uroce run ./qp_across_hosts [-d DEVICE] [-g GID_INDEX] [-p TCP_PORT] SERVER   the client
 */
#include "across_hosts.h"

static struct memory *mine;

static void client(void)
{
	uint64_t text = peer.address + offsetof(struct memory, text);
	uint64_t number = peer.address + offsetof(struct memory, number);
	uint64_t received = peer.address + offsetof(struct memory, received);

	/* SEND: our HCA cuts the message into packets of the path MTU; the server's HCA puts them into the
	 * memory of its oldest receive request and acknowledges. The acknowledgement makes our completion. */
	strcpy(mine->text, "hello, server");
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND};
	post(send, (uintptr_t)mine->text, sizeof(mine->text));
	complete(IBV_WC_SEND);
	printf("send:             \"%s\"\n", mine->text);

	/* READ: our HCA asks, the server's HCA answers from its memory; the server's program takes no part.
	 */
	struct ibv_send_wr read = {.opcode = IBV_WR_RDMA_READ, .wr.rdma = {.remote_addr = received, .rkey = peer.rkey}};
	post(read, (uintptr_t)mine->text, sizeof(mine->text));
	complete(IBV_WC_RDMA_READ);
	MUST(!strcmp(mine->text, "hello, server"));
	printf("read:             \"%s\" is what the server's memory holds\n", mine->text);

	/* WRITE: the server's HCA checks key and bounds and stores the bytes; its program is told nothing. */
	strcpy(mine->text, "written by the client");
	struct ibv_send_wr write = {.opcode = IBV_WR_RDMA_WRITE, .wr.rdma = {.remote_addr = text, .rkey = peer.rkey}};
	post(write, (uintptr_t)mine->text, sizeof(mine->text));
	complete(IBV_WC_RDMA_WRITE);
	printf("write:            \"%s\"\n", mine->text);

	/* COMPARE AND SWAP: the server's HCA does `if (number == 40) number = 41` as one step that no other
	 * request can come between, and answers with what was there before. */
	struct ibv_send_wr swap = {
		.opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
		.wr.atomic = {.remote_addr = number, .rkey = peer.rkey, .compare_add = 40, .swap = 41}};
	post(swap, (uintptr_t)&mine->number, sizeof(mine->number));
	complete(IBV_WC_COMP_SWAP);
	MUST(mine->number == 40);
	printf("compare and swap: it was %" PRIu64 "\n", mine->number);

	/* FETCH AND ADD: the same with `number += 1`. */
	struct ibv_send_wr add = {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				  .wr.atomic = {.remote_addr = number, .rkey = peer.rkey, .compare_add = 1}};
	post(add, (uintptr_t)&mine->number, sizeof(mine->number));
	complete(IBV_WC_FETCH_ADD);
	MUST(mine->number == 41);
	printf("fetch and add:    it was %" PRIu64 "\n", mine->number);
}

int main(int argc, char **argv)
{
	const char *server = begin(argc, argv);
	FILE *tcp;

	MUST(mine = calloc(1, sizeof(*mine)));
	create((uintptr_t)mine);

	/* The server's receive request must be there before the client's message comes. (If it were not, its
	 * HCA would answer "receiver not ready" and ours would try again.) */
	mine->number = 40;
	if (!server)
		post_receive((uintptr_t)mine->received, sizeof(mine->received));

	tcp = meet(server);
	if (server) {
		client();
	} else {
		complete(IBV_WC_RECV);
		printf("received:         \"%s\"\n", mine->received);
	}
	tcp_barrier(tcp); /* the client is done */
	if (!server) {
		MUST(!strcmp(mine->text, "written by the client") && mine->number == 42);
		printf("our memory:       \"%s\" and %" PRIu64 "\n", mine->text, mine->number);
	}
	end(tcp);
	free(mine);
	return 0;
}
