#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""wire-seeds.py FOLDER - seeds for fuzz_wire: each kind of packet from the peer and from a stranger, due and not, alone
and in trains; messages of connection management; what other processes hand over."""
import pathlib
import struct
import sys

RAW, SEALED, MAD, HANDED, SEND, TIME, LOSE = range(7)
A, B, DATAGRAM, AS_IT_IS = range(4)
PEER, PSN, KEY, TOLD, CONGESTED, FORGED = 4, 8, 16, 32, 64, 128
UD, GSI_KEY = 0x60, struct.pack(">I", 0x80010000)
CM = {"req": 0x10, "mra": 0x11, "rej": 0x12, "rep": 0x13, "rtu": 0x14, "dreq": 0x15, "drep": 0x16, "sidr": 0x17,
      "sidr-rep": 0x18, "lap": 0x19, "apr": 0x1a}
# extended headers of RC's opcodes, in bytes
HEADERS = {0x06: 16, 0x0a: 16, 0x0b: 20, 0x0c: 16, 0x0d: 4, 0x0f: 4, 0x10: 4, 0x11: 4, 0x12: 12, 0x13: 28, 0x14: 28,
           0x03: 4, 0x05: 4, 0x09: 4, 0x16: 4, 0x17: 4, 0x1c: 24, 0x1d: 20}
NAK = b"\x60\0\0\0"


def record(kind, how, bytes_=b"", psn=0, segment=0, length=None):
    return struct.pack(">BBbBH", kind, how, psn, segment, len(bytes_) if length is None else length) + bytes_


def packet(opcode, length=0, header=None):
    extended = bytes(HEADERS.get(opcode, 0)) if header is None else header
    if opcode in (0x06, 0x0a, 0x0b, 0x0c):
        extended = bytes(12) + struct.pack(">I", max(length, 8)) + extended[16:]
    pad = -length % 4
    return (bytes([opcode, pad << 4, 0xff, 0xff]) + bytes(4) + b"\x80\0\0\0" + extended + bytes(range(length)) +
            bytes(pad) + bytes(4))


def mad(attribute, service=7174):
    out = bytearray(256)
    out[:4] = 1, 7, 2, 3
    out[16:18] = struct.pack(">H", attribute)
    out[24:32] = struct.pack(">II", 0x01020304, 0)
    if attribute == 0x10:
        out[32:40] = struct.pack(">Q", 0x0000000001060000 + service)
        out[56:60] = b"\0\1\2\1"
    return bytes(out)


def handed(kind, bytes_):
    """As struct record of src/host/handover.c."""
    there = bytes(10) + b"\xff\xff\x7f\0\0\1"
    return struct.pack("=IBBBB", len(bytes_), 0, 0, kind, 0) + there * 2 + bytes_ + bytes(-len(bytes_) % 8)


def seeds():
    rc = [*range(0x18), 0x1c, 0x1d, 0x81, 0xc0, 0xc1, 0x24, 0x64, 0xa4]
    ud = packet(UD + 4, 32, bytes(8))
    for opcode in rc:
        one = packet(opcode, 64 if opcode in (0, 1, 2, 4, 5, 6, 7, 8, 10, 11, 0x0d, 0x0e, 0x0f, 0x10) else 0)
        yield f"due-{opcode:02x}", record(SEND, A, segment=2, length=900) + b"".join(
            record(SEALED, A + i + PEER + PSN + KEY, one) for i in range(2)) + record(TIME, 0, segment=200)
        yield f"not-due-{opcode:02x}", record(SEND, A, segment=0, length=400) + b"".join(
            record(SEALED, B + PEER + PSN + KEY + more, one, psn=psn)
            for more, psn in ((0, -3), (0, 5), (TOLD, -100), (FORGED, 100)))
        yield f"stranger-{opcode:02x}", b"".join(record(SEALED, A + PSN + KEY + i, one, psn=i) for i in range(3)) * 2
    send = packet(4, 64)
    for size in 3, 12:
        for how in 0, TOLD, CONGESTED + TOLD:
            train = (send * size)[:-4 * 7]
            yield f"train-{size}-{how}", record(SEALED, A + PEER + PSN + how, train, psn=-20, segment=len(send) // 4) * 3
    small = packet(4, 16)
    yield "calm", b"".join(record(SEALED, A + PEER + PSN, small, psn=-50) for _ in range(40)) + record(
        SEALED, A + PEER + PSN, small * 6, psn=-9, segment=len(small) // 4) * 3 + record(RAW, 0, bytes(1024))
    yield "ack-last", record(SEND, A, length=300) + record(
        SEALED, A + PEER + PSN, packet(4, 64) * 2 + packet(0x11), segment=len(send) // 4) * 2
    yield "datagrams", record(SEALED, DATAGRAM + KEY, ud) * 9 + record(SEALED, DATAGRAM, ud)
    yield "nak", record(SEND, A, segment=1, length=900) + record(SEALED, A + PEER + PSN, packet(0x11, 0, NAK), psn=3)
    yield "stray", record(SEALED, AS_IT_IS, packet(4, 8)) + record(SEALED, AS_IT_IS, b"\x04\0\xff\xff\0\x33\x44\x55" +
                                                                     packet(4, 8)[8:]) * 3
    yield "raw", record(RAW, 0, bytes(range(256)) * 4) * 3 + record(RAW, TOLD, bytes(5000), segment=4)
    for name, attribute in CM.items():
        yield f"cm-{name}", record(MAD, PEER, mad(attribute)) + record(MAD, 0, mad(attribute)) + record(TIME, 0, segment=255)
    yield "cm-other-service", record(MAD, 0, mad(0x10, 9)) * 3 + record(TIME, 0, segment=250) * 2
    yield "cm-flood", b"".join(record(MAD, 0, mad(0x10)[:36], psn=i) for i in range(60)) + record(TIME, 0, segment=255)
    yield "handed", record(HANDED, 0, handed(0, packet(4, 8)[:-4]) * 2 + handed(1, bytes(96) + packet(0xa4, 8)[:-4]) +
                           handed(2, bytes(32)) + handed(3, bytes(8)) + handed(7, b"")) + record(HANDED, 0, bytes(60))
    later = record(TIME, 0, segment=200) * 4
    for opcode in range(3):  # a SEND of one packet; a WRITE and a READ of eight
        for which in 1, 2, 4, 8, 0x10, 0x40, 0x55, 0x2a, 0x0f, 0xfe, 0xff:
            yield f"lose-{opcode}-{which:02x}", (record(SEND, A, segment=opcode, length=2000) + record(
                LOSE, 0, segment=which) + record(SEND, A, segment=opcode, length=2000)) * 3 + later
        yield f"lose-twice-{opcode}", (record(LOSE, 0, psn=0x55, segment=0x54) + record(
            SEND, A, segment=opcode, length=2000)) * 4 + later
    yield "gsi", record(SEALED, AS_IT_IS, packet(UD + 4, 256, GSI_KEY + bytes(4)).replace(bytes(4), b"\0\0\0\1", 1)) * 2


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, seed in seeds():
        (folder / name).write_bytes(seed)


if __name__ == "__main__":
    main()
