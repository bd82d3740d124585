/* SPDX-License-Identifier: BSD-2-Clause */
/* What these tests share: a network namespace of their own, an open device in it, queue pairs that are
 * connected to each other over its loopback. */
#ifndef TEST_FIXTURE_H
#define TEST_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	ALL_ACCESS =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	INIT_MASK = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	RTR_MASK = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	RTS_MASK = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		   IBV_QP_MAX_QP_RD_ATOMIC,
	MEMORY = 64 << 10,
};

extern struct ibv_context *context; /* of the loopback device */
extern struct ibv_device_attr limits;

/* Group setup and teardown. enter_namespace() comes before any thread; false: not allowed, so the tests run
 * where they are and may not change anything there. */
bool enter_namespace(void);
int open_context(void **state);
int close_context(void **state);

/* `ip` with these words; false if it fails, or if the namespace is not our own. */
bool ip(const char *words);

/* One side of a connection, with objects of its own. Test setup gives two as *state: a struct side[2], in
 * INIT. */
struct side {
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *memory;
};

int open_sides(void **state);
int close_sides(void **state);

struct ibv_qp *make_qp(struct ibv_pd *pd, struct ibv_cq *cq, const struct ibv_qp_cap *cap);
/* All attributes that any transition wants, for a QP that talks to `peer`. */
struct ibv_qp_attr attributes(enum ibv_qp_state to, const struct ibv_qp *peer);
int mask_to(enum ibv_qp_state to);
/* Down to RESET, or up to that state. */
void bring(struct ibv_qp *qp, const struct ibv_qp *peer, enum ibv_qp_state to);
/* A UD QP, from RESET to RTS. */
void bring_datagrams(struct ibv_qp *qp, uint32_t qkey);
void connect_sides(struct side *s);

struct ibv_sge piece(const struct side *s, size_t offset, uint32_t length);
int side_send(struct side *s, struct ibv_send_wr *wr);
int side_write(struct side *from, struct side *to, uint32_t length);
int side_receive(struct side *s, uint64_t wr_id);
/* Waits for the next completion. */
struct ibv_wc next(struct ibv_cq *cq);
/* For other threads: the main thread is blocked when it returns. */
void until_main_sleeps(void);

#define assert_errno(call, wanted)               \
	do {                                     \
		errno = 0;                       \
		assert_false(call);              \
		assert_int_equal(errno, wanted); \
	} while (0)

#endif
