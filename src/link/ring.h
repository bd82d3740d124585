/* SPDX-License-Identifier: BSD-2-Clause */
/* A ring of records in memory that two processes share: one produces, one consumes. The consumer may be killed, or the
 * producer, at any instruction: there is no lock in it, only positions, and a record is there when its first word says
 * so.
 *
 *   producer: writes the record but for its mark, then stores that (release). It touches no other line.
 *   consumer: loads the word where the next record would begin (acquire): it is there if that is its mark. Looking
 * costs nothing until the producer writes there. Tells from time to time how far it got.
 *
 * The mark is the position, which never comes again, and the ring's key: a random number of 64 bits. So nothing has to
 * be cleared: what an older record has left there, data included, is no mark but by a chance of 1 to 2^64.
 *
 * A record takes whole units of two cache lines, which processors like to fetch together, and lies in one piece for
 * both ends, as its memory is mapped twice, one after the other. */
#ifndef UROCE_RING_H
#define UROCE_RING_H

#include <stdatomic.h>

#include "base/base.h"
#include "base/tsan.h"
#include "link/tuned.h"

#define RING_UNIT 128u

/* The begin of a record: ring_publish() writes it. */
struct ring_mark {
	_Atomic uint64_t mark;
	uint32_t bytes; /* of the record, this included; what is left of its last unit is not used */
};

/* The first page of the memory; each word has a line of its own. */
struct ring_words {
	uint64_t key;				    /* odd. Constant */
	_Alignas(CACHE_LINE) _Atomic uint64_t head; /* the consumer's: bytes consumed */
	_Atomic uint32_t has_consumer;		    /* the consumer's: it looks here from now on */
	_Alignas(CACHE_LINE) _Atomic uint32_t
		sleeps; /* the consumer's: it sleeps. The producer that clears it rings the doorbell */
	_Alignas(CACHE_LINE) _Atomic uint32_t wanted; /* the producer's: tell me when there is room. The same */
};

/* One end of a ring. */
struct ring {
	struct ring_words *words; /* NULL: there is no ring */
	char *data;
	uint32_t size;		    /* bytes: a power of two */
	uint64_t at;		    /* bytes produced, or consumed */
	_Atomic(const char *) next; /* producer: where that is, for ring_expect(): a hint */
	uint64_t key;
	uint64_t known; /* producer: the last known head; consumer: what the head says */
	uint64_t ready; /* producer: from here on, the memory has not been made ready yet */
	void *tsan_key; /* of both mappings of one memory */
};

/* Memory for a ring of `size` bytes: a descriptor that cannot shrink or grow, or -errno. */
int ring_memory(uint32_t size);
/* Maps it. 0; -EINVAL if it is not what ring_memory() makes; or -errno. The descriptor stays the caller's. */
int ring_map(struct ring *r, int memory);
void ring_unmap(struct ring *r);
/* For a producer: its memory goes, but ring_is_asleep() may still be asked, and says no. ring_unmap() follows. */
void ring_retire(struct ring *r);
/* Has the kernel give us the pages that the producer comes to next, many at once: one by one, on the first way around,
 * they cost more than the records that are written there. As much again as has been used, so that who says little
 * takes little memory. */
void ring_ready(struct ring *r);

static inline uint32_t ring_round(uint32_t bytes)
{
	return (bytes + RING_UNIT - 1) & ~(RING_UNIT - 1u);
}

/* Where the next record begins. */
static inline struct ring_mark *ring_next(const struct ring *r)
{
	return (struct ring_mark *)(r->data + (r->at & (r->size - 1)));
}

/* ---- producer ---- */

/* How far the consumer has got. */
static inline void ring_look(struct ring *r)
{
	/* acquire pairs with ring_tell(): what the consumer has read may be overwritten */
	uint64_t head = atomic_load_explicit(&r->words->head, memory_order_acquire);

	tsan_acquire(r->tsan_key);
	r->known = r->at - head <= r->size ? head : r->at - r->size; /* a head that lies makes no room */
}

/* Bytes that records may take now; `enough` saves a look at the consumer's line if it is known to be there. */
static inline uint32_t ring_room(struct ring *r, uint32_t enough)
{
	if (r->at - r->known + enough > r->size)
		ring_look(r);
	return r->size - (uint32_t)(r->at - r->known);
}

/* Whether they may take so many. */
static inline bool ring_has_room(struct ring *r, uint32_t bytes)
{
	if (likely(r->at - r->known + bytes <= r->size))
		return true;
	ring_look(r);
	return r->at - r->known + bytes <= r->size;
}

static inline void ring_prepare_line(const char *line)
{
#ifdef __x86_64__
	__asm__ volatile("prefetchw %0" : : "m"(*line)); /* the compiler would only read, for want of a flag */
#else
	__builtin_prefetch(line, 1);
#endif
}

/* Has the lines at `next`, which the next record will probably take, brought here while there is time, as the consumer
 * read them last. */
static inline void ring_prepare(const char *next, uint32_t bytes)
{
	uint32_t i = 0;

	do {
		ring_prepare_line(next + i);
		ring_prepare_line(next + i + CACHE_LINE);
		i += RING_UNIT;
	} while (unlikely(i < bytes && i < RING_AHEAD));
}

/* The record at ring_next(), which is `next`, is written, for which there was room. */
static inline __attribute__((always_inline)) void ring_publish_at(struct ring *r, struct ring_mark *next,
								  uint32_t bytes)
{
	const char *behind;

	next->bytes = bytes;
	tsan_release(r->tsan_key);
	/* release pairs with ring_peek() */
	atomic_store_explicit(&next->mark, r->key + r->at, memory_order_release);
	r->at += ring_round(bytes);
	if (unlikely(r->at >= r->ready))
		ring_ready(r);
	behind = (const char *)ring_next(r);
	atomic_store_explicit(&r->next, behind, memory_order_relaxed);
	ring_prepare(behind, ring_round(bytes));
}

/* Something has come: the thread that takes it may be about to answer, by a record that takes two lines, probably. The
 * consumer has looked there since ring_prepare(), so they are asked for again, once for each place: *last keeps it. Of
 * any thread, since nothing is touched. */
static inline void ring_expect(const struct ring *r, const char **last)
{
	const char *next = atomic_load_explicit(&((struct ring *)r)->next, memory_order_relaxed);

	if (next == *last)
		return;
	*last = next;
	ring_prepare_line(next);
	ring_prepare_line(next + CACHE_LINE);
}

static inline void ring_publish(struct ring *r, uint32_t bytes)
{
	ring_publish_at(r, ring_next(r), bytes);
}

/* Whether the consumer sleeps, and has to be woken: once for many records, after the last of them and a full barrier.
 * That pairs with the fence in ring_sleep(): either we see that it sleeps, or it sees the record. */
static inline bool ring_is_asleep(struct ring *r)
{
	return unlikely(atomic_load_explicit(&r->words->sleeps, memory_order_relaxed)) &&
	       atomic_exchange_explicit(&r->words->sleeps, 0, memory_order_relaxed);
}

/* The same with that barrier. */
static inline bool ring_must_wake(struct ring *r)
{
	atomic_thread_fence(memory_order_seq_cst);
	return ring_is_asleep(r);
}

/* The producer is going to sleep until there is this much room. True: there is already. */
static inline bool ring_want(struct ring *r, uint32_t room)
{
	atomic_store_explicit(&r->words->wanted, 1, memory_order_relaxed);
	/* pairs with the fence in ring_sleep() and with the consumer's next look at `wanted` */
	atomic_thread_fence(memory_order_seq_cst);
	return ring_room(r, r->size) >= room;
}

/* Whether the consumer has got beyond what was produced up to `at`. */
static inline bool ring_has_passed(const struct ring *r, uint64_t at)
{
	return atomic_load_explicit(&r->words->head, memory_order_relaxed) >= at;
}

/* Whether a consumer has ever looked. */
static inline bool ring_is_attended(const struct ring *r)
{
	/* acquire pairs with ring_attend() */
	return r->words && atomic_load_explicit(&r->words->has_consumer, memory_order_acquire);
}

/* ---- consumer ---- */

static inline bool ring_is_empty(const struct ring *r)
{
	/* relaxed: who finds something looks again */
	return atomic_load_explicit(&ring_next(r)->mark, memory_order_relaxed) != r->key + r->at;
}

/* Before it looks for the first time. */
static inline void ring_attend(struct ring *r)
{
	/* release pairs with ring_is_attended(): it is so before anything that this process says */
	atomic_store_explicit(&r->words->has_consumer, 1, memory_order_release);
}

/* The next record and its size; NULL if there is none, or if it cannot be one. */
static inline const void *ring_peek(const struct ring *r, uint32_t *bytes)
{
	struct ring_mark *next = ring_next(r);

	/* acquire pairs with ring_publish() */
	if (atomic_load_explicit(&next->mark, memory_order_acquire) != r->key + r->at) {
		/* the other line of its first unit: asked for now it comes with the mark, not after it */
		__builtin_prefetch((const char *)next + CACHE_LINE);
		return NULL;
	}
	tsan_acquire(r->tsan_key);
	*bytes = next->bytes;
	return likely(*bytes >= sizeof(*next) && *bytes <= r->size) ? next : NULL;
}

/* Has the rest of a record brought here while its beginning is looked at. */
static inline void ring_fetch(const void *record, uint32_t bytes)
{
	uint32_t i = CACHE_LINE;

	do /* it takes whole units: its second line is there */
		__builtin_prefetch((const char *)record + i);
	while (unlikely((i += CACHE_LINE) < bytes) && i < RING_FETCH);
}

/* Tells the producer how far we got. */
static inline void ring_tell(struct ring *r)
{
	tsan_release(r->tsan_key);
	/* release pairs with ring_room(): we have read what we free */
	atomic_store_explicit(&r->words->head, r->at, memory_order_release);
	r->known = r->at;
}

static inline void ring_consume(struct ring *r, uint32_t bytes)
{
	r->at += ring_round(bytes);
	if (unlikely(r->at - r->known >= r->size / 8))
		ring_tell(r);
}

/* Whether the producer waits for room, and has to be told. */
static inline bool ring_is_wanted(struct ring *r)
{
	return unlikely(atomic_load_explicit(&r->words->wanted, memory_order_relaxed)) &&
	       atomic_exchange_explicit(&r->words->wanted, 0, memory_order_relaxed);
}

/* The consumer has read for now, and the producer is told how far. True: it waits for room, and has to be woken.
 * Without a fence: a producer that begins to wait in this moment sees a head that is less than an eighth behind. So it
 * waits only if there is more to read, after which the consumer comes here again. */
static inline bool ring_rest(struct ring *r)
{
	if (r->known != r->at)
		ring_tell(r);
	return ring_is_wanted(r);
}

/* The consumer is going to sleep. True: there is something already. */
static inline bool ring_sleep(struct ring *r)
{
	atomic_store_explicit(&r->words->sleeps, 1, memory_order_relaxed);
	/* pairs with the barrier before ring_is_asleep() and the fence in ring_want() */
	atomic_thread_fence(memory_order_seq_cst);
	return !ring_is_empty(r);
}

#endif
