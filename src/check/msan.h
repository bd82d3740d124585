/* SPDX-License-Identifier: BSD-2-Clause */
/* A program that is built with MemorySanitizer (base/msan.h). Its requests are watched under `uroce
 * run` as well, so that what they bring is initialised for it when the completion is polled, and what a peer writes as
 * it comes. `uroce check` tells of what is sent and was never initialised. Without MemorySanitizer these do nothing. */
#ifndef UROCE_CHECK_MSAN_H
#define UROCE_CHECK_MSAN_H

#include "check/request.h"
#include "check/objects.h"

struct qp;

struct mr;
struct packet;

/* The request is about to be posted to the queue pair: reports bytes that it sends and were never initialised. */
void msan_look(const struct ibv_qp *qp, const struct ibv_send_wr *wr, const struct stack *posted);
/* The completion of the request was polled, and it is off its queue: its bytes are initialised. */
void msan_brought(const struct request *r);
/* Requests are about to be posted that are not watched: bytes that they bring count as initialised at once. */
void msan_expects_receives(const struct ibv_recv_wr *wr);
void msan_expects_sent(const struct ibv_send_wr *wr);
/* A packet of a WRITE, a READ or an atomic of the peer is about to be taken. */
void msan_arrives(const struct qp *qp, const struct packet *p) REQUIRES(objects_lock);
/* `count` completions were polled to `wc`. */
void msan_polled(struct ibv_wc *wc, int count);
/* Reports what msan_arrives() has found. Without locks. */
void msan_tell(void);

#endif
