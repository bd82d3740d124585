/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/capture/pcapng.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"

enum block_type {
	BLOCK_SECTION = 0x0a0d0d0a,
	BLOCK_INTERFACE = 1,
	BLOCK_STATISTICS = 5,
	BLOCK_PACKET = 6,
};

enum option_code {
	OPTION_END = 0,
	OPTION_COMMENT = 1,
	OPTION_NAME = 2,
	OPTION_APPLICATION = 4, /* option of a section */
	OPTION_DESCRIPTION = 3,
	OPTION_FLAGS = 2,    /* option of a packet */
	OPTION_RECEIVED = 4, /* option of statistics */
	OPTION_DROPPED = 5,
	OPTION_RESOLUTION = 9,
};

#define LINKTYPE_ETHERNET 1
#define NANOSECONDS	  9 /* resolution: 10^-9 s */

/* A block in memory, as its length comes first. */
struct block {
	uint8_t bytes[1024];
	uint32_t size;
};

static uint32_t padded(uint32_t n)
{
	return (n + 3) & ~3u;
}

static void put_bytes(struct block *b, const void *from, uint32_t size)
{
	memcpy(b->bytes + b->size, from, size);
	memset(b->bytes + b->size + size, 0, padded(size) - size);
	b->size += padded(size);
}

static void put_word(struct block *b, uint32_t word)
{
	put_bytes(b, &word, sizeof(word));
}

static void put_time(struct block *b, uint64_t time)
{
	put_word(b, (uint32_t)(time >> 32));
	put_word(b, (uint32_t)time);
}

static void put_option(struct block *b, uint16_t code, const void *value, uint32_t size)
{
	put_word(b, (uint32_t)code | size << 16);
	put_bytes(b, value, size);
}

/* Adds text, cut to the room of the block. */
static void put_text(struct block *b, uint16_t code, const char *text)
{
	put_option(b, code, text, (uint32_t)strnlen(text, 400));
}

/* Writes head, `data` and `rest` as one block. */
static void put_block(struct pcapng *w, enum block_type type, const struct block *head, const void *data, uint32_t size,
		      const struct block *rest)
{
	static const uint8_t zeros[4];
	uint32_t length = 12 + head->size + padded(size) + rest->size, word[2] = {type, length};

	fwrite(word, sizeof(word), 1, w->file);
	fwrite(head->bytes, 1, head->size, w->file);
	fwrite(data, 1, size, w->file);
	fwrite(zeros, 1, padded(size) - size, w->file);
	fwrite(rest->bytes, 1, rest->size, w->file);
	fwrite(&length, sizeof(length), 1, w->file);
	w->bytes += length;
	if (ferror(w->file) && !w->error)
		w->error = errno;
}

void pcapng_flush(struct pcapng *w)
{
	if (fflush(w->file) && !w->error)
		w->error = errno;
}

void pcapng_begin(struct pcapng *w)
{
	static const struct {
		uint32_t magic;
		uint16_t major, minor;
		uint64_t length;
	} section = {0x1a2b3c4d, 1, 0, UINT64_MAX};
	struct block head = {.size = 0}, rest = {.size = 0};

	put_bytes(&head, &section, sizeof(section));
	put_text(&rest, OPTION_APPLICATION, "uroce");
	put_word(&rest, OPTION_END);
	put_block(w, BLOCK_SECTION, &head, "", 0, &rest);
}

void pcapng_interface(struct pcapng *w, const char *name, const char *description, uint32_t snap)
{
	static const uint8_t resolution = NANOSECONDS;
	struct block head = {.size = 0}, rest = {.size = 0};

	put_word(&head, LINKTYPE_ETHERNET);
	put_word(&head, snap);
	put_text(&rest, OPTION_NAME, name);
	put_text(&rest, OPTION_DESCRIPTION, description);
	put_option(&rest, OPTION_RESOLUTION, &resolution, 1);
	put_word(&rest, OPTION_END);
	put_block(w, BLOCK_INTERFACE, &head, "", 0, &rest);
}

void pcapng_packet(struct pcapng *w, uint32_t interface, uint64_t time, bool inbound, const void *frame,
		   uint32_t captured, uint32_t length, const char *comment)
{
	const uint32_t flags = inbound ? 1 : 2;
	struct block head = {.size = 0}, rest = {.size = 0};

	put_word(&head, interface);
	put_time(&head, time);
	put_word(&head, captured);
	put_word(&head, length);
	put_option(&rest, OPTION_FLAGS, &flags, sizeof(flags));
	put_text(&rest, OPTION_COMMENT, comment);
	put_word(&rest, OPTION_END);
	put_block(w, BLOCK_PACKET, &head, frame, captured, &rest);
}

void pcapng_statistics(struct pcapng *w, uint32_t interface, uint64_t time, uint64_t packets, uint64_t dropped)
{
	struct block head = {.size = 0}, rest = {.size = 0};

	put_word(&head, interface);
	put_time(&head, time);
	put_option(&rest, OPTION_RECEIVED, &packets, sizeof(packets));
	put_option(&rest, OPTION_DROPPED, &dropped, sizeof(dropped));
	put_word(&rest, OPTION_END);
	put_block(w, BLOCK_STATISTICS, &head, "", 0, &rest);
}
