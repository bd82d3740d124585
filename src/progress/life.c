/* SPDX-License-Identifier: BSD-2-Clause */
#include "progress/life.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/config.h"
#include "base/fork.h"
#include "base/hooks.h"
#include "base/log.h"
#include "base/yield.h"
#include "host/handover.h"
#include "host/registry.h"
#include "host/slot.h"
#include "loop/control.h"
#include "loop/helper.h"
#include "loop/loop.h"
#include "memory/share.h"
#include "object/hca.h"
#include "object/hca_init.h"
#include "port/domain.h"
#include "port/faults.h"
#include "port/local.h"
#include "port/ports.h"
#include "port/raw.h"
#include "port/receive.h"
#include "port/settle.h"
#include "port/target.h"
#include "port/tuned.h"
#include "progress/helper_thread.h"
#include "progress/tuned.h"

/* Draws a QPN at random. Not from the seed of keys, as peers learn QPNs. */
static uint32_t draw_qpn(void *hca)
{
	uint32_t bits;

	return getrandom(&bits, sizeof(bits), 0) == sizeof(bits) ? bits : hca_random_bits(hca);
}

/* True if an lkey that is used as an rkey, or the reverse, is to fail, as on adapters that number them apart. */
static bool keys_are_unlike(void)
{
	int word;

	return config_enum(CONFIG_KEYS) || config_words(CONFIG_CHECK, &word, 1) ||
	       (config_words(CONFIG_ADAPTER, &word, 1) && word); /* not 0, uroce */
}

/* Ends the loop; a new context makes a new one. */
static void end_loop(struct loop *l) REQUIRES(loop_life)
{
	atomic_store_explicit(&loop_current, NULL, memory_order_relaxed);
	lock_take(&l->receive);
	l->ended = true;
	sleep_renew(l);
	lock_drop(&l->receive);
}

static void free_loop(struct loop *l)
{
	helper_fini(l);
	local_fini(l);
	steering_fini(&l->steering);
	handover_close(&l->handover);
	slot_release(&l->slot);
	target_fini(l);
	share_destroy(l->hca.share);
	hca_fini(&l->hca);
	free(l->port);
	free(l);
}

static struct loop *make_loop(const struct hca_ops *ops)
{
	struct loop *l = aligned_alloc(_Alignof(struct loop), sizeof(*l));
	uint64_t seed;
	int err;

	if (!l)
		goto err;
	memset(l, 0, offsetof(struct loop, handover));
	memset(&l->handover, 0, offsetof(struct handover, memory));
	lock_set_rank(&l->receive, RANK_RECEIVE);
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		goto err_free;
	err = slot_claim(&l->slot);
	if (err)
		goto err_errno;
	err = hca_init(&l->hca, ops, l->slot.number, seed, draw_qpn);
	if (err)
		goto err_slot;
	l->hca.keys.lkey = keys_are_unlike() ? KEY_UNLIKE : 0;
	err = share_create(&l->hca.share, l->slot.number, l->hca.keys.mix, l->hca.keys.mask, hca_random(&l->hca) | 1);
	if (err) /* without it, everything goes through the rings and udp */
		l->hca.share = NULL;
	else
		share_on_release(l->hca.share, local_released, l);
	steering_init(&l->steering, &l->slot);
	l->budget = BUDGET_MIN;
	l->processors = sysconf(_SC_NPROCESSORS_ONLN);
	l->end = end_loop;
	l->free = free_loop;
	l->local.drain = drain_rx_ring;
	l->local.settle = settle_all;
	l->helper.main = helper_main;
	local_init(l);
	err = helper_init(l);
	if (err)
		goto err_share;
	return l;

err_share:
	local_fini(l);
	share_destroy(l->hca.share);
	hca_fini(&l->hca);
err_slot:
	slot_release(&l->slot);
err_errno:
	errno = -err;
err_free:
	free(l);
err:
	return NULL;
}

static void loop_before_fork(void) ACQUIRE(loop_life)
{
	struct loop *l;

	lock_take(&loop_life);
	l = atomic_load_explicit(&loop_current, memory_order_relaxed);
	if (l) {
		lock_take(&l->local.lock);
		lock_hand_over(&l->local.lock); /* loop_after_fork() drops it */
	}
}

static void loop_after_fork(void) RELEASE(loop_life)
{
	struct loop *l = atomic_load_explicit(&loop_current, memory_order_relaxed);

	if (l) {
		lock_take_over(&l->local.lock);
		lock_drop(&l->local.lock);
	}
	lock_drop(&loop_life);
}

static void loop_in_child(void) RELEASE(loop_life)
{
	struct loop *l = atomic_load_explicit(&loop_current, memory_order_relaxed);

	raw_forget();
	domains_forget();
	if (l) {
		atomic_store_explicit(&l->hca.inert, true, memory_order_relaxed);
		control_abandon(&l->helper.control);
		helper_close(&l->helper);
		local_in_child(l);
		for (uint32_t i = 0; i < l->ports; i++)
			if (l->port[i]->link->fd >= 0)
				l->port[i]->link->ops->abandon(l->port[i]->link);
		share_abandon(l->hca.share);
		handover_close(&l->handover);
		slot_release(&l->slot);
		steering_fini(&l->steering);
		lock_take_over(&l->local.lock);
		lock_drop(&l->local.lock);
	}
	/* the child may open devices of its own */
	atomic_store_explicit(&loop_current, NULL, memory_order_relaxed);
	lock_drop(&loop_life);
}

__attribute__((constructor)) static void loop_watch_forks(void)
{
	static const struct fork_handlers handlers = {loop_before_fork, loop_after_fork, loop_in_child};

	fork_watch(FORK_LOOP, &handlers);
}

/* Waits until the thread that receives has sent: the helper may have written a completion with an error and not yet its
 * NAK. Not longer: exit() may have been called from a signal handler, by the thread that receives. */
static void await_receiver(struct loop *l)
{
	for (int tries = 0; tries < EXIT_TRIES; tries++) {
		if (lock_try(&l->receive)) {
			lock_drop(&l->receive);
			return;
		}
		processor_yield();
	}
}

/* Sends what others wait for, at exit: a delayed ACK; and packets of other processes on the address that came to this
 * one's socket, as nobody would send datagrams again. */
__attribute__((destructor)) static void flush_at_exit(void)
{
	struct loop *l = atomic_load_explicit(&loop_current, memory_order_acquire);

	if (!l)
		return;
	await_receiver(l);
	if (hook_is_on(HOOK_FAULT))
		faults_release_all(l);
	if (has_ready(l))
		helper_flush(l);
	loop_pass_on(l);
	for (uint32_t i = 0; uroce_log_on(LOG_DEBUG) && i < l->ports; i++)
		l->port[i]->link->ops->tell(l->port[i]->link);
}

struct hca *loop_get(const struct hca_ops *ops)
{
	struct loop *l;

	lock_take(&loop_life);
	l = atomic_load_explicit(&loop_current, memory_order_relaxed); /* only written under the lock */
	if (!l) {
		l = make_loop(ops);
		atomic_store_explicit(&loop_current, l, memory_order_release); /* pairs with loop_progress() */
	}
	if (l)
		l->users++;
	lock_drop(&loop_life);
	return l ? &l->hca : NULL;
}

void loop_put(struct hca *hca)
{
	loop_drop_user(container_of(hca, struct loop, hca), true);
}
