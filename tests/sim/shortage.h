/* SPDX-License-Identifier: BSD-2-Clause */
/* Shortage of memory: in some runs each allocation of the library fails with a chance that the seed decides. The
 * linker gives the library's calls of malloc() and its like to shortage.c (-Wl,--wrap). The simulation's own memory
 * (own.h) never runs out. */
#ifndef SIM_SHORTAGE_H
#define SIM_SHORTAGE_H

#include "dice.h"

struct shortage {
	struct dice dice;
	double chance;	  /* 0: this run has all that it asks for */
	uint64_t refused; /* allocations of this run */
	uint64_t pieces;  /* of memory that are allocated now, by the library and by the simulation */
	uint64_t bytes;	  /* in them */
};
extern struct shortage shortage;

/* A run begins; chance < 0: the seed decides. */
void shortage_begin(uint64_t seed, double chance);
/* Nothing fails from now on. */
void shortage_end(void);

#endif
