/* SPDX-License-Identifier: BSD-2-Clause */
#include "tcp.h"

#include <math.h>
#include <stdlib.h>

#define SEGMENT	   (TCP_MSS + 66 + 24) /* on the wire */
#define REORDERING 3
#define TIMEOUT	   (200 * MSEC)
#define BETA	   0.7
#define C	   0.4 /* segments/s^3 */

static uint32_t place(uint32_t segment)
{
	return segment % TCP_FLIGHT;
}

static uint32_t in_network(const struct tcp *t)
{
	return t->tail - t->head - t->settled;
}

static void fill_window(struct tcp *t)
{
	while (in_network(t) < (uint32_t)t->window && t->tail - t->head < TCP_FLIGHT) {
		uint64_t at = t->carry(t->arg, SEGMENT, t->now);

		t->sent[place(t->tail)] = t->now;
		t->answer[place(t->tail++)] = at ? at + t->back : NEVER;
	}
}

void tcp_init(struct tcp *t, tcp_carry *carry, void *arg, uint64_t back, uint64_t now)
{
	*t = (struct tcp){.carry = carry, .arg = arg, .back = back, .now = now, .window = 10, .threshold = HUGE_VAL};
	t->answer = malloc(TCP_FLIGHT * sizeof(*t->answer));
	t->sent = malloc(TCP_FLIGHT * sizeof(*t->sent));
	if (!t->answer || !t->sent)
		abort();
	fill_window(t);
}

void tcp_fini(struct tcp *t)
{
	free(t->answer);
	free(t->sent);
}

/* The oldest segment whose ACK will come: they come in the order of the segments. */
static uint32_t next_answered(const struct tcp *t)
{
	uint32_t i = t->head;

	while (i != t->tail && (t->answer[place(i)] == NEVER || !t->answer[place(i)]))
		i++;
	return i;
}

uint64_t tcp_next(const struct tcp *t)
{
	uint32_t i = next_answered(t);

	return i != t->tail ? t->answer[place(i)] : t->sent[place(t->tail - 1)] + TIMEOUT;
}

static void reduce(struct tcp *t, uint32_t segment)
{
	if ((int32_t)(segment - t->reduced) < 0)
		return;
	t->reduced = t->tail;
	t->most = t->window < t->most ? t->window * (1 + BETA) / 2 : t->window;
	t->window = t->threshold = fmax(t->window * BETA, 2);
	t->estimate = t->window;
	t->epoch = 0;
}

static void grow(struct tcp *t)
{
	double at, k, target;

	if (t->window < t->threshold) {
		t->window++;
		return;
	}
	if (!t->epoch)
		t->epoch = t->now;
	k = cbrt(fmax(t->most - t->threshold, 0) / C);
	at = (double)(t->now - t->epoch) / 1e9 + t->round_trip - k;
	target = fmin(C * at * at * at + t->most, 1.5 * t->window);
	t->estimate += (t->estimate < t->most ? 3 * (1 - BETA) / (1 + BETA) : 1) / t->window;
	if (target > t->window)
		t->window += (target - t->window) / t->window;
	t->window = fmax(t->window, t->estimate);
}

/* Nothing is awaited of this segment any more. */
static void settle(struct tcp *t, uint32_t segment)
{
	t->answer[place(segment)] = 0;
	t->settled++;
	for (; t->head != t->tail && !t->answer[place(t->head)]; t->head++)
		t->settled--;
}

/* What was sent well before the one that has been acknowledged is lost. */
static void find_lost(struct tcp *t, uint32_t acked)
{
	for (uint32_t i = t->head; (int32_t)(acked - i) >= REORDERING; i++)
		if (t->answer[place(i)] == NEVER) {
			reduce(t, i);
			settle(t, i);
		}
}

void tcp_step(struct tcp *t, uint64_t now)
{
	uint32_t i = next_answered(t);

	t->now = now;
	if (i == t->tail) { /* a time-out */
		t->head = t->tail;
		t->settled = 0;
		t->threshold = fmax(t->window / 2, 2);
		t->window = 1;
	} else {
		t->round_trip = (double)(now - t->sent[place(i)]) / 1e9;
		find_lost(t, i);
		t->delivered += TCP_MSS;
		settle(t, i);
		grow(t);
	}
	fill_window(t);
}

void tcp_count(struct tcp *t)
{
	t->counted = t->delivered;
}

uint64_t tcp_delivered(const struct tcp *t)
{
	return t->delivered - t->counted;
}
