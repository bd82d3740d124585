/* SPDX-License-Identifier: BSD-2-Clause */
/* Happens-before for ThreadSanitizer: a key for each QP, SRQ and QP number. Several share a key, so a race may be
 * missed. */
#include "check/order.h"

#include <dlfcn.h>
#include <infiniband/verbs.h>

#include "base/base.h"
#include "base/tsan.h"
#include "check/target.h"
#include "check/tuned.h"
#include "object/hca.h"
#include "object/qp.h"

#define KEYS 4096u

#ifdef UNDER_TSAN
#define SEES_OURS true /* what uroce stores for peers, in any thread: no order is known of that */
#else
#define SEES_OURS false
#endif

static struct {
	void (*acquire)(void *key);
	void (*release)(void *key);
	void (*read)(void *at, unsigned long length);
	void (*write)(void *at, unsigned long length);
} order_tsan;
static bool order_is_told; /* constant after order_start() */
static char order_keys[KEYS];

static void *key_of_number(uint32_t qpn)
{
	return &order_keys[(qpn ^ qpn >> 12) % KEYS];
}

static void *key_of_queue(const void *queue)
{
	return &order_keys[((uintptr_t)queue >> 6 ^ (uintptr_t)queue >> 18) % KEYS];
}

void order_uses(struct hca *hca, const struct request *r)
{
	void (*use)(void *at, unsigned long length) = r->brings ? order_tsan.write : order_tsan.read;
	uint64_t first, last;
	char *at;

	for (int i = 0; order_is_told && !SEES_OURS && i < r->sges; i++) {
		at = target_of_sge(hca, &r->sge[i]);
		if (!at)
			continue;
		first = min_of((uint64_t)r->sge[i].length, ORDER_LOOKS);
		last = min_of(r->sge[i].length - first, ORDER_LOOKS);
		use(at, first);
		use(at + r->sge[i].length - last, last);
	}
}

void order_before_send(const struct ibv_qp *base, const struct ibv_send_wr *wr)
{
	const struct qp *qp = (const struct qp *)base;

	if (!order_is_told)
		return;
	order_tsan.release(key_of_queue(qp));
	if (base->qp_type != IBV_QPT_UD)
		order_tsan.release(key_of_number(qp->attr.dest_qp_num));
	for (; wr && base->qp_type == IBV_QPT_UD; wr = wr->next)
		order_tsan.release(key_of_number(wr->wr.ud.remote_qpn));
}

void order_before_receive(const void *queue)
{
	if (order_is_told)
		order_tsan.release(key_of_queue(queue));
}

void order_after(const struct ibv_qp *qp, const void *queue)
{
	if (!order_is_told)
		return;
	order_tsan.acquire(key_of_queue(queue ?: qp));
	if (queue) /* the message was posted too */
		order_tsan.acquire(key_of_number(qp->qp_num));
}

void order_start(void)
{
	order_tsan.acquire = (void (*)(void *))dlsym(RTLD_DEFAULT, "__tsan_acquire");
	order_tsan.release = (void (*)(void *))dlsym(RTLD_DEFAULT, "__tsan_release");
	order_tsan.read = (void (*)(void *, unsigned long))dlsym(RTLD_DEFAULT, "__tsan_read_range");
	order_tsan.write = (void (*)(void *, unsigned long))dlsym(RTLD_DEFAULT, "__tsan_write_range");
	order_is_told = order_tsan.acquire && order_tsan.release && order_tsan.read && order_tsan.write;
}
