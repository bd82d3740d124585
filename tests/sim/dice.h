/* SPDX-License-Identifier: BSD-2-Clause */
/* Random numbers of a run: one seed, one sequence (splitmix64). */
#ifndef SIM_DICE_H
#define SIM_DICE_H

#include <stdbool.h>
#include <stdint.h>

struct dice {
	uint64_t state;
};

static inline uint64_t dice_roll(struct dice *d)
{
	uint64_t z = d->state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* 0 .. n - 1; 0 if n is 0. */
static inline uint64_t dice_below(struct dice *d, uint64_t n)
{
	uint64_t roll = dice_roll(d);

	return n ? roll % n : 0;
}

/* low .. high, both included */
static inline uint64_t dice_between(struct dice *d, uint64_t low, uint64_t high)
{
	return low + dice_below(d, high - low + 1);
}

static inline bool dice_chance(struct dice *d, double probability)
{
	return (double)(dice_roll(d) >> 11) < probability * 9007199254740992.0; /* 2^53 */
}

#define dice_pick(d, array) ((array)[dice_below(d, ARRAY_SIZE(array))])

#endif
