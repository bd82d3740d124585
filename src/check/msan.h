/* SPDX-License-Identifier: BSD-2-Clause */
/* For src/check/: a program that is built with MemorySanitizer (base/msan.h). Its requests are watched under `uroce
 * run` as well, so that what they bring is initialised for it when the completion is polled, and what a peer writes as
 * it comes. `uroce check` tells of what is sent and was never initialised. Without MemorySanitizer these do nothing. */
#ifndef UROCE_CHECK_MSAN_H
#define UROCE_CHECK_MSAN_H

#include "check/request.h"
#include "check/objects.h"

struct qp;

struct mr;
struct packet;

/* A request is about to be posted there. */
void msan_look(const struct ibv_qp *qp, const struct ibv_send_wr *wr, const struct stack *posted);
/* Its completion was polled, and it is off its queue: it has brought its bytes. */
void msan_brought(const struct request *r);
/* These are about to be posted, and are not watched: what they bring is taken for initialised already. */
void msan_expects_receives(const struct ibv_recv_wr *wr);
void msan_expects_sent(const struct ibv_send_wr *wr);
/* A packet of a WRITE, a READ or an atomic of the peer is about to be taken. */
void msan_arrives(const struct qp *qp, const struct packet *p) REQUIRES(objects_lock);
/* Completions were polled to there. */
void msan_polled(struct ibv_wc *wc, int count);
/* Reports what msan_arrives() has found. Without locks. */
void msan_tell(void);

#endif
