/* SPDX-License-Identifier: BSD-2-Clause */
/* One QP, and a peer that sends exactly what a test tells it to.
 *
 * The QP is 0x010000, its peer 0x123456. The QP sends from PSN 0xfffffe and expects PSN 0xfffffd first, so that
 * everything longer than a packet or two crosses the wrap. psn() in tests is absolute: use sent_psn(n) and
 * due_psn(n). */
#ifndef ENGINE_FIXTURE_H
#define ENGINE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/engine.h"
#include "object/ah.h"
#include "object/window.h"

enum {
	MEMORY = 65536,
	SENT_MAX = 512,
	MTU = 256,
	IOVA = 0x100000, /* of the regions */
	PEER_QPN = 0x123456,
	QKEY = 0x11111111,
	GRH = 40, /* bytes before the data of a datagram */
};

/* A packet that the QP has sent. */
struct sent {
	struct packet packet;
	union ibv_gid dgid; /* where to */
	uint8_t payload[4096];
};

struct fixture {
	struct hca hca;
	struct pd pd, other_pd;
	struct cq send_cq, recv_cq;
	struct qp *qp;
	struct srq *srq;     /* for the QP to use; NULL unless the test makes one before fixture_start() */
	struct mr *mr;	     /* all rights, over memory */
	struct mr *plain;    /* no rights but to be read locally, over the same */
	struct mr *foreign;  /* all rights, another domain */
	struct mr *window;   /* of type 2, all rights, over all of ... */
	struct mr *exported; /* ... this, which is otherwise like mr; bound by the QP */
	uint32_t rkey;	     /* of the window */
	_Alignas(64) uint8_t memory[MEMORY];
	uint8_t payload[4096]; /* of packets to be received: byte i is i * 3 + 1 */
	uint32_t sents, shown; /* how many; how many of them the test has looked at */
	struct tx_batch batch;
	uint32_t room; /* of each turn; 0: without end */
	uint64_t now;
	bool delay_ack;
	uint32_t event[32]; /* counts */
	uint32_t cq_events, cq_errors;
	struct ibv_qp_attr attr; /* what the QP gets on its way to RTS: change before fixture_start() */
	struct ibv_qp_cap cap;
	bool sig_all;
	enum ibv_qp_type type; /* RC unless a test says otherwise */
	struct ah ah;	       /* UD: to fixture_there */
	struct sent
		sent[SENT_MAX]; /* all but these is zero at first: they are 2 MB, and there are thousands of fixtures */
};

/* cmocka setup and teardown: *state is a fixture, the QP not yet made. */
int fixture_setup(void **state);
int fixture_teardown(void **state);
/* Of tests with rows: a new fixture for each, in place of the one that *state has. */
struct fixture *fixture_renew(void **state);

/* Makes the QP and brings it to a state, RTS usually. */
void fixture_start(struct fixture *f, enum ibv_qp_state state);
/* The same to RTS, with a peer that is known as a uroce. */
void fixture_start_with_uroce(struct fixture *f);
int fixture_modify(struct fixture *f, const struct ibv_qp_attr *attr, int mask);
int fixture_move(struct fixture *f, enum ibv_qp_state to); /* with the masks that are required */
extern const union ibv_gid fixture_here, fixture_there, fixture_elsewhere;

psn_t sent_psn(uint32_t n); /* the n-th PSN that the QP sends, from 0 */
psn_t due_psn(uint32_t n);  /* the n-th PSN that it is to receive */

/* Posting. wr_id's count from 1 in each queue unless given. */
int fixture_post(struct fixture *f, struct ibv_send_wr wr); /* sg_list NULL and num_sge = bytes: of memory */
/* The request, for UD with its address: PEER_QPN at fixture_there. */
struct ibv_send_wr fixture_datagram(struct fixture *f, struct ibv_send_wr wr);
int fixture_post_recv(struct fixture *f, uint64_t wr_id, uint32_t length);
int fixture_post_recv_to(struct fixture *f, uint64_t wr_id, struct ibv_sge sge);
struct ibv_sge fixture_sge(struct fixture *f, uint32_t offset, uint32_t length);

/* Runs the engine; what it sends goes to sent[]. */
void fixture_run(struct fixture *f);
/* The packet arrives from the peer, and the engine runs. Payload: length bytes of f->payload unless given. */
void fixture_give(struct fixture *f, struct packet p);
void fixture_give_from(struct fixture *f, struct packet p, const union ibv_gid *from);
void fixture_give_by(struct fixture *f, struct packet p, const union ibv_gid *from, const union ibv_gid *to);
/* Time passes; the engine is called when it wants to be. */
void fixture_wait(struct fixture *f, uint64_t ns);
/* To the next deadline; false: there is none. */
bool fixture_wait_deadline(struct fixture *f);

/* The next packet that the QP sent and the test has not seen; fails if there is none. */
const struct sent *fixture_sent(struct fixture *f);
bool fixture_is_silent(const struct fixture *f);
void fixture_forget(struct fixture *f); /* what was sent so far is of no interest */
#define expect_sent(f, op, at) expect_sent_(f, op, at, __LINE__)
#define expect_silence(f)      expect_silence_(f, __LINE__)
/* An ACK or NAK. */
#define expect_ack(f, at, syn) expect_ack_(f, at, syn, __LINE__)
const struct sent *expect_sent_(struct fixture *f, uint8_t opcode, psn_t at, int line);
void expect_silence_(const struct fixture *f, int line);
void expect_ack_(struct fixture *f, psn_t at, uint8_t syndrome, int line);

/* The next completion. */
#define expect_done(f, id, st)	expect_completion_(&(f)->send_cq, id, st, __LINE__)
#define expect_taken(f, id, st) expect_completion_(&(f)->recv_cq, id, st, __LINE__)
#define expect_none(f)		expect_none_(f, __LINE__)
struct cqe expect_completion_(struct cq *cq, uint64_t wr_id, enum ibv_wc_status status, int line);
void expect_none_(struct fixture *f, int line);

/* Packets from the peer: of the QP's transport. */
struct packet request(uint8_t operation, psn_t at, uint32_t length);
struct packet ack(psn_t at, uint8_t syndrome);
struct packet response(uint8_t operation, psn_t at, uint32_t length);
/* with a RETH or AtomicETH that names offset and length of memory */
struct packet aimed(struct fixture *f, uint8_t operation, psn_t at, uint32_t length, uint32_t offset,
		    uint32_t dma_length);

#define ACKED (SYNDROME_ACK | SYNDROME_NO_CREDITS)

/* Of tests that want the fixture as it is. */
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

#endif
