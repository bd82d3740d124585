/* SPDX-License-Identifier: BSD-2-Clause */
/* Any bytes as the ring of a capture, as a broken process leaves it to `uroce pcap`: what comes out lies within a
 * record, and its frames have room. The input: a number of bytes that are written, then those bytes. Seeds:
 * corpus/captured, made by captured-seeds.py. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/base.h"
#include "base/memfd.h"
#include "require.h"
#include "tools/capture/captured.h"
#include "tools/capture/expand.h"
#include "tools/capture/frame.h"

#define RING   (1u << 16)
#define PIECES 1000 /* a record may stand for millions of packets: the first ones are looked at */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct frame frame;

struct looked_at {
	const struct capture_record *record;
	const struct capture_path *path;
};

static void check_expanded(void *arg, const struct expanded *e)
{
	const struct looked_at *l = arg;
	const uint8_t *from = (const uint8_t *)l->record, *to = from + l->record->bytes;
	uint8_t headers[PACKET_HEADERS];
	size_t bytes;

	require(e->number >= 1 && e->number <= e->of && e->captured <= e->packet->length);
	require(!e->captured || (e->payload >= from && e->payload + e->captured <= to));
	require(e->packet->length <= FRAME_PAYLOAD && opcode_info[e->packet->opcode].name);
	if (e->number > PIECES)
		return;
	bytes = packet_encode(e->packet, headers);
	require(bytes <= sizeof(headers));
	frame_build(&frame, l->path, headers, (uint32_t)bytes, e->payload, e->captured, e->packet->length);
	require(frame.captured <= frame.length && frame.length <= sizeof(frame.bytes));
}

static void look_at(const struct capture_record *r)
{
	const struct capture_packet *p = (const void *)r;
	const struct capture_onesided *o = (const void *)r;

	/* time is proportional to the packets: within that, few */
	if (r->kind == CAPTURE_PACKET && p->length < PIECES * 4096)
		expand_packet(p, check_expanded, &(struct looked_at){r, &p->path});
	else if (r->kind == CAPTURE_ONESIDED && o->length < PIECES * 256)
		expand_onesided(o, check_expanded, &(struct looked_at){r, &o->path});
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_of_size("ring", 0, CAPTURE_PAGE + RING);
	const struct capture_record *r;
	struct capture_header *ring;
	struct captured c;
	uint64_t written = 0;

	require(fd >= 0);
	ring = mmap(NULL, CAPTURE_PAGE + RING, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	require(ring != MAP_FAILED);
	*ring = (struct capture_header){.magic = CAPTURE_MAGIC, .bytes = RING};
	memcpy(&written, data, min_of(size, sizeof(written)));
	if (size > sizeof(written))
		memcpy((char *)ring + CAPTURE_PAGE, data + sizeof(written), min_of(size - sizeof(written), RING));
	atomic_store(&ring->written, written);
	require(captured_open(&c, fd, CAPTURE_PAGE + RING));
	while ((r = captured_next(&c, captured_written(&c))))
		look_at(r);
	require(c.broken || c.read == written);
	captured_close(&c);
	munmap(ring, CAPTURE_PAGE + RING);
	return 0;
}
