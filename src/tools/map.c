/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/map.h"

#include <stdio.h>
#include <stdlib.h>

void *grow(void *array, size_t members, size_t size)
{
	void *bigger = reallocarray(array, members ? members : 1, size);

	if (!bigger) {
		fprintf(stderr, "uroce: out of memory\n");
		exit(EXIT_FAILURE);
	}
	return bigger;
}

void *room_for(void *array, size_t count, size_t size)
{
	/* full at 0, and at each power of two from 8 on */
	if (count == 0 || (count >= 8 && (count & (count - 1)) == 0))
		return grow(array, count ? 2 * count : 8, size);
	return array;
}

static size_t hash(uint64_t key)
{
	key ^= key >> 31;
	key *= 0x9e3779b97f4a7c15ull; /* Fibonacci hashing */
	return (size_t)(key ^ (key >> 32));
}

static struct map_slot *map_slot_of(const struct map *map, uint64_t key)
{
	size_t i = hash(key) & (map->size - 1);

	while (map->slots[i].used && map->slots[i].key != key)
		i = (i + 1) & (map->size - 1);
	return &map->slots[i];
}

uint32_t map_get(const struct map *map, uint64_t key)
{
	const struct map_slot *slot;

	if (!map->size)
		return MAP_NONE;
	slot = map_slot_of(map, key);
	return slot->used ? slot->value : MAP_NONE;
}

static void enlarge(struct map *map)
{
	struct map old = *map;

	map->size = old.size ? 2 * old.size : 64;
	map->slots = grow(NULL, map->size, sizeof(*map->slots));
	for (size_t i = 0; i < map->size; i++)
		map->slots[i] = (struct map_slot){0};
	for (size_t i = 0; i < old.size; i++)
		if (old.slots[i].used)
			*map_slot_of(map, old.slots[i].key) = old.slots[i];
	free(old.slots);
}

void map_put(struct map *map, uint64_t key, uint32_t value)
{
	struct map_slot *slot;

	if (2 * map->count >= map->size)
		enlarge(map);
	slot = map_slot_of(map, key);
	map->count += !slot->used;
	*slot = (struct map_slot){key, value, 1};
}

void map_free(struct map *map)
{
	free(map->slots);
	*map = (struct map){0};
}
