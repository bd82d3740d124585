/* SPDX-License-Identifier: BSD-2-Clause */
/* Map from 64-bit keys to 32-bit values. Freed with map_free(); one thread. Out of memory ends the program, as
 * everywhere in the tools. */
#ifndef UROCE_TOOLS_MAP_H
#define UROCE_TOOLS_MAP_H

#include <stddef.h>
#include <stdint.h>

#define MAP_NONE UINT32_MAX /* no value: must not be stored */

struct map {
	struct map_slot {
		uint64_t key;
		uint32_t value, used;
	} * slots;
	size_t count, size; /* size: a power of two, or 0 */
};

uint32_t map_get(const struct map *map, uint64_t key);
void map_put(struct map *map, uint64_t key, uint32_t value);
void map_free(struct map *map);

/* realloc() that never returns NULL. */
void *grow(void *array, size_t members, size_t size);

/* Room for one more in `array`, whose capacity doubles: array = room_for(array, count, sizeof(*array)). */
void *room_for(void *array, size_t count, size_t size);

#endif
