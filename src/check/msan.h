/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs built with MemorySanitizer (base/msan.h). Their requests are watched under `uroce run` as well: received
 * bytes are marked as initialised when the completion is polled, and bytes that a peer writes as they come. `uroce
 * check` also reports bytes that are sent and were never initialised. Without MemorySanitizer these functions do
 * nothing. */
#ifndef UROCE_CHECK_MSAN_H
#define UROCE_CHECK_MSAN_H

#include "check/request.h"
#include "check/objects.h"

struct qp;

struct mr;
struct packet;

/* Reports uninitialised bytes that a request, about to be posted to the queue pair, sends. */
void msan_look(const struct ibv_qp *qp, const struct ibv_send_wr *wr, const struct stack *posted);
/* Marks the received bytes of a request as initialised. The completion was polled, and the request is off its queue. */
void msan_brought(const struct request *r);
/* Marks the memory of receives that are not watched as initialised, before they are posted. */
void msan_expects_receives(const struct ibv_recv_wr *wr);
void msan_expects_sent(const struct ibv_send_wr *wr);
/* Looks at a packet of a peer's WRITE, READ or atomic that is about to be taken. */
void msan_arrives(const struct qp *qp, const struct packet *p) REQUIRES(objects_lock);
/* Marks `count` polled completions in `wc` as initialised. */
void msan_polled(struct ibv_wc *wc, int count);
/* Reports what msan_arrives() found. Without locks. */
void msan_tell(void);

#endif
