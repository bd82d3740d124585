#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""local-seeds.py FOLDER - seeds for fuzz_local: introductions with each wrong descriptor, each kind of record, references
to memory, words and tables changed while they are used."""
import pathlib
import struct
import sys

GREET, RECORD, WORDS, TABLE, SEND, SLEEP, PART, RESIZE, SIGNAL = range(9)
SIZE, QPN, DATAGRAM, PSN = 1, 2, 4, 8
QP_ENTRY, REGION_ENTRY, FILE_ENTRY, VISITOR, HEADER, IN_FILE, IN_SEGMENT, LONG, SEGMENT = range(9)
REGIONS = range(0, 64, 16)  # in the arena, a file, a segment; a long one
MEET = bytes([GREET, 0, 0, 0])


def step(kind, value=0, at=0, bytes_=b""):
    return bytes([kind, value, at, len(bytes_)]) + bytes_


def send(value, at=0, eights=1):
    return bytes([SEND, value, at, eights])


def record(opcode, payload=b"", value=0, flags=2, word=0, ack=0, extended=b""):
    """As struct record of src/link/record.h, without its mark."""
    body = bytes([opcode, flags, 0, 0]) + struct.pack("=IIII", 0, 0, word, ack) + extended + payload
    return step(RECORD, value, 0, (struct.pack("=I", len(body) + 12) + body)[:255])


def seeds():
    yield "met", MEET + send(0) + send(1) + send(2) + send(3) + send(4) + step(SLEEP)
    for which in range(4):
        for how in 1, 2, 3:
            yield f"greet-{which}-{how}", step(GREET, how << 2 * which) + send(0) + MEET
    for at, value in (0, b"x"), (8, b"\1"), (12, bytes(4)), (12, b"\xff" * 4), (12, b"\1\0\0\0"), (16, bytes(4)), (16, b"\xff" * 4):
        yield f"greet-at-{at}-{value[0]:02x}", step(GREET, 0, at, value) + MEET
    yield "twice", MEET * 3 + record(4, bytes(16)) + step(PART) + MEET + send(0)
    for opcode in [*range(0x18), 0x1c, 0x1d, 0x24, 0x64, 0x65, 0x81, 0xa4, 0xc0, 0xc1]:
        extended = bytes({0x13: 32, 0x14: 32, 0x12: 16, 0x64: 24, 0x65: 24, 0xa4: 8, 0xc0: 24, 0xc1: 24}.get(
            opcode, 16 if opcode in (6, 10, 11, 12, 0x1c) else 0))
        value = DATAGRAM if opcode & 0xe0 in (0x60, 0xc0) else 0
        payload = bytes(range(32)) if opcode not in (0x0c, 0x11, 0x12, 0x13, 0x14) else b""
        yield f"record-{opcode:02x}", MEET + b"".join(
            record(opcode, payload, value | more, extended=extended) for more in (0, PSN, QPN)) + step(SLEEP)
    piece = struct.pack("=QII", 0x1000, 64, 0)
    for count in range(1, 5):
        yield f"reference-{count}", MEET + record(4, piece * count, flags=2 | 16) + record(1, piece, flags=16) + send(2)
    yield "sizes", MEET + b"".join(record(4, bytes(n), SIZE) for n in (0, 8, 200)) + step(RECORD, SIZE, 0, b"\xff" * 12)
    yield "short", MEET + b"".join(step(RECORD, QPN, 0, bytes(n)) for n in range(0, 40, 3))
    yield "acknowledged", MEET + send(2) + record(4, bytes(8), flags=8, ack=101) + record(0x11, ack=101, word=0x1f000001)
    for ring in 0, 1:
        for word in range(4):
            for content in bytes(8), b"\xff" * 8, b"\0\0\0\1\0\0\0\0":
                yield f"word-{ring}-{word}-{content[3]:02x}{content[0]:02x}", MEET + send(2, 0, 100) + step(
                    WORDS, ring | word << 1, 0, content) + send(2, 0, 100) * 6 + step(SLEEP) + record(4, bytes(16))
    for entry, size in (QP_ENTRY, 24), (REGION_ENTRY, 64), (FILE_ENTRY, 44), (VISITOR, 16), (HEADER, 56):
        for at in range(0, size, 8):
            for content in bytes(8), b"\xff" * 8, b"\1\0\0\0\1\0\0\0":
                yield f"table-{entry}-{at}-{content[0]:02x}", MEET + send(0) + send(1) + step(
                    TABLE, entry, at, content) + send(0, 9, 30) + send(1, 200, 40) + step(SLEEP) + send(0)
    yield "file", MEET + step(TABLE, REGION_ENTRY, 60, b"\1\0\0\0") + step(TABLE, FILE_ENTRY, 0, bytes(range(1, 48))) + send(
        0) + send(1) + step(SLEEP)
    each = b"".join(send(region + opcode, 1, 1) + send(region + opcode, 1, 60) for region in REGIONS for opcode in (0, 1, 4, 5))
    yield "reach", MEET + each * 2 + step(SLEEP)
    yield "reach-own-handler", MEET + step(SIGNAL) + each * 2
    closed = step(TABLE, HEADER, 48, b"\x7f\0\0\0")
    for entry, sends in (FILE_ENTRY, 16), (SEGMENT, 32):
        for at, content in (0, bytes(8)), (0, b"\x7f" * 8), (8, b"\1" * 8), (16, b"\1" * 8), (24, b"\xff" * 8), (24, bytes(8)), (
                32, b"\xff" * 4), (32, bytes(4)), (36, b"\0"), (36, b"\1"), (37, b"\0"), (37, b"\1"):
            change = step(TABLE, entry, at, content)
            yield f"file-{entry}-{at}-{content[0]:02x}", MEET + change + send(sends, 1, 4) + closed + step(SLEEP) + send(sends, 2, 4)
            yield f"file-late-{entry}-{at}-{content[0]:02x}", MEET + send(sends, 1, 4) + change + closed + step(
                SLEEP) + send(sends, 2, 4) + step(SIGNAL) + send(sends, 3, 4)
    for how in b"", step(SIGNAL):
        yield f"shrinks-{len(how)}", MEET + how + b"".join(
            send(16 + opcode, 250, 1) + step(RESIZE, 1) + send(16 + opcode, 250, 1) + send(16 + opcode, 250, 60) + step(RESIZE, 8)
            for opcode in (0, 1, 4, 5))
    yield "grows", MEET + b"".join(send(48 + opcode, at, 100) for at in (0, 1, 100, 130, 255) for opcode in range(2)) + send(48, 0, 9)
    for entry, sends in (REGION_ENTRY, 0), (IN_FILE, 16), (IN_SEGMENT, 32), (LONG, 48):
        for at, content in (40, b"\xff" * 6), (48, b"\xff" * 8), (40, b"\0\0\0\0\xff\xff\1\0"), (48, bytes(8)), (56, b"\xff" * 4), (
                60, b"\x40\0\0\0"), (60, b"\x41\0\0\0"), (60, b"\2\0\0\0"), (24, b"\xff" * 8), (16, b"\1" + bytes(7)):
            change = step(TABLE, entry, at, content)
            yield f"region-{entry}-{at}-{content[0]:02x}-{content[-1]:02x}", MEET + change + send(sends, 1, 2) + send(
                sends + 1, 250, 60) + send(sends + 4, 0, 1) + change + send(sends, 1, 2)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, seed in seeds():
        (folder / name).write_bytes(seed)


if __name__ == "__main__":
    main()
