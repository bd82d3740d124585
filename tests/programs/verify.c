// SPDX-License-Identifier: BSD-2-Clause
/* verify PORT GID_INDEX [HOST]: random SENDs, WRITEs, READs and atomics of random sizes, all data checked,
 * until SIGTERM comes to the client. The client keeps a model of the server's memory, reads it back and
 * compares; what it SENDs, the server compares with the same generator. */
#include <signal.h>

#include "rc.h"

/* Each end's memory: what may be written and read, the number for atomics, and a place for messages. */
enum { AREA = 256 << 10, NUMBER = AREA, MESSAGE = NUMBER + 8, LARGEST = 128 << 10, SIZE = MESSAGE + LARGEST };

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
	stop = number;
}

static uint32_t next(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 32;
}

/* Mostly small, sometimes large, never a round number. */
static uint32_t any_size(uint64_t *state, uint32_t largest)
{
	uint32_t bits = next(state) % 18;

	return 1 + next(state) % (largest < 1u << bits ? largest : 1u << bits);
}

static void fill(uint8_t *to, uint32_t length, uint64_t *state)
{
	for (uint32_t i = 0; i < length; i++)
		to[i] = next(state);
}

static void compare(const char *what, const uint8_t *is, const uint8_t *must, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++) {
		if (is[i] == must[i])
			continue;
		fprintf(stderr, "%s of %u bytes: byte %u is 0x%02x, should be 0x%02x\n", what, length, i, is[i],
			must[i]);
		exit(1);
	}
}

/* Message n is its own generator's output; an empty one is the end. */
static uint32_t message(uint64_t n, uint8_t *to)
{
	uint64_t state = n;
	uint32_t length = any_size(&state, LARGEST);

	fill(to, length, &state);
	return length;
}

static void serve(struct rc *rc)
{
	static uint8_t must[LARGEST];

	for (uint64_t n = 0;; n++) {
		struct ibv_wc wc = rc_poll(rc);

		rc_expect(wc, IBV_WC_RECV);
		if (!wc.byte_len)
			return;
		MUST(wc.byte_len == message(n, must));
		compare("message", rc->memory + MESSAGE, must, wc.byte_len);
		rc_post_receive(rc, MESSAGE, LARGEST);
	}
}

static void one_send(struct rc *rc, uint64_t n)
{
	uint32_t length = message(n, rc->memory + MESSAGE);

	rc_post(rc, IBV_WR_SEND, MESSAGE, 0, length);
	rc_expect(rc_poll(rc), IBV_WC_SEND);
}

/* Writes and reads anywhere; both ends' areas differ, so that a READ that does nothing is seen. */
static void one_write(struct rc *rc, uint8_t *model, uint64_t *state)
{
	uint32_t length = any_size(state, AREA), at = next(state) % (AREA - length + 1);

	fill(rc->memory + at, length, state);
	memcpy(model + at, rc->memory + at, length);
	rc_post(rc, IBV_WR_RDMA_WRITE, at, at, length);
	rc_expect(rc_poll(rc), IBV_WC_RDMA_WRITE);
	memset(rc->memory + at, 0xee, length);
}

static void one_read(struct rc *rc, const uint8_t *model, uint64_t *state)
{
	uint32_t length = any_size(state, AREA), at = next(state) % (AREA - length + 1);

	rc_post(rc, IBV_WR_RDMA_READ, at, at, length);
	rc_expect(rc_poll(rc), IBV_WC_RDMA_READ);
	compare("READ", rc->memory + at, model + at, length);
}

static void one_atomic(struct rc *rc, uint64_t *number, bool swap)
{
	struct ibv_sge piece = rc_piece(rc, NUMBER, 8);
	struct ibv_send_wr wr = {.opcode = swap ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD,
				 .sg_list = &piece,
				 .num_sge = 1,
				 .wr.atomic = {.remote_addr = rc->peer.address + NUMBER,
					       .rkey = rc->peer.rkey,
					       .compare_add = swap ? *number : 3,
					       .swap = ~*number}},
			   *bad;

	ZERO(ibv_post_send(rc->qp, &wr, &bad));
	rc_expect(rc_poll(rc), swap ? IBV_WC_COMP_SWAP : IBV_WC_FETCH_ADD);
	compare("atomic", rc->memory + NUMBER, (uint8_t *)number, 8);
	*number = swap ? ~*number : *number + 3;
}

static void drive(struct rc *rc)
{
	uint64_t state = getpid(), number = 0, sent = 0;
	static uint8_t model[AREA];

	for (uint64_t round = 1; !stop; round++) {
		switch (next(&state) % 4) {
		case 0:
			one_send(rc, sent++);
			break;
		case 1:
			one_write(rc, model, &state);
			break;
		case 2:
			one_read(rc, model, &state);
			break;
		case 3:
			one_atomic(rc, &number, next(&state) & 1);
			break;
		}
		if (round % 500 == 0)
			printf("round %" PRIu64 "\n", round);
	}
	rc_post(rc, IBV_WR_SEND, MESSAGE, 0, 0);
	rc_expect(rc_poll(rc), IBV_WC_SEND);
}

int main(int argc, char **argv)
{
	struct rc rc;

	MUST(argc >= 3);
	signal(SIGTERM, on_signal);
	rc_open(&rc, NULL, atoi(argv[2]), SIZE);
	rc_post_receive(&rc, MESSAGE, LARGEST);
	rc_meet(&rc, argv[3], argv[1]);
	if (argc > 3)
		drive(&rc);
	else
		serve(&rc);
	MUST(rc_barrier(&rc));
	printf("all data were right\n");
	return 0;
}
