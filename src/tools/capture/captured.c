/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/capture/captured.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"
#include "tools/map.h"

/* Min size of each kind. */
static const uint32_t least[] = {[CAPTURE_FILL] = sizeof(struct capture_record),
				 [CAPTURE_EVENT] = sizeof(struct capture_event),
				 [CAPTURE_PACKET] = sizeof(struct capture_packet),
				 [CAPTURE_ONESIDED] = sizeof(struct capture_onesided)};
static_assert(ARRAY_SIZE(least) == CAPTURE_ONESIDED + 1, "a row for each kind");

bool captured_open(struct captured *c, int memory, uint32_t bytes)
{
	*c = (struct captured){0};
	if (bytes >= 2 * CAPTURE_PAGE)
		c->ring = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	close(memory);
	if (!c->ring || c->ring == MAP_FAILED) {
		c->ring = NULL;
		return false;
	}
	c->bytes = bytes - CAPTURE_PAGE;
	if (c->ring->magic == CAPTURE_MAGIC && c->ring->bytes == c->bytes && !(c->bytes & (c->bytes - 1)))
		return true;
	captured_close(c);
	return false;
}

void captured_close(struct captured *c)
{
	if (c->ring)
		munmap(c->ring, CAPTURE_PAGE + c->bytes);
	free(c->record);
	*c = (struct captured){0};
}

uint64_t captured_written(const struct captured *c)
{
	return atomic_load_explicit(&c->ring->written, memory_order_acquire); /* pairs with capture_commit() */
}

static const char *captured_at(const struct captured *c)
{
	return (const char *)c->ring + CAPTURE_PAGE + (c->read & (c->bytes - 1));
}

/* Length of the record at `read`; 0 if invalid: capture_begin() fills at most a quarter of the ring. */
static uint32_t captured_length(const struct captured *c, uint64_t written)
{
	uint64_t rest = c->bytes - (c->read & (c->bytes - 1)), there = written - c->read;
	uint32_t bytes;

	if (there > c->bytes || there % 16)
		return 0;
	bytes = *(const volatile uint32_t *)(const void *)captured_at(c); /* read once, as it may change */
	return bytes >= sizeof(struct capture_record) && bytes % 16 == 0 && bytes <= c->bytes / 4 && bytes <= rest &&
			       bytes <= there
		       ? bytes
		       : 0;
}

static void copy_record(struct captured *c, uint32_t bytes)
{
	if (bytes > c->room) {
		c->record = grow(c->record, bytes, 1);
		c->room = bytes;
	}
	memcpy(c->record, captured_at(c), bytes);
	c->record->bytes = bytes; /* the checked value */
	c->read += bytes;
	/* release: pairs with ring_has(); the writer may reuse the space */
	atomic_store_explicit(&c->ring->read, c->read, memory_order_release);
}

const struct capture_record *captured_next(struct captured *c, uint64_t written)
{
	while (!c->broken && c->read != written) {
		uint32_t bytes = captured_length(c, written);

		c->broken = !bytes;
		if (c->broken)
			break;
		copy_record(c, bytes);
		if (c->record->kind >= ARRAY_SIZE(least) || c->record->kind == CAPTURE_FILL)
			continue; /* a later version's kind, or the end of the ring */
		c->broken = bytes < least[c->record->kind] || c->record->link > CAPTURE_MEMORY;
		if (!c->broken)
			return c->record;
	}
	return NULL;
}
