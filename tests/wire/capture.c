/* SPDX-License-Identifier: BSD-2-Clause */
/* Classic pcap files over Ethernet. */
#include <endian.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "capture.h"
#include "wire/packet.h"

static uint16_t captured_16(const uint8_t *at)
{
	return at[0] << 8 | at[1];
}

static void captured_gid4(uint8_t gid[16], const uint8_t *addr)
{
	memset(gid, 0, 10);
	memset(gid + 10, 0xff, 2);
	memcpy(gid + 12, addr, 4);
}

/* Takes a frame apart; false if it holds no RoCEv2 packet. */
static bool captured_dissect(struct captured *c, const uint8_t *frame, size_t n)
{
	const uint8_t *ip = frame + 14, *udp;
	uint16_t type = captured_16(frame + 12);

	if (type == 0x0800 && ip[9] == 17) {
		c->is_ipv4 = true;
		c->identification = captured_16(ip + 4);
		captured_gid4(c->saddr, ip + 12);
		captured_gid4(c->daddr, ip + 16);
		udp = ip + 4 * (ip[0] & 15);
	} else if (type == 0x86dd && ip[6] == 17) {
		c->is_ipv4 = false;
		c->identification = 0;
		memcpy(c->saddr, ip + 8, 16);
		memcpy(c->daddr, ip + 24, 16);
		udp = ip + 40;
	} else {
		return false;
	}
	c->sport = captured_16(udp);
	c->dport = captured_16(udp + 2);
	c->length = captured_16(udp + 4) - 8;
	if (c->dport != ROCE_PORT || c->length > sizeof(c->bytes) || udp + 8 + c->length > frame + n)
		return false;
	memcpy(c->bytes, udp + 8, c->length);
	c->frame = frame;
	c->frame_length = n;
	return true;
}

/* Calls see() for each RoCEv2 packet in the file; returns their number, -1 if the file is not what we can
 * read. */
static int captured_in_file(const char *path, void (*see)(const struct captured *c))
{
	struct {
		uint32_t magic, version, zone, accuracy, longest, type;
	} head;
	struct {
		uint32_t seconds, fraction, captured, length;
	} record;
	static uint8_t frame[65536];
	static struct captured c;
	FILE *f = fopen(path, "rb");
	int found = -1;

	if (!f)
		return -1;
	if (fread(&head, sizeof(head), 1, f) != 1 || le32toh(head.magic) != 0xa1b2c3d4 || le32toh(head.type) != 1)
		goto close;
	found = 0;
	c.file = path;
	while (fread(&record, sizeof(record), 1, f) == 1) {
		uint32_t n = le32toh(record.captured);

		if (n > sizeof(frame) || fread(frame, n, 1, f) != 1)
			break; /* the count that the test expects will be missed */
		if (captured_dissect(&c, frame, n)) {
			see(&c);
			found++;
		}
	}
close:
	fclose(f);
	return found;
}

int captured_everywhere(void (*see)(const struct captured *c))
{
	static const char pattern[] = SOURCE_DIR "/tests/vectors/*/*.pcap";
	glob_t files;
	int found = 0;

	if (glob(pattern, 0, NULL, &files)) {
		fprintf(stderr, "no captures at %s\n", pattern);
		return -1;
	}
	for (size_t i = 0; i < files.gl_pathc; i++) {
		int n = captured_in_file(files.gl_pathv[i], see);

		if (n < 0) {
			fprintf(stderr, "cannot read %s\n", files.gl_pathv[i]);
			found = -1;
			break;
		}
		found += n;
	}
	globfree(&files);
	return found;
}
