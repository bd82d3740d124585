// SPDX-License-Identifier: BSD-2-Clause
/* One end of an RC connection whose two ends check each other. */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SLOT = 72 * 1024, /* room for one message, and what must stay as it was behind it */
	SLOTS = 16,
	SPACE = SLOT * SLOTS, /* of each buffer: ours, and the one that the peer reads and writes */
	RECEIVES = 64,
	INLINE = 64,
	SKIP = 77,
};

enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

/* What the command line says; main.c says what the letters mean. */
extern struct settings {
	const char *scenario, *device;
	int gid_index, mtu, operations, timeout;
	uint32_t first_psn, seed;
	bool wait_for_reads, short_reads;
} settings;

extern bool active;

void __attribute__((noreturn, format(printf, 1, 2))) fail(const char *format, ...);

#define CHECK(claim, ...) ((claim) ? (void)0 : fail(__VA_ARGS__))

/* --- control.c: what the ends must know of each other, by TCP --- */

void control_meet(const char *host); /* NULL: awaits the other end */
void control_swap(const void *out, void *in, size_t size);
bool control_is_open(void);
void barrier(void);

/* --- end.c: the queue pair, its memory, and what the other end has --- */

struct side {
	uint32_t qpn, psn, rkey, window;
	uint64_t addr;
	union ibv_gid gid;
};

extern struct side me, peer;
extern struct ibv_pd *pd;
extern struct ibv_cq *send_cq, *recv_cq;
extern struct ibv_qp *qp;
extern struct ibv_mr *mr;
extern uint8_t *own, *target; /* SPACE bytes each; the peer knows of `target` */

void end_create(void);
void end_to_init(unsigned access); /* from here on receives may be posted */
void end_to_rts(void);
void ready(void); /* both ends can send when it returns */

/* --- data.c: bytes that tell where they belong --- */

uint8_t pattern(uint32_t message, uint32_t i);
void fill(uint8_t *at, uint32_t message, uint32_t length);
/* The message is there, and the 64 bytes behind it are still zero. */
void check_data(const char *what, const uint8_t *at, uint32_t message, uint32_t length);

/* --- request.c --- */

struct ibv_send_wr request(struct ibv_sge *sge, enum ibv_wr_opcode opcode, void *at, uint32_t length,
			   uint64_t remote_offset);
void post(struct ibv_send_wr *wr);
void post_receive(uint64_t id, void *at, uint32_t length);
/* Whether there was a completion. If there are none for long, the other end may have failed. */
bool poll_once(struct ibv_cq *cq, struct ibv_wc *wc);
struct ibv_wc reap(struct ibv_cq *cq);
struct ibv_wc reap_good(struct ibv_cq *cq, const char *what, enum ibv_wc_opcode opcode);

/* --- scenarios --- */

/* transfers.c */
void scenario_send(void);
void scenario_send_imm(void);
void scenario_write(void);
void scenario_write_imm(void);
void scenario_read(void);
void scenario_atomic(void);
void scenario_gather(void);
void scenario_rnr(void);
void scenario_stream(void);

/* refusals.c */
void scenario_bad_key(void);
void scenario_bad_bounds(void);
void scenario_bad_access(void);
void scenario_bad_length(void);
void scenario_invalidate(void);

/* mixed.c */
void scenario_mixed(void);

#endif
